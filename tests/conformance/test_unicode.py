"""A host has one A-label on every Python, however old its Unicode tables are; `.ci/run` runs this on each."""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256
from itertools import chain

import pytest

from hushlist.core.url.host import _NEWLY_NORMALIZED

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


@pytest.mark.slow
def test_code_points_that_are_not_refused_are_normalized_as_by_unicode_14() -> None:
    """So ``unicodedata`` gives equal results everywhere; the tables of ``idna`` are the same for every Python.

    Where this fails, Python is newer than the list: add to it what the row says, and what the row decomposes to.
    """
    rows = [row for row in normalized() if not re.match(_NEWLY_NORMALIZED, chr(int(row.partition(" ")[0], 16)))]
    assert sha256("".join(rows).encode()).hexdigest() == UNICODE_14, rows[-20:]
