"""Reference numbers: short enough for the telephone, sorted by time, made without asking anybody.

Ten characters of base 32: 30 bits of seconds since 2025, then 20 bits by chance. One process never makes the same
twice; two that make some in the same second do so once in a million pairs.

Spec: Crockford's Base 32
"""

from __future__ import annotations

import secrets

# "The letters I, L, O and U are excluded": three because they look like digits, one because of what it might spell.
DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES = {digit: value for value, digit in enumerate(DIGITS)}
# "When decoding, upper and lower case letters are accepted, and i and l will be treated as 1 and o will be treated as
# 0. ... Hyphens (-) can be inserted into symbol strings ... Hyphens are ignored during decoding."
_HEARD = str.maketrans("ILO", "110", "- ")
LENGTH = 10
#: 2025-01-01T00:00:00Z, in seconds since 1970; the numbers last until 2059
_EPOCH = 1_735_689_600
_RANDOM_BITS = 20
_MOST = (1 << 5 * LENGTH) - 1


def base32(number: int, length: int) -> str:
    """The last digits of a number in Crockford's base 32.

    >>> base32(1234, 4)
    '016J'
    """
    return "".join(DIGITS[number >> 5 * place & 31] for place in reversed(range(length)))


def parse_reference(text: str) -> str | None:
    """A reference as it was read out, typed or pasted, in its one form; ``None`` where it cannot be one.

    >>> parse_reference("oo3f8-kq7lz")
    '003F8KQ71Z'
    """
    heard = text.upper().translate(_HEARD)
    return heard if len(heard) == LENGTH and all(digit in _VALUES for digit in heard) else None


class References:
    """Makes references, each greater than the last; for one thread."""

    def __init__(self) -> None:
        self._last = -1

    def make(self, moment: float) -> str:
        """The next; ``moment`` is in seconds since 1970."""
        seconds = max(0, int(moment) - _EPOCH)
        number = seconds << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        # by chance lower than the last of this second, or the clock was put back
        self._last = min(max(number, self._last + 1), _MOST)
        return base32(self._last, LENGTH)
