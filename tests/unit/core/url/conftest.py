"""More examples for what all decisions rest on."""

from collections.abc import Generator

import pytest
from hypothesis import settings

SAME = "same"
settings.register_profile("more of the same", settings.get_profile(SAME), max_examples=50)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A test has the number of examples that holds when its file is imported."""
    profile = settings.get_current_profile_name()
    settings.load_profile("more of the same" if profile == SAME else profile)
    try:
        return (yield)
    finally:
        settings.load_profile(profile)
