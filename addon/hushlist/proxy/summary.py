"""What a session came to, for the log at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from mitmproxy.utils.strutils import escape_control_characters

from hushlist.journal.record import Privacy, url_of
from hushlist.match.rule import Action
from hushlist.policy.decision import STOPPING
from hushlist.policy.log import Queries
from hushlist.proxy.figures import Figures
from hushlist.proxy.in_force import InForce
from hushlist.proxy.state import log_of

#: names of each kind
_MOST = 5
_WORDS = {
    Action.BLOCK: "blocked",
    Action.WARN: "warned of",
    Action.ALLOW: "allowed",
    Action.TAG: "tagged",
    Action.PASS: "passed without a rule",
}


def summary(in_force: InForce) -> str:
    """Lines for people, such as are printed when mitmdump ends; empty where there was nothing to decide."""
    figures = in_force.figures
    if not figures.total and not in_force.failing.refused and not in_force.failing.passed:
        return ""
    lines = [*_decided(figures), *_slowest(in_force), *_trouble(in_force)]
    # titles of lists and names of hosts are other people's
    return "\n".join(escape_control_characters(line) for line in lines)


def _decided(figures: Figures) -> Iterator[str]:
    actions: Counter[Action] = Counter()
    would_block = 0
    for outcome, number in figures.outcomes.top():
        actions[outcome.action] += number
        would_block += number if outcome.would_block else 0
    parts = [f"{actions[action]:,} {word}" for action, word in _WORDS.items() if actions[action]]
    yield f"{_count(figures.total, 'request')} decided" + (f": {', '.join(parts)}" if parts else "")
    if would_block:
        yield f"  the dry run let {would_block:,} of them pass"
    stopped = ((name.label, number) for (name, action), number in figures.lists.top() if action in STOPPING)
    yield from _top("stopped by list", stopped)
    categories = ((name, number) for (name, action), number in figures.categories.top() if action in STOPPING)
    yield from _top("stopped by category", categories)
    yield from _top("stopped by host", figures.hosts.top())
    rules = ((f"{pattern} ({place})", number) for (place, pattern), number in figures.rules.top())
    yield from _top("hits by rule", rules)


def _top(title: str, counts: Iterable[tuple[str, int]]) -> Iterator[str]:
    """The most frequent, of which some may be counted in more than one place."""
    together: Counter[str] = Counter()
    for name, number in counts:
        together[name] += number
    if together:
        shown = ", ".join(f"{name} {number:,}" for name, number in together.most_common(_MOST))
        yield f"  {title}: {shown}" + (f", and {len(together) - _MOST:,} more" if len(together) > _MOST else "")


def _slowest(in_force: InForce) -> Iterator[str]:
    figures = in_force.figures
    slowest, quantiles = figures.slowest, figures.quantiles(0.5, 0.99)
    if slowest is not None:
        half, most = (f"{(one or 0) / 1000:,.1f} µs" for one in quantiles)
        url = url_of(slowest.record.decision, Privacy(Queries(log_of(in_force).queries)))
        yield f"  decisions took {half} (99 %: {most}), the slowest {slowest.duration / 1000:,.1f} µs: {url}"


def _trouble(in_force: InForce) -> Iterator[str]:
    figures, readings, failing = in_force.figures, in_force.readings, in_force.failing
    if figures.faults:
        yield f"  {_count(figures.faults, 'address', 'es')} could not be read"
    if failing.refused or failing.passed:
        yield f"  the filter failed: {failing.refused:,} refused, {failing.passed:,} passed undecided"
    if readings[True] > 1 or readings[False]:
        refused = f", and {readings[False]:,} of them not used for their mistakes" if readings[False] else ""
        yield f"  the policy was read {_count(sum(readings.values()), 'time')}{refused}"


def _count(number: int, word: str, many: str = "s") -> str:
    return f"{number:,} {word}{'' if number == 1 else many}"
