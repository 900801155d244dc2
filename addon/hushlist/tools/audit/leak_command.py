"""``hushlist leak``: how much of a list of hashes a dictionary recovers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from hushlist.cli import command_options, common
from hushlist.core.errors import number_of, printable, right_aligned
from hushlist.core.system.files import source_errors, write_private
from hushlist.tools.audit import leak_job
from hushlist.tools.publish.false_positives import figure

#: recovered rules that are shown by default
_SHOWN = 20
#: smaller values count as zero
_TINY = 1e-6


def add_to(commands: common.Commands) -> None:
    text = "measure how much of a list of hashes can be read by whoever has a dictionary of names and URLs"
    epilog = "Exit codes: 0 nothing was recovered; 1 something was; 2 wrong usage or bad input."
    parser = common.add_command(commands, "leak", leak, text, epilog)
    parser.add_argument(
        "list", type=Path, metavar="LIST", help="a list of hashes or hashed URIs, or one with some in it"
    )
    command_options.add_list_options(parser)
    command_options.add_seal(parser)
    parser.add_argument(
        "--dictionary",
        nargs="+",
        action="extend",
        required=True,
        type=Path,
        metavar="FILE",
        help="what to try: a list in a format that its name tells, or a text with a name or a URL a line; "
        "compressed by gzip or not; '-' is standard input",
    )
    parser.add_argument("--jobs", type=_jobs, metavar="NUMBER", help="processes (default: as many as there are cores)")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--show", action="store_true", help=f"show all that was recovered, not the first {_SHOWN}")
    shown.add_argument(
        "--out", type=Path, metavar="FILE", help="write what was recovered into a new file that is private"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object; with --show, with what was recovered")


def _jobs(text: str) -> int:
    number = common.parse_number(text)
    if number > 256:
        raise argparse.ArgumentTypeError(f"{text!r} is more than 256")
    return number


def leak(arguments: argparse.Namespace) -> int:
    """Print the numbers, a verdict, and what was recovered."""
    key = command_options.seal_key(arguments)
    targets, warnings = leak_job.read_targets(command_options.files_of([arguments.list], arguments, key))
    common.print_warnings(warnings)
    for path in arguments.dictionary:
        command_options.told_by_name(path)  # says which extension cannot be used: whoever searches is silent about it
    source = str(arguments.list)
    jobs = arguments.jobs
    with common.shown_progress() as progress:
        result = leak_job.search_dictionary(
            source, targets, arguments.dictionary, key=key, jobs=jobs, progress=progress
        )
    if arguments.out is not None:
        with source_errors(arguments.out, "out"):  # what the list's author hides
            write_private(arguments.out, "".join(_line(result, rule) + "\n" for rule in result.recovered).encode())
    if arguments.json:
        common.print_json(_as_dict(result, is_whole=arguments.show))
    else:
        common.print_lines(_lines(result))
        if arguments.out is None:
            common.print_lines(_shown(result, len(result.recovered) if arguments.show else _SHOWN))
    return common.FINDINGS if result.recovered else common.GOOD


# -- as text -----------------------------------------------------------------------------------------------------------


def _lines(result: leak_job.Leak) -> Iterator[str]:
    yield from _table(result.rows)
    if result.clear:
        yield f"{number_of(result.clear, 'rule', 'rules')} in the clear hide nothing, and were not tried."
    entries = number_of(result.entries, "entry", "entries")
    tried = f"{entries} of the dictionary gave {number_of(result.tried, 'guess', 'guesses')}"
    if any(leak_job.estimates(result)):
        jobs = number_of(result.jobs, "process", "processes")
        rate = f"{result.tried / result.seconds:,.0f} a second in {jobs}"
        yield f"{tried}: {leak_job.span(result.seconds)}, {rate}."
        for name, seconds in leak_job.estimates(result):
            yield f"{name}: {leak_job.span(seconds)} on this machine."
    else:
        yield f"{tried}, in a time too short to measure."
    yield leak_job.verdict(result)


def _table(rows: list[leak_job.LeakRow]) -> Iterator[str]:
    if not rows:
        return
    heads = ("hashes", "recovered", "", "by chance", "likelihood", "kind")
    cells = [
        (
            f"{row.hashes:,}",
            f"{row.recovered:,}",
            f"{row.recovered / row.hashes:.1%}",
            figure(row.by_chance) if row.by_chance >= _TINY else "0",
            _likelihood(row),
            str(row.table),
        )
        for row in rows
    ]
    yield from right_aligned(heads, cells)


def _likelihood(row: leak_job.LeakRow) -> str:
    """The probability that chance gives this number of matches."""
    if not row.recovered:
        return "-"
    return f"{row.likelihood:.1g}" if row.likelihood >= _TINY else f"< {_TINY:.0g}"


def _shown(result: leak_job.Leak, most: int) -> Iterator[str]:
    yield from (_line(result, rule) for rule in result.recovered[:most])
    rest = len(result.recovered) - most
    if rest > 0:
        yield f"{rest:,} more; --show prints them, --out FILE writes them"


def _line(result: leak_job.Leak, rule: leak_job.Recovered) -> str:
    return printable(f"{result.source}:{rule.line}: {rule.plaintext}")


# -- as JSON -----------------------------------------------------------------------------------------------------------


def _as_dict(result: leak_job.Leak, *, is_whole: bool) -> dict[str, object]:
    """The same as plain types, for JSON."""
    plain: dict[str, object] = {
        "source": result.source,
        "hashes": result.hashes,
        "recovered": len(result.recovered),
        "share": result.share,
        "kinds": [row.as_dict() for row in result.rows],
        "clear": result.clear,
        "entries": result.entries,
        "tried": result.tried,
        "seconds": result.seconds,
        "per_second": result.tried / result.seconds if result.seconds else 0,
        "jobs": result.jobs,
        "estimates": [{"dictionary": name, "seconds": seconds} for name, seconds in leak_job.estimates(result)],
        "verdict": leak_job.verdict(result),
    }
    if is_whole:
        plain["rules"] = [rule._asdict() for rule in result.recovered]
    return plain
