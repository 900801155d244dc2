"""Several workers by one command: to clients they are one proxy.

``tests/faults/run.py`` tries, under load, what becomes of clients where one of them fails.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from e2e.origin import Origin
from e2e.proxy import Proxy, end_cleanly
from e2e.test_quotas import NOON, policy_of
from e2e.test_unblock import prepared, unlock
from faults.workers_lab import WorkersLab, children, workers
from unit.cli.running import environment

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="several workers need Linux"),
    pytest.mark.xdist_group("workers"),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[WorkersLab]:
    """Two workers that tests share."""
    with WorkersLab(tmp_path_factory.mktemp("lab"), origin).running() as lab:
        yield lab


# -- what is exact, although each request may come to another worker ---------------------------------------------------


@contextmanager
def two(folder: Path, origin: Origin, policy: Path, *scripts: str) -> Iterator[Proxy]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        with workers(folder / "home", origin, policy, scripts=scripts) as proxy:
            yield proxy


def at(proxy: Proxy, **later: float) -> None:
    """Set the clock of both workers."""
    moment = (NOON + timedelta(**later)).isoformat().replace("+", "%2B")
    told = set[str]()
    while len(told) < 2:
        told.add(proxy.get(f"http://clock.test/?at={moment}").headers["process"])


@pytest.mark.thorough
def test_a_quota_is_exact(tmp_path: Path, origin: Origin) -> None:
    with two(tmp_path, origin, policy_of(tmp_path / "policy", 4), "clock.py") as proxy:
        for minute in range(4):
            at(proxy, minutes=minute)
            assert proxy.get("http://game.test/").status_code == 200
            at(proxy, minutes=minute, seconds=59)
            assert {proxy.get("http://game.test/").status_code for _ in range(4)} == {200}
        at(proxy, minutes=4)
        assert {proxy.get("http://game.test/").status_code for _ in range(12)} == {403}


@pytest.mark.thorough
def test_a_grant_holds_with_the_next_request_and_wrong_tries_are_counted_once(tmp_path: Path, origin: Origin) -> None:
    with prepared(tmp_path) as folder, two(folder, origin, folder / "policy.yaml", "calling.py") as proxy:
        for number in range(5):
            url = f"http://{number}.games.test/"
            with proxy.client() as client:
                assert unlock(client, url).status_code == 303
            assert {proxy.get(url).status_code for _ in range(6)} == {200}
        for _ in range(5):
            with proxy.client() as client:
                assert unlock(client, "http://path.test/secret/", "guess").status_code == 403
        for _ in range(4):
            with proxy.client() as client:
                assert unlock(client, "http://path.test/secret/").status_code == 403


def decided(proxy: Proxy) -> int:
    """How many decisions the metrics have, whichever worker tells."""
    text = proxy.get("http://hushlist.internal/metrics").text
    return sum(int(number) for number in re.findall(r"^hushlist_decisions_total\{.*\} (\d+)$", text, re.MULTILINE))


def page_data(proxy: Proxy, since: int = 0, of: str = "") -> dict[str, Any]:
    found = proxy.get(f"http://hushlist.internal/api/v1/live?since={since}&of={of}", {"X-Hushlist": "live"})
    data: dict[str, Any] = found.json()
    return data


def test_metrics_and_the_live_page_are_of_all(lab: WorkersLab) -> None:
    proxy, before = lab.proxy, decided(lab.proxy)
    first = page_data(proxy)
    urls = [f"http://fine.test/{number}" for number in range(20)]
    assert {proxy.get(url).status_code for url in urls} == {200}
    assert {decided(proxy) for _ in range(8)} == {before + 20}
    second = page_data(proxy, first["last"], first["of"])
    assert sorted(one["url"] for one in second["decisions"]) == sorted(urls)
    assert second["counts"]["total"] == first["counts"]["total"] + 20
    assert page_data(proxy, second["last"], second["of"])["decisions"] == []
    lab.restart()
    assert {decided(proxy) for _ in range(8)} == {before + 20}
    assert page_data(proxy)["counts"]["total"] == second["counts"]["total"]


def test_all_workers_end_with_the_command(lab: WorkersLab) -> None:
    """Behind the tests that share them."""
    processes = children(lab.proxy)
    end_cleanly(lab.proxy, signal.SIGTERM)
    assert len(processes) == 2
    assert not [number for number in processes if Path(f"/proc/{number}").exists()]


@pytest.mark.thorough
def test_what_cannot_be_shared_ends_the_start(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hushlist", "proxy", "--workers", "2", "--", "--mode"]
    for mode in ("dns@127.0.0.1:0", "wireguard@127.0.0.1:0"):
        done = subprocess.run([*command, mode], capture_output=True, text=True, env=environment(HOME=str(tmp_path)))
        assert done.returncode == 2
        assert f"{mode}: several workers cannot share this mode" in done.stdout + done.stderr


@pytest.mark.thorough
def test_a_policy_with_a_mistake_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("layers: none\n", encoding="utf-8")
    command = [sys.executable, "-m", "hushlist", "proxy", "--workers", "2", "--", "--listen-port", "0"]
    command += ["--set", f"hushlist_policy={tmp_path / 'policy.yaml'}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(HOME=str(tmp_path)))
    assert done.returncode == 2
    assert "policy.yaml" in done.stdout + done.stderr
    assert "worker 1 does not start: it ended with exit code 1" in done.stderr
