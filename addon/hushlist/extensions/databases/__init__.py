"""Stores in SQLite and in PostgreSQL, which extensions open, write and ask alike; damaged files and their good copies.

In: the path of a file or the address of a database, and SQL. Out: rows. Open first: ``store``.
"""

from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "databases",
    policy_keys=(
        Key("store", f"{__name__}.postgres_address:DATABASE").says("""the database that several machines share for
            temporary unblocks, quotas and sign-ins: a `postgresql://` address; without it, files of this machine: see
            [A database](fleet.md#a-database)"""),
    ),
    checks=f"{__name__}.kept_files:examine_state",
    part=f"{__name__}.store_upkeep:StoreUpkeep",
)
