"""What an installation has, and cannot be made again: the policy with its files, the certificate, the state, the lists.

Each thing has an area, and a name below the folder of that area; so it can go to another installation, whose folders
are elsewhere.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from errno import ELOOP
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from hushlist.core.policy import shipped_policy
from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.authority_file import known_authority
from hushlist.core.system.files import PRIVATE_FILE, cache_folder, make_private, open_regular, state_folder
from hushlist.core.system.package_code import PACKAGE
from hushlist.extensions.subscriptions.list_store import lists_folder

POLICY, CERTIFICATE, STATE, LISTS = AREAS = ("policy", "certificate", "state", "lists")
#: the state's name for the certificate that devices trust, whose file is named by mitmproxy's folder
_AUTHORITY = PurePosixPath("authority.pem")
#: what other files have, what only a running proxy needs, or what can be made again
_PASSING = (".lock", "-wal", "-shm", "-journal", ".tmp", ".new", ".index")
_LOG = "decisions"
_OF_CERTIFICATE = "mitmproxy-*"
_SQLITE = b"SQLite format 3\0"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class Places:
    """The policy's file, and the folders of mitmproxy, of the state, and of what can be made again."""

    policy: Path
    confdir: Path
    state: Path
    cache: Path

    def folder_of(self, area: str) -> Path:
        return {
            POLICY: self.policy.parent,
            CERTIFICATE: self.confdir,
            STATE: self.state,
            LISTS: lists_folder(self.policy, self.cache),
        }[area]

    def path_of(self, area: str, name: PurePosixPath) -> Path:
        """Where a thing is."""
        if (area, name) == (STATE, _AUTHORITY):
            return known_authority(self.state, self.confdir)
        return self.folder_of(area) / name


#: those of a service; its units say the same
SERVICE = Places(
    policy=Path("/etc/hushlist/policy.yaml"),
    confdir=Path("/var/lib/hushlist/mitmproxy"),
    state=Path("/var/lib/hushlist"),
    cache=Path("/var/cache/hushlist"),
)


def places_of(policy: Path, confdir: Path) -> Places:
    """The folders of the present user's installation; ``RuntimeError`` if the user has no home."""
    return Places(policy.absolute(), confdir.expanduser(), state_folder(), cache_folder())


class Belonging(NamedTuple):
    """A file, and what it is called in any installation."""

    area: str
    name: PurePosixPath
    path: Path


def belongings_of(policy: Policy, places: Places, *, with_log: bool = True) -> Iterator[Belonging]:
    """What an installation has; ``with_log``: its decision log, too."""
    for path in policy_files(policy, places):
        if path.is_relative_to(places.policy.parent):
            yield Belonging(POLICY, _name(path, places.policy.parent), path)
    for path in sorted(places.confdir.glob(_OF_CERTIFICATE)):
        if _is_file(path):
            yield Belonging(CERTIFICATE, PurePosixPath(path.name), path)
    if (authority := known_authority(places.state, places.confdir)).is_file():
        yield Belonging(STATE, _AUTHORITY, authority)
    for path in _files_below(places.state):
        if path.is_relative_to(places.confdir) or path.is_relative_to(places.cache / "lists"):
            continue  # on some systems, it is also the folder for what can be made again
        name = _name(path, places.state)
        is_note = len(name.parts) == 1 and name.match("authority-*.pem")
        if not is_note and (with_log or not name.parts[0].startswith(_LOG)):
            yield Belonging(STATE, name, path)
    folder = places.folder_of(LISTS)
    for path in _files_below(folder):
        yield Belonging(LISTS, _name(path, folder), path)


def belongs(area: str, name: PurePosixPath) -> bool:
    """Whether a backup may have such a thing: mitmproxy's folder also has what makes it run programs.

    >>> belongs("certificate", PurePosixPath("mitmproxy-ca.pem")), belongs("certificate", PurePosixPath("config.yaml"))
    (True, False)
    """
    return area != CERTIFICATE or (len(name.parts) == 1 and name.match(_OF_CERTIFICATE))


def files_elsewhere(policy: Policy, places: Places) -> list[Path]:
    """The policy's files outside of its folder: they stay where they are, and no backup has them."""
    return [path for path in policy_files(policy, places) if not path.is_relative_to(places.policy.parent)]


def policy_files(policy: Policy, places: Places) -> list[Path]:
    """The policy and the files that it names.

    What this package or the cache has is not among them, but beside the shipped policy: administrators write there.
    """
    there = {Path(os.path.abspath(path)) for path, seen in policy.files.items() if seen is not None}  # noqa: PTH100
    others = [folder for folder in (PACKAGE, shipped_policy().parent) if not places.policy.is_relative_to(folder)]
    named = {path for path in there if not any(path.is_relative_to(folder) for folder in (*others, places.cache))}
    return sorted(named | {places.policy})


def _files_below(folder: Path) -> Iterable[Path]:
    return (path for path in sorted(folder.rglob("*")) if _is_file(path) and not path.name.endswith(_PASSING))


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _name(path: Path, folder: Path) -> PurePosixPath:
    return PurePosixPath(path.relative_to(folder).as_posix())


def copy_file(source: Path, target: Path) -> None:
    """Copy a file to a place where none is, private to the user; of a database in use, its last whole state.

    Raises:
        OSError: it cannot be read or written.
    """
    make_private(target.parent)
    if is_database(source):
        try:
            with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as before:
                target.touch(PRIVATE_FILE, exist_ok=False)
                with closing(sqlite3.connect(target)) as copy:
                    before.backup(copy)
        except sqlite3.Error as error:
            raise OSError(0, f"it cannot be copied: {error}", str(source)) from error
    else:
        with open_regular(source) as file, os.fdopen(os.open(target, _NEW, PRIVATE_FILE), "wb") as copied:
            shutil.copyfileobj(file, copied)


def put_back(source: Path, target: Path) -> Path | None:
    """Move a file to where it belongs; what was there is kept beside it: its new name, or ``None``.

    Raises:
        OSError: it cannot be moved, or its folder is a link, to wherever somebody else wants.
    """
    make_private(target.parent)
    if target.parent.is_symlink():
        raise OSError(ELOOP, "it is a link, which is not followed", str(target.parent))
    before = None
    if os.path.lexists(target):
        before = next(place for number in range(1 << 20) if not os.path.lexists(place := _beside(target, number)))
        target.replace(before)
    for passing in ("-wal", "-shm"):  # they belong to the database that is replaced
        with suppress(FileNotFoundError):
            target.with_name(target.name + passing).unlink()
    shutil.move(source, target)
    return before


def _beside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.before{f'-{number}' if number else ''}")


def is_database(path: Path) -> bool:
    """Whether a file begins as SQLite's do."""
    with open_regular(path) as file:
        return file.read(len(_SQLITE)) == _SQLITE
