"""``hushlist doctor`` looks at an installation whose mitmdump runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from e2e.origin import LOOPBACK, Origin, write_certificate
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


def test_another_authority_is_found(policy_file: Path, start: Callable[..., Proxy], tmp_path: Path) -> None:
    proxy = start(policy=policy_file)
    other = tmp_path / "other"
    other.mkdir()
    write_certificate(other)
    (other / "origin.pem").rename(other / "mitmproxy-ca-cert.pem")
    code, found = doctor(policy_file, proxy.port, other)
    assert code == 1
    assert any(f"but not by the authority {other}" in what for what in bad(found))


def test_what_the_proxy_says_of_itself_is_a_finding(policy_file: Path, start: Callable[..., Proxy]) -> None:
    proxy = start(policy=policy_file, options={"hushlist_health": f"{LOOPBACK}:0"})
    proxy.process.send_signal(signal.SIGTERM)
    proxy.log.wait_for("stopping")
    code, found = doctor(policy_file, proxy.port, proxy.authority.parent)
    assert code == 1
    assert any("it is stopping" in what for what in bad(found))


def test_a_page_that_is_not_for_this_machine_is_no_finding(tmp_path: Path, start: Callable[..., Proxy]) -> None:
    policy = simple_policy(tmp_path / "policy", "ads.test/")
    policy.write_text(policy.read_text() + "live: off\n")
    proxy = start(policy=policy)
    _, found = doctor(policy, proxy.port, proxy.authority.parent)
    assert bad(found) == []
    assert "does not show this machine its live page" in said(found, "proxy")[0][1]


def test_a_proxy_that_asks_for_a_password_is_no_finding(policy_file: Path, start: Callable[..., Proxy]) -> None:
    proxy = start(policy=policy_file, options={"proxyauth": "anna:secret"})
    _, found = doctor(policy_file, proxy.port, proxy.authority.parent)
    assert said(found, "proxy")[0][0] == "cannot tell"


@contextmanager
def another_server(answer: bytes) -> Iterator[int]:
    """Something else at the proxy's port."""
    with socket.create_server((LOOPBACK, 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 404 Not Findings\r\nContent-Length: 0\r\n\r\n", b"SSH-2.0-x\r\n", b""])
def test_another_server_is_found(policy_file: Path, tmp_path: Path, answer: bytes) -> None:
    with another_server(answer) as port:
        code, found = doctor(policy_file, port, tmp_path)
    assert code == 1
    (told,) = [what for condition, what in said(found, "proxy") if condition == "wrong"]
    assert "is not Hushlist" in told or "nothing answers" in told


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
