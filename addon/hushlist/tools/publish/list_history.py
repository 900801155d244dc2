"""The versions of a published list: its last hundred, so that a client that is behind gets a difference.

A version is a sorted list of prefixes of four octets. Only the newest is kept whole, packed; of the others, what
changed from each to the next. All of it is one file, which is replaced as a whole, so a restart goes on where it was.

A client's state is opaque to it, and enough for the server: which list, whose history, and which version. A client that
takes only so many entries at a time is on its way from one version to another, and its state says how far.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from struct import Struct, error
from typing import NamedTuple

from hushlist.core.system.files import make_private, read_regular, reason_of, replace_file
from hushlist.extensions.safe_browsing.prefix_list import SHORTEST, PrefixUpdate, difference

#: versions from which a client gets a difference
MOST_VERSIONS = 100
#: octets of a file of versions: ten million prefixes, and as many that changed
_LONGEST = 1 << 27

_STATE = Struct(">B8sIIII")  # list, history, from version, to version, changes done, most entries


class ClientState(NamedTuple):
    """Where a client is."""

    #: the number of the list's threat type: v5 asks that a version tells its list
    list_number: int
    history: bytes
    #: the version that it comes from; 0 is the empty list
    base: int
    #: the version that it goes to, or is at
    target: int
    #: how many changes between them it has
    done: int
    #: the entries that it keeps of the list at most; 0: all
    most: int

    @property
    def octets(self) -> bytes:
        """What the client is given."""
        return _STATE.pack(*self)


def read_state(octets: bytes) -> ClientState | None:
    """What a client was given; ``None`` if it is something else."""
    try:
        return ClientState(*_STATE.unpack(octets))
    except error:
        return None


@dataclass(frozen=True, slots=True)
class _Change:
    """From one version to the next; packed prefixes."""

    removed: bytes
    added: bytes


def unpacked(packed: bytes) -> tuple[bytes, ...]:
    return tuple(packed[at : at + SHORTEST] for at in range(0, len(packed), SHORTEST))


def round_down(most: int) -> int:
    """The largest power of two up to a number, 0 for 0: so clients' limits make few different answers.

    >>> [round_down(most) for most in (0, 1, 1023, 1024, 5000)]
    [0, 1, 512, 1024, 4096]
    """
    return 1 << most.bit_length() - 1 if most else 0


@dataclass(slots=True)
class ListHistory:
    """The versions of one list. ``path`` is where they are kept; nothing is read or written before ``open_history``."""

    path: Path
    #: the number of the list's threat type
    list_number: int
    #: tells this history from another one of the same list, such as one before its file was lost
    name: bytes = field(default_factory=lambda: secrets.token_bytes(8))
    #: the newest version, counted from 1; 0: none
    number: int = 0
    #: of the newest version
    packed: bytes = b""
    #: the last is from the newest but one to the newest
    changes: list[_Change] = field(default_factory=list)

    @property
    def oldest(self) -> int:
        return self.number - len(self.changes)

    def add(self, prefixes: Sequence[bytes]) -> bool:
        """Make sorted prefixes the newest version, and keep it; says whether they are another than before.

        Raises:
            OSError: it cannot be kept; nothing has changed.
        """
        packed = b"".join(prefixes)
        if self.number and packed == self.packed:
            return False
        before, after = set(unpacked(self.packed)), set(prefixes)
        change = _Change(b"".join(sorted(before - after)), b"".join(sorted(after - before)))
        changes = [*self.changes, change][1 - MOST_VERSIONS :] if self.number else []
        # once differences are longer than the list, the whole list is shorter
        while changes and sum(len(step.removed) + len(step.added) for step in changes) > 2 * len(packed) + (1 << 20):
            changes.pop(0)
        new = replace(self, number=self.number + 1, packed=packed, changes=changes)
        new.write()
        self.number, self.packed, self.changes = new.number, packed, changes
        return True

    def prefixes_of(self, number: int, most: int) -> tuple[bytes, ...]:
        """The first ``most`` prefixes of a version that is known; all for 0. Version 0 is empty."""
        if number == 0:
            return ()
        prefixes = set(unpacked(self.packed))
        for change in reversed(self.changes[len(self.changes) - (self.number - number) :]):
            prefixes.difference_update(unpacked(change.added))
            prefixes.update(unpacked(change.removed))
        return tuple(sorted(prefixes)[: most or None])

    def state_of(self, octets: bytes, most: int) -> ClientState:
        """Where a client is that wants to get to the newest version; at the start, if its state is of no use here."""
        state = read_state(octets)
        if (
            state is not None
            and state.target
            and (state.list_number, state.history, state.most)
            == (
                self.list_number,
                self.name,
                most,
            )
        ):
            base = state.base or state.target
            if self.oldest <= min(base, state.target) and max(base, state.target) <= self.number:
                # on its way it goes on to where it wanted to; there, to the newest
                return state if state.base != state.target else state._replace(target=self.number, done=0)
        return ClientState(self.list_number, self.name, 0, self.number, 0, most)

    def update_from(self, state: ClientState, limit: int) -> tuple[PrefixUpdate, bool]:
        """The update with ``limit`` entries at most (0: all), and whether the client then is at its target."""
        base, target = (self.prefixes_of(number, state.most) for number in (state.base, state.target))
        way = difference(base, target, state._replace(base=state.target, done=0).octets)
        is_first = state.base == 0 and state.done == 0
        steps = [*(base[place] for place in way.removals), *way.additions]
        done = min(state.done, len(steps))
        end = min(done + limit, len(steps)) if limit else len(steps)
        is_there = end == len(steps)
        if done or not is_there:
            base_now, new = (_after(base, steps[:count], len(way.removals)) for count in (done, end))
            way = difference(base_now, new, way.state if is_there else state._replace(done=end).octets)
        return replace(way, is_partial=not is_first), is_there

    def write(self) -> None:
        """Write the file; ``OSError`` if it cannot be written."""
        sizes = [(len(change.removed), len(change.added)) for change in self.changes]
        head = {"history": self.name.hex(), "number": self.number, "octets": len(self.packed), "changes": sizes}
        parts = (octets for change in self.changes for octets in (change.removed, change.added))
        make_private(self.path.parent)
        replace_file(self.path, b"".join([json.dumps(head).encode(), b"\n", self.packed, *parts]), is_private=True)


def open_history(path: Path, list_number: int, complain: Callable[[str], object]) -> ListHistory:
    """The versions that a file has; a new history where there is no such file, or it is broken, which is told."""
    try:
        return _read_history(path, list_number)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        why = reason_of(error) if isinstance(error, OSError) else "it is damaged"
        complain(f"{path}: its versions cannot be used: {why}; every client gets the whole list")
    return ListHistory(path, list_number)


def _read_history(path: Path, list_number: int) -> ListHistory:
    head, _, octets = read_regular(path, _LONGEST).partition(b"\n")
    plain = json.loads(head)
    places, at = list[bytes](), 0
    for size in (plain["octets"], *(size for change in plain["changes"] for size in change)):
        places.append(octets[at : at + size])
        at += size
    changes = [_Change(*places[place : place + 2]) for place in range(1, len(places), 2)]
    number, name = int(plain["number"]), bytes.fromhex(plain["history"])
    if at != len(octets) or any(len(place) % SHORTEST for place in places) or not len(changes) < number < 1 << 32:
        raise ValueError
    return ListHistory(path, list_number, name, number, places[0], changes)


def _after(base: Sequence[bytes], steps: Sequence[bytes], removals: int) -> tuple[bytes, ...]:
    """A list after some of the steps to another one; the first ``removals`` steps remove."""
    return tuple(sorted({*base, *steps[removals:]} - set(steps[:removals])))
