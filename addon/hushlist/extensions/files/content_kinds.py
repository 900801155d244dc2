"""What a file really is, by its first octets, whatever its name and its media type say.

A signature table of this kind knows programs, archives, documents, pictures, sound and films; what is text, a web page
among it, is of no kind, unless it begins as a script does.

>>> sorted(kinds_of(b"MZ\\x90\\0" + bytes(60))), sorted(kinds_of(b"#!/bin/sh\\n")), sorted(kinds_of(b"<html>"))
(['program'], ['script'], [])

Source: the formats' own specifications, where they have one: PE/COFF; ELF; APPNOTE.TXT (ZIP); ECMA-376, Part 2; RFC
1952; RFC 8878; ISO 32000; RFC 2083
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from struct import Struct

#: kind -> what a policy's reference says of it
KINDS = {
    "program": "a program or an installer: of Windows, Linux, macOS, Android or Java, or WebAssembly",
    "script": "a script that begins with `#!`",
    "archive": "packed files, or the image of a disk",
    "encrypted": "a ZIP archive whose first member needs a password",
    "document": "PDF, RTF, and documents of Office",
    "macros": "a document of Office that has macros, or is so old that it may",
    "image": "a picture",
    "audio": "sound",
    "video": "a film",
    "part": "a part of a file that does not begin at its beginning, so that nobody sees what it is",
    "unknown": "compressed in a way that the filter cannot read",
}
#: octets that are looked at
LONGEST_LOOK = 4096

#: offset, octets -> kinds; the first that fits counts
_SIGNATURES: tuple[tuple[int, tuple[bytes, ...], str], ...] = (
    (0, (b"\x7fELF", b"\xca\xfe\xba\xbe", b"dex\n", b"\0asm", b"!<arch>\ndebian-binary"), "program"),
    (0, (b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe"), "program"),
    (0, (b"\xed\xab\xee\xdb", b"#!AppImage"), "program"),
    (0, (b"#!",), "script"),
    (0, (b"%PDF-", b"{\\rtf"), "document"),
    (0, (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x28\xb5\x2f\xfd"), "archive"),
    (0, (b"MSCF\0\0\0\0", b"LZIP", b"\x04\x22\x4d\x18", b"xar!", b"\x1f\x9d", b"ISc(", b"!<arch>\n"), "archive"),
    (257, (b"ustar",), "archive"),
    (0, (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*", b"8BPS"), "image"),
    (0, (b"\0\0\1\0", b"\xff\x0a", b"\0\0\0\x0cJXL \r\n"), "image"),
    (0, (b"ID3", b"fLaC", b"MThd", b"#!AMR"), "audio"),
    (0, (b"\x1a\x45\xdf\xa3", b"FLV\1", b"\0\0\1\xba", b"\0\0\1\xb3", b"0&\xb2u\x8ef\xcf\x11"), "video"),
)
#: the brands of files with boxes (``ftyp``) that are no films
_BRANDS = {b"avif": "image", b"avis": "image", b"heic": "image", b"heix": "image", b"mif1": "image", b"M4A ": "audio"}
_RIFF = {b"WEBP": "image", b"WAVE": "audio", b"AVI ": "video"}
#: octets of the head with which programs of DOS and Windows begin
_DOS_HEADER = 64
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
#: a summary of an installer, and the names of streams, which are in UTF-16
_INSTALLER = bytes.fromhex("84100c0000000000c000000000000046")
#: how files begin of which this many octets have to be seen, and where the name of a box stands, whatever is before it
_NEEDED = {
    **dict.fromkeys((b"PK", _OLE), LONGEST_LOOK),
    **dict.fromkeys((b"MZ", b"OggS"), _DOS_HEADER),
    b"RIFF": 12,
    b"BM": 10,
    b"\xff": 2,
}
_BOXES = 4
_MEMBER = Struct("<4sHHHHHIIIHH")
_MACROS = b"macroEnabled"
_PROGRAMS = re.compile(rb"(?:META-INF/MANIFEST\.MF|AndroidManifest\.xml|classes\.dex|Payload/[^/]+\.app/.*)\Z")
_OFFICE = re.compile(rb"(?:word|xl|ppt|visio)/|\[Content_Types\]\.xml\Z|META-INF/manifest\.xml\Z")
_MOST_UNPACKED = 1 << 16


def kinds_of(octets: bytes) -> frozenset[str]:
    """The kinds of a file, by at least its first ``LONGEST_LOOK`` octets, or all of it; none for text."""
    octets = octets[:LONGEST_LOOK]
    if octets.startswith((b"PK\3\4", b"PK\5\6", b"PK\7\x08")):
        return frozenset(_kinds_of_zip(octets))
    if octets[:2] == b"MZ" and b"\0" in octets[:_DOS_HEADER]:  # or it is text
        return frozenset({"program"})
    if octets.startswith(_OLE):
        return frozenset({"program"} if _INSTALLER in octets else {"document", "macros"})
    if octets[:4] == b"RIFF" and octets[8:12] in _RIFF:
        return frozenset({_RIFF[octets[8:12]]})
    if octets[4:8] == b"ftyp":
        return frozenset({_BRANDS.get(octets[8:12], "video")})
    if octets[:4] == b"OggS":
        return frozenset({"video" if b"theora" in octets[:64] else "audio"})
    if octets[:2] == b"BM" and octets[6:10] == bytes(4):
        return frozenset({"image"})
    if len(octets) > 1 and octets[0] == 0xFF and octets[1] & 0xE6 == 0xE2:  # a frame of MPEG audio, layer III or II
        return frozenset({"audio"})
    for place, beginnings, kind in _SIGNATURES:
        if octets.startswith(beginnings, place):
            return frozenset({kind})
    return frozenset()


def can_tell(octets: bytes, wanted: Iterable[str]) -> bool:
    """Whether no more octets can make a file that begins so one of these kinds.

    >>> can_tell(b"data: 1", ["program"]), can_tell(b"data: 1", ["archive"]), can_tell(b"MZ", ["program"])
    (True, False, False)
    """
    if len(octets) >= LONGEST_LOOK:
        return True
    for beginning, needed in _NEEDED.items():
        if len(octets) < needed and octets.startswith(beginning[: len(octets)]):
            return False
    if len(octets) < _BOXES + 8 and b"ftyp".startswith(octets[_BOXES : _BOXES + 4]):
        return False
    kinds = {*wanted}
    return not any(
        kind in kinds
        and any(len(octets) < place + len(each) and each.startswith(octets[place:]) for each in beginnings)
        for place, beginnings, kind in _SIGNATURES
    )


def _kinds_of_zip(octets: bytes) -> set[str]:
    """By the members whose heads are within the octets; the content types of Office are its first member."""
    kinds, at, first = {"archive"}, 0, True
    while octets[at : at + 4] == b"PK\3\4" and len(octets) - at >= _MEMBER.size:
        _, _, flags, method, _, _, _, packed, _, name_length, extra = _MEMBER.unpack_from(octets, at)
        begin = at + _MEMBER.size
        name, content = octets[begin : begin + name_length], octets[begin + name_length + extra :]
        if flags & 1:
            kinds.add("encrypted")
        if _PROGRAMS.match(name):
            kinds = {"program"}
        elif _OFFICE.match(name) or (first and name == b"mimetype" and b"opendocument" in content[:100]):
            kinds = kinds - {"archive"} | {"document"}
        if name == b"[Content_Types].xml" and _MACROS in _unpacked(content, method):
            kinds.add("macros")
        if name.endswith(b"vbaProject.bin"):
            kinds.add("macros")
        if flags & 8 and not packed:  # its length stands after it
            break
        at, first = begin + name_length + extra + packed, False
    return kinds


def _unpacked(content: bytes, method: int) -> bytes:
    if method != 8:
        return content
    try:
        return zlib.decompressobj(-15).decompress(content, _MOST_UNPACKED)
    except zlib.error:
        return content
