"""Where names lead: messages of name servers, decisions by them, and what is connected to."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import ctx
from mitmproxy.connection import Server
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.test import tflow

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.engine import Engine
from hushlist.core.url.request import StatedContext
from hushlist.extensions.resolution import leads as leads_module
from hushlist.extensions.resolution import resolver as resolver_module
from hushlist.extensions.resolution.leads import Leads
from hushlist.extensions.resolution.resolver import (
    MOST_ADDRESSES,
    MOST_ALIASES,
    MOST_LABELS,
    MOST_RECORDS,
    MessageError,
    Resolver,
    is_answer,
    question_of,
    read_answer,
    read_hosts,
)
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.connections.name_lookups import NameLookups
from support.flows import flow_of
from support.mitmproxied import mitmproxied
from support.policies import write_policy
from unit.rows import each_row

A, CNAME, AAAA = 1, 5, 28
LISTS = {
    "list.yaml": """rules:
- {expression: tracker.example.net/, reason: A tracker}
- {address: 8.8.4.0/24}
- {expression: allowed.example.com/, action: allow}
- {expression: mixed.example.com/ok/, action: allow}
"""
}
POLICY = "layers:\n- {name: checks, checks: {private-answer: {action: block, names: [lan.example]}}}\n"
POLICY += "- {name: lists, lists: [list.yaml]}\n"

# -- messages ----------------------------------------------------------------------------------------------------------


def packed(name: bytes) -> bytes:
    return b"".join(bytes((len(label),)) + label for label in name.split(b".")) + b"\0"


def record(owner: bytes, kind: int, data: str | bytes, life: int = 300) -> bytes:
    octets = packed(data) if isinstance(data, bytes) else ip_address(data).packed
    return owner + struct.pack("!HHIH", kind, 1, life, len(octets)) + octets


def answer_to(question: bytes, *records: bytes, flags: int = 0x8180) -> bytes:
    return question[:2] + struct.pack("!5H", flags, 1, len(records), 0, 0) + question[12:] + b"".join(records)


QUESTION = question_of(b"a.example", A, 7)
POINTER = b"\xc0\x0c"


def chain(links: int) -> Sequence[bytes]:
    """Records whose owner is reached through so many pointers, each to the one before; the first record has them."""
    first = len(QUESTION) + 1 + 10  # the root as owner, and the fixed part of a record
    octets = b"\0" + b"".join(
        struct.pack("!H", 0xC000 | place) for place in (first, *range(first + 1, first + 2 * links - 1, 2))
    )
    holder = b"\0" + struct.pack("!HHIH", 16, 1, 300, len(octets)) + octets
    last = struct.pack("!H", 0xC000 | first + len(octets) - 2)
    return holder, *(record(last, A, "192.0.2.1"),) * (MOST_RECORDS - 1)


def test_an_answer_is_read_with_its_aliases_and_its_shortest_life() -> None:
    records = [record(POINTER, CNAME, b"B.example", 60), record(packed(b"b.example"), A, "192.0.2.1", 30)]
    found = read_answer(answer_to(QUESTION, *records), QUESTION)
    assert found == ({b"a.example": b"b.example"}, {b"b.example": ["192.0.2.1"]}, 30)
    assert read_answer(answer_to(QUESTION, flags=0x8183), QUESTION) == ({}, {}, 3600)
    assert read_answer(answer_to(QUESTION, flags=0x8182), QUESTION) is None


@each_row(
    ("records", "why"),
    [
        ((record(POINTER, A, "192.0.2.1")[:-1],), "too early"),
        ((b"\xc0\xff" + record(b"", A, "192.0.2.1"),), "forward"),
        ((b"\xc0\x1b" + record(b"", A, "192.0.2.1"),), "forward"),  # to itself
        ((b"\x40" + record(b"", A, "192.0.2.1"),), "label"),
        ((packed(b".".join([b"x" * 63] * 4)) + record(b"", A, "192.0.2.1"),), "name is too long"),
        ((record(POINTER, A, "192.0.2.1"),) * (MOST_RECORDS + 1), "many records"),
        (chain(MOST_LABELS + 1), "many labels"),
        ([record(b"\1x" * 120 + b"\0", A, "192.0.2.1")] * MOST_RECORDS, "many labels"),
    ],
)
def test_an_answer_that_makes_no_sense_is_an_error(records: Sequence[bytes], why: str) -> None:
    with pytest.raises(MessageError, match=why):
        read_answer(answer_to(QUESTION, *records), QUESTION)


def test_a_pointer_is_followed_once_however_many_names_lead_through_it() -> None:
    looks = 0

    class Counted(bytes):
        def __getitem__(self, at: Any) -> Any:
            nonlocal looks
            looks += 1
            return super().__getitem__(at)

    found = read_answer(Counted(answer_to(QUESTION, *chain(MOST_LABELS // 2))), QUESTION)
    assert found is not None
    assert len(found.addresses[b""]) == MOST_RECORDS - 1
    assert looks < 4 * (MOST_LABELS // 2 + MOST_RECORDS)


def test_only_an_answer_to_the_question_counts() -> None:
    answer = answer_to(question_of(b"A.EXAMPLE", A, 7))
    assert is_answer(answer, QUESTION)
    others = [(b"a.example", A, 8), (b"b.example", A, 7), (b"a.example", AAAA, 7)]
    assert not any(is_answer(answer_to(question_of(*own)), QUESTION) for own in others)
    assert not is_answer(QUESTION, QUESTION)
    assert not is_answer(answer[:20], QUESTION)


def test_a_hosts_file_is_read_as_the_system_does() -> None:
    lines = [b"# x", b"127.0.0.1 localhost Local # x", b"::1 localhost", b"fe80::1%lo0 x", b"nonsense y", b""]
    named = {b"localhost": ("127.0.0.1", "::1"), b"local": ("127.0.0.1",), b"x": ("fe80::1",)}
    assert read_hosts(lines) == named


def test_a_hosts_file_that_says_the_same_without_end_is_read_in_time() -> None:
    lines = [b"127.0.0.1" + b" x" * 200_000, *(b"10.0.%d.%d y" % divmod(number, 256) for number in range(20_000))]
    found = read_hosts(lines)
    assert found[b"x"] == ("127.0.0.1",)
    assert len(found[b"y"]) == MOST_ADDRESSES


# -- look-ups ----------------------------------------------------------------------------------------------------------

#: name -> its alias, or its addresses
Zone = dict[bytes, bytes | tuple[str, ...]]


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Zone:
    """What the name server has; ``asked`` under the empty name counts."""
    names: Zone = {}

    async def by_udp(_: str, question: bytes, __: int) -> bytes:
        await asyncio.sleep(0)
        name, kind = _asked_names(question)
        found = names.get(name)
        if isinstance(found, bytes):
            return answer_to(question, record(POINTER, CNAME, found))
        addresses = [own for own in found or () if (":" in own) == (kind == AAAA)]
        return answer_to(
            question, *(record(POINTER, kind, own, 0 if name == b"flips.example.com" else 300) for own in addresses)
        )

    async def by_system(_: object, name: bytes) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
        return ((b"last.example",), ("192.0.2.99",)) if name.startswith(b"system") else ((), ())

    monkeypatch.setattr(resolver_module, "by_udp", by_udp)
    monkeypatch.setattr(Resolver, "by_system", by_system)
    monkeypatch.setattr(leads_module, "name_servers", lambda: ["192.0.2.53"])
    monkeypatch.setattr(leads_module, "uses_hosts_file", lambda: False)
    return names


def _asked_names(question: bytes) -> tuple[bytes, int]:
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]])
        at += 1 + question[at]
    return b".".join(labels), int.from_bytes(question[at + 1 : at + 3])


def looked_up(name: bytes) -> Any:
    return asyncio.run(Resolver(lambda: ["192.0.2.53"], lambda: False).look_up(name, "10.0.0.1"))


def test_aliases_are_followed_to_addresses_and_no_further_than_the_bound(zone: Zone) -> None:
    zone |= {b"a.example": b"b.example", b"b.example": b"c.example", b"c.example": ("192.0.2.1", "2001:db8::1")}
    found = looked_up(b"a.example")
    assert found.aliases == (b"b.example", b"c.example")
    assert set(found.addresses) == {"192.0.2.1", "2001:db8::1"}
    assert set(found.leads) == {b"b.example", b"c.example", b"192.0.2.1", b"[2001:db8::1]"}
    zone |= {b"n%d.example" % number: b"n%d.example" % (number + 1) for number in range(MOST_ALIASES + 2)}
    assert "leads on through more than" in looked_up(b"n0.example").fault
    zone[b"b.example"] = b"a.example"
    assert "leads on through more than" in looked_up(b"a.example").fault
    assert looked_up(b"none.example")[:2] == ((), ())
    assert looked_up(b"x" * 64 + b".example").fault is not None


def test_a_name_is_asked_for_once_while_it_holds_and_whoever_goes_away(zone: Zone) -> None:
    zone[b"a.example"] = ("192.0.2.1",)

    async def whole() -> None:
        resolver = Resolver(lambda: ["192.0.2.53"], lambda: False)
        first, second = (asyncio.ensure_future(resolver.look_up(b"a.example", "10.0.0.1")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        found = await second
        zone.clear()
        assert await resolver.look_up(b"a.example", "10.0.0.2") is found

    asyncio.run(whole())


@each_row(
    ("name", "servers", "addresses"),
    [
        (b"system.example.com", ["192.0.2.53"], ()),  # denied, and the system may be led elsewhere
        (b"system.x.ck", ["192.0.2.53"], ()),
        (b"system.cloaked.com", ["192.0.2.53"], ()),  # an alias, and then nothing
        (b"system.lan", ["192.0.2.53"], ("192.0.2.99",)),
        (b"system", ["192.0.2.53"], ("192.0.2.99",)),
        (b"system.example.com", [], ("192.0.2.99",)),
    ],
)
def test_the_system_is_asked_only_where_no_name_server_can_say_it(
    zone: Zone, name: bytes, servers: list[str], addresses: tuple[str, ...]
) -> None:
    zone[b"system.cloaked.com"] = b"tracker.example.net"
    found = asyncio.run(Resolver(lambda: servers, lambda: False).look_up(name, "10.0.0.1"))
    assert found.addresses == addresses
    assert found.aliases == (
        (b"last.example",) if addresses else (b"tracker.example.net",) if b"cloaked" in name else ()
    )


def test_the_last_alias_that_the_system_says_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(*_: object, **__: object) -> list[Any]:
        return [(0, 0, 0, "Tracker.example.net.", ("192.0.2.1", 0)), (0, 0, 0, "", ("fe80::1%lo", 0, 0, 1))]

    monkeypatch.setattr(socket, "getaddrinfo", said)
    found = asyncio.run(Resolver(list, lambda: False).look_up(b"a.example.com", "10.0.0.1"))
    assert found[:2] == ((b"tracker.example.net",), ("192.0.2.1", "fe80::1"))


def test_a_silent_server_keeps_a_client_only_so_long(zone: Zone, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(*_: object) -> bytes:
        await asyncio.sleep(3600)
        raise AssertionError

    monkeypatch.setattr(resolver_module, "by_udp", silent)
    monkeypatch.setattr(resolver_module, "LONGEST_WAIT", 0.05)
    assert looked_up(b"a.example")[:2] == ((), ())


# -- decisions ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    compiled = compile_policy(write_policy(tmp_path_factory.mktemp("leads"), POLICY, LISTS))
    return Engine(compiled.policy, compiled.index)


@each_row(
    ("host", "leads", "by"),
    [
        ("shop.example.com", [b"x.tracker.example.net", b"8.8.8.8"], "tracker.example.net/"),
        ("shop.example.com", [b"8.8.4.9"], "8.8.4.9 by list"),
        ("shop.example.com", [b"[2002:808:409::1]"], "8.8.4.9 by list"),  # 6to4
        ("shop.example.com", [b"[64:ff9b::808:409]"], "8.8.4.9 by list"),
        ("rebind.example.com", [b"127.0.0.1"], "leads to 127.0.0.1"),
        ("rebind.example.com", [b"8.8.8.8", b"[fe80::1]"], "leads to [fe80::1]"),
        ("rebind.example.com", [b"[::ffff:10.0.0.1]"], "leads to"),
        ("rebind.example.com", [b"[64:ff9b::10.0.0.1]"], "leads to"),
        ("rebind.example.com", [b"169.254.169.254"], "leads to 169.254.169.254"),
        ("rebind.example.com", [b"192.0.0.8"], "leads to 192.0.0.8"),
        ("rebind.example.com", [b"192.88.99.1"], "leads to 192.88.99.1"),
        ("rebind.example.com", [b"[fec0::1]"], "leads to [fec0::1]"),
        ("rebind.example.com", [b"[5f00::1]"], "leads to [5f00::1]"),
        ("rebind.example.com", [b"[3fff::1]"], "leads to [3fff::1]"),
        ("rebind.example.com", [b"[2002:1::1]"], "leads to [2002:1::1]"),
        ("shop.example.com", [b"8.8.8.8", b"cdn.example.net"], None),
        ("nas.lan.example", [b"10.0.0.7"], None),
        ("router", [b"10.0.0.7"], None),
        ("nas.home.arpa", [b"10.0.0.7"], None),
        ("allowed.example.com", [b"8.8.4.9"], None),
        ("mixed.example.com", [b"8.8.4.9"], "8.8.4.9 by list"),
    ],
)
def test_what_a_name_leads_to_decides(engine: Engine, host: str, leads: list[bytes], by: str | None) -> None:
    decision = engine.decide_url(f"https://{host}/".encode(), context=StatedContext(leads=tuple(leads)))
    if by is None:
        assert decision.action.value == ("allow" if "allowed" in host else "pass")
    else:
        assert decision.action.value == "block"
        assert by in str(decision)


def test_an_allowed_folder_is_allowed_wherever_its_name_leads(engine: Engine) -> None:
    told = StatedContext(leads=(b"8.8.4.9",))
    assert engine.decide_url(b"https://mixed.example.com/ok/x", context=told).action.value == "allow"


@each_row(
    ("policy", "asks"),
    [
        ("checks: {private-answer: tag}", True),
        ("checks: {private-answer: pass}", False),
        ("checks: {rare-ipv4: block}", False),
        ("lists: [list.yaml]", False),
    ],
)
def test_names_are_looked_up_where_a_check_needs_it_or_the_policy_says_so(
    tmp_path_factory: pytest.TempPathFactory, policy: str, asks: bool
) -> None:
    for key, expected in (("", asks), ("resolve: on", True), ("resolve: off", False)):
        written = f"{key}\nlayers:\n- name: only\n  {policy}\n"
        compiled = compile_policy(write_policy(tmp_path_factory.mktemp("asks"), written, LISTS))
        assert Engine(compiled.policy, compiled.index).asks_leads is expected


# -- in the proxy ------------------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(tmp_path: Path, zone: Zone) -> Any:
    """The addon with the policy."""
    addon = Hushlist()
    with mitmproxied(addon, write_policy(tmp_path, POLICY, LISTS)):
        yield addon


async def connected_to(addon: Hushlist, host: str, mode: str = "regular", **of_server: Any) -> list[str] | str:
    """The addresses that mitmproxy would try for a server, or why it connects to none."""
    flow = flow_of("http://h.example/", mode=mode)
    data = ServerConnectionHookData(Server(address=(host, 80), **of_server), flow.client_conn)
    lookups = NameLookups()
    lookups.run()
    try:
        if (waits := addon.server_connect(data)) is not None:
            await waits
        if data.server.error:
            return data.server.error
        assert data.server.address is not None
        found = await asyncio.get_running_loop().getaddrinfo(*data.server.address, type=socket.SOCK_STREAM)
        return [own[4][0] for own in found]
    finally:
        lookups.close()


async def status_of(addon: Hushlist, url: str, **more: Any) -> int | None:
    flow = flow_of(url, **more)
    if (waits := addon.requestheaders(flow)) is not None:
        await waits
    return None if flow.response is None else flow.response.status_code


def test_a_request_is_connected_to_what_was_decided_though_the_next_answer_differs(proxy: Hushlist, zone: Zone) -> None:
    async def whole() -> None:
        zone[b"flips.example.com"] = ("8.8.8.8",)
        assert await status_of(proxy, "http://flips.example.com/") is None
        zone[b"flips.example.com"] = ("127.0.0.1",)
        assert await connected_to(proxy, "flips.example.com") == ["8.8.8.8"]
        assert await status_of(proxy, "http://flips.example.com/") == 403
        zone.update({b"cloak.example.com": b"tracker.example.net", b"tracker.example.net": ("8.8.8.8",)})
        assert await status_of(proxy, "http://cloak.example.com/") == 403
        assert await status_of(proxy, "http://cloak.example.com/", mode="transparent", Host="cloak.example.com") == 403

    asyncio.run(whole())


def test_a_connection_that_nobody_decided_is_decided_by_where_it_leads(proxy: Hushlist, zone: Zone) -> None:
    async def whole() -> None:
        zone.update({b"bad.example.com": ("8.8.4.9",), b"good.example.com": ("8.8.8.8", "2001:4860::8")})
        found = await connected_to(proxy, "bad.example.com")
        assert isinstance(found, str)
        assert "blocked by hushlist" in found
        assert set(await connected_to(proxy, "good.example.com")) == {"8.8.8.8", "2001:4860::8"}
        assert await connected_to(proxy, "none.example.com") == "no address is known of none.example.com"
        assert await connected_to(proxy, "8.8.4.9") == ["8.8.4.9"]  # its request was decided by the address

    asyncio.run(whole())


def test_a_failure_connects_nowhere(proxy: Hushlist, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resolver, "look_up", lambda *_: 1 / 0)

    async def whole() -> None:
        assert await status_of(proxy, "http://a.example.com/") == 403
        assert await connected_to(proxy, "a.example.com") == "blocked by hushlist: the filter failed"

    asyncio.run(whole())


def test_where_others_look_names_up_it_is_unknown(proxy: Hushlist, zone: Zone) -> None:
    zone[b"bad.example.com"] = ("8.8.4.9",)
    part = proxy.runtime.part(Leads)
    assert part is not None
    assert list(part.states()) == []
    ctx.options.add_option("mode", Sequence[str], ["upstream:http://192.0.2.1@8080"], "")
    ctx.options.add_option("listen_port", int | None, None, "")
    part.configured()
    assert list(part.states()) == ["where names lead is not known: the upstream proxy looks them up"]

    async def whole() -> None:
        data = Server(address=("bad.example.com", 80), via=("http", ("192.0.2.1", 3128)))
        flow = tflow.tclient_conn()
        assert (waits := proxy.server_connect(ServerConnectionHookData(data, flow))) is None or await waits is None
        assert data.error is None

    asyncio.run(whole())


def test_a_server_of_datagrams_gets_its_name_back(proxy: Hushlist, zone: Zone) -> None:
    zone[b"good.example.com"] = ("8.8.8.8",)

    async def whole() -> None:
        server = Server(address=("good.example.com", 443), transport_protocol="udp")
        data = ServerConnectionHookData(server, flow_of("http://h.example/").client_conn)
        if (waits := proxy.server_connect(data)) is not None:
            await waits
        assert server.address == ("8.8.8.8", 443)
        for connected in proxy.parts.server_connected:
            connected(data)
        assert server.address == ("good.example.com", 443)

    asyncio.run(whole())
