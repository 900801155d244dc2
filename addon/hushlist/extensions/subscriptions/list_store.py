"""The good copies of a policy's lists: the last versions of each, which is in force, and what its updates know.

    cache folder/lists/POLICY/LIST/  <digest>.list   a whole version; its name is the SHA-256 of its content
                                     versions.json   the digests of the good ones, the one in force first
                                     state.json      what is not needed to decide: ``ListState``; missing while as new
                                     lock            locked by who changes something
                                     unneeded        made when the policy no longer named the list
    cache folder/lists/POLICY/       policy          the policy's path; and ``unneeded``, made when it was gone

POLICY and LIST are digests: of the policy's path, and of what names the list. No name comes from outside. A file is
written under another name, flushed to the disk and then moved into place: a process may be killed and a disk be full at
every step, and what was in force stays. A change of the list in force, and only that, changes ``versions.json``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path
from typing import NamedTuple

from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.files import (
    PRIVATE_FILE,
    Fingerprint,
    cache_folder,
    check_private,
    fingerprints,
    locked,
    make_private,
    open_regular,
    read_regular,
    replace_file,
    sha256_of,
)

#: why a version is held back that was in force
ROLLED_BACK = "a person has rolled it back"
#: good versions that are kept of each list
KEPT = 3
#: octets of a version's name and time, or of the state
_LONGEST = 1 << 16
#: seconds after which copies are removed of a list that its policy does not name, and of a policy that is gone
_FORGOTTEN = 30 * 86400.0
#: files of a policy's folder, with its path; and of a folder that nobody needs since the file was made
_POLICY, _UNNEEDED = "policy", "unneeded"
#: seconds of Unix time, in the year 2286; what is later was not written here
_LATEST = 10**10 - 1
_DIGEST = re.compile("[0-9a-f]{64}")


class Version(NamedTuple):
    """A whole copy of a list."""

    #: SHA-256 of the content, in hexadecimal
    digest: str
    path: Path
    #: when it came into force, in seconds of Unix time
    since: float


class ListState(NamedTuple):
    """What is known of a list's updates. Times are in seconds of Unix time; 0 is never."""

    #: where it comes from, for people
    origin: str = ""
    #: when its source was last asked, when last with success, and when it is asked next
    tried: float = 0.0
    checked: float = 0.0
    next_try: float = 0.0
    #: validators of HTTP, and the digest of the content that they are of
    etag: str = ""
    last_modified: str = ""
    validated: str = ""
    #: when the last good version was signed, as its signature says; and the one that was held back last
    signed: int = 0
    held_signed: int = 0
    #: why the last update failed, if it did; and how many failed in a row
    fault: str = ""
    faults: int = 0
    #: the digest of a version that is held back, and the reasons
    held: str = ""
    reasons: tuple[str, ...] = ()
    #: a digest of what it was judged by, if not by a person
    judged: str = ""
    #: the digest of the version that a person accepted; those that one has rolled back, the newest last
    accepted: str = ""
    rolled_back: tuple[str, ...] = ()

    def is_due(self, now: float) -> bool:
        """Whether the source is to be asked now; also if the clock was put back since it was."""
        return not self.tried <= now < self.next_try

    def troubles(self, source: str) -> Iterator[str]:
        """What is wrong with the list's updates, for people."""
        if self.fault:
            yield f"{source}: {self.fault}; tried {self.faults} times"
        if self.held:
            yield f"{source}: a newer version is held back: {'; '.join(self.reasons)}"


class ListStore:
    """The copies of one list. Reading takes no lock; every change is made with ``locked``."""

    def __init__(self, policy: Path, name: str, folder: Path | None = None) -> None:
        """``name`` tells the list from the policy's others: its URL and what proves it, or its file's path.

        Raises:
            RuntimeError: the user has no home.
        """
        self._trusted = folder or cache_folder()
        self.folder = lists_folder(policy, folder) / _digest_of(name)
        #: changes if, and only if, another version comes into force; it may not exist
        self.pointer = self.folder / "versions.json"

    # -- reading -----------------------------------------------------------------------------------------------------

    def versions(self) -> tuple[Version, ...]:
        """The good versions that are kept, the one in force first; none if the folder cannot be trusted."""
        try:
            check_private(self._trusted)
            plain = json.loads(read_regular(self.pointer, _LONGEST))
            named = [(str(digest), _number(since)) for digest, since in plain]
        except (OSError, ValueError, TypeError, RecursionError):
            return ()
        candidates = (Version(digest, self.path(digest), since) for digest, since in named if _DIGEST.fullmatch(digest))
        return tuple(version for version in candidates if version.path.is_file())

    def current(self) -> Version | None:
        """The version in force."""
        return next(iter(self.versions()), None)

    def state(self) -> ListState:
        """The state; as new where it cannot be read."""
        try:
            return _state_of(json.loads(read_regular(self.folder / "state.json", _LONGEST)))
        except (OSError, ValueError, AttributeError, RecursionError):
            return ListState()

    def held(self) -> Path | None:
        """The version that is held back."""
        state, current = self.state(), self.current()
        is_held = _DIGEST.fullmatch(state.held) and (current is None or current.digest != state.held)
        return self.path(state.held) if is_held and self.path(state.held).is_file() else None

    def path(self, digest: str) -> Path:
        """The path of a version, which may not exist."""
        return self.folder / f"{digest}.list"

    # -- changing: only with the lock --------------------------------------------------------------------------------

    @contextmanager
    def locked(self, patience: float = 10.0) -> Iterator[None]:
        """Hold the list's lock; ends with the process, too.

        Raises:
            BlockingIOError: another process holds it for longer than ``patience`` seconds.
            OSError: the folder cannot be made, or not be trusted.
        """
        check_private(self._trusted)
        make_private(self.folder)
        with locked(self.folder / "lock", patience):
            yield

    @contextmanager
    def draft(self) -> Iterator[BufferedWriter]:
        """A new file for ``keep``, open for writing; removed at the end."""
        path = self.folder / f"draft.{os.getpid()}"
        path.unlink(missing_ok=True)  # of a process of the same number that was killed
        try:
            with open(path, "xb", opener=lambda name, flags: os.open(name, flags, PRIVATE_FILE)) as file:
                yield file
        finally:
            path.unlink(missing_ok=True)

    def keep(self, draft: BufferedWriter | Path | bytes) -> Version:
        """Keep octets, a copy of a file, or a draft as a version: it is not in force yet."""
        if not isinstance(draft, BufferedWriter):
            with self.draft() as file:
                if isinstance(draft, bytes):
                    file.write(draft)
                else:
                    from shutil import copyfileobj  # to look for copies, it is not needed

                    with open_regular(draft) as source:
                        copyfileobj(source, file)
                return self.keep(file)
        draft.flush()
        os.fsync(draft.fileno())
        path = Path(draft.name)
        with path.open("rb") as written:
            digest = hashlib.file_digest(written, "sha256").hexdigest()
        version = Version(digest, self.path(digest), time.time())
        draft.close()
        if not self.has(digest):
            path.replace(version.path)
        return version

    def has(self, digest: str) -> bool:
        """Whether a version is there, and whole; then its file stays as it is, which is watched."""
        try:
            return sha256_of(self.path(digest)) == digest
        except OSError:
            return False

    def use(self, version: Version) -> None:
        """Put a version that was kept into force; the last ones before it stay. What is held back becomes obsolete."""
        before = [old for old in self.versions() if old.digest != version.digest]
        self._point([version, *before][:KEPT])
        self.note(held="", reasons=())
        self._tidy()

    def hold_back(self, version: Version, reasons: Iterable[str]) -> None:
        """Hold back a version that was kept, in the place of any other."""
        self.note(held=version.digest, reasons=tuple(reasons))
        self._tidy()

    def accept(self) -> Version | None:
        """Put the version that is held back into force, as a person wants it; ``None`` if none is."""
        held = self.held()
        if held is None:
            return None
        version, state = Version(held.stem, held, time.time()), self.state()
        self.expect(version.digest)
        self.note(signed=max(state.signed, state.held_signed))
        self.use(version)
        return version

    def expect(self, digest: str) -> None:
        """Have a version pass when it comes, as a person wants it."""
        rolled_back = tuple(other for other in self.state().rolled_back if other != digest)
        self.note(accepted=digest, rolled_back=rolled_back)

    def roll_back(self) -> Version | None:
        """Put the version before the one in force into force, and hold that one back; ``None`` if there is none."""
        current, *before = self.versions() or (None,)
        if current is None or not before:
            return None
        rolled_back = (*self.state().rolled_back, current.digest)[-KEPT:]
        self.note(
            held=current.digest, reasons=(ROLLED_BACK,), judged="", accepted="", rolled_back=rolled_back, held_signed=0
        )
        self._point(before)
        self._tidy()
        return before[0]

    def note(self, **changes: str | float | tuple[str, ...]) -> ListState:
        """Change fields of the state."""
        before = self.state()
        state = before._replace(**changes)  # type: ignore[arg-type]  # the fields' own types
        if state != before:
            replace_file(self.folder / "state.json", json.dumps(state._asdict()).encode(), is_private=True)
        return state

    def _point(self, versions: Iterable[Version]) -> None:
        plain = [(version.digest, version.since) for version in versions]
        replace_file(self.pointer, json.dumps(plain).encode(), is_private=True)

    def _tidy(self) -> None:
        """Remove versions that are neither good nor held back, and what killed processes left."""
        kept = {version.path.name for version in self.versions()} | {"lock", "state.json", self.pointer.name}
        kept.add(f"{self.state().held}.list")
        with suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name not in kept:
                    with suppress(OSError):
                        Path(entry.path).unlink()


def store_of_file(policy: Path, file: Path, folder: Path | None = None) -> ListStore:
    """The copies of a policy's list in a file; raises as ``ListStore`` does."""
    name = os.path.abspath(file)  # noqa: PTH100  a link may be led elsewhere, to a new version of all files
    return ListStore(policy, name, folder)


def pointers(policy: Policy, folder: Path) -> dict[Path, Fingerprint]:
    """What changes when another copy of a policy's list in a file comes into force."""
    lists = [file for layer in policy.layers for file in layer.lists if not file.url]
    files = {file.path for file in lists if file.gate is not None and not file.gate.is_off}
    return fingerprints(store_of_file(Path(policy.source), file, folder).pointer for file in sorted(files))


def lists_folder(policy: Path, folder: Path | None) -> Path:
    """Where the copies of a policy's lists are; it may not exist."""
    return (folder or cache_folder()) / "lists" / _digest_of(os.path.abspath(policy))  # noqa: PTH100  links may change


def forget_others(policy: Path, stores: Iterable[ListStore], folder: Path | None = None) -> None:
    """Remove copies of lists that the policy has not named for a month, and those of policies that are gone so long."""
    ours, needed = lists_folder(policy, folder), {store.folder.name for store in stores}
    with suppress(OSError):
        for copies in _digests(ours):
            _forget(copies, is_needed=copies.name in needed)
        if not (ours / _POLICY).exists():
            replace_file(ours / _POLICY, os.fsencode(os.path.abspath(policy)), is_private=True)  # noqa: PTH100
    with suppress(OSError):
        for other in _digests(ours.parent):
            with suppress(OSError, ValueError):  # an older Hushlist noted no path
                _forget(other, is_needed=other == ours or _is_there(read_regular(other / _POLICY, _LONGEST)))


def _is_there(name: bytes) -> bool:
    """Whether a file is there; ``OSError`` if that cannot be told."""
    try:
        os.lstat(name)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _digests(folder: Path) -> list[Path]:
    """The folders in a folder of ours."""
    return [path for path in folder.iterdir() if _DIGEST.fullmatch(path.name)]


def _forget(copies: Path, *, is_needed: bool) -> None:
    """Note in a folder that nobody needs it, and remove it a month later."""
    from shutil import rmtree

    note = copies / _UNNEEDED
    if is_needed:
        note.unlink(missing_ok=True)
    elif not note.exists():
        note.touch(PRIVATE_FILE)
    elif note.stat().st_mtime < time.time() - _FORGOTTEN:
        rmtree(copies, ignore_errors=True)


def _digest_of(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()


def _state_of(plain: Mapping[str, object]) -> ListState:
    """A state from JSON; a field of the wrong type is as new."""
    new = ListState()
    values: dict[str, object] = {}
    for name, before in new._asdict().items():
        value = plain.get(name)
        value = tuple(map(str, value)) if isinstance(before, tuple) and isinstance(value, list) else value
        if isinstance(value, float | int):
            value = type(before)(_number(value)) if isinstance(before, float | int) else None
        if type(value) is type(before):
            values[name] = value
    return new._replace(**values)  # type: ignore[arg-type]  # checked above


def _number(value: object) -> float:
    """A number that a file gives, such as a time, brought to what can be told; ``TypeError`` if it is none."""
    if not isinstance(value, float | int):
        raise TypeError
    return float(min(max(value, 0), _LATEST)) if value == value else 0.0
