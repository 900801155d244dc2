"""``hushlist helper``: answers Squid."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress

from hushlist.cli.command_options import open_engine
from hushlist.cli.common import GOOD, Commands, add_command, add_policy, checked, complain
from hushlist.core.match.rule import Action
from hushlist.tools.squid.helper import PLACEHOLDERS, AccessList, Redirector, SquidHelper, serve


def add_to(commands: Commands) -> None:
    text = "answer Squid: a line on standard output for each on standard input, until that ends"
    helper = add_command(commands, "helper", help_squid, text)
    add_policy(helper)
    protocol = helper.add_mutually_exclusive_group(required=True)
    protocol.add_argument(
        "--acl",
        action="store_true",
        help="as external_acl_type with the format %%#>ru: OK is what has to be blocked",
    )
    placeholders = "; ".join(f"{name} is {meaning}" for name, meaning in PLACEHOLDERS.items())
    protocol.add_argument(
        "--redirect",
        type=checked(Redirector),
        metavar="URL",
        help="as url_rewrite_program: where to send whoever asks for what is blocked; in its path, query and "
        f"fragment, percent-encoded: {placeholders}".replace("%", "%%"),
    )


def help_squid(arguments: argparse.Namespace) -> int:
    """Answer Squid's lines until they end."""
    engine = open_engine(arguments)
    if arguments.redirect is not None:
        decision = engine.decide_url(arguments.redirect.base)
        if decision.action is Action.BLOCK:  # the redirected client asks for the page through Squid, too
            _tell_operator(f"warning: the page to redirect to is blocked itself: {decision}")
    helper = SquidHelper(engine, arguments.redirect or AccessList(), _tell_operator)
    serve(helper.answers, sys.stdin.fileno(), sys.stdout.fileno())
    return GOOD


def _tell_operator(what: str) -> None:
    with suppress(OSError):  # nobody may read it
        complain(what)
