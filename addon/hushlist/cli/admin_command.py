"""``hushlist admin``: tokens, by which programs use the interface of the live page.

The commands read and write the file that the proxies share. Exit codes: 0 good; 2 wrong usage or bad input.
"""

from __future__ import annotations

import argparse
import time

from hushlist.cli import common
from hushlist.cli.command_options import add_store, clock_of, store_of
from hushlist.cli.override_command import local_moment, parse_duration
from hushlist.core.routes import Role
from hushlist.extensions.dashboard.admin_store import AdminStore, default_path

_LONGEST_NAME = 100


def add_to(commands: common.Commands) -> None:
    text = "tokens for programs that use the interface of the live page"
    about = "Tokens for programs that use the interface of the live page, where the policy has 'admin'."
    admin = common.add_group(commands, "admin", text, about)
    token = common.add_group(admin, "token", "make, list and revoke tokens")
    made = common.add_command(token, "make", make_token, "make a token and print it; it cannot be shown again")
    made.add_argument("name", type=parse_name, metavar="NAME", help="what the record calls it")
    made.add_argument("--role", type=Role, choices=list(Role), required=True, help="what it may do")
    made.add_argument(
        "--for",
        dest="seconds",
        type=parse_duration,
        default=366 * 86400.0,
        metavar="TIME",
        help="how long it can be used: 30m, 2h, 90d (default: 366d, the longest)",
    )
    listed = common.add_command(token, "list", list_tokens, "list the tokens that can be used, the newest first")
    listed.add_argument("--json", action="store_true", help="print one JSON object a line; times in seconds since 1970")
    revoked = common.add_command(token, "revoke", revoke_tokens, "make tokens worthless")
    revoked.add_argument("names", nargs="+", type=parse_name, metavar="NAME", help="the name of a token")
    for command in (made, listed, revoked):
        add_store(command)


def parse_name(text: str) -> str:
    if not (0 < len(text) <= _LONGEST_NAME and text.isprintable() and text.strip() == text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected 1 to {_LONGEST_NAME} characters that can be shown")
    return text


def make_token(arguments: argparse.Namespace) -> int:
    place = store_of(arguments, default_path, may_be_new=True)
    with AdminStore(place, time.time) as store:
        common.print_line(store.make_bearer(arguments.name, arguments.role, arguments.seconds, by=common.acting_user()))
    common.remark(f"it is in no file but as a hash: keep it; in the store {place}")
    return common.GOOD


def list_tokens(arguments: argparse.Namespace) -> int:
    zone = clock_of(arguments)
    with AdminStore(store_of(arguments, default_path), time.time) as store:
        bearers = store.bearers()
    for bearer in bearers:
        if arguments.json:
            common.print_json(bearer._asdict())
        else:
            common.print_line(f"{bearer.name}  {bearer.role}  until {local_moment(bearer.until, zone)}  by {bearer.by}")
    if not bearers:
        common.remark("there is no token")
    return common.GOOD


def revoke_tokens(arguments: argparse.Namespace) -> int:
    """Make tokens worthless; unknown ones are reported, and the others follow."""
    code = common.GOOD
    with AdminStore(store_of(arguments, default_path), time.time) as store:
        for name in arguments.names:
            if store.revoke_bearer(name):
                common.print_line(f"revoked {name}")
            else:
                code = common.complain(f"{name!r}: there is no such token")
    return code
