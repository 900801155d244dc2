"""Safe Browsing as others test it; where a row contradicts a reading of addon/readings.md, the reading holds."""

from __future__ import annotations

import pytest

from conformance.vectors import Row, by_input, needs, octets, rows
from hushlist.core.errors import UrlError
from hushlist.core.match.expressions import expressions, full_hash, host_suffixes, path_prefixes
from hushlist.core.url.normalization import percent_decode_repeatedly
from hushlist.core.url.parts import Parts
from hushlist.core.url.safebrowsing import SAFEBROWSING, canonicalize
from unit.rows import each_row


def parts_of(url: bytes) -> Parts | None:
    try:
        return SAFEBROWSING.apply(SAFEBROWSING.parse(url))
    except UrlError:
        return None


def canonical(url: bytes) -> str | None:
    try:
        return canonicalize(url).decode("ascii")
    except UrlError:
        return None


#: input -> (settled reading, what we do instead)
CANONICALIZE_EXCEPTIONS: dict[str, tuple[str, str | None]] = {
    "google.com:443/abc": ("3: the port is dropped", "http://google.com/abc"),
    "//google.com:443/abc": ("3: the port is dropped", "http://google.com/abc"),
    "ftp://google.com:443/abc": ("3: the port is dropped", "ftp://google.com/abc"),
    "Bücher.ch:8080": ("3: the port is dropped", "http://xn--bcher-kva.ch/"),
    "http://some%1bhost.com/%1b": ("4: escapes are written in upper-case hex", "http://some%1Bhost.com/%1B"),
    "mailto:foo@example.com": ("15: what names no host cannot be parsed", None),
}


@needs("sb_canonicalize")
@each_row("row", [row for row in rows("sb_canonicalize") if row["input"] not in CANONICALIZE_EXCEPTIONS])
def test_canonicalize(row: Row) -> None:
    assert canonical(octets(row)) == row["expected"]


@needs("sb_canonicalize")
@each_row("url", CANONICALIZE_EXCEPTIONS)
def test_canonicalize_by_a_settled_reading(url: str) -> None:
    contradicting = [row for row in rows("sb_canonicalize") if row["input"] == url]
    ours = CANONICALIZE_EXCEPTIONS[url][1]
    assert canonical(url.encode()) == ours
    assert [row["expected"] for row in contradicting if row["expected"] != ours], "no longer an exception"


@needs("sb_expressions")
@each_row("row", rows("sb_expressions"))
def test_expressions(row: Row) -> None:
    # Their order is not part of these vectors; that ours is the most specific first is tested elsewhere.
    parts = parts_of(octets(row))
    found = None if parts is None else sorted(text.decode() for text in expressions(parts))
    assert found == (row["expected"] and sorted(row["expected"]))


@needs("sb_hashes")
@pytest.mark.parametrize("row", rows("sb_hashes"), ids=by_input)
def test_hashes(row: Row) -> None:
    letter, _, count = row["input"].partition(" x ")
    text = letter * int(count or 1)
    assert full_hash(text.encode()).hex()[: row.get("bits", 256) // 4] == row["expected"]


def part(kind: str, text: str) -> object:
    """What ``sb_parts`` calls ``kind``."""
    if kind == "unescape_repeatedly":
        return percent_decode_repeatedly(text.encode()).decode()
    parts = parts_of(text.encode())
    if parts is None:
        return None
    assert parts.host is not None
    match kind:
        case "host":
            return parts.host.decode()
        case "path":
            return parts.path.decode()
        case "lookup_hosts":
            return [host.decode() for host in host_suffixes(parts.host)]
        case "lookup_paths":
            return sorted(path.decode() for path in path_prefixes(parts.path, parts.query))
    raise AssertionError(kind)


#: (kind, input) -> (settled reading, what we do instead)
PARTS_EXCEPTIONS: dict[tuple[str, str], tuple[str, object]] = {
    ("host", "http://[::192.9.5.5]/ipng"): ("6: RFC 5952 form", "[::c009:505]"),
    ("lookup_hosts", "http://[::192.9.5.5]/ipng"): ("6: RFC 5952 form", ["[::c009:505]"]),
    ("lookup_hosts", "http://a.b.c.d.e.f.kita.tokyo.jp"): (
        "5: the exact host and at most four more, from the last five components",
        ["a.b.c.d.e.f.kita.tokyo.jp", "e.f.kita.tokyo.jp", "f.kita.tokyo.jp", "kita.tokyo.jp", "tokyo.jp"],
    ),
}


@needs("sb_parts")
@each_row("row", [row for row in rows("sb_parts") if (row["kind"], row["input"]) not in PARTS_EXCEPTIONS])
def test_parts(row: Row) -> None:
    expected = sorted(row["expected"]) if row["kind"] == "lookup_paths" and row["expected"] else row["expected"]
    assert part(row["kind"], row["input"]) == expected


@needs("sb_parts")
@pytest.mark.parametrize("key", PARTS_EXCEPTIONS)
def test_parts_by_a_settled_reading(key: tuple[str, str]) -> None:
    (row,) = (row for row in rows("sb_parts") if (row["kind"], row["input"]) == key)
    ours = PARTS_EXCEPTIONS[key][1]
    assert part(*key) == ours
    assert row["expected"] != ours, "no longer an exception"
