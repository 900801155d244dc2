"""``hushlist visit``: opens pages with lists and without, and says what the lists break, and by which rules."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from hushlist.cli import command_options, common
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.system.files import LONGEST_LIST, open_regular, read_regular, replace_file, source_errors
from hushlist.tools.visit.filter_process import VisitError
from hushlist.tools.visit.page_actions import read_actions
from hushlist.tools.visit.page_verdict import ORDER, Verdict
from hushlist.tools.visit.visit_job import VisitJob, VisitReport, visit_pages
from hushlist.tools.visit.visit_page import html_page
from hushlist.tools.visit.visit_text import as_json, counts_of, junit, page_text, report_text
from hushlist.tools.visit.visitor import PATIENCE, PageResult, VisitOptions

_BROWSERS = ("chromium", "firefox")
_EPILOG = (
    "Exit codes: 0 no page is worse than it may be; 1 more are than --max-broken or --max-suspect say; 2 wrong usage, "
    "or a page, list or browser that cannot be used. It needs pip install 'hushlist[visit]', and on PATH Chromium with "
    "its ChromeDriver, or Firefox."
)


def add_to(commands: common.Commands) -> None:
    text = "open pages in a browser, with lists and without, and say what the lists break, and which rules do"
    parser = common.add_command(commands, "visit", visit, text, _EPILOG)
    parser.add_argument(
        "sites", nargs="+", metavar="SITE", help="a page's address, or a file with one a line; '#' begins a comment"
    )
    parser.add_argument(
        "--list",
        type=Path,
        action="append",
        required=True,
        dest="lists",
        metavar="FILE",
        help="a list; several are used together",
    )
    common.add_policy(
        parser, "a policy that is used with the lists and without; the lists are its last layer (default: none)"
    )
    parser.add_argument(
        "--format",
        choices=command_options.FormatNames(),
        metavar="NAME",
        help="the lists' format (default: told by each)",
    )
    parser.add_argument("--browser", choices=_BROWSERS, default="chromium", help="(default: chromium)")
    parser.add_argument(
        "--actions",
        type=Path,
        metavar="FILE",
        help="what to do on each page, in YAML: consent, scroll, click, type, play, wait",
    )
    parser.add_argument(
        "--crawl",
        type=common.parse_number,
        default=0,
        metavar="N",
        help="visit so many more pages that a page leads to on its site",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--live", action="store_true", help="go to the net for each visit, instead of one recording for all"
    )
    source.add_argument(
        "--recording", type=Path, metavar="FILE", help="play these flows of mitmproxy, and go to the net for nothing"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("visit"),
        metavar="FOLDER",
        help="where recordings, pictures and results are kept (default: visit)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="take the results that are in the folder, of a run with the same lists"
    )
    parser.add_argument(
        "--workers",
        type=common.parse_number,
        default=1,
        metavar="N",
        help="pages at once, with three browsers each (default: 1)",
    )
    parser.add_argument(
        "--patience",
        type=common.parse_number,
        default=int(PATIENCE),
        metavar="SECONDS",
        help=f"for a page to load (default: {PATIENCE:.0f})",
    )
    parser.add_argument("--no-culprits", action="store_true", help="do not look for the rules that break a page")
    for name, default, usual in (("broken", 0, "0"), ("suspect", None, "any number")):
        what = f"pages that may be {name} or worse: beyond, the exit code is 1 (default: {usual})"
        parser.add_argument(f"--max-{name}", type=_parse_limit, default=default, metavar="N", help=what)
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as one HTML page, with pictures")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the report as JUnit's XML, for CI")


def _parse_limit(text: str) -> int:
    return 0 if text == "0" else common.parse_number(text)


def _addresses(sites: list[str]) -> Iterator[str]:
    for site in sites:
        if "://" in site or not Path(site).exists():
            yield site if "://" in site else f"https://{site}/"
            continue
        with source_errors(site, "sites"):
            lines = read_regular(Path(site), LONGEST_LIST).decode().splitlines()
        yield from _addresses(
            [line for raw in lines if (line := raw.partition(" #")[0].strip()) and not line.startswith("#")]
        )


def formats_of(lists: Iterable[Path], form: str | None = None) -> tuple[tuple[Path, str | None], ...]:
    """Lists with their formats, which their content tells unless one is given."""
    files = command_options.files_of(lists, argparse.Namespace(format=form, variant=None, prefix_length=None))
    names = {id(each): name for name, each in FORMATS.items()}
    return tuple((file.path, names.get(id(file.format), form)) for file in files)


def _options(arguments: argparse.Namespace) -> VisitOptions:
    actions = read_actions(arguments.actions) if arguments.actions else ()
    if arguments.recording is not None:
        with source_errors(arguments.recording, "recording"), open_regular(arguments.recording):
            pass  # said before any browser is started
    return VisitOptions(
        lists=formats_of(arguments.lists, arguments.format),
        policy=arguments.policy,
        browser=arguments.browser,
        actions=actions,
        folder=arguments.folder,
        recording=arguments.recording,
        live=arguments.live,
        patience=float(arguments.patience),
    )


def visit(arguments: argparse.Namespace) -> int:
    """Print each page as it is done, and the figures in all."""
    if find_spec("selenium") is None:
        return common.complain("visits need Selenium: pip install 'hushlist[visit]'")
    job = VisitJob(
        _options(arguments),
        tuple(_addresses(arguments.sites)),
        arguments.workers,
        arguments.crawl,
        arguments.resume,
        not arguments.no_culprits,
    )
    with common.shown_progress() as show:

        def tell(result: PageResult, done: int, total: int, left: float) -> None:
            if not arguments.json:
                common.print_lines(page_text(result))
            if show is not None:
                show(f"visited, {left // 60:.0f}:{left % 60:02.0f} left", done, total)

        try:
            report = visit_pages(job, tell)
        except VisitError as error:
            return common.complain(error)
    _write(arguments, report)
    if arguments.json:
        common.print_json(as_json(report))
    else:
        common.print_lines(report_text(report))
    if any(page.failed for page in report.pages):
        return common.BAD
    return _code(arguments, report)


def _write(arguments: argparse.Namespace, report: VisitReport) -> None:
    if arguments.html is not None:
        with source_errors(arguments.html, "html"):
            replace_file(arguments.html, html_page(report, arguments.folder).encode())
    if arguments.junit is not None:
        fails_at = Verdict.BROKEN if arguments.max_suspect is None else Verdict.SUSPECT
        with source_errors(arguments.junit, "junit"):
            replace_file(arguments.junit, junit(report, fails_at).encode())


def _code(arguments: argparse.Namespace, report: VisitReport) -> int:
    """Suspect are those that are at least suspect."""
    counts, code = counts_of(report), common.GOOD
    for verdict in (Verdict.BROKEN, Verdict.SUSPECT):
        most: int | None = getattr(arguments, f"max_{verdict.value}")
        number = sum(counts[each] for each in ORDER[ORDER.index(verdict) :])
        if most is not None and number > most:
            common.complain(f"{number} pages are {verdict.value} or worse: more than --max-{verdict.value} {most}")
            code = common.FINDINGS
    return code
