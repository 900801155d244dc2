"""A router as examples/router describes it: devices that know of no proxy are filtered, and find no way around.

Three machines: a device, the router with the filter, and all of the internet behind it. The wire to the internet is the
judge: what no packet on it asks for has not passed.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from aioquic.asyncio.client import connect
from aioquic.h3.connection import H3_ALPN
from aioquic.quic.configuration import QuicConfiguration

from e2e.browser import BROWSER
from e2e.look_ups import Client, lost_when_ports_are_used_again
from e2e.namespaces import NAMESERVER, Machine, Network, Wire, lay, why_not
from e2e.origin import PATIENCE, Origin
from e2e.policies import write_list, write_policy
from e2e.proxy import CHECKOUT, FILTER, MITMDUMP, running
from e2e.resolver import AAAA, A, Resolver, ask_tcp, ask_udp, query
from e2e.test_tunnels import ask, is_the_origin_s, tls_over

EXAMPLE = CHECKOUT / "examples" / "router"
WALK = (EXAMPLE / "README.md").read_text(encoding="utf-8")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("router"),
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

#: addresses in the internet, where anything may be served
SITES = ["198.51.100.7", "2001:db8:f::7"]
#: the address that all names lead to, as Resolver says
NAMED = "198.51.100.7"
ROUTER = ["192.168.77.1", "fd77::1", "172.16.7.1"]
TCP, UDP = socket.IPPROTO_TCP, socket.IPPROTO_UDP
NXDOMAIN = 3


#: ports, and how clients begin there: SSH, SMTP and IMAP wait for the server
NEITHER = [
    (22, b""),
    (22, b"SSH-2.0-OpenSSH_9.2\r\n"),
    (25, b""),
    (143, b""),
    (1883, b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00"),
    (1935, b"\x03" + bytes(1536)),
    (5222, b"<?xml version='1.0'?><stream:stream to='good.test' xmlns='jabber:client'>"),
    (4711, bytes(20)),
]


def ends_at_once(network: Network, site: str, port: int, octets: bytes) -> None:
    """Speak as a client does that goes on to wait: it is told the end, and does not end its own side."""
    begun = time.monotonic()
    with network.connect(site, port) as connection:
        with suppress(ConnectionError):
            connection.sendall(octets)
            assert connection.recv(1000) == b""
        assert time.monotonic() - begun < 3


def rules(**names: str) -> str:
    """The firewall's file, with the names filled in that stand at its beginning."""
    text = (EXAMPLE / "hushlist.nft").read_text(encoding="utf-8")
    for name, value in names.items():
        text, found = re.subn(rf"^define {name} = .*$", f"define {name} = {value}", text, flags=re.MULTILINE)
        assert found == 1
    return text


def started(folder: Path, router: Machine, policy: Path) -> list[str]:
    """The walk's own command, on the router, and with a policy of the tests."""
    (command,) = re.findall(r"^```sh\n(.*?)^```$", WALK, re.DOTALL | re.MULTILINE)
    words = shlex.split(command)
    words[0] = str(MITMDUMP)
    words[words.index("addon/filter.py")] = str(FILTER)
    (given,) = (number for number, word in enumerate(words) if word.startswith("hushlist_policy="))
    words[given] = f"hushlist_policy={policy}"
    settings = ("ssl_insecure=true", "flow_detail=0", f"confdir={folder}")
    return [*router.command, *words, *(part for setting in settings for part in ("--set", setting))]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("router")
    write_list(folder / "rules.yaml", "ads.test", "path.test/secret/", {"address": "203.0.113.0/28"})
    policy = write_policy(folder, ["rules.yaml"], dns={"blocked": ["198.51.100.80", "2001:db8:f::80"]})
    with ExitStack() as stack:
        device, router, internet = (stack.enter_context(Machine()) for _ in range(3))
        lay(device, router, internet, folder)
        router.run("nft", "-f", "-", text=rules(lan='{ "inside.1" }', wan='"outside"', proxy='"root"'))
        with internet.inside():
            origin = stack.enter_context(Origin(folder, address="::", ports=(80, 443)))
            resolver = stack.enter_context(Resolver(NAMESERVER, 53))
        resolver.records[b"six.test", A] = []
        resolver.records[b"six.test", AAAA] = [(AAAA, socket.inet_pton(socket.AF_INET6, SITES[1]))]
        wire = stack.enter_context(Wire(internet, "eth0", router, "172.16.7.254"))
        _, log = stack.enter_context(running(started(folder, router, policy), folder))
        log.wait_for("Transparent Proxy listening")
        log.wait_for("DNS server listening")
        yield Network(device, router, internet, origin, resolver, wire, log)


# -- what a device that knows of no proxy sees -------------------------------------------------------------------------


@pytest.mark.parametrize("site", SITES)
def test_http_is_filtered(network: Network, site: str) -> None:
    assert b"from the origin" in network.http(site, "good.test")
    assert network.arrived(lambda: _page(network.http(site, "ads.test"))) == set()
    assert network.arrived(lambda: _page(network.http(site, "path.test", "/secret/x"))) == set()


@pytest.mark.parametrize("site", SITES)
def test_https_is_filtered_by_name_and_by_path(network: Network, site: str) -> None:
    with tls_over(network.connect(site, 443), "good.test") as tls:
        assert not is_the_origin_s(tls)
        assert b"from the origin" in ask(tls, "good.test")
    assert network.arrived(lambda: _page(network.https(site, "ads.test", "ads.test"))) == set()
    assert network.arrived(lambda: _page(network.https(site, "path.test", "path.test", "/secret/x"))) == set()


@pytest.mark.parametrize(
    ("host", "path"),
    [("translate.google.com", "/translate?u=http%3A%2F%2Fads.test%2F"), ("ads-test.translate.goog", "/")],
)
def test_no_service_shows_what_is_blocked(network: Network, host: str, path: str) -> None:
    assert network.arrived(lambda: _page(network.https(SITES[0], host, host, path))) == set()


def _page(answer: bytes) -> None:
    assert b" 403 " in answer.partition(b"\r\n")[0]
    assert b"from the origin" not in answer


@pytest.mark.parametrize("server", ["203.0.113.99", "2001:db8:8::8", *ROUTER])
def test_names_are_the_filter_s_whoever_is_asked(network: Network, server: str) -> None:
    def look_up() -> None:
        for kind, address in (
            (A, socket.inet_aton("198.51.100.80")),
            (AAAA, bytes.fromhex("20010db8000f") + bytes(9) + b"\x80"),
        ):
            udp = ask_udp(53, query((b"ads.test", kind)), server)
            (tcp,) = ask_tcp(53, query((b"ads.test", kind)), server=server)
            assert [answer[3] for answer in udp.answers] == [answer[3] for answer in tcp.answers] == [address]
        udp = ask_udp(53, query((b"good.test", A)), server)
        assert [answer[3] for answer in udp.answers] == [socket.inet_aton(NAMED)]

    before = len(network.resolver.questions)
    with network.device.inside():
        assert network.arrived(look_up) == {(UDP, NAMESERVER, 53)}
    assert network.resolver.questions[before:] == [(b"good.test", A)]


@pytest.mark.parametrize("server", ["203.0.113.99", pytest.param("2001:db8:8::8", marks=pytest.mark.thorough)])
def test_no_look_up_is_lost_when_a_port_is_used_again(network: Network, server: str) -> None:
    with network.device.inside():
        assert lost_when_ports_are_used_again(Client(server), network.log, range(20000, 20100)) == 0


@pytest.mark.parametrize("address", ["198.51.100.80", "2001:db8:f::80"])
def test_the_address_of_a_blocked_name_shows_the_page(network: Network, address: str) -> None:
    _page(network.http(address, "ads.test"))
    _page(network.https(address, "ads.test", "ads.test"))


@pytest.mark.parametrize("site", SITES)
def test_the_certificate_and_the_set_up_page_are_there(network: Network, site: str) -> None:
    assert b"BEGIN CERTIFICATE" in network.http(site, "mitm.it", "/cert/pem")
    assert b"BEGIN CERTIFICATE" in network.http(site, "hushlist.internal", "/ca.pem")
    assert b" 200 " in network.http(site, "hushlist.internal", "/setup").partition(b"\r\n")[0]


@pytest.mark.parametrize("site", SITES)
def test_http3_is_refused_at_once_so_that_browsers_fall_back(network: Network, site: str) -> None:
    with network.device.inside():
        assert network.arrived(lambda: refused_datagram(site, 443)) == set()

    async def browse() -> None:
        trust = QuicConfiguration(alpn_protocols=H3_ALPN, server_name="good.test", verify_mode=ssl.CERT_NONE)
        trust.idle_timeout = 1.0
        async with connect(site, 443, configuration=trust):
            raise AssertionError("HTTP/3 has passed")

    def speak() -> None:
        with suppress(ConnectionError):
            asyncio.run(browse())

    with network.device.inside():
        assert network.arrived(speak) == set()


def refused_datagram(address: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sent:
        sent.settimeout(PATIENCE)
        sent.connect((address, port))
        sent.send(bytes(1200))
        with pytest.raises((ConnectionRefusedError, PermissionError)):
            sent.recv(1)


@pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
@pytest.mark.thorough
def test_a_browser_that_knows_of_no_proxy_is_filtered(network: Network, tmp_path: Path) -> None:
    (tmp_path / "resolv.conf").write_text("nameserver 203.0.113.99\n", encoding="ascii")
    network.device.place(tmp_path / "resolv.conf", "/etc/resolv.conf")

    def page(url: str) -> str:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors", "--dump-dom"]
        return network.device.run(str(BROWSER), *options, f"--user-data-dir={tmp_path}/profile", url)

    assert "from the origin" in page("https://good.test/")
    assert "This page is blocked" in page("http://ads.test/")


# -- what pupils try ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("port", [22, 25, 81, 993, 3128, 5300, 8080, 8443, 40000])
def test_no_other_port_is_a_way(network: Network, site: str, port: int) -> None:
    def browse() -> None:
        if port in (22, 25, 993):  # assigned to what is not the web: it may end before anything is read
            for act in (
                lambda: network.http(site, "ads.test", port=port),
                lambda: network.https(site, "ads.test", "ads.test", port=port),
            ):
                with suppress(ConnectionError, ssl.SSLError):
                    if answer := act():
                        _page(answer)
            return
        _page(network.http(site, "ads.test", port=port))
        _page(network.https(site, "ads.test", "ads.test", port=port))
        _page(network.https(site, "path.test", "path.test", "/secret/x", port=port))

    assert network.arrived(browse) == set()


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize(("port", "octets"), NEITHER)
def test_what_is_neither_http_nor_tls_ends_at_once(network: Network, site: str, port: int, octets: bytes) -> None:
    assert network.arrived(lambda: ends_at_once(network, site, port, octets)) == set()


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize(
    ("server_name", "host"),
    [("good.test", "ads.test"), ("ads.test", "good.test"), (None, "ads.test"), ("good.test", "203.0.113.3")],
)
def test_no_lie_about_the_name_is_a_way(network: Network, site: str, server_name: str | None, host: str) -> None:
    assert network.arrived(lambda: _page(network.https(site, server_name, host))) == set()


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize(
    "octets",
    [
        b"CONNECT ads.test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n",
        b"CONNECT 198.51.100.66:443 HTTP/1.1\r\nHost: 198.51.100.66:443\r\n\r\n",
        b"GET http://ads.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: ads.test\r\n\r\n",
        b"\r\nGET / HTTP/1.1\r\nHost: ads.test\r\n\r\n",
        b"PROXY TCP4 192.168.77.9 198.51.100.66 4000 80\r\nGET / HTTP/1.1\r\nHost: ads.test\r\n\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\xa8\x4d\x09\xc6\x33\x64\x42\x0f\xa0\0\x50GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
        b"\x05\x01\0\x05\x01\0\x03\x08ads.test\0\x50",
        b"\x04\x01\0\x50\xc6\x33\x64\x42\0",
    ],
)
def test_no_other_way_to_ask_is_a_way(network: Network, site: str, octets: bytes) -> None:
    """Methods of proxies, protocols of proxies, and what is no protocol, at ports that lead to the filter."""

    def ask_oddly() -> None:
        for port in (80, 443):
            with network.connect(site, port) as connection, suppress(ConnectionError, TimeoutError):
                connection.sendall(octets)
                connection.shutdown(socket.SHUT_WR)
                while answer := connection.recv(65536):
                    assert b"from the origin" not in answer
                    assert b" 200 " not in answer.partition(b"\r\n")[0]

    assert network.arrived(ask_oddly) == set()


@pytest.mark.parametrize("blocked", ["203.0.113.3"])
def test_an_address_is_decided_by_itself(network: Network, blocked: str) -> None:
    def browse() -> None:
        _page(network.http(blocked, blocked))
        _page(network.http(blocked, "good.test"))
        _page(network.https(blocked, None, blocked))
        _page(network.https(blocked, "good.test", "good.test"))
        _page(network.http(f"64:ff9b::{blocked}", "good.test"))

    assert network.arrived(browse) == set()


def test_the_filter_connects_to_the_name_and_to_no_address_that_a_device_chose(network: Network) -> None:
    elsewhere = "198.51.100.66"
    seen = network.arrived(lambda: network.https(elsewhere, "good.test", "good.test"))
    assert not {packet for packet in seen if packet[1] == elsewhere}
    seen = network.arrived(lambda: network.http(elsewhere, "six.test"))
    assert (TCP, SITES[1], 80) in seen
    assert not {packet for packet in seen if packet[1] == elsewhere}


@pytest.mark.parametrize("site", SITES)
def test_dns_over_tls_is_closed(network: Network, site: str) -> None:
    def look_up() -> None:
        with pytest.raises(ConnectionRefusedError):
            network.connect(site, 853)
        with network.device.inside():
            refused_datagram(site, 853)

    assert network.arrived(look_up) == set()


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("port", [80, 123, 443, 500, 1194, 3478, 4500, 5300, 5353, 8080, 8443, 51820])
def test_no_datagram_passes(network: Network, site: str, port: int) -> None:
    with network.device.inside():
        assert network.arrived(lambda: refused_datagram(site, port)) == set()


@pytest.mark.parametrize("protocol", [1, 4, 6, 17, 41, 43, 44, 47, 50, 51, 58, 60, 94, 132, 253])
@pytest.mark.parametrize("site", SITES)
def test_no_other_protocol_passes(network: Network, site: str, protocol: int) -> None:
    """Ping, tunnels and what follows no protocol at all; TCP and UDP whose headers are nonsense are among them."""
    octets = b"\x08\x00" + bytes(58)

    def send() -> None:
        family = socket.AF_INET6 if ":" in site else socket.AF_INET
        with network.device.inside(), socket.socket(family, socket.SOCK_RAW, protocol) as raw:
            for first in (octets, b"\x80" + octets, octets[:4], b"\x45" + octets):
                raw.sendto(first, (site, 0))

    assert network.arrived(send) == set()


def test_another_way_into_the_internet_leads_through_the_router_s_rules_too(network: Network) -> None:
    """A static route by another address of the router, and an address of one's own that the network has not given."""
    device = network.device
    device.run("ip", "address", "add", "10.9.9.9/32", "dev", "eth0")
    device.run("ip", "route", "add", "198.51.100.66", "via", "172.16.7.1", "dev", "eth0", "onlink", "src", "10.9.9.9")
    device.run("ip", "-6", "route", "add", "2001:db8:f::66", "via", _link_local(network.router), "dev", "eth0")
    network.router.run("ip", "route", "add", "10.9.9.9", "dev", "inside.1")
    try:
        for address in ("198.51.100.66", "2001:db8:f::66"):
            assert network.arrived(lambda address=address: _page(network.http(address, "ads.test"))) == set()
            with network.device.inside():
                assert network.arrived(lambda address=address: refused_datagram(address, 443)) == set()
    finally:
        device.run("ip", "address", "del", "10.9.9.9/32", "dev", "eth0")
        device.run("ip", "-6", "route", "del", "2001:db8:f::66")


def _link_local(machine: Machine) -> str:
    (found,) = re.findall(r"inet6 (fe80::\S+)/", machine.run("ip", "-6", "address", "show", "dev", "inside.1"))
    return str(found)


@pytest.mark.parametrize("port", [5300, 8080])
@pytest.mark.parametrize("address", ROUTER)
def test_the_proxy_s_own_ports_are_closed(network: Network, address: str, port: int) -> None:
    with pytest.raises(ConnectionRefusedError):
        network.connect(address, port)
    with network.device.inside():
        refused_datagram(address, port)
    with network.internet.inside(), pytest.raises(ConnectionRefusedError):
        socket.create_connection((address, port), PATIENCE)


@pytest.mark.parametrize("target", ["192.168.77.2", "fd77::2"])
def test_nobody_outside_begins_a_connection_to_a_device(network: Network, target: str) -> None:
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with network.device.inside():
        tcp = socket.create_server((target, 9000), family=family)
        udp = socket.socket(family, socket.SOCK_DGRAM)
        udp.bind((target, 9000))
    with closing(tcp), closing(udp):
        with network.internet.inside():
            calling = socket.socket(family, socket.SOCK_STREAM)
            with closing(calling), socket.socket(family, socket.SOCK_DGRAM) as sending:
                calling.setblocking(False)
                with suppress(BlockingIOError):
                    calling.connect((target, 9000))
                sending.sendto(b"from outside", (target, 9000))
        with network.device.inside():
            refused_datagram(ROUTER[0], 9)  # what the router had to do before is done
        for listening in (tcp, udp):
            listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            tcp.accept()
        with pytest.raises(BlockingIOError):
            udp.recv(100)


#: names that a pupil may own, and where they lead
LEADING_INSIDE = {
    "loopback.test": (A, "127.0.0.1"),
    "loopback6.test": (AAAA, "::1"),
    "router.test": (A, "192.168.77.1"),
    "router6.test": (AAAA, "fd77::1"),
    "outer.test": (A, "172.16.7.1"),
    "neighbour.test": (A, "192.168.77.2"),
    "neighbour6.test": (AAAA, "fd77::2"),
}


@pytest.mark.parametrize("host", [*LEADING_INSIDE, "localhost"])
@pytest.mark.parametrize("port", [631, 8080])
def test_no_name_leads_to_the_router_or_into_its_network(
    network: Network, tmp_path: Path, host: str, port: int
) -> None:
    kind, address = LEADING_INSIDE.get(host, (A, "127.0.0.1"))
    family = socket.AF_INET if kind == A else socket.AF_INET6
    network.resolver.records[host.encode(), A] = network.resolver.records[host.encode(), AAAA] = []
    network.resolver.records[host.encode(), kind] = [(kind, socket.inet_pton(family, address))]
    machine = network.device if "neighbour" in host else network.router
    with ExitStack() as stack:
        if port != 8080:  # the filter's own
            with machine.inside():
                inner = stack.enter_context(Origin(tmp_path, address=address, ports=(port, 0)))
        answer = network.http(SITES[0], f"{host}:{port}", port=port)
        assert b"from the origin" not in answer
        assert b" 502 " in answer.partition(b"\r\n")[0]
        if port != 8080:
            assert inner.requests == []


@pytest.mark.parametrize("path", ["/", "/api/v1/live", "/metrics", "/api/v1/policy"])
def test_the_live_page_is_for_the_router_alone(network: Network, path: str) -> None:
    for site in SITES:
        _page(network.http(site, "hushlist.internal", path))
        _page(network.https(site, "hushlist.internal", "hushlist.internal", path))


def test_a_router_that_is_cut_off_goes_on_to_block_and_what_waits_arrives_when_it_is_joined_again(
    network: Network,
) -> None:
    arrived = len(network.origin.requests)
    waiting = ThreadPoolExecutor(1)
    with waiting:
        with network.internet.cut_off():
            answer = waiting.submit(network.http, SITES[0], "good.test", "/waits")
            _page(network.http(SITES[0], "ads.test"))
            _page(network.https(SITES[1], "path.test", "path.test", "/secret/x"))
            with network.device.inside():
                assert ask_udp(53, query((b"ads.test", A)), SITES[0]).answers
            assert len(network.origin.requests) == arrived
        assert b"from the origin" in answer.result(PATIENCE)
    assert [request.target for request in network.origin.requests[arrived:]] == [b"/waits"]


# -- the file ----------------------------------------------------------------------------------------------------------


def test_what_is_said_to_go_past_the_filter_does(network: Network) -> None:
    added = ["past4 { 198.51.100.25 . tcp . 993, 198.51.100.25 . udp . 123 }", "past6 { 2001:db8:f::25 . tcp . 993 }"]
    try:
        for words in added:
            network.router.run("nft", f"add element inet hushlist {words}")
        for address in ("198.51.100.25", "2001:db8:f::25"):
            seen = network.arrived(lambda address=address: _refused(network, address, 993))
            assert seen == {(TCP, address, 993)}
            with network.device.inside():
                assert network.arrived(lambda address=address: refused_datagram(address, 993)) == set()
        with network.device.inside():
            assert network.arrived(lambda: refused_datagram("198.51.100.25", 123)) == {(UDP, "198.51.100.25", 123)}
    finally:
        for words in added:
            network.router.run("nft", f"delete element inet hushlist {words}")


def test_what_households_need_by_datagrams_goes_past_the_filter(network: Network) -> None:
    commands = [
        line for line in WALK.splitlines() if line.startswith("nft add element inet hushlist past") and "`" not in line
    ]
    assert len(commands) == 8
    try:
        for command in commands:
            network.router.run(*shlex.split(command))
        for address, port in (
            ("17.253.4.125", 123),
            ("52.113.1.1", 3479),
            ("74.125.250.7", 19305),
            ("2603:1063::9", 3481),
            ("206.247.8.9", 8801),
        ):

            def send(address: str = address, port: int = port) -> None:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                with network.device.inside(), socket.socket(family, socket.SOCK_DGRAM) as sent:
                    for one in (port, 443):
                        sent.sendto(bytes(48), (address, one))

            assert network.arrived(send) == {(UDP, address, port)}
    finally:
        for name in ("past4", "past6"):
            network.router.run("nft", "flush", "set", "inet", "hushlist", name)


def _refused(network: Network, address: str, port: int) -> None:
    with pytest.raises(ConnectionRefusedError):  # nobody listens there
        network.connect(address, port)


def test_the_file_may_be_loaded_again(network: Network) -> None:
    before = network.router.run("nft", "-s", "list", "table", "inet", "hushlist")
    network.router.run("nft", "-f", "-", text=rules(lan='{ "inside.1" }', wan='"outside"', proxy='"root"'))
    assert network.router.run("nft", "-s", "list", "table", "inet", "hushlist") == before
    _page(network.http(SITES[0], "ads.test"))


def test_without_the_filter_there_is_no_web_and_no_names(tmp_path: Path) -> None:
    with Machine() as device, Machine() as router, Machine() as internet:
        lay(device, router, internet, tmp_path)
        router.run("nft", "-f", "-", text=rules(lan='{ "inside.1" }', wan='"outside"', proxy='"root"'))
        with internet.inside():
            sites = socket.create_server(("::", 80), family=socket.AF_INET6)
        with (
            closing(sites),
            Wire(internet, "eth0", router, "172.16.7.254") as wire,
            device.inside(),
            wire.watch() as seen,
        ):
            for site in SITES:
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection((site, 80), PATIENCE)
                refused_datagram(site, 53)
        assert not {packet for packet in seen if packet[1] in SITES}
