"""A list becomes much worse while requests run: what was blocked stays blocked, and a person is told and decides."""

from __future__ import annotations

import re
import shlex
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.policies import replace, write_policy
from e2e.proxy import Proxy, blocks, eventually
from hushlist.cli import main

Start = Callable[..., Proxy]

PAGE = "<!DOCTYPE html>\n<title>502 Bad Gateway</title>\n<p>please.try-again.example\n"


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy of two lists, and a cache that only the proxies of this test use."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    write_bad(tmp_path / "bad.txt", 200)
    (tmp_path / "other.txt").write_text("one.test\n")
    return write_policy(tmp_path, ["bad.txt", "other.txt"])


def write_bad(file: Path, number: int) -> None:
    replace(file, "".join(f"h{own}.test\n" for own in range(number - 1)) + "bad.test\n")


def held_by(proxy: Proxy) -> dict[str, str]:
    """What the live page says of lists that are held back."""
    data = proxy.get("http://hushlist.internal/api/v1/live", {"X-Hushlist": "live"}).json()
    lists = data["policy"]["lists"]
    return {Path(one["file"]).name: one["held"] for one in lists if one["held"]}


def accept(why: str) -> None:
    """Run the command that a message names."""
    program, *arguments = shlex.split(why.rpartition(": ")[2])
    assert program == "hushlist"
    assert main(arguments) == 0


def test_what_was_blocked_stays_blocked_until_a_person_accepts(start: Start, policy: Path) -> None:
    proxy, bad = start(policy=policy), policy.with_name("bad.txt")
    stop, statuses = threading.Event(), set[int]()

    def ask() -> None:
        with proxy.client() as client:
            while not stop.is_set():
                statuses.add(client.get("http://bad.test/").status_code)
                time.sleep(0.02)

    with ThreadPoolExecutor(2) as threads:
        clients = [threads.submit(ask) for _ in range(2)]
        try:
            for text in (PAGE, "", "h1.test\n"):
                seen = len(proxy.log)
                bad.write_text(text)  # in place, as "curl -o" does
                proxy.log.wait_for(rf"{re.escape(str(bad))}.*: held back: ", seen)
            policy.with_name("other.txt").write_text("two.test\n")
            assert eventually(lambda: blocks(proxy, "two.test") and not blocks(proxy, "one.test"))
        finally:
            stop.set()
        for client in clients:
            client.result()
    assert statuses == {403}
    why = held_by(proxy)["bad.txt"]
    assert why.startswith("held back: it loses 199 of 200 rules, more than 50 %; its last good copy stays in force")
    assert why.endswith(f"hushlist update --policy {policy} --accept {bad}")
    assert f'hushlist_list_held_back{{file="{bad}"}} 1' in proxy.get("http://hushlist.internal/metrics").text
    accept(why)
    assert eventually(lambda: not blocks(proxy, "bad.test"))
    assert blocks(proxy, "h1.test")
    assert held_by(proxy) == {}


def test_after_a_restart_the_good_copy_is_still_known(start: Start, policy: Path) -> None:
    start(policy=policy).stop()
    policy.with_name("bad.txt").write_text(PAGE)
    proxy = start(policy=policy)
    assert blocks(proxy, "bad.test")
    assert "the file begins as a web page does" in held_by(proxy)["bad.txt"]
    assert "held back" in proxy.log.text()
    write_bad(policy.with_name("bad.txt"), 150)
    assert eventually(lambda: held_by(proxy) == {})
    assert blocks(proxy, "bad.test")


@pytest.mark.thorough
def test_two_proxies_that_share_a_cache(start: Start, policy: Path) -> None:
    proxies, bad = [start(policy=policy), start(policy=policy)], policy.with_name("bad.txt")
    for number in (190, 180, 170):
        write_bad(bad, number)
        for proxy in proxies:
            assert eventually(lambda proxy=proxy, gone=f"h{number}.test": not blocks(proxy, gone))
    write_bad(bad, 10)
    for proxy in proxies:
        assert eventually(lambda proxy=proxy: bool(held_by(proxy)))
        assert blocks(proxy, "h100.test")
    accept(held_by(proxies[0])["bad.txt"])
    for proxy in proxies:
        assert eventually(lambda proxy=proxy: not blocks(proxy, "h100.test"))
        assert blocks(proxy, "bad.test")
