"""A survey of a list: what is in its file, and how it is cut into pieces that are read one by one."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from hushlist.lists.source import Report, check_regular
from hushlist.policy.policy import ListFile

#: octets of a source that one process reads at a time
PIECE = 1 << 21


class Stretch(NamedTuple):
    """A piece of a file: offset and length in octets, and the number of its first line."""

    offset: int
    length: int
    first_line: int


class Survey(NamedTuple):
    """A file, what it has in it, and how it is cut."""

    file: ListFile
    report: Report
    digest: str
    pieces: tuple[Stretch, ...]

    @property
    def length(self) -> int:
        """Octets."""
        return sum(piece.length for piece in self.pieces)


def survey_of(file: ListFile) -> Survey:
    """Look through a file; where it cannot be read, there is an error in the report."""
    report = Report(str(file.path))
    digest = hashlib.sha256()
    pieces: list[Stretch] = []
    offset, line = 0, 1
    try:
        check_regular(file.path)
        with file.path.open("rb") as octets:
            while piece := octets.read(PIECE):
                piece += octets.readline()
                digest.update(piece)
                pieces.append(Stretch(offset, len(piece), line))
                offset += len(piece)
                line += piece.count(b"\n")
    except (OSError, ValueError) as error:  # ValueError: no file can have that name
        report.error(0, file.path.name, getattr(error, "strerror", None) or str(error))
        return Survey(file, report, "", ())
    if not file.format.is_by_line or not pieces:
        pieces = [Stretch(0, offset, 1)]
    return Survey(file, report, digest.hexdigest(), tuple(pieces))


def read_stretch(file: ListFile, stretch: Stretch) -> tuple[bytes, Report]:
    """The octets of a piece, and a report that knows its first line; nothing with an error where it is gone."""
    report = Report(str(file.path), first_line=stretch.first_line)
    try:
        with file.path.open("rb") as octets:
            octets.seek(stretch.offset)
            return octets.read(stretch.length), report
    except OSError as error:
        report.error(0, file.path.name, error.strerror or str(error))
        return b"", report
