"""Reloading on a change."""

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import time
from typing import Any

import pytest
from mitmproxy.test import taddons

from hushlist.core.compile.background_compiler import BackgroundCompiler
from hushlist.core.compile.compile_report import CompileReport
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import Problem
from hushlist.core.match.index import Index
from hushlist.core.match.rule import Action
from hushlist.core.policy.policy_file import Policy, PolicyError
from hushlist.core.system import package_code
from hushlist.core.system.files import fingerprints
from hushlist.core.system.package_code import OTHER_CODE
from hushlist.core.url.request import Request
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.files.file_inspector import FileInspector
from hushlist.extensions.quotas.metered_use import MeteredUse
from hushlist.extensions.unblock import default_path
from hushlist.extensions.unblock.overrides import Overrides
from hushlist.extensions.unblock.unblock_handler import UnblockHandler, overrides_of
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service import policy_watch
from hushlist.proxy.service.health import why_unready
from hushlist.proxy.service.policy_watch import PolicyUpdate, PolicyWatch
from support.mitmproxied import add_proxy_options
from support.parts import part_of

PATIENCE = 10


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_watch, "INTERVAL", 0.01)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    write(tmp_path / "ads.yaml", "rules: [first.example]")
    write(tmp_path / "policy.yaml", "layers:\n- {name: lists, lists: [ads.yaml]}\n")
    return tmp_path / "policy.yaml"


def write(path: Path, text: str) -> None:
    """As editors do: the file appears whole, and is another."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


def blocks(engine: Engine, host: str) -> bool:
    return engine.decide(Request(b"http", (host.encode(),), 80, b"/")).action is Action.BLOCK


class Watch:
    """A policy that is watched, and every engine that came of it."""

    def __init__(self, policy: Path) -> None:
        self.policy = policy
        self.engines: list[Engine] = []
        self.reads = self.preparations = 0

    def read(self) -> PolicyUpdate:
        self.reads += 1
        assert self.preparations
        engine = load_engine(self.policy)
        return PolicyUpdate(engine, None, CompileReport.of(engine.index).warnings)

    def prepare(self) -> None:
        self.preparations += 1

    def swap(self, update: PolicyUpdate) -> None:
        self.engines.append(update.engine)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.005)

    def run(self, steps: Callable[[], Awaitable[None]]) -> None:
        async def both() -> None:
            files = load_engine(self.policy).policy.files
            task = asyncio.create_task(policy_watch.watch(lambda: self.read(), files, self.swap, self.prepare))
            try:
                await steps()
            finally:
                task.cancel()

        asyncio.run(both())


@pytest.mark.posix
def test_a_change_in_place_of_the_same_length_and_time_is_used(policy: Path) -> None:
    """As ``cp -p`` makes it of two files from one archive."""
    watch, file = Watch(policy), policy.with_name("ads.yaml")

    async def steps() -> None:
        before = file.stat()
        file.write_text("rules: [other.example]")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (file.stat().st_size, file.stat().st_ino) == (before.st_size, before.st_ino)
        await watch.until(lambda: bool(watch.engines))

    watch.run(steps)
    assert blocks(watch.engines[0], "other.example")


def test_a_broken_change_is_reported_once_and_mended(policy: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch, text = Watch(policy), policy.read_text()

    async def steps() -> None:
        write(policy, "odd: 1")
        await watch.until(lambda: bool(caplog.records))
        await asyncio.sleep(0.1)
        assert watch.reads == 1
        assert watch.engines == []
        write(policy, text)
        await watch.until(lambda: bool(watch.engines))

    watch.run(steps)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert f"{policy}:1: odd: unknown key" in record.getMessage()
    assert blocks(watch.engines[0], "first.example")


def test_of_a_list_that_is_held_back_the_good_copy_is_used_until_it_is_mended(policy: Path) -> None:
    watch = Watch(policy)

    async def steps() -> None:
        write(policy.with_name("ads.yaml"), "rules:\n- '..'\n")
        await watch.until(lambda: len(watch.engines) == 1)
        write(policy.with_name("ads.yaml"), "rules: [mended.example]")
        await watch.until(lambda: len(watch.engines) == 2)

    watch.run(steps)
    assert [blocks(engine, "first.example") for engine in watch.engines] == [True, False]
    (problem,) = watch.engines[0].policy.held_back
    assert "held back: it cannot be read: ads.yaml:2: ..: it names no host" in str(problem)
    assert blocks(watch.engines[1], "mended.example")


def test_a_list_that_is_deleted_leaves_the_last_good_rules(policy: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch = Watch(policy)

    async def steps() -> None:
        policy.with_name("ads.yaml").unlink()
        await watch.until(lambda: bool(caplog.records))
        write(policy.with_name("ads.yaml"), "rules: [again.example]")
        await watch.until(lambda: bool(watch.engines))

    watch.run(steps)
    assert "ads.yaml: there is no such file" in caplog.text
    assert len(watch.engines) == 1


def test_what_changes_while_it_is_read_is_read_again_and_not_used(policy: Path) -> None:
    class Changing(Watch):
        def read(self) -> PolicyUpdate:
            update = super().read()
            if self.reads == 1:
                write(policy.with_name("ads.yaml"), "rules: [third.example]")
            return update

    watch = Changing(policy)

    async def steps() -> None:
        write(policy.with_name("ads.yaml"), "rules: [second.example]")
        await watch.until(lambda: bool(watch.engines))

    watch.run(steps)
    assert watch.reads == 2
    assert [blocks(engine, "third.example") for engine in watch.engines] == [True]


def test_a_failure_of_our_own_does_not_end_the_watch(policy: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Watch):
        def read(self) -> PolicyUpdate:
            update = super().read()
            if self.reads == 1:
                raise RuntimeError("broken")
            return update

    watch = Failing(policy)

    async def steps() -> None:
        write(policy.with_name("ads.yaml"), "rules: [second.example]")
        await watch.until(lambda: bool(caplog.records))
        write(policy.with_name("ads.yaml"), "rules: [third.example]")
        await watch.until(lambda: bool(watch.engines))

    watch.run(steps)
    assert blocks(watch.engines[0], "third.example")


def test_what_changes_while_it_is_read_at_the_start_is_read_again(
    policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changing, compile_policy = policy.with_name("ads.yaml"), policy_watch.BackgroundCompiler.compile
    before = fingerprints([policy, changing])

    def change_while_reading(background: BackgroundCompiler, path: Path, **how: Any) -> tuple[Policy, Index]:
        if fingerprints(before) == before:
            write(changing, "rules: [second.example]")
            raise PolicyError([Problem(str(changing), 0, changing.name, "it changed while it was read")], before)
        return compile_policy(background, path, **how)

    monkeypatch.setattr(policy_watch.BackgroundCompiler, "compile", change_while_reading)
    runtime = Runtime()
    PolicyWatch(runtime).load(policy)
    assert runtime.engine is not None
    assert blocks(runtime.engine, "second.example")


@pytest.mark.slow
def test_the_addon_watches_while_it_runs_and_leaves_nothing_behind(policy: Path) -> None:
    async def life() -> None:
        hushlist = Hushlist()
        with taddons.context(hushlist) as context:
            add_proxy_options(context)
            context.configure(hushlist, hushlist_policy=str(policy), hushlist_mode="block")
            first = hushlist.runtime.engine
            hushlist.running()
            write(policy.with_name("ads.yaml"), "rules: [second.example]")
            async with asyncio.timeout(PATIENCE):
                while hushlist.runtime.engine is first:
                    await asyncio.sleep(0.005)
            assert hushlist.runtime.engine is not None
            assert blocks(hushlist.runtime.engine, "second.example")
            hushlist.done()
            await asyncio.sleep(0)
            assert [task for task in asyncio.all_tasks() if "hushlist" in task.get_name()] == []
            async with asyncio.timeout(PATIENCE):
                while any("hushlist: watch" in thread.name for thread in threading.enumerate()):
                    await asyncio.sleep(0.005)

    asyncio.run(life())


async def running(hushlist: Hushlist, policy: Path, steps: Callable[[], Awaitable[None]]) -> None:
    """Some steps while the addon runs."""
    with taddons.context(hushlist) as context:
        add_proxy_options(context)
        context.configure(hushlist, hushlist_policy=str(policy), hushlist_mode="block")
        hushlist.running()
        async with asyncio.timeout(PATIENCE):
            await steps()
        hushlist.done()
        await asyncio.sleep(0)


def test_a_warning_is_told_once_until_it_was_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    policy, ads = tmp_path / "policy.yaml", tmp_path / "ads.txt"
    policy.write_text("layers: [{name: lists, lists: [{file: ads.txt, format: domains}]}]\n")
    runtime = Runtime()
    watch = policy_watch.PolicyWatch(runtime)
    told = []
    for text in ("[a]", "first.example\n[a]", "[a]\n[c]", "first.example", "[a]"):
        write(ads, f"ads.example\n{text}\n")
        caplog.clear()
        with caplog.at_level("INFO"):
            watch.load(policy)
        warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
        again = "1 warning as before" in caplog.text
        told.append(([name for name in ("[a]", "[c]") if any(name in one for one in warned)], again))
    runtime.close()
    assert told == [(["[a]"], False), ([], True), (["[c]"], True), ([], False), (["[a]"], False)]


@pytest.mark.parametrize("way", ["the index was changed", "the command"])
def test_all_is_read_again(policy: Path, way: str, caplog: pytest.LogCaptureFixture) -> None:
    hushlist = Hushlist()
    engines: list[Engine | None] = []

    async def steps() -> None:
        first = hushlist.runtime.engine
        assert first is not None
        if way == "the command":
            hushlist.policy_watch.reload()
        else:
            os.utime(first.index.source, (1, 1))
        while hushlist.runtime.engine in (first, None):
            if hushlist.runtime.engine is None and not engines:
                engines.append(None)
                assert "somebody has changed it" in (hushlist.runtime.problem or "")
            await asyncio.sleep(0.001)

    asyncio.run(running(hushlist, policy, steps))
    is_changed = way == "the index was changed"
    assert len(engines) == is_changed
    assert ("somebody has changed it while it was in use" in caplog.text) is is_changed


def test_a_store_that_could_not_be_used_at_the_start_is_used_once_it_can(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What an administrator has blocked is in it."""
    monkeypatch.setattr(policy_watch, "RETRY", 0.03)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Overrides(default_path(), time) as overrides:
        overrides.block("host", "games.example", None, by="jo")
    (tmp_path / "state").rename(tmp_path / "aside")
    (tmp_path / "state").touch()
    hushlist, tries, open_overrides = Hushlist(), list[object](), UnblockHandler._open

    def counted(handler: UnblockHandler, database: PostgresAddress | None = None) -> Overrides | None:
        tries.append(None)
        return open_overrides(handler, database)

    monkeypatch.setattr(UnblockHandler, "_open", counted)

    async def steps() -> None:
        engine = hushlist.runtime.engine
        assert engine is not None
        assert not blocks(engine, "games.example")
        while len(tries) < 4:  # it is told once
            await asyncio.sleep(0.01)
        (tmp_path / "state").unlink()
        (tmp_path / "aside").rename(tmp_path / "state")
        while not (hushlist.runtime.engine and blocks(hushlist.runtime.engine, "games.example")):
            await asyncio.sleep(0.01)

    asyncio.run(running(hushlist, policy, steps))
    assert caplog.text.count("nothing can be unblocked") == 1


@pytest.mark.slow
def test_a_store_is_used_with_its_policy_and_not_before(policy: Path) -> None:
    """Else the policy in use goes by a store that is closed, where nobody ends an unblock or blocks anything."""
    runtime = Runtime()
    watch = policy_watch.PolicyWatch(runtime)
    write(policy, f"quotas: {{hrn://c.example/games: 60}}\n{policy.read_text()}")
    watch.load(policy)
    metered = part_of(runtime, MeteredUse)
    in_use, minutes = overrides_of(runtime), metered.minutes
    write(policy, f"store: 'postgresql://jo@127.0.0.1:1/x'\n{policy.read_text()}")
    updates = [watch._read(BackgroundCompiler(), policy) for _ in range(2)]
    assert overrides_of(runtime) is in_use is not None
    assert metered.minutes is minutes is not None
    assert updates[0].engine._overrides is updates[1].engine._overrides is not in_use
    watch._use(updates[1])
    assert overrides_of(runtime) is updates[1].engine._overrides
    assert metered.minutes is not minutes
    runtime.close()


def test_a_policy_whose_part_cannot_be_made_is_told_of_and_tried_again(
    policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy before stays in force, and nobody is told that the new one is."""
    monkeypatch.setattr(policy_watch, "RETRY", 0.03)
    hushlist, tries = Hushlist(), list[None]()
    runtime, make = hushlist.runtime, FileInspector.__init__

    def failing(part: FileInspector, *arguments: Any) -> None:
        tries.append(None)
        if len(tries) == 1:
            raise ImportError("no such module")
        make(part, *arguments)

    async def steps() -> None:
        before = runtime.engine
        monkeypatch.setattr(FileInspector, "__init__", failing)
        write(policy, f"files: [{{endings: [exe]}}]\n{policy.read_text()}")
        while not tries or runtime.problem is None:
            assert len(tries) < 2
            await asyncio.sleep(0.001)
        assert (runtime.engine, runtime.readings[False]) == (before, 1)
        assert runtime.problem == f"{policy}: ImportError: no such module"
        while runtime.part(FileInspector) is None:
            await asyncio.sleep(0.001)
        assert runtime.problem is None

    asyncio.run(running(hushlist, policy, steps))


def test_an_extension_that_fails_stops_no_other(
    policy: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(policy_watch, "DUE_INTERVAL", 0.001)
    hushlist, looks = Hushlist(), list[Policy]()

    def fail(policy: Policy) -> None:
        raise OSError("odd")

    async def steps() -> None:
        hushlist.parts.watch = (fail, looks.append)
        while len(looks) < 2:
            await asyncio.sleep(0.001)

    asyncio.run(running(hushlist, policy, steps))
    assert [Path(one.source) for one in looks[:2]] == [policy] * 2
    assert "an extension failed, and is tried again" in caplog.text


def test_a_policy_that_was_read_while_the_package_was_replaced_is_read_again_as_soon_as_that_is_back(
    policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, is_away = policy_watch.BackgroundCompiler, [True]

    class Replaced(compiler):  # type: ignore[misc, valid-type]  # that of the tests
        def compile(self, path: Path, *, before: Index | None = None, is_start: bool = False) -> tuple[Policy, Index]:
            if not is_start and is_away:
                raise PolicyError([Problem("policy.yaml", 0, "compile", OTHER_CODE)], {}, may_pass=True)
            found: tuple[Policy, Index] = super().compile(path, before=before, is_start=is_start)
            return found

    monkeypatch.setattr(policy_watch, "BackgroundCompiler", Replaced)
    monkeypatch.setattr(package_code, "is_as_loaded", lambda: not is_away)
    hushlist = Hushlist()

    async def steps() -> None:
        first, runtime = hushlist.runtime.engine, hushlist.runtime
        write(policy.with_name("ads.yaml"), "rules: [second.example]")
        while runtime.problem is None:
            await asyncio.sleep(0.001)
        assert why_unready(runtime).endswith(OTHER_CODE)
        is_away.clear()
        monkeypatch.setattr(policy_watch.CodeOnDisk, "_look", lambda _: [("module.py", (1, 1))])  # it is put back
        while runtime.engine is first:
            await asyncio.sleep(0.001)
        assert why_unready(runtime) == ""

    asyncio.run(running(hushlist, policy, steps))
