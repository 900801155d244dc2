"""Pseudonyms of clients: the same for the same client until the key changes, and no way back without the key."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from hmac import digest
from pathlib import Path

from hushlist.journal.folder import PRIVATE_FILE, SAFELY, make_folder
from hushlist.journal.reference import base32

_KEY_FILE = "pseudonyms.key"
#: octets
_KEY_LENGTH = 32
#: digits of base 32: 40 bits, where a thousand clients are all different but once in two million
_DIGITS = 8


class Pseudonyms:
    """Makes pseudonyms with a key.

    >>> Pseudonyms(bytes(32))("client", "10.0.0.7")
    'client-EKMX5MBZ'
    """

    def __init__(self, key: bytes) -> None:
        self._make = lru_cache(4096)(lambda kind, name: _pseudonym(key, kind, name))

    def __call__(self, kind: str, name: str) -> str:
        """What stands for a name of a kind."""
        return self._make(kind, name)


def _pseudonym(key: bytes, kind: str, name: str) -> str:
    made = digest(key, f"{kind}:{name}".encode("utf-8", "surrogatepass"), sha256)
    return f"{kind}-{base32(int.from_bytes(made), _DIGITS)}"


def new_key() -> bytes:
    """A key by chance."""
    return secrets.token_bytes(_KEY_LENGTH)


def read_key(state: Path) -> bytes | None:
    """The key that is kept, or ``None`` where there is none.

    Raises:
        OSError: it cannot be read.
        ValueError: it was damaged.
    """
    try:
        key = (state / _KEY_FILE).read_bytes()
    except FileNotFoundError:
        return None
    if len(key) != _KEY_LENGTH:
        raise ValueError(f"{state / _KEY_FILE}: it has {len(key)} octets instead of {_KEY_LENGTH}")
    return key


def keep_key(state: Path) -> bytes:
    """The key that is kept; made where there was none. Of processes that make one at once, one does.

    Raises:
        OSError: it can be neither read nor made.
        ValueError: it was damaged.
    """
    key = read_key(state)
    if key is not None:
        return key
    make_folder(state)
    draft = state / f"{_KEY_FILE}.{secrets.token_hex(8)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFELY, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(new_key())
        with suppress(FileExistsError):  # somebody was faster, and theirs holds; a link never replaces, unlike a move
            os.link(draft, state / _KEY_FILE)
    finally:
        draft.unlink()
    kept = read_key(state)
    if kept is None:
        raise FileNotFoundError(f"{state / _KEY_FILE}: it vanished")
    return kept
