"""A good copy of the store's file beside it, and what becomes of a file that is damaged.

A damaged file is set aside as ``NAME.damaged-TIME`` until somebody removes it, and the copy takes its place. What was
unblocked or used since is in no copy, so grants and codes do not come back; administrators' blocks do.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from hushlist.system.files import PRIVATE_FILE, SAFELY, lock_file
from hushlist.unblock.store import APPLICATION

#: seconds after which the copy is made anew, and for which another process that does so is waited for
_A_DAY, _PATIENCE = 86400.0, 5.0
#: other files of a database
_BESIDE = ("-wal", "-shm")
#: tables that no copy gives back: what lets pass
_NOT_GIVEN_BACK = ("grants", "codes")
#: tables that a store of ours has from the first version on
_OURS = frozenset({"grants", "admin_blocks", "codes"})


def copy_of(path: Path) -> Path:
    """Where the copy of a store is."""
    return path.with_name(f"{path.name}.copy")


def set_aside(path: Path) -> list[Path]:
    """The damaged files that wait for a person; ``OSError`` if the folder cannot be read."""
    beginning = f"{path.name}.damaged-"
    return sorted(own for own in path.parent.iterdir() if own.name.startswith(beginning) and own.name[-1] == "Z")


def why_damaged(path: Path) -> str | None:
    """What is wrong with the pages or the header of a store's file; ``None``: nothing, or that cannot be told now."""
    try:
        with closing(_opened(path)) as database:
            ((told, *_), *_) = database.execute("PRAGMA quick_check(1)").fetchall()
            if told != "ok":
                return str(told)
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            (application,) = database.execute("PRAGMA application_id").fetchone()
            return "its header is not Hushlist's" if tables >= _OURS and application != APPLICATION else None
    except sqlite3.Error as error:
        # only "SQLITE_CORRUPT" and "SQLITE_NOTADB" have exactly this class
        return str(error) if type(error) is sqlite3.DatabaseError else None


def rescue(path: Path) -> str | None:
    """Put the copy in the place of a damaged store, or nothing where there is no good one; says what was done.

    Raises:
        OSError: it cannot be set aside.
    """
    if not path.is_file() or path.is_symlink() or why_damaged(path) is None:
        return None
    with _alone(path):
        why = why_damaged(path)  # another process may have been faster
        if why is None:
            return None
        aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
        draft = _draft(copy_of(path), path)
        if draft is not None:
            with closing(_opened(draft)) as database:
                for table in _NOT_GIVEN_BACK:
                    database.execute(f"DELETE FROM {table}")  # noqa: S608 - a name of a table
        os.link(path, aside)  # so that a file is there at each moment: else another process would make one
        for ending in _BESIDE:
            with suppress(FileNotFoundError):
                path.with_name(path.name + ending).replace(aside.with_name(aside.name + ending))
        told = f"{path} is damaged ({why}), was set aside as {aside.name}, and "
        if draft is None:
            _new_file(_draft_of(path)).replace(path)
            return f"{told}has no good copy: all blocks of administrators are lost"
        made = datetime.fromtimestamp(copy_of(path).stat().st_mtime, UTC)
        draft.replace(path)
        return f"{told}the blocks of {made:%Y-%m-%d %H:%M} UTC hold, but no grant and no code"


def keep_copy(path: Path) -> bool:
    """Copy a store if the copy is a day old, or has other blocks; whether it was copied.

    A damaged store replaces no copy. ``OSError`` or ``sqlite3.Error``: it cannot be copied now.
    """
    if not path.is_file() or path.is_symlink():
        return False
    copy = copy_of(path)
    with suppress(OSError, sqlite3.Error):
        if 0 <= time.time() - copy.stat().st_mtime < _A_DAY and _blocks(path) == _blocks(copy):
            return False
    with _alone(path):
        draft = _draft(path, path)
        if draft is not None:
            draft.replace(copy)
        return draft is not None


def _draft(source: Path, path: Path) -> Path | None:
    """A copy of a file under a third name, private; ``None`` if the file is not there, or damaged."""
    if not source.is_file() or why_damaged(source) is not None:
        return None
    draft = _new_file(_draft_of(path))
    with closing(_opened(source)) as database, closing(_opened(draft)) as target:
        database.backup(target)
    with draft.open("r+b") as file:
        os.fsync(file.fileno())
    return None if why_damaged(draft) else draft


def _draft_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.copying")


def _new_file(path: Path) -> Path:
    """An empty private file, in the place of what an unfinished process left."""
    for ending in ("", *_BESIDE):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | SAFELY, PRIVATE_FILE))
    return path


def _blocks(path: Path) -> list[tuple[object, ...]]:
    with closing(_opened(path)) as database:
        return database.execute("SELECT * FROM admin_blocks ORDER BY id").fetchall()


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_PATIENCE, isolation_level=None)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Exclude other processes and threads that set aside or copy; ``OSError`` if one takes too long."""
    end = time.monotonic() + _PATIENCE
    while (lock := lock_file(path.with_name(f"{path.name}.lock"))) is None:
        if time.monotonic() > end:
            raise TimeoutError(f"another process copies {path}")
        time.sleep(0.02)
    try:
        yield
    finally:
        os.close(lock)
