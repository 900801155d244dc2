"""What tests of the store share; each has a clock of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.unblock.overrides import Overrides
from support.clock import Clock
from support.proxied import *  # noqa: F403 - its fixtures


@pytest.fixture
def path(place: Path) -> Path:
    """The file, in tests that are ``IN_FILE``."""
    return place


@pytest.fixture
def overrides(place: Path | PostgresAddress, clock: Clock) -> Iterator[Overrides]:
    with Overrides(place, clock) as opened:
        yield opened
