"""Options of commands that decide: policy, client and moment; and options for recorded requests."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from ipaddress import ip_address

from hushlist.cli.common import parse_number, print_warnings
from hushlist.compiling.compile_report import CompileReport
from hushlist.decide.engine import Engine, load_engine
from hushlist.jobs.worker_processes import default_jobs
from hushlist.policy import shipped_policy
from hushlist.policy.groups import Client
from hushlist.policy.recurrence import parse_moment


def add_who_and_when(parser: argparse.ArgumentParser) -> None:
    """Add the options for another moment and another client."""
    who = parser.add_argument_group("another moment, another person")
    who.add_argument(
        "--at",
        type=_moment,
        metavar="TIME",
        help="such as 2026-12-24T22:30, in the policy's time zone (default: now)",
    )
    who.add_argument("--client", type=parse_client, metavar="ADDRESS", help="the client's address")
    who.add_argument("--user", metavar="NAME", help="the user of the proxy")
    who.add_argument("--port", type=_port, metavar="N", help="the port on which the proxy is asked")


def parse_client(text: str) -> str:
    """A client's address, as the policy knows it.

    >>> parse_client("::ffff:10.0.0.7")
    '10.0.0.7'

    Raises:
            argparse.ArgumentTypeError: it is not an address.
    """
    try:
        ip_address(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no address such as 192.168.1.7") from None
    return Client(text).names[0]


def _moment(text: str) -> datetime:
    try:
        return parse_moment(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 2026-12-24T22:30") from None


def _port(text: str) -> int:
    port = parse_number(text)
    if port >= 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port up to 65535")
    return port


def who_and_when(arguments: argparse.Namespace, engine: Engine) -> tuple[datetime, Client]:
    """The moment and the client in the arguments; a moment without an offset is in the policy's time zone."""
    moment = arguments.at or datetime.now(UTC)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=engine.policy.zone)
    return moment, Client(arguments.client or "", arguments.user, arguments.port)


def open_engine(arguments: argparse.Namespace) -> Engine:
    """The engine of a policy; warnings go to standard error."""
    engine = load_engine(arguments.policy or shipped_policy())
    print_warnings(CompileReport.of(engine.index).warnings)
    return engine


def add_as_recorded(parser: argparse.ArgumentParser) -> None:
    """Add the option to use each record's own moment and client."""
    parser.add_argument(
        "--as-recorded",
        action="store_true",
        help="decide each request for the client and at the time that its record has, where it has them",
    )


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the option for the number of processes."""
    parser.add_argument(
        "--jobs", type=parse_number, default=default_jobs(), metavar="N", help="processes (default: one a core)"
    )
