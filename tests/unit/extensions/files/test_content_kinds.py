"""What a file is by its first octets."""

from __future__ import annotations

import asyncio
import gzip
import io
import zipfile

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from hushlist.extensions.files.content_coding import LONGEST_CODED, UnseenError, beginning_of
from hushlist.extensions.files.content_kinds import KINDS, LONGEST_LOOK, can_tell, kinds_of
from hushlist.extensions.files.file_hashes import FileHasher
from hushlist.extensions.files.file_scans import decoded
from hushlist.extensions.files.held_upload import MOST_OF_CLIENT, Account
from unit.rows import each_row

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MACROS = b'<Types><Override ContentType="application/vnd.ms-word.document.macroEnabled.main+xml"/></Types>'


def archive(*members: tuple[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members:
            made.writestr(name, content)
    return file.getvalue()


def with_password(octets: bytes) -> bytes:
    return octets[:6] + b"\1" + octets[7:]


@each_row(
    ("octets", "kinds"),
    [
        (b"MZ\x90\0" + bytes(60), "program"),
        (b"MZ is a text about programs of DOS", ""),
        (b"\x7fELF\2\1\1", "program"),
        (b"\xcf\xfa\xed\xfe\7\0\0\1", "program"),
        (b"dex\n035\0", "program"),
        (b"#!/usr/bin/env python3\n", "script"),
        (b"#!AppImage", "program"),
        (b"%PDF-1.7", "document"),
        (b"\x1f\x8b\x08\0", "archive"),
        (b"7z\xbc\xaf\x27\x1c", "archive"),
        (b"!<arch>\n/       ", "archive"),
        (b"!<arch>\ndebian-binary   ", "program"),
        (bytes(257) + b"ustar\x0000", "archive"),
        (b"\x89PNG\r\n\x1a\n", "image"),
        (b"\xff\xd8\xff\xe0", "image"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio"),
        (b"\xff\xfb\x90\x64", "audio"),
        (b"OggS\0" + bytes(23) + b"\x80theora", "video"),
        (b"OggS\0" + bytes(23) + b"\1vorbis", "audio"),
        (b"\0\0\0\x18ftypmp42", "video"),
        (b"\0\0\0\x18ftypavif", "image"),
        (b"\xff\xfe<\0h\0", ""),
        (b"<!doctype html>", ""),
        (b"", ""),
        (_OLE + bytes(600), "document macros"),
        (_OLE + bytes(600) + bytes.fromhex("84100c0000000000c000000000000046"), "program"),
        (archive(("a.txt", b"a")), "archive"),
        (with_password(archive(("a.txt", b"a"))), "archive encrypted"),
        (archive(("META-INF/MANIFEST.MF", b"Manifest-Version: 1.0")), "program"),
        (archive(("res/a.xml", b"a"), ("classes.dex", b"dex")), "program"),
        (archive(("[Content_Types].xml", b"<Types/>"), ("word/document.xml", b"a")), "document"),
        (archive(("[Content_Types].xml", _MACROS), ("word/document.xml", b"a")), "document macros"),
        (archive(("xl/workbook.xml", b"a"), ("xl/vbaProject.bin", b"a")), "document macros"),
        (archive(("mimetype", b"application/vnd.oasis.opendocument.text")), "archive"),
    ],
)
def test_the_first_octets_tell(octets: bytes, kinds: str) -> None:
    assert kinds_of(octets) == frozenset(kinds.split())


def test_a_document_of_open_office_begins_with_its_type_as_it_is() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("mimetype", b"application/vnd.oasis.opendocument.text")
    assert kinds_of(file.getvalue()) == {"document"}


@given(st.binary(max_size=200), st.sampled_from([b"", b"PK\3\4", b"MZ", _OLE, b"RIFF", b"OggS"]))
def test_whatever_comes_has_kinds_that_are_documented(octets: bytes, beginning: bytes) -> None:
    assert kinds_of(beginning + octets) <= KINDS.keys()


@each_row(
    ("octets", "wanted", "tells"),
    [
        (b"", "program", False),
        (b"M", "program", False),
        (b"MZ\x90\0", "program", False),
        (b"data: 1", "program script document macros video", True),
        (b"data: 1", "archive", False),
        (b"d" * 262, "archive", True),
        (b"PK\3\4", "program", False),
        (b"\0\0\0\x18fty", "video", False),
        (b"<!doctype html>", "image", True),
    ],
)
def test_it_is_told_when_no_more_octets_are_needed(octets: bytes, wanted: str, tells: bool) -> None:
    assert can_tell(octets, wanted.split()) is tells


@given(
    st.binary(max_size=300), st.sampled_from([b"", b"PK", b"MZ", _OLE, b"RI", b"\0\0\0\x18f"]), st.binary(max_size=99)
)
def test_what_is_told_early_stays_so(octets: bytes, beginning: bytes, more: bytes) -> None:
    begun = beginning + octets
    if can_tell(begun, KINDS):
        assert kinds_of(begun) == kinds_of(begun + more)


@each_row(
    ("coding", "packed"),
    [
        ("gzip", "1f8b0800000000000203cb48cdc9c957c84090008088f9e511000000"),
        ("deflate", "789ccb48cdc9c957c84090003a2e067d"),
        ("deflate", "cb48cdc9c957c8409000"),
        ("br", "1b1000f88d946ede445586966c206f014f1c601c"),
        ("zstd", "28b52ffd20116500003068656c6c6f200100314a11"),
        ("identity", b"hello hello hello".hex()),
    ],
)
def test_a_coding_is_undone(coding: str, packed: str) -> None:
    assert beginning_of(bytes.fromhex(packed), coding, 11) == b"hello hello"


@each_row(("octets", "codings"), [(b"no gzip", "gzip"), (b"x", "compress"), (b"x", "zstd")])
def test_what_cannot_be_read_is_told(octets: bytes, codings: str) -> None:
    assert beginning_of(octets, codings, LONGEST_LOOK) is None


_ZSTD = zstandard.ZstdCompressor().compress


@each_row(
    ("octets", "codings", "why"),
    [
        (gzip.compress(b"fine") + gzip.compress(b"") * 3, "gzip", ""),
        (gzip.compress(b"fine") + gzip.compress(b"MZ"), "gzip", "it has several members"),
        (gzip.compress(b"") + gzip.compress(b"MZ"), "gzip", "it has several members"),
        (_ZSTD(b"fine") + _ZSTD(b"MZ"), "zstd", "it has several members"),
        (gzip.compress(b"") * 200_000, "gzip", "it has too many members"),
        (_ZSTD(b"") * 450_000, "zstd", "it has too many members"),
        (gzip.compress(gzip.compress(b"fine")), "gzip, gzip", "its coding is gzip, gzip"),
    ],
)
def test_what_some_clients_get_and_others_not_is_unseen(octets: bytes, codings: str, why: str) -> None:
    async def outcome() -> object:
        return await decoded(octets, codings, 1 << 25, Account("a"))

    hasher = FileHasher(codings, ["sha256"])
    hasher.take(octets)
    assert hasher.why_unseen == why
    if why:
        with pytest.raises(UnseenError, match=why):
            asyncio.run(outcome())
    else:
        assert asyncio.run(outcome()) == b"fine"


def test_a_beginning_behind_a_head_that_is_too_long_is_unseen() -> None:
    packed = gzip.compress(b"MZ")
    named = packed[:3] + b"\x08" + packed[4:10] + b"a" * LONGEST_CODED + b"\0" + packed[10:]
    with pytest.raises(UnseenError, match="next to nothing"):
        beginning_of(named, "gzip", LONGEST_LOOK)


def test_what_is_unpacked_counts_to_the_bound_and_to_what_its_client_holds() -> None:
    async def outcome(account: Account) -> object:
        return await decoded(gzip.compress(bytes(1 << 20)), "gzip", 1 << 19, account)

    account, others = Account("a"), Account("a")
    assert asyncio.run(outcome(account)) is None
    others.set(MOST_OF_CLIENT - (1 << 19))
    assert account.is_full
    account.set(0)
    assert not others.is_full


def test_a_bomb_is_read_to_its_bound() -> None:
    assert beginning_of(gzip.compress(bytes(1 << 24)), "gzip", LONGEST_LOOK) == bytes(LONGEST_LOOK)
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 24))
    assert beginning_of(bomb, "zstd", LONGEST_LOOK) == bytes(LONGEST_LOOK)
