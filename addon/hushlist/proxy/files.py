"""Writing to a file that an administrator keeps."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from stat import S_IMODE
from tempfile import NamedTemporaryFile


def replace(path: Path, octets: bytes) -> None:
    """Write a file at one stroke; it stays whose it was, and who may read it may read it still."""
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
