"""What a policy needs of its extensions: of one of which it says nothing, nothing is made, or even imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hushlist.core.extension import Extension, extensions_named, load
from hushlist.core.lists.list_formats import UNTOLD
from hushlist.core.match.checks import Check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hushlist.core.policy.policy_file import Policy


def has_value(policy: Policy, keys: Iterable[str]) -> bool:
    """Whether a policy says something under one of the keys of extensions, for everybody or in a group."""
    places = (policy.values, policy.settings.values, *(group.settings.values for group in policy.groups))
    return any(values.get(key) for key in keys for values in places)


def says_something(policy: Policy, extension: Extension) -> bool:
    """Whether a policy may say something of an extension: not where none of its ``part_keys`` has a value."""
    return not extension.part_keys or has_value(policy, extension.part_keys)


def needs_part(policy: Policy | None, extension: Extension) -> bool:
    """Whether the part of an extension has something to do under a policy, or while there is none."""
    if not (extension.part_keys or extension.part_if):
        return True
    if policy is not None and has_value(policy, extension.part_keys):
        return True
    if not extension.part_if:
        return False
    is_needed: Callable[[Policy | None], bool] = load(extension.part_if)
    return is_needed(policy)


def checks_leads(policy: Policy) -> bool:
    """Whether a check looks at where names lead."""
    checks = (rule.pattern for layer in policy.layers for rule in layer.checks)
    return any(check.row is not None and check.row.needs_leads for check in checks if isinstance(check, Check))


def asks_leads(policy: Policy | None) -> bool:
    """Whether it counts where names lead, as the extensions that find that out have it in the policy."""
    if policy is None:
        return False
    modes = [policy.of(each.asks_leads) for each in extensions_named(policy.extensions) if each.asks_leads]
    return "on" in modes or ("auto" in modes and checks_leads(policy))


def has_confirmers(policy: Policy | None) -> bool:
    """Whether rules of a policy have to be confirmed."""
    return policy is not None and bool(policy.confirmers)


def has_dialects(policy: Policy | None) -> bool:
    """Whether a list may be in a dialect of its format: its filters may be about more than addresses."""
    files = () if policy is None else (file for layer in policy.layers for file in layer.lists)
    return any(file.format.dialect or file.format is UNTOLD for file in files)
