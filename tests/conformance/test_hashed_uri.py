"""The hashed URI draft's examples, with the very string that was hashed."""

from __future__ import annotations

import pytest

from conformance.vectors import Row, by_input, needs, rows
from hushlist.core.url.hashed_uri import HashKey, hash_uri, hashed_string
from hushlist.core.url.parts import split_generic


@needs("feather_hashed_uri")
@pytest.mark.parametrize("row", rows("feather_hashed_uri"), ids=by_input)
def test_examples_hold(row: Row) -> None:
    key = HashKey(row["algo"], "n", query=False, fragment="#" in row["hashed_string"])
    assert hashed_string(split_generic(row["input"].encode()), key) == row["hashed_string"].encode()
    assert hash_uri(row["input"], key).digest.hex() == row["expected"]
