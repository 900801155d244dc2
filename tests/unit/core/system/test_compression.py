"""Opening files that are compressed."""

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

from hushlist.core.system.compression import decompressed, fault_of, is_compressed
from unit.rows import each_row

TEXT = b"http://h.example/\n" * 5000
PACKED = {
    "gzip": gzip.compress(TEXT[:9000], mtime=0) + gzip.compress(TEXT[9000:], mtime=0),
    "bzip2": bz2.compress(TEXT),
    "xz": lzma.compress(TEXT),
    "zstandard": zstandard.compress(TEXT[:9000]) + zstandard.compress(TEXT[9000:]),
}


@each_row("name", PACKED)
def test_what_is_compressed_is_read_as_what_it_was(name: str) -> None:
    assert is_compressed(PACKED[name][:8])
    stream = decompressed(io.BufferedReader(io.BytesIO(PACKED[name])))
    assert stream.peek(5)[:5] == TEXT[:5]
    assert stream.read() == TEXT
    assert fault_of(stream) is None


@each_row("name", PACKED)
@each_row("missing", [1, 20])
def test_of_what_is_cut_off_the_beginning_is_read_and_then_it_is_said_that_there_was_more(
    name: str, missing: int
) -> None:
    stream = decompressed(io.BufferedReader(io.BytesIO(PACKED[name][:-missing])))
    octets = stream.read()
    assert TEXT.startswith(octets)
    assert len(octets) >= (0 if name == "bzip2" else 9000 if name == "zstandard" else 80_000)  # bzip2 has large blocks
    assert fault_of(stream) == "its compression is broken: it ends too early"


@each_row("name", PACKED)
def test_what_is_damaged_ends_there(name: str) -> None:
    stream = decompressed(io.BufferedReader(io.BytesIO(PACKED[name][:20] + b"\xaa" * 30)))
    assert TEXT.startswith(stream.read())
    assert (fault_of(stream) or "").startswith("its compression is broken: ")


@each_row("name", PACKED)
def test_what_stands_behind_the_end_and_is_not_compressed_is_told(name: str) -> None:
    stream = decompressed(io.BufferedReader(io.BytesIO(PACKED[name] + b"garbage")))
    assert stream.read() == TEXT
    assert (fault_of(stream) or "").startswith("its compression is broken: ")


def test_a_file_that_asks_for_much_memory_to_be_unpacked_is_an_error_of_reading() -> None:
    # The block's header says the size of the dictionary: 40 is 4 GiB. Spec: The .xz File Format, 3.1 and 5.3.1
    packed = bytearray(lzma.compress(TEXT, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]))
    at = packed.index(b"\x21\x01") + 2
    packed[at] = 40
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    stream = decompressed(io.BufferedReader(io.BytesIO(bytes(packed))))
    assert stream.read() == b""
    assert fault_of(stream) == "its compression is broken: Memory usage limit exceeded"


@pytest.mark.slow
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress])
def test_what_is_much_larger_unpacked_is_read_piece_by_piece(pack: Callable[[bytes], bytes]) -> None:
    stream = decompressed(io.BufferedReader(io.BytesIO(pack(bytes(1 << 24)))))
    tracemalloc.start()
    try:
        done = 0
        while piece := stream.read1(1 << 16):
            done += len(piece)
        assert done == 1 << 24
        assert tracemalloc.get_traced_memory()[1] < 12 << 20  # xz's own dictionary has 8 MiB
    finally:
        tracemalloc.stop()
