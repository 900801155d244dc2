"""The engine that records are decided by."""

from pathlib import Path

import pytest

from hushlist.decide.engine import Engine
from unit.audit.samples import engine as make_engine


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return make_engine(tmp_path)
