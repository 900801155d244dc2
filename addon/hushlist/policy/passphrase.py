"""Passphrases: a policy holds a salted, slow hash, from which nobody gets the passphrase back.

``scrypt$n=32768,r=8,p=1$SALT$HASH``, where salt and hash are in base64 without padding. Whoever has several proxies may
copy it; whoever raises the cost later keeps the old ones, since each says what it was made with.

Spec: RFC 7914
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import unicodedata
from typing import NamedTuple

#: 32 MiB and some 50 to 100 ms; a guesser with the policy pays that for each guess
_N, _R, _P = 1 << 15, 8, 1
_SALT_LENGTH = _HASH_LENGTH = 32
#: octets; a policy may not make the proxy use more for one try
_MOST_MEMORY = 256 << 20
_MOST_PASSES = 16
#: characters; a client may send any number
LONGEST = 1024

_STORED = re.compile(r"scrypt\$n=([0-9]{1,9}),r=([0-9]{1,3}),p=([0-9]{1,3})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)")


class StoredPassphrase(NamedTuple):
    """What a stored form says."""

    n: int
    r: int
    p: int
    salt: bytes
    hash: bytes


def hash_passphrase(text: str) -> str:
    """The stored form of a passphrase, another one each time. Slow on purpose.

    Raises:
        ValueError: it is empty, or longer than anybody types.
    """
    if not 0 < len(text) <= LONGEST:
        raise ValueError(f"a passphrase has 1 to {LONGEST} characters")
    salt = secrets.token_bytes(_SALT_LENGTH)
    stored = StoredPassphrase(_N, _R, _P, salt, b"")
    found = _scrypt(text, stored, _HASH_LENGTH)
    return f"scrypt$n={_N},r={_R},p={_P}${_to_text(salt)}${_to_text(found)}"


def verify_passphrase(text: str, stored: str) -> bool:
    """Whether it is the passphrase, in time that says nothing about it. Slow on purpose: call it in a thread.

    Raises:
        ValueError: ``stored`` is no stored form; the message says why, and shows nothing of it.
    """
    wanted = parse_stored(stored)
    return 0 < len(text) <= LONGEST and hmac.compare_digest(_scrypt(text, wanted, len(wanted.hash)), wanted.hash)


def parse_stored(stored: str) -> StoredPassphrase:
    """Read a stored form, to tell early whether it is one.

    Raises:
        ValueError: it is none; the message says why, and shows nothing of it.
    """
    match = _STORED.fullmatch(stored)
    if match is None:
        raise ValueError("expected scrypt$n=...,r=...,p=...$SALT$HASH, as 'hushlist override passphrase' prints it")
    n, r, p = map(int, match.groups()[:3])
    if n < 2 or n & (n - 1):
        raise ValueError(f"n={n} is no power of two above 1")
    if not (r and 0 < p <= _MOST_PASSES and 128 * n * r <= _MOST_MEMORY):
        limits = f"r is above 0, p is 1 to {_MOST_PASSES}, and 128*n*r at most {_MOST_MEMORY}"
        raise ValueError(f"n={n},r={r},p={p}: {limits}")
    salt, found = _octets("salt", match[4]), _octets("hash", match[5])
    for what, octets in (("salt", salt), ("hash", found)):
        if not 16 <= len(octets) <= 64:
            raise ValueError(f"the {what} has {len(octets)} octets, and not 16 to 64")
    return StoredPassphrase(n, r, p, salt, found)


def _scrypt(text: str, stored: StoredPassphrase, length: int) -> bytes:
    # Keyboards differ in how they write "é". A form may send anything, surrogates too.
    octets = unicodedata.normalize("NFC", text).encode("utf-8", "surrogatepass")
    # OpenSSL refuses more than 32 MiB unless it is told; it needs little more than the 128*n*r of the algorithm.
    memory = 128 * stored.r * (stored.n + stored.p + 2) + (1 << 20)
    return hashlib.scrypt(octets, salt=stored.salt, n=stored.n, r=stored.r, p=stored.p, maxmem=memory, dklen=length)


def _to_text(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii").rstrip("=")


def _octets(what: str, text: str) -> bytes:
    try:
        octets = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError as error:
        raise ValueError(f"the {what} is no base64") from error
    if _to_text(octets) != text:
        raise ValueError(f"the {what} is no base64")
    return octets
