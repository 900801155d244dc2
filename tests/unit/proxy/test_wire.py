"""Requests off flows."""

import pytest
from mitmproxy import http
from mitmproxy.test import tflow

from hushlist.engine import Request
from hushlist.match.rule import Action
from hushlist.proxy.wire import request_of_flow
from unit.hostile import engine_of


def flow_of(
    url: str = "http://target.example/p?q",
    *,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    authority: bytes = b"",
    sni: str | None = None,
    path: bytes | None = None,
) -> http.HTTPFlow:
    request = http.Request.make("GET", url)
    request.headers = http.Headers(headers)
    request.data.authority = authority
    if path is not None:
        request.data.path = path
    flow = tflow.tflow(req=request)
    flow.client_conn.sni = sni
    return flow


def test_a_request_is_taken_as_it_stands() -> None:
    assert request_of_flow(flow_of()) == Request(b"http", (b"target.example",), 80, b"/p?q")
    assert request_of_flow(flow_of("https://target.example:8443/")).port == 8443


def test_raw_octets_are_not_decoded() -> None:
    assert request_of_flow(flow_of(path=b"/\xff%41?\x00")).target == b"/\xff%41?\x00"


@pytest.mark.parametrize(
    ("flow", "hosts"),
    [
        (flow_of(headers=((b"Host", b"other.example"),)), (b"target.example", b"other.example")),
        (flow_of(headers=((b"host", b" other.example:81 "),)), (b"target.example", b"other.example")),
        (flow_of(headers=((b"HOST", b"a"), (b"x", b"b"), (b"hOsT", b"c"))), (b"target.example", b"a", b"c")),
        (flow_of(headers=((b"Host", b"target.example:80"),)), (b"target.example",)),
        (flow_of(authority=b"other.example:443"), (b"target.example", b"other.example")),
        (flow_of(sni="other.example"), (b"target.example", b"other.example")),
        (
            flow_of(authority=b"a", headers=((b"Host", b"b"),), sni="c"),
            (b"target.example", b"a", b"b", b"c"),
        ),
        (flow_of(headers=((b"Host", b" \tother.example "),)), (b"target.example", b"other.example")),
        (flow_of(headers=((b"Host", b""),)), (b"target.example", b"")),
        (flow_of(headers=((b"Host", b"\xff.example"),)), (b"target.example", b"\xff.example")),
        (flow_of("http://[::1]/", headers=((b"Host", b"[::1]:80"),)), (b"::1", b"[::1]")),
    ],
)
def test_a_request_goes_by_target_authority_host_headers_and_server_name(
    flow: http.HTTPFlow, hosts: tuple[bytes, ...]
) -> None:
    assert request_of_flow(flow).hosts == hosts


@pytest.mark.parametrize(
    "host",
    [
        *(b"blocked.example", b"blocked.example:80", b"BLOCKED.example.", b"www.blocked.example"),
        # a server may stop reading at the colon, as nginx does
        *(b"blocked.example:80@target.example", b"blocked.example:@target.example", b"blocked.example:x"),
        b"blocked.example/x@target.example",
        b"target.example@blocked.example",
        b":80",
    ],
)
@pytest.mark.parametrize("kind", ["host", "authority"])
def test_no_other_name_of_a_request_hides_a_blocked_host(host: bytes, kind: str) -> None:
    flow = flow_of(authority=host) if kind == "authority" else flow_of(headers=((b"Host", host),))
    decision = engine_of("rules: [blocked.example]").decide(request_of_flow(flow))
    assert decision.action is Action.BLOCK
