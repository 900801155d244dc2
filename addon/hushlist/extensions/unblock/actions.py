"""What administrators do at the live page with grants, blocks, requests for access and codes.

An order for good and for everybody is a rule, where it is for a host or a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from time import time
from typing import Annotated, Any

from hushlist.core.errors import one_line, without_user
from hushlist.core.lists.patterns import canonical_target, parse_expression, why_whole
from hushlist.core.match.overbroad import breadth_of_order
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.reach import ALL_CLIENTS, Reach
from hushlist.core.routes import (
    Account,
    Action,
    ActionError,
    Done,
    ForWhom,
    Instead,
    LastingMinutes,
    Limit,
    Minutes,
    MissingError,
    Number,
    Role,
    RoleError,
    Scope,
    Target,
    Text,
    Whole,
    Why,
    usable,
    whom_of,
)
from hushlist.core.url.parts import as_typed
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.journal.log_record import Privacy, who, without_query
from hushlist.extensions.journal.masked_clients import as_told
from hushlist.extensions.unblock import EVERYTHING, GRANT_SCOPES, SITE
from hushlist.extensions.unblock.access_requests import NAMED, AccessRequest
from hushlist.extensions.unblock.admin_blocks import AdminBlock
from hushlist.extensions.unblock.grants import FOR_GOOD, WARNING, Grant, narrowness_of_grant
from hushlist.extensions.unblock.overrides import Overrides

GrantScope = Annotated[str, Text("what the target is; a site: with what its pages load", choices=GRANT_SCOPES)]
#: how grants of an administrator are told of
HOW = "administrator"
_MINUTE = 60.0
#: the end of an order that is that of the night
MORNING = "morning"
OrUntil = Annotated[int, Whole("for how many minutes; 0: until says it", 24 * 60, 0)]
Until = Annotated[str, Text("the next end of the night, by the schedules", choices=("", MORNING))]


@dataclass(frozen=True, slots=True)
class GrantStatus:
    """A grant as the interface shows it."""

    id: int
    scope: str
    target: str
    client: str | None
    #: ``None``: it is for good
    until: float | None
    how: str
    by: str
    made: float
    reason: str | None = None
    #: the number of the request that it answers
    request: int | None = None
    #: what to know of it
    warning: str | None = None


#: a block as the interface shows it
BlockStatus = AdminBlock


@dataclass(frozen=True, slots=True)
class Blocked(AdminBlock):
    """A block that was made or ended."""

    warning: str | None = None


@dataclass(frozen=True, slots=True)
class AskedFor:
    """A request for access, with what may be shown of who asks, and for which URL."""

    id: int
    client: str | None
    user: str | None
    group: str | None
    host: str
    url: str
    category: str | None
    reason: str
    asked: float
    until: float
    times: int
    state: str


@dataclass(frozen=True, slots=True)
class Declined:
    request: int
    host: str
    word: str | None


@dataclass(frozen=True, slots=True)
class CodeStatus:
    """A code that can be used; not the code itself."""

    id: str
    scope: str
    target: str | None
    client: str | None
    minutes: int
    until: float
    by: str


@dataclass(frozen=True, slots=True)
class MadeCode:
    scope: str
    target: str | None
    client: str | None
    minutes: int
    id: str
    code: str


@dataclass(frozen=True, slots=True)
class WithdrawnCode:
    id: str


# -- grants ------------------------------------------------------------------------------------------------------------


def _fields(grant: Grant) -> dict[str, Any]:
    return asdict(grant) | {"until": None if grant.until >= FOR_GOOD else grant.until}


def grants(overrides: Overrides, reach: Reach) -> list[GrantStatus]:
    """What is unblocked now."""
    return [GrantStatus(**_fields(grant)) for grant in overrides.active(time()) if reach.has(grant.client)]


def grant(
    policy: Policy,
    account: Account,
    overrides: Overrides,
    scope: GrantScope,
    target: Target,
    minutes: LastingMinutes,
    client: ForWhom,
    reason: Why = "",
) -> Done[GrantStatus] | Instead:
    """Allow something for a while, or for good."""
    if not minutes and not account.role.may(Role.MANAGE):
        raise RoleError(Role.MANAGE)
    account.check_length(minutes * _MINUTE)
    whom, canonical = whom_of(client, policy.all_groups), _canonical(scope, target)
    if not minutes and whom is None and scope not in ("category", SITE):
        return _as_rule("allow", scope, target, reason)
    with usable():
        made = overrides.grant(scope, canonical, minutes * _MINUTE or None, client=whom, how=HOW, by=account.name)
    return _granted(made, reason=one_line(reason) or None, word=why_whole(scope, target))


def _granted(
    made: Grant, request: int | None = None, reason: str | None = None, word: str | None = None
) -> Done[GrantStatus]:
    warning = "; ".join(filter(None, [narrowness_of_grant(made.scope, made.target), word])) or None
    status = GrantStatus(**_fields(made), reason=reason, request=request, warning=warning)
    return Done(status, {"kind": "grant", "id": made.id, "made": made.made}, Role.APPROVE)


def _as_rule(action: str, scope: str, target: str, reason: str) -> Instead:
    return Instead({"action": action, "scope": scope, "target": target, "days": 0, "reason": reason})


def revoke(account: Account, overrides: Overrides, number: Number) -> Done[GrantStatus]:
    """End a grant."""
    ended = overrides.revoke(number, by=account.name)
    if ended is None:
        raise MissingError("there is no such grant, or it has ended")
    fields = _fields(ended)
    # a pause that was ended, or what was for good, is for those to make again who may make it
    role = Role.MANAGE if ended.scope == EVERYTHING or ended.until >= FOR_GOOD else Role.APPROVE
    return Done(GrantStatus(**fields), {"kind": "revoked", **fields}, role)


def pause(
    policy: Policy,
    account: Account,
    overrides: Overrides,
    client: ForWhom,
    minutes: OrUntil = 0,
    until: Until = "",
) -> Done[GrantStatus]:
    """Turn the filter off for a while: what rules stop passes.

    Checks of requests stay.
    """
    whom = whom_of(client, policy.all_groups)
    made = overrides.grant(EVERYTHING, "*", _length(policy, minutes, until), client=whom, how=HOW, by=account.name)
    return _granted(made)


def _length(policy: Policy, minutes: int, until: str) -> float:
    """For how many seconds everything is off."""
    if bool(minutes) is bool(until):
        raise ActionError(f"say for how many minutes, or until: {MORNING}")
    now = datetime.now(UTC)
    return (policy.next_morning(now) - now).total_seconds() if until else minutes * _MINUTE


def end_again(account: Account, overrides: Overrides, how: Mapping[str, object]) -> None:
    number = _number_of(how, overrides.active(time()))
    if number is None or overrides.revoke(number, by=account.name) is None:
        raise MissingError("the grant has ended")


def grant_again(account: Account, overrides: Overrides, how: Mapping[str, object]) -> None:
    seconds, whom = _seconds_left(how), _whom_of(how)
    if seconds is not None:
        account.check_length(seconds)
    means = WARNING if how["how"] == WARNING else HOW  # after a click on a warning, only warnings pass
    overrides.grant(str(how["scope"]), str(how["target"]), seconds, client=whom, how=means, by=account.name)


# -- blocks ------------------------------------------------------------------------------------------------------------


def blocks(overrides: Overrides, reach: Reach) -> list[BlockStatus]:
    """What is blocked beside the rules."""
    return [block for block in overrides.blocks() if reach.has(block.client)]


def block(
    policy: Policy,
    account: Account,
    overrides: Overrides,
    scope: Scope,
    target: Target,
    minutes: LastingMinutes,
    client: ForWhom,
    reason: Annotated[str, Text("why; a block page shows it", 200)] = "",
) -> Done[Blocked] | Instead:
    """Block something for a while, or for good."""
    whom = whom_of(client, policy.all_groups)
    if not minutes and whom is None and scope != "category":
        return _as_rule("block", scope, target, reason)
    with usable():
        typed = as_typed(target).decode("utf-8", "surrogateescape")
        canonical = str(parse_expression(typed)) if scope == "url" else canonical_target(scope, target)
        seconds, shown = minutes * _MINUTE or None, one_line(reason) or None
        made = overrides.block(scope, canonical, seconds, client=whom, reason=shown, by=account.name)
    warning = "; ".join(filter(None, [breadth_of_order(scope, canonical), why_whole(scope, target)])) or None
    blocked = Blocked(**asdict(made), warning=warning)
    return Done(blocked, {"kind": "block", "id": made.id, "made": made.made}, Role.MANAGE)


def internet_off(
    policy: Policy,
    account: Account,
    overrides: Overrides,
    client: ForWhom,
    minutes: OrUntil = 0,
    reason: Annotated[str, Text("why; a block page shows it", 200)] = "",
    until: Until = "",
) -> Done[Blocked]:
    """Turn the internet off for a while: nothing passes but what is unblocked afterwards.

    The proxy's own pages stay.
    """
    seconds = _length(policy, minutes, until)
    whom, shown = whom_of(client, policy.all_groups), one_line(reason) or None
    made = overrides.block(EVERYTHING, "*", seconds, client=whom, reason=shown, by=account.name)
    return Done(Blocked(**asdict(made)), {"kind": "block", "id": made.id, "made": made.made}, Role.MANAGE)


def end_block(account: Account, overrides: Overrides, number: Number) -> Done[Blocked]:
    """End a block."""
    ended = overrides.end_block(number, by=account.name)
    if ended is None:
        raise MissingError("there is no such block, or it has ended")
    return Done(Blocked(**asdict(ended)), {"kind": "block ended", **asdict(ended)}, Role.MANAGE)


def end_block_again(account: Account, overrides: Overrides, how: Mapping[str, object]) -> None:
    number = _number_of(how, overrides.blocks())
    if number is None or overrides.end_block(number, by=account.name) is None:
        raise MissingError("the block has ended")


def block_again(account: Account, overrides: Overrides, how: Mapping[str, object]) -> None:
    reason = None if how["reason"] is None else str(how["reason"])
    scope, target, left = str(how["scope"]), str(how["target"]), _seconds_left(how)
    overrides.block(scope, target, left, client=_whom_of(how), reason=reason, by=account.name)


# -- requests and codes ------------------------------------------------------------------------------------------------


def requests(overrides: Overrides, privacy: Privacy, reach: Reach) -> list[AskedFor]:
    """What people ask for, who wait for an answer."""
    waiting = overrides.requests()
    # the group is that of the moment when they asked: who has moved since is in another one
    return [
        asked_for(request, privacy)
        for request in waiting
        if reach.has_group(request.group) and reach.has(request.client)
    ]


def waiting(overrides: Overrides | None, privacy: Privacy, reach: Reach = ALL_CLIENTS) -> list[AskedFor]:
    """The requests that wait; none if the store cannot be read, which the live page shows elsewhere."""
    with suppress(StoreError):
        return [] if overrides is None else requests(overrides, privacy, reach)
    return []


def asked_for(request: AccessRequest, privacy: Privacy) -> AskedFor:
    """Who asks is shown where their page has said that who answers sees it."""
    url = str(without_user(request.url))
    asker = Privacy() if request.seen == NAMED else as_told(privacy, request.seen)
    client, user = who("client", request.address, asker), who("user", request.user, asker)
    return AskedFor(
        *(request.id, client, user, request.group, request.host, without_query(url, privacy), request.category),
        *(request.reason, request.asked, request.until, request.times, request.state.value),
    )


def approve(
    account: Account, overrides: Overrides, number: Number, minutes: Minutes, scope: GrantScope = "host"
) -> Done[GrantStatus]:
    """Grant what somebody asks for."""
    account.check_length(minutes * _MINUTE)
    made = overrides.approve(number, scope, minutes * _MINUTE, by=account.name)
    return _granted(made, number)


def decline(
    account: Account,
    overrides: Overrides,
    number: Number,
    word: Annotated[str, Text("for whom asks, as their page shows it")] = "",
) -> Done[Declined]:
    """Decline what somebody asks for."""
    answered = overrides.decline(number, word, by=account.name)
    return Done(Declined(number, answered.host, answered.word))


def codes(overrides: Overrides, reach: Reach) -> list[CodeStatus]:
    """The codes that can be used."""
    return [
        CodeStatus(
            code.hash.hex(), code.scope, code.target, code.client, int(code.seconds // _MINUTE), code.until, code.by
        )
        for code in overrides.codes()
        if reach.has(code.client)
    ]


def make_code(
    policy: Policy,
    account: Account,
    overrides: Overrides,
    scope: GrantScope,
    minutes: Minutes,
    target: Annotated[str, Text("what it unblocks; nothing: what its user finds blocked", 8192)] = "",
    client: Annotated[
        str, Text("whose it is: an address, user:NAME, group:NAME for the first of it, or nothing for whoever is first")
    ] = "",
    hours: Annotated[int, Whole("for how many hours it can be used", 366 * 24)] = 24,
) -> Done[MadeCode]:
    """Make a single-use code, which is shown this once.

    Only the result has the code.
    """
    account.check_length(minutes * _MINUTE)
    whom = whom_of(client, policy.all_groups) if client else None
    canonical = _canonical(scope, target) if target else None
    with usable():
        code = overrides.make_code(
            scope, minutes * _MINUTE, canonical, whom, valid_for=hours * 60 * _MINUTE, by=account.name
        )
    made = MadeCode(scope, canonical, whom, minutes, overrides.code_hash(code).hex(), code)
    detail = {name: value for name, value in asdict(made).items() if name not in ("id", "code")}
    return Done(made, {"kind": "code", "id": made.id}, Role.APPROVE, detail)


def withdraw_code(
    account: Account, overrides: Overrides, identity: Annotated[str, Text("its id", 64, pattern="^[0-9a-f]{64}$")]
) -> Done[WithdrawnCode]:
    """Make a code worthless."""
    if not overrides.withdraw_hash(bytes.fromhex(identity), by=account.name):
        raise MissingError("there is no such code that can still be used")
    return Done(WithdrawnCode(identity))


def withdraw_again(account: Account, overrides: Overrides, how: Mapping[str, object]) -> None:
    if not overrides.withdraw_hash(bytes.fromhex(str(how["id"])), by=account.name):
        raise MissingError("the code was used, or is too old")


# -- what was stored, and what was said --------------------------------------------------------------------------------


def _canonical(scope: str, target: str) -> str:
    with usable():
        return canonical_target(scope, target)


def _number_of(how: Mapping[str, object], there: Iterable[Grant | AdminBlock]) -> int | None:
    """The number of what was made: in a new store, where the first was removed, others have the same numbers."""
    return next((order.id for order in there if (order.id, order.made) == (how["id"], how.get("made"))), None)


def _whom_of(how: Mapping[str, object]) -> str | None:
    return None if how["client"] is None else str(how["client"])


def _seconds_left(how: Mapping[str, object]) -> float | None:
    """Of what has ended early; ``None`` if it was for good."""
    if how["until"] is None:
        return None
    seconds = float(str(how["until"])) - time()
    if seconds <= 0:
        raise MissingError("it would have ended by now")
    return seconds


ACTIONS = (
    Action("GET", "/grants", Role.VIEW, grants, limit=Limit.NARROWED),
    Action("POST", "/grants", Role.APPROVE, grant, "granted", instead="/rules", limit=Limit.WHOM),
    Action("DELETE", "/grants/{number}", Role.APPROVE, revoke, "revoked", limit=Limit.ITEM),
    Action("GET", "/blocks", Role.VIEW, blocks, limit=Limit.NARROWED),
    Action("POST", "/blocks", Role.MANAGE, block, "blocked", instead="/rules", limit=Limit.WHOM),
    Action("DELETE", "/blocks/{number}", Role.MANAGE, end_block, "ended a block", limit=Limit.ITEM),
    Action("POST", "/pauses", Role.MANAGE, pause, "paused"),
    Action("POST", "/blackouts", Role.MANAGE, internet_off, "blocked", limit=Limit.WHOM),
    Action("GET", "/requests", Role.VIEW, requests, limit=Limit.NARROWED),
    Action("POST", "/requests/{number}/approve", Role.APPROVE, approve, "approved a request", limit=Limit.ITEM),
    Action("POST", "/requests/{number}/decline", Role.APPROVE, decline, "declined a request", limit=Limit.ITEM),
    Action("GET", "/codes", Role.APPROVE, codes, limit=Limit.NARROWED),
    Action("POST", "/codes", Role.APPROVE, make_code, "made a code", limit=Limit.WHOM),
    Action("DELETE", "/codes/{identity}", Role.APPROVE, withdraw_code, "withdrew a code", limit=Limit.ITEM),
)
UNDOINGS = {
    "grant": end_again,
    "revoked": grant_again,
    "block": end_block_again,
    "block ended": block_again,
    "code": withdraw_again,
}
