"""Options of several commands, and what they stand for: policy, client and moment; recorded requests; lists."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from hushlist.cli.common import checked, parse_number, print_warnings
from hushlist.compiling.compile_report import CompileReport
from hushlist.decide.engine import Engine, load_engine
from hushlist.errors import Problem, SourceError
from hushlist.jobs.worker_processes import default_jobs
from hushlist.lists.list_formats import FOLDERS, FORMATS, list_format_of
from hushlist.lists.list_source import ListDefaults, ProblemReport
from hushlist.lists.plain_lists import read_popular_file
from hushlist.match.expressions import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.policy import shipped_policy
from hushlist.policy.groups import Client, address_text
from hushlist.policy.policy_file import ListError, ListFile, list_files
from hushlist.policy.recurrence import parse_moment
from hushlist.url.hashed_uri import VARIANTS


def _address(text: str) -> str:
    ip_address(text)
    return address_text(text)


#: a client's address, as the policy knows it
parse_client = checked(_address, "is no address such as 192.168.1.7")


def add_who_and_when(parser: argparse.ArgumentParser) -> None:
    """Add the options for another moment and another client."""
    who = parser.add_argument_group("another moment, another person")
    who.add_argument(
        "--at",
        type=checked(parse_moment, "is no time such as 2026-12-24T22:30"),
        metavar="TIME",
        help="such as 2026-12-24T22:30, in the policy's time zone (default: now)",
    )
    who.add_argument("--client", type=parse_client, metavar="ADDRESS", help="the client's address")
    who.add_argument("--user", metavar="NAME", help="the user of the proxy")
    who.add_argument("--port", type=_port, metavar="N", help="the port on which the proxy is asked")


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


# -- lists -------------------------------------------------------------------------------------------------------------


def add_list_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how lists are read."""
    parser.add_argument(
        "--format",
        choices=(*FORMATS, *FOLDERS),
        metavar="NAME",
        help=f"the lists' format (default: what a list's name tells): {', '.join((*FORMATS, *FOLDERS))}",
    )
    parser.add_argument(
        "--prefix-length",
        type=int,
        choices=range(SHORTEST_PREFIX, FULL_LENGTH + 1),
        metavar="OCTETS",
        help="how long the hashes of a list of the format safebrowsing-raw are",
    )
    parser.add_argument(
        "--variant", choices=tuple(VARIANTS), help="how the author of hashed URIs canonicalized (default: n)"
    )


def files_of(paths: Iterable[Path], arguments: argparse.Namespace) -> list[ListFile]:
    """The files of lists, each once.

    Raises:
        SourceError: lists do not exist or cannot be used; names all of them.
    """
    problems: list[Problem] = []
    files = {file.path.absolute(): file for path in paths for file in _files(path, arguments, problems)}
    if problems:
        raise SourceError(problems)
    return list(files.values())


def _files(path: Path, arguments: argparse.Namespace, problems: list[Problem]) -> Iterator[ListFile]:
    defaults = ListDefaults(variant=arguments.variant, prefix_length=arguments.prefix_length)
    try:
        yield from list_files(path, arguments.format or list_format_of(path), defaults)
    except ListError as error:
        problems.append(Problem(str(path), 0, "list", str(error)))


def popular_domains(path: Path | None) -> tuple[bytes, ...]:
    """The canonical hosts of a file, the most popular first; unreadable ones are reported on standard error.

    Raises:
        SourceError: the file cannot be read.
    """
    if path is None:
        return ()
    report = ProblemReport(str(path))
    domains = read_popular_file(path, report)
    print_warnings(report.warnings)
    return domains
