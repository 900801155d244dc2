"""A runtime whose policy names a database: what it opens, and what it does when the policy names another."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.engine import Engine
from hushlist.extensions.dashboard.dashboard_data import store_fault
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.unblock.overrides import Overrides
from hushlist.extensions.unblock.unblock_handler import UnblockHandler, overrides_of
from hushlist.proxy.runtime import Runtime
from postgres import GROUP, Server
from support.parts import part_of
from support.waiting import wait_until

GAMES = "hrn://c.example/games"


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    runtime = Runtime()
    yield runtime
    runtime.close()


def use(runtime: Runtime, folder: Path, text: str) -> None:
    path = folder / "policy.yaml"
    path.write_text(f"{text}\nquotas: {{{GAMES}: 60}}\nlayers: []\n")
    compiled = compile_policy(path)
    runtime.use(Engine(compiled.policy, compiled.index, None, *runtime.parts.prepare(compiled.policy)), None)


@GROUP
def test_the_policy_says_which_store_is_used(runtime: Runtime, tmp_path: Path, database: PostgresAddress) -> None:
    use(runtime, tmp_path, "log: off")
    assert overrides_of(runtime) is not None
    assert overrides_of(runtime).place == tmp_path / "state" / "hushlist" / "overrides.sqlite"
    in_file = overrides_of(runtime)
    use(runtime, tmp_path, f"store: '{database.url}'")
    assert overrides_of(runtime) is not in_file
    assert overrides_of(runtime).place == database
    with Overrides(database, time.time) as other:
        made = other.grant("host", "h.example", 60, how="x", by="x")
        own = overrides_of(runtime)
        wait_until(lambda: own.covering([], b"h.example", b"http://h.example/", [], time.time()) == made)
    wait_until(lambda: part_of(runtime, UnblockHandler).tokens)
    assert store_fault(runtime) is None
    use(runtime, tmp_path, f"store: '{database.url}'\nmode: tag")
    assert overrides_of(runtime) is own
    use(runtime, tmp_path, "log: off")
    assert overrides_of(runtime).place == in_file.place


@GROUP
def test_what_administrators_have_blocked_holds_from_the_first_request_on(
    runtime: Runtime, tmp_path: Path, database: PostgresAddress
) -> None:
    with Overrides(database, time.time) as other:
        other.block("host", "h.example", None, by="x")
    use(runtime, tmp_path, f"store: '{database.url}'")
    assert overrides_of(runtime) is not None
    assert [block.target for block in overrides_of(runtime).blocks_at(time.time()).blocks] == ["h.example"]


@GROUP
def test_nothing_at_the_start_waits_for_a_database_that_is_away(
    runtime: Runtime, tmp_path: Path, postgres: Server, database: PostgresAddress
) -> None:
    begun = time.monotonic()
    use(runtime, tmp_path, "store: 'postgresql://192.0.2.1:1/x?connect_timeout=30'")
    assert time.monotonic() - begun < 20
    assert overrides_of(runtime) is not None
    assert part_of(runtime, UnblockHandler).tokens is None
    use(runtime, tmp_path, "store: 'postgresql://jo:s3cret@127.0.0.1:1/x'")
    overrides = overrides_of(runtime)
    assert overrides is not None
    moments = iter(range(10**9))
    wait_until(lambda: overrides.covering([], b"h", b"http://h/", [], next(moments)) or store_fault(runtime))
    assert "postgresql://jo@127.0.0.1:1/x: connection" in str(store_fault(runtime))
    assert "s3cret" not in runtime.status()
