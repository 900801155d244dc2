"""Fixtures of all tests that run the addon; each folder's conftest.py takes them from here."""

import os
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from mitmproxy import ctx

from hushlist.core.extension import Notice
from hushlist.extensions.notify.notices import Notices
from hushlist.extensions.notify.notifier import Notifier
from support.in_process import InProcess
from support.parts import part_of

# mitmproxy's test helpers load every addon of mitmproxy, and with these libraries that warn of themselves.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from mitmproxy.test import taddons

    from hushlist.proxy.addon import Hushlist
    from support.mitmproxied import mitmproxied


#: the fixtures
__all__ = ["_compiles_in_process", "_no_context", "context", "hushlist", "notices", "own_cache", "own_folders"]

_NUMBERS = count()


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A cache and a state folder of a test's own, made when they are needed: nearly each compiles a policy."""
    folder = tmp_path_factory.getbasetemp() / f"folders_of_test_{next(_NUMBERS)}"
    os.environ["XDG_CACHE_HOME"], os.environ["XDG_STATE_HOME"] = str(folder), str(folder / "state")


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state folder and a cache of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def hushlist() -> Hushlist:
    return Hushlist()


@pytest.fixture
def context(hushlist: Hushlist) -> Iterator[taddons.context]:
    with mitmproxied(hushlist) as context:
        yield context


@pytest.fixture
def notices(hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch) -> list[Notice]:
    """What the notifier is handed."""
    sent: list[Notice] = []
    part_of(hushlist.runtime, Notices)
    monkeypatch.setattr(Notifier, "send", lambda _, notice: sent.append(notice))
    return sent


@pytest.fixture(autouse=True)
def _no_context() -> None:
    """An earlier test may have left mitmproxy's context behind: no test goes by that."""
    for name in ("master", "options"):
        vars(ctx).pop(name, None)


@pytest.fixture(autouse=True)
def _compiles_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushlist.proxy.service.policy_watch.BackgroundCompiler", InProcess)
