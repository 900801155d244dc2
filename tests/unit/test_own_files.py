"""Every file that the package writes is the user's alone, whatever the mask, and no link in its place is followed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.decision import Decision, LogRecord
from hushlist.core.match.rule import Action
from hushlist.core.routes import Role
from hushlist.extensions.dashboard.admin_store import AdminStore
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.journal.log_database import LogFilters, follow, newest_records
from hushlist.extensions.journal.log_keys import LoggedClients, LoggedRequests, LogSettings
from hushlist.extensions.journal.log_sender import Spool
from hushlist.extensions.journal.log_writer import LogWriter
from hushlist.extensions.unblock.overrides import Overrides

pytestmark = pytest.mark.posix


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


def log_one(folder: Path, clients: LoggedClients = LoggedClients.KEEP) -> str | None:
    """Log one record, and say what is wrong with the log; all has to end soon."""
    settings = LogSettings(what=LoggedRequests.ALL, clients=clients, folder=folder / "log")
    journal = LogWriter(settings, state=folder / "state")
    decision = Decision(Action.BLOCK, b"http://h.example/")
    journal.write(LogRecord(decision=decision, reference="r", moment=1.0, client="c", user=None, method="GET"))
    journal.close(5)
    assert not journal._thread.is_alive()
    return journal.fault


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
    log_one(tmp_path)
    assert target.read_text() == "mine"


@pytest.mark.parametrize("name", ["decisions.jsonl", "decisions.sqlite", "decisions.lock"])
def test_a_pipe_in_place_of_a_file_of_the_log_keeps_nobody_waiting(tmp_path: Path, name: str) -> None:
    (tmp_path / "log").mkdir()
    os.mkfifo(tmp_path / "log" / name)
    fault = log_one(tmp_path)
    assert name == "decisions.lock" or f"{name}: " in str(fault)
    with closing(follow(tmp_path / "log")) as follower, suppress(OSError):
        next(follower)
        newest_records(tmp_path / "log", LogFilters(), 1, only_lines=True)


def test_what_is_no_file_of_the_spool_holds_up_no_other(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LogSettings(), list)
    (tmp_path / "spool" / "0.spool").mkdir(parents=True)
    (tmp_path / "spool" / "1.spool").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "spool" / "2.spool")
    spool.append([["{}\n"]], 1.0)
    (found,) = spool.sealed(everything=True)
    assert found.read_bytes().endswith(b" {}\n")


def test_a_state_folder_that_everybody_can_write_to_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever prepared it could have put grants, sessions and keys there."""
    state = tmp_path / "state"
    state.mkdir()
    (state / "pseudonyms.key").write_bytes(bytes(32))
    state.chmod(0o1777)
    with pytest.raises(StoreError, match="every user of this machine can write there"):
        Overrides(state / "overrides.sqlite", time.time)
    log_one(tmp_path, LoggedClients.PSEUDONYM)
    assert "pseudonyms hold until the next start only: [Errno 1] every user" in caplog.text
    state.chmod(0o770)  # a group may share it
    Overrides(state / "overrides.sqlite", time.time).close()
