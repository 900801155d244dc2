"""The readers of what comes through the proxy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mitmproxy import http
from mitmproxy.test import tflow

from hushlist.core.decide.decision import LogRecord
from hushlist.core.errors import UrlError
from hushlist.core.url.request import Request, request_of
from hushlist.extensions.journal.log_entry import fields_of
from hushlist.extensions.journal.log_keys import LoggedClients, LoggedQueries
from hushlist.extensions.journal.log_record import Privacy, to_line
from hushlist.extensions.unblock import unblock_forms
from hushlist.proxy.flow_request import request_of_flow, seen_of_flow
from hushlist.proxy.languages import TEXTS, negotiate
from hushlist.proxy.page.block_response import led_to
from hushlist.proxy.page.template import VARIABLES, parse_template
from support.engines import judgement_of
from unit.parsers.lines import engine
from unit.parsers.policy import tokens
from unit.parsers.table import NOON, ROOT, Parser, put
from unit.parsers.urls import URLS

PARSERS: dict[str, Parser] = {}
add = partial(put, PARSERS)


@add(
    "proxy languages",
    "de-CH, fr;q=0.9, en;q=0.8, *;q=0.1",
    "x-klingon-q, zh-Hant-TW;q=0.001,,;q=1",
    units=(b"a-", b"a,"),
)
def _languages(octets: bytes) -> None:
    assert negotiate(octets.decode("utf-8", "surrogateescape")) in TEXTS


def _template(octets: bytes) -> None:
    text = octets.decode("utf-8", "replace")
    page = parse_template(text, "template.html").fill(dict.fromkeys(VARIABLES, "<b>"))
    assert "<b>" in text or "<b>" not in page


def _template_samples() -> Iterator[bytes]:
    yield b'<html lang="$lang" dir="$dir"><style>a{b:c}</style><!-- $x --><h1>$heading</h1>$$ ${reason}$form</html>'
    for path in sorted([*ROOT.glob("examples/**/*.html"), *ROOT.glob("addon/hushlist/proxy/page/*.html")]):
        yield path.read_bytes()


PARSERS["proxy template"] = Parser(
    _template,
    _template_samples,
    units=(b"<!--", b"<a ", b"<a b=", b"<style>", b"$", b"${", b"<![CDATA[", b"&#", b'<a b="', b"</", b"<?", b"<!"),
)


def flow_of_octets(octets: bytes) -> http.HTTPFlow:
    """A request as the lines say it: method, target, scheme, authority, host, and headers with a colon."""
    first, *fields = octets.split(b"\n")
    method, path, scheme, authority, host = (*first.split(b" ", 4), *(b"",) * 5)[:5]
    flow = tflow.tflow(req=tflow.treq())
    data = flow.request.data
    data.method, data.path, data.scheme, data.authority = method, path, scheme, authority
    data.host = host.decode("utf-8", "surrogateescape")
    data.headers.fields = tuple((name, value) for name, _, value in (field.partition(b":") for field in fields))
    flow.client_conn.sni = host.decode("latin-1") or None
    return flow


REQUESTS = (
    b"GET /a/../b?c=d#e https h.example:443 h.example\nHost: h.example\nX-A: b\nCookie: a=b; c",
    b"POST //x;y http user@blocked.example b\xc3\xbccher.example\nhost:blocked.example:80\nHOST : [::1]\nA:de",
    b"CONNECT  http h.example:443 1.2.3.4\n:authority: x\nHost:",
)


@add("proxy wire", *REQUESTS, units=(b"Host: h.example\n", b"Host: a@", b"GET /../", b"\xc3\xbc."))
def _wire(octets: bytes) -> None:
    flow = flow_of_octets(octets)
    seen_of_flow(flow)
    request = request_of_flow(flow)
    decision = engine().decide(request, NOON)
    for privacy in (Privacy(LoggedQueries.KEEP, LoggedClients.KEEP), Privacy(LoggedQueries.DROP, LoggedClients.DROP)):
        line = to_line(
            fields_of(LogRecord(decision=decision, reference="0", moment=0.0, method=flow.request.method), privacy)
        )
        assert line.count(b"\n") == 1
        assert all(0x20 <= octet < 0x7F for octet in line[:-1])


@add(
    "proxy form",
    b"/.well-known/hushlist/unblock?url=http%3A%2F%2Fblocked.example%2F%ff&seal=" + b"A" * 100 + b"\ntoken=x&code=%20",
    b"/.well-known/hushlist/unblock?seal=&url=//\ntoken=&passphrase=%C3%BC&scope=host&minutes=15",
    units=(b"&a=b", b"%25", b"a;", b"&url=http://h.example"),
)
def _form(octets: bytes) -> None:
    path, _, body = octets.partition(b"\n")
    request = http.Request.make("POST", "http://blocked.example/", body)
    request.data.path = path
    query = unblock_forms.query_of(request)
    asked = unblock_forms.first(query, "url").encode("utf-8", "surrogateescape")
    if tokens().is_ours(unblock_forms.first(query, "seal")):
        raise AssertionError("a seal was forged")
    try:
        sent = request_of(asked)
    except UrlError:
        return
    judgement = judgement_of(engine().decide(sent, NOON))
    if judgement.host is not None:
        unblock_forms.targets_of(judgement)
        location = led_to(sent.target).headers["Location"]
        assert location.startswith("/")
        assert not location.startswith("//")
        assert "\n" not in location


@add(
    "engine",
    *URLS,
    b"http://blocked.example/",
    units=(b"http://blocked.example/", b"/..%2f", b"%2525", b"\\..", b";/"),
)
def _engine(octets: bytes) -> None:
    decision = engine().decide_url(octets, NOON)
    assert decision.as_dict()
    assert str(decision) is not None
    engine().decide(Request(b"http", (octets, b"h.example"), 80, octets), NOON)
    engine().learn(Request(b"http", (b"h.example",), 80, octets), octets)
