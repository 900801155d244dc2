"""Files of SQLite that have to stay: whether one is damaged, a good copy beside it, and what becomes of a damaged one.

A damaged file is set aside as ``NAME.damaged-TIME`` until somebody removes it. Its copy takes its place, without what
would let anybody pass or in; or a new file does.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from hushlist.core.diagnosis import GOOD, WARNING, WRONG, About, Diagnosis
from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.files import PRIVATE_FILE, SAFELY, locked, state_folder
from hushlist.extensions.databases.sql import APPLICATION

#: how that is told
SET_ASIDE = "a damaged file was set aside"
#: seconds after which the copy is made anew, and for which another process that does so is waited for
_A_DAY, _PATIENCE = 86400.0, 5.0
#: seconds for which the pages of a file are looked at, and SQLite's steps between two looks at the clock
_LONGEST_LOOK, _STEPS = 20.0, 100_000
#: other files of a database
BESIDE = ("-wal", "-shm", "-journal")
_ASIDE = re.compile(r".+\.damaged-[0-9]{8}T[0-9]{6}\.[0-9]{6}Z")


class DatabaseKind(NamedTuple):
    """What a file is for, and what of it a copy gives back."""

    #: the package that has its tables, in ``store_schema.sql``
    package: str
    #: how it goes on after a new file has taken its place, and after the copy has; ``{made}`` is when that was made
    anew: str
    restored: str = ""
    #: the query whose rows say whether the copy is of today; without one, there is no copy
    copied_for: str = ""
    #: tables of which nothing is given back
    not_given_back: tuple[str, ...] = ()
    #: tables that it has from its first version on
    tables: frozenset[str] = frozenset()
    #: whether it lets nobody pass or in: then anybody may write to its folder, and it has no application ID
    is_harmless: bool = False
    #: what SQLite does before the tables are made, and each time the file is opened
    first: str = ""
    always: str = ""

    @property
    def application(self) -> int:
        """The application ID in the header."""
        return 0 if self.is_harmless else APPLICATION


def copy_of(path: Path) -> Path:
    """Where the copy of a file is."""
    return path.with_name(f"{path.name}.copy")


def set_aside(folders: Iterable[Path]) -> list[Path]:
    """The damaged files in folders that wait for a person; in a folder that cannot be read, none."""
    paths = set[Path]()
    for folder in folders:
        with suppress(OSError):
            paths |= {path for path in folder.iterdir() if _ASIDE.fullmatch(path.name)}
    return sorted(paths)


def databases(folders: Iterable[Path]) -> list[Path]:
    """The files of SQLite in folders."""
    return sorted({path for folder in folders for path in folder.glob("*.sqlite")})


def why_damaged(path: Path, kind: DatabaseKind | None = None) -> str | None:
    """What is wrong with the pages or the header of a file; ``None``: nothing, or that cannot be told now."""
    end = time.monotonic() + _LONGEST_LOOK
    try:
        with closing(opened(path)) as database:
            database.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
            ((result, *_), *_) = database.execute("PRAGMA quick_check(1)").fetchall()
            if result != "ok":
                return str(result)
            if kind is None or not kind.tables:
                return None
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            (application,) = database.execute("PRAGMA application_id").fetchone()
            is_other = tables >= kind.tables and application != kind.application
            return "its header is not Hushlist's" if is_other else None
    except sqlite3.Error as error:
        return str(error) if is_of_damage(error) else None


def is_of_damage(error: BaseException | None) -> bool:
    """Whether an error says that a file is damaged: only "SQLITE_CORRUPT" and "SQLITE_NOTADB" have just this class."""
    return type(error) is sqlite3.DatabaseError


def rescue(path: Path, kind: DatabaseKind, *, why: str | None = None) -> str | None:
    """Put the copy in the place of a damaged file, or an empty one where there is no good copy; says what was done.

    ``why``: it is damaged in any case, as SQLite has said while it was in use.

    Raises:
        OSError: it cannot be set aside.
    """
    if not path.is_file() or path.is_symlink() or (why is None and why_damaged(path, kind) is None):
        return None
    before = path.stat()
    with locked(path.with_name(f"{path.name}.lock"), _PATIENCE):
        if why is None:
            why = why_damaged(path, kind)  # another process may have been faster
        if why is None or not os.path.samestat(before, path.stat()):
            return None
        aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
        draft = _draft(copy_of(path), path, kind)
        if draft is not None:
            with closing(opened(draft)) as database:
                for table in kind.not_given_back:
                    database.execute(f"DELETE FROM {table}")  # noqa: S608 - a name of a table
        os.link(path, aside)  # so that a file is there at each moment: else another process would make one
        for ending in BESIDE:
            with suppress(FileNotFoundError):
                path.with_name(path.name + ending).replace(aside.with_name(aside.name + ending))
        message = f"{path} is damaged ({why}), and was set aside as {aside.name}: "
        if draft is None:
            _new_file(_draft_of(path)).replace(path)
            return message + kind.anew
        made = datetime.fromtimestamp(copy_of(path).stat().st_mtime, UTC)
        draft.replace(path)
        return message + kind.restored.format(made=f"{made:%Y-%m-%d %H:%M} UTC")


def remove_aside(path: Path, before: float, *, kept: int = 0) -> None:
    """Remove what was set aside of a file and last written before a time in seconds since 1970, but the newest ones.

    Raises:
        OSError: it cannot be removed.
    """
    ours = [aside for aside in set_aside([path.parent]) if aside.name.startswith(f"{path.name}.damaged-")]
    for aside in ours[: len(ours) - kept]:
        if aside.stat().st_mtime < before:
            for ending in ("", *BESIDE):
                aside.with_name(aside.name + ending).unlink(missing_ok=True)


def keep_copy(path: Path, kind: DatabaseKind) -> bool:
    """Copy a file if the copy is a day old, or differs in what it is copied for; whether it was copied.

    A damaged file replaces no copy. ``OSError`` or ``sqlite3.Error``: it cannot be copied now.
    """
    if not path.is_file() or path.is_symlink():
        return False
    copy = copy_of(path)
    with suppress(OSError, sqlite3.Error):
        if 0 <= time.time() - copy.stat().st_mtime < _A_DAY and _watched(path, kind) == _watched(copy, kind):
            return False
    with locked(path.with_name(f"{path.name}.lock"), _PATIENCE):
        draft = _draft(path, path, kind)
        if draft is not None:
            draft.replace(copy)
        return draft is not None


def _draft(source: Path, path: Path, kind: DatabaseKind) -> Path | None:
    """A copy of a file under a third name, private; ``None`` if the file is not there, or damaged."""
    if not source.is_file() or why_damaged(source, kind) is not None:
        return None
    draft = _new_file(_draft_of(path))
    with closing(opened(source)) as database, closing(opened(draft)) as target:
        database.backup(target)
    with draft.open("r+b") as file:
        os.fsync(file.fileno())
    return None if why_damaged(draft, kind) else draft


def _draft_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.copying")


def _new_file(path: Path) -> Path:
    """An empty private file, in the place of what an unfinished process left."""
    for ending in ("", *BESIDE):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | SAFELY, PRIVATE_FILE))
    return path


def _watched(path: Path, kind: DatabaseKind) -> list[tuple[object, ...]]:
    with closing(opened(path)) as database:
        return database.execute(kind.copied_for).fetchall()


def opened(path: Path, patience: float = _PATIENCE) -> sqlite3.Connection:
    """A connection to a file that is there, whatever it has."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=patience, isolation_level=None)


# -- for hushlist doctor -----------------------------------------------------------------------------------------------


def examine_state(policy: Policy, now: float) -> Iterator[Diagnosis]:
    """The files in the folder for state."""
    with suppress(RuntimeError):  # the folder is a finding already
        yield from examine_kept(state_folder())


def examine_kept(folder: Path) -> Iterator[Diagnosis]:
    """Files of SQLite in a folder: whether one is damaged, or was."""
    good = list[str]()
    for path in databases([folder]):
        why = why_damaged(path)
        if why is None:
            good.append(path.name)
        else:
            advice = "start the proxy anew: it sets the file aside, and takes its last good copy where there is one"
            yield Diagnosis(About.FILES, WRONG, f"{path} is damaged: {why}", advice)
    for path in set_aside([folder]):
        advice = "look through what holds (administrators' blocks, tokens), and then remove it, with -wal and -shm"
        yield Diagnosis(About.FILES, WARNING, f"{SET_ASIDE}: {path}", advice)
    if good:
        yield Diagnosis(About.FILES, GOOD, f"whole: {', '.join(good)}")
