"""Whether there is a policy of the user's own: the first start is there while there is none."""

from __future__ import annotations

from contextlib import suppress
from os.path import lexists

from mitmproxy import ctx

from hushlist.core.policy import household_policy
from hushlist.core.policy.policy_file import Policy


def is_missing(_: Policy | None = None) -> bool:
    """Whether there is none, and a place for one."""
    with suppress(RuntimeError, AttributeError):
        return not ctx.options.hushlist_policy and not lexists(household_policy())
    return False
