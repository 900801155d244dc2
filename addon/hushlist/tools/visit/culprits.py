"""Which rules break a page: the fewest that need an exception, found by opening the page again and again.

QuickXplain: half of the rules is excepted at a time, so that one culprit among n takes some log n visits. It assumes
that one exception more breaks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hushlist.tools.visit.filter_process import VisitError
from hushlist.tools.visit.page_verdict import Verdict, verdict
from hushlist.tools.visit.signals import RuleUse
from hushlist.tools.visit.visitor import PageResult, Visitor

#: most visits of one page
MOST_TRIES = 40


class _TooManyTriesError(Exception):
    """The page was opened as often as it may be."""


def fewest(rules: Sequence[RuleUse], mends: Callable[[frozenset[RuleUse]], bool]) -> list[RuleUse]:
    """The fewest of rules that mend a page, where all of them do.

    >>> rules = [RuleUse("list", line, "", "", ()) for line in range(8)]
    >>> [rule.line for rule in fewest(rules, lambda chosen: {2, 7} <= {rule.line for rule in chosen})]
    [2, 7]
    """

    def search(chosen: frozenset[RuleUse], is_new: bool, rest: Sequence[RuleUse]) -> list[RuleUse]:
        if is_new and mends(chosen):
            return []
        if len(rest) == 1:
            return [*rest]
        first, second = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        later = search(chosen | {*first}, True, second)
        earlier = search(chosen | {*later}, bool(later), first)
        return [*earlier, *later]

    return search(frozenset(), False, rules) if rules else []


def find_culprits(visitor: Visitor, result: PageResult) -> PageResult:
    """A broken page's result, with the fewest rules that break it, and what to paste."""
    if result.verdict is not Verdict.BROKEN:
        return result
    mended: dict[frozenset[RuleUse], bool] = {}
    seen = {_without_uses(rule): rule for rule in result.rules}

    def mends(chosen: frozenset[RuleUse]) -> bool:
        if chosen not in mended:
            if len(mended) >= MOST_TRIES:
                raise _TooManyTriesError
            fired, signals = visitor.visit_by(result.address, visitor.policies.with_lists(chosen))
            for rule in fired:
                seen.setdefault(_without_uses(rule), rule)
            mended[chosen] = verdict(signals) is not Verdict.BROKEN
        return mended[chosen]

    try:
        chosen: list[RuleUse] = []
        # what loads once a rule has its exception may meet the next rule
        while not (is_mended := bool(seen) and mends(frozenset(seen))) and len(chosen) < len(seen):
            chosen = [*seen]
        if not is_mended:
            why = "it stays broken with exceptions for all rules that fire on it: no rule alone does it"
            return replace(result, tries=len(mended), unmended=why)
        culprits = [seen[rule] for rule in fewest([*seen], mends)]
    except _TooManyTriesError:
        return replace(result, tries=len(mended), unmended=f"nothing was found in {MOST_TRIES} visits")
    except VisitError as error:
        return replace(result, tries=len(mended), unmended=str(error))
    finally:
        visitor.use_the_lists()
    lines = tuple(visitor.policies.exception_for(rule) for rule in culprits)
    return replace(result, culprits=tuple(culprits), exceptions=lines, tries=len(mended))


def _without_uses(rule: RuleUse) -> RuleUse:
    return rule._replace(requests=())
