"""A connection becomes one for another protocol than WebSocket only where nobody has to read it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.origin import PATIENCE
from e2e.plain_origin import PlainOrigin
from e2e.proxy import Answer, Proxy, mitmdump, read_answer


class SwitchingOrigin(PlainOrigin):
    """An HTTP origin that switches to whatever it is asked to, and then says everything twice."""

    def __init__(self) -> None:
        super().__init__(self._switch)
        self.heads: list[bytes] = []
        #: what it was sent behind a switch
        self.said = b""

    def _switch(self, connection: socket.socket) -> None:
        received = b""
        while True:
            while b"\r\n\r\n" not in received:
                received += (chunk := connection.recv(65536))
                if not chunk:
                    return
            head, _, received = received.partition(b"\r\n\r\n")
            self.heads.append(head)
            fields = {name.lower(): value for name, _, value in (one.partition(b": ") for one in head.split(b"\r\n"))}
            while len(received) < int(fields.get(b"content-length", 0)):
                received += connection.recv(65536)
            received = received[int(fields.get(b"content-length", 0)) :]
            if b"upgrade" not in fields:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                continue
            switched = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %b\r\n\r\nwelcome "
            connection.sendall(switched % fields[b"upgrade"])
            while True:
                self.said += received
                connection.sendall(received * 2)
                received = connection.recv(65536)
                if not received:
                    return


@pytest.fixture
def switching() -> Iterator[SwitchingOrigin]:
    with SwitchingOrigin() as running:
        yield running


@pytest.fixture
def behind(tmp_path: Path, switching: SwitchingOrigin) -> Iterator[Callable[..., Proxy]]:
    """Starts a proxy that passes hosts through."""
    running = []

    def start(more: str = "pass-through: [passed.test]\n", **options: object) -> Proxy:
        folder = tmp_path / "policy"
        folder.mkdir()
        (folder / "own.yaml").write_text("rules:\n  - blocked.test\n  - half.test/secret/\n")
        policy = folder / "policy.yaml"
        policy.write_text(f"layers: [{{name: own, lists: [own.yaml]}}]\n{more}")
        (home := tmp_path / "mitmdump").mkdir()
        running.append(mitmdump(home, switching, policy=policy, options=options))
        return running[0].__enter__()

    yield start
    for one in running:
        one.__exit__(None, None, None)


def head_of(host: str, *lines: str, method: str = "GET", protocol: str = "tcp", path: str = "/") -> bytes:
    fields = [f"Host: {host}", "Connection: Upgrade", f"Upgrade: {protocol}", *lines]
    return "\r\n".join([f"{method} http://{host}{path} HTTP/1.1", *fields, "", ""]).encode()


def ask(proxy: Proxy, octets: bytes) -> Answer:
    with proxy.connect() as connection:
        connection.sendall(octets)
        answer = read_answer(connection)
        if answer.headers.get("connection") == "close":
            assert connection.recv(1) == b""
        return answer


def talk(proxy: Proxy, octets: bytes, said: bytes) -> None:
    """Switch, and see that what is said goes both ways, also what is said at once."""
    with proxy.connect() as connection:
        connection.settimeout(PATIENCE)
        connection.sendall(octets + said)
        received = b""
        for said_by_origin in (b"welcome " + said * 2, b"more" * 2):
            while not received.endswith(said_by_origin):
                received += (chunk := connection.recv(65536))
                assert chunk, received
            connection.sendall(b"more")
        assert received.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")


@pytest.mark.parametrize(
    "protocol",
    [
        "tcp",
        pytest.param("SPDY/3.1", marks=pytest.mark.thorough),
        pytest.param("DERP", marks=pytest.mark.thorough),
        pytest.param("tls", marks=pytest.mark.thorough),
    ],
)
def test_where_nobody_reads_the_host_any_protocol_is_passed_on(
    behind: Callable[..., Proxy], switching: SwitchingOrigin, protocol: str
) -> None:
    proxy = behind()
    talk(proxy, head_of("passed.test", protocol=protocol), b"\x00\x01")
    body = b'{"Tty": true}'
    head = head_of("www.passed.test", f"Content-Length: {len(body)}", method="POST", protocol=protocol)
    talk(proxy, head + body, b"GET / HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize("option", ["tcp_hosts", "ignore_hosts"])
def test_so_it_is_by_mitmproxy_s_options(behind: Callable[..., Proxy], option: str) -> None:
    proxy = behind("", **{option: r"passed\.test"})
    talk(proxy, head_of("passed.test"), b"ab")
    assert ask(proxy, head_of("other.test")).status == 502


def test_so_it_is_while_the_filter_is_off(behind: Callable[..., Proxy]) -> None:
    talk(behind("groups: [{name: own, clients: [127.0.0.1], mode: 'off'}]\n"), head_of("other.test"), b"ab")


@pytest.mark.parametrize(
    "protocol",
    [
        "tcp",
        "websocket",
        "foo, WebSocket",
        *(pytest.param(one, marks=pytest.mark.thorough) for one in ("SPDY/3.1", "DERP", "tls")),
    ],
)
def test_elsewhere_the_answer_says_why_not_and_nothing_more_goes_on(
    behind: Callable[..., Proxy], switching: SwitchingOrigin, protocol: str
) -> None:
    proxy = behind()
    secret = b"GET http://half.test/secret/x HTTP/1.1\r\nHost: half.test\r\n\r\n"
    asked = [
        ("other.test", ()),
        ("half.test", ()),
        ("passed.test", ("Host: other.test",)),
        ("passed.test.other.test", ()),
    ]
    for number, (host, names) in enumerate(asked, 1):
        answer = ask(proxy, head_of(host, *names, protocol=protocol) + secret)
        assert answer.status == 502
        assert f"{host} has switched to {protocol}".encode() in answer.body
        assert b"pass-through in the policy" in answer.body
        assert len(switching.heads) == number
    proxy.log.wait_for("has switched to")
    assert ask(proxy, head_of("other.test").replace(b"Upgrade", b"X")).status == 200
    assert switching.said == b""
    assert len(switching.heads) == len(asked) + 1


def switch(proxy: Proxy, octets: bytes) -> socket.socket:
    """Switch, and return the connection when the origin has spoken."""
    connection = proxy.connect()
    connection.settimeout(PATIENCE)
    connection.sendall(octets)
    received = b""
    while not received.endswith(b"welcome "):
        received += (chunk := connection.recv(65536))
        assert chunk, received
    return connection


def goes_on(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"a")
        return connection.recv(2) != b""
    except OSError:
        return False


def test_what_was_switched_ends_when_a_rule_comes_or_nobody_passes_it_through(
    behind: Callable[..., Proxy], tmp_path: Path
) -> None:
    proxy = behind("pass-through: [passed.test, other.test, kept.test]\n")
    names = ("passed.test", "other.test", "kept.test")
    passed, other, kept = (switch(proxy, head_of(host)) for host in names)
    with passed, other, kept:
        policy = tmp_path / "policy/policy.yaml"
        policy.write_text(policy.read_text().replace("passed.test, ", ""))
        proxy.log.wait_for(r"ended the connection of .* to passed\.test: nobody passes it through now")
        assert not goes_on(passed)
        assert goes_on(other)
        (tmp_path / "policy/own.yaml").write_text("rules:\n  - other.test\n")
        proxy.log.wait_for(r"no connection for .* to http://other\.test/")
        assert not goes_on(other)
        assert goes_on(kept)


def test_what_was_switched_while_the_filter_was_off_ends_with_that(
    behind: Callable[..., Proxy], tmp_path: Path
) -> None:
    proxy = behind("pass-through: [passed.test]\ngroups: [{name: own, clients: [127.0.0.1], mode: 'off'}]\n")
    passed, other = (switch(proxy, head_of(host)) for host in ("passed.test", "other.test"))
    with passed, other:
        policy = tmp_path / "policy/policy.yaml"
        policy.write_text(policy.read_text().replace("mode: 'off'", "mode: block"))
        proxy.log.wait_for(r"ended the connection of .* to other\.test: nobody passes it through now")
        assert not goes_on(other)
        assert goes_on(passed)


def test_what_is_blocked_is_blocked_though_it_is_passed_through(
    behind: Callable[..., Proxy], switching: SwitchingOrigin
) -> None:
    proxy = behind("pass-through: [blocked.test, half.test]\n")
    assert ask(proxy, head_of("blocked.test")).status == 403
    assert ask(proxy, head_of("half.test", path="/secret/x")).status == 403
    assert switching.heads == []
    talk(proxy, head_of("half.test"), b"ab")


def test_no_origin_is_asked_for_http_2_in_passing(behind: Callable[..., Proxy], switching: SwitchingOrigin) -> None:
    lines = ["HTTP2-Settings: AAMAAABkAAQAAP__"]
    head = head_of("other.test", *lines, protocol="h2c").replace(b": Upgrade", b": Upgrade, HTTP2-Settings")
    assert ask(behind(), head).body == b"ok"
    (arrived,) = switching.heads
    assert b"pgrade" not in arrived
    assert b"HTTP2" not in arrived
