"""Sealed hashes: HMAC-SHA-256 of expressions, with a key that only a list's author and its proxies have.

Whoever has a list but not its key cannot try names on it. A *fingerprint* names the key in lists and indexes: 8 octets
of the HMAC of a text that is no expression, which tell nothing of a key of 32 random octets.

>>> key = SealKey(bytes(range(32)))
>>> key.fingerprint
'f87dde256ef1fd9a'
>>> SealKey.parse(key.text) == key, repr(key)
(True, 'SealKey(f87dde256ef1fd9a)')

Spec: RFC 2104, FIPS 198-1
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

#: octets of a key, and of a block of SHA-256
_LENGTH, _BLOCK = 32, 64
_INNER, _OUTER = (bytes(octet ^ pad for octet in range(256)) for pad in (0x36, 0x5C))
#: every expression has a slash
_NO_EXPRESSION = b"hushlist seal"
_HEX = re.compile(r"[0-9A-Fa-f]{64}")
#: a key's name
FINGERPRINT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, repr=False)
class SealKey:
    octets: bytes

    @classmethod
    def generate(cls) -> SealKey:
        """Make a key by the system's randomness."""
        return cls(os.urandom(_LENGTH))

    @classmethod
    def parse(cls, text: str) -> SealKey:
        """The key in a file's text; ``ValueError``, which quotes nothing of it, if there is none."""
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
        if len(lines) != 1 or not _HEX.fullmatch(lines[0]):
            raise ValueError("it is no key of sealed lists, 64 hexadecimal digits, as 'hushlist sealkey' makes them")
        return cls(bytes.fromhex(lines[0]))

    @property
    def text(self) -> str:
        return f"# Key {self.fingerprint} of sealed lists. Keep it secret.\n{self.octets.hex()}\n"

    @property
    def fingerprint(self) -> str:
        """Its name, 16 hexadecimal digits."""
        return self.sealer()(_NO_EXPRESSION)[:8].hex()

    def sealer(self) -> Callable[[bytes], bytes]:
        """The function from an expression to its HMAC-SHA-256; both of its SHA-256 begin behind the padded key."""
        block = self.octets.ljust(_BLOCK, b"\0")
        inner, outer = sha256(block.translate(_INNER)).copy, sha256(block.translate(_OUTER)).copy

        def seal(expression: bytes) -> bytes:
            hashed, keyed = inner(), outer()
            hashed.update(expression)
            keyed.update(hashed.digest())
            return keyed.digest()

        return seal

    def __repr__(self) -> str:
        return f"SealKey({self.fingerprint})"
