"""HTTPS and SVCB records: RFC 9460."""

from __future__ import annotations

import struct

import pytest
from mitmproxy import http
from mitmproxy.addons.proxyauth import AcceptAll, ProxyAuth
from mitmproxy.net.server_spec import ServerSpec
from mitmproxy.test import taddons, tflow

from hushlist.proxy.connections.alternative_services import (
    hide_challenge,
    keep_here,
    read_service_record,
)
from hushlist.proxy.runtime import Runtime
from unit.rows import each_row

#: RFC 9460, Appendix D: the test vectors in wire format, but for those with alpn h3
VECTORS = [
    "0000 03666f6f 076578616d706c65 03636f6d 00",  # alias mode
    "0001 00",
    "0010 03666f6f 076578616d706c65 03636f6d 00 0003 0002 0035",
    "0001 03666f6f 076578616d706c65 03636f6d 00 029b 0005 68656c6c6f",
    "0001 03666f6f 076578616d706c65 03636f6d 00 0006 0020 20010db8000000000000000000000001"
    "20010db8000000000000000000530001",
    "0010 03666f6f 076578616d706c65 036f7267 00 0000 0004 0001 0004 0001 0009 02 6832 05 68332d3139 0004 0004 c0000201",
    "0010 03666f6f 076578616d706c65 036f7267 00 0001 000c 08 665c6f6f2c626172 02 6832",
]


@each_row("vector", VECTORS)
def test_the_vectors_of_the_specification_are_read_and_written(vector: str) -> None:
    octets = bytes.fromhex(vector)
    assert read_service_record(octets).to_bytes() == octets


def record(**params: bytes) -> bytes:
    keys = ("mandatory", "alpn", "no_default_alpn", "port", "ipv4hint", "ech", "ipv6hint")
    values = [(keys.index(name), value) for name, value in params.items()]
    return b"\0\1\0" + b"".join(struct.pack("!HH", key, len(value)) + value for key, value in values)


@each_row(
    ("before", "after"),
    [
        (record(alpn=b"\2h2", ech=b"x"), record(alpn=b"\2h2")),
        (record(alpn=b"\2h3\2h2\5h3-29"), record(alpn=b"\2h2")),
        (record(alpn=b"\2h3", port=b"\1\xbb"), record(port=b"\1\xbb")),
        (record(alpn=b"\2h3", no_default_alpn=b""), None),
        (record(alpn=b"\2h3\2h2", no_default_alpn=b""), record(alpn=b"\2h2", no_default_alpn=b"")),
        (record(mandatory=b"\0\1\0\5", alpn=b"\2h2", ech=b"x"), record(mandatory=b"\0\1", alpn=b"\2h2")),
        (record(mandatory=b"\0\5", alpn=b"\2h2", ech=b"x"), record(alpn=b"\2h2")),
        (record(alpn=b"\3h33"), record(alpn=b"\3h33")),
    ],
)
def test_ech_and_http_3_are_taken_out(before: bytes, after: bytes | None) -> None:
    filtered = read_service_record(before).filtered()
    assert (None if filtered is None else filtered.to_bytes()) == after


@each_row(
    "broken",
    [
        b"",
        b"\0",
        b"\0\1",
        b"\0\1\3ab",
        b"\0\1\xc0\x0c",
        b"\0\1" + b"\x3f" + bytes(63) + b"\0\0\3",
        b"\0\1" + (b"\x3f" + b"x" * 63) * 4 + b"\0",
        record(port=b"\1\xbb")[:-1],
        record(port=b"\1\xbb", alpn=b"\2h2"),
        record(alpn=b"\2h2") + record(alpn=b"\2h2")[3:],
        record(alpn=b""),
        record(alpn=b"\0"),
        record(alpn=b"\3h2"),
        record(mandatory=b"\0", alpn=b"\2h2"),
        record(mandatory=b"\0\5", alpn=b"\2h2"),
        record(mandatory=b"\0\3\0\1", alpn=b"\2h2", port=b"\1\xbb"),
        record(ipv4hint=b"abc"),
        record(ipv6hint=b""),
    ],
)
def test_what_is_broken_is_refused(broken: bytes) -> None:
    with pytest.raises(ValueError):
        read_service_record(broken)


FIELDS = [(b"Alt-Svc", b'h3=":443"'), (b"ALT-SVC", b" clear "), (b"alt-svc", b""), (b"alt-svX", b"h3"), (b"a", b"h3")]


@each_row(
    ("mode", "is_live", "kept"),
    [
        ("block", True, FIELDS[1:2] + FIELDS[3:]),
        ("tag", True, FIELDS[1:2] + FIELDS[3:]),
        ("off", True, FIELDS),
        ("block", False, FIELDS),
    ],
)
def test_no_other_service_is_offered_while_the_filter_is_on(
    mode: str, is_live: bool, kept: list[tuple[bytes, bytes]]
) -> None:
    flow, headers, runtime = tflow.tflow(), http.Headers(FIELDS), Runtime()
    flow.live, runtime.mode = is_live, mode
    keep_here(flow, headers, runtime)
    assert [*headers.fields] == kept
    keep_here(flow, None, runtime)


@pytest.mark.parametrize(
    ("mode", "has_passwords", "upstream", "status"),
    [
        ("block", False, None, 502),
        ("tag", False, None, 502),
        ("off", False, None, 407),
        ("block", True, None, 407),
        ("block", False, ("http", ("p.example", 80)), 407),
    ],
)
def test_no_origin_asks_for_a_password_in_the_name_of_the_proxy(
    context: taddons.context, mode: str, has_passwords: bool, upstream: ServerSpec | None, status: int
) -> None:
    answer = http.Response.make(407, b"", {"Proxy-Authenticate": "Basic realm=school"})
    flow, runtime = tflow.tflow(resp=answer), Runtime()
    flow.live, runtime.mode, flow.server_conn.via = True, mode, upstream
    own = ProxyAuth()
    own.validator = AcceptAll() if has_passwords else None
    context.master.addons.add(own)
    hide_challenge(flow, runtime)
    assert answer.status_code == status
    assert ("proxy-authenticate" in answer.headers) is (status == 407)
