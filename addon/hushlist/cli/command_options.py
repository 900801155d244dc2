"""Options of several commands, and what they stand for: policy, client and moment; recorded requests; lists."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, time, tzinfo
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from hushlist.cli.common import (
    add_policy,
    checked,
    installed_extensions,
    parse_number,
    parse_place,
    print_warnings,
    remark,
)
from hushlist.core.compile.compile_report import CompileReport, policy_warnings
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import Problem, SourceError, UrlError, number_of
from hushlist.core.extension import Fact, built_in
from hushlist.core.lists.list_formats import FOLDERS, FORMATS, list_format_of
from hushlist.core.lists.list_source import ListDefaults, ProblemReport, read_seal_key
from hushlist.core.match.context import KINDS, host_of_page
from hushlist.core.match.expressions import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.core.policy import default_policy, shipped_policy
from hushlist.core.policy.groups import Client, address_text
from hushlist.core.policy.policy_file import ListFile, Policy, list_files
from hushlist.core.policy.policy_reader import policy_at
from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.url.hashed_uri import VARIANTS
from hushlist.core.url.host import parse_ipv6
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import StatedContext, canonical_host

if TYPE_CHECKING:
    from hushlist.core.match.seal import SealKey
    from hushlist.extensions.databases.postgres_address import PostgresAddress


def _address(text: str) -> str:
    ip_address(text)
    return address_text(text)


#: a time of day
_TIME = late_pattern(r"[0-9]{2}:[0-9]{2}(?::[0-9]{2})?")
#: a client's address, as the policy knows it
parse_client = checked(_address, "is no address such as 192.168.1.7")


def add_who_and_when(parser: argparse.ArgumentParser) -> None:
    """Add the options for another moment and another client."""
    who = parser.add_argument_group("another moment, another person")
    who.add_argument(
        "--at",
        type=checked(_moment_or_time, "is no time such as 2026-12-24T22:30, or 22:30 for today"),
        metavar="TIME",
        help="such as 2026-12-24T22:30, or 22:30 for today, in the policy's time zone (default: now)",
    )
    who.add_argument("--client", type=parse_client, metavar="ADDRESS", help="the client's address")
    who.add_argument("--user", metavar="NAME", help="the user of the proxy")
    who.add_argument("--port", type=_port, metavar="N", help="the port on which the proxy is asked")


def _moment_or_time(text: str) -> datetime | time:
    from hushlist.core.policy.recurrence import parse_moment  # most commands start faster without it

    return time.fromisoformat(text) if _TIME.fullmatch(text) else parse_moment(text)


def _port(text: str) -> int:
    port = parse_number(text)
    if port >= 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port up to 65535")
    return port


def add_context(parser: argparse.ArgumentParser) -> None:
    context = parser.add_argument_group("the page that asks, and what for; filters of Adblock lists may depend on it")
    context.add_argument(
        "--page",
        type=checked(_page, "names no page: give its URL or its host"),
        metavar="URL",
        help="the page that asks, by its URL or host (default: unknown)",
    )
    context.add_argument(
        "--type",
        choices=KINDS,
        metavar="TYPE",
        help=f"what it asks for (default: as the path ends): {', '.join(KINDS)}",
    )
    parser.add_argument(
        "--leads-to",
        type=checked(_lead, "is neither a name nor an address"),
        action="append",
        default=[],
        metavar="HOST",
        help="an alias or an address that the name leads to by DNS; may be given again and again (default: unknown)",
    )


def add_facts(parser: argparse.ArgumentParser) -> None:
    """Add the options that extensions explain: what is true of an answer or a file."""
    group = parser.add_argument_group("the answer or the file; rules for heads and files may depend on it")
    for fact in {fact.name: fact for extension in built_in() for fact in extension.facts}.values():
        group.add_argument(
            f"--{fact.name}", type=_stated(fact), metavar=fact.metavar, help=fact.says, dest=f"fact {fact.name}"
        )


def _stated(fact: Fact) -> Callable[[str], str]:
    def read(text: str) -> str:
        if fact.form and not re.fullmatch(fact.form, text):
            raise argparse.ArgumentTypeError(f"{text!r} does not fit: {fact.says}")
        return text

    return read


def facts_of(arguments: argparse.Namespace) -> dict[str, str]:
    """The facts in the arguments, by their names."""
    values = ((name.partition("fact "), value) for name, value in vars(arguments).items() if value is not None)
    return {name: value for (before, mark, name), value in values if mark and not before}


def _page(text: str) -> bytes:
    host = host_of_page(to_bytes(text))
    if not host or b"%" in host:
        raise ValueError(text)
    return host


def _lead(text: str) -> bytes:
    host = to_bytes(text)
    try:
        return canonical_host(b"[" + host + b"]" if parse_ipv6(host) is not None else host)
    except UrlError:
        raise ValueError(text) from None


def told_of(arguments: argparse.Namespace) -> StatedContext | None:
    """Who asks, and what for, in the arguments."""
    is_told = arguments.page or arguments.type or arguments.leads_to
    return StatedContext(arguments.page, arguments.type or "", leads=tuple(arguments.leads_to)) if is_told else None


def who_and_when(arguments: argparse.Namespace, engine: Engine) -> tuple[datetime, Client]:
    """The moment and the client in the arguments; a moment without an offset is in the policy's time zone."""
    at, now = arguments.at, datetime.now(UTC)
    moment = datetime.combine(now.astimezone(engine.policy.zone), at) if isinstance(at, time) else at or now
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=engine.policy.zone)
    return moment, Client(arguments.client or "", arguments.user, arguments.port)


def clock_of(arguments: argparse.Namespace) -> tzinfo | None:
    """The time zone of the policy in the arguments, or else of the first start (``None``: the machine's).

    Raises:
        SourceError: the policy cannot be read.
    """
    policy = policy_of(arguments)
    return None if policy is None else policy.zone


def policy_of(arguments: argparse.Namespace) -> Policy | None:
    """The policy in the arguments, or else of the first start, without its lists; ``None`` without either.

    Raises:
        SourceError: it cannot be read.
    """
    path = arguments.policy or default_policy()
    return None if path == shipped_policy() and arguments.policy is None else policy_at(path)


def open_engine(arguments: argparse.Namespace) -> Engine:
    """The engine of a policy; warnings go to standard error, those of its lists in one line."""
    engine = load_engine(arguments.policy or default_policy())
    command = "hushlist compile" if arguments.policy is None else f"hushlist compile --policy {arguments.policy}"
    if lists := getattr(arguments, "lists", ()):  # in place of a policy
        from shlex import join  # most commands start faster without it

        command = join(["hushlist", "lint", *map(str, lists)])
    of_lists = CompileReport.of(engine.index).brief_warnings(command)
    print_warnings([*engine.policy.held_back, *policy_warnings(engine.policy, engine.index), *of_lists])
    return engine


def add_as_recorded(parser: argparse.ArgumentParser) -> None:
    """Add the option to use each record's own moment and client."""
    parser.add_argument(
        "--as-recorded",
        action="store_true",
        help="decide each request for the client and at the time that its record has, where it has them",
    )


def add_popular(parser: argparse.ArgumentParser, why: str) -> None:
    """Add the option that names a file of popular domains, which ``popular_domains`` reads; the help says why."""
    parser.add_argument(
        "--popular", type=Path, metavar="FILE", help=f"popular domains, one a line or as rank,domain{why}"
    )


def add_jobs(parser: argparse.ArgumentParser) -> None:
    from hushlist.core.system.platform import number_of_cores

    parser.add_argument(
        "--jobs", type=parse_number, default=number_of_cores(), metavar="N", help="processes (default: one a core)"
    )


# -- lists -------------------------------------------------------------------------------------------------------------


class FormatNames:
    """The names of the formats that lists may have; a package that somebody installed is imported for others only."""

    def __contains__(self, name: object) -> bool:
        return name in FORMATS or name in FOLDERS or name in tuple(self)

    def __str__(self) -> str:
        return ", ".join(self)

    def __iter__(self) -> Iterator[str]:
        foreign = (name for each in installed_extensions() for name in (*each.list_formats, *each.folder_formats))
        return iter((*FORMATS, *FOLDERS, *foreign))


_LENGTH = "how long the hashes of a list of the format safebrowsing-raw are"


def add_list_options(parser: argparse.ArgumentParser, length: str = _LENGTH) -> None:
    """Add the options that say how lists are read; ``length`` explains ``--prefix-length``."""
    parser.add_argument(
        "--format",
        choices=FormatNames(),
        metavar="NAME",
        help="the lists' format (default: what a list's name or content tells): %(choices)s",
    )
    parser.add_argument(
        "--prefix-length",
        type=int,
        choices=range(SHORTEST_PREFIX, FULL_LENGTH + 1),
        metavar="OCTETS",
        help=length,
    )
    parser.add_argument(
        "--variant", choices=tuple(VARIANTS), help="how the author of hashed URIs canonicalized (default: n)"
    )


#: of so many entries, one may be lost
_FEW = 100


def add_losses(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how many entries of a list may be lost, which ``too_many_lost`` asks."""
    losses = parser.add_mutually_exclusive_group()
    losses.add_argument(
        "--allow-losses",
        action="store_true",
        help=f"go on whatever is lost of a list; without this, more than one entry in {_FEW} is an error",
    )
    losses.add_argument("--strict", action="store_true", help="go on only if nothing is lost of a list")


def too_many_lost(arguments: argparse.Namespace, lost: int, kept: int) -> str:
    """Why so many entries may not be lost; empty if they may."""
    most = 0 if arguments.strict else (lost + kept) // _FEW
    if arguments.allow_losses or lost <= most:
        return ""
    usual = (
        "--strict allows none" if arguments.strict else f"one in {_FEW} may be: see hushlist lint, or --allow-losses"
    )
    return f"{lost:,} of {number_of(lost + kept, 'entry', 'entries')} would be lost; {usual}"


def add_seal(
    parser: argparse.ArgumentParser, why: str = "the key of sealed lists, as 'hushlist sealkey' wrote it"
) -> None:
    """Add the option that names the key of sealed lists, which ``seal_key`` reads; the help says why."""
    parser.add_argument("--seal", type=Path, metavar="FILE", help=why)


def seal_key(arguments: argparse.Namespace) -> SealKey | None:
    """The key that ``--seal`` names; ``SourceError`` if it cannot be used."""
    return None if arguments.seal is None else read_seal_key(arguments.seal)


def list_defaults(arguments: argparse.Namespace, key: SealKey | None) -> ListDefaults:
    """How the options say that lists are read, and the key that they have to be sealed with."""
    seal = None if key is None else key.fingerprint
    return ListDefaults(variant=arguments.variant, prefix_length=arguments.prefix_length, seal=seal)


def files_of(paths: Iterable[Path], arguments: argparse.Namespace, key: SealKey | None = None) -> list[ListFile]:
    """The files of lists, each once; they have to be sealed with the key, if one is given.

    Raises:
        SourceError: lists do not exist or cannot be used; names all of them.
    """
    problems: list[Problem] = []
    files = {file.path.absolute(): file for path in paths for file in _files(path, arguments, key, problems)}
    if problems:
        raise SourceError(problems)
    return list(files.values())


def told_by_name(path: Path) -> str | None:
    """The format that a list's name tells, also to an extension that an installed package brings."""
    return list_format_of(path) or (None if path.is_dir() else list_format_of(path, installed_extensions()))


def _files(
    path: Path, arguments: argparse.Namespace, key: SealKey | None, problems: list[Problem]
) -> Iterator[ListFile]:
    defaults = list_defaults(arguments, key)
    try:
        for file in list_files(path, arguments.format or told_by_name(path), defaults):
            if file.detected:
                remark(f"{path}: read as {file.detected}, as its content tells")
            yield file
    except SourceError as error:
        problems += error.problems


def popular_domains(path: Path | None) -> tuple[bytes, ...]:
    """A file's canonical hosts, the most popular first; others are reported. ``SourceError`` if it is unreadable."""
    if path is None:
        return ()
    from hushlist.core.lists.popular_domains import read_popular_file

    report = ProblemReport(str(path))
    domains = read_popular_file(path, report)
    if report.errors:
        raise SourceError(report.errors)
    print_warnings(report.warnings)
    return domains


def add_key_file(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a key table, which ``hushlist.tools.publish.key_table`` reads."""
    parser.add_argument(
        "--key-file", type=Path, metavar="FILE", help="what the hashes stand for, as 'hushlist hide' wrote it"
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the options for what the proxies share: a policy has its database, and the time zone of what is printed."""
    add_policy(
        parser, "the proxies' policy: its database, if it names one, and its time zone (default: those of this machine)"
    )
    parser.add_argument(
        "--store",
        type=parse_place,
        metavar="FILE",
        help="the file that the proxies share, or the postgresql:// address of their database, in place of the "
        "policy's (default: this user's file)",
    )


def store_of(
    arguments: argparse.Namespace, default: Callable[[], Path], *, may_be_new: bool = False
) -> Path | PostgresAddress:
    """Where the proxies keep what they share.

    Raises:
        SourceError: the policy cannot be read.
        StoreError: the file that the arguments name is not there, and may not be new.
    """
    from hushlist.extensions.databases.sql import StoreError  # only these commands need a database

    place: Path | PostgresAddress | None = arguments.store
    if isinstance(place, Path) and not may_be_new and not place.exists():
        raise StoreError(place, "there is no such file")
    policy = policy_of(arguments) if place is None else None
    return place or (policy and policy.of("store")) or default()
