"""What tests of the first start share: answers, a machine without neighbours, and the command line."""

from pathlib import Path

import pytest

from support.proxied import _compiles_in_process
from unit.cli.running import Run

__all__ = ["_compiles_in_process"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(monkeypatch, capsys)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folders of nobody else: settings, state, cache; and a time zone."""
    for variable in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{variable}_HOME", str(tmp_path / variable.lower()))
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.chdir(tmp_path)
    return tmp_path
