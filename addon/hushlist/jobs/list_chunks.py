"""Long lists are cut into chunks, which processes read one by one."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from hushlist.lists.list_source import LONGEST_LINE, ProblemReport
from hushlist.policy.policy_file import ListFile
from hushlist.system.files import check_length, open_regular

#: octets of a source that one process reads at a time
PIECE = 1 << 21


class Chunk(NamedTuple):
    """A chunk of a file: offset and length in octets, and the number of its first line."""

    offset: int
    length: int
    first_line: int


class ChunkedList(NamedTuple):
    """A file, the digest of its content in hexadecimal, and its chunks."""

    file: ListFile
    report: ProblemReport
    digest: str
    pieces: tuple[Chunk, ...]

    @property
    def length(self) -> int:
        """The length of all chunks, in octets."""
        return sum(piece.length for piece in self.pieces)


def chunk_list(file: ListFile) -> ChunkedList:
    """Cut a file into chunks; if it cannot be read, the report has an error."""
    report = ProblemReport(str(file.path))
    digest = hashlib.sha256()
    pieces: list[Chunk] = []
    offset, line = 0, 1
    longest = file.format.longest
    try:
        with open_regular(file.path, longest) as octets:
            while piece := octets.read(PIECE):
                piece += octets.readline(LONGEST_LINE + 1)
                digest.update(piece)
                pieces.append(Chunk(offset, len(piece), line))
                offset += len(piece)
                line += piece.count(b"\n")
                # No chunk has the rest of a line that is too long. The part in the chunk is still too long.
                while not piece.endswith(b"\n") and (piece := octets.readline(LONGEST_LINE)):
                    digest.update(piece)
                    offset += len(piece)
                    line += piece.endswith(b"\n")
                check_length(offset, longest, file.path)  # the file may grow
    except (OSError, ValueError) as error:  # ValueError: no file can have that name
        report.error(0, file.path.name, getattr(error, "strerror", None) or str(error))
        return ChunkedList(file, report, "", ())
    if not file.format.is_by_line or not pieces:
        pieces = [Chunk(0, offset, 1)]
    return ChunkedList(file, report, digest.hexdigest(), tuple(pieces))


def read_chunk(file: ListFile, chunk: Chunk) -> tuple[bytes, ProblemReport]:
    """A chunk's octets, and a report that knows its first line; if the file is gone, no octets and an error."""
    report = ProblemReport(str(file.path), first_line=chunk.first_line)
    try:
        with open_regular(file.path) as octets:
            octets.seek(chunk.offset)
            return octets.read(chunk.length), report
    except OSError as error:
        report.error(0, file.path.name, error.strerror or str(error))
        return b"", report
