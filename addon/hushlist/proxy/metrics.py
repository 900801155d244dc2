"""The figures in the text format of Prometheus.

Labels name what the policy names: lists, categories, groups; never what clients ask for, of which there is no end.

Spec: Prometheus, Exposition formats: "Text-based format", version 0.0.4
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from hushlist.policy.decision import STOPPING
from hushlist.proxy.failing import Failing
from hushlist.proxy.figures import BOUNDS, Figures
from hushlist.proxy.in_force import InForce
from hushlist.proxy.memory import resident_octets
from hushlist.proxy.state import lists_of, log_of

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: labels and a value; what has no value is not told
_Sample = tuple[Mapping[str, str], float | None]
_PREFIX = "hushlist_"


def metrics(in_force: InForce, mode: str) -> str:
    """All figures; ``mode`` is the option's."""
    figures = in_force.figures
    figures.count()
    lines = (*_decisions(figures), *_failures(in_force.failing), *_durations(figures), *_state(in_force, mode))
    return "".join(f"{line}\n" for line in lines)


def _decisions(figures: Figures) -> Iterator[str]:
    outcomes = figures.outcomes.top()
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
            for (name, action), number in figures.lists.top()
        ),
    )
    yield from _family(
        "category_decisions_total",
        "counter",
        "Requests that a rule of a category decided.",
        (({"action": action.value, "category": name}, number) for (name, action), number in figures.categories.top()),
    )
    yield from _one("unreadable_total", "counter", "Requests that could not be read.", figures.faults)


def _failures(failing: Failing) -> Iterator[str]:
    yield from _family(
        "failures_total",
        "counter",
        "What the filter has failed on, by what became of it.",
        (({"result": result}, number) for result, number in (("refused", failing.refused), ("passed", failing.passed))),
    )


def _durations(figures: Figures) -> Iterator[str]:
    name, total = f"{_PREFIX}decision_duration_seconds", sum(figures.histogram)
    yield from _head(name, "histogram", "How long decisions took, but for what mitmproxy does itself.")
    for bound, number in zip(BOUNDS, accumulate(figures.histogram), strict=False):
        yield _line(f"{name}_bucket", {"le": _number(bound / 1e9)}, number)
    yield _line(f"{name}_bucket", {"le": "+Inf"}, total)
    yield _line(f"{name}_sum", {}, figures.duration / 1e9)
    yield _line(f"{name}_count", {}, total)


def _state(in_force: InForce, mode: str) -> Iterator[str]:
    engine, reading, log = in_force.engine, in_force.reading, log_of(in_force)
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
        (({"result": "used" if is_good else "refused"}, number) for is_good, number in in_force.readings.items()),
    )
    if reading is not None:
        yield from _one("last_reading_timestamp_seconds", "gauge", "When the policy was last read.", reading.moment)
        yield from _one("last_reading_seconds", "gauge", "How long that took.", reading.duration)
        yield from _one("last_reading_used", "gauge", "Whether that is in force.", reading.problem is None)
    yield from _one("log_waiting", "gauge", "Records that are still to be written into the log.", log.waiting)
    yield from _one("log_failing", "gauge", "Whether the log cannot be written.", log.fault is not None)
    yield from _one("store_failing", "gauge", "Whether nothing can be unblocked.", in_force.store_fault is not None)
    resident = resident_octets()
    if resident is not None:
        yield from _head("process_resident_memory_bytes", "gauge", "Memory of this process.")
        yield _line("process_resident_memory_bytes", {}, resident)
    yield from _one("start_time_seconds", "gauge", "When the filter was started.", in_force.figures.started)


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
    r"""The value of a label; what UTF-8 cannot say is shown as an escape.

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
