"""Stores in SQLite and in PostgreSQL, which extensions open, write and ask alike; damaged files and their good copies.

In: the path of a file or the address of a database, and SQL. Out: rows. Open first: ``store``.
"""

from hushlist.core.extension import Extension

EXTENSION = Extension("databases")
