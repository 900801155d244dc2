"""Passphrases and single-use codes that allow people to unblock, and tokens that protect the forms of our pages.

A policy holds a slow, salted hash of a passphrase, which cannot be turned back:
``scrypt$n=32768,r=8,p=1$SALT$HASH``, with salt and hash in base64 without padding. It may be copied to other proxies.
Each hash contains its cost, so old ones stay valid when the cost is raised.

A token keeps other sites' pages from sending a page's form, and the form from being sent twice. It is base64 (RFC 4648,
5) of: version, 1 octet; time of issue in milliseconds since the epoch, 8 octets; nonce, 16; one tag of 16 each for
client, URL and purpose; HMAC-SHA256 of all that, 32. The tags show which of the three is wrong, but reveal none.

A code is easy to read out and to type, and hard to guess; only a hash of it is stored.

Spec: RFC 7914
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from hushlist.core.errors import HushlistError
from hushlist.extensions.unblock.grants import fits

#: 32 MiB and some 50 to 100 ms; somebody who has the policy and guesses pays that for each guess
SCRYPT_N, _R, _P = 1 << 15, 8, 1
_SALT_LENGTH = _HASH_LENGTH = 32
#: octets; a policy may not make the proxy use more for one try
_MOST_MEMORY = 256 << 20
_MOST_PASSES = 16
#: most characters; a client may send any number
LONGEST_PASSPHRASE = 1024

_STORED = re.compile(r"scrypt\$n=([0-9]{1,9}),r=([0-9]{1,3}),p=([0-9]{1,3})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)")


class StoredPassphrase(NamedTuple):
    n: int
    r: int
    p: int
    salt: bytes
    hash: bytes


def hash_passphrase(text: str) -> str:
    """The stored form of a passphrase, another each time, slow on purpose; ``ValueError`` if its length is wrong."""
    if not 0 < len(text) <= LONGEST_PASSPHRASE:
        raise ValueError(f"a passphrase has 1 to {LONGEST_PASSPHRASE} characters")
    salt = secrets.token_bytes(_SALT_LENGTH)
    stored = StoredPassphrase(SCRYPT_N, _R, _P, salt, b"")
    hashed = _scrypt(text, stored, _HASH_LENGTH)
    return f"scrypt$n={SCRYPT_N},r={_R},p={_P}${_to_text(salt)}${_to_text(hashed)}"


def verify_passphrase(text: str, stored: str) -> bool:
    """Whether the passphrase is right; the time taken reveals nothing. Slow on purpose: call it in a thread.

    Raises:
        ValueError: as by ``parse_stored``.
    """
    wanted = parse_stored(stored)
    return 0 < len(text) <= LONGEST_PASSPHRASE and hmac.compare_digest(
        _scrypt(text, wanted, len(wanted.hash)), wanted.hash
    )


def parse_stored(stored: str) -> StoredPassphrase:
    """Parse a stored form, to find errors early.

    Raises:
        ValueError: it is not a stored form; the message says why, and quotes nothing of it.
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
    salt, hashed = _octets("salt", match[4]), _octets("hash", match[5])
    for what, octets in (("salt", salt), ("hash", hashed)):
        if not 16 <= len(octets) <= 64:
            raise ValueError(f"the {what} has {len(octets)} octets, and not 16 to 64")
    return StoredPassphrase(n, r, p, salt, hashed)


def _scrypt(text: str, stored: StoredPassphrase, length: int) -> bytes:
    # Keyboards differ in how they write "é". A form may send any text, surrogates too.
    octets = unicodedata.normalize("NFC", text).encode("utf-8", "surrogatepass")
    # OpenSSL's default limit is 32 MiB; scrypt needs little more than 128*n*r octets.
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


# -- codes -------------------------------------------------------------------------------------------------------------

#: Crockford's base 32: no I, L, O and U, since they look like 1, 0 and V
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ALIKE = str.maketrans("ILO", "110", "-_ \t\r\n")
#: characters of 5 bits: 60 bits
_CODE_LENGTH = 12
_GROUP = 4
#: most characters of an input; tidying takes time
_LONGEST_INPUT = 100
#: seconds that an expired code is kept, to say "used" rather than "wrong"
CODE_KEPT = 7 * 86400.0


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
    code = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_LENGTH))
    return "-".join(code[start : start + _GROUP] for start in range(0, _CODE_LENGTH, _GROUP))


def tidied_code(text: str) -> str | None:
    """A code in its standard spelling; ``None`` if the text cannot be a code.

    >>> tidied_code(" 7k3m-QRST 9oiL ")
    '7K3MQRST9011'
    """
    if len(text) > _LONGEST_INPUT:
        return None
    tidied = unicodedata.normalize("NFKC", text).upper().translate(_ALIKE)
    return tidied if len(tidied) == _CODE_LENGTH and set(tidied) <= set(_ALPHABET) else None


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
    return None if fits(code.scope, code.target, wanted) else CodeFault.UNFIT


# -- tokens ------------------------------------------------------------------------------------------------------------

#: seconds that a token is valid
LIFETIME = 30 * 60.0
#: seconds by which the clocks of the proxies that share a store may differ
_SKEW = 60.0

_VERSION = b"\x02"
_NONCE_LENGTH = OWNER_LENGTH = 16
_TIME = slice(1, 9)
_NONCE = slice(9, 25)
_TAG_LENGTH = 18
_TAG = slice(25, 25 + _TAG_LENGTH)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{100}")


class TokenFault(Enum):
    """Why a token is refused; for the log, since a page should say no more than "try again"."""

    MALFORMED = "it is no token"
    FORGED = "it is none of ours"
    EXPIRED = "it is too old"
    OTHER = "it is for another client, URL or purpose"
    USED = "it was used before"


class TokenError(HushlistError):
    """A token was refused.

    >>> str(TokenError(TokenFault.USED))
    'a token is refused: it was used before'
    """

    def __init__(self, fault: TokenFault) -> None:
        self.fault = fault
        super().__init__(f"a token is refused: {fault.value}")


class Tokens:
    def __init__(self, key: bytes, clock: Callable[[], float], spend: Callable[[bytes, float], bool]) -> None:
        """``key`` has 32 octets; ``spend`` stores a nonce until a time, behind ``OWNER_LENGTH`` octets that all of
        one client have, and returns whether it was new.
        """
        self._key, self._clock, self._spend = key, clock, spend

    def make(self, client: str, url: str, purpose: str) -> str:
        """A new token of 100 URL-safe characters."""
        issued = int(1000 * self._clock()).to_bytes(8, "big")
        nonce = secrets.token_bytes(_NONCE_LENGTH)
        body = _VERSION + issued + nonce + self._tag(nonce, client, url, purpose)
        return base64.urlsafe_b64encode(body + self._mac(b"token", body)).decode("ascii")

    def is_ours(self, token: str) -> bool:
        """Whether it was made with this key, for any purpose, even if it is old or used."""
        if not _TOKEN.fullmatch(token):
            return False
        octets = base64.urlsafe_b64decode(token)
        return hmac.compare_digest(octets[-32:], self._mac(b"token", octets[:-32]))

    def is_for(self, token: str, client: str, url: str, purpose: str) -> bool:
        """Whether it was made with this key for all that, even if it is old or used; it is not used up."""
        return self.is_ours(token) and self._fits(base64.urlsafe_b64decode(token), client, url, purpose)

    def check(self, token: str, client: str, url: str, purpose: str) -> None:
        """Accept a token once.

        Raises:
            TokenError: it is refused; a refused token is not used up.
            StoreError: its use cannot be stored, so it is not accepted.
        """
        if not _TOKEN.fullmatch(token):
            raise TokenError(TokenFault.MALFORMED)
        if not self.is_ours(token):
            raise TokenError(TokenFault.FORGED)
        body = base64.urlsafe_b64decode(token)[:-32]
        issued = int.from_bytes(body[_TIME], "big") / 1000
        if not -_SKEW <= self._clock() - issued <= LIFETIME:
            raise TokenError(TokenFault.EXPIRED)
        if not self._fits(body, client, url, purpose):
            raise TokenError(TokenFault.OTHER)
        # Which are of one client is told only where they are stored: it would follow the client from site to site.
        whose = self._mac(b"spent:", client.encode("utf-8", "surrogatepass"))[:OWNER_LENGTH]
        if not self._spend(whose + body[_NONCE], issued + LIFETIME + 2 * _SKEW):
            raise TokenError(TokenFault.USED)

    def _fits(self, body: bytes, *values: str) -> bool:
        return hmac.compare_digest(body[_TAG], self._tag(body[_NONCE], *values))

    def _tag(self, nonce: bytes, *values: str) -> bytes:
        texts = [value.encode("utf-8", "surrogatepass") for value in values]
        # with their lengths: else what one ends with could begin the next
        return self._mac(b"for:", nonce + b"".join(len(text).to_bytes(8) + text for text in texts))[:_TAG_LENGTH]

    def _mac(self, what: bytes, octets: bytes) -> bytes:
        # No word is a prefix of another, so MACs of different purposes never agree.
        return hmac.digest(self._key, what + octets, hashlib.sha256)
