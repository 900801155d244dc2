"""``hushlist lint``: prints the problems of lists."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from hushlist.audit.lint.findings import Finding, FindingKind
from hushlist.audit.lint.lint_job import Linted, lint
from hushlist.cli.command_options import add_list_options, files_of, popular_domains
from hushlist.cli.common import (
    BAD,
    FOUND,
    GOOD,
    Commands,
    add_command,
    number_of,
    print_json,
    print_line,
    print_lines,
    shown_progress,
)


def add_to(commands: Commands) -> None:
    """Add the command."""
    text = "look through lists for what is wrong with them, each for itself and all together"
    epilog = "Exit codes: 0 nothing was found; 1 something was; 2 wrong usage, or a list that cannot be used."
    parser = add_command(commands, "lint", lint_lists, text, epilog)
    parser.add_argument("lists", nargs="+", type=Path, metavar="LIST", help="a list: a file, or a squidGuard folder")
    add_list_options(parser)
    parser.add_argument(
        "--popular", type=Path, metavar="FILE", help="popular domains, one a line or as rank,domain, to warn of"
    )
    parser.add_argument(
        "--json", action="store_true", help="print a JSON object a line: each finding, and last a summary"
    )


def lint_lists(arguments: argparse.Namespace) -> int:
    """Print the findings, and their number by kind."""
    files = files_of(arguments.lists, arguments)
    popular = popular_domains(arguments.popular)
    show = _as_json if arguments.json else _as_text
    with shown_progress() as progress:
        linted = lint(files, show, datetime.now(UTC), popular=popular, progress=progress)
    if arguments.json:
        print_json({"summary": linted.as_dict()})
    else:
        print_lines(_summary(linted))
    return BAD if linted.counts[FindingKind.ERROR] else FOUND if linted.counts.total() else GOOD


def _as_text(source: str, finding: Finding) -> None:
    place = f"{source}:{finding.line}" if finding.line else source
    print_line(f"{place}: {finding.kind}: {finding.what}: {finding.why}")


def _as_json(source: str, finding: Finding) -> None:
    print_json({"source": source, **finding._asdict()})


def _summary(linted: Linted) -> Iterator[str]:
    """Lines for a person."""
    for own in linted.prefixes:
        yield f"{own.source}: {own}"
    counts = [f"{linted.counts[kind]:,} {kind}" for kind in FindingKind if linted.counts[kind]]
    files = f"{number_of(linted.rules, 'rule', 'rules')} in {number_of(linted.lists, 'file', 'files')}"
    yield f"{files}: {', '.join(counts) or 'nothing found'}"
