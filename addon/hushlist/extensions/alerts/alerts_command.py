"""``hushlist alerts``: which alerts there were, and that somebody has seen one."""

from __future__ import annotations

import argparse
from contextlib import closing
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
)
from hushlist.core.routes import MissingError
from hushlist.extensions.alerts.alert_book import AlertBook, AlertRow
from hushlist.extensions.alerts.alert_hits import shown_alert, told_whom
from hushlist.extensions.journal.masked_clients import device_names_shown
from hushlist.extensions.unblock import default_path
from hushlist.extensions.unblock.shown_clients import privacy_at

_CODES = "Exit codes: 0 good; 1 there is no such alert, or somebody has seen it before; 2 wrong usage or bad input."


def add_to(commands: Commands) -> None:
    text = "show alerts, and say that somebody has seen one"
    group = add_group(commands, "alerts", text, "What the policy's 'alerts' have told, as the log may name who did it.")
    listed = add_command(group, "list", show_alerts, "show the alerts of the last month, the newest first", _CODES)
    listed.add_argument("--unseen", action="store_true", help="only those that nobody has seen")
    listed.add_argument("--json", action="store_true", help="print one JSON object a line; times in seconds since 1970")
    said = add_command(
        group, "seen", say_seen, "say that somebody has seen an alert: no further notice goes out", _CODES
    )
    said.add_argument("number", type=int, metavar="NUMBER", help="its number")
    for command in (listed, said):
        add_store(command)


def _book(arguments: argparse.Namespace) -> AlertBook:
    return AlertBook(store_of(arguments, default_path), time)


def show_alerts(arguments: argparse.Namespace) -> int:
    with closing(_book(arguments)) as book:
        rows = book.rows(unseen=arguments.unseen)
        privacy = privacy_at(book.place, policy := policy_of(arguments))
    names = device_names_shown(policy, privacy)
    for row in (shown_alert(entry, privacy) for entry in rows):
        if arguments.json:
            print_json({**{name: getattr(row, name) for name in AlertRow.__slots__}, "about": dict(row.about)})
        else:
            at = f"{datetime.fromtimestamp(row.last).astimezone():%Y-%m-%d %H:%M}"
            about = row.about.get("url") or row.about.get("event") or ""
            whom = told_whom(row, names)
            state = "not seen" if row.seen is None else f"seen by {row.seen_by}"
            print_line(f"{row.id}  {at}  {row.alert}  {whom}  times: {row.number}  {state}  {about}".rstrip())
    return GOOD


def say_seen(arguments: argparse.Namespace) -> int:
    with closing(_book(arguments)) as book:
        try:
            privacy = privacy_at(book.place, policy := policy_of(arguments))
            row = shown_alert(book.seen(arguments.number, by=acting_user()), privacy)
        except MissingError as error:
            complain(str(error))
            return FINDINGS
    print_line(f"seen: {row.id}  {row.alert}  {told_whom(row, device_names_shown(policy, privacy))}")
    return GOOD
