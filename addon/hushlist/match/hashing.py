"""Full hashes and hash prefixes.

Spec: Safe Browsing v4, URLs and Hashing, Hash computations and Hash prefix computations
"""

from __future__ import annotations

from hashlib import sha256

#: octets; "a hash prefix consists of the most significant 4-32 bytes of a SHA256 hash"
SHORTEST_PREFIX = 4
FULL_LENGTH = 32


def full_hash(expression: bytes) -> bytes:
    """The SHA-256 of an expression, 32 octets.

    >>> full_hash(b"abc").hex()[:8]
    'ba7816bf'
    """
    return sha256(expression).digest()


def hash_prefix(full: bytes, length: int) -> bytes:
    """The most significant ``length`` octets of a full hash.

    Raises:
        ValueError: ``length`` is not 4 to 32.
    """
    if not SHORTEST_PREFIX <= length <= FULL_LENGTH:
        raise ValueError(f"a hash prefix has {SHORTEST_PREFIX} to {FULL_LENGTH} octets, not {length}")
    return full[:length]
