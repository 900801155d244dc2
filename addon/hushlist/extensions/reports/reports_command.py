"""``hushlist reports``: what people have reported as a mistake, and the report for a list's publisher."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from time import time

from hushlist.cli.command_options import add_store, policy_of, store_of
from hushlist.cli.common import (
    FINDINGS,
    GOOD,
    Commands,
    acting_user,
    add_command,
    add_group,
    complain,
    print_json,
    print_line,
    remark,
)
from hushlist.core.routes import MissingError
from hushlist.extensions.journal.log_record import Privacy
from hushlist.extensions.journal.masked_clients import SOMEBODY, device_names_shown, with_device
from hushlist.extensions.reports.actions import for_publisher, status_of
from hushlist.extensions.reports.publisher_report import SHAPES
from hushlist.extensions.reports.report_book import ReportBook
from hushlist.extensions.unblock import default_path
from hushlist.extensions.unblock.shown_clients import privacy_at

_CODES = "Exit codes: 0 good; 1 there is no such report, or it is settled; 2 wrong usage or bad input."


def add_to(commands: Commands) -> None:
    about = "show what people have reported as a mistake, and the report for a list's publisher"
    group = add_group(commands, "reports", about, "What block pages with the policy's 'reports' were told.")
    listed = add_command(group, "list", show_reports, "list what nobody has settled, the newest first", _CODES)
    listed.add_argument("--all", action="store_true", help="also what is settled")
    listed.add_argument("--json", action="store_true", help="print one JSON object a line; times in seconds since 1970")
    shown = add_command(
        group, "show", show_text, "print a report as the list's publisher may get it; send nothing", _CODES
    )
    shown.add_argument(
        "--url",
        choices=SHAPES,
        default="",
        help="how much of the URL it tells; without it, what the rule needs, and of a hashed rule, nothing",
    )
    ended = add_command(group, "settle", settle, "note that nothing is left to do about a report", _CODES)
    for command in (shown, ended):
        command.add_argument("number", type=int, metavar="NUMBER", help="its number, as 'list' shows it")
    for command in (listed, shown, ended):
        add_store(command)


@contextmanager
def _opened(arguments: argparse.Namespace) -> Iterator[tuple[ReportBook, Privacy]]:
    """The store, and what may be shown of it."""
    place = store_of(arguments, default_path)
    privacy = privacy_at(place, policy_of(arguments))
    book = ReportBook(place, time)
    try:
        yield book, privacy
    finally:
        book.close()


def show_reports(arguments: argparse.Namespace) -> int:
    with _opened(arguments) as (book, privacy):
        reported = [status_of(report, privacy) for report in book.rows(is_all=arguments.all)]
        names = device_names_shown(policy_of(arguments), privacy)
    for entry in reported:
        if arguments.json:
            print_json(asdict(entry))
            continue
        at = f"{datetime.fromtimestamp(entry.asked).astimezone():%Y-%m-%d %H:%M}"
        words, times = f": {entry.words}" if entry.words else "", f" ({entry.times} times)" if entry.times > 1 else ""
        state = "" if entry.settled is None else f"  settled by {entry.by}"
        name = with_device(f"user:{entry.user}" if entry.user else entry.client or SOMEBODY, names, entry.client)
        print_line(f"{entry.id}  {at}  {name}: {entry.url}  {entry.rule} by {entry.list}{times}{words}{state}")
    if not reported:
        remark("nobody has reported a mistake; people can where the policy says 'reports: on'")
    return GOOD


def show_text(arguments: argparse.Namespace) -> int:
    with _opened(arguments) as (book, privacy):
        try:
            made = for_publisher(book.report(arguments.number), privacy, arguments.url)
        except MissingError as error:
            complain(str(error))
            return FINDINGS
    for line in made.text.split("\n"):
        print_line(line)
    remark(f"for {made.publisher}" if made.publisher else "the list's head names no address of its publisher")
    return GOOD


def settle(arguments: argparse.Namespace) -> int:
    with _opened(arguments) as (book, _):
        try:
            book.settle(arguments.number, by=acting_user())
        except MissingError as error:
            complain(str(error))
            return FINDINGS
    print_line(f"settled {arguments.number}")
    return GOOD
