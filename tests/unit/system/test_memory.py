"""How much memory the process has."""

import sys
from pathlib import Path

import pytest

from hushlist.system import memory


def test_it_grows_with_what_is_kept() -> None:
    before = memory.resident_octets()
    kept = bytes(range(256)) * (1 << 18)
    after = memory.resident_octets()
    assert before is not None
    assert after is not None
    assert after - before > len(kept) // 2


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell")
def test_where_the_present_is_not_known_the_peak_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now = memory.resident_octets()
    monkeypatch.setattr(memory, "STATM", tmp_path / "none")
    peak = memory.resident_octets()
    assert now is not None
    assert peak is not None
    assert peak > now // 2
