"""Single-use codes: easy to read out and to type, hard to guess; only a hash of each is stored.

>>> tidied_code(" 7k3m-QRST 9oiL ")
'7K3MQRST9011'
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sqlite3
import unicodedata
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from hushlist.errors import HushlistError
from hushlist.unblock.grants import check_target, fits

#: Crockford's base 32: no I, L, O and U, since they look like 1, 0 and V
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ALIKE = str.maketrans("ILO", "110", "-_ \t\r\n")
#: characters of 5 bits: 60 bits
_LENGTH = 12
_GROUP = 4
#: most characters of an input; tidying takes time
_LONGEST_INPUT = 100
#: seconds that an expired code is kept, to say "used" rather than "wrong"
_KEPT = 7 * 86400.0


class CodeFault(Enum):
    """Why a code is refused."""

    WRONG = "there is no such code"
    USED = "the code was used before"
    EXPIRED = "the code is too old"
    CLIENT = "the code is somebody else's"
    UNFIT = "the code is for something else"


class CodeError(HushlistError):
    """A code was refused.

    >>> str(CodeError(CodeFault.USED))
    'the code was used before'
    """

    def __init__(self, fault: CodeFault) -> None:
        self.fault = fault
        super().__init__(fault.value)


class Code(NamedTuple):
    """A stored code."""

    hash: bytes
    scope: str
    #: ``None``: any blocked target of the scope
    target: str | None
    #: ``None``: the first client that uses it
    client: str | None
    #: seconds that the grant lasts
    seconds: float
    #: when it expires, in seconds since the epoch
    until: float
    by: str
    #: when it was used
    used: float | None = None


def new_code() -> str:
    """A random code of 60 bits, as ``7K3M-QRST-90VW``."""
    code = "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
    return "-".join(code[start : start + _GROUP] for start in range(0, _LENGTH, _GROUP))


def tidied_code(text: str) -> str | None:
    """A code in its standard spelling; ``None`` if the text cannot be a code."""
    if len(text) > _LONGEST_INPUT:
        return None
    tidied = unicodedata.normalize("NFKC", text).upper().translate(_ALIKE)
    return tidied if len(tidied) == _LENGTH and set(tidied) <= set(_ALPHABET) else None


def hash_code(key: bytes, text: str) -> bytes:
    """The hash to store for a code; for other text, a hash that no code has."""
    code = tidied_code(text)
    return b"" if code is None else hmac.digest(key, b"code:" + code.encode("ascii"), hashlib.sha256)


def code_fault(code: Code | None, names: Iterable[str], wanted: Mapping[str, str], now: float) -> CodeFault | None:
    """Why a code is refused to a client with these names for these targets; ``None`` if it is accepted."""
    if code is None:
        return CodeFault.WRONG
    if code.used is not None:
        return CodeFault.USED
    if code.until <= now:
        return CodeFault.EXPIRED
    if code.client is not None and code.client not in names:
        return CodeFault.CLIENT
    return None if _fits(code, wanted) else CodeFault.UNFIT


def _fits(code: Code, wanted: Mapping[str, str]) -> bool:
    if code.target is not None:
        return fits(code.scope, code.target, wanted)
    try:
        check_target(code.scope, wanted[code.scope])
    except (KeyError, ValueError):
        return False
    return True


# -- the table; within the caller's transaction ------------------------------------------------------------------------


def keep_code(database: sqlite3.Connection, code: Code, now: float) -> None:
    """Add a code, and delete those that expired long ago."""
    database.execute("DELETE FROM codes WHERE until <= ?", (now - _KEPT,))
    database.execute("INSERT INTO codes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", code)


def find_code(database: sqlite3.Connection, hashed: bytes) -> Code | None:
    """The code with a hash."""
    row = database.execute("SELECT * FROM codes WHERE hash = ?", (hashed,)).fetchone()
    return None if row is None else Code(*row)


def use_code(database: sqlite3.Connection, code: Code, now: float) -> None:
    """Mark a code as used."""
    database.execute("UPDATE codes SET used = ? WHERE hash = ?", (now, code.hash))


def forget_code(database: sqlite3.Connection, code: Code) -> None:
    """Delete a code."""
    database.execute("DELETE FROM codes WHERE hash = ?", (code.hash,))
