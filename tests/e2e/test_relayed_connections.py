"""Connections that are relayed undecrypted end where they would no longer be; all others go on."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from e2e.origin import LOOPBACK, Origin, free_ports
from e2e.policies import replace, write_list, write_policy
from e2e.proxy import PATIENCE, Proxy
from e2e.test_tunnels import is_the_origin_s, records, tls_over
from hushlist.extensions.unblock.overrides import Overrides

DAY, NIGHT = "2026-11-16T20:59%2B00:00", "2026-11-16T21:00%2B00:00"
#: octets of a download: many times what all buffers on its way hold
SIZE = 64 << 20


def policy_of(folder: Path, *always: str, relayed: str = "end", decrypt: str = "where-needed") -> Path:
    """Video is blocked at night, the other rules hold always; a bank is not decrypted, whatever the rules."""
    folder.mkdir(exist_ok=True)
    write_list(folder / "always.yaml", "ads.test", *always)
    write_list(folder / "night.yaml", "video.test", "video.bank.test", {"address": "127.0.0.0/8"})
    layers = [
        {"name": "always", "lists": ["always.yaml"]},
        {"name": "night", "lists": ["night.yaml"], "during": "night"},
    ]
    more = {"pass-through": ["bank.test"], "log": {"folder": "log", "what": "all"}, "timezone": "UTC"}
    nights = {"schedules": {"night": {"times": "21:00-06:00"}}}
    policy = write_policy(folder, relayed=relayed, decrypt=decrypt, **more, **nights)
    text = policy.read_text(encoding="utf-8").replace("layers: []\n", "")
    policy.write_text(f"{text}layers: {layers}\n", encoding="utf-8")
    return policy


def at(proxy: Proxy, moment: str) -> None:
    assert proxy.get(f"http://clock.test/?at={moment}").status_code == 204


@contextmanager
def relayed(proxy: Proxy, host: str) -> Iterator[ssl.SSLSocket]:
    """TLS to the origin itself."""
    with tls_over(proxy.tunnel(host, 443), host) as tls:
        assert is_the_origin_s(tls)
        tls.settimeout(PATIENCE)
        yield tls


def ask(tls: ssl.SSLSocket, host: str, path: str = "/") -> bytes:
    """The first octets of an answer; the connection stays open."""
    tls.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return tls.recv(1 << 14)


def rest(connection: socket.socket) -> int:
    """How many octets come before the connection ends."""
    count = 0
    with suppress(ConnectionError, ssl.SSLError):
        while chunk := connection.recv(1 << 16):
            count += len(chunk)
    return count


def is_open(tls: ssl.SSLSocket, host: str) -> bool:
    """Whether a request is answered."""
    with suppress(ConnectionError, ssl.SSLError):
        answer = ask(tls, host)
        while not answer.endswith(b"from the origin") and (chunk := tls.recv(1 << 14)):
            answer += chunk
        return b"200" in answer
    return False


@pytest.fixture
def large(origin: Origin) -> str:
    origin.pages["/large"] = "application/octet-stream", bytes(SIZE)
    return "/large"


@pytest.mark.parametrize(
    "host",
    ["video.test", *(pytest.param(one, marks=pytest.mark.thorough) for one in ("www.video.test", "video.bank.test"))],
)
def test_a_download_ends_when_a_schedule_begins_and_another_goes_on(
    start: Callable[..., Proxy], tmp_path: Path, large: str, host: str
) -> None:
    policy = policy_of(tmp_path / "own")
    proxy = start(policy=policy, scripts=["clock.py"])
    at(proxy, DAY)
    with relayed(proxy, host) as blocked, relayed(proxy, "good.test") as other:
        for tls, name in ((blocked, host), (other, "good.test")):
            assert b"200" in ask(tls, name, large)
        at(proxy, NIGHT)
        proxy.log.wait_for(rf"no connection for .* to https://{host}/")
        assert rest(blocked) < SIZE // 2
        assert rest_of(other, SIZE // 2)
    proxy.stop()
    (ended,) = (one for one in records(policy) if one["method"] == "CONNECT" and one["action"] == "block")
    assert ended["url"] == f"https://{host}/"


def test_what_a_client_only_reads_on_ends_when_a_schedule_begins(start: Callable[..., Proxy], tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as server:

        def serve() -> None:
            accepted, _ = server.accept()
            with accepted, suppress(OSError):
                while accepted.sendall(bytes(100)) is None:
                    time.sleep(0.02)

        threading.Thread(target=serve, daemon=True).start()
        (port,) = free_ports(1)
        more = f"reverse:tcp://{LOOPBACK}:{server.getsockname()[1]}@{LOOPBACK}:{port}"
        options = {"upstream_others": "true"}
        proxy = start(policy=policy_of(tmp_path / "own"), more_modes=[more], scripts=["clock.py"], options=options)
        at(proxy, DAY)
        with socket.create_connection((LOOPBACK, port), timeout=PATIENCE) as own:
            own.sendall(b"begin")
            own.shutdown(socket.SHUT_WR)
            assert rest_of(own, 300)
            at(proxy, NIGHT)
            proxy.log.wait_for(r"no connection for .* to tcp://127\.0\.0\.1")
            rest(own)


def rest_of(connection: socket.socket, size: int) -> bool:
    """Whether so many octets come."""
    while size > 0 and (chunk := connection.recv(1 << 16)):
        size -= len(chunk)
    return size <= 0


def test_what_the_policy_keeps_goes_on_when_a_schedule_begins(start: Callable[..., Proxy], tmp_path: Path) -> None:
    proxy = start(policy=policy_of(tmp_path / "own", relayed="keep"), scripts=["clock.py"])
    at(proxy, DAY)
    with relayed(proxy, "video.test") as tls, relayed(proxy, "video.bank.test") as passed:
        at(proxy, NIGHT)
        time.sleep(2.5)
        assert is_open(tls, "video.test")
        assert is_open(passed, "video.bank.test")


def test_what_a_new_rule_needs_or_blocks_ends_and_what_is_passed_through_only_if_it_is_blocked(
    start: Callable[..., Proxy], tmp_path: Path
) -> None:
    proxy = start(policy=policy_of(tmp_path / "own"))
    hosts = {"path.test": False, "new.test": False, "path.bank.test": True, "new.bank.test": False, "good.test": True}
    opened = {host: relayed(proxy, host) for host in hosts}
    connections = {host: one.__enter__() for host, one in opened.items()}
    policy_of(tmp_path / "own", "path.test/x", "new.test", "path.bank.test/x", "new.bank.test")
    proxy.log.wait_for("ended the connection of .* to path.test: it would be decrypted now: there are rules for paths")
    for host in ("new.test", "new.bank.test"):
        proxy.log.wait_for(f"no connection for .* to https://{host}/")
    assert {host: is_open(tls, host) for host, tls in connections.items()} == hosts
    for one in opened.values():
        one.__exit__(None, None, None)


def test_what_was_unblocked_ends_with_the_unblock(
    start: Callable[..., Proxy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Overrides(tmp_path / "state" / "hushlist" / "overrides.sqlite", time.time) as overrides:
        first = overrides.grant("host", "www.bank.test", 600, how="command", by="me")
        overrides.grant("host", "other.bank.test", 600, how="command", by="me")
        proxy = start(policy=policy_of(tmp_path / "own", "bank.test"))
        with relayed(proxy, "www.bank.test") as revoked, relayed(proxy, "other.bank.test") as other:
            assert is_open(revoked, "www.bank.test")
            assert overrides.revoke(first.id, by="me")
            proxy.log.wait_for("no connection for .* to https://www.bank.test/")
            assert not is_open(revoked, "www.bank.test")
            assert is_open(other, "other.bank.test")


def test_what_was_begun_while_the_filter_was_off_ends_where_it_is_blocked(
    start: Callable[..., Proxy], tmp_path: Path
) -> None:
    policy = policy_of(tmp_path / "own", "new.bank.test")
    text = policy.read_text(encoding="utf-8")
    proxy = start(policy=replace(policy, f"{text}mode: 'off'\n"))
    with relayed(proxy, "new.bank.test") as blocked, relayed(proxy, "other.bank.test") as other:
        assert is_open(blocked, "new.bank.test")
        assert is_open(other, "other.bank.test")
        replace(policy, text)
        proxy.log.wait_for("no connection for .* to https://new.bank.test/")
        assert not is_open(blocked, "new.bank.test")
        assert is_open(other, "other.bank.test")


def test_datagrams_no_longer_arrive_when_a_schedule_begins(start: Callable[..., Proxy], tmp_path: Path) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own,
    ):
        echo.bind((LOOPBACK, 0))
        own.settimeout(PATIENCE)
        arrived: list[bytes] = []

        def answer() -> None:
            while (received := echo.recvfrom(100))[0] != b"end":
                arrived.append(received[0])
                echo.sendto(*received)

        threading.Thread(target=answer, daemon=True).start()
        more = f"reverse:udp://{LOOPBACK}:{echo.getsockname()[1]}@{LOOPBACK}:0"
        proxy = start(policy=policy_of(tmp_path / "own"), more_modes=[more], scripts=["clock.py"])
        port = int(proxy.log.wait_for(rf"reverse proxy to udp\S* listening at {LOOPBACK}:(\d+)")[1])
        at(proxy, DAY)
        own.connect((LOOPBACK, port))
        own.send(b"by day")
        assert own.recv(100) == b"by day"
        at(proxy, NIGHT)
        proxy.log.wait_for(r"no connection for .* to udp://127\.0\.0\.1")
        for _ in range(3):
            own.send(b"by night")
        own.settimeout(1)
        with pytest.raises(TimeoutError):
            own.recv(100)
        assert proxy.log.text().count("no connection for") == 1
        echo.sendto(b"end", echo.getsockname())
        assert arrived == [b"by day"]
