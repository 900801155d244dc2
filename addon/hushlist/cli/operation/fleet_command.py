"""``hushlist fleet``: the proxies that share a store, and which of them differ from the others."""

from __future__ import annotations

import argparse
import time
from contextlib import closing

from hushlist.cli.common import FOUND, GOOD, Commands, add_command, add_group, print_json, print_line, remark
from hushlist.cli.operation.override_command import add_store, store_of
from hushlist.fleet.proxy_records import SHOWN, ProxyRecord, ProxyRecords, age, default_path, troubles


def add_to(commands: Commands) -> None:
    text = "the proxies that share a store, and which of them differ from the others"
    own = add_group(commands, "fleet", text, "The proxies that share a store.")
    codes = "Exit codes: 0 all agree; 1 something is wrong with one, or there is none; 2 wrong usage or bad input."
    text = "show each proxy: version, policy, index, load and age, and what is wrong with it"
    status = add_command(own, "status", show_status, text, codes)
    status.add_argument("--json", action="store_true", help="print one JSON object a line; times in seconds since 1970")
    add_store(status)


def show_status(arguments: argparse.Namespace) -> int:
    """Print a line for each proxy, and one for each trouble."""
    place = store_of(arguments, default_path)
    with closing(ProxyRecords(place, time.time)) as records:
        found = records.all()
    now = time.time()
    wrong = troubles(found, now)
    for one in found:
        if arguments.json:
            print_json({**one._asdict(), "troubles": wrong[one.name]})
        else:
            print_line(_line(one, now), word="block" if wrong[one.name] else "")
            for trouble in wrong[one.name]:
                print_line(f"  {trouble}")
    if not found:
        remark(f"no proxy has said anything in {place}")
    return GOOD if found and not any(wrong.values()) else FOUND


def _line(one: ProxyRecord, now: float) -> str:
    parts = (
        one.name,
        one.version,
        f"policy {one.policy_digest[:SHOWN] or 'none'}",
        f"index {one.index_digest[:SHOWN] or 'none'}",
        f"{one.rules:,} rules",
        f"mode {one.mode}",
        f"up {age(one.at - one.started)}",
        f"{one.rate:.1f} requests/s",
        f"{one.memory / 1e6:.0f} MB",
        f"seen {age(now - one.at)} ago",
    )
    return "  ".join(parts)
