"""The readers of the index file."""

from __future__ import annotations

import json
import zlib
from functools import cache, partial

from hushlist.core.compile.compile_report import SECTION, CompileReport
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import CRC, HEADER, MAGIC, SECTIONS_AT, VERSION, IndexFileError
from support.engines import index_of, rules_of
from unit.core.match.plain_index import canonical, octets_of
from unit.parsers.table import Parser, put, scratch_file

PARSERS: dict[str, Parser] = {}
add = partial(put, PARSERS)

RULES = rules_of(
    """
    rules:
      - h.example
      - {expression: h.example/a/b, action: allow, reason: why, expires: 2026-12-31}
      - {address: 10.0.0.0/8, action: tag}
      - {sha256: '01020304'}
      - hashed:md5=be96302a0468481aca954431cf293e05
    """
)
QUERIES = [canonical(url) for url in ("h.example", "h.example/a/b", "10.1.2.3", "www.thus.net", "other.example/x")]


@cache
def index_samples() -> list[bytes]:
    return [octets_of(index_of(RULES)), octets_of(index_of(RULES[:1])), octets_of(index_of(()))]


def index_answers(octets: bytes) -> list[list[object]]:
    """What a file answers, mapped as the proxy has it."""
    path = scratch_file()
    path.write_bytes(octets)
    index = Index.open(path)
    index.verify()
    return [[*index.find(parts), *index.find_uris([parts])] for parts in QUERIES]


PARSERS["index file"] = Parser(index_answers, index_samples)


def with_right_checksums(octets: bytes) -> bytes:
    """The index file with every checksum of what it says it has, as far as it says so."""
    size, length = HEADER.unpack(octets[: HEADER.size])[4], len(octets)
    directory = json.loads(octets[length - size :])
    for section in directory["sections"].values():
        section[2] = zlib.crc32(octets[section[0] : section[0] + section[1]])
    text = json.dumps(directory, separators=(",", ":")).encode()
    body = octets[SECTIONS_AT : length - size] + text
    header = HEADER.pack(MAGIC, VERSION, 1, SECTIONS_AT + len(body), len(text), zlib.crc32(text))
    return header + CRC.pack(zlib.crc32(header)) + body


@add("index file, checksums right", b"\0\0\0\0", b"\1\xff\xff\xff\xff" * 3, b"\2[[[[", errors=IndexFileError)
def _checked_index(octets: bytes) -> None:
    """What a file has only by intent: octets, at places in a good file, with the checksums that belong to them."""
    file = bytearray(index_samples()[0])
    end = len(file) - HEADER.unpack(file[: HEADER.size])[4]
    for start in range(0, len(octets) - 2, 6):
        place, put = int.from_bytes(octets[start : start + 2], "big"), octets[start + 2 : start + 6]
        place = SECTIONS_AT + place % (end - SECTIONS_AT - 4)
        file[place : place + len(put)] = put
    index_answers(with_right_checksums(bytes(file)))


class _WithReport(Index):
    """An index with just a report in it."""

    def __init__(self, report: bytes) -> None:
        self.source, self._report = "index", report

    def section(self, name: str) -> bytes:
        assert name == SECTION
        return self._report


def _report(octets: bytes) -> None:
    report = CompileReport.of(_WithReport(octets))
    assert all(map(str, report.warnings))


_REPORT = b'{"lists": [{"source": "f", "read": 1, "kept": 1}], "warnings": []}'
PARSERS["index report"] = Parser(_report, lambda: [_REPORT], units=(b"[", b'{"a":'))
