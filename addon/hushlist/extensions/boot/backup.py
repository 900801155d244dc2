"""A backup: a tar file that begins with a table of what is in it, and has the things by area and name.

It has the key of the certificate that all devices trust: who has the file can read what they send.

Spec: POSIX.1-2008, "ustar Interchange Format"
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

from hushlist import __version__
from hushlist.core.errors import HushlistError
from hushlist.core.system.files import PRIVATE_FILE, open_regular, sha256_of
from hushlist.extensions.boot.belongings import AREAS, Belonging, belongs, copy_file, is_database

_TABLE, _FORMAT = "hushlist-backup.json", 1
#: octets of the table, things in it, and octets of what is read at once
_LONGEST_TABLE, _MOST, _PIECE = 1 << 24, 100_000, 1 << 20


class BackupError(HushlistError):
    """A file is no backup, or not as it was written."""


class Thing(NamedTuple):
    """A file of a backup: its area and name, its length in octets, and its SHA-256 in hexadecimal."""

    area: str
    name: PurePosixPath
    length: int
    digest: str


class _Member(tarfile.TarInfo):
    """A member as ``write_backup`` makes it: what extends a head, which may be as long as the file, is refused."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise BackupError(f"{member.name} is no file")
        return member


def write_backup(path: Path, belongings: Iterable[Belonging], policy: str) -> list[Thing]:
    """Write a new backup; ``policy``: the name of the policy's file.

    All is copied first, so that the table says what the file has, whatever a proxy writes meanwhile.

    Raises:
        OSError: something cannot be read or written.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with TemporaryDirectory(prefix=".hushlist-", dir=path.absolute().parent) as folder:
        copies = [(each, Path(folder, each.area, each.name)) for each in belongings]
        for each, copy in copies:
            copy_file(each.path, copy)
        things = [Thing(each.area, each.name, copy.stat().st_size, sha256_of(copy)) for each, copy in copies]
        table = {"format": _FORMAT, "version": __version__, "policy": policy, "things": things}
        try:
            with (
                os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as file,
                tarfile.open(fileobj=file, mode="w:gz", format=tarfile.USTAR_FORMAT) as archive,
            ):
                _add(archive, _TABLE, json.dumps(table, default=str).encode())
                for each, copy in copies:
                    archive.add(copy, f"{each.area}/{each.name}", recursive=False)
            new.replace(path)
        except ValueError as error:  # a name is too long for the format
            raise OSError(0, str(error), str(path)) from error
        finally:
            new.unlink(missing_ok=True)
    return things


def read_backup(path: Path, folder: Path) -> tuple[str, list[tuple[Thing, Path]]]:
    """Unpack a backup into an empty folder: the name of the policy's file, and each thing with its file.

    Raises:
        BackupError: it is none, is damaged, or has what does not belong there.
        OSError: it cannot be read, or the folder cannot be written to.
    """
    try:
        with open_regular(path) as packed, tarfile.open(fileobj=packed, mode="r:gz", tarinfo=_Member) as archive:
            first = archive.next()
            if first is None or first.name != _TABLE or not first.isfile() or first.size > _LONGEST_TABLE:
                raise BackupError("it is no backup of Hushlist")
            policy, things = _read_table(_content(archive, first).read())
            if sum(thing.length for thing in things) > shutil.disk_usage(folder).free:
                raise BackupError("it needs more space than there is")
            unpacked = []
            for thing in things:
                member = archive.next()
                if member is None or (member.name, member.size) != (f"{thing.area}/{thing.name}", thing.length):
                    raise BackupError(f"{thing.area}/{thing.name} is not there, or has another length")
                place = folder / thing.area / thing.name
                place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with _content(archive, member) as content, place.open("xb") as file:
                    while piece := content.read(_PIECE):
                        file.write(piece)
                place.chmod(PRIVATE_FILE)
                if sha256_of(place) != thing.digest:
                    raise BackupError(f"{thing.area}/{thing.name} is damaged")
                if place.suffix == ".sqlite" and not is_database(place):
                    raise BackupError(f"{thing.area}/{thing.name} is no database")
                unpacked.append((thing, place))
    except (tarfile.TarError, EOFError, ValueError, KeyError, TypeError) as error:
        raise BackupError(f"it is no backup of Hushlist, or damaged: {error}") from error
    return policy, unpacked


def _read_table(octets: bytes) -> tuple[str, list[Thing]]:
    table: dict[str, Any] = json.loads(octets)
    if table["format"] != _FORMAT:
        raise BackupError(f"it is of version {table['version']}, which this one does not read")
    things = [Thing(area, PurePosixPath(name), length, digest) for area, name, length, digest in table["things"]]
    names = {(thing.area, thing.name) for thing in things}
    if len(names) != len(things) or len(things) > _MOST:
        raise BackupError("it has too many things, or one twice")
    for thing in things:
        if thing.area not in AREAS or not _is_below(thing.name) or not belongs(thing.area, thing.name):
            raise BackupError(f"{thing.area}/{thing.name} belongs nowhere")
    if ("policy", PurePosixPath(table["policy"])) not in names:
        raise BackupError("it has no policy")
    return table["policy"], things


def _is_below(name: PurePosixPath) -> bool:
    """Whether a name leads to a place below a folder, on any system.

    >>> [_is_below(PurePosixPath(name)) for name in ("a/b", "../a", "/a", "a/../../b", "c:\\\\a", "")]
    [True, False, False, False, False, False]
    """
    return (
        bool(name.parts)
        and not name.is_absolute()
        and not any(part == ".." or set(part) & set("\\:\0") for part in name.parts)
    )


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Any:
    content = archive.extractfile(member) if member.isfile() else None
    if content is None:
        raise BackupError(f"{member.name} is no file")
    return content


def _add(archive: tarfile.TarFile, name: str, octets: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(octets), PRIVATE_FILE
    archive.addfile(member, io.BytesIO(octets))
