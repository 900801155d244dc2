"""RFC 3986's normalization as several libraries test it.

Rows of the RFC itself have to hold to the octet. The others are judged by equivalence: what a library makes of a URL is
either equivalent to it on our ladder, or the row stands below with what the specification says against it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hushlist.core.url.iri import SCHEME, SYNTAX
from hushlist.core.url.rfc3986 import remove_dot_segments, resolve

SHARED = Path(os.environ.get("HUSHLIST_SHARED") or Path(__file__).parents[3] / "shared")
VECTORS = SHARED / "vectors" / "rfc3986_normalization.json"

Row = dict[str, Any]

#: reason -> rows, by the name that their library gives them, or by "library: input"
EXCEPTIONS: dict[str, tuple[str, ...]] = {
    '5.2: a reference is resolved against a base that is given ("default scheme" and "default domain" are none)': (
        "niksite: //www.foo.com/",
        "niksite: пример.испытание/Служебная:Search/Test",
        "niksite: /foo.png",
        "niksite: //google.com",
        "niksite: //example.com:80/foo.png",
        "niksite: //example.com/foo.png?foo=bar",
        "scrapy: ?b=1",
    ),
    "5.2.2: strict, so the path of http:example.com is no host": (
        "niksite: http:example.com",
        "niksite: http:example.com/path",
        "niksite: ftp:test.com/files",
        "niksite: https:www.example.com",
    ),
    '6.2.2.3: dot segments are removed "in non-relative paths"; before that a reference has to be resolved (6.1)': (
        "Relative-1",
        "Relative-2",
        "sporkmonger: mid/content=5/../6",
    ),
    "3.3: an empty segment is a segment, and remove_dot_segments (5.2.4) keeps it": (
        "niksite: /foo//",
        "niksite: /foo///bar//",
        "RemoveDuplicateSlashes",
        "RemoveDuplicateSlashes2",
        "Slashes-21",
        "Slashes-22",
        "Relative-3",
        "Issue-#24",
    ),
    '6.2.4: "/data" and "/data/" are equivalent only where a redirect was observed': (
        "RemoveTrailingSlash2",
        "RemoveTrailingSlash3",
        "AddTrailingSlash2",
        "AddTrailingSlash3",
        "UsuallySafe",
        "UsuallySafe2",
        "RemoveDirectoryIndex",
    ),
    '6.2.3: "Normalization should not remove delimiters when their associated component is empty"': (
        "RemoveEmptyQuerySeparator",
        "Standard-9",
        "StandardCasesAddTrailingSlash",
        "sporkmonger: ?",
        "sporkmonger: http://example.com?#",
    ),
    '6.2.3: "the presence or absence of delimiters within a userinfo subcomponent is usually significant"': (
        "niksite: http://:@example.com/",
        "niksite: http://@example.com/",
        "sporkmonger: http://example.com",
    ),
    '6.2.3: "The fragment component is not subject to any scheme-based normalization"': (
        "RemoveFragment",
        "niksite: http://example.com/#!5753509/hello-world",
        "scrapy: http://user:pass@www.example.com/do?a=1#frag",
        "scrapy: http://[::1]/do?a=1#frag",
        "scrapy: a#frag",
        "scrapy: a?b=1#frag",
        "scrapy: http://www.example.com/path/to/%23/foo/bar#frag",
        "scrapy: http://www.example.com/path/to/%23/foo/bar?url=http%3A%2F%2Fwww.example.com%2F%2Fpath%2Fto%2F%23%2Fbar%2Ffoo"
        "#frag",
    ),
    "3.2.2: the dots of a name are part of it; a final one is how a name says that it is complete": (
        "niksite: http://www.example.com./",
        "niksite: http://www.foo.com.:81/foo",
        "niksite: http://www.foo.com./foo/bar.html",
        "UnnecessaryHostDots-1",
        "UnnecessaryHostDots-2",
        "UnnecessaryHostDots-3",
        "UnnecessaryHostDots-4",
        "UnnecessaryHostDots-5",
        "sporkmonger: HTTP://example.com.:%38%30/%70a%74%68?a=%31#1%323",
    ),
    '7.4: "These additional IP address formats are not allowed in the URI syntax"': (
        "OctalIP-2",
        "OctalIP-3",
        "OctalIP-4",
        "DWORDIP-2",
        "DWORDIP-3",
        "DWORDIP-4",
        "HexIP-2",
        "HexIP-3",
        "HexIP-4",
    ),
    '6.1: another scheme or host, an order of parameters: "strictly avoiding false positives"': (
        "ForceHTTP",
        "RemoveWWW",
        "RemoveWWW2",
        "AddWWW",
        "AddTrailingSlashBug",
        "SortQuery",
        "Unsafe",
        "SourceModified",
        "sporkmonger: feed:http://example.com/",
    ),
    "3.4: the query is one string, of which the generic syntax knows no parameters and no plus sign for a space": (
        "scrapy: http://www.example.com/do?c=1&b=2&a=3",
        "scrapy: http://www.example.com/do?&a=1",
        "scrapy: http://www.example.com/do?c=3&b=5&b=2&a=50",
        "scrapy: http://www.example.com/do?b=&a=2",
        "scrapy: http://www.example.com/do?b=&c&a=2",
        "scrapy: http://www.example.com/do?1750,4",
        "scrapy: http://www.example.com/do?q=a space&a=1",
        "scrapy: http://www.example.com/do?q=a+space&a=1",
        "scrapy: http://www.example.com/do?q=a%20space&a=1",
        "scrapy: http://www.example.com/do?price=£500&a=5&z=3",
        "scrapy: http://はじめよう.みんな/?query=サ&maxResults=5",
    ),
    "draft-ietf-iri-comparison, 4.2.2: no character normalization, and octets that are no UTF-8 stay": (
        "niksite: http://example.com/?q=%C7",
        "niksite: http://example.com/?q=C%CC%A7",
    ),
    "Appendix C: white space around a URI is not part of it, and whoever extracts it has removed it": (
        "scrapy:  https://example.com",
        "scrapy: https://example.com ",
        "scrapy:  https://example.com ",
    ),
    "the vector shows a Go string's source instead of its octets": ("UrlNorm-1", "UrlNorm-5"),
}

#: library -> rows that agree, rows that do not
AGREEMENT: dict[str, tuple[int, int]] = {
    "RFC 3986": (52, 0),
    "niksite": (59, 20),
    "python-hyper": (8, 0),
    "PuerkitoBio": (69, 43),
    "sporkmonger": (11, 6),
    "scrapy": (31, 21),
}


def read_rows() -> list[Row]:
    """The rows, or a skip of the whole module."""
    if not VECTORS.exists():
        pytest.skip(
            "no vectors/rfc3986_normalization.json beside the checkout in ../shared, or where HUSHLIST_SHARED says",
            allow_module_level=True,
        )
    rows: list[Row] = json.loads(VECTORS.read_text("utf-8"))
    return rows


def library(row: Row) -> str:
    return row["source"].split(" section")[0].split("/")[0]


def name(row: Row) -> str:
    """The row's name in ``EXCEPTIONS``."""
    return row["source"].split()[-1] if row["level"] == "purell-flags" else f"{library(row)}: {row['input']}"


def agrees(row: Row) -> bool:
    """Whether our ladder says what the row says."""
    url, expected = row["input"], row["expected"]
    match row["level"]:
        case "syntax" | "syntax-case":
            return SYNTAX.canonicalize(url) == expected.encode()
        case "scheme" | "protocol":
            return SCHEME.canonicalize(url) == expected.encode()
        case "remove_dot_segments":
            return remove_dot_segments(url.encode()) == expected.encode()
        case "resolve":
            return resolve(url, row["base"]) == expected.encode()
    if row["note"] == "unchanged":
        return SCHEME.canonicalize(url) == expected.encode()
    return SCHEME.canonicalize(url) == SCHEME.canonicalize(expected)


ROWS = read_rows()
REASONS = {row: reason for reason, rows in EXCEPTIONS.items() for row in rows}


def test_a_row_agrees_or_is_listed_with_its_reason() -> None:
    assert [row for row in ROWS if agrees(row) == (name(row) in REASONS)] == []
    assert set(REASONS) <= {name(row) for row in ROWS}
    assert len(REASONS) == sum(map(len, EXCEPTIONS.values()))


def test_so_many_rows_agree() -> None:
    agreement = Counter((library(row), agrees(row)) for row in ROWS)
    assert {library: (agreement[library, True], agreement[library, False]) for library, _ in agreement} == AGREEMENT
