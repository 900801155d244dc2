"""What stores in SQLite and in PostgreSQL are asked alike, for the extensions that keep something.

In: the address of a database, and questions. Out: rows. Open first: ``postgres``.
"""

from hushlist.core.extension import Extension

EXTENSION = Extension("databases")
