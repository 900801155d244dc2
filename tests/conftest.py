"""What holds for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# always the same examples, here as where CI runs
settings.register_profile("same", derandomize=True)
settings.load_profile("same")
#: ``--hypothesis-profile=long --timeout=0``: for hours in which nobody waits
settings.register_profile("long", max_examples=50_000, deadline=None, derandomize=False)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder, and a state folder in it, of the tests' own, which the programs that they start use, too."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield folder
