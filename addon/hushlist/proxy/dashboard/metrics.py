"""The statistics in the text format of Prometheus.

Labels are names from the policy (lists, categories, groups), never from requests, which have unlimited values.
Spec: Prometheus, Exposition formats: "Text-based format", version 0.0.4
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from hushlist.decide.decision import STOPPING
from hushlist.proxy.dashboard.dashboard_data import lists_of, log_of
from hushlist.proxy.failure_policy import FailurePolicy
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.statistics import BOUNDS, Statistics
from hushlist.system.memory import resident_octets

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: labels and a value; a metric without value is left out
_Sample = tuple[Mapping[str, str], float | None]
_PREFIX = "hushlist_"


def metrics(runtime: Runtime, mode: str) -> str:
    """All metrics; ``mode`` is the option's."""
    statistics = runtime.statistics
    statistics.count()
    lines = (
        *_decisions(statistics),
        *_failures(runtime.failure_policy),
        *_durations(statistics),
        *_state(runtime, mode),
    )
    return "".join(f"{line}\n" for line in lines)


def _decisions(statistics: Statistics) -> Iterator[str]:
    outcomes = statistics.outcomes.top()
    decided: dict[tuple[str, str], int] = {}
    for (action, group, _), number in outcomes:
        decided[action.value, group] = decided.get((action.value, group), 0) + number
    yield from _family(
        "decisions_total",
        "counter",
        "Requests that were decided.",
        (({"action": action, "group": group}, number) for (action, group), number in decided.items()),
    )
    yield from _family(
        "would_block_total",
        "counter",
        "Requests that passed by the dry run alone.",
        (
            ({"action": one.action.value, "group": one.group}, number)
            for one, number in outcomes
            if one.would_block and one.action in STOPPING
        ),
    )
    yield from _family(
        "list_decisions_total",
        "counter",
        "Requests that a rule of a list decided.",
        (
            ({"action": action.value, "list": name.label, "file": name.source}, number)
            for (name, action), number in statistics.lists.top()
        ),
    )
    yield from _family(
        "category_decisions_total",
        "counter",
        "Requests that a rule of a category decided.",
        (
            ({"action": action.value, "category": name}, number)
            for (name, action), number in statistics.categories.top()
        ),
    )
    yield from _one("unreadable_total", "counter", "Requests that could not be read.", statistics.faults)


def _failures(failure_policy: FailurePolicy) -> Iterator[str]:
    yield from _family(
        "failures_total",
        "counter",
        "What the filter has failed on, by what became of it.",
        (
            ({"result": result}, number)
            for result, number in (("refused", failure_policy.refused), ("passed", failure_policy.passed))
        ),
    )


def _durations(statistics: Statistics) -> Iterator[str]:
    name, total = f"{_PREFIX}decision_duration_seconds", sum(statistics.histogram)
    yield from _head(name, "histogram", "How long decisions took, but for what mitmproxy does itself.")
    for bound, number in zip(BOUNDS, accumulate(statistics.histogram), strict=False):
        yield _line(f"{name}_bucket", {"le": _number(bound / 1e9)}, number)
    yield _line(f"{name}_bucket", {"le": "+Inf"}, total)
    yield _line(f"{name}_sum", {}, statistics.duration / 1e9)
    yield _line(f"{name}_count", {}, total)


def _state(runtime: Runtime, mode: str) -> Iterator[str]:
    engine, reading, log = runtime.engine, runtime.reading, log_of(runtime)
    yield from _family("mode", "gauge", "The mode of the proxy, which is 1.", [({"mode": mode}, 1)])
    if engine is not None:
        rules = engine.index.directory.rules
        yield from _family("rules", "gauge", "Rules in force.", (({"layer": one}, rules[one]) for one in sorted(rules)))
        lists = {(one.layer, one.file): one for one in lists_of(engine)}.values()
        yield from _family(
            "list_rules",
            "gauge",
            "Rules of a list in force.",
            (({"layer": one.layer, "list": one.title or "", "file": one.file}, one.rules) for one in lists),
        )
        yield from _family(
            "list_modified_timestamp_seconds",
            "gauge",
            "When the file of a list was changed that is in force.",
            {one.file: ({"file": one.file}, one.modified) for one in lists}.values(),
        )
    yield from _family(
        "readings_total",
        "counter",
        "How often the policy was read, by what came of it.",
        (({"result": "used" if is_good else "refused"}, number) for is_good, number in runtime.readings.items()),
    )
    if reading is not None:
        yield from _one("last_reading_timestamp_seconds", "gauge", "When the policy was last read.", reading.moment)
        yield from _one("last_reading_seconds", "gauge", "How long that took.", reading.duration)
        yield from _one("last_reading_used", "gauge", "Whether that is in force.", reading.problem is None)
    yield from _one("log_waiting", "gauge", "Records that are still to be written into the log.", log.waiting)
    yield from _one("log_failing", "gauge", "Whether the log cannot be written.", log.fault is not None)
    yield from _one("store_failing", "gauge", "Whether nothing can be unblocked.", runtime.store_fault is not None)
    resident = resident_octets()
    if resident is not None:
        yield from _head("process_resident_memory_bytes", "gauge", "Memory of this process.")
        yield _line("process_resident_memory_bytes", {}, resident)
    yield from _one("start_time_seconds", "gauge", "When the filter was started.", runtime.statistics.started)


# -- the format --------------------------------------------------------------------------------------------------------


def _one(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    return _family(name, kind, text, [({}, value)])


def _family(name: str, kind: str, text: str, samples: Iterable[_Sample]) -> Iterator[str]:
    yield from _head(f"{_PREFIX}{name}", kind, text)
    yield from (_line(f"{_PREFIX}{name}", labels, value) for labels, value in samples if value is not None)


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    written = ",".join(f'{label}="{escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{written}}} {_number(value)}" if written else f"{name} {_number(value)}"


def escaped(text: str) -> str:
    r"""The value of a label; what UTF-8 cannot encode is shown as an escape.

    >>> print(escaped('a"b\\c' + chr(10)))
    a\"b\\c\n

    Spec: "label_value can be any sequence of UTF-8 characters, but the backslash (\), double-quote ("), and line feed
    (\n) characters have to be escaped as \\, \", and \n, respectively."
    """
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    """As Go's ParseFloat() reads it: whole numbers without a point.

    >>> _number(True), _number(3.0), _number(2e-06)
    ('1', '3', '2e-06')
    """
    return str(int(value)) if value == int(value) else repr(value)
