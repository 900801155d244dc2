"""``hushlist audit``: decides recorded browsing by a policy, and reports."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from hushlist.audit.replay.audit_report import AuditReport, read_report
from hushlist.audit.replay.audit_workers import ReplayWork
from hushlist.audit.replay.auditor import ReplayMoment
from hushlist.audit.replay.partition import merge_reports, report_of
from hushlist.audit.replay.report_details import add_details
from hushlist.audit.replay.report_page import report_page
from hushlist.audit.replay.report_text import Title, report_text
from hushlist.audit.report_codec import ReportError, encode
from hushlist.audit.sources.source_formats import FORMATS
from hushlist.cli.command_options import add_as_recorded, add_jobs, add_who_and_when, open_engine, who_and_when
from hushlist.cli.common import (
    BAD,
    GOOD,
    Commands,
    add_command,
    add_policy,
    expand_folders,
    parse_number,
    print_json,
    print_line,
    shown_progress,
)
from hushlist.errors import Problem, SourceError
from hushlist.policy import shipped_policy
from hushlist.policy.groups import Client
from hushlist.system.files import LONGEST_LIST, read_regular

#: columns, if the output is not a terminal
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
        "--merge",
        action="store_true",
        help="the sources are reports that --json has printed, with the same --policy and --popular: make one of them",
    )
    add_jobs(parser)
    parser.add_argument(
        "--unused",
        type=parse_number,
        default=10,
        metavar="N",
        help="of each list, so many rules that never fired are named (default: 10)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write the report as one HTML page, with charts and explanations"
    )
    add_who_and_when(parser)
    add_as_recorded(parser)


def audit_sources(arguments: argparse.Namespace) -> int:
    """Print the report; progress goes to standard error, if that is a terminal."""
    engine = open_engine(arguments)
    at, client = who_and_when(arguments, engine)
    moment = ReplayMoment(at, client, arguments.as_recorded)
    named = FORMATS[arguments.format] if arguments.format else None
    sources = [] if arguments.merge else expand_folders(arguments.sources)
    with shown_progress() as show:
        work = ReplayWork(sources, moment, named, jobs=arguments.jobs)
        report = report_of(arguments.policy or shipped_policy(), engine, work, arguments.popular, show)
    if arguments.merge:
        report = _merged(report, arguments.sources)
        asked = report.asked
        moment = ReplayMoment(asked.at or at, Client(asked.client, asked.user, asked.port), asked.as_recorded)
    report = add_details(report, engine, moment, arguments.unused)
    if arguments.html is not None:
        _write_page(arguments.html, report)
    if arguments.json:
        print_json(encode(report))
    else:
        is_terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if is_terminal else _WIDTH
        is_colored = is_terminal and not os.environ.get("NO_COLOR")
        for line in report_text(report, width):
            print_line(line, is_bold=is_colored and isinstance(line, Title))
    return BAD if any(not own.number for own in report.broken.first) else GOOD


def _write_page(path: Path, report: AuditReport) -> None:
    """Write the report as a page, whole or not at all.

    Raises:
        SourceError: it cannot be written.
    """
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_text(report_page(report, datetime.now(UTC)), encoding="utf-8")
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise SourceError([Problem(str(path), 0, "html", error.strerror or str(error))]) from error


def _merged(report: AuditReport, paths: list[str]) -> AuditReport:
    """An empty report, and those in files.

    Raises:
            SourceError: a report cannot be read, or is for another policy or client.
    """
    report = replace(report, seconds=0.0)
    for place, path in enumerate(paths):
        try:
            other = read_report(read_regular(Path(path), LONGEST_LIST))
            report = merge_reports(report if place else replace(report, asked=other.asked), other)
        except (OSError, ValueError, ReportError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise SourceError([Problem(path, 0, "report", why)]) from error
    return report
