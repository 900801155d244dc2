"""Rows are stored, in memory or in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushlist.match.sorted_runs import load, store


@pytest.mark.parametrize("stored", [b"", b"octets"])
def test_what_is_stored_is_loaded(stored: bytes, tmp_path: Path) -> None:
    for place in (store(stored, None), store(stored, tmp_path)):
        assert load(place) == stored
        assert load(place, 2) == stored[2:]
        assert load(place, 1, 3) == stored[1:3]
        assert load(place, 3, 3) == b""
