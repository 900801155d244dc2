"""The code of this package: as it was loaded, and as it is on the disk.

While a program runs, somebody may move the package, or put another version in its place, as ``git pull`` and
``pip install -U`` do. What is loaded goes on; but no module may be added to it that belongs to another version.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from hushlist.core.system.files import source_files

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
        with suppress(OSError):  # it is being changed
            for entry in source_files(PACKAGE):
                status = entry.stat()
                yield entry.path, (status.st_mtime_ns, status.st_size)


#: octets before the code in a compiled file
_HEAD = 16


class _KeptModule(SourceFileLoader):
    """Loads a module as it was when it was kept, whatever its file has become."""

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(name, str(path))
        self._octets = b""

    def keep(self) -> None:
        """Read the module.

        Raises:
            Exception: it cannot be read or compiled.
        """
        self._octets = zlib.compress(self._compiled() or marshal.dumps(super().get_code(self.name)), 1)

    def _compiled(self) -> bytes | None:
        """What Python has kept of this very file, compiled; to load it, and drop it, would leave memory in use.

        Spec: PEP 3147; PEP 552 (a field of flags, 0 here, before the time and the size of the source)
        """
        with suppress(OSError, NotImplementedError):
            octets, status = self.get_data(cache_from_source(self.path)), self.path_stats(self.path)
            of_file = [int(status[name]) & 0xFFFFFFFF for name in ("mtime", "size")]
            if octets[:_HEAD] == MAGIC_NUMBER + struct.pack("<3I", 0, *of_file):
                return octets[_HEAD:]
        return None

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = marshal.loads(zlib.decompress(self._octets))  # noqa: S302  we wrote it, into our own memory
        return code

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        KEPT.loaders.pop(self.name, None)
        self._octets = b""


class _KeptModules(MetaPathFinder):
    """The modules that are kept: an import takes them from here, as long as none has loaded them."""

    def __init__(self) -> None:
        self.loaders: dict[str, _KeptModule] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        loader = self.loaders.get(fullname)
        return None if loader is None else spec_from_file_location(fullname, loader.path, loader=loader)


KEPT = _KeptModules()


def keep_rooms(rooms: frozenset[str]) -> list[str]:
    """Keep every module of these packages of ours that is not loaded, for whoever imports it later.

    So none is missing then, or of another version; and until then, a module takes a fifth of the memory that it would
    take when it is loaded. Returns what could not be kept, and why.
    """
    faults = []
    if KEPT not in sys.meta_path:
        sys.meta_path.insert(0, KEPT)
    for path in _modules(PACKAGE):
        name = ".".join(("hushlist", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        if name.partition(".")[2].partition(".")[0] in rooms and name not in sys.modules and name not in KEPT.loaders:
            loader = _KeptModule(name, path)
            try:
                loader.keep()
            except Exception as error:  # another version may be anything
                faults.append(f"{name}: {type(error).__name__}: {error}")
            else:
                KEPT.loaders[name] = loader
    return faults
