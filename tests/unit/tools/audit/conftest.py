"""The engine that records are decided by, and processes that begin at once."""

import multiprocessing
import sys
from pathlib import Path

import pytest

from hushlist.core.compile import worker_processes
from hushlist.core.decide.engine import Engine
from unit.tools.audit.samples import engine as make_engine


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return make_engine(tmp_path)


@pytest.fixture(autouse=True)
def _copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are copies of this one, whatever threads it has: to start others takes far longer than their work."""
    if sys.platform == "linux":
        monkeypatch.setattr(worker_processes, "process_context", lambda: multiprocessing.get_context("fork"))
