"""Warnings of rules that need to see whole requests of hosts whose connections the policy has not decrypted.

What needs that, extensions say (``core/extension.py:DecryptedNeed``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hushlist.core.errors import Problem
from hushlist.core.extension import DecryptedNeed, extensions_named, load
from hushlist.core.policy.groups import GroupSettings
from hushlist.core.policy.pass_through import NEVER
from hushlist.core.policy.policy_file import Policy

_HTTPS = 443
#: hosts, and groups, that a warning names
_MOST_NAMED = 5


def hidden_hosts(policy: Policy) -> Iterator[Problem]:
    """A warning for each such rule, with its hosts and the groups for which it is so."""
    extensions = [each for each in extensions_named(policy.extensions) if each.needs_decrypted]
    groups = dict[tuple[DecryptedNeed, str, tuple[str, ...]], list[str]]()
    for group in policy.all_groups:
        settings = group.settings
        # an extension of which the policy says nothing is not even imported
        said = [each for each in extensions if any(settings.values.get(key.name) for key in each.policy_keys)]
        for need in (need for each in said for need in load(each.needs_decrypted)(settings)):
            why, hosts = _hidden(need, settings)
            if why:
                groups.setdefault((need, why, hosts), []).append(group.name)
    for (need, why, hosts), names in groups.items():
        what = f"{need.key} of {_some(names)}: over https, {need.otherwise} {_some(hosts) or 'any host'}"
        yield Problem(need.source, need.line, what, why)


def _hidden(need: DecryptedNeed, settings: GroupSettings) -> tuple[str, tuple[str, ...]]:
    """Why connections to hosts are not decrypted, and which hosts these are; empty: all are decrypted."""
    named, passed = {name for name, _ in need.hosts.names}, settings.pass_through
    why = "decrypt: never"
    if settings.decrypt != NEVER:
        below = {name for name, _ in passed.names if need.hosts.covers(name)}
        named = {name for name in named if passed.covers_at(name, _HTTPS)} | below
        why = ("pass-through" + (f" in {passed.place}" if passed.place else "")) if named else ""
    return why, tuple(sorted(name.decode() for name in named))


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
