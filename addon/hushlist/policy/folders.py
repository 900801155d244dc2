"""Where this user's own files are, by the rules of the platform; the folders may not be there yet.

Spec: XDG Base Directory Specification
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


def cache_folder() -> Path:
    """What can be made again.

    Raises:
        RuntimeError: the user has no home.
    """
    return _folder("XDG_CACHE_HOME", ".cache", "Caches")


def state_folder() -> Path:
    """What stays: overrides, the decision log.

    Raises:
        RuntimeError: the user has no home.
    """
    return _folder("XDG_STATE_HOME", ".local/state", "Application Support")


def make_private(folder: Path) -> None:
    """A folder, made where it was missing, and so are those above it: for the user alone, whatever the mask.

    One that is there keeps its permissions.

    Raises:
        OSError: it cannot be made.

    Spec: XDG Base Directory Specification, "Referencing this specification": with permission 0700
    """
    for missing in reversed([folder, *folder.parents]):
        if not missing.is_dir():
            with suppress(FileExistsError):  # made by somebody else meanwhile; what is no folder is found below
                missing.mkdir(mode=0o700)
    folder.mkdir(mode=0o700, exist_ok=True)


def _folder(variable: str, default: str, in_library: str) -> Path:
    """By the variable and default of the XDG specification, and by the folder in macOS's library."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / in_library
    else:
        # "All paths set in these environment variables must be absolute. ... consider the path invalid and ignore it."
        given = os.environ.get(variable, "")
        base = given if given.startswith("/") else Path.home() / default
    return Path(base) / "hushlist"
