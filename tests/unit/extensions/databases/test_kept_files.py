"""A damaged store is set aside, and its copy takes its place: with the blocks, and nothing that lets pass."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from math import inf
from pathlib import Path

import pytest

from hushlist.core.routes import Account, Role
from hushlist.extensions.dashboard.admin_store import ADMINISTRATION, AdminStore
from hushlist.extensions.databases import kept_files
from hushlist.extensions.databases.kept_files import copy_of, remove_aside, set_aside, why_damaged
from hushlist.extensions.fleet.proxy_records import FLEET
from hushlist.extensions.unblock.overrides import UNBLOCKS, Overrides
from hushlist.proxy.addon import Hushlist


def rescue(path: Path) -> str | None:
    return kept_files.rescue(path, UNBLOCKS)


def keep_copy(path: Path) -> bool:
    return kept_files.keep_copy(path, UNBLOCKS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a block, a grant and a code, of which there is a copy."""
    path = tmp_path / "state" / "overrides.sqlite"
    with Overrides(path, time.time) as overrides:
        overrides.block("host", "games.example", None, by="root")
        overrides.grant("host", "b.example", 600, how="admin", by="root")
        overrides.make_code("host", 1800)
        assert keep_copy(path)
    return path


def no_database(path: Path) -> None:
    path.write_bytes(b"no database " * 1000)


def pages(path: Path) -> None:
    octets = bytearray(path.read_bytes())
    octets[4096 : 4096 + 64] = b"\xa5" * 64
    path.write_bytes(octets)


def header(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA application_id = 7")


@pytest.mark.parametrize("damage", [no_database, pages, header])
def test_the_copy_takes_the_place_without_what_lets_pass(path: Path, damage: Callable[[Path], None]) -> None:
    damage(path)
    damaged = path.read_bytes()
    told = rescue(path)
    (aside,) = set_aside([path.parent])
    assert told is not None
    assert aside.name in told
    assert aside.read_bytes() == damaged
    assert path.stat().st_mode & 0o777 == copy_of(path).stat().st_mode & 0o777 == 0o600
    with Overrides(path, time.time) as overrides:
        assert [block.target for block in overrides.blocks()] == ["games.example"]
        assert overrides.active(time.time()) == []
        assert overrides.codes() == []
    assert rescue(path) is None


def test_without_a_good_copy_it_begins_anew_and_says_that_blocks_are_lost(path: Path) -> None:
    for own in (path, copy_of(path)):
        no_database(own)
    assert "all blocks of administrators are lost" in str(rescue(path))
    with Overrides(path, time.time) as overrides:
        assert overrides.blocks() == []


def test_of_several_that_start_at_once_one_sets_aside(path: Path) -> None:
    no_database(path)
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(rescue, [path] * 8))
    assert len([own for own in told if own]) == len(set_aside([path.parent])) == 1
    assert why_damaged(path) is None


def test_what_is_good_or_not_ours_or_newer_stays(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE t (a)")
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 2")
    for own in (path, other, tmp_path / "missing", tmp_path):
        assert rescue(own) is None
        assert set_aside([tmp_path]) == []


def test_it_is_copied_when_blocks_have_changed_and_never_when_damaged(path: Path) -> None:
    assert not keep_copy(path)
    with Overrides(path, time.time) as overrides:
        overrides.grant("host", "c.example", 600, how="admin", by="root")
        assert not keep_copy(path)
        overrides.block("host", "more.example", None, by="root")
        assert keep_copy(path)
    good = copy_of(path).read_bytes()
    no_database(path)
    assert not keep_copy(path)
    assert copy_of(path).read_bytes() == good


def test_what_was_set_aside_is_removed_by_age_but_the_newest(path: Path) -> None:
    for _ in range(3):
        no_database(path)
        assert rescue(path)
    first, second, last = set_aside([path.parent])
    os.utime(second, (0, 0))
    remove_aside(path, 1.0)
    assert set_aside([path.parent]) == [first, last]
    remove_aside(path, inf, kept=1)
    assert set_aside([path.parent]) == [last]


def test_what_sqlite_has_refused_is_set_aside_though_its_pages_look_whole(path: Path) -> None:
    assert "so it was said" in str(kept_files.rescue(path, UNBLOCKS, why="so it was said"))
    with Overrides(path, time.time) as overrides:
        assert [block.target for block in overrides.blocks()] == ["games.example"]


def test_of_the_administrators_store_the_record_comes_back_and_nobody_is_signed_in(tmp_path: Path) -> None:
    path = tmp_path / "state" / "admin.sqlite"
    with AdminStore(path, time.time) as store:
        store.record(Account("max", Role.MANAGE, "127.0.0.1"), "blocked", {"target": "games.example"})
        bearer = store.make_bearer("program", Role.VIEW, 600, by="max")
        assert kept_files.keep_copy(path, ADMINISTRATION)
        assert not kept_files.keep_copy(path, ADMINISTRATION)
        store.mark_undone(1, "max")
        assert kept_files.keep_copy(path, ADMINISTRATION)
    no_database(path)
    assert "is there; sign in" in str(kept_files.rescue(path, ADMINISTRATION))
    with AdminStore(path, time.time) as store:
        assert [(own.what, own.undone_by) for own in store.recorded()] == [("blocked", "max")]
        assert store.bearer(bearer, "127.0.0.1") is None


def test_a_proxy_looks_after_every_store() -> None:
    kinds = {kind for kept in Hushlist().parts.kept_files for _, kind in kept()}
    assert kinds >= {UNBLOCKS, ADMINISTRATION, FLEET}
