"""``hushlist convert``: writes a list in another format."""

from __future__ import annotations

import argparse
from pathlib import Path

from hushlist.cli import common
from hushlist.cli.command_options import FormatNames, files_of
from hushlist.core.compile.list_chunks import chunk_lists, list_workers, read_lists
from hushlist.core.errors import number_of
from hushlist.core.lists.list_formats import list_format_of
from hushlist.core.system.files import replace_file, source_errors
from hushlist.tools.publish.converted_list import TARGETS, YAML, convert

_FORMS = (YAML, *TARGETS)


def add_to(commands: common.Commands) -> None:
    text = "write a list in a format that other programs read, and say what that format cannot"
    epilog = "Exit codes: 0 every entry is written; 1 something is left out; 2 wrong usage or bad input."
    parser = common.add_command(commands, "convert", convert_list, text, epilog)
    parser.add_argument("list", type=Path, metavar="FROM", help="the list: a file, or a squidGuard folder")
    parser.add_argument("output", type=Path, metavar="TO", help="the file to write; '-' is standard output")
    parser.add_argument(
        "--format",
        dest="target",
        choices=_FORMS,
        metavar="NAME",
        help=f"the format to write (default: what the name of TO tells): {', '.join(_FORMS)}",
    )
    parser.add_argument(
        "--from",
        dest="format",
        choices=FormatNames(),
        metavar="NAME",
        help="the format of FROM (default: what its name or content tells)",
    )
    parser.set_defaults(variant=None, prefix_length=None)


def convert_list(arguments: argparse.Namespace) -> int:
    """Write the list; what is left out goes to standard error."""
    output = arguments.output
    form = arguments.target or list_format_of(output)
    if form not in _FORMS:
        return common.complain(f"name the format to write: --format {'|'.join(_FORMS)}")
    if output.resolve() == arguments.list.resolve():
        return common.complain(f"{output} would be written over: give it another name")
    files = files_of([arguments.list], arguments)
    lists = chunk_lists(files, "convert")
    with common.shown_progress() as progress, list_workers(lists, None, progress) as workers:
        chunks = [list(rules) for _, rules in read_lists(lists, workers, lambda chunk: list(chunk.rules))]
    for chunked in lists:
        if chunked.report.errors:
            common.complain_of(chunked.report.errors)
            return common.BAD
    converted = convert((rule for rules in chunks for rule in rules), form)
    unread = sum(chunked.report.left_out for chunked in lists)
    common.print_warnings([problem for chunked in lists for problem in chunked.report.warnings])
    common.print_warnings(converted.problems)
    left_out = converted.left_out + unread
    if str(output) == "-":
        common.print_lines(converted.text.splitlines())
    else:
        with source_errors(output, "output"):
            replace_file(output, converted.text.encode())
        rules = number_of(converted.rules, "rule", "rules")
        common.print_line(f"{output}: {rules} as {form}, {left_out:,} left out")
    return common.FINDINGS if left_out else common.GOOD
