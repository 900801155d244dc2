"""Telling formats apart, and opening files that are compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
import zstandard

from hushlist.audit.sources.formats import FORMATS, decompressed, format_of, is_compressed

TEXT = b"http://h.example/\n" * 5000
PACKED = {
    "gzip": gzip.compress(TEXT[:9000]) + gzip.compress(TEXT[9000:]),
    "bzip2": bz2.compress(TEXT),
    "xz": lzma.compress(TEXT),
    "zstandard": zstandard.compress(TEXT[:9000]) + zstandard.compress(TEXT[9000:]),
}


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("history", b"SQLite format 3\0..."),
        ("flows", b"1688:9:websocket;0:~8:response;"),
        ("flows", b"900:8:response,0:~"),
        ("har", b'\xef\xbb\xbf\n{"log": {"version": "1.2"'),
        ("takeout", b'{"Browser History": ['),
        ("takeout", b'{\n  "Session": [],\n "Browser History": ['),
        ("squid", b"1286536309.450 180 192.0.2.68 TCP_MISS/200 3874 GET http://h.example/ - HIER_DIRECT/1.2.3.4 -\n"),
        ("squid", b"1286536309.450 180 ::1 NONE_NONE/000 0 - error:transaction-end-before-headers - HIER_NONE/- -\r\n"),
        ("common", b'127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET http://h.example/ HTTP/1.0" 200 2326\n'),
        ("common", b'h.example:80 ::1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 5 "-" "curl"\n'),
        ("requests", b"http://h.example/\t\t\tbrave\n"),
        ("urls", b"http://h.example/\n"),
        ("urls", b""),
    ],
)
def test_a_format_is_told_by_what_is_in_it(name: str, head: bytes) -> None:
    assert format_of(head) is FORMATS[name]


def test_every_format_is_read_in_one_way() -> None:
    for own in FORMATS.values():
        assert sum(how is not None for how in (own.read_line, own.read_stream, own.read_file)) == 1


@pytest.mark.parametrize("name", PACKED)
def test_what_is_compressed_is_read_as_what_it_was(name: str) -> None:
    assert is_compressed(PACKED[name][:8])
    stream = decompressed(io.BufferedReader(io.BytesIO(PACKED[name])))
    assert stream.peek(5)[:5] == TEXT[:5]
    assert stream.read() == TEXT


@pytest.mark.parametrize("name", PACKED)
def test_what_is_cut_off_or_damaged_is_an_error_of_reading(name: str) -> None:
    for broken in (PACKED[name][:-20], PACKED[name][:20] + b"\xaa" * 30):
        stream = decompressed(io.BufferedReader(io.BytesIO(broken)))
        try:
            octets = stream.read()
        except OSError:
            continue
        assert TEXT.startswith(octets)  # Zstandard does not tell that a file is cut off
        assert len(octets) < len(TEXT)


def test_what_is_not_compressed_stays_as_it_is() -> None:
    stream = io.BufferedReader(io.BytesIO(TEXT))
    assert decompressed(stream) is stream


def test_xz_streams_follow_each_other_with_padding_between_them() -> None:
    packed = lzma.compress(TEXT[:9000]) + bytes(200_000) + lzma.compress(TEXT[9000:]) + bytes(4)
    assert decompressed(io.BufferedReader(io.BytesIO(packed))).read() == TEXT


def test_a_file_that_asks_for_much_memory_to_be_unpacked_is_an_error_of_reading() -> None:
    # The block's header says the size of the dictionary: 40 is 4 GiB. Spec: The .xz File Format, 3.1 and 5.3.1
    packed = bytearray(lzma.compress(TEXT, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]))
    at = packed.index(b"\x21\x01") + 2
    packed[at] = 40
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    with pytest.raises(OSError, match="Memory usage limit"):
        decompressed(io.BufferedReader(io.BytesIO(bytes(packed)))).read()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress])
def test_what_is_much_larger_unpacked_is_read_piece_by_piece(pack: Callable[[bytes], bytes]) -> None:
    stream = decompressed(io.BufferedReader(io.BytesIO(pack(bytes(1 << 25)))))
    tracemalloc.start()
    try:
        done = 0
        while piece := stream.read1(1 << 16):
            done += len(piece)
        assert done == 1 << 25
        assert tracemalloc.get_traced_memory()[1] < 12 << 20  # xz's own dictionary has 8 MiB
    finally:
        tracemalloc.stop()
