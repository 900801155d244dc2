"""``hushlist fleet status``: a line for each proxy, and what is wrong with it."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from hushlist.extensions.fleet.proxy_records import ProxyRecord, ProxyRecords
from unit.cli.running import Run


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProxyRecords:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return ProxyRecords(tmp_path / "hushlist" / "fleet.sqlite", time.time)


def record(port: int, policy: str = "a") -> ProxyRecord:
    now = time.time()
    return ProxyRecord(
        f"gate:{port}", now, now - 3700, "0.2.0", 64 * policy, 64 * "b", "block", 1234, now, rate=12.34, memory=85 << 20
    )


def test_proxies_that_agree_are_good(run: Run, store: ProxyRecords) -> None:
    store.beat(record(8081))
    store.beat(record(8082))
    code, out, err = run("fleet", "status")
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert re.fullmatch(
        r"gate:8081  0\.2\.0  policy a{12}  index b{12}  1,234 rules  mode block  up 1 h 1 min  12\.3 requests/s"
        r"  89 MB  seen \d+ s ago",
        first,
    )
    assert second.startswith("gate:8082  ")


def test_one_that_differs_is_named(run: Run, store: ProxyRecords) -> None:
    for port, policy in ((8081, "a"), (8082, "c"), (8083, "a")):
        store.beat(record(port, policy))
    code, out, _ = run("fleet", "status")
    lines = out.splitlines()
    assert code == 1
    assert len(lines) == 4
    assert lines[2] == "  another policy than the others: cccccccccccc, and not aaaaaaaaaaaa"
    code, out, _ = run("fleet", "status", "--json")
    assert code == 1
    told = [json.loads(line) for line in out.splitlines()]
    assert [(one["name"], one["policy_digest"], len(one["troubles"])) for one in told] == [
        ("gate:8081", 64 * "a", 0),
        ("gate:8082", 64 * "c", 1),
        ("gate:8083", 64 * "a", 0),
    ]


@pytest.mark.usefixtures("store")
def test_no_proxy_is_not_good(run: Run) -> None:
    code, out, err = run("fleet", "status")
    assert (code, out) == (1, "")
    assert "no proxy has said anything in " in err
