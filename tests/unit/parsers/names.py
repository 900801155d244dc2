"""The readers of DNS: of names, of records, and of whole messages, as mitmproxy unpacks them."""

from __future__ import annotations

import struct
from functools import cache, partial
from ipaddress import IPv4Address, IPv6Address
from types import SimpleNamespace
from typing import Any, NoReturn, cast

from mitmproxy import dns
from mitmproxy.net.dns import domain_names
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import tflow

from hushlist.core.decide.decision import Judgement
from hushlist.core.policy.groups import GroupSettings
from hushlist.core.policy.proxy_settings import NameAnswers
from hushlist.core.url.request import Request
from hushlist.proxy.connections import dns_queries
from hushlist.proxy.connections.alternative_services import read_service_record
from hushlist.proxy.connections.dns_queries import DnsQueries
from hushlist.proxy.flow_request import hosts_of_name, request_of_question
from hushlist.proxy.runtime import Runtime
from unit.parsers.lines import engine
from unit.parsers.table import NOON, Parser, put, text_of

PARSERS: dict[str, Parser] = {}
add = partial(put, PARSERS)


@add(
    "dns name",
    "Blocked.Example",
    "_dns.b\u00fccher.example.",
    "a/b@c\\d.example",
    units=(b"a.", b"xn--a.", "ü.".encode()),
)
def _name(octets: bytes) -> None:
    hosts = hosts_of_name(text_of(octets))
    assert not any(delimiter in host for host in hosts for delimiter in b"/?#@\\:[]")
    engine().decide(Request(b"dns", tuple(hosts), 53, b"/"), NOON)


#: RFC 9460, Appendix D.2, and what is taken out of a record
_RECORDS = (
    "0000 03666f6f 076578616d706c65 03636f6d 00",
    "0010 03666f6f 076578616d706c65 03636f6d 00 0003 0002 0035",
    "0010 03666f6f 076578616d706c65 036f7267 00 0000 0004 0001 0004 0001 0009 02 6832 05 68332d3139 0004 0004 c0000201",
    "0001 00 0001 0006 02 6833 02 6832 0005 0002 fe0d 0006 0010 20010db8000000000000000000000001",
)


@add(
    "dns service record",
    *map(bytes.fromhex, _RECORDS),
    errors=ValueError,
    units=(b"\x02h3", b"\x00\x01\x00\x03\x02h2", b"\x3f" + b"a" * 63, b"\x00\x05", b"\xff\xff\x00\x00"),
)
def _service_record(octets: bytes) -> None:
    record = read_service_record(octets)
    assert read_service_record(record.to_bytes()) == record
    assert all(record.addresses) or record.addresses
    filtered = record.filtered()
    if filtered is not None:
        assert filtered.filtered() == filtered
        assert read_service_record(filtered.to_bytes()) == filtered


#: mitmproxy 12 calls it DNSMessage
_MESSAGE: Any = type(tflow.tdnsflow().request)


def _fail(_flow: object, error: Exception, **_: object) -> NoReturn:
    raise AssertionError("a message is not decided") from error


async def _confirmed(judgement: Judgement | None, **_: object) -> Judgement | None:
    return judgement


@cache
def _runtime(mode: str) -> Runtime:
    """What decides without a policy on a disk; a failure is none that may be handled."""
    settings = GroupSettings(mode=mode)
    own = SimpleNamespace(
        mode=mode,
        engine=engine(),
        settings=lambda _client: settings,
        judge=lambda asked, client, **_: Judgement(asked, client, settings, engine().decide(asked, NOON, client), 0),
        confirmed=_confirmed,
        record=lambda judgement, *_, **__: judgement,
        failure_policy=SimpleNamespace(act=_fail),
    )
    return cast(Runtime, own)


def _records() -> list[dns.ResourceRecord]:
    name = "www.blocked.example"
    return [
        dns.ResourceRecord.CNAME("h.example", name),
        dns.ResourceRecord(name, dns.types.DNAME, dns.classes.IN, 60, domain_names.pack("other.example")),
        dns.ResourceRecord.A(name, IPv4Address("192.0.2.7")),
        dns.ResourceRecord.AAAA(name, IPv6Address("2001:db8::7")),
        *(dns.ResourceRecord(name, dns.types.HTTPS, dns.classes.IN, 60, bytes.fromhex(one)) for one in _RECORDS[:3]),
    ]


@cache
def _messages() -> tuple[bytes, ...]:
    query = _MESSAGE.unpack(tflow.tdnsflow().request.packed)
    query.questions = [dns.Question("www.blocked.example", dns.types.HTTPS, dns.classes.IN)]
    compressed = query.packed[:-4] + b"\0\1\0\1" + b"\xc0\x0c\0\5\0\1\0\0\0\x3c\0\2\xc0\x10"
    return (
        *(query.succeed([one]).packed for one in _records()),
        query.succeed(_records()).packed,
        query.packed,
        compressed[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + compressed[12:],
    )


_UNITS = (
    *(b"\xc0\x0c\0\1\0\1", b"\1a\xc0\x0c\0\1\0\1", b"\1a\0\0\1\0\1", b"\xc0\x0c\0\5\0\1\0\0\0\x3c\0\2\xc0\x10"),
    *(b"\xc0\x0c\0\x41\0\1\0\0\0\x3c\0\3\0\1\0", b"\x3f" + b"a" * 63, b"\x08xn--\xc3\xbcaa"),
)


def _message(octets: bytes) -> None:
    """A question, and an answer to it: decided as in the proxy, and answered."""
    try:
        message = _MESSAGE.unpack(octets)
    except Exception:  # mitmproxy's own reader, which drops it
        raise struct.error("it is none") from None
    request_of_question(message)
    for answers in (NameAnswers(), NameAnswers(refused=True), NameAnswers(addresses=(IPv4Address("192.0.2.80"),))):
        blocked = dns_queries._blocked(message, answers, refused=False)
        assert not blocked.query
    for mode in ("block", "tag"):
        flow: Any = tflow.tdnsflow(resp=True)
        flow.client_conn.proxy_mode = ProxyMode.parse("dns")
        flow.request = message
        queries = DnsQueries(_runtime(mode))
        queries.ask(flow)
        if not message.query:
            flow.request, flow.response = _messages_unpacked(), _MESSAGE.unpack(octets)
            queries.answer(flow)


@cache
def _messages_unpacked() -> Any:
    return _MESSAGE.unpack(_messages()[-2])


PARSERS["dns message"] = Parser(_message, _messages, (struct.error,), _UNITS)
