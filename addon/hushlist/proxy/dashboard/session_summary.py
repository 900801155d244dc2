"""The summary of a session, for the log at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from hushlist.decide.decision import STOPPING
from hushlist.errors import printable
from hushlist.journal.log_record import Privacy, url_of
from hushlist.match.rule import Action
from hushlist.policy.proxy_settings import LoggedQueries
from hushlist.proxy.dashboard.dashboard_data import log_of
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.statistics import Statistics

#: most names of each kind
_MOST = 5
_WORDS = {
    Action.BLOCK: "blocked",
    Action.WARN: "warned of",
    Action.ALLOW: "allowed",
    Action.TAG: "tagged",
    Action.PASS: "passed without a rule",
}


def summary(runtime: Runtime) -> str:
    """Lines for people, printed when mitmdump ends; empty if there was no decision."""
    statistics = runtime.statistics
    if not statistics.total and not runtime.failure_policy.refused and not runtime.failure_policy.passed:
        return ""
    lines = [*_decided(statistics), *_slowest(runtime), *_trouble(runtime)]
    # others choose titles of lists and names of hosts
    return "\n".join(printable(line) for line in lines)


def _decided(statistics: Statistics) -> Iterator[str]:
    actions: Counter[Action] = Counter()
    would_block = 0
    for outcome, number in statistics.outcomes.top():
        actions[outcome.action] += number
        would_block += number if outcome.would_block else 0
    parts = [f"{actions[action]:,} {word}" for action, word in _WORDS.items() if actions[action]]
    yield f"{_count(statistics.total, 'request')} decided" + (f": {', '.join(parts)}" if parts else "")
    if would_block:
        yield f"  the dry run let {would_block:,} of them pass"
    stopped = ((name.label, number) for (name, action), number in statistics.lists.top() if action in STOPPING)
    yield from _top("stopped by list", stopped)
    categories = ((name, number) for (name, action), number in statistics.categories.top() if action in STOPPING)
    yield from _top("stopped by category", categories)
    yield from _top("stopped by host", statistics.hosts.top())
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
    statistics = runtime.statistics
    slowest, quantiles = statistics.slowest, statistics.quantiles(0.5, 0.99)
    if slowest is not None:
        half, most = (f"{(one or 0) / 1000:,.1f} µs" for one in quantiles)
        url = url_of(slowest.record.decision, Privacy(LoggedQueries(log_of(runtime).queries)))
        yield f"  decisions took {half} (99 %: {most}), the slowest {slowest.duration / 1000:,.1f} µs: {url}"


def _trouble(runtime: Runtime) -> Iterator[str]:
    statistics, readings, failure_policy = runtime.statistics, runtime.readings, runtime.failure_policy
    if statistics.faults:
        yield f"  {_count(statistics.faults, 'address', 'es')} could not be read"
    if failure_policy.refused or failure_policy.passed:
        yield f"  the filter failed: {failure_policy.refused:,} refused, {failure_policy.passed:,} passed undecided"
    if readings[True] > 1 or readings[False]:
        refused = f", and {readings[False]:,} of them not used for their mistakes" if readings[False] else ""
        yield f"  the policy was read {_count(sum(readings.values()), 'time')}{refused}"


def _count(number: int, word: str, many: str = "s") -> str:
    return f"{number:,} {word}{'' if number == 1 else many}"
