"""The statistics as text: metrics in the format of Prometheus, and the summary at the end of a session.

Labels are names from the policy (lists, categories, groups), never from requests, which have unlimited values.
Spec: Prometheus, Exposition formats: "Text-based format", version 0.0.4
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from hushlist.core.decide.decision import STOPPING
from hushlist.core.errors import printable
from hushlist.core.match.rule import Action
from hushlist.core.system.memory import resident_octets
from hushlist.extensions.dashboard.dashboard_data import actions_of, lists_of, log_of, store_fault
from hushlist.extensions.journal.log_keys import LoggedQueries
from hushlist.extensions.journal.log_record import Privacy, url_of
from hushlist.extensions.subscriptions.list_watch import states_in
from hushlist.proxy.bounds.bounded_input import not_taken
from hushlist.proxy.parts import Metric
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.statistics import BOUNDS, Statistics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "hushlist_"
#: metric -> what it is; the name of a counter ends in "_total", and any other metric is a gauge
_HELP = {
    "decisions_total": "Requests that were decided.",
    "would_block_total": "Requests that passed by the dry run alone.",
    "list_decisions_total": "Requests that a rule of a list decided.",
    "category_decisions_total": "Requests that a rule of a category decided.",
    "unreadable_total": "Requests that could not be read.",
    "failures_total": "What the filter has failed on, by what became of it.",
    "mode": "The mode of the proxy, which is 1.",
    "rules": "Rules in force.",
    "list_rules": "Rules of a list in force.",
    "list_modified_timestamp_seconds": "When the file of a list was changed that is in force.",
    "list_held_back": "Whether a version of a list is held back, so that an older one is in force.",
    "readings_total": "How often the policy was read, by what came of it.",
    "last_reading_timestamp_seconds": "When the policy was last read.",
    "last_reading_seconds": "How long that took.",
    "last_reading_used": "Whether that is in force.",
    "store_failing": "Whether nothing can be unblocked.",
    "patches_missing": "Names of mitmproxy, and of what it reads protocols by, that are not as the filter needs them.",
    "start_time_seconds": "When the filter was started.",
}
#: values of labels, and the value of the metric, if it has one
_Sample = tuple[tuple[str, ...], float | None]


def metrics(runtime: Runtime) -> str:
    runtime.statistics.count()
    lines = (*_decisions(runtime), *_durations(runtime.statistics), *_state(runtime))
    return "".join(f"{line}\n" for line in lines)


def _decisions(runtime: Runtime) -> Iterator[str]:
    statistics, failure_policy = runtime.statistics, runtime.failure_policy
    outcomes, decided = statistics.outcomes.top(), Counter[tuple[str, str]]()
    for (action, group, _), number in outcomes:
        decided[action.value, group] += number
    yield from _family("decisions_total", ("action", "group"), decided.items())
    stopped = ((outcome, number) for outcome, number in outcomes if outcome.would_block and outcome.action in STOPPING)
    by_group = (((outcome.action.value, outcome.group), number) for outcome, number in stopped)
    yield from _family("would_block_total", ("action", "group"), by_group)
    by_list = (((action.value, *name), number) for (name, action), number in statistics.lists.top())
    yield from _family("list_decisions_total", ("action", "list", "file"), by_list)
    by_category = (((action.value, name), number) for (name, action), number in statistics.categories.top())
    yield from _family("category_decisions_total", ("action", "category"), by_category)
    yield from _single("unreadable_total", statistics.faults)
    results = [(("refused",), failure_policy.refused), (("passed",), failure_policy.passed)]
    yield from _family("failures_total", ("result",), results)


def _durations(statistics: Statistics) -> Iterator[str]:
    name, total = f"{_PREFIX}decision_duration_seconds", sum(statistics.histogram)
    yield from _head(name, "histogram", "How long decisions took, but for what mitmproxy does itself.")
    for bound, number in zip(BOUNDS, accumulate(statistics.histogram), strict=False):
        yield _line(f"{name}_bucket", {"le": _number(bound / 1e9)}, number)
    yield _line(f"{name}_bucket", {"le": "+Inf"}, total)
    yield _line(f"{name}_sum", {}, statistics.duration / 1e9)
    yield _line(f"{name}_count", {}, total)


def _state(runtime: Runtime) -> Iterator[str]:
    engine, reading = runtime.engine, runtime.reading
    yield from _family("mode", ("mode",), [((runtime.mode,), 1)])
    if engine is not None:
        layers = engine.index.directory.rules
        yield from _family("rules", ("layer",), (((layer,), layers[layer]) for layer in sorted(layers)))
        lists = {(listed.layer, listed.file): listed for listed in lists_of(engine)}.values()
        rules = (((listed.layer, listed.title or "", listed.file), listed.rules) for listed in lists)
        yield from _family("list_rules", ("layer", "list", "file"), rules)
        modified = {listed.file: ((listed.file,), listed.modified) for listed in lists}
        yield from _family("list_modified_timestamp_seconds", ("file",), modified.values())
    states = states_in(runtime)
    held = (
        {}
        if engine is None
        else {listed.file: ((listed.file,), float(listed.held is not None)) for listed in lists_of(engine)}
    )
    held |= {url: ((url,), float(bool(state.held))) for url, state in states.items()}
    yield from _family("list_held_back", ("file",), held.values())
    readings = ((("used" if is_good else "refused",), number) for is_good, number in runtime.readings.items())
    yield from _family("readings_total", ("result",), readings)
    if reading is not None:
        yield from _single("last_reading_timestamp_seconds", reading.moment)
        yield from _single("last_reading_seconds", reading.duration)
        yield from _single("last_reading_used", reading.problem is None)
    yield from _single("store_failing", store_fault(runtime) is not None)
    yield from _single("patches_missing", len(not_taken()))
    for metrics in runtime.parts.metrics:
        for metric in metrics():
            yield from _written(metric)
    resident = resident_octets()
    if resident is not None:
        yield from _head("process_resident_memory_bytes", "gauge", "Memory of this process.")
        yield _line("process_resident_memory_bytes", {}, resident)
    yield from _single("start_time_seconds", runtime.statistics.started)


# -- the format --------------------------------------------------------------------------------------------------------


def _single(name: str, value: float) -> Iterator[str]:
    return _family(name, (), [((), value)])


def _family(name: str, labels: Sequence[str], samples: Iterable[_Sample]) -> Iterator[str]:
    return _written(Metric(name, _HELP[name], samples, tuple(labels)))


def _written(metric: Metric) -> Iterator[str]:
    """A metric, with a line for each sample that has a value."""
    name, text, samples, labels = metric
    yield from _head(f"{_PREFIX}{name}", "counter" if name.endswith("_total") else "gauge", text)
    for values, value in samples:
        if value is not None:
            yield _line(f"{_PREFIX}{name}", dict(zip(labels, values, strict=True)), value)


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


# -- the summary -------------------------------------------------------------------------------------------------------

#: most names of each kind
_MOST = 5
#: characters of a URL that are printed
_LONGEST = 200
#: units of time, in ns
_UNITS = (("s", 10**9), ("ms", 10**6), ("µs", 10**3))
_WORDS = {
    Action.BLOCK: "blocked",
    Action.WARN: "warned of",
    Action.ALLOW: "allowed",
    Action.TAG: "tagged",
    Action.PASS: "passed without a rule",
}


def summary(runtime: Runtime) -> str:
    """Lines for people, printed when mitmdump ends; empty if there was no decision."""
    statistics, failure_policy = runtime.statistics, runtime.failure_policy
    if not statistics.total and not failure_policy.refused and not failure_policy.passed:
        return ""
    lines = [*_decided(statistics), *_slowest(runtime), *_trouble(runtime)]
    # others choose titles of lists and names of hosts
    return "\n".join(printable(line) for line in lines)


def _decided(statistics: Statistics) -> Iterator[str]:
    actions, would_block = actions_of(statistics)
    parts = [f"{actions[action]:,} {word}" for action, word in _WORDS.items() if actions[action]]
    if would_block:
        parts.append(f"would block {would_block:,}, which the dry run let pass")
    yield f"{_count(statistics.total, 'request')} decided" + (f": {', '.join(parts)}" if parts else "")
    stops = any(actions[action] for action in STOPPING)
    word = "stopped" if not would_block else "stopped, or only in the dry run," if stops else "would be stopped"
    stopped = ((name.label, number) for (name, action), number in statistics.lists.top() if action in STOPPING)
    yield from _top(f"{word} by list", stopped)
    categories = ((name, number) for (name, action), number in statistics.categories.top() if action in STOPPING)
    yield from _top(f"{word} by category", categories)
    yield from _top(f"{word} by host", statistics.hosts.top())
    rules = ((f"{pattern} ({place})", number) for (place, pattern), number in statistics.rules.top())
    yield from _top("hits by rule", rules)


def _top(title: str, counts: Iterable[tuple[str, int]]) -> Iterator[str]:
    """The most frequent names; the counts of equal names are added."""
    together: Counter[str] = Counter()
    for name, number in counts:
        together[name] += number
    if together:
        shown = ", ".join(f"{name} {number:,}" for name, number in together.most_common(_MOST))
        yield f"  {title}: {shown}" + (f", and {len(together) - _MOST:,} more" if len(together) > _MOST else "")


def _slowest(runtime: Runtime) -> Iterator[str]:
    slowest = runtime.statistics.slowest
    if slowest is not None:
        half, most = (_duration(duration or 0) for duration in runtime.statistics.quantiles(0.5, 0.99))
        url = url_of(slowest.record.decision, Privacy(LoggedQueries(log_of(runtime).queries)))
        shown = url if len(url) <= _LONGEST else f"{url[:_LONGEST]} …"
        yield f"  decisions took {half} (99 %: {most}), the slowest {_duration(slowest.duration)}: {shown}"


def _duration(nanoseconds: float) -> str:
    """In a unit that makes it short.

    >>> _duration(900), _duration(134_622_500), _duration(2_500_000_000)
    ('0.9 µs', '134.6 ms', '2.5 s')
    """
    unit, size = next(((unit, size) for unit, size in _UNITS if nanoseconds >= size), _UNITS[-1])
    return f"{nanoseconds / size:,.1f} {unit}"


def _trouble(runtime: Runtime) -> Iterator[str]:
    readings, failure_policy = runtime.readings, runtime.failure_policy
    if runtime.statistics.faults:
        yield f"  {_count(runtime.statistics.faults, 'address', 'es')} could not be read"
    if failure_policy.refused or failure_policy.passed:
        yield f"  the filter failed: {failure_policy.refused:,} refused, {failure_policy.passed:,} passed undecided"
    if readings[True] > 1 or readings[False]:
        refused = f", and {readings[False]:,} of them not used for their mistakes" if readings[False] else ""
        yield f"  the policy was read {_count(sum(readings.values()), 'time')}{refused}"


def _count(number: int, word: str, many: str = "s") -> str:
    return f"{number:,} {word}{'' if number == 1 else many}"
