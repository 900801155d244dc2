"""Addresses of PostgreSQL, as libpq reads them; what is shown of one has no password.

Spec: https://www.postgresql.org/docs/15/libpq-connect.html#LIBPQ-CONNSTRING
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode

from hushlist.core.policy.keys import Type

_HOST = r"(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._~%-]*)(?::[0-9]{0,5})?"
_URL = re.compile(rf"postgres(?:ql)?://(?:([^@/]*)@)?({_HOST}(?:,{_HOST})*)(?:/([^?]*))?(?:\?(.*))?", re.DOTALL)
_BROKEN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
#: parameters that are shown; all others may be secret
_SHOWN = ("host", "hostaddr", "port", "dbname", "service", "sslmode", "target_session_attrs")


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """The address of a database; its text has no password.

    >>> str(parse_postgres_address("postgresql://jo:secret@db.example/filter?sslmode=require&sslpassword=secret"))
    'postgresql://jo@db.example/filter?sslmode=require'
    """

    url: str = field(repr=False)

    def __str__(self) -> str:
        user, hosts, name, more = _parts(self.url)
        shown = urlencode([(key, value) for key, value in parse_qsl(more) if key in _SHOWN], safe="/,")
        return "".join(
            (
                "postgresql://",
                f"{user}@" if user else "",
                hosts,
                f"/{name}" if name else "",
                f"?{shown}" if shown else "",
            )
        )


def _parts(url: str) -> tuple[str, str, str, str]:
    """User, hosts, name of the database, and parameters."""
    match = _URL.fullmatch(url)
    assert match is not None
    login, hosts, name, more = (text or "" for text in match.groups())
    return quote(login.partition(":")[0], safe="%"), hosts, name, more


def parse_postgres_address(text: str) -> PostgresAddress:
    """An address as libpq reads it: ``postgresql://USER@HOST:PORT/NAME?KEY=VALUE``, each part optional, several hosts.

    Raises:
        ValueError: it is none; the reason quotes nothing of it.
    """
    if not text.startswith(("postgresql://", "postgres://")):
        raise ValueError("expected postgresql://USER@HOST/DATABASE")
    if not text.isprintable() or _BROKEN_ESCAPE.search(text) or not _URL.fullmatch(text):
        raise ValueError(
            "expected postgresql://USER@HOST/DATABASE; in a password, write what is no letter or digit as %XX, "
            "or leave the password to PGPASSFILE"
        )
    return PostgresAddress(text)


#: the database that a key names; an error quotes nothing of it, since it may have a password
DATABASE = Type(
    lambda fields, key, _: fields.converted(key, parse_postgres_address),
    {"$name": "database", "type": "string", "pattern": "^postgres(?:ql)?://"},
)
