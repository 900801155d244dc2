"""The names of an archive's members, as its octets flow: nothing of it is kept but what a name may be in.

A ZIP archive has each name twice, where its member begins and in its index, and programs differ in which they take; its
sizes may lie. So every head in it counts, wherever it stands. Of a tar, every block counts that is a head by its sum.

>>> scanner = MemberScanner()
>>> scanner.take(b"PK\\3\\4" + bytes(22) + b"\\5\\0\\0\\0a.exe")
>>> scanner.end().names
('a.exe',)

Source: APPNOTE.TXT (ZIP), 4.3 to 4.6; POSIX.1-2017, pax, "Extended Description"; GNU tar's manual, "Basic Tar Format";
RAR 5.0 archive format (RARLAB's technote)
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple, Protocol

from hushlist.extensions.files.content_coding import CodingError, Decoder
from hushlist.extensions.files.content_kinds import kinds_of
from hushlist.extensions.files.file_names import file_name
from hushlist.extensions.files.seven_zip import SIGNATURE as SEVEN_ZIP
from hushlist.extensions.files.seven_zip import EncryptedIndexError, IndexTaker, SevenZipError

#: members that are named to people, of those that do not decide
MOST_SHOWN = 20
#: octets that tell whether a file is an archive: a block of tar
BLOCK = 512
#: heads that are looked at, each with so many octets of names and the like, and names that are kept
_MOST_HEADS, _OF_HEAD, _MOST_NAMES = 200_000, 128, 4096
#: octets of what tar has for a long name, and at the end of a name that are read; and characters that are kept of it
_LONGEST_TAR_NAME, _LONGEST, _LONGEST_NAME = 1 << 16, 1024, 255
#: codings that whole archives of tar have
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_RAR = b"Rar!\x1a\x07\1\0"
_MACROS = re.compile(r"(?:vbaproject\.bin|xl/macrosheets/[^/]*)\Z")


class Members(NamedTuple):
    """What is seen of a file's members."""

    names: tuple[str, ...] = ()
    #: ``encrypted``, ``macros`` and ``unknown``
    kinds: frozenset[str] = frozenset()
    #: why there may be others
    why_unseen: str = ""

    @property
    def text(self) -> str:
        """As facts have it: a name or a kind a line, a kind behind a slash, which no name has; or a slash."""
        return "\n".join((*self.names, *(f"/{kind}" for kind in sorted(self.kinds)))) or "/"

    @classmethod
    def of_text(cls, text: str) -> Members:
        lines = [line for line in text.split("\n") if line]
        kinds = frozenset(line[1:] for line in lines if line[0] == "/") - {""}
        names = tuple(line for line in lines if line[0] != "/")
        return cls(names, kinds, "its members are not read" if "unknown" in kinds else "")


#: those of a file that is no archive
NO_MEMBERS = Members()


class _UnreadError(ValueError):
    """Not all names of an archive can be read."""


class _Reader(Protocol):
    """Reads an archive as it comes; raises ``_UnreadError``."""

    def take(self, octets: bytes, *, is_end: bool) -> None: ...


def may_have_members(beginning: bytes) -> bool:
    """Whether a file may be an archive, by at least its first ``BLOCK`` octets, or all of it."""
    scanner = MemberScanner()
    scanner.take(beginning, is_end=True)
    return scanner.is_archive


class MemberScanner:
    """Looks for the members of a file of any kind."""

    def __init__(self, endings: frozenset[str] | None = None) -> None:
        """``endings``: of the names that are kept, one for each; all of them, if there are none."""
        self._endings = None if endings is None else tuple(f".{ending}" for ending in endings)
        self._names: dict[str, None] = {}
        self._kinds = set[str]()
        self._why_unseen = ""
        self._beginning = b""
        self._heads = 0
        #: ``None``: it is not known yet what the file is, or there is nothing to read in it
        self._reader: _Reader | None = None
        self._is_over = False
        #: whether the file is an archive, as far as that is seen
        self.is_archive = False
        #: whether something was seen since somebody has set this
        self.has_news = False

    @property
    def members(self) -> Members:
        """Those that were seen so far."""
        return Members(tuple(self._names), frozenset(self._kinds), self._why_unseen)

    def take(self, octets: bytes, *, is_end: bool = False) -> None:
        """Look at the next octets."""
        if self._is_over:
            return
        try:
            if self._reader is None:
                self._beginning += octets
                if len(self._beginning) < BLOCK and not is_end:
                    return
                octets, self._beginning = self._beginning, b""
                self.is_archive = True  # also if it is none that is read
                self._reader = self._reader_of(octets[:BLOCK])
                self.is_archive = self._reader is not None
            if self._reader is None:
                self._is_over = True
            else:
                self._reader.take(octets, is_end=is_end)
        except (_UnreadError, CodingError) as error:
            self._why_unseen, self._is_over, self._reader = str(error), True, None
            self.note_kind("unknown")

    def end(self) -> Members:
        """There are no more octets: what was seen in all."""
        self.take(b"", is_end=True)
        self._is_over = True
        return self.members

    def _reader_of(self, beginning: bytes) -> _Reader | None:
        if beginning.startswith(b"PK"):
            return _Zip(self)
        if is_tar_head(beginning):
            return _Tar(self)
        for magic, coding in _PACKED.items():
            if beginning.startswith(magic):
                return _PackedTar(self, Decoder(coding))
        if beginning.startswith(_RAR):
            return _Rar(self)
        if beginning.startswith(SEVEN_ZIP):
            return _SevenZip(self)
        if "archive" in kinds_of(beginning):
            raise _UnreadError("its members are not read")
        return None

    def note_head(self, octets: int = 0) -> None:
        """Another head was seen, with so many octets of names: a long one counts as several."""
        self._heads += 1 + octets // _OF_HEAD
        if self._heads > _MOST_HEADS:
            raise _UnreadError("it has too many members")

    def note_kind(self, kind: str) -> None:
        if kind not in self._kinds:
            self._kinds.add(kind)
            self.has_news = True

    def note_name(self, octets: bytes) -> None:
        """A member has this name; some programs end it at an octet of zero."""
        for path in dict.fromkeys((octets[-_LONGEST:], octets.partition(b"\0")[0][-_LONGEST:])):
            text = path.decode("utf-8", "replace")
            if _MACROS.search(text.replace("\\", "/").lower()):
                self.note_kind("macros")
            self._keep(file_name(text)[-_LONGEST_NAME:])

    def _keep(self, name: str) -> None:
        if not name or name in self._names:
            return
        if self._endings is not None:
            text = name.lstrip(".").casefold()
            if not text.endswith(self._endings):
                return
            self._endings = tuple(ending for ending in self._endings if not text.endswith(ending))
        elif len(self._names) >= _MOST_NAMES:
            raise _UnreadError("it has too many members")
        self._names[name] = None
        self.has_news = True


class _Zip:
    """Reads every head of a member, and every entry of the index."""

    _LOCAL, _CENTRAL = Struct("<4xHHH16xHH"), Struct("<6xHHH16xHH14x")
    _SIGNATURE = re.compile(rb"PK(?:\x03\x04|\x01\x02)")
    #: methods of packing that there are: without them, it was no head, but looked like one
    _METHODS = frozenset((*range(21), *range(92, 100)))
    #: the flags of a member, or of an index, that needs a password
    _ENCRYPTED = 1 | 1 << 13
    _UNICODE_PATH, _BEFORE_PATH = 0x7075, 5

    def __init__(self, scanner: MemberScanner) -> None:
        self._scanner, self._kept = scanner, b""

    def take(self, octets: bytes, *, is_end: bool) -> None:
        kept, at = self._kept + octets, 0
        while signature := self._SIGNATURE.search(kept, at):
            at = signature.start()
            form = self._LOCAL if signature[0] == b"PK\3\4" else self._CENTRAL
            if not self._read_head(kept, at, form, is_end=is_end):
                break
            # within what it says is its name, another may stand
            at = signature.end()
        else:
            at = max(at, len(kept) - 3)
        self._kept = kept[at:]

    def _read_head(self, octets: bytes, at: int, form: Struct, *, is_end: bool) -> bool:
        """Whether all of a head was there."""
        begin = at + form.size
        if begin > len(octets):
            return is_end
        _, flags, method, name_length, extra_length = form.unpack_from(octets, at)
        end = begin + name_length
        if end + extra_length > len(octets) and not is_end:
            return False
        self._scanner.note_head(name_length + extra_length)
        if flags & self._ENCRYPTED and method in self._METHODS:
            self._scanner.note_kind("encrypted")
        self._scanner.note_name(octets[begin:end])
        for path in self._other_paths(octets[end : end + extra_length]):
            self._scanner.note_name(path)
        return True

    def _other_paths(self, extra: bytes) -> Iterator[bytes]:
        at = 0
        while at + 4 <= len(extra):
            field, length = extra[at] | extra[at + 1] << 8, extra[at + 2] | extra[at + 3] << 8
            if field == self._UNICODE_PATH:
                yield extra[at + 4 + self._BEFORE_PATH : at + 4 + length]
            at += 4 + length


_SUM = re.compile(rb"[ \0]*([0-7]{1,8})[ \0]*\Z")


def is_tar_head(block: bytes) -> bool:
    """Whether a block is the head of a member of a tar, by its sum, which old programs take of signed octets."""
    said = _SUM.match(block[148:156])
    if said is None or len(block) < BLOCK:
        return False
    summed = block[:148] + b" " * 8 + block[156:BLOCK]
    unsigned = sum(summed)
    return int(said[1], 8) in (unsigned, unsigned - 256 * sum(octet > 127 for octet in summed))


class _Tar:
    """Reads every block that is a head, and the long names that some have before them."""

    _RECORD = re.compile(rb"([0-9]{1,9}) ([^=\n]*)=")
    _SIZE = re.compile(rb"[ \0]*([0-7]{1,12})")
    _PATHS = (b"path", b"GNU.sparse.name")

    def __init__(self, scanner: MemberScanner) -> None:
        self._scanner, self._kept = scanner, b""
        #: what comes has a long name: of which type, how many octets are to come, and those that have
        self._type, self._left, self._long = b"", 0, bytearray()

    def take(self, octets: bytes, *, is_end: bool) -> None:
        kept = self._kept + octets
        whole = len(kept) - len(kept) % BLOCK
        for at in range(0, whole, BLOCK):
            block = kept[at : at + BLOCK]
            if self._left:
                self._take_long(block)
            if _SUM.match(block, 148, 156) and is_tar_head(block):
                self._take_head(block)
        self._kept = kept[whole:]

    def _take_long(self, block: bytes) -> None:
        self._long += block[: self._left]
        self._left -= min(self._left, BLOCK)
        if self._left:
            return
        self._scanner.note_head(len(self._long))
        said, self._long = bytes(self._long), bytearray()
        if self._type in b"LN":
            self._scanner.note_name(said.rstrip(b"\0"))
            return
        at = 0
        while record := self._RECORD.match(said, at):
            end = at + int(record[1])
            if end <= record.end():
                raise _UnreadError("a name in it cannot be read")
            if record[2] in self._PATHS:
                self._scanner.note_name(said[record.end() : end - 1])
            at = end

    def _take_head(self, block: bytes) -> None:
        self._scanner.note_head()
        kind, size = block[156:157], self._SIZE.match(block, 124, 136)
        if kind in b"LxXgN" and kind:
            length = int(size[1], 8) if size else 0
            if length > _LONGEST_TAR_NAME or block[124] & 128:
                raise _UnreadError("a name in it is too long")
            self._type, self._left, self._long = kind, length, bytearray()
        else:
            self._scanner.note_name(block[:100].partition(b"\0")[0])


class _PackedTar:
    """Unpacks a tar as far as a ``Decoder`` does; what is none is of no interest."""

    def __init__(self, scanner: MemberScanner, decoder: Decoder) -> None:
        self._scanner, self._decoder = scanner, decoder
        self._beginning = b""
        #: ``None``: it is not known yet whether it is one, or it is none
        self._tar: _Tar | None = None
        self._is_over = False

    def take(self, octets: bytes, *, is_end: bool) -> None:
        if self._is_over:
            return
        for piece in self._decoder.decode(octets):
            if self._tar is None:
                self._beginning += piece
                if len(self._beginning) < BLOCK:
                    continue
                piece, self._beginning = self._beginning, b""
                if not is_tar_head(piece[:BLOCK]):
                    self._is_over = True
                    return
                self._tar = _Tar(self._scanner)
            self._tar.take(piece, is_end=False)


def _number(octets: bytes, at: int) -> tuple[int, int]:
    """A number of RAR, and where it ends; raises ``IndexError`` if it does not."""
    number = shift = 0
    while shift < 70:
        number |= (octets[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if not octets[at - 1] & 128:
            return number, at
    raise _UnreadError("a number in it is too long")


class _Rar:
    """Goes from head to head, each of which has a checksum; version 5 of the format alone."""

    _LONGEST = 1 << 16
    _FILE, _ENCRYPTED_HEADS, _END = 2, 4, 5
    #: flags of a head, and of a member; and the field of what is encrypted
    _HAS_EXTRA, _HAS_DATA = 1, 2
    _FOLDER, _HAS_TIME, _HAS_SUM = 1, 2, 4
    _ENCRYPTED = 1

    def __init__(self, scanner: MemberScanner) -> None:
        self._scanner, self._kept = scanner, b""
        #: octets up to the next head
        self._left = len(_RAR)
        self._is_over = False

    def take(self, octets: bytes, *, is_end: bool) -> None:
        kept, at = self._kept + octets, 0
        while not self._is_over:
            skipped = min(self._left, len(kept) - at)
            at, self._left = at + skipped, self._left - skipped
            end = None if self._left else self._read_block(kept, at)
            if end is None:
                break
            at = end
        self._kept = b"" if self._is_over else kept[at:]
        if is_end and self._kept:
            raise _UnreadError("it ends within a head")

    def _read_block(self, octets: bytes, at: int) -> int | None:
        """Where a head ends; ``None``: not all of it has come."""
        try:
            size, begin = _number(octets, at + 4)
        except IndexError:
            return None
        end = begin + size
        if not 0 < size <= self._LONGEST:
            raise _UnreadError("a head in it is too long")
        if end > len(octets):
            return None
        if zlib.crc32(octets[at + 4 : end]) != int.from_bytes(octets[at : at + 4], "little"):
            raise _UnreadError("a head in it has another checksum")
        self._scanner.note_head(size)
        try:
            self._read_head(octets[begin:end])
        except IndexError:
            raise _UnreadError("a head in it cannot be read") from None
        return end

    def _read_head(self, head: bytes) -> None:
        kind, at = _number(head, 0)
        flags, at = _number(head, at)
        extra, at = _number(head, at) if flags & self._HAS_EXTRA else (0, at)
        self._left, at = _number(head, at) if flags & self._HAS_DATA else (0, at)
        self._is_over = kind == self._END
        if kind == self._ENCRYPTED_HEADS:
            self._scanner.note_kind("encrypted")
            raise _UnreadError("its names are encrypted")
        if kind != self._FILE:
            return
        flags, at = _number(head, at)
        for _ in ("size", "attributes"):
            _, at = _number(head, at)
        at += 4 * bool(flags & self._HAS_TIME) + 4 * bool(flags & self._HAS_SUM)
        for _ in ("packing", "system"):
            _, at = _number(head, at)
        length, at = _number(head, at)
        if at + length + extra > len(head):
            raise IndexError
        if not flags & self._FOLDER:
            self._scanner.note_name(head[at : at + length])
        at = len(head) - extra
        while at < len(head):
            size, at = _number(head, at)
            if _number(head, at)[0] == self._ENCRYPTED:
                self._scanner.note_kind("encrypted")
            at += size


class _SevenZip:
    """Its index is at its end, and most are packed."""

    def __init__(self, scanner: MemberScanner) -> None:
        self._scanner, self._index = scanner, IndexTaker()
        self._is_over = False

    def take(self, octets: bytes, *, is_end: bool) -> None:
        if self._is_over:
            return
        try:
            index = self._index.take(octets)
        except EncryptedIndexError as error:
            self._scanner.note_kind("encrypted")
            raise _UnreadError(str(error)) from None
        except SevenZipError as error:
            raise _UnreadError(str(error)) from None
        if index is None:
            if is_end:
                raise _UnreadError("it ends before its index")
            return
        self._is_over = True
        if index.is_encrypted:
            self._scanner.note_kind("encrypted")
        for name in index.names:
            self._scanner.note_head(len(name))
            self._scanner.note_name(name.encode("utf-8", "replace"))
