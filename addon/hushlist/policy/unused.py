"""What a policy says of categories that no rule is about: most often a name that is not quite that of the lists."""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.errors import Problem
from hushlist.match.index import Index
from hushlist.policy.policy import Policy
from hushlist.url.hrn import parse_hrn

#: how many of the lists' names are shown
_MOST_SHOWN = 8


def unused_categories(policy: Policy, index: Index) -> Iterator[Problem]:
    """A warning for each line of the policy that does nothing, since no rule is of that category or of one below it.

    It does nothing now: a list may have such rules tomorrow.
    """
    said = {
        (timed.source, timed.line, name)
        for group in policy.all_groups
        for name, first in group.settings.categories.items()
        for timed in first.chain()
    }
    if not said:
        return
    names = index.categories()
    known = {str(one) for name in map(parse_hrn, names) for one in (name, *name.superordinates())}
    shown = sorted(names)[:_MOST_SHOWN] + ["..."] * (len(names) > _MOST_SHOWN)
    have = f"the lists have {', '.join(shown)}" if shown else "the lists have none"
    for source, line, name in sorted(said):
        if name not in known:
            yield Problem(source, line, name, f"no rule is of this category, nor of one below it ({have})")
