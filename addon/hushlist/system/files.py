"""The user's private folders, and atomic replacement of a file.

The platform's rules say where the folders are. They may not exist yet.

Spec: XDG Base Directory Specification
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE
from tempfile import NamedTemporaryFile


def cache_folder() -> Path:
    """The folder for files that can be made again.

    Raises:
        RuntimeError: the user has no home.
    """
    return _folder("XDG_CACHE_HOME", ".cache", "Caches")


def state_folder() -> Path:
    """The folder for files that must stay: overrides, the decision log.

    Raises:
        RuntimeError: the user has no home.
    """
    return _folder("XDG_STATE_HOME", ".local/state", "Application Support")


def make_private(folder: Path) -> None:
    """Make a folder and its missing parents, private to the user whatever the umask.

    A folder that exists keeps its permissions.

    Raises:
        OSError: it cannot be made.

    Spec: XDG Base Directory Specification, "Referencing this specification": with permission 0700
    """
    for missing in reversed([folder, *folder.parents]):
        if not missing.is_dir():
            with suppress(FileExistsError):  # another process made it; if it is not a folder, the next step fails
                missing.mkdir(mode=0o700)
    folder.mkdir(mode=0o700, exist_ok=True)


def _folder(variable: str, default: str, in_library: str) -> Path:
    """The folder by the XDG variable and its default, or by the name in macOS's library."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / in_library
    else:
        # "All paths set in these environment variables must be absolute. ... consider the path invalid and ignore it."
        given = os.environ.get(variable, "")
        base = given if given.startswith("/") else Path.home() / default
    return Path(base) / "hushlist"


def replace_file(path: Path, octets: bytes) -> None:
    """Replace a file's content atomically; its owner and permissions stay."""
    before = path.stat()
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(octets)
        file.flush()
        os.fsync(file.fileno())
    new = Path(file.name)
    try:
        if sys.platform != "win32":
            os.chown(new, before.st_uid, before.st_gid)
        new.chmod(S_IMODE(before.st_mode))
        new.replace(path)
    except OSError:
        new.unlink()
        raise
