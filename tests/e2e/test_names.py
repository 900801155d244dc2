"""mitmproxy as a DNS server: the log of the server behind it is the judge, no blocked question reaches that."""

from __future__ import annotations

import json
import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from ipaddress import IPv4Address
from math import inf
from pathlib import Path
from typing import Any

import pytest

from e2e.look_ups import Client, lost_when_ports_are_used_again
from e2e.origin import LOOPBACK, PATIENCE, Origin, free_ports
from e2e.policies import replace, sha256, write_list
from e2e.proxy import Proxy, end_cleanly, eventually, mitmdump
from e2e.resolver import (
    AAAA,
    ANY,
    CNAME,
    HTTPS,
    MX,
    NS,
    PTR,
    SVCB,
    TXT,
    A,
    Reply,
    Resolver,
    ask_tcp,
    ask_udp,
    pack_name,
    query,
    read_reply,
)
from hushlist.proxy.bounds.bounded_dns import LONGEST_WAIT

NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5
PASSED = IPv4Address("198.51.100.7").packed


def write_policy(folder: Path, dns: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_list(
        folder / "names.yaml",
        "ads.test/",
        "path.test/secret/",
        "mixed.test/",
        {"expression": "mixed.test/help/", "action": "allow"},
        "doubled.test/",
        "doubled.test/x/",
        {"expression": "asked.test/", "action": "warn"},
        {"expression": "tagged.test/", "action": "tag"},
        {"expression": "allowed.test/", "action": "allow"},
        {"sha256": sha256("hashed.test/")},
        "bücher.test/",
        {"address": "203.0.113.0/24"},
        {"address": "2001:db8:bad::/48"},
    )
    layers = "layers:\n- {name: checks, checks: {well-known-port: block}}\n- {name: names, lists: [names.yaml]}\n"
    groups = "groups:\n- {name: tried, ports: [1], mode: tag}\n"
    return replace(folder / "policy.yaml", f"{layers}{groups}log: {{what: all, folder: log}}\n{dns}")


@pytest.fixture(scope="module")
def resolver() -> Iterator[Resolver]:
    with Resolver() as running:
        yield running


def start(
    folder: Path, origin: Origin, resolver: Resolver, proxy_mode: str, dns: str = "", **settings: Any
) -> AbstractContextManager[Proxy]:
    folder.mkdir(parents=True, exist_ok=True)
    return mitmdump(
        folder,
        origin,
        policy=write_policy(folder / "policy", dns),
        proxy_mode=proxy_mode.format(port=resolver.port),
        scripts=["resolver.py"],
        options={"upstream_dns": resolver.port, "dns_name_servers": "127.0.0.1", "dns_use_hosts_file": "false"},
        **settings,
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, origin: Origin, resolver: Resolver) -> Iterator[Proxy]:
    with start(tmp_path_factory.mktemp("names"), origin, resolver, "dns") as running:
        yield running


def ask(server: Proxy, resolver: Resolver, name: bytes, kind: int = A) -> tuple[Reply, bool]:
    """The answer, the same over UDP and TCP, and whether the server behind the filter was asked."""
    before = len(resolver.questions)
    message = query((name, kind))
    reply = ask_udp(server.port, message)
    assert ask_tcp(server.port, message) == [reply]
    return reply, len(resolver.questions) > before


@pytest.mark.parametrize(
    "name",
    [
        b"ads.test",
        b"ADS.Test",
        b"deep.below.ads.test",
        b"_dmarc.ads.test",
        b"_443._tcp.ads.test",
        b"xn--bcher-kva.test",
        b"XN--BCHER-KVA.test",
        b"a/b.ads.test",
        b"a@b:80.ads.test",
        b"a b\x01.ads.test",
        rb"www\.ads.test",
        b"www\xffads.test",  # a dot within a label: mitmproxy would ask for www.ads.test
        b"hashed.test",
        b"doubled.test",
        b".".join([b"x" * 61] * 3) + b".ads.test",
        b"203.0.113.9",
    ],
)
def test_a_blocked_name_does_not_exist_and_is_not_asked_for(server: Proxy, resolver: Resolver, name: bytes) -> None:
    for kind in (A, AAAA, TXT, HTTPS, 255, 65280):
        reply, was_asked = ask(server, resolver, name, kind)
        assert (reply.code, reply.answers, was_asked) == (NXDOMAIN, [], False), kind


@pytest.mark.parametrize(
    "name",
    [
        b"good.test",
        b"notads.test",
        b"path.test",
        b"mixed.test",
        b"asked.test",
        b"tagged.test",
        b"_service._tcp.good.test",
        b"allowed.test",
        b"localhost",
        b"xn--bcher-kva.good.test",
    ],
)
def test_every_other_name_is_told(server: Proxy, resolver: Resolver, name: bytes) -> None:
    reply, was_asked = ask(server, resolver, name)
    assert (reply.code, [data for *_, data in reply.answers], was_asked) == (NOERROR, [PASSED], True)


@pytest.mark.parametrize("name", [rb"\141ds.test", rb"\ads.test", rb"ads.tes\164", b"www.ads.test\\", b"a;ds.test"])
@pytest.mark.parametrize("kind", [A, AAAA, TXT])
def test_the_name_that_is_asked_is_the_one_that_was_decided(
    server: Proxy, resolver: Resolver, name: bytes, kind: int
) -> None:
    before = len(resolver.questions)
    reply, _ = ask(server, resolver, name, kind)
    assert (reply.code, {asked for asked, _ in resolver.questions[before:]}) == (NOERROR, {name})


@pytest.mark.parametrize(
    ("name", "kind"),
    [(b"", NS), (b"4.3.2.1.in-addr.arpa", PTR), (b"0/26.2.0.192.in-addr.arpa", PTR), (b"good.test", TXT)],
)
def test_questions_that_are_about_no_site_pass(server: Proxy, resolver: Resolver, name: bytes, kind: int) -> None:
    reply, was_asked = ask(server, resolver, name, kind)
    assert (reply.code, was_asked) == (NOERROR, True)


@pytest.mark.parametrize(
    "message",
    [
        query((b"good.test", 6), flags=4 << 11),
        query((b"good.test", 6), flags=5 << 11),
        query((b"good.test", A), flags=2 << 11),
        query((b"good.test", A), flags=0x8100),
        query((b"good.test", A), (b"ads.test", A)),
        query((b"good.test", A), (b"other.test", A)),
        query(),
        query((b"ads.test\0", A)),
    ],
    ids=["notify", "update", "status", "answer", "two questions", "two harmless ones", "none", "a NUL"],
)
def test_what_is_no_plain_question_is_refused(server: Proxy, resolver: Resolver, message: bytes) -> None:
    before = len(resolver.questions)
    assert ask_udp(server.port, message).code == REFUSED
    assert ask_tcp(server.port, message)[0].code == REFUSED
    assert resolver.questions[before:] == []


#: one name of 253 letters, and as many pointers to it as there is room for; pointers to pointers; no Punycode
_LONG = query((b".".join([b"a"] * 127), A))
HOSTILE = [
    _LONG[:4] + struct.pack("!H", 9001) + _LONG[6:] + b"\xc0\x0c\0\1\0\1" * 9000,
    query()[:4] + b"\0\1" + bytes(6) + b"".join((0xC000 | at).to_bytes(2) for at in range(14, 6014, 2)) + bytes(5),
    query((b"xn--99999999", A)),
]


@pytest.mark.parametrize("message", HOSTILE, ids=["long names", "pointers", "no Punycode"])
def test_what_takes_long_to_read_is_not_read(server: Proxy, resolver: Resolver, message: bytes) -> None:
    before = len(server.log)
    with socket.create_connection((LOOPBACK, server.port), PATIENCE) as connection:
        connection.sendall(len(message).to_bytes(2) + message)
        assert connection.recv(65536) == b""
    assert ask(server, resolver, b"good.test")[1]
    assert "Traceback" not in server.log.text(before)


@pytest.mark.parametrize(("address", "code"), [("203.0.113.9", REFUSED), ("198.51.100.53", NOERROR)])
def test_in_transparent_mode_the_server_is_decided_too(
    tmp_path: Path, origin: Origin, resolver: Resolver, address: str, code: int
) -> None:
    scripts = ["resolver.py", "transparent.py"]
    options = {"upstream_dns": resolver.port, "original_host": address, "original_port": 53}
    policy = write_policy(tmp_path / "policy")
    before = len(resolver.questions)
    with mitmdump(
        tmp_path, origin, policy=policy, proxy_mode="transparent", scripts=scripts, options=options
    ) as running:
        (reply,) = ask_tcp(running.port, query((b"good.test", A)))
    assert reply.code == code
    assert bool(resolver.questions[before:]) is (code == NOERROR)


def test_a_port_that_is_used_again_has_its_answers(server: Proxy) -> None:
    assert lost_when_ports_are_used_again(Client(LOOPBACK, server.port), server.log, free_ports(100)) == 0


def test_a_name_server_may_be_slow_answer_in_any_order_or_not_at_all(server: Proxy, resolver: Resolver) -> None:
    resolver.delays |= {b"never.test": inf, b"slowest.test": 1.0, b"slow.test": 0.5}
    names = [*resolver.delays, b"fast.test", b"ads.test"]
    begun, before = time.monotonic(), len(server.log)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.settimeout(PATIENCE)
        connection.connect((LOOPBACK, server.port))
        for number, name in enumerate(names):
            connection.send(query((name, A), number=number))
        connection.send(b"no question at all")
        replies = [read_reply(connection.recv(65535)) for _ in names]
    order = [(reply.questions[0][0], reply.code) for reply in replies]
    assert set(order[:2]) == {(b"ads.test", NXDOMAIN), (b"fast.test", NOERROR)}
    assert order[2:] == [(b"slow.test", NOERROR), (b"slowest.test", NOERROR), (b"never.test", SERVFAIL)]
    assert LONGEST_WAIT < time.monotonic() - begun < LONGEST_WAIT + 5
    server.log.wait_for("no answer by .* to never.test: it is silent for 8 seconds", before)


def test_a_name_server_that_is_not_there_makes_every_question_fail_at_once(tmp_path: Path, origin: Origin) -> None:
    (closed,) = free_ports(1)
    policy = write_policy(tmp_path / "policy")
    with (
        mitmdump(tmp_path, origin, policy=policy, proxy_mode=f"reverse:dns://127.0.0.1:{closed}") as running,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection,
    ):
        connection.settimeout(LONGEST_WAIT / 2)
        connection.connect((LOOPBACK, running.port))
        for number in range(3):
            for kind in (A, AAAA):
                connection.send(query((b"good.test", kind), number=number + kind))
            assert {read_reply(connection.recv(65535)).code for _ in (A, AAAA)} == {SERVFAIL}
        assert ask_tcp(running.port, query((b"good.test", A)))[0].code == SERVFAIL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_questions_that_wait_do_not_make_a_traceback_of_the_end(
    tmp_path: Path, origin: Origin, resolver: Resolver, number: signal.Signals
) -> None:
    resolver.delays = {b"never.test": inf}
    with (
        start(tmp_path, origin, resolver, "reverse:dns://127.0.0.1:{port}") as own,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as by_udp,
        socket.create_connection((LOOPBACK, own.port), PATIENCE) as by_tcp,
    ):
        message, before = query((b"never.test", A)), len(resolver.questions)
        by_udp.sendto(message, (LOOPBACK, own.port))
        by_tcp.sendall(len(message).to_bytes(2) + message)
        assert eventually(lambda: len(resolver.questions) >= before + 2)
        end_cleanly(own, number)


@pytest.mark.parametrize("class_", [3, 4, 254, 255])
def test_a_blocked_name_is_blocked_in_every_class(server: Proxy, resolver: Resolver, class_: int) -> None:
    before = len(resolver.questions)
    assert ask_udp(server.port, query((b"ads.test", A), class_=class_)).code == NXDOMAIN
    assert resolver.questions[before:] == []


def test_questions_with_the_same_number_are_not_mistaken_for_one_another(server: Proxy, resolver: Resolver) -> None:
    before = len(resolver.questions)
    names = [b"good.test", b"ads.test", b"other.test", b"ads.test", b"good.test"]
    replies = ask_tcp(server.port, *(query((name, A)) for name in names))
    assert [reply.code for reply in replies] == [NOERROR, NXDOMAIN, NOERROR, NXDOMAIN, NOERROR]
    assert [reply.questions for reply in replies] == [[(name, A)] for name in names]
    assert b"ads.test" not in [name for name, _ in resolver.questions[before:]]


BAD = IPv4Address("203.0.113.9").packed
LEADING: dict[tuple[bytes, int], list[tuple[int, bytes]]] = {
    (b"cloaked.test", A): [(CNAME, pack_name(b"x.ads.test")), (A, PASSED)],
    (b"cloaked.test", AAAA): [(CNAME, pack_name(b"x.ads.test"))],
    (b"cloaked.test", CNAME): [(CNAME, pack_name(b"x.ads.test"))],
    (b"cloaked.test", ANY): [(CNAME, pack_name(b"X.ADS.test"))],
    (b"second.test", A): [(CNAME, pack_name(b"cdn.test")), (CNAME, pack_name(b"hashed.test")), (A, PASSED)],
    (b"address.test", A): [(A, PASSED), (A, BAD)],
    (b"address.test", AAAA): [(AAAA, bytes.fromhex("20010db80bad") + bytes(10))],
    (b"alias.test", HTTPS): [(HTTPS, b"\0\0" + pack_name(b"x.ads.test"))],
    (b"hint.test", SVCB): [(SVCB, b"\0\1\0" + struct.pack("!HH", 4, 8) + PASSED + BAD)],
}
NOT_LEADING: dict[tuple[bytes, int], list[tuple[int, bytes]]] = {
    (b"fine.test", A): [(CNAME, pack_name(b"mixed.test")), (A, PASSED)],
    (b"www.allowed.test", A): [(CNAME, pack_name(b"x.ads.test")), (A, PASSED)],
    (b"mail.test", MX): [(MX, b"\0\1" + pack_name(b"x.ads.test"))],
}


@pytest.mark.parametrize(("name", "kind"), [*LEADING, *NOT_LEADING])
def test_a_name_that_leads_to_a_blocked_one_or_address_is_blocked(
    server: Proxy, resolver: Resolver, name: bytes, kind: int
) -> None:
    resolver.records |= LEADING | NOT_LEADING
    reply, _ = ask(server, resolver, name, kind)
    if (name, kind) in LEADING:
        assert (reply.code, reply.answers) == (NXDOMAIN, [])
    else:
        assert (reply.code, len(reply.answers)) == (NOERROR, len(NOT_LEADING[name, kind]))


def test_broken_answers_are_left_out(server: Proxy, resolver: Resolver) -> None:
    start_of_log = len(server.log)
    resolver.records[b"broken.test", TXT] = [(A, b"\1\2\3"), (CNAME, b"\x3fx"), (AAAA, b""), (A, PASSED)]
    reply, _ = ask(server, resolver, b"broken.test", TXT)
    assert [data for *_, data in reply.answers] == [PASSED]
    assert "Traceback" not in server.log.text(start_of_log)


def test_modes_and_the_log(tmp_path: Path, origin: Origin, resolver: Resolver) -> None:
    resolver.records[b"leads.test", A] = [(CNAME, pack_name(b"ads.test")), (A, PASSED)]
    with start(tmp_path / "tag", origin, resolver, "dns", mode="tag") as running:
        assert ask(running, resolver, b"ads.test")[0].code == NOERROR
    with start(tmp_path / "off", origin, resolver, "dns", mode="off") as running:
        assert ask(running, resolver, b"ads.test")[0].code == NOERROR
    with start(tmp_path / "block", origin, resolver, "reverse:dns://127.0.0.1:{port}") as running:
        for name, kind in [(b"ads.test", HTTPS), (b"leads.test", A), (b"asked.test", AAAA), (b"good.test", A)]:
            ask_udp(running.port, query((name, kind)))
    records = {
        folder: [json.loads(line) for line in lines.read_text().splitlines()]
        for folder in ("tag", "block")
        for lines in [tmp_path / folder / "policy" / "log" / "decisions.jsonl"]
    }
    assert {(record["url"], record["action"], record.get("would_block")) for record in records["tag"]} == {
        ("dns://ads.test/", "block", True)
    }
    assert [(record["method"], record["url"], record["action"]) for record in records["block"]] == [
        ("DNS HTTPS", "dns://ads.test/", "block"),
        ("DNS A", "dns://leads.test/", "pass"),
        ("DNS A", "dns://ads.test/", "block"),
        ("DNS AAAA", "dns://asked.test/", "pass"),
        ("DNS A", "dns://good.test/", "pass"),
    ]
