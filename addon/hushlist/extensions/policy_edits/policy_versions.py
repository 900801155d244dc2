"""The last versions of a policy file that were changed here: the text before each change, and who made it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import time

from hushlist.core.system.files import (
    LONGEST_DOCUMENT,
    make_private,
    read_regular,
    replace_file,
    state_folder,
)

#: versions that are kept of a policy, and octets of all of them but the newest
MOST_VERSIONS, _MOST_OCTETS = 50, 1 << 25
_ENDING = ".json"


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A change of the policy file."""

    id: int
    #: seconds since 1970
    at: float
    who: str
    #: the section that was changed, or several with commas; empty: the whole file went back
    section: str
    #: what is another one for any other text of the file, after the change
    after: str


@dataclass(frozen=True, slots=True)
class Versions:
    """Those of one policy file; whoever changes the file holds its lock."""

    folder: Path

    def keep(self, before: bytes, after: bytes, who: str, section: str) -> int:
        """Keep the octets before a change, and return its number; ``OSError`` if they cannot be."""
        make_private(self.folder)
        number = max(self._numbers(), default=0) + 1
        version = {"at": time(), "who": who, "section": section, "after": digest_of(after)}
        octets = json.dumps({**version, "before": before.decode("utf-8")}).encode()
        replace_file(self._path(number), octets, is_private=True)
        kept = 0
        for place, old in enumerate(sorted(self._numbers(), reverse=True)):
            with suppress(OSError):
                kept += self._path(old).stat().st_size
                if place and (place >= MOST_VERSIONS or kept > _MOST_OCTETS):
                    self._path(old).unlink()
        return number

    def forget(self, number: int) -> None:
        """The change was not made."""
        self._path(number).unlink(missing_ok=True)

    def all(self) -> list[PolicyVersion]:
        """The newest first; what cannot be read is left out."""
        records = (self._read(number) for number in sorted(self._numbers(), reverse=True))
        return [version for version, _ in filter(None, records)]

    def before(self, number: int) -> bytes | None:
        """The octets before a change; ``None`` if they are not kept any more."""
        record = self._read(number)
        return None if record is None else record[1]

    def _read(self, number: int) -> tuple[PolicyVersion, bytes] | None:
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            record = json.loads(read_regular(self._path(number), 8 * LONGEST_DOCUMENT))
            version = PolicyVersion(
                number, float(record["at"]), str(record["who"]), str(record["section"]), str(record["after"])
            )
            return version, record["before"].encode("utf-8")
        return None

    def _numbers(self) -> Iterator[int]:
        names = (path.stem for path in self.folder.glob(f"*{_ENDING}"))
        return (int(name) for name in names if name.isdecimal() and name.isascii())

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:09}{_ENDING}"


def versions_of(policy: Path) -> Versions:
    """Those of a policy file; ``RuntimeError`` if the user has no home."""
    name = sha256(str(policy.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return Versions(state_folder() / "policy-versions" / name)


def digest_of(octets: bytes) -> str:
    """What is another one for other octets."""
    return sha256(octets).hexdigest()
