"""``hushlist audit``: recorded browsing against the lists of a policy."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from hushlist.audit.auditor import Moment
from hushlist.audit.finish import digest_file, digest_policy, finish
from hushlist.audit.page import report_page
from hushlist.audit.report import Asked, Popular, Report, ReportError
from hushlist.audit.sources.formats import FORMATS
from hushlist.audit.tally import Tally
from hushlist.audit.text import report_text
from hushlist.audit.work import Progress, Work, audit, default_jobs
from hushlist.cli.asking import add_who_and_when, open_engine, who_and_when
from hushlist.cli.common import BAD, GOOD, Commands, add_command, add_policy, expand_folders, print_lines
from hushlist.cli.progress import shown_progress
from hushlist.engine import Engine
from hushlist.errors import Problem, SourceError
from hushlist.lists.popular import read_popular
from hushlist.lists.source import Report as SourceReport
from hushlist.lists.source import read_octets
from hushlist.policy import shipped_policy

#: columns, where that is no terminal
_WIDTH = 100


def add_to(commands: Commands) -> None:
    """Add the command."""
    text = "decide recorded requests by a policy, and report what would be stopped, by what, and what that breaks"
    formats = "; ".join(f"{own.name}: {own.text}" for own in FORMATS.values())
    parser = add_command(
        commands,
        "audit",
        audit_sources,
        text,
        epilog=f"Formats: {formats}. Files may be compressed by gzip, bzip2, xz or Zstandard.",
    )
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="a file, or a folder with files; '-' is standard input"
    )
    add_policy(parser)
    parser.add_argument("--format", choices=FORMATS, help="of all sources (default: told by what is in each)")
    parser.add_argument(
        "--popular",
        type=Path,
        metavar="FILE",
        help="popular domains, one a line or as rank,domain: say which of them requests are stopped to",
    )
    parser.add_argument(
        "--merge", action="store_true", help="the sources are reports that --json has printed: make one of them"
    )
    parser.add_argument(
        "--jobs", type=_number, default=default_jobs(), metavar="N", help="processes (default: one a core)"
    )
    parser.add_argument(
        "--unused",
        type=_number,
        default=10,
        metavar="N",
        help="of each list, so many rules that never fired are named (default: 10)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write the report as one HTML page, with charts and explanations"
    )
    add_who_and_when(parser)
    parser.add_argument(
        "--as-recorded",
        action="store_true",
        help="decide each request for the client and at the time that its record has, where it has them",
    )


def _number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def audit_sources(arguments: argparse.Namespace) -> int:
    """The report; progress goes to standard error, where that is a terminal."""
    engine = open_engine(arguments)
    at, client = who_and_when(arguments, engine)
    moment = Moment(at, client, arguments.as_recorded)
    report = _empty(arguments, engine, moment)
    if arguments.merge:
        _merge(report, arguments.sources)
    else:
        ranks = {name.encode(): rank for name, rank in report.ranks.items()}
        named = FORMATS[arguments.format] if arguments.format else None
        work = Work(expand_folders(arguments.sources), moment, named, ranks, arguments.jobs)
        start = perf_counter()
        with shown_progress() as show:
            told: Progress | None = None
            if show is not None:
                told = lambda records, done, total: show(f"{records:,} requests", done, total)  # noqa: E731
            report.tally, report.workers = audit(engine, work, told)
        report.seconds = perf_counter() - start
    finish(report, engine, moment, arguments.unused)
    plain = report.as_dict()
    if arguments.html is not None:
        _write_page(arguments.html, plain)
    if arguments.json:
        print(json.dumps(plain))
    else:
        is_terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if is_terminal else _WIDTH
        print_lines(report_text(plain, width, is_colored=is_terminal and not os.environ.get("NO_COLOR")))
    return BAD if any(not own.number for own in report.tally.broken) else GOOD


def _write_page(path: Path, plain: dict[str, Any]) -> None:
    """Write the report as a page, whole or not at all.

    Raises:
        SourceError: it cannot be written.
    """
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_text(report_page(plain, datetime.now(UTC)), encoding="utf-8")
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise SourceError([Problem(str(path), 0, "html", error.strerror or str(error))]) from error


def _empty(arguments: argparse.Namespace, engine: Engine, moment: Moment) -> Report:
    """A report of nothing, by the policy that is asked."""
    client = moment.client
    asked = Asked(
        None if moment.as_recorded else moment.at, client.address, client.user, client.port, moment.as_recorded
    )
    path = arguments.policy or shipped_policy()
    try:
        report = Report(digest_policy(path, engine.policy), asked, Tally())
        if arguments.popular is not None:
            domains = _read_popular(arguments.popular)
            report.popular = Popular(str(arguments.popular), digest_file(arguments.popular), len(domains))
            report.ranks = domains
    except OSError as error:
        why = error.strerror or str(error)
        raise SourceError([Problem(str(error.filename or path), 0, "audit", why)]) from error
    return report


def _read_popular(path: Path) -> dict[str, int]:
    """Ranks of popular domains.

    Raises:
        SourceError: the file cannot be read.
    """
    own = SourceReport(str(path))
    octets = read_octets(path, own)
    if octets is None:
        raise SourceError(own.errors)
    ranks: dict[str, int] = {}
    for rank, name in enumerate(read_popular(octets, own), 1):
        ranks.setdefault(name.decode("ascii"), rank)
    return ranks


def _merge(report: Report, paths: list[str]) -> None:
    """Merge reports into an empty one.

    Raises:
        SourceError: one cannot be read, or was made with another policy.
    """
    for place, path in enumerate(paths):
        try:
            other = Report.from_json(Path(path).read_bytes())
            if not place:
                report.asked = other.asked
            report.merge(other)
        except (OSError, ValueError, ReportError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise SourceError([Problem(path, 0, "report", why)]) from error
