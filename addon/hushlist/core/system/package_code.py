"""The code of this package: as it was loaded, and as it is on the disk.

While a program runs, somebody may move the package, or put another version in its place, as ``git pull`` and
``pip install -U`` do. What is loaded goes on; but no module may be added to it that belongs to another version.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

#: not resolved: where a link leads to the package, and is changed, that is another package
PACKAGE = Path(__file__).parent.parent.parent
#: by which a program tells a process that it starts which code it has
VARIABLE = "HUSHLIST_CODE"
OTHER_MITMPROXY = "this mitmproxy is not as it has to be for all bounds"
OTHER_CODE = "the package on the disk is another than the one that runs: start the proxy again"


def digest_on_disk(package: Path = PACKAGE) -> str:
    """A digest of a package's modules, by default this one's, as they are on the disk now."""
    digest = hashlib.sha256()
    for path in _modules(package):
        octets = path.read_bytes()
        digest.update(b"%b\0%d\0" % (str(path.relative_to(package)).encode(), len(octets)))
        digest.update(octets)
    return digest.hexdigest()


def digest_of_code(places: Iterable[Path]) -> str:
    """A digest of the files in folders, and of single files, as they are now; Python's caches are left out."""
    digest = hashlib.sha256()
    for path in (path for place in places for path in files_of_code(place)):
        with suppress(OSError):  # it has just been removed
            octets = path.read_bytes()
            digest.update(b"%b\0%d\0" % (os.fsencode(path), len(octets)))
            digest.update(octets)
    return digest.hexdigest()


def files_of_code(place: Path) -> list[Path]:
    """The files of a package, also those of data, which its code may read; Python's caches are left out."""
    if not place.is_dir():
        return [place]
    return sorted(path for path in place.rglob("*") if path.parent.name != "__pycache__" and path.is_file())


def path_to_package() -> dict[str, str]:
    """What a process that this one starts needs in its environment to find this package, whatever else it finds."""
    places = (str(PACKAGE.parent), os.environ.get("PYTHONPATH"))
    return {"PYTHONPATH": os.pathsep.join(filter(None, places))}


@cache
def loaded_digest() -> str:
    """The digest of the code that runs; the first call looks, which should be soon after the start."""
    return digest_on_disk()


def is_other_code(environment: Mapping[str, str]) -> bool:
    """Whether this process runs other code than the one that has started it."""
    digest = environment.get(VARIABLE, "")
    return bool(digest) and digest != loaded_digest()


def is_as_loaded() -> bool:
    """Whether the package on the disk is the one that was loaded."""
    try:
        return digest_on_disk() == loaded_digest()
    except OSError:  # it is being changed
        return False


def _modules(package: Path) -> Iterator[Path]:
    yield from sorted(package.rglob("*.py"))


class CodeOnDisk:
    """Whether the package on the disk is the one that was loaded; its files are read where they may have changed."""

    def __init__(self) -> None:
        self._seen, self._is_loaded = dict[str, tuple[int, int]](), False

    def is_loaded(self) -> bool:
        """Look again."""
        seen = dict(self._look())
        if seen != self._seen:
            self._seen, self._is_loaded = seen, is_as_loaded()
        return self._is_loaded

    @staticmethod
    def _look() -> Iterator[tuple[str, tuple[int, int]]]:
        """The package's modules, each with its time in nanoseconds and its octets."""
        folders = [str(PACKAGE)]
        while folders:
            with suppress(OSError), os.scandir(folders.pop()) as entries:  # one may be gone, as it is being changed
                for entry in entries:
                    name = entry.name
                    if name.endswith(".py"):
                        status = entry.stat()
                        yield entry.path, (status.st_mtime_ns, status.st_size)
                    elif name != "__pycache__" and entry.is_dir():
                        folders.append(entry.path)


def import_rooms(rooms: frozenset[str]) -> list[str]:
    """Import every module of these packages of ours, so that none is missing, or of another version, when it is used.

    Returns what could not be imported, and why.
    """
    faults = []
    for path in _modules(PACKAGE):
        name = ".".join(("hushlist", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        if name.partition(".")[2].partition(".")[0] in rooms and name not in sys.modules:
            try:
                import_module(name)
            except (Exception, SystemExit) as error:  # another version may do anything
                faults.append(f"{name}: {type(error).__name__}: {error}")
    return faults
