"""Tokens: what a page of ours carries, so that no other site's page can send its form, and nobody sends it twice.

A token is base64 (RFC 4648, 5) of: version, 1 octet; time of issue in milliseconds since the epoch, 8 octets;
nonce, 16; one tag of 16 each for client, URL and purpose; HMAC-SHA256 of all that, 32. The tags tell which of the
three is wrong, and cannot be read.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from enum import Enum

from hushlist.errors import HushlistError

#: seconds that a token is good for
LIFETIME = 30 * 60.0
#: seconds by which the clocks of the proxies that share a store may differ
_SKEW = 60.0

_VERSION = b"\x01"
_NONCE_LENGTH = _TAG_LENGTH = 16
_FIELDS = ("client", "url", "purpose")
_TIME = slice(1, 9)
_NONCE = slice(9, 25)
_TAGS = slice(25, 73)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{140}")


class Fault(Enum):
    """Why a token is refused; for the log, since a page should say no more than "try again"."""

    MALFORMED = "it is no token"
    FORGED = "it is none of ours"
    EXPIRED = "it is too old"
    CLIENT = "it is another client's"
    URL = "it is for another URL"
    PURPOSE = "it is for another purpose"
    USED = "it was used before"


class TokenError(HushlistError):
    """A token is refused.

    >>> str(TokenError(Fault.USED))
    'a token is refused: it was used before'
    """

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(f"a token is refused: {fault.value}")


class Tokens:
    """Makes and checks tokens by a key."""

    def __init__(self, key: bytes, clock: Callable[[], float], spend: Callable[[bytes, float], bool]) -> None:
        """``key`` has 32 octets; ``spend`` takes note of a nonce until a time, and says whether it was new."""
        self._key, self._clock, self._spend = key, clock, spend

    def make(self, client: str, url: str, purpose: str) -> str:
        """A new token of 140 URL-safe characters."""
        issued = int(1000 * self._clock()).to_bytes(8, "big")
        nonce = secrets.token_bytes(_NONCE_LENGTH)
        body = _VERSION + issued + nonce + b"".join(self._tags(nonce, client, url, purpose))
        return base64.urlsafe_b64encode(body + self._mac(b"token", body)).decode("ascii")

    def is_ours(self, token: str) -> bool:
        """Whether it was made by this key, whatever it is for, be it old or used."""
        if not _TOKEN.fullmatch(token):
            return False
        octets = base64.urlsafe_b64decode(token)
        return hmac.compare_digest(octets[-32:], self._mac(b"token", octets[:-32]))

    def check(self, token: str, client: str, url: str, purpose: str) -> None:
        """Accept a token, once.

        Raises:
            TokenError: it is refused; a token that is refused is not used up.
            StoreError: its use cannot be noted, and so it is not accepted.
        """
        if not _TOKEN.fullmatch(token):
            raise TokenError(Fault.MALFORMED)
        if not self.is_ours(token):
            raise TokenError(Fault.FORGED)
        body = base64.urlsafe_b64decode(token)[:-32]
        issued = int.from_bytes(body[_TIME], "big") / 1000
        if not -_SKEW <= self._clock() - issued <= LIFETIME:
            raise TokenError(Fault.EXPIRED)
        self._compare(body, client, url, purpose)
        if not self._spend(body[_NONCE], issued + LIFETIME + 2 * _SKEW):
            raise TokenError(Fault.USED)

    def _compare(self, body: bytes, *values: str) -> None:
        tags = body[_TAGS]
        for number, (field, wanted) in enumerate(zip(_FIELDS, self._tags(body[_NONCE], *values), strict=True)):
            if not hmac.compare_digest(tags[_TAG_LENGTH * number : _TAG_LENGTH * (number + 1)], wanted):
                raise TokenError(Fault[field.upper()])

    def _tags(self, nonce: bytes, *values: str) -> list[bytes]:
        return [
            self._mac(field.encode() + b":", nonce + value.encode("utf-8", "surrogatepass"))[:_TAG_LENGTH]
            for field, value in zip(_FIELDS, values, strict=True)
        ]

    def _mac(self, what: bytes, octets: bytes) -> bytes:
        # No word is the beginning of another, so that the MAC of one thing is never that of another.
        return hmac.digest(self._key, what + octets, hashlib.sha256)
