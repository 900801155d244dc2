"""``hushlist store``: makes the tables that a policy's databases need, and brings them to the version of this Hushlist.

Exit codes: 0 good; 2 wrong usage, a policy with mistakes, or a database that cannot be used.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hushlist.cli.command_options import policy_of
from hushlist.cli.common import GOOD, Commands, add_command, add_group, complain, print_line
from hushlist.system.postgres import DatabaseError, migrate


def add_to(commands: Commands) -> None:
    about = "The databases that several machines share: 'store' and 'log' of the policy."
    own = add_group(commands, "store", "the databases that several machines share", about)
    text = "make their tables, or change those of an older Hushlist"
    migrated = add_command(own, "migrate", migrate_stores, text)
    migrated.add_argument("--policy", type=Path, metavar="FILE", required=True, help="the policy that names them")


def migrate_stores(arguments: argparse.Namespace) -> int:
    """Migrate each database once; the first that cannot be is the last that is tried."""
    policy = policy_of(arguments)
    assert policy is not None  # argparse saw to it
    named = (policy.store, None if policy.log is None else policy.log.to)
    addresses = {address: None for address in named if address is not None}
    if not addresses:
        return complain(f"{policy.source}: it names no database: see 'store' and 'to' of 'log'")
    for address in addresses:
        try:
            before, after = migrate(address)
        except DatabaseError as error:
            return complain(f"{address}: {error}")
        change = "as before" if before == after else f"it was {before or 'none'}"
        print_line(f"{address}: version {after}; {change}")
    return GOOD
