"""Long lists are compiled beside the proxy, into a cache that several of them share."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from e2e.origin import Origin
from e2e.policies import replace, simple_policy, write_list, write_policy
from e2e.proxy import PATIENCE, Proxy, blocks, eventually, mitmdump

Start = Callable[..., Proxy]

#: lines of a long list
LINES = 10_000
#: requests that have to be answered while a list is compiled
MANY = 20


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that only the proxies of this test use."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "caches" / "hushlist"


def indexes(cache: Path) -> list[Path]:
    return sorted(cache.glob("*.index"))


def set_policy(proxy: Proxy, policy: Path) -> tuple[int, str]:
    """Set the option of the running proxy; see scripts/setting.py."""
    with proxy.client() as client:
        answer = client.get("http://set.test/", params={"policy": str(policy)})
    return answer.status_code, answer.text


def write_long_list(file: Path, version: int) -> str:
    """A hosts file; the name that tells its version."""
    name = f"version{version}.test"
    replace(file, "".join(f"0.0.0.0 host{line}.of-{version}.test\n" for line in range(LINES)) + f"0.0.0.0 {name}\n")
    return name


class SlowPython(NamedTuple):
    """A Python whose process that compiles waits for long, as a very long list would have it, where there is a flag."""

    flag: Path
    #: made by the process that waits; it goes on when this is removed
    waits: Path


@pytest.fixture
def slow_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowPython]:
    code = tmp_path / "code"
    code.mkdir()
    slow = SlowPython(tmp_path / "slow", tmp_path / "waits")
    (code / "sitecustomize.py").write_text(
        "import os, sys, time\n"
        f"if 'hushlist.core.compile.background_compiler' in sys.orig_argv and os.path.exists({str(slow.flag)!r}):\n"
        f"    open({str(slow.waits)!r}, 'w').close()\n"
        f"    while os.path.exists({str(slow.waits)!r}):\n        time.sleep(0.05)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(code))
    yield slow
    for file in slow:
        file.unlink(missing_ok=True)


class Asking:
    """Asks one URL after the other until the block ends; how many were answered, and how."""

    def __init__(self, proxy: Proxy, url: str) -> None:
        self._proxy, self._url = proxy, url
        self.answered = 0
        self.statuses: set[int] = set()
        self.errors: list[Exception] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)

    def _ask(self) -> None:
        try:
            with self._proxy.client() as client:
                while not self._stop.is_set():
                    self.statuses.add(client.get(self._url).status_code)
                    self.answered += 1
                    time.sleep(0.02)
        except Exception as error:
            self.errors.append(error)


@pytest.mark.thorough
def test_a_long_list_is_replaced_while_requests_go_through(
    start: Start, tmp_path: Path, cache: Path, slow_python: SlowPython
) -> None:
    file = tmp_path / "long.hosts"
    name = write_long_list(file, 0)
    write_list(tmp_path / "own.yaml", "ads.test/")
    proxy = start(policy=write_policy(tmp_path, ["own.yaml", "long.hosts"], gate="off"))
    assert blocks(proxy, name)
    slow_python.flag.touch()
    with Asking(proxy, "http://good.test/") as good, Asking(proxy, "http://ads.test/") as ads:
        for version in range(1, 3):
            before, name = name, write_long_list(file, version)
            assert eventually(slow_python.waits.exists)
            at_first = good.answered, ads.answered
            assert eventually(lambda at_first=at_first: good.answered >= at_first[0] + MANY)
            assert eventually(lambda at_first=at_first: ads.answered >= at_first[1] + MANY)
            assert blocks(proxy, before)
            start_of_change = len(proxy.log)
            slow_python.waits.unlink()
            proxy.log.wait_for(f"hushlist: {LINES + 2:,} rules of 3 files", start_of_change)
            assert blocks(proxy, name)
            assert not blocks(proxy, before)
    assert good.errors == ads.errors == []
    assert (good.statuses, ads.statuses) == ({200}, {403})
    assert eventually(lambda: proxy.log.text().count(f"hushlist: {LINES + 2:,} rules of 3 files") == 3)


class TestCache:
    def test_a_second_start_and_a_second_proxy_use_what_is_there(
        self, tmp_path: Path, origin: Origin, cache: Path
    ) -> None:
        policy = simple_policy(tmp_path / "policy", "ads.test/", "other.test/")
        seen = []
        for name in ("first", "again"):
            (tmp_path / name).mkdir()
            with mitmdump(tmp_path / name, origin, policy=policy) as proxy:
                proxy.log.wait_for(r"hushlist: 2 rules of 2 files")
                (index,) = indexes(cache)
                seen.append((index.name, index.stat().st_ino))
                if name == "again":
                    (tmp_path / "second").mkdir()
                    with mitmdump(tmp_path / "second", origin, policy=policy) as second:
                        assert blocks(proxy, "ads.test")
                        assert blocks(second, "ads.test")
                        write_list(tmp_path / "policy" / "rules.yaml", "changed.test/")
                        for both in (proxy, second):
                            assert eventually(lambda both=both: blocks(both, "changed.test"))
                            assert not blocks(both, "ads.test")
        assert seen[0] == seen[1]
        assert len(indexes(cache)) == 2
        assert {*cache.iterdir()} == {*indexes(cache), cache / "lists"}


class TestOptionAtRunTime:
    @pytest.fixture
    def first(self, tmp_path: Path) -> Path:
        return simple_policy(tmp_path / "first", "first.test/")

    @pytest.fixture
    def proxy(self, start: Start, first: Path) -> Proxy:
        return start(policy=first, scripts=["setting.py"])

    def test_a_good_policy_comes_into_force(self, proxy: Proxy, first: Path, tmp_path: Path) -> None:
        second = simple_policy(tmp_path / "second", "second.test/")
        assert set_policy(proxy, second) == (204, "")
        assert eventually(lambda: blocks(proxy, "second.test"))
        assert not blocks(proxy, "first.test")
        write_list(tmp_path / "second" / "rules.yaml", "third.test/")
        assert eventually(lambda: blocks(proxy, "third.test"))
        assert set_policy(proxy, first) == (204, "")
        assert eventually(lambda: blocks(proxy, "first.test"))

    def test_a_broken_policy_is_refused_and_the_old_one_is_still_watched(
        self, proxy: Proxy, first: Path, tmp_path: Path
    ) -> None:
        broken = replace(tmp_path / "broken.yaml", "layers: []\ncolour: red\n")
        status, text = set_policy(proxy, broken)
        assert status == 409
        assert text.startswith(f"hushlist_policy cannot be used:\n{broken}:2: colour: ")
        assert blocks(proxy, "first.test")
        write_list(first.with_name("rules.yaml"), "changed.test/")
        assert eventually(lambda: blocks(proxy, "changed.test"))


@pytest.mark.thorough
def test_mitmdump_ends_while_a_list_is_compiled(start: Start, tmp_path: Path, slow_python: SlowPython) -> None:
    proxy = start(policy=simple_policy(tmp_path / "policy", "ads.test/"))
    slow_python.flag.touch()
    write_list(tmp_path / "policy" / "rules.yaml", "other.test/")
    assert eventually(slow_python.waits.exists)
    assert blocks(proxy, "ads.test")  # decisions go on meanwhile
    proxy.process.send_signal(signal.SIGINT)
    assert proxy.process.wait(PATIENCE) == 0
    assert slow_python.waits.exists()
    proxy.log.close()
    assert "Traceback" not in proxy.log.text()


@pytest.mark.thorough
def test_a_policy_that_is_set_while_another_is_compiled_comes_into_force(
    start: Start, tmp_path: Path, slow_python: SlowPython
) -> None:
    first = simple_policy(tmp_path / "first", "first.test/")
    second = simple_policy(tmp_path / "second", "second.test/")
    proxy = start(policy=first, scripts=["setting.py"])
    slow_python.flag.touch()
    write_list(first.with_name("rules.yaml"), "changed.test/")
    assert eventually(slow_python.waits.exists)
    slow_python.flag.unlink()
    assert set_policy(proxy, second) == (204, "")
    assert eventually(lambda: blocks(proxy, "second.test"))
    assert not blocks(proxy, "first.test")
    assert "the last good rules stay" not in proxy.log.text()
    assert "Traceback" not in proxy.log.text()
