"""Names of DNS, by the objects of mitmproxy: notes, recordings, failures."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy import ctx, dns
from mitmproxy.connection import Server
from mitmproxy.net.dns import response_codes
from mitmproxy.options import Options
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import tflow

from hushlist.core.decide.engine import Engine
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.rule import Action, ExpressionHash, Rule, Terms
from hushlist.core.policy.policy_file import Layer, Policy
from hushlist.core.policy.proxy_settings import FailureCause, NameAnswers, OnFailure
from hushlist.extensions.safe_browsing.confirmations import Confirmations, FullHashes, Threat
from hushlist.extensions.safe_browsing.threat_lists import SafeBrowsing, ThreatList
from hushlist.proxy.connections import dns_queries
from hushlist.proxy.connections.dns_queries import DnsQueries, ask_filter_first, ask_name_server
from hushlist.proxy.flow_outcome import BLOCKED, KEY
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service.policy_watch import PolicyWatch
from support.engines import index_of
from unit.rows import each_row

RULES = """
rules:
- blocked.example
- blocked.categorized.example
- {expression: blocked.categorized.example/x/, category: 'hrn://h.example/good'}
- use-application-dns.net
- {expression: allowed.example, action: allow}
- {address: 203.0.113.0/24}
"""


@pytest.fixture(autouse=True)
def _options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctx, "options", Options(), raising=False)


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "policy.yaml").write_text(
        "layers:\n- {name: lists, lists: [rules.yaml]}\ndns: {blocked: 192.0.2.80}\n"
        "groups:\n- {name: a, clients: [10.0.0.7], categories: {'hrn://h.example/good': allow}}\n"
    )
    own = Runtime()
    PolicyWatch(own).load(tmp_path / "policy.yaml")
    yield own
    own.close()


def flow_of(name: str, kind: int = dns.types.A, client: str = "127.0.0.1") -> dns.DNSFlow:
    flow = tflow.tdnsflow()
    flow.client_conn.proxy_mode = ProxyMode.parse("dns")
    flow.client_conn.peername = (client, 5353)
    flow.request.questions = [dns.Question(name, kind, dns.classes.IN)]
    return flow


def ask(runtime: Runtime, flow: dns.DNSFlow, mode: str = "block") -> dns.DNSFlow:
    runtime.mode = mode
    DnsQueries(runtime).ask(flow)
    return flow


def test_a_recording_is_annotated_and_keeps_its_answer(runtime: Runtime) -> None:
    flow = flow_of("blocked.example")
    flow.live = False
    flow.response = answer = flow.request.succeed([])
    assert ask(runtime, flow).marked == BLOCKED
    assert flow.response is answer


def test_the_names_by_which_software_asks_for_leave_are_never_given_an_address(runtime: Runtime) -> None:
    response = ask(runtime, flow_of("USE-application-dns.net")).response
    assert response
    assert response.response_code == response_codes.NXDOMAIN


@pytest.mark.parametrize("step", ["ask", "answer"])
def test_a_failure_of_our_own_answers_nothing(
    runtime: Runtime, step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    flow = flow_of("other.example")
    if step == "answer":
        flow.response = flow.request.succeed([dns.ResourceRecord.CNAME("other.example", "x.example")])
    monkeypatch.setattr(runtime, "judge", fail)
    getattr(DnsQueries(runtime), step)(flow)
    assert flow.response
    assert flow.response.response_code == response_codes.SERVFAIL
    assert "the filter failed" in caplog.text


@pytest.mark.parametrize("step", ["ask", "answer"])
def test_a_name_stays_blocked_where_that_cannot_be_recorded(
    runtime: Runtime, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    flow = flow_of("blocked.example" if step == "ask" else "other.example")
    if step == "answer":
        flow.response = flow.request.succeed([dns.ResourceRecord.CNAME("other.example", "blocked.example")])
    runtime.failure_policy.on_failure = OnFailure(frozenset(FailureCause))
    monkeypatch.setattr(runtime, "record", fail)
    getattr(DnsQueries(runtime), step)(flow)
    assert flow.response
    assert flow.response.response_code == response_codes.SERVFAIL
    assert runtime.failure_policy.passed == 0


class OwnResolver:
    """mitmproxy's, as far as it is looked at."""

    def __init__(self, *servers: str) -> None:
        self.servers = servers
        self.questions: list[dns.DNSFlow] = []

    def name_servers(self) -> tuple[str, ...]:
        return self.servers

    async def dns_request(self, flow: dns.DNSFlow) -> None:
        self.questions.append(flow)


def test_name_servers_are_asked_behind_the_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    first, resolver, last = object(), OwnResolver("192.0.2.53"), object()
    before = [first, resolver, last]
    addons = SimpleNamespace(chain=before, get=lambda name: resolver if name == "dnsresolver" else None)
    ask_filter_first(addons)  # type: ignore[arg-type]
    assert addons.chain == [first, last, resolver]
    assert before == [first, resolver, last]  # it may be gone through at the moment
    ask_filter_first(addons)  # type: ignore[arg-type]
    assert addons.chain == [first, last, resolver]
    for option, server in (("block", ("192.0.2.53", 53)), ("off", None)):
        monkeypatch.setattr(dns_queries, "ctx", SimpleNamespace(options=SimpleNamespace(hushlist_mode=option)))
        flow = flow_of("other.example")
        flow.client_conn.proxy_mode, flow.server_conn = ProxyMode.parse("dns"), Server(address=None)
        asyncio.run(resolver.dns_request(flow))
        assert flow.server_conn.address == server
    assert resolver.questions == [flow]


@pytest.mark.parametrize(
    ("option", "mode", "before", "after"),
    [
        ("block", "dns", None, ("192.0.2.53", 53)),
        ("tag", "dns", None, ("192.0.2.53", 53)),
        ("block", "wireguard", ("10.0.0.53", 53), ("192.0.2.53", 53)),
        ("block", "wireguard", ("192.0.2.9", 53), ("192.0.2.9", 53)),
        ("block", "transparent", ("192.0.2.9", 53), ("192.0.2.9", 53)),
        ("off", "dns", None, None),
    ],
)
def test_what_mitmproxy_itself_is_asked_goes_to_a_name_server(
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    mode: str,
    before: tuple[str, int] | None,
    after: tuple[str, int] | None,
) -> None:
    monkeypatch.setattr(dns_queries, "ctx", SimpleNamespace(options=SimpleNamespace(hushlist_mode=option)))
    resolver, flow = OwnResolver("192.0.2.53", "192.0.2.54"), flow_of("other.example")
    flow.client_conn.proxy_mode, flow.server_conn = ProxyMode.parse(mode), Server(address=before)
    asyncio.run(ask_name_server(resolver, flow))
    assert flow.server_conn.address == after
    assert resolver.questions == ([flow] if option == "off" else [])
    flow.server_conn = Server(address=before)
    flow.response = flow.request.succeed([])
    asyncio.run(ask_name_server(resolver, flow))
    assert flow.server_conn.address == before


@pytest.mark.parametrize("section", ["answers", "additionals"])
@pytest.mark.parametrize(("name", "is_blocked"), [("www.blocked.example", True), ("good.example", False)])
def test_an_answer_is_decided_by_the_names_that_have_records_too(
    runtime: Runtime, section: str, name: str, is_blocked: bool
) -> None:
    flow = flow_of("other.example", dns.types.MX)
    flow.response = before = flow.request.succeed([])
    getattr(before, section).append(dns.ResourceRecord.A(name, IPv4Address("192.0.2.7")))
    DnsQueries(runtime).answer(flow)
    assert (flow.response is not before) is is_blocked


@each_row(
    ("mode", "address", "is_refused"),
    [
        ("transparent", "203.0.113.7", True),
        ("transparent", "192.0.2.7", False),
        ("wireguard", "203.0.113.7", True),
        ("local", "::ffff:203.0.113.7", True),
        ("reverse:dns://203.0.113.7", "203.0.113.7", False),  # the administrator says so
        ("dns", "203.0.113.7", False),
    ],
)
def test_a_server_that_is_blocked_by_its_address_is_asked_nothing(
    runtime: Runtime, mode: str, address: str, is_refused: bool
) -> None:
    for name in ("other.example", "allowed.example"):
        flow = flow_of(name)
        flow.client_conn.proxy_mode = ProxyMode.parse(mode)
        flow.server_conn = Server(address=(address, 53))
        response = ask(runtime, flow).response
        # whoever asks is not told of a name that it does not exist, or where else it is
        assert (response is not None and response.response_code == response_codes.REFUSED) is is_refused


def test_an_answer_to_an_earlier_question_is_not_taken_for_one_about_an_allowed_name(runtime: Runtime) -> None:
    queries = DnsQueries(runtime)
    flow = flow_of("cloaked.example")
    queries.ask(flow)
    late = flow.request.succeed([dns.ResourceRecord.CNAME("cloaked.example", "blocked.example")])
    flow.request = flow_of("allowed.example").request  # mitmproxy tells questions apart by their numbers alone
    queries.ask(flow)
    flow.response = late
    queries.answer(flow)
    assert flow.response is not late
    flow.response = own = flow.request.succeed([dns.ResourceRecord.CNAME("allowed.example", "blocked.example")])
    queries.answer(flow)
    assert flow.response is own


@pytest.mark.parametrize("mode", ["block", "off"])
def test_what_was_answered_for_a_question_before_is_forgotten(runtime: Runtime, mode: str) -> None:
    queries, flow = DnsQueries(runtime), flow_of("blocked.example")
    queries.ask(flow)
    assert flow.response is not None
    flow.request = flow_of("good.example").request  # mitmproxy tells questions apart by their numbers alone
    runtime.mode = mode
    queries.ask(flow)
    assert flow.response is None


@pytest.mark.parametrize(
    ("kind", "class_", "addresses"),
    [
        (dns.types.A, dns.classes.IN, ["192.0.2.80"]),
        (dns.types.AAAA, dns.classes.IN, []),
        (dns.types.MX, dns.classes.IN, []),
        (dns.types.A, dns.classes.CH, []),
    ],
)
def test_the_address_of_the_policy_is_for_whoever_asks_for_one(
    runtime: Runtime, kind: int, class_: int, addresses: list[str]
) -> None:
    flow = flow_of("blocked.example", kind)
    flow.request.questions[0].class_ = class_
    response = ask(runtime, flow).response
    assert response
    assert response.response_code == response_codes.NOERROR
    assert [str(record.ipv4_address) for record in response.answers] == addresses
    assert {record.ttl for record in response.answers} <= {10}  # seconds: an unblocked site can be used soon


@pytest.mark.parametrize(
    ("answers", "kind", "code", "addresses"),
    [
        (NameAnswers(), dns.types.A, response_codes.NXDOMAIN, []),
        (NameAnswers(refused=True), dns.types.A, response_codes.REFUSED, []),
        (
            NameAnswers(addresses=(IPv6Address("::1"),)),
            dns.types.AAAA,
            response_codes.NOERROR,
            [IPv6Address("::1").packed],
        ),
        (NameAnswers(addresses=(IPv6Address("::1"),)), dns.types.A, response_codes.NOERROR, []),
    ],
)
def test_a_blocked_name_is_answered_as_the_policy_says(
    answers: NameAnswers, kind: int, code: int, addresses: list[bytes]
) -> None:
    response = dns_queries._blocked(flow_of("blocked.example", kind).request, answers, refused=False)
    assert (response.response_code, [record.data for record in response.answers]) == (code, addresses)
    assert {record.ttl for record in response.answers} <= {10}


@pytest.mark.parametrize(("mode", "is_killed"), [("block", True), ("tag", False), ("off", False)])
def test_in_a_tunnel_nothing_is_a_question(runtime: Runtime, mode: str, is_killed: bool) -> None:
    flow = flow_of("blocked.example")
    flow.client_conn.proxy_mode = ProxyMode.parse("regular")
    ask(runtime, flow, mode)
    assert (flow.error is not None, flow.response, flow.metadata) == (is_killed, None, {})
    flow.response = before = flow.request.succeed([dns.ResourceRecord.A("blocked.example", IPv4Address("192.0.2.7"))])
    DnsQueries(runtime).answer(flow)
    assert flow.response is before


@pytest.mark.parametrize(("mode", "is_live"), [("off", True), ("block", False)])
def test_an_answer_is_left_alone_while_the_filter_is_off_and_in_a_recording(
    runtime: Runtime, mode: str, is_live: bool
) -> None:
    flow = flow_of("other.example")
    flow.live, runtime.mode = is_live, mode
    flow.response = before = flow.request.succeed([dns.ResourceRecord.CNAME("other.example", "blocked.example")])
    DnsQueries(runtime).answer(flow)
    assert flow.response is before
    assert len(before.answers) == 1


def record_of(kind: int, data: bytes) -> dns.ResourceRecord:
    return dns.ResourceRecord("other.example", kind, dns.classes.IN, 60, data)


ALIAS = b"\0\0\7blocked\7example\0"
HINT = b"\0\1\0" + b"\0\4\0\4\xcb\0\x71\7"
ENCRYPTED = b"\0\1\0" + b"\0\5\0\2\xfe\x0d"


@each_row(
    ("record", "is_blocked"),
    [
        (record_of(dns.types.A, bytes((203, 0, 113, 7))), True),
        (record_of(dns.types.A, bytes((192, 0, 2, 7))), False),
        (record_of(dns.types.AAAA, IPv6Address("::ffff:203.0.113.7").packed), True),
        (record_of(dns.types.AAAA, IPv6Address("2001:db8::7").packed), False),
        (dns.ResourceRecord.CNAME("other.example", "www.blocked.example"), True),
        (record_of(dns.types.DNAME, dns.domain_names.pack("blocked.example")), True),
        (record_of(dns.types.HTTPS, ALIAS), True),
        (record_of(dns.types.SVCB, HINT), True),
        (record_of(dns.types.HTTPS, ENCRYPTED), False),
        (record_of(dns.types.TXT, b"\7blocked"), False),
    ],
)
def test_an_answer_is_decided_by_where_it_leads(runtime: Runtime, record: dns.ResourceRecord, is_blocked: bool) -> None:
    flow = flow_of("other.example", record.type)
    flow.response = before = flow.request.succeed([record])
    DnsQueries(runtime).answer(flow)
    assert (flow.response is not before) is is_blocked
    assert flow.response.response_code != response_codes.REFUSED  # as the policy says
    assert (KEY in flow.metadata) is is_blocked


@each_row(
    ("record", "kept"),
    [
        (record_of(dns.types.HTTPS, ENCRYPTED), [b"\0\1\0"]),
        (record_of(dns.types.HTTPS, b"\0\1\0\0\1\0\3\2h3\0\2\0\0"), []),  # it offers HTTP/3 alone
        (record_of(dns.types.HTTPS, b"\0"), []),
        (record_of(dns.types.A, b"\1\2\3"), []),
        (record_of(dns.types.AAAA, b"\1\2\3\4"), []),
        (record_of(dns.types.A, b"\1\2\3\4"), [b"\1\2\3\4"]),
        (record_of(dns.types.MX, b"\0"), [b"\0"]),
    ],
)
@each_row("section", ["answers", "authorities", "additionals"])
def test_what_would_lead_past_the_filter_is_taken_out_and_the_answer_is_no_longer_called_authentic(
    runtime: Runtime, section: str, record: dns.ResourceRecord, kept: list[bytes]
) -> None:
    flow = flow_of("other.example")
    flow.response = response = flow.request.succeed([])
    response.reserved = 0b111
    before = record.data
    getattr(response, section).append(record_of(record.type, record.data))
    DnsQueries(runtime).answer(flow)
    assert flow.response is response
    assert [own.data for own in getattr(response, section)] == kept
    assert response.reserved == (0b111 if kept == [before] else 0b101)


# -- prefixes that somebody has to confirm ---------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "code"), [("bad.example", response_codes.NXDOMAIN), ("odd.example", None)])
def test_a_question_waits_until_a_prefix_of_its_name_is_confirmed(tmp_path: Path, name: str, code: int | None) -> None:
    service = SafeBrowsing(5, "https://lists.example", ("all-4b",))
    named = ThreatList(service, "all-4b")
    terms = Terms(Action.BLOCK, "all-4b", "all-4b", layer="lists", confirmer=named.key)
    rules = [
        Rule(ExpressionHash(full_hash(own)[:4]), terms, at) for at, own in enumerate((b"bad.example/", b"odd.example/"))
    ]
    asked = list[object]()

    def search(_: SafeBrowsing, prefixes: Collection[bytes]) -> FullHashes:
        asked.append(prefixes)
        return FullHashes({full_hash(b"bad.example/"): (Threat("MALWARE", 300.0),)}, 300.0)

    policy = Policy("policy.yaml", (Layer("lists"),), confirmers={named.key: named})
    runtime = Runtime()
    runtime.use(Engine(policy, index_of(rules), confirmations=Confirmations(search)), None)
    queries, flow = DnsQueries(runtime), flow_of(name)

    async def ask() -> None:
        waits = queries.ask(flow)
        assert waits is not None
        await waits
        assert queries.ask(flow_of(name)) is None  # it is known now

    asyncio.run(ask())
    runtime.close()
    assert len(asked) == 1
    assert (None if flow.response is None else flow.response.response_code) == code


def test_the_names_of_a_message_that_is_refused_anyway_are_not_looked_at(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, seen = flow_of("good.example"), list[bytes]()
    flow.request.questions *= 1000
    for number, question in enumerate(flow.request.questions):
        flow.request.questions[number] = replace(question, name=f"n{number}.example")
    engine = runtime.engine
    assert engine is not None
    monkeypatch.setattr(engine.hosts, "allows_below", lambda host, client: seen.append(host))
    ask(runtime, flow)
    assert flow.response is not None
    assert flow.response.response_code == response_codes.REFUSED
    assert not seen


@pytest.mark.slow
def test_everybody_has_their_turn_while_a_long_answer_is_decided(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, judged, most = flow_of("good.example"), [0], [0]
    flow.response = flow.request.succeed(
        [
            dns.ResourceRecord("good.example", dns.types.A, 1, 60, number.to_bytes(4, "big"))
            for number in range(1 << 24, (1 << 24) + 4096)
        ]
    )
    judge = Runtime.judge

    def counted(*arguments: Any, **named: Any) -> Any:
        judged[0] += 1
        return judge(*arguments, **named)

    monkeypatch.setattr(Runtime, "judge", counted)

    async def whole() -> None:
        waiting = DnsQueries(runtime).answer(flow)
        assert waiting is not None
        deciding = asyncio.ensure_future(waiting)
        while not deciding.done():
            before = judged[0]
            await asyncio.sleep(0)
            most[0] = max(most[0], judged[0] - before)

    asyncio.run(whole())
    assert judged[0] == 4097
    assert most[0] <= 64
