"""A host has one A-label on every Python, however old its Unicode tables are; `.ci/run` runs this on each."""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256
from itertools import chain

from hushlist.core.url.host import _NEWLY_NORMALIZED, to_ascii
from unit.rows import each_row

#: of the code points that Unicode 14 orders or composes
UNICODE_14 = "bf4e52063f51976b9954c75cfaa3587f1218433a37bc80212b8b54fba8109df1"


def normalized() -> list[str]:
    """The code points that Normalization Form C orders or composes by this Python's tables, each with how it does.

    Without the syllables of Hangul: they are composed by a rule, which only newer tables show.
    """
    codes = chain(range(0xAC00), range(0xD7A4, 0x110000))
    characters = [(chr(code), unicodedata.combining(chr(code))) for code in codes]
    rows = [(character, order, unicodedata.decomposition(character)) for character, order in characters]
    return [f"{ord(row[0]):x} {row[1]} {row[2]}\n" for row in rows if row[1] or (row[2] and row[2][0] != "<")]


def test_code_points_that_are_not_refused_are_normalized_as_by_unicode_14() -> None:
    """So ``unicodedata`` gives equal results everywhere; the tables of ``idna`` are the same for every Python.

    Where this fails, Python is newer than the list: add to it what the row says, and what the row decomposes to.
    """
    rows = [row for row in normalized() if not re.match(_NEWLY_NORMALIZED, chr(int(row.partition(" ")[0], 16)))]
    assert sha256("".join(rows).encode()).hexdigest() == UNICODE_14, rows[-20:]


@each_row(
    ("host", "expected"),
    [
        ("\U00031350.example", b"xn--8o8n.example"),  # Unicode 15: an ideograph, which nothing is composed with
        ("a\u0323\u0302.example", b"xn--zkg.example"),  # U+1EAD
        ("a\u0302\u0323.example", b"xn--zkg.example"),
        ("a\U0001e08f\u0323.example", "a\U0001e08f\u0323.example".encode()),  # Unicode 15, ordered behind U+0323
        ("\U00016d67\U00016d67.example", "\U00016d67\U00016d67.example".encode()),  # Unicode 16, composed
        ("\U00011384\U000113bb.example", "\U00011384\U000113bb.example".encode()),
        ("a\u0897.example", "a\u0897.example".encode()),
    ],
)
def test_hosts_that_pythons_of_different_ages_would_normalize_differently(host: str, expected: bytes) -> None:
    assert to_ascii(host.encode()) == expected
