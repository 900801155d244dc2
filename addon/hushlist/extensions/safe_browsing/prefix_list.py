"""A list of hash prefixes, as a client has it: what an update makes of it, and the update from one list to another.

>>> known = PrefixList().updated(PrefixUpdate(state=b"1", additions=(b"aaaa", b"bbbb")))
>>> later = (b"aaaa", b"cccc")
>>> update = difference(known.prefixes, later, state=b"2")
>>> update.removals, update.additions, known.updated(update).prefixes == later
((1,), (b'cccc',), True)

Spec: Safe Browsing v4, Local Databases; Safe Browsing v5, HashList
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from hushlist.core.errors import MessageError

#: octets of a prefix
SHORTEST, LONGEST = 4, 32
#: prefixes of one list; in memory, a prefix needs 45 octets
MOST_PREFIXES = 1 << 23


@dataclass(frozen=True, slots=True)
class PrefixUpdate:
    """An update of one list, whatever the protocol's version."""

    #: what the client sends the next time: "state" in v4, "version" in v5
    state: bytes
    #: in any order
    additions: Sequence[bytes] = ()
    #: places in the list before the update, counted from 0
    removals: Sequence[int] = ()
    #: whether it changes the list, or replaces it
    is_partial: bool = False
    #: SHA-256 of the list after the update; empty: it is as it was; ``None``: nobody checks
    checksum: bytes | None = None


@dataclass(frozen=True, slots=True)
class PrefixList:
    #: strictly ascending; 4 to 32 octets each
    prefixes: tuple[bytes, ...] = ()
    #: what the server called this state of the list; empty before the first update
    state: bytes = b""
    #: SHA-256 of the list; empty before the first update
    checksum: bytes = b""

    def updated(self, update: PrefixUpdate) -> PrefixList:
        """The list after an update. The list itself stays as it is, so a bad update changes nothing.

        Raises:
            MessageError: the update does not fit the list, or its checksum is another. After that, a client asks with
                an empty state: "drop the list".
        """
        if update.is_partial and not self.state:
            raise MessageError("a partial update of a list that is not there")
        if update.removals and not update.is_partial:
            raise MessageError("a full update that removes entries")
        kept = _without(self.prefixes, update.removals) if update.is_partial else []
        # a delta of 0 repeats a prefix, which is once in the set
        additions = set(update.additions)
        if len(kept) + len(update.additions) > MOST_PREFIXES:
            raise MessageError(f"a list of more than {MOST_PREFIXES:,} prefixes")
        if any(not SHORTEST <= length <= LONGEST for length in set(map(len, update.additions))):
            raise MessageError(f"a prefix that has not {SHORTEST} to {LONGEST} octets")
        if not additions.isdisjoint(kept):
            raise MessageError("an addition that is in the list already")
        prefixes = tuple(sorted([*kept, *additions]))
        checksum = checksum_of(prefixes)
        expected = self.checksum if update.checksum == b"" else update.checksum
        if expected is not None and checksum != expected:
            raise MessageError("the checksum is not that of the list")
        return PrefixList(prefixes, update.state, checksum)


def _without(prefixes: Sequence[bytes], removals: Sequence[int]) -> list[bytes]:
    if not removals:
        return list(prefixes)
    if min(removals) < 0 or max(removals) >= len(prefixes):
        raise MessageError(f"an index outside of the list, which has {len(prefixes):,} prefixes")
    gone = set(removals)
    return [prefix for place, prefix in enumerate(prefixes) if place not in gone]


def checksum_of(prefixes: Iterable[bytes]) -> bytes:
    """The SHA-256 of a sorted list: of its prefixes, joined."""
    return sha256(b"".join(prefixes)).digest()


def difference(old: Sequence[bytes], new: Sequence[bytes], state: bytes) -> PrefixUpdate:
    """The partial update that makes one sorted list of another."""
    before, after = set(old), set(new)
    removals = tuple(place for place, prefix in enumerate(old) if prefix not in after)
    additions = tuple(prefix for prefix in new if prefix not in before)
    return PrefixUpdate(state, additions, removals, is_partial=True, checksum=checksum_of(new))
