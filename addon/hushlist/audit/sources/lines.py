"""Sources of one record a line: plain URLs, and the tables of requests that studies of ad blockers publish."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

from hushlist.audit.kinds import kind_of_name
from hushlist.audit.record import Broken, Kind, Record

#: octets; a longer line is broken, and not kept
LONGEST_LINE = 1 << 20

#: makes a record of a line without its end, or ``None`` where it is not for one; raises ``LineError``
ReadLine = Callable[[bytes, str, int], Record | None]


class LineError(ValueError):
    """A line is no record; says why."""


def read_lines(
    stream: BinaryIO, source: str, read: ReadLine, first: int = 1, octets: int | None = None
) -> Iterator[Record | Broken]:
    """The records of a stream's lines, of which ``first`` is the number of the first, up to so many octets."""
    number, done = first - 1, 0
    while (octets is None or done < octets) and (line := stream.readline(LONGEST_LINE)):
        number += 1
        done += len(line)
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            done += _finish_line(stream)
            yield Broken(source, number, f"the line is longer than {LONGEST_LINE:,} octets")
            continue
        try:
            record = read(line.rstrip(b"\r\n"), source, number)
        except LineError as error:
            yield Broken(source, number, str(error))
        else:
            if record is not None:
                yield record


def _finish_line(stream: BinaryIO) -> int:
    """Go behind the end of the line; gives how many octets that was."""
    done = 0
    while piece := stream.readline(LONGEST_LINE):
        done += len(piece)
        if piece.endswith(b"\n"):
            break
    return done


def read_url(line: bytes, source: str, number: int) -> Record | None:
    """One URL a line; empty lines are none."""
    line = line.strip()
    return Record(line, source, number) if line else None


def read_request(line: bytes, source: str, number: int) -> Record | None:
    """URL, page and type, perhaps more columns, with tabs between them; a first line of headings is passed over.

    >>> read_request(b"http://h.example/x.js\\thttp://h.example/\\tscript\\tstudy", "requests.tsv", 7).kind
    <Kind.SCRIPT: 'script'>
    """
    url, *rest = line.split(b"\t")
    url = url.strip()
    if not url:
        if any(map(bytes.strip, rest)):
            raise LineError("the first column, the URL, is empty")
        return None
    if number == 1 and url.lower() in _HEADINGS:
        return None
    page = rest[0].strip() if rest else b""
    name = rest[1].strip() if len(rest) > 1 else b""
    # Where only the page's scheme is known, the page is not.
    known_page = page if page and not page.endswith(b"://") else None
    kind = kind_of_name(name.decode("ascii", "replace"))
    if kind is Kind.DOCUMENT and known_page not in (None, url):
        kind = Kind.FRAME
    return Record(url, source, number, kind, known_page)


_HEADINGS = (b"url", b"request", b"requesturl", b"request_url")
