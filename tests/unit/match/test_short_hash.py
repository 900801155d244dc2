"""The SHA-256 for short texts."""

import hashlib

import pytest

from hushlist.match.short_hash import sha256


@pytest.mark.parametrize("length", [0, 1, 20, 55, 56, 63, 64, 65, 1000, 1 << 16])
def test_it_is_the_same_as_any_other(length: int) -> None:
    text = bytes(range(256)) * (length // 256 + 1)
    assert sha256(text[:length]).digest() == hashlib.sha256(text[:length]).digest()
