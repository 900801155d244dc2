"""``hushlist audit``: decides recorded browsing by a policy, and reports."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hushlist.cli import command_options, common
from hushlist.core.errors import to_json
from hushlist.core.policy import default_policy
from hushlist.core.policy.groups import Client
from hushlist.core.system.files import LONGEST_LIST, read_regular, replace_file, source_errors
from hushlist.tools.audit.replay.audit_page import report_page
from hushlist.tools.audit.replay.audit_report import AuditReport, read_report
from hushlist.tools.audit.replay.audit_text import Title, report_text
from hushlist.tools.audit.replay.auditor import ReplayMoment
from hushlist.tools.audit.replay.partition import merge_reports, report_of
from hushlist.tools.audit.replay.replay_job import ReplayWork
from hushlist.tools.audit.replay.report_details import add_details
from hushlist.tools.audit.report_codec import encode
from hushlist.tools.audit.sources.source_formats import FORMATS
from hushlist.tools.publish.key_table import KeyEntry, read_key_table, revealed

#: columns, if the output is not a terminal
_WIDTH = 100


def add_to(commands: common.Commands) -> None:
    text = "decide recorded requests by a policy, and report what would be stopped, by what, and what that breaks"
    formats = "; ".join(f"{form.name}: {form.text}" for form in FORMATS.values())
    parser = common.add_command(
        commands,
        "audit",
        audit_sources,
        text,
        epilog=f"Formats: {formats}. Files may be compressed by gzip, bzip2, xz or Zstandard.",
    )
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="a file, or a folder with files; '-' is standard input"
    )
    common.add_policy(parser)
    parser.add_argument(
        "--list",
        type=Path,
        action="append",
        default=[],
        dest="lists",
        metavar="FILE",
        help="a list, packed or not, in place of a policy; several are compared over the same requests",
    )
    parser.add_argument("--format", choices=FORMATS, help="of all sources (default: told by what is in each)")
    command_options.add_popular(parser, ": say which of them requests are stopped to")
    command_options.add_key_file(parser)
    parser.add_argument(
        "--merge",
        action="store_true",
        help="the sources are reports that --json has printed, with the same --policy and --popular: make one of them",
    )
    command_options.add_jobs(parser)
    parser.add_argument(
        "--unused",
        type=common.parse_number,
        default=10,
        metavar="N",
        help="of each list, so many rules that never fired are named (default: 10)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write the report as one HTML page, with charts and explanations"
    )
    command_options.add_who_and_when(parser)
    command_options.add_as_recorded(parser)


def audit_sources(arguments: argparse.Namespace) -> int:
    """Print the report; progress goes to standard error, if that is a terminal."""
    if arguments.json and arguments.key_file is not None:
        return common.complain("--json keeps hashes, by which --merge knows rules: leave out --key-file")
    if not arguments.lists:
        return _audit(arguments)
    if arguments.policy is not None:
        return common.complain("--list takes the place of a policy: leave out one of both")
    with TemporaryDirectory(prefix="hushlist-audit-") as folder:
        arguments.policy = _policy_of(arguments.lists, Path(folder))
        return _audit(arguments)


def _policy_of(lists: list[Path], folder: Path) -> Path:
    """A policy of lists alone, each read by its own format; ``SourceError`` if there is no such list."""
    whose = argparse.Namespace(format=None, variant=None, prefix_length=None)
    command_options.files_of(lists, whose)
    path = folder / "policy.yaml"
    layer = {"name": "lists", "lists": [{"file": str(file.absolute())} for file in lists]}
    replace_file(path, to_json({"layers": [layer]}).encode())
    return path


def _audit(arguments: argparse.Namespace) -> int:
    table = read_key_table(arguments.key_file)
    engine = command_options.open_engine(arguments)
    at, client = command_options.who_and_when(arguments, engine)
    moment = ReplayMoment(at, client, arguments.as_recorded)
    sources = [] if arguments.merge else common.expand_folders(arguments.sources)
    with common.shown_progress() as show:
        work = ReplayWork(sources, moment, FORMATS.get(arguments.format), jobs=arguments.jobs)
        report = report_of(arguments.policy or default_policy(), engine, work, arguments.popular, show)
    if arguments.merge:
        report = _merged(report, arguments.sources)
        options = report.options
        moment = ReplayMoment(options.at or at, Client(options.client, options.user, options.port), options.as_recorded)
    if arguments.lists:
        named = ", ".join(map(str, arguments.lists))
        report = replace(report, policy=report.policy._replace(path=named))
    report = _revealed(add_details(report, engine, moment, arguments.unused), table)
    if arguments.html is not None:
        with source_errors(arguments.html, "html"):
            replace_file(arguments.html, report_page(report, datetime.now(UTC)).encode())
    unread = [problem for problem in report.broken.first if not problem.number]
    if arguments.json:
        common.print_json(encode(report))
    elif report.records or not unread:
        is_terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if is_terminal else _WIDTH
        is_colored = common.has_colors(sys.stdout)
        for line in report_text(report, width):
            common.print_line(line, is_bold=is_colored and isinstance(line, Title))
    for problem in unread:
        common.complain(problem)
    return common.BAD if unread else common.GOOD


def _revealed(report: AuditReport, table: Mapping[str, KeyEntry]) -> AuditReport:
    """The report with what hashes stand for: in the place of a rule, and behind one that never fired."""
    rules = tuple(
        use._replace(key=use.key._replace(rule=f"{entry.plaintext}, {entry.place}"), text="")
        if (entry := table.get(use.key.rule))
        else use
        for use in report.rules
    )
    lists = tuple(
        use._replace(
            facts=use.facts._replace(
                unused_first=tuple(
                    unused._replace(text=revealed(unused.text, table)) for unused in use.facts.unused_first
                )
            )
        )
        for use in report.lists
    )
    return replace(report, rules=rules, lists=lists)


def _merged(report: AuditReport, paths: list[str]) -> AuditReport:
    """A report, and those in files; ``SourceError`` if one cannot be read, or is for another policy or client."""
    report = replace(report, seconds=0.0)
    for place, path in enumerate(paths):
        with source_errors(path, "report"):
            other = read_report(read_regular(Path(path), LONGEST_LIST))
            report = merge_reports(report if place else replace(report, options=other.options), other)
    return report
