"""``hushlist override``: temporary unblocks, from the command line.

The commands read and write the store that the proxies share. Exit codes: 0 good; 2 wrong usage or bad input.
"""

from __future__ import annotations

import argparse
import getpass
import math
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from hushlist.cli import common
from hushlist.cli.command_options import add_store, parse_client, policy_of, store_of
from hushlist.core.lists.patterns import canonical_target, why_whole
from hushlist.core.match.overbroad import breadth_of_order
from hushlist.core.policy.group_table import DeviceNames
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.recurrence import next_morning
from hushlist.core.policy.times import seconds_of
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.journal.log_record import Privacy
from hushlist.extensions.journal.masked_clients import (
    SOMEBODY,
    device_names_shown,
    masked_item,
    shown_client,
    with_device,
)
from hushlist.extensions.quotas.use_minutes import UseMinutes
from hushlist.extensions.unblock import EVERYTHING, GRANT_SCOPES, default_path
from hushlist.extensions.unblock.access_requests import AccessRequest, RequestState
from hushlist.extensions.unblock.actions import MORNING, AskedFor, asked_for
from hushlist.extensions.unblock.admin_blocks import AdminBlock
from hushlist.extensions.unblock.credentials import hash_passphrase, tidied_code
from hushlist.extensions.unblock.grant_events import GrantEvent
from hushlist.extensions.unblock.grants import FOR_GOOD, Grant, narrowness_of_grant
from hushlist.extensions.unblock.overrides import CODE_VALID, LONGEST_UNBLOCK, Overrides
from hushlist.extensions.unblock.shown_clients import privacy_by, privacy_of_store

_HOW = "command line"
#: how the number of an administrator's block is written, beside those of grants
_BLOCK = "block:"
#: least characters: guesses at the proxy are limited, but somebody with the policy can guess without limits
_SHORTEST_PASSPHRASE = 8
#: seconds
_DAY = 86400.0
#: seconds for which a request is granted, unless it is said otherwise
_APPROVED = 3600.0


def parse_duration(text: str) -> float:
    """Seconds, from a text such as ``30m``, ``2h``, ``1d`` or ``1h30m``."""
    seconds = seconds_of(text) or 0
    if not 0 < seconds <= LONGEST_UNBLOCK:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a time such as 30m, 2h, 1d or 1h30m, at most 366d")
    return float(seconds)


def parse_whom(text: str) -> str:
    """The client of an unblock, in the proxy's form: an address, or ``user:`` and a name."""
    if text.startswith("user:") and text != "user:":
        return text
    try:
        return parse_client(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; a user is written user:NAME") from None


def parse_day(text: str) -> float:
    """A time of a day at most."""
    seconds = parse_duration(text)
    if seconds > _DAY:
        raise argparse.ArgumentTypeError(f"{text!r}: a day at most")
    return seconds


def parse_sharer(text: str) -> str:
    """The client of a quota: as of an unblock, or ``group:`` and the name of a group."""
    return text if text.startswith("group:") and text != "group:" else parse_whom(text)


def add_to(commands: common.Commands) -> None:
    text = "unblock something for a while: grants, single-use codes, passphrases, answers to who asks"
    about = (
        "Unblock something for a while. A grant unblocks a target at once; a code does so when somebody enters it on a "
        "block page. Where the policy lets people ask, 'requests' shows what they ask for. Proxies on this machine see "
        "a change within a second."
    )
    override = common.add_group(commands, "override", text, about)
    granted = _add(
        override,
        "grant",
        partial(unblock, by_code=False),
        "unblock a target now; without a target, make a code as 'code' does",
    )
    _add_what(granted)
    made = _add(
        override,
        "code",
        partial(unblock, by_code=True),
        "make a single-use code and print it; it cannot be shown again",
    )
    _add_what(made)
    for with_code in (granted, made):
        with_code.add_argument(
            "--valid-for",
            type=parse_duration,
            default=CODE_VALID,
            metavar="TIME",
            help="how long a code can be used (default: 1d)",
        )
    for name, make, text in (
        ("internet-off", Overrides.block, "let nothing pass for a while but what is unblocked afterwards"),
        (
            "filter-off",
            partial(Overrides.grant, how=_HOW),
            "let pass for a while what rules stop; checks of requests stay",
        ),
    ):
        off = _add(override, name, partial(turn_off, make), text)
        end = off.add_mutually_exclusive_group(required=True)
        end.add_argument("--for", dest="seconds", type=parse_day, metavar="TIME", help="how long: 30m, 2h; at most 1d")
        end.add_argument(
            "--until",
            choices=(MORNING,),
            help="until the next end of the night by the policy's schedules, or else 06:00",
        )
        _add_sharer(off)
    more = _add(override, "extend", extend, "add minutes to a quota in its present day or week, at once")
    more.add_argument(
        "--by", dest="seconds", type=parse_duration, required=True, metavar="TIME", help="how much: 30m, 1h"
    )
    _add_sharer(more, "; what a group shares, for group:NAME")
    more.add_argument(
        "category", metavar="CATEGORY", help="the quota's category, or one above it: an hrn: name as in the policy"
    )
    listed = _add(override, "list", list_grants, "list what is unblocked now, and what administrators have blocked")
    listed.add_argument("--json", action="store_true", help="print one JSON object a line; times in seconds since 1970")
    _add(override, "revoke", revoke, "end grants and administrators' blocks, or make codes worthless").add_argument(
        "what",
        nargs="+",
        metavar="ID|CODE",
        help="a grant's number or a block's (block:3), as 'list' shows it, or a code that was not used",
    )
    happened = _add(
        override, "history", history, "show what was granted, refused, revoked and locked, the newest first"
    )
    happened.add_argument(
        "--limit", type=common.parse_number, default=100, metavar="N", help="how many lines (default: %(default)s)"
    )
    requests = _add(
        override, "requests", list_requests, "list what people ask for and wait to be answered, the newest first"
    )
    requests.add_argument("--all", action="store_true", help="also those that were answered, or expired, lately")
    requests.add_argument(
        "--json", action="store_true", help="print one JSON object a line; times in seconds since 1970"
    )
    approved = _add(override, "approve", approve, "grant what somebody asks for; a page that waits for it opens itself")
    approved.add_argument(
        "id", type=common.parse_number, metavar="ID", help="the request's number, as 'requests' shows it"
    )
    approved.add_argument(
        "--scope", choices=GRANT_SCOPES, default="host", help="what of it is unblocked (default: %(default)s)"
    )
    _add_for(approved, " (default: 1h)", default=_APPROVED)
    declined = _add(override, "decline", decline, "decline what somebody asks for")
    declined.add_argument(
        "id", type=common.parse_number, metavar="ID", help="the request's number, as 'requests' shows it"
    )
    declined.add_argument("--reason", metavar="TEXT", help="a word for the person who asked, which the page shows")
    text = "read a passphrase, twice from a terminal or once from a pipe, and print what a policy keeps of it"
    _add(override, "passphrase", passphrase, text)


def _add(commands: common.Commands, name: str, command: common.Command, text: str) -> argparse.ArgumentParser:
    parser = common.add_command(commands, name, command, text)
    if command is not passphrase:
        add_store(parser)
    return parser


def _add_sharer(parser: argparse.ArgumentParser, more: str = "") -> None:
    about = f"for whom: an address, user:NAME or group:NAME{more} (default: everybody)"
    parser.add_argument("--client", type=parse_sharer, metavar="CLIENT", help=about)


def _add_for(parser: argparse.ArgumentParser, usual: str = "", **needed: Any) -> None:
    about = f"how long it is unblocked: 30m, 2h, 1d, 1h30m{usual}"
    parser.add_argument("--for", dest="seconds", type=parse_duration, metavar="TIME", help=about, **needed)


def _add_what(parser: argparse.ArgumentParser) -> None:
    _add_for(parser, required=True)
    parser.add_argument(
        "--scope",
        choices=GRANT_SCOPES,
        default="host",
        help="host: a host and those below it, but of a public suffix such as co.uk; site: the same, "
        "and what its pages load from others; "
        "url: one URL, with its query; "
        "category: an hrn: name and what is below it (default: %(default)s)",
    )
    parser.add_argument(
        "--client",
        type=parse_whom,
        metavar="CLIENT",
        help="for whom: an address, or user:NAME (default: everybody; of a code, whoever uses it)",
    )
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="what; of a code, whatever its user finds blocked where it is left out",
    )


def _overrides(arguments: argparse.Namespace) -> Overrides:
    """The store; if ``--store`` names no file, an answer would be that nothing is unblocked, so that is an error."""
    return Overrides(store_of(arguments, default_path), time.time)


def unblock(arguments: argparse.Namespace, *, by_code: bool) -> int:
    """Make a grant and print it; by code, or without a target, make a code and print that."""
    scope, seconds, client = arguments.scope, arguments.seconds, arguments.client
    place = store_of(arguments, default_path, may_be_new=True)
    try:
        target = None if arguments.target is None else canonical_target(scope, arguments.target)
        with Overrides(place, time.time) as overrides:
            if by_code or target is None:
                valid_for = arguments.valid_for
                made = overrides.make_code(scope, seconds, target, client, valid_for=valid_for, by=common.acting_user())
            else:
                grant = overrides.grant(scope, target, seconds, client=client, how=_HOW, by=common.acting_user())
                made = _grant_line(grant, _shown(overrides, policy_of(arguments)))
    except ValueError as error:
        return common.complain(error)
    _warn_of(target and narrowness_of_grant(scope, target))
    _warn_of(target and why_whole(scope, arguments.target))
    common.print_line(made)
    say_where(place)
    return common.GOOD


def say_where(store: Path | PostgresAddress) -> None:
    """Name the store: it may be another one than that of a proxy."""
    more = "; --store names that of another user's proxy" if isinstance(store, Path) else ""
    common.remark(f"in the store {store}{more}")


def turn_off(make: Callable[..., Grant | AdminBlock], arguments: argparse.Namespace) -> int:
    """Stop, or let pass, everything for a while."""
    policy = policy_of(arguments)
    if arguments.until:
        now = datetime.fromtimestamp(time.time()).astimezone()
        morning = next_morning((), now.tzinfo or UTC, now) if policy is None else policy.next_morning(now)
        arguments.seconds = (morning - now).total_seconds()
    place = store_of(arguments, default_path, may_be_new=True)
    with Overrides(place, time.time) as overrides:
        made = make(overrides, EVERYTHING, "*", arguments.seconds, client=arguments.client, by=common.acting_user())
        common.print_line(_grant_line(made, _shown(overrides, policy)))
    say_where(place)
    return common.GOOD


def extend(arguments: argparse.Namespace) -> int:
    minutes = math.ceil(arguments.seconds / 60)
    store = store_of(arguments, default_path, may_be_new=True)
    try:
        category = canonical_target("category", arguments.category)
        with closing(UseMinutes(store, time.time)) as counted:
            extension = counted.extend(category, minutes, client=arguments.client, by=common.acting_user())
    except ValueError as error:
        return common.complain(error)
    policy = policy_of(arguments)
    how = _Shown.by(policy, privacy_of_store(store, policy, common.remark))
    common.print_line(f"{extension.minutes} more minutes of {extension.category}  for {how.client(extension.client)}")
    say_where(store)
    return common.GOOD


def _warn_of(why: str | None) -> None:
    common.print_warnings([why] if why else [])


def list_grants(arguments: argparse.Namespace) -> int:
    with _overrides(arguments) as overrides:
        grants, blocks = overrides.active(time.time()), overrides.blocks()
        how = _shown(overrides, policy_of(arguments))
    every: list[Grant | AdminBlock] = [*grants, *blocks]
    for order in every:
        if arguments.json:
            common.print_json(
                masked_item(asdict(order), how.privacy) | ({"kind": "block"} if isinstance(order, AdminBlock) else {})
            )
        else:
            common.print_line(_grant_line(order, how))
        if isinstance(order, AdminBlock) and (why := breadth_of_order(order.scope, order.target)):
            _warn_of(f"{_BLOCK}{order.id}: {why}")
    if not grants and not blocks:
        common.remark("nothing is unblocked now; 'hushlist override history' shows what was")
    return common.GOOD


def revoke(arguments: argparse.Namespace) -> int:
    """End grants and codes; unknown ones are reported, and the others follow."""
    code = common.GOOD
    with _overrides(arguments) as overrides:
        for what in arguments.what:
            if _revoke(overrides, what):
                common.print_line(f"revoked {what}")
            else:
                code = common.complain(f"{what!r}: there is no such grant, and no such code that was not used")
    return code


def _revoke(overrides: Overrides, what: str) -> bool:
    # A code may have only digits, but it has twelve, more than any grant's number.
    if tidied_code(what) is not None:
        return overrides.withdraw_code(what, by=common.acting_user())
    if what.startswith(_BLOCK) and what[len(_BLOCK) :].isdecimal():
        return overrides.end_block(int(what[len(_BLOCK) :][:18]), by=common.acting_user()) is not None
    return what.isdecimal() and overrides.revoke(int(what[:18]), by=common.acting_user()) is not None


def history(arguments: argparse.Namespace) -> int:
    with _overrides(arguments) as overrides:
        events = overrides.history(max(0, arguments.limit))
        how = _shown(overrides, policy_of(arguments))
    for event in events:
        common.print_line(_event_line(event, how))
    if not events:
        common.remark("nothing was unblocked so far")
    return common.GOOD


def list_requests(arguments: argparse.Namespace) -> int:
    with _overrides(arguments) as overrides:
        requests = overrides.requests(waiting=not arguments.all)
        how = _shown(overrides, policy_of(arguments))
    for request in requests:
        shown = asked_for(request, how.privacy)
        if arguments.json:
            common.print_json({**asdict(shown), "decided": request.decided, "by": request.by, "word": request.word})
        else:
            common.print_line(_request_line(request, shown, how))
    if not requests:
        common.remark("nobody waits for an answer; people can ask where the policy says 'unblock: {ask: on}'")
    return common.GOOD


def approve(arguments: argparse.Namespace) -> int:
    """Grant a request, and print the grant."""
    with _overrides(arguments) as overrides:
        grant = overrides.approve(arguments.id, arguments.scope, arguments.seconds, by=common.acting_user())
        how = _shown(overrides, policy_of(arguments))
    _warn_of(narrowness_of_grant(grant.scope, grant.target))
    common.print_line(_grant_line(grant, how))
    return common.GOOD


def decline(arguments: argparse.Namespace) -> int:
    with _overrides(arguments) as overrides:
        overrides.decline(arguments.id, arguments.reason, by=common.acting_user())
    common.print_line(f"declined {arguments.id}")
    return common.GOOD


def passphrase(_: argparse.Namespace) -> int:
    """Print the stored form of a passphrase, for a policy."""
    if sys.stdin.isatty():
        text = getpass.getpass("Passphrase: ")
        if getpass.getpass("Once more: ") != text:
            return common.complain("the two are not the same")
    else:
        try:
            text = common.without_end(sys.stdin.buffer.readline()).decode("utf-8")
        except UnicodeDecodeError:
            return common.complain("the passphrase is not in UTF-8")
    if len(text) < _SHORTEST_PASSPHRASE:
        return common.complain(f"a passphrase needs {_SHORTEST_PASSPHRASE} characters or more")
    try:
        common.print_line(hash_passphrase(text))
    except ValueError as error:
        return common.complain(error)
    return common.GOOD


class _Shown(NamedTuple):
    """How lines show clients and moments."""

    zone: tzinfo | None
    privacy: Privacy
    #: ``None`` where nobody may know who has a device, or none has a name
    device_of: DeviceNames | None

    @classmethod
    def by(cls, policy: Policy | None, privacy: Privacy) -> Self:
        return cls(None if policy is None else policy.zone, privacy, device_names_shown(policy, privacy))

    def client(self, client: str | None) -> str:
        return "everybody" if client is None else with_device(shown_client(client, self.privacy), self.device_of)


def _shown(overrides: Overrides, policy: Policy | None) -> _Shown:
    return _Shown.by(policy, privacy_by(overrides, policy))


def _grant_line(order: Grant | AdminBlock, how: _Shown) -> str:
    is_good = order.until is None or order.until >= FOR_GOOD
    until = "for good" if is_good or order.until is None else f"until {local_moment(order.until, how.zone)}"
    number = f"{_BLOCK}{order.id}" if isinstance(order, AdminBlock) else str(order.id)
    target = masked_item(asdict(order), how.privacy)["target"]
    return f"{number}  {order.scope} {target}  for {how.client(order.client)}  {until}"


def _request_line(request: AccessRequest, shown: AskedFor, how: _Shown) -> str:
    user = None if shown.user is None else f"user:{shown.user}"
    asker = with_device(user or shown.client or SOMEBODY, how.device_of, shown.client)
    times = f" ({request.times} times)" if request.times > 1 else ""
    reason = f": {request.reason}" if request.reason else ""
    state = (
        "" if request.state is RequestState.WAITING else f"  {request.state}{f' by {request.by}' if request.by else ''}"
    )
    return f"{request.id}  {local_moment(request.asked, how.zone)}  {asker} asks for {shown.url}{times}{reason}{state}"


def _event_line(event: GrantEvent, how: _Shown) -> str:
    shown = masked_item(asdict(event), how.privacy)
    number = "" if event.id is None else f" {event.id}"
    target = "" if event.scope is None else f"  {event.scope} {shown['target'] or 'of its choice'}"
    who = how.client(event.client)
    return f"{local_moment(event.at, how.zone)}  {event.what}{number}{target}  for {who}  ({event.how}; {shown['by']})"


def local_moment(seconds: float, zone: tzinfo | None) -> str:
    """A time, to the second, by a clock."""
    return datetime.fromtimestamp(seconds).astimezone(zone).isoformat(" ", "seconds")
