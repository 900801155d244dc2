"""What administrators do at the live page with quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

from hushlist.core.lists.patterns import canonical_target
from hushlist.core.policy.policy_file import Policy
from hushlist.core.routes import (
    Account,
    Action,
    ActionError,
    Done,
    ForWhom,
    MissingError,
    Role,
    Text,
    Whole,
    usable,
    whom_of,
)
from hushlist.extensions.quotas.use_minutes import LONGEST_EXTENSION, Extension, UseMinutes


def extend(
    policy: Policy,
    account: Account,
    use_minutes: UseMinutes | None,
    category: Annotated[str, Text("the hrn: name of the quota's category, or of one above it", 8192, 1)],
    minutes: Annotated[int, Whole("how many minutes more", LONGEST_EXTENSION)],
    client: ForWhom,
) -> Done[Extension]:
    """Give more minutes of a quota in this period."""
    if use_minutes is None:
        raise ActionError("the policy has no quotas")
    with usable():
        whom, canonical = whom_of(client, policy.all_groups), canonical_target("category", category)
        made = use_minutes.extend(canonical, minutes, client=whom, by=account.name)
    return Done(made, {"kind": "extension", **asdict(made)}, Role.APPROVE)


def shorten_again(account: Account, use_minutes: UseMinutes | None, how: Mapping[str, object]) -> None:
    whom, category = None if how["client"] is None else str(how["client"]), str(how["category"])
    extension = Extension(whom, category, int(str(how["minutes"])), int(str(how["minute"])))
    if use_minutes is None or not use_minutes.shorten(extension, by=account.name):
        raise MissingError("the minutes are not there any more")


ACTIONS = (Action("POST", "/extensions", Role.APPROVE, extend, "extended a quota"),)
UNDOINGS = {"extension": shorten_again}
