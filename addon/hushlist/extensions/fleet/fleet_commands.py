"""``hushlist fleet`` and ``store``: the proxies that share a store, and the tables that a shared database needs."""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from pathlib import Path

from hushlist.cli.command_options import add_store, policy_of, store_of
from hushlist.cli.common import (
    FINDINGS,
    GOOD,
    Commands,
    add_command,
    add_group,
    complain,
    print_json,
    print_line,
    remark,
)
from hushlist.extensions.databases.postgres import migrate
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.fleet.proxy_records import SHOWN, ProxyRecord, ProxyRecords, age, default_path, troubles


def add_to(commands: Commands) -> None:
    text = "the proxies that share a store, and which of them differ from the others"
    group = add_group(commands, "fleet", text, "The proxies that share a store.")
    codes = "Exit codes: 0 all agree; 1 something is wrong with one, or there is none; 2 wrong usage or bad input."
    text = "show each proxy: version, policy, index, load and age, and what is wrong with it"
    status = add_command(group, "status", show_status, text, codes)
    status.add_argument("--json", action="store_true", help="print one JSON object a line; times in seconds since 1970")
    add_store(status)
    about = "The databases that several machines share: 'store' and 'log' of the policy."
    group = add_group(commands, "store", "the databases that several machines share", about)
    migrated = add_command(group, "migrate", migrate_stores, "make their tables, or change those of an older Hushlist")
    migrated.add_argument("--policy", type=Path, metavar="FILE", required=True, help="the policy that names them")


def show_status(arguments: argparse.Namespace) -> int:
    """Print a line for each proxy, and one for each trouble."""
    place = store_of(arguments, default_path)
    with closing(ProxyRecords(place, time.time)) as store:
        records = store.all()
    now = time.time()
    wrong = troubles(records, now)
    for record in records:
        if arguments.json:
            print_json({**record._asdict(), "troubles": wrong[record.name]})
        else:
            print_line(_line(record, now), word="block" if wrong[record.name] else "")
            for trouble in wrong[record.name]:
                print_line(f"  {trouble}")
    if not records:
        remark(f"no proxy has said anything in {place}")
    return GOOD if records and not any(wrong.values()) else FINDINGS


def _line(record: ProxyRecord, now: float) -> str:
    parts = (
        record.name,
        record.version,
        f"policy {record.policy_digest[:SHOWN] or 'none'}",
        f"index {record.index_digest[:SHOWN] or 'none'}",
        f"{record.rules:,} rules",
        f"mode {record.mode}",
        f"up {age(record.at - record.started)}",
        f"{record.rate:.1f} requests/s",
        f"{record.memory / 1e6:.0f} MB",
        f"seen {age(now - record.at)} ago",
    )
    return "  ".join(parts)


def migrate_stores(arguments: argparse.Namespace) -> int:
    """Migrate each database once; the first that cannot be is the last that is tried."""
    policy = policy_of(arguments)
    assert policy is not None  # argparse saw to it
    named = (policy.of("store"), None if policy.of("log") is None else policy.of("log").to)
    addresses = {address: None for address in named if address is not None}
    if not addresses:
        return complain(f"{policy.source}: it names no database: see 'store' and 'to' of 'log'")
    for address in addresses:
        try:
            before, after = migrate(address)
        except StoreError as error:
            return complain(error)
        change = "as before" if before == after else f"it was {before or 'none'}"
        print_line(f"{address}: version {after}; {change}")
    return GOOD
