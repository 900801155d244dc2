"""Identifiers in the log: reference numbers, and pseudonyms of clients.

A reference is short enough to be read out, sorts by time, and needs no coordination. It is ten characters of base 32:
30 bits of seconds since 2025, then 20 bits, which are random for the first of a second. One process never makes the
same twice, unless its clock is set back by a day; two that are made for the same second by two processes, or by such a
clock, agree once in a million.

A pseudonym is the same for the same client until the key changes; without the key, it cannot be turned back.

Spec: Crockford's Base 32
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from hmac import digest
from pathlib import Path

from hushlist.core.system.files import check_closed, make_private, read_regular, write_private

# "The letters I, L, O and U are excluded": three because they look like digits, one because of what it might spell.
DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# "When decoding, upper and lower case letters are accepted, and i and l will be treated as 1 and o will be treated as
# 0. ... Hyphens (-) can be inserted into symbol strings ... Hyphens are ignored during decoding."
_HEARD = str.maketrans("ILO", "110", "- ")
LENGTH = 10
#: 2025-01-01T00:00:00Z, in seconds since 1970; the numbers last until 2059
_EPOCH = 1_735_689_600
_RANDOM_BITS = 20
_DAY = 86400
#: two digits at a time take half as long
_PAIRS = [first + second for first in DIGITS for second in DIGITS]
_MOST = (1 << 5 * LENGTH) - 1


def base32(number: int, length: int) -> str:
    """The last ``length`` digits of a number in Crockford's base 32; ``length`` is even.

    >>> base32(1234, 4)
    '016J'
    """
    return "".join([_PAIRS[number >> place & 1023] for place in range(5 * length - 10, -1, -10)])


def parse_reference(text: str) -> str | None:
    """The standard form of a reference that was read out, typed or pasted; ``None`` if it cannot be one.

    >>> parse_reference("oo3f8-kq7lz")
    '003F8KQ71Z'
    """
    heard = text.upper().translate(_HEARD)
    return heard if len(heard) == LENGTH and set(heard) <= set(DIGITS) else None


class References:
    """Makes references, each greater than the last; for one thread. A clock set back by a day begins anew."""

    def __init__(self) -> None:
        self._last = self._second = -1

    def make(self, moment: float) -> str:
        """The next reference; ``moment`` is in seconds since 1970."""
        second = int(moment)
        self._last = min(self._last + 1 if second == self._second else self._first_of(second), _MOST)
        self._second = second
        return base32(self._last, LENGTH)

    def _first_of(self, second: int) -> int:
        """The first number of a second: random, unless it had to be lower than the last."""
        number = max(0, second - _EPOCH) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        # more numbers were made than a second has, or the clock was put back
        is_near = self._last - number < _DAY << _RANDOM_BITS  # else, all would be of a time far ahead
        return max(number, self._last + 1) if is_near else number


_KEY_FILE = "pseudonyms.key"
#: octets of a key, and of a file that is read for one
_KEY_LENGTH, _LONGEST = 32, 1 << 12
#: digits of base 32: 40 bits, so that a thousand clients collide once in two million cases
_DIGITS = 8
_PSEUDONYM = re.compile(rf"(?:client|user)-[0-9A-Z]{{{_DIGITS}}}")


def pseudonyms(key: bytes) -> Callable[[str, str], str]:
    """A function that gives the pseudonym of a name of a kind.

    >>> pseudonyms(bytes(32))("client", "10.0.0.7")
    'client-EKMX5MBZ'
    """

    @lru_cache(4096)
    def pseudonym(kind: str, name: str) -> str:
        made = digest(key, f"{kind}:{name}".encode("utf-8", "surrogatepass"), sha256)
        return f"{kind}-{base32(int.from_bytes(made), _DIGITS)}"

    return pseudonym


def is_pseudonym(name: str) -> bool:
    """Whether a name is written as a pseudonym is.

    >>> is_pseudonym("client-EKMX5MBZ"), is_pseudonym("user:max")
    (True, False)
    """
    return _PSEUDONYM.fullmatch(name) is not None


def new_key() -> bytes:
    return secrets.token_bytes(_KEY_LENGTH)


def read_key(state: Path) -> bytes | None:
    """The stored key, or ``None``.

    Raises:
        OSError: it cannot be read.
        ValueError: it was damaged.
    """
    try:
        check_closed(state)
        key = read_regular(state / _KEY_FILE, _LONGEST)
    except FileNotFoundError:
        return None
    if len(key) != _KEY_LENGTH:
        raise ValueError(f"{state / _KEY_FILE}: it has {len(key)} octets instead of {_KEY_LENGTH}")
    return key


def keep_key(state: Path) -> bytes:
    """The stored key; makes one if there is none. If several processes make one at once, one key wins.

    Raises:
        OSError, ValueError: as by ``read_key``; also if it cannot be made.
    """
    key = read_key(state)
    if key is not None:
        return key
    make_private(state)
    draft = state / f"{_KEY_FILE}.{secrets.token_hex(8)}"
    write_private(draft, new_key())
    try:
        with suppress(FileExistsError):  # another process was faster, and a link keeps its key
            os.link(draft, state / _KEY_FILE)
    finally:
        draft.unlink()
    kept = read_key(state)
    if kept is None:
        raise FileNotFoundError(f"{state / _KEY_FILE}: it vanished")
    return kept
