r"""The parts of a multipart body, as it comes: only if every server that reads it gets the same ones.

Servers differ in what they forgive: bare line feeds, text before the first part, a boundary that goes on. Whatever one
of them may read in another way is refused here, so that no part hides from the filter.

>>> boundary_of("multipart/form-data; boundary=x")
b'x'

Spec: RFC 2046, 5.1.1; RFC 7578, 4 and 5.1
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

#: name in lower case -> value
PartHead: TypeAlias = Mapping[str, str]

#: octets of a part's head, fields in it, and parts of a body
LONGEST_HEAD, MOST_FIELDS, MOST_PARTS = 1 << 13, 16, 1000
#: spaces behind a boundary, which RFC 2046 allows
_MOST_PADDING = 64
_MULTIPART = re.compile(r"multipart/[0-9a-z.+-]+", re.IGNORECASE)
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\0-\x08\x0a-\x1f\x7f]*)")
_PARAMETER = re.compile(r""";\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\["\\])*)"|([^\s;",]+))\s*""")
#: fields that may not differ from each other
_ONCE = frozenset(("content-disposition", "content-type", "content-transfer-encoding"))


class MultipartError(ValueError):
    """Servers may read it in different ways; the message says why."""


def boundary_of(content_type: str) -> bytes:
    """The boundary that a media type ``multipart/…`` states.

    >>> boundary_of('multipart/form-data; charset=utf-8; boundary="a b"')
    b'a b'

    Raises:
        MultipartError: it states none, several, or one that servers read in different ways.
    """
    media_type, mark, parameters = content_type.strip().partition(";")
    values, at, text = [], 0, mark + parameters
    while (parameter := _PARAMETER.match(text, at)) is not None:
        if parameter[1].lower().startswith("boundary"):
            values.append((parameter[1].lower(), parameter[3] if parameter[2] is None else parameter[2]))
        at = parameter.end()
    if text[at:].strip(" \t;") or not _MULTIPART.fullmatch(media_type.strip()):
        raise MultipartError("its media type cannot be read")
    if len(values) != 1 or values[0][0] != "boundary" or not _BOUNDARY.fullmatch(values[0][1]):
        raise MultipartError("its media type does not state one boundary")
    return values[0][1].encode()


class PartTaker(Protocol):
    """Takes the octets of a part as they come, none of them empty, and its end."""

    @property
    def is_settled(self) -> bool:
        """Whether what has come of it may go on."""

    def take(self, octets: bytes) -> None: ...

    def end(self) -> None: ...


class MultipartReader:
    """Reads a body piece by piece, in linear time; keeps no more of it than a head or a boundary."""

    def __init__(self, boundary: bytes, begin: Callable[[PartHead], PartTaker]) -> None:
        """``begin`` is called for each part, with its head, and gives what takes its octets."""
        self._mark, self._begin = b"--" + boundary, begin
        #: what has come and is not read, as if a line end were before the body
        self._kept = b"\r\n"
        self._part: PartTaker | None = None
        self._read = self._preamble
        self._parts = 0
        #: whether the line end behind a part's head is still to be left out of its octets
        self._is_first = False
        self.has_ended = False

    @property
    def is_settled(self) -> bool:
        """Whether no head is read, and the part that is there may go on."""
        return self._read != self._head and (self._part is None or self._part.is_settled)

    def take(self, octets: bytes) -> None:
        """Read the next octets.

        Raises:
            MultipartError: servers may read them in different ways.
        """
        for at in range(0, len(octets), LONGEST_HEAD):  # so that little is copied at each boundary
            self._kept += octets[at : at + LONGEST_HEAD]
            while self._read():
                pass

    def end(self) -> None:
        """Raises ``MultipartError`` if the body has ended before its last boundary."""
        if not self.has_ended:
            raise MultipartError("it ends before its last boundary")

    # each of these reads one thing, and says whether there may be more to read

    def _preamble(self) -> bool:
        begins = b"\r\n" + self._mark
        # as browsers send it; or behind a line end, as some programs do
        for kept in (self._kept, self._kept[2:]):
            if kept.startswith(begins):
                self._kept, self._read = kept[len(begins) :], self._boundary
                return True
        if not begins.startswith(self._kept) and not begins.startswith(self._kept[2:]):
            raise MultipartError("it does not begin with its boundary")
        return False

    def _boundary(self) -> bool:
        """What is behind a boundary: a line end, or two hyphens at the end of all parts."""
        kept = self._kept
        if kept.startswith(b"--"):
            self._kept, self._read, self.has_ended = kept[2:], self._epilogue, True
            return True
        rest = kept.lstrip(b" \t")
        if len(kept) - len(rest) > _MOST_PADDING:
            raise MultipartError("a boundary has more behind it")
        if rest.startswith(b"\r\n"):
            self._parts += 1
            if self._parts > MOST_PARTS:
                raise MultipartError(f"it has more than {MOST_PARTS} parts")
            self._kept, self._read = rest, self._head
            return True
        if rest not in (b"", b"\r") and kept != b"-":
            raise MultipartError("a boundary has more behind it")
        return False

    def _head(self) -> bool:
        """The fields of a part; ``_kept`` begins with the line end behind the boundary."""
        end = self._kept.find(b"\r\n\r\n", 0, LONGEST_HEAD)
        if end < 0:
            if len(self._kept) >= LONGEST_HEAD:
                raise MultipartError("the head of a part is too long")
            return False
        head = self._kept[2:end] if end else b""
        if self._mark in head:
            raise MultipartError("a boundary is within a head")
        self._part = self._begin(_fields(head))
        # the line end before a boundary is the boundary's: of an empty part, it is that behind the head
        self._kept, self._read = self._kept[end + 2 :], self._content
        self._is_first = True
        return True

    def _content(self) -> bool:
        """The octets of a part; ``_kept`` begins with the line end behind its head, until some have been taken."""
        kept, mark = self._kept, self._mark
        at = kept.find(mark)
        if at >= 0:
            if at < 2 or kept[at - 2 : at] != b"\r\n":
                raise MultipartError("its boundary is within a line, or behind a bare line feed")
            self._hand(kept[: at - 2])
            if self._part is not None:
                self._part.end()
            self._kept, self._read, self._part = kept[at + len(mark) :], self._boundary, None
            return True
        # the boundary, with the line end before it, may have begun at the end
        whole = len(kept) - len(mark) - 1
        if whole >= 2:
            self._hand(kept[:whole])
            self._kept = kept[whole:]
        return False

    def _hand(self, octets: bytes) -> None:
        if self._is_first and len(octets) >= 2:
            octets, self._is_first = octets[2:], False
        if octets and self._part is not None:
            self._part.take(octets)

    def _epilogue(self) -> bool:
        if self._kept.strip(b" \t\r\n"):
            raise MultipartError("something is behind its last boundary")
        self._kept = b""
        return False


def _fields(head: bytes) -> dict[str, str]:
    fields: dict[str, str] = {}
    lines = head.split(b"\r\n") if head else []
    if len(lines) > MOST_FIELDS:
        raise MultipartError("a part has too many fields")
    for line in lines:
        match = _FIELD.fullmatch(line)
        if match is None:
            raise MultipartError("a field of a part cannot be read")
        name, value = match[1].decode().lower(), match[2].strip(b" \t").decode("utf-8", "replace")
        if name in fields and name in _ONCE:
            raise MultipartError(f"a part has {name} twice")
        fields[name] = value
    return fields
