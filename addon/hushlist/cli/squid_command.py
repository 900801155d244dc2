"""``hushlist helper``: answers Squid, line by line."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress

from hushlist.cli.common import GOOD, Commands, add_command, add_policy, complain
from hushlist.cli.engine_options import open_engine
from hushlist.decide.decision import Decision
from hushlist.match.rule import Action
from hushlist.squid import PLACEHOLDERS, AccessList, Redirector, SquidHelper, serve


def add_to(commands: Commands) -> None:
    """Add the command."""
    text = "answer Squid: a line on standard output for each on standard input, until that ends"
    parser = add_command(commands, "helper", help_squid, text)
    add_policy(parser)
    protocol = parser.add_mutually_exclusive_group(required=True)
    protocol.add_argument(
        "--acl",
        action="store_true",
        help="as external_acl_type with the format %%#>ru: OK is what has to be blocked",
    )
    placeholders = "; ".join(f"{name} is {meaning}" for name, meaning in PLACEHOLDERS.items())
    protocol.add_argument(
        "--redirect",
        type=_redirector,
        metavar="URL",
        help="as url_rewrite_program: where to send whoever asks for what is blocked; in its path, query and "
        f"fragment, percent-encoded: {placeholders}".replace("%", "%%"),
    )


def _redirector(url: str) -> Redirector:
    try:
        return Redirector(url)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def help_squid(arguments: argparse.Namespace) -> int:
    """Answer Squid's lines until they end."""
    engine = open_engine(arguments)
    if arguments.redirect is not None:
        _warn_of_a_loop(engine.decide_url(arguments.redirect.base))
    helper = SquidHelper(engine, arguments.redirect or AccessList(), _complain)
    serve(helper.answer, sys.stdin.fileno(), sys.stdout.fileno())
    return GOOD


def _warn_of_a_loop(decision: Decision) -> None:
    """Warn if a redirect's target is blocked: the redirected client asks for it through Squid, too."""
    if decision.action is Action.BLOCK:
        _complain(f"warning: the page to redirect to is blocked itself: {decision}")


def _complain(what: str) -> None:
    with suppress(OSError):  # nobody may read it
        complain(what)
