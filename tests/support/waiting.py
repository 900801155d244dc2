"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

#: seconds; a busy machine may need some
PATIENCE = 120.0


def wait_until(is_so: Callable[[], object], patience: float = PATIENCE, pause: float = 0.01) -> float:
    """Wait until something is so; the seconds that it took."""
    begun = time.monotonic()
    while not is_so():
        assert time.monotonic() - begun < patience, "it does not come"
        time.sleep(pause)
    return time.monotonic() - begun
