"""Other people's vectors: read from ``../shared`` beside the checkout, or from HUSHLIST_SHARED; none is copied here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared import SHARED

Row = dict[str, Any]


def rows(name: str) -> list[Row]:
    """The rows of a file; none where it is absent, so that the tests of it are skipped."""
    path = SHARED / "vectors" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def needs(name: str) -> pytest.MarkDecorator:
    """Skips a test, with the reason, where its vectors are absent."""
    reason = f"no vectors/{name}.json beside the checkout; HUSHLIST_SHARED may name another place"
    return pytest.mark.skipif(not rows(name), reason=reason)


def octets(row: Row) -> bytes:
    """A row's input as it is meant."""
    is_raw = row.get("input_encoding") == "bytes-latin1"
    return row["input"].encode("latin-1" if is_raw else "utf-8")


def by_input(row: Row) -> str:
    """A row's name in reports."""
    return ascii(row["input"])[1:-1][:60]
