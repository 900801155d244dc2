"""Every file that the package writes is the user's alone, whatever the mask, and no link in its place is followed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hushlist.admin.admin_store import AdminStore
from hushlist.compiling.index_cache import IndexCache
from hushlist.compiling.policy_compiler import compile_policy
from hushlist.decide.decision import Decision
from hushlist.journal.log_record import LogRecord
from hushlist.journal.log_writer import LogWriter
from hushlist.match.rule import Action
from hushlist.policy.admin import Role
from hushlist.policy.proxy_settings import LoggedClients, LoggedRequests, LogSettings
from hushlist.unblock.overrides import Overrides
from hushlist.unblock.store import StoreError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions as POSIX has them")


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def log_something(folder: Path, number: int = 1) -> None:
    settings = LogSettings(
        what=LoggedRequests.ALL, clients=LoggedClients.PSEUDONYM, folder=folder / "log", size=64 << 10, gzip=True
    )
    journal = LogWriter(settings, state=folder / "state")
    for _ in range(number):
        moment = time.time()
        decision = Decision(Action.BLOCK, b"http://h.example/" + b"a" * 500)
        reference = journal.reference(moment)
        journal.write(
            LogRecord(decision=decision, reference=reference, moment=moment, client="10.0.0.7", user=None, method="GET")
        )
    assert journal.flush(30)
    assert journal.close(30)


def compile_something(folder: Path) -> None:
    (folder / "a.hosts").write_text("0.0.0.0 a.example\n")
    (folder / "policy.yaml").write_text("layers: [{name: lists, lists: [a.hosts]}]")
    compile_policy(folder / "policy.yaml", cache=IndexCache(folder / "home" / "cache" / "hushlist"))


@pytest.mark.usefixtures("mask")
def test_all_that_is_written_is_private_and_so_are_the_folders_that_are_made(tmp_path: Path) -> None:
    own = tmp_path / "own"
    compile_something(tmp_path)
    with (
        Overrides(own / "share" / "state.sqlite", time.time) as overrides,
        AdminStore(own / "share" / "admin.sqlite", time.time) as store,
    ):
        overrides.grant("host", "a.example", 60, how="test", by="test")
        overrides.tokens()
        store.make_bearer("a", Role.VIEW, 60, by="test")
        log_something(own, 200)
        log_something(own, 5)
        found = {path: path.stat().st_mode & 0o777 for root in (own, tmp_path / "home") for path in root.rglob("*")}
    names = {path.name.partition("-2")[0] for path in found}
    assert names >= {
        *("decisions.jsonl", "decisions.lock", "decisions.sqlite", "decisions", "pseudonyms.key"),
        *("state.sqlite", "state.sqlite-wal", "state.sqlite-shm"),
    }
    assert any(path.suffix == ".index" for path in found)
    assert any(path.suffix == ".gz" for path in found)
    wrong = {str(path): oct(mode) for path, mode in found.items() if mode != (0o700 if path.is_dir() else 0o600)}
    assert wrong == {}


@pytest.mark.parametrize("is_there", [False, True])
def test_a_link_in_place_of_the_store_is_not_followed(tmp_path: Path, is_there: bool) -> None:
    target = tmp_path / "target"
    if is_there:
        target.touch()
    (tmp_path / "state.sqlite").symlink_to(target)
    with pytest.raises(StoreError, match="it is a link, which is not followed"):
        Overrides(tmp_path / "state.sqlite", time.time)
    assert target.exists() is is_there
    assert not is_there or target.read_bytes() == b""


@pytest.mark.parametrize("name", ["decisions.jsonl", "decisions.sqlite", "decisions.lock"])
def test_a_link_in_place_of_a_file_of_the_log_is_not_followed(tmp_path: Path, name: str) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / name).symlink_to(target)
    journal = LogWriter(LogSettings(what=LoggedRequests.ALL, folder=tmp_path / "log"), state=tmp_path / "state")
    decision = Decision(Action.BLOCK, b"http://h.example/")
    journal.write(LogRecord(decision=decision, reference="r", moment=1.0, client="c", user=None, method="GET"))
    journal.close(5)
    assert target.read_text() == "mine"
