"""The figures of several workers as those of one proxy: the metrics, and what the live page shows.

Whichever worker somebody asks, it asks the others, and adds what they say. What one that has ended had counted stays in
their folder, so that no counter falls when workers are restarted.

>>> one = "# HELP a_total A.\\n# TYPE a_total counter\\na_total 1\\n# HELP b B.\\n# TYPE b gauge\\nb 2\\n"
>>> print(added_metrics([one, one]).replace("# ", ""), end="")
HELP a_total A.
TYPE a_total counter
a_total 2
HELP b B.
TYPE b gauge
b 2
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hushlist.core.system.files import locked
from hushlist.proxy.statistics import NotedDecision

#: metrics that are the sum of those of all; of the others, the greatest is told, or the least
_SUMMED = re.compile(r"(_total|_bucket|_sum|_count|_waiting|_bytes)$")
_LEAST = ("start_time_seconds", "last_reading_used")
#: what a name of the page's counts stands beside
_NUMBER = "count"
#: decisions of a worker have numbers by their time, in steps of 10 µs, each with this many places for workers
_STEPS, _PLACES = 10**5, 32
#: of a worker that has ended
_ENDED = "ended.json"
#: seconds that a worker which ends waits for others that do
_PATIENCE = 10.0


# -- metrics -----------------------------------------------------------------------------------------------------------


def added_metrics(texts: Iterable[str]) -> str:
    """Metrics in Prometheus' format, as if one proxy told them."""
    heads, values = dict[str, dict[str, None]](), dict[str, dict[str, str]]()
    for text in texts:
        family = ""
        for line in text.splitlines():
            if line.startswith("# "):
                family = line.split(" ", 3)[2]
                heads.setdefault(family, {})[line] = None
                continue
            key, _, value = line.rpartition(" ")
            series = values.setdefault(family, {})
            series[key] = value if key not in series else _together(key.partition("{")[0], series[key], value)
    lines = (line for family, head in heads.items() for line in (*head, *_samples(values.get(family, {}))))
    return "".join(f"{line}\n" for line in lines)


def _samples(values: Mapping[str, str]) -> Iterable[str]:
    return (f"{key} {value}" for key, value in values.items())


def _together(name: str, value: str, other: str) -> str:
    if _SUMMED.search(name):
        total = float(value) + float(other)
        return str(int(total)) if total == int(total) else repr(total)
    return (min if name.endswith(_LEAST) else max)(value, other, key=float)


def counters(text: str) -> str:
    """Of metrics, those that count: what stays of a worker that has ended."""
    kept, is_counter = list[str](), False
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            is_counter = line.endswith((" counter", " histogram"))
        if line.startswith("# ") or is_counter:
            kept.append(line)
    return "".join(f"{line}\n" for line in kept)


# -- the live page -----------------------------------------------------------------------------------------------------


def number_at(moment: float, worker: int = _PLACES - 1) -> int:
    """The number of a decision of a worker at a moment; without a worker, no smaller one than any at that moment."""
    return int(moment * _STEPS) * _PLACES + worker % _PLACES


def between(noted: Iterable[NotedDecision], first: int, last: int, worker: int) -> list[NotedDecision]:
    """A worker's decisions after a number, up to another, with the numbers that they have among those of all."""
    numbered = (decision._replace(number=number_at(decision.record.moment, worker)) for decision in noted)
    return [decision for decision in numbered if first < decision.number <= last]


def added_data(all_data: Sequence[Mapping[str, Any]], ended: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the live page gets, from what each worker has for it; the first is the one that answers."""
    first, counted = all_data[0], [*all_data, *([] if ended is None else [ended])]
    durations = [part["durations"] for part in counted]
    sample = sorted(value for part in all_data for value in part["sample"])
    slowest = [part["slowest"] for part in durations if part["slowest"] is not None]
    log, memory = dict(first["log"]), [part["memory"] for part in all_data]
    log["waiting"] = sum(part["log"]["waiting"] for part in all_data)
    log["fault"] = next((part["log"]["fault"] for part in all_data if part["log"]["fault"]), None)
    return {
        **first,
        "started": min(part["started"] for part in counted),
        "memory": None if None in memory else sum(memory),
        "log": log,
        "failures": sum(part["failures"] for part in counted),
        "counts": _added_counts([part["counts"] for part in counted]),
        "durations": {
            **first["durations"],
            "histogram": [sum(each) for each in zip(*(part["histogram"] for part in durations), strict=True)],
            "quantiles": {
                share: sample[round(float(share) * (len(sample) - 1))] / 1000 if sample else None
                for share in first["durations"]["quantiles"]
            },
            "slowest": max(slowest, key=lambda part: part["duration"], default=None),
        },
        "sample": [],
        "decisions": sorted((each for part in all_data for each in part["decisions"]), key=lambda each: each["number"]),
    }


def _added_counts(all_counts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    added = dict[str, Any]()
    for key, value in all_counts[0].items():
        parts = [counts[key] for counts in all_counts]
        if isinstance(value, int):
            added[key] = sum(parts)
        elif isinstance(value, dict):
            added[key] = dict(sum((Counter(part) for part in parts), Counter[str]()))
        else:
            together = Counter[str]()
            for row in (row for part in parts for row in part):
                together[json.dumps({name: row[name] for name in row if name != _NUMBER})] += row[_NUMBER]
            most = max(map(len, parts))
            added[key] = [{**json.loads(names), _NUMBER: number} for names, number in together.most_common(most)]
    return added


# -- workers that have ended -------------------------------------------------------------------------------------------


def ended_in(folder: Path) -> tuple[str, dict[str, Any] | None]:
    """What the workers that have ended had counted: metrics, and what the live page gets."""
    try:
        metrics, data = json.loads((folder / _ENDED).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # none has
        return "", None
    return metrics, data


def note_end(folder: Path, metrics: str, data: Mapping[str, Any]) -> None:
    """Add what a worker had counted that ends now."""
    with locked(folder / "ended.lock", _PATIENCE):
        before_metrics, before_data = ended_in(folder)
        new = folder / f"{_ENDED}.new"
        counted = added_data([_without_names(data)], before_data)
        added = [counters(added_metrics([before_metrics, metrics])), counted]
        new.write_text(json.dumps(added), encoding="utf-8")
        new.replace(folder / _ENDED)


def _without_names(data: Mapping[str, Any]) -> dict[str, Any]:
    """Figures without what clients are called and have asked for: that is written into logs alone."""
    counts, durations = {**data["counts"], "clients": [], "hosts": []}, {**data["durations"], "slowest": None}
    return {**data, "counts": counts, "durations": durations, "decisions": [], "requests": [], "sample": []}
