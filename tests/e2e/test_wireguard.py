"""WireGuard mode, with a real client: what the device sends comes by the tunnel, and is filtered.

The device has no other way. Its client is wireguard-go, which needs nothing of the kernel but a TUN device.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from aioquic.asyncio.client import connect
from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration

from e2e.look_ups import Client, lost_when_ports_are_used_again
from e2e.namespaces import NAMESERVER, Machine, Network, Wire, lay, why_not
from e2e.origin import PATIENCE, write_certificate
from e2e.policies import write_list, write_policy
from e2e.proxy import FILTER, MITMDUMP, Proxy, running
from e2e.resolver import AAAA, A, Resolver, ask_tcp, ask_udp, query
from e2e.test_http3 import QuicOrigin
from e2e.test_http3 import ask as ask_http3
from e2e.test_router import NEITHER, ends_at_once, refused_datagram, rules, started
from e2e.test_tunnels import ask, is_the_origin_s, tls_over
from support.waiting import wait_until

resource = pytest.importorskip("resource", reason="on Windows, there are no namespaces")

WHY_NOT = why_not("wireguard-go", "wg") or (None if Path("/dev/net/tun").exists() else "there are no TUN devices")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("wireguard"),
    pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or ""),
]

#: where all names lead, as Resolver says, and what a device may ask for in its place
NAMED, ELSEWHERE, ELSEWHERE6 = "198.51.100.7", "198.51.100.66", "2001:db8:f::66"
#: where datagrams may go, as the policy says
PASSED = "198.51.100.123"
UDP = socket.IPPROTO_UDP
NXDOMAIN = 3


class Tunnelled(Network):
    """The machines; the router is the proxy's, and forwards nothing."""

    proxy: Proxy


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tunnelled]:
    with tunnelled(tmp_path_factory.mktemp("wireguard")) as network:
        yield network


@contextmanager
def tunnelled(folder: Path) -> Iterator[Tunnelled]:
    """The machines, and a proxy in WireGuard mode, whose process a test may end."""
    write_list(folder / "rules.yaml", "ads.test", "path.test/secret/")
    policy = write_policy(folder, ["rules.yaml"], **{"pass-through": [f"{PASSED}/32"]})
    with ExitStack() as stack:
        device, router, internet = (stack.enter_context(Machine()) for _ in range(3))
        lay(device, router, internet, folder)
        router.run("sysctl", "-q", "-w", "net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0")
        with internet.inside():
            origin = stack.enter_context(QuicOrigin(folder, NAMED, (80, 443)))
            resolver = stack.enter_context(Resolver(NAMESERVER, 53))
        wire = stack.enter_context(Wire(internet, "eth0", router, "172.16.7.254"))
        keys = {name: router.run("wg", "genkey").strip() for name in ("server_key", "client_key")}
        (folder / "wireguard.conf").write_text(json.dumps(keys), encoding="ascii")
        settings = ("ssl_insecure=true", "flow_detail=0", f"confdir={folder}", f"hushlist_policy={policy}")
        arguments = [
            *("--mode", "wireguard", "-s", str(FILTER)),
            *(part for one in settings for part in ("--set", one)),
        ]
        process, log = stack.enter_context(running([*router.command, str(MITMDUMP), *arguments], folder))
        log.wait_for("WireGuard server listening")
        stack.enter_context(_tunnel(device, folder, keys, router.run("wg", "pubkey", text=keys["server_key"]).strip()))
        found = Tunnelled(device, router, internet, origin, resolver, wire, log)
        found.proxy = Proxy(process, log, 443, folder / "mitmproxy-ca-cert.pem")
        yield found


def _tunnel(device: Machine, folder: Path, keys: dict[str, str], server: str) -> ExitStack:
    """Everything that a device sends goes into the tunnel."""
    stack = ExitStack()
    device.run("mount", "-t", "tmpfs", "none", "/run")  # its sockets are this device's alone
    client = subprocess.Popen([*device.command, "wireguard-go", "-f", "wg0"], stderr=subprocess.DEVNULL)
    stack.callback(client.wait, PATIENCE)
    stack.callback(client.kill)
    wait_until(lambda: "wg0" in device.run("wg", "show", "interfaces"))
    (folder / "client.key").write_text(keys["client_key"], encoding="ascii")
    device.run(
        *("wg", "set", "wg0", "private-key", str(folder / "client.key"), "peer", server),
        *("endpoint", "192.168.77.1:51820", "allowed-ips", "0.0.0.0/0,::/0"),
    )
    device.address("wg0", "10.0.0.1/32", "fd88::1/128")
    device.run("ip", "link", "set", "wg0", "up", "mtu", "1380")
    for family in ("-4", "-6"):
        device.run("ip", family, "route", "replace", "default", "dev", "wg0")
    return stack


def _page(answer: bytes) -> None:
    assert b" 403 " in answer.partition(b"\r\n")[0]
    assert b"from the origin" not in answer


@pytest.mark.parametrize(
    ("site", "port"),
    [(NAMED, 80), (NAMED, 853), (ELSEWHERE, 443), (ELSEWHERE, 8080), (ELSEWHERE6, 80), (ELSEWHERE6, 443)],
)
def test_what_is_blocked_does_not_leave_the_tunnel(network: Tunnelled, site: str, port: int) -> None:
    def browse() -> None:
        _page(network.http(site, "ads.test", port=port))
        _page(network.https(site, "ads.test", "ads.test", port=port))
        _page(network.https(site, "good.test", "ads.test", port=port))
        _page(network.https(site, "ads.test", "good.test", port=port))
        _page(network.https(site, None, "ads.test", port=port))
        _page(network.https(site, "path.test", "path.test", "/secret/x", port=port))

    assert network.arrived(browse) == set()


@pytest.mark.parametrize("site", [NAMED, ELSEWHERE, ELSEWHERE6])
def test_what_is_allowed_goes_to_the_name_that_was_decided(network: Tunnelled, site: str) -> None:
    def browse() -> None:
        assert b"from the origin" in network.http(site, "good.test")
        with tls_over(network.connect(site, 443), "good.test") as tls:
            assert not is_the_origin_s(tls)
            assert b"from the origin" in ask(tls, "good.test")

    reached = {packet[1] for packet in network.arrived(browse)}
    assert reached - {NAMESERVER} == {NAMED}


@pytest.mark.parametrize("server", ["10.0.0.53", NAMESERVER, "203.0.113.99"])
def test_names_are_decided_whoever_is_asked(network: Tunnelled, server: str) -> None:
    def look_up() -> None:
        for kind in (A, AAAA):
            assert ask_udp(53, query((b"ads.test", kind)), server).code == NXDOMAIN
            assert ask_tcp(53, query((b"ads.test", kind)), server=server)[0].code == NXDOMAIN

    with network.device.inside():
        assert network.arrived(look_up) == set()
        assert ask_udp(53, query((b"good.test", A)), NAMESERVER).answers


@pytest.mark.parametrize("server", ["10.0.0.53", pytest.param(NAMESERVER, marks=pytest.mark.thorough)])
def test_no_look_up_is_lost_when_a_port_is_used_again(network: Tunnelled, server: str) -> None:
    with network.device.inside():
        assert lost_when_ports_are_used_again(Client(server), network.log, range(20000, 20100)) == 0


@pytest.mark.parametrize("site", [NAMED, ELSEWHERE])
def test_http3_is_filtered(network: Tunnelled, site: str) -> None:
    def browse(host: str, path: str, server_name: str) -> tuple[int | None, bytes]:
        with network.device.inside():
            return ask_http3(network.proxy, host, path, server_name=server_name, address=site)

    for host, path, server_name in (
        ("ads.test", "/", "ads.test"),
        ("ads.test", "/", "good.test"),
        ("good.test", "/", "ads.test"),
        ("path.test", "/secret/x", "path.test"),
    ):
        answers: list[tuple[int | None, bytes]] = []
        asked = (host, path, server_name)
        assert network.arrived(lambda asked=asked, answers=answers: answers.append(browse(*asked))) == set()
        assert answers[0][0] == 403
    reached = network.arrived(lambda: answers.append(browse("good.test", "/", "good.test")))
    assert answers[-1] == (200, b"from the origin")
    assert {packet[1] for packet in reached} - {NAMESERVER} == {NAMED}


@pytest.mark.parametrize("site", [ELSEWHERE, ELSEWHERE6])
@pytest.mark.parametrize(("port", "octets"), NEITHER)
def test_what_is_neither_http_nor_tls_ends_at_once(network: Tunnelled, site: str, port: int, octets: bytes) -> None:
    assert network.arrived(lambda: ends_at_once(network, site, port, octets)) == set()


@pytest.mark.parametrize("site", [ELSEWHERE, ELSEWHERE6])
@pytest.mark.parametrize("port", [123, 500, 1194, 3478, 4711, 51820])
def test_datagrams_that_may_be_a_vpn_do_not_pass(network: Tunnelled, site: str, port: int) -> None:
    place, before = f"[{site}]:{port}" if ":" in site else f"{site}:{port}", len(network.log)

    def send() -> None:
        family = socket.AF_INET6 if ":" in site else socket.AF_INET
        with network.device.inside(), socket.socket(family, socket.SOCK_DGRAM) as sent:
            sent.sendto(b"\x01" + bytes(147), (site, port))
        network.log.wait_for(rf"no connection for \S+ to udp://{re.escape(place)}/: its datagrams", before)

    assert network.arrived(send) == set()


@pytest.mark.parametrize("protocol", [1, 4, 41, 47, 50, 58, 132, 253])
@pytest.mark.parametrize("site", [ELSEWHERE, ELSEWHERE6])
def test_no_other_protocol_leaves_the_tunnel(network: Tunnelled, site: str, protocol: int) -> None:
    def send() -> None:
        family = socket.AF_INET6 if ":" in site else socket.AF_INET
        with network.device.inside(), socket.socket(family, socket.SOCK_RAW, protocol) as raw:
            raw.sendto(b"\x08\x00" + bytes(58), (site, 0))
        _page(network.http(site, "ads.test"))  # what was sent before it has come out of the tunnel

    assert network.arrived(send) == set()


def test_datagrams_to_a_place_that_the_policy_names_pass(network: Tunnelled) -> None:
    def send() -> None:
        with network.device.inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sent:
            sent.sendto(b"\x23" + bytes(47), (PASSED, 123))
        wait_until(lambda: (UDP, PASSED, 123) in network.wire.seen)

    assert network.arrived(send) == {(UDP, PASSED, 123)}


@pytest.mark.parametrize("port", [25, 4711])
def test_a_server_that_the_policy_names_may_speak_first_and_no_other(network: Tunnelled, port: int) -> None:
    with network.internet.inside():
        listening = [socket.create_server((place, port)) for place in (PASSED, ELSEWHERE)]
    with ExitStack() as stack:
        passed, other = map(stack.enter_context, listening)
        client = stack.enter_context(network.connect(PASSED, port))
        served = stack.enter_context(passed.accept()[0])
        served.sendall(b"220 ready\r\n")
        assert client.recv(100) == b"220 ready\r\n"
        client.sendall(b"QUIT\r\n")
        client.shutdown(socket.SHUT_WR)
        assert served.recv(100) == b"QUIT\r\n"
        assert served.recv(100) == b""
        served.sendall(b"221 bye\r\n")
        assert client.recv(100) == b"221 bye\r\n"
        refused, before = stack.enter_context(network.connect(ELSEWHERE, port)), time.monotonic()
        with suppress(ConnectionError):
            assert refused.recv(1) == b""
        assert time.monotonic() - before < (2 if port == 25 else 8)
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()
    network.log.wait_for(rf"ended a connection .* to {re.escape(ELSEWHERE)}:{port}: .*nobody passes it through")


class Tunnel(threading.Thread):
    """A QUIC server in the internet that echoes streams of a protocol of its own."""

    def __init__(self, internet: Machine, folder: Path, protocol: str) -> None:
        super().__init__(daemon=True)
        self._internet, self._protocol = internet, protocol
        self._certificate = write_certificate(folder)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_ready = threading.Event()
        self.received: list[bytes] = []

    def run(self) -> None:
        with self._internet.inside(), suppress(asyncio.CancelledError):
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        trust = QuicConfiguration(is_client=False, alpn_protocols=[self._protocol])
        trust.load_cert_chain(*self._certificate)
        server = await serve(ELSEWHERE, 4433, configuration=trust, stream_handler=self._echo)
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self.is_ready.set()
        try:
            await asyncio.Event().wait()
        finally:
            server.close()

    def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def echo() -> None:
            self.received.append(await reader.read())
            writer.write_eof()

        self._echoing = asyncio.ensure_future(echo())

    def stop(self) -> None:
        assert self._loop
        assert self._task
        self._loop.call_soon_threadsafe(self._task.cancel)
        self.join(PATIENCE)


@pytest.mark.parametrize("protocol", ["doq", "tunnel"])
def test_quic_for_another_protocol_than_http_does_not_pass(network: Tunnelled, tmp_path: Path, protocol: str) -> None:
    server = Tunnel(network.internet, tmp_path, protocol)
    server.start()
    assert server.is_ready.wait(PATIENCE)

    async def speak() -> bytes:
        trust = QuicConfiguration(alpn_protocols=[protocol], server_name="good.test", verify_mode=ssl.CERT_NONE)
        async with connect(ELSEWHERE, 4433, configuration=trust) as client:
            reader, writer = await client.create_stream()
            writer.write(b"a question")
            writer.write_eof()
            return await reader.read()

    def send() -> None:
        with network.device.inside(), suppress(ConnectionError):
            assert asyncio.run(asyncio.wait_for(speak(), PATIENCE)) == b""

    try:
        assert network.arrived(send) == set()
    finally:
        server.stop()
    assert server.received == []


def test_connections_through_the_tunnel_are_bounded(network: Tunnelled) -> None:
    limits, before = resource.prlimit(network.proxy.process.pid, resource.RLIMIT_NOFILE), len(network.log)
    resource.prlimit(network.proxy.process.pid, resource.RLIMIT_NOFILE, (150, limits[1]))
    try:
        with ExitStack() as opened:
            for _ in range(150):
                opened.enter_context(network.connect(NAMED, 80))
            network.log.wait_for(r"as many files .* ended \d+ of \d+ connections of 10\.0\.0\.1", before)
    finally:
        resource.prlimit(network.proxy.process.pid, resource.RLIMIT_NOFILE, limits)


def test_nobody_in_the_tunnel_is_the_machine_of_the_proxy(network: Tunnelled) -> None:
    """Whoever sends a packet writes its source, and no kernel looks at it where it comes out of the tunnel."""
    network.device.run("sysctl", "-q", "-w", "net.ipv4.conf.wg0.route_localnet=1")
    before = len(network.log)
    with network.device.inside():
        sent = socket.create_connection((NAMED, 80), PATIENCE, ("127.9.9.9", 0))
    with suppress(ConnectionError):
        assert ask(sent, "hushlist.internal", "/metrics") == b""
    network.log.wait_for(r"no connection for \('127\.9\.9\.9'", before)
    assert b" 403 " in network.http(NAMED, "hushlist.internal", "/metrics")


# -- the end of the proxy ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "latest"), [(signal.SIGINT, 5.0), pytest.param(signal.SIGTERM, 15.0, marks=pytest.mark.thorough)]
)
def test_what_is_open_is_told_the_end_of_the_proxy(tmp_path: Path, number: int, latest: float) -> None:
    """Whoever downloads would wait on else: a new proxy does not know the tunnel of the old one."""
    with tunnelled(tmp_path) as network:
        with network.internet.inside():
            endless = socket.create_server((NAMED, 8080))
        with endless, network.connect(NAMED, 8080) as downloading:
            downloading.sendall(b"GET / HTTP/1.1\r\nHost: good.test:8080\r\n\r\n")
            serving, _ = endless.accept()
            with serving:
                serving.recv(1000)
                serving.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nbegun")
                received = b""
                while not received.endswith(b"begun"):
                    received += downloading.recv(1000)
                network.proxy.process.send_signal(number)
                begun = time.monotonic()
                with suppress(ConnectionError):
                    assert downloading.recv(1000) == b""
                assert time.monotonic() - begun < latest


@pytest.mark.thorough
def test_a_tunnel_that_the_machine_ends_itself_outlives_the_proxy(tmp_path: Path) -> None:
    """As rules/devices.md describes it: the router's own WireGuard, and behind it what examples/router does."""
    write_list(tmp_path / "rules.yaml", "ads.test")
    policy = write_policy(tmp_path, ["rules.yaml"])
    with ExitStack() as stack:
        device, router, internet = (stack.enter_context(Machine()) for _ in range(3))
        lay(device, router, internet, tmp_path)
        keys = {name: router.run("wg", "genkey").strip() for name in ("server_key", "client_key")}
        stack.enter_context(_own_tunnel(router, tmp_path, keys))
        router.run("nft", "-f", "-", text=rules(lan='{ "inside.1", "wg0" }', wan='"outside"', proxy='"root"'))
        with internet.inside():
            origin = stack.enter_context(QuicOrigin(tmp_path, NAMED, (80, 443)))
            resolver = stack.enter_context(Resolver(NAMESERVER, 53))
        wire = stack.enter_context(Wire(internet, "eth0", router, "172.16.7.254"))
        stack.enter_context(
            _tunnel(device, tmp_path, keys, router.run("wg", "pubkey", text=keys["server_key"]).strip())
        )
        for is_again in (False, True):
            with running(started(tmp_path, router, policy), tmp_path) as (_, log):
                log.wait_for("Transparent Proxy listening")
                log.wait_for("DNS server listening")
                begun = time.monotonic()
                network = Network(device, router, internet, origin, resolver, wire, log)
                with device.inside():
                    assert ask_udp(53, query((b"ads.test", A)), NAMESERVER).code == NXDOMAIN
                    assert ask_udp(53, query((b"good.test", A)), NAMESERVER).answers
                assert b"from the origin" in network.http(NAMED, "good.test")
                _page(network.http(NAMED, "ads.test"))
                assert not is_again or time.monotonic() - begun < 2
                with device.inside():
                    assert network.arrived(lambda: refused_datagram(ELSEWHERE, 123)) == set()
                idle = network.connect(NAMED, 80)
            with idle, suppress(ConnectionError):  # the proxy has ended
                assert idle.recv(100) == b""


def _own_tunnel(router: Machine, folder: Path, keys: dict[str, str]) -> ExitStack:
    """The end of the tunnel on the router, by WireGuard itself."""
    stack = ExitStack()
    router.run("mount", "-t", "tmpfs", "none", "/run")
    server = subprocess.Popen([*router.command, "wireguard-go", "-f", "wg0"], stderr=subprocess.DEVNULL)
    stack.callback(server.wait, PATIENCE)
    stack.callback(server.kill)
    wait_until(lambda: "wg0" in router.run("wg", "show", "interfaces"))
    (folder / "server.key").write_text(keys["server_key"], encoding="ascii")
    client = router.run("wg", "pubkey", text=keys["client_key"]).strip()
    router.run(
        *("wg", "set", "wg0", "listen-port", "51820", "private-key", str(folder / "server.key")),
        *("peer", client, "allowed-ips", "10.0.0.1/32,fd88::1/128"),
    )
    router.address("wg0", "10.0.0.254/24", "fd88::fe/64")
    router.run("ip", "link", "set", "wg0", "up", "mtu", "1380")
    return stack
