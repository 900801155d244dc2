"""``hushlist doctor`` looks at an installation whose mitmdump runs."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from e2e.origin import LOOPBACK, Origin
from e2e.policies import simple_policy
from e2e.proxy import Proxy
from hushlist.cli import main

Findings = list[dict[str, str]]


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    return simple_policy(tmp_path / "policy", "ads.test/")


def doctor(policy: Path, port: int, confdir: Path) -> tuple[int, Findings]:
    """What it finds, and its exit code; what it says of root is left out."""
    printed = StringIO()
    with redirect_stdout(printed):
        code = main(
            ["doctor", "--policy", str(policy), "--proxy", f"{LOOPBACK}:{port}", "--confdir", str(confdir), "--json"]
        )
    found = [json.loads(line) for line in printed.getvalue().splitlines()]
    return code, [one for one in found if "root asks" not in one["what"]]


def said(found: Findings, about: str) -> list[tuple[str, str]]:
    return [(one["condition"], one["what"]) for one in found if one["about"] == about]


def bad(found: Findings) -> list[str]:
    return [one["what"] for one in found if one["condition"] in ("warning", "wrong")]


def test_an_installation_that_works_has_nothing_to_find(
    policy_file: Path, start: Callable[..., Proxy], origin: Origin
) -> None:
    proxy = start(policy=policy_file)
    with origin.watch() as arrivals:
        code, found = doctor(policy_file, proxy.port, proxy.authority.parent)
    assert bad(found) == []
    assert code == (1 if os.name == "posix" and os.geteuid() == 0 else 0)
    assert [condition for condition, _ in said(found, "proxy")] == ["good", "good"]
    assert arrivals.connections == 0, "it asked somebody else"
    assert said(found, "ports") == [("good", f"port {proxy.port} is open at {LOOPBACK}: for this machine alone")]
    assert {one["about"] for one in found} >= {"versions", "policy", "clock", "authority", "router"}


def test_nothing_at_all_is_found_and_so_is_a_broken_policy(policy_file: Path, tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
    policy_file.write_text("layers: 7\n")
    code, found = doctor(policy_file, port, tmp_path)
    assert code == 1
    assert any("policy.yaml:1:" in what for what in bad(found))
    assert any("nothing answers" in what for what in bad(found))


def test_without_a_policy_it_cannot_look(tmp_path: Path) -> None:
    assert doctor(tmp_path / "none.yaml", 9, tmp_path) == (2, [])
