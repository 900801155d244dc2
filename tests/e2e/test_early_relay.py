"""What is neither HTTP nor TLS: it flows where policy or options pass it, whoever begins, and else ends at once."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from e2e.origin import LOOPBACK, Origin
from e2e.plain_origin import PlainOrigin
from e2e.policies import write_list, write_policy
from e2e.proxy import PATIENCE, Proxy, read_answer
from e2e.test_tunnels import ask, is_the_origin_s, records, tls_over
from support.waiting import wait_until

GREETING = b"220 mail.test ESMTP\r\n"
OTHERS = {"upstream_others": "true"}


def greet(accepted: socket.socket) -> None:
    """As a mail server: it speaks first, and then answers each line."""
    accepted.sendall(GREETING)
    while line := accepted.recv(4096):
        accepted.sendall(b"250 " + line)


def echo(accepted: socket.socket) -> None:
    while data := accepted.recv(4096):
        accepted.sendall(data)


def hash_all(accepted: socket.socket) -> None:
    """Answers with the hash of all that comes before the client ends its side."""
    found = hashlib.sha256()
    while data := accepted.recv(1 << 16):
        found.update(data)
    accepted.sendall(found.hexdigest().encode())


Connect = Callable[[Proxy, str, int], socket.socket]
HOW = {"regular": Proxy.tunnel, "socks5": Proxy.by_socks}


@pytest.fixture(params=HOW, ids=str)
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def read_all(connection: socket.socket) -> bytes:
    """What comes before the connection ends."""
    received = b""
    with connection, suppress(ConnectionError):
        while chunk := connection.recv(1 << 16):
            received += chunk
    return received


def said(proxy: Proxy, how: str, host: str, port: int, octets: bytes) -> bytes:
    """What comes back for some octets until a connection ends, which is refused or ends at once."""
    if how == "regular":
        with proxy.connect() as asking:
            asking.sendall(b"CONNECT %s:%d HTTP/1.1\r\n\r\n" % (host.encode(), port))
            if read_answer(asking, "CONNECT").status == 403:
                return b""
    with HOW[how](proxy, host, port) as connection:
        connection.settimeout(3)  # below the time that a quiet connection has
        connection.sendall(octets)
        return read_all(connection)


def policy_of(folder: Path, *passed: str, **more: object) -> Path:
    folder.mkdir(exist_ok=True)
    write_list(folder / "rules.yaml", "blocked.test", "path.test/secret/", {"address": "203.0.113.0/24"})
    return write_policy(
        folder, ["rules.yaml"], **{"pass-through": list(passed), "log": {"folder": "log", "what": "all"}, **more}
    )


def test_a_server_may_speak_first_and_nobody_reads_what_follows(
    start: Callable[..., Proxy], tmp_path: Path, how: str
) -> None:
    policy = policy_of(tmp_path / "own", "mail.test", "blocked.test", "198.51.100.0/24", "2001:db8::/32")
    proxy, connect = start(policy=policy, proxy_mode=how, options=OTHERS), HOW[how]
    with PlainOrigin(greet) as server:
        hosts = ["mail.test", "a.mail.test", "198.51.100.7"]
        hosts += ["2001:db8::7"] if how == "socks5" else ["[2001:db8::7]"]
        for host in hosts:
            with connect(proxy, host, server.http_port) as connection:
                assert connection.recv(100) == GREETING
                for line in (b"EHLO x", b"\x16\x03\x01", b"GET / HTTP/1.1\r\nHost: blocked.test\r\n\r\n"):
                    connection.sendall(line)
                    assert connection.recv(100) == b"250 " + line, (host, line)
        assert server.connections == len(hosts)
    proxy.stop()
    passed = [one for one in records(policy) if one["method"] == "CONNECT"]
    assert [one["action"] for one in passed] == ["pass"] * len(hosts)


def test_a_client_may_speak_first(start: Callable[..., Proxy], tmp_path: Path) -> None:
    proxy = start(policy=policy_of(tmp_path / "own", "chat.test"), options=OTHERS)
    beginnings = {
        "SSH": b"SSH-2.0-x\r\n",
        "XMPP": b"<?xml version='1.0'?><stream:stream to='chat.test'>",
        "MQTT": b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00",
        "PostgreSQL": bytes.fromhex("0000000804d2162f"),
        "letters": b"hello",
        "Redis": b"GET key\r\n",
        "memcached": b"get key\r\n",
        "Gopher": b"\r\n",
        "RTSP": b"OPTIONS rtsp://chat.test/ RTSP/1.0\r\nCSeq: 1\r\n\r\n",
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    }
    with PlainOrigin(echo) as server:
        for name, octets in beginnings.items():
            with proxy.tunnel("chat.test", server.http_port) as connection:
                connection.sendall(octets)
                assert connection.recv(200) == octets, name
        assert server.connections == len(beginnings)


def test_either_side_may_end_first_and_much_flows_both_ways(start: Callable[..., Proxy], tmp_path: Path) -> None:
    proxy = start(policy=policy_of(tmp_path / "own", "chat.test"), options=OTHERS)
    sent = bytes(range(256)) * (1 << 16)  # 16 MiB
    with PlainOrigin(hash_all) as server, proxy.tunnel("chat.test", server.http_port) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection) == hashlib.sha256(sent).hexdigest().encode()
    for octets in (b"hello", b"GET /a"):  # the latter may become a request until the client has ended
        with PlainOrigin(hash_all) as server, proxy.tunnel("chat.test", server.http_port) as connection:
            connection.sendall(octets)
            connection.shutdown(socket.SHUT_WR)
            assert read_all(connection) == hashlib.sha256(octets).hexdigest().encode()
    answers: list[bytes] = []

    def say_all(accepted: socket.socket) -> None:
        accepted.sendall(sent)
        accepted.shutdown(socket.SHUT_WR)
        answers.append(accepted.recv(100))

    with PlainOrigin(say_all) as server, proxy.tunnel("chat.test", server.http_port) as connection:
        received = 0
        while chunk := connection.recv(1 << 16):
            received += len(chunk)
        assert received == len(sent)
        connection.sendall(b"thanks")
        wait_until(lambda: answers == [b"thanks"])


def lead_on(accepted: socket.socket) -> None:
    """As another proxy that is asked by CONNECT: each side may end before the other."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += accepted.recv(1)
    with socket.create_connection((LOOPBACK, int(head.split()[1].rpartition(b":")[2]))) as led:
        accepted.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        back = threading.Thread(target=_pump, args=(led, accepted), daemon=True)
        back.start()
        _pump(accepted, led)
        back.join(PATIENCE)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(1 << 16):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)


def greet_and_hash(accepted: socket.socket) -> None:
    accepted.sendall(GREETING)
    hash_all(accepted)


def test_each_side_may_end_first_behind_another_proxy(start: Callable[..., Proxy], tmp_path: Path) -> None:
    sent = bytes(range(256)) * (1 << 12)
    with PlainOrigin(lead_on) as other, PlainOrigin(hash_all) as server, PlainOrigin(greet_and_hash) as greeting:
        proxy = start(
            policy=policy_of(tmp_path / "own", "chat.test"),
            proxy_mode=f"upstream:http://{LOOPBACK}:{other.http_port}",
            options={**OTHERS, "upstream_proxy": other.http_port},
        )
        for octets in (sent, b"hello"):
            with proxy.tunnel("chat.test", server.http_port) as connection:
                connection.sendall(octets)
                connection.shutdown(socket.SHUT_WR)
                assert read_all(connection) == hashlib.sha256(octets).hexdigest().encode()
        with proxy.tunnel("chat.test", greeting.http_port) as connection:
            assert connection.recv(100) == GREETING  # after a second
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert read_all(connection) == hashlib.sha256(sent).hexdigest().encode()


def test_an_entry_with_a_port_passes_that_port_alone(start: Callable[..., Proxy], tmp_path: Path) -> None:
    with PlainOrigin(greet) as server, PlainOrigin(greet) as other:
        policy = policy_of(tmp_path / "own", f"mail.test:{server.http_port}")
        proxy = start(policy=policy, options=OTHERS)
        with proxy.tunnel("mail.test", server.http_port) as connection:
            assert connection.recv(100) == GREETING
        with proxy.tunnel("mail.test", other.http_port) as connection:
            connection.sendall(b"EHLO x\r\n")
            assert read_all(connection) == b""
        assert other.connections == 0
        proxy.log.wait_for(
            rf"ended a connection of a client to mail\.test:{other.http_port}: it is neither HTTP nor TLS, and "
            r"nobody passes it through; to do so, add to pass-through in .*policy\.yaml:\d+:  "
            rf"- 'mail\.test:{other.http_port}'"
        )


def test_what_nobody_passes_through_or_is_blocked_ends_at_once_and_is_told_once(
    start: Callable[..., Proxy], tmp_path: Path, how: str
) -> None:
    policy = policy_of(tmp_path / "own", "blocked.test", "203.0.113.7")
    proxy = start(policy=policy, proxy_mode=how, options=OTHERS)
    beginnings = (
        b"SSH-2.0-x\r\n",
        b"\x10\x0c\x00\x04MQTT",
        b"EHLO x\r\n",
        b"<?xml version='1.0'?>",
        b"\0",
        b"\x16\x04\0\0",
    )
    with PlainOrigin(echo) as server:
        for host in ("other.test", "blocked.test", "203.0.113.7"):
            for octets in beginnings:
                assert said(proxy, how, host, server.http_port, octets) == b"", (host, octets)
        assert server.connections == 0
    proxy.stop()
    blocked = [one for one in records(policy) if one["action"] == "block"]
    assert len(blocked) == 3 * len(beginnings)
    assert proxy.log.text().count("nobody passes it through") == 1


def test_on_ports_that_are_not_of_the_web_it_is_decided_before_anything_is_sent(
    start: Callable[..., Proxy], tmp_path: Path
) -> None:
    policy = policy_of(tmp_path / "own", "=mail.test:25")
    proxy = start(policy=policy, options=OTHERS)
    for port in (21, 22, 25, 143, 587, 3306, 5222):
        answer = proxy.send(b"CONNECT other.test:%d HTTP/1.1\r\n\r\n" % port)
        assert answer.status == 403
        assert b"neither HTTP nor TLS" in answer.body
    proxy.log.wait_for(r"to other\.test:25: its port is no port of the web.*- 'other\.test:25'")
    assert proxy.send(b"CONNECT mail.test:25 HTTP/1.1\r\n\r\n", "CONNECT").status == 200
    assert proxy.send(b"CONNECT a.mail.test:25 HTTP/1.1\r\n\r\n").status == 403


def test_socks_refuses_what_is_decided_before_anything_is_sent(start: Callable[..., Proxy], tmp_path: Path) -> None:
    proxy = start(policy=policy_of(tmp_path / "own", "mail.test:25"), proxy_mode="socks5", options=OTHERS)
    for host, port, answer in (
        ("other.test", 25, 4),
        ("mail.test", 25, 0),
        ("mail.test", 22, 4),
        ("198.51.100.1", 22, 4),
    ):
        connection, told = proxy.ask_by_socks(host, port)
        connection.close()
        assert told == answer, (host, port)


def test_in_transparent_mode_addresses_are_passed_and_what_is_refused_ends_before_anything_is_sent(
    start: Callable[..., Proxy], tmp_path: Path
) -> None:
    with PlainOrigin(greet) as server:
        for own, passed in (("a", "198.51.100.0/24"), ("b", f"198.51.100.7:{server.http_port}")):
            proxy = start(
                policy=policy_of(tmp_path / own, passed),
                proxy_mode="transparent",
                scripts=["transparent.py"],
                options={**OTHERS, "original_port": server.http_port},
            )
            with proxy.connect() as connection:
                assert connection.recv(100) == GREETING
                connection.sendall(b"QUIT\r\n")
                assert connection.recv(100) == b"250 QUIT\r\n"
    proxy = start(
        policy=policy_of(tmp_path / "c", "mail.test"),
        proxy_mode="transparent",
        scripts=["transparent.py"],
        options={**OTHERS, "original_port": 22},
    )
    with proxy.connect() as connection:
        connection.settimeout(3)
        assert read_all(connection) == b""
    proxy.log.wait_for(r"to 198\.51\.100\.7:22: its port is no port of the web.*- '198\.51\.100\.7:22'")


@pytest.mark.parametrize("mode", ["transparent", "regular"])
def test_where_the_client_waits_for_a_server_it_is_told_within_seconds(
    start: Callable[..., Proxy], tmp_path: Path, mode: str
) -> None:
    with PlainOrigin(greet) as server:
        proxy = start(
            policy=policy_of(tmp_path / "own"),
            proxy_mode=mode,
            scripts=["transparent.py"],
            options={**OTHERS, "original_port": server.http_port},
        )
        with proxy.connect() if mode == "transparent" else proxy.tunnel("mail.test", server.http_port) as connection:
            began = time.monotonic()
            assert read_all(connection) == b""
            assert 2 < time.monotonic() - began < 10
        assert server.connections == 0
    proxy.log.wait_for(r"nothing has come in 4 seconds that is HTTP or TLS, and nobody passes it through")


def test_in_decrypted_tls_the_same_holds(start: Callable[..., Proxy], tmp_path: Path) -> None:
    proxy = start(policy=policy_of(tmp_path / "own"), options=OTHERS)
    with tls_over(proxy.tunnel("mail.test", 993), "mail.test") as tls:
        tls.settimeout(3)
        assert not is_the_origin_s(tls)
        assert read_all(tls) == b""
    proxy.log.wait_for(r"to mail\.test:993: its port is no port of the web")
    with tls_over(proxy.tunnel("mail.test", 443), "mail.test") as tls:
        tls.settimeout(3)
        tls.sendall(b"SSH-2.0-x\r\n")
        assert read_all(tls) == b""
    with tls_over(proxy.tunnel("mail.test", 443), "mail.test") as tls:
        assert b"from the origin" in ask(tls, "mail.test")


def test_http_is_read_also_where_everything_is_passed_through(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path, how: str
) -> None:
    policy = policy_of(tmp_path / "own", "path.test", "192.0.2.0/24")
    proxy, connect = start(policy=policy, proxy_mode=how), HOW[how]
    with origin.watch() as arrived:
        for pieces in (
            [b"GET /secret/x HTTP/1.1\r\n"],
            [b"G", b"ET /sec", b"ret/x HTTP/1.1\r\n"],
            [b"\r\nGET /secret/x HTTP/1.1\r\n"],
        ):
            with connect(proxy, "path.test", 8080) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for piece in pieces:
                    connection.sendall(piece)
                    time.sleep(0.3)  # longer than the server waits to be connected
                connection.sendall(b"Host: path.test\r\n\r\n")
                assert read_answer(connection).status == 403, pieces
        with connect(proxy, "192.0.2.7", 80) as connection:
            assert b" 403 " in ask(connection, "blocked.test")
    assert not arrived.requests
    with connect(proxy, "path.test", 8080) as connection:
        assert b"from the origin" in ask(connection, "path.test")


def test_tls_for_another_name_is_decrypted_on_every_port(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path, how: str
) -> None:
    proxy = start(policy=policy_of(tmp_path / "own", "bank.test", "192.0.2.0/24"), proxy_mode=how)
    hosts = ("bank.test", "bank.test", True), ("bank.test", "evil.test", False), ("192.0.2.7", "blocked.test", False)
    with ExitStack() as opened:
        tunnels = [opened.enter_context(HOW[how](proxy, host, 8443)) for host, _, _ in hosts]
        time.sleep(1.3)  # the servers are connected to by then
        for tunnel, (_, name, is_passed) in zip(tunnels, hosts, strict=True):
            with tls_over(tunnel, name) as tls:
                assert is_the_origin_s(tls) is is_passed, name
                if name == "blocked.test":
                    assert b" 403 " in ask(tls, name)


def test_a_relay_ends_when_a_rule_comes_or_its_entry_goes(start: Callable[..., Proxy], tmp_path: Path) -> None:
    folder = tmp_path / "own"
    policy = policy_of(folder, "mail.test", "chat.test", "kept.test")
    proxy = start(policy=policy, options=OTHERS)
    with PlainOrigin(greet) as server:
        mail, chat, kept = (proxy.tunnel(host, server.http_port) for host in ("mail.test", "chat.test", "kept.test"))
        for connection in (mail, chat, kept):
            assert connection.recv(100) == GREETING
        policy_of(folder, "mail.test", "kept.test")
        assert read_all(chat) == b""
        proxy.log.wait_for(r"ended the connection of .* to chat\.test: nobody passes it through now")
        write_list(folder / "rules.yaml", "mail.test")
        assert read_all(mail) == b""
        proxy.log.wait_for(r"no connection for .* to tcp://mail\.test")
        with kept:
            kept.sendall(b"NOOP\r\n")
            assert kept.recv(100) == b"250 NOOP\r\n"


@pytest.mark.parametrize(
    "options",
    [{"tcp_hosts": r"mail\.test"}, {"ignore_hosts": r"mail\.test:\d+"}, {"allow_hosts": r"none\.test"}],
    ids=lambda options: next(iter(options)),
)
def test_mitmproxy_s_own_options_pass_what_they_name(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path, options: dict[str, str]
) -> None:
    proxy = start(policy=policy_of(tmp_path / "own"), options={**OTHERS, **options})
    with PlainOrigin(greet) as server:
        with proxy.tunnel("mail.test", server.http_port) as connection:
            assert connection.recv(100) == GREETING
            connection.sendall(b"EHLO x\r\n")
            assert connection.recv(100) == b"250 EHLO x\r\n"
        assert server.connections == 1
        assert said(proxy, "regular", "blocked.test", server.http_port, b"EHLO x\r\n") == b""
        assert server.connections == 1
    with proxy.tunnel("mail.test", 443) as tunnel, tls_over(tunnel, "mail.test") as tls:
        assert is_the_origin_s(tls) is ("tcp_hosts" not in options)


@pytest.mark.parametrize("settings", [{"mode": "tag"}, {"unparsable": "pass"}], ids=["tag", "unparsable: pass"])
def test_where_nothing_is_refused_it_flows_and_is_recorded(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path, settings: dict[str, str]
) -> None:
    mode = settings.get("mode")
    policy = policy_of(tmp_path / "own", **({} if mode else settings))
    proxy = start(policy=policy, mode=mode, options=OTHERS)
    with PlainOrigin(greet) as server, proxy.tunnel("mail.test", server.http_port) as connection:
        assert connection.recv(100) == GREETING
    with proxy.tunnel("path.test", 80) as connection:
        assert (b"from the origin" in ask(connection, "path.test", "/secret/x")) is (mode == "tag")
    proxy.stop()
    (record,) = (one for one in records(policy) if one["method"] == "CONNECT")
    assert "neither HTTP nor TLS" in record["fault"]
