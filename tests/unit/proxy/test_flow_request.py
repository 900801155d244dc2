"""Requests off flows."""

import re
from collections.abc import Callable
from time import process_time

import pytest
from mitmproxy import dns, http
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import taddons, tflow

from hushlist.core.match.rule import Action
from hushlist.core.url.header_names import believed_names
from hushlist.core.url.http_head import Keeps, Naming, decides_believed
from hushlist.core.url.request import Request
from hushlist.proxy.flow_request import (
    client_of_flow,
    name_to_ask,
    naming_of,
    request_of_connection,
    request_of_flow,
    request_of_question,
    seen_of_flow,
)
from support.engines import engine_of
from unit.hostile import seconds
from unit.rows import each_row


def keeps_all(_: bytes) -> bool:
    """Every host is one of ``keep-headers``."""
    return True


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


@each_row(
    ("flow", "fault"),
    [
        (flow_of(headers=((b"Cookie", b"a" * (1 << 16)),)), "its headers have more than 65,536 octets"),
        (flow_of(headers=((b"a", b""),) * (1 << 16)), None),
        (flow_of(headers=((b"a", b"b"),) * (1 << 16)), "its headers have more than 65,536 octets"),
        (flow_of(authority=b"a" * (1 << 17)), "its headers have more than 65,536 octets"),
        (flow_of(authority=b"a" * 9000), "its names are too long"),
        (flow_of(headers=((b"Host", b"a.example," * (1 << 20)),)), "its headers have more than 65,536 octets"),
        (flow_of(headers=((b"Host", b"h.example"),) * 5000), "its names are too long"),
        (flow_of(headers=((b"Host", b"h.example" + b" " * 9000 + b"bad.example"),)), "its names are too long"),
        (flow_of(path=b"/ " * (1 << 22)), "its target has more than 65,536 octets"),
    ],
)
def test_what_is_too_long_is_a_fault_after_a_look_at_its_length(flow: http.HTTPFlow, fault: str | None) -> None:
    start = process_time()
    request = request_of_flow(flow, with_media=True)
    assert process_time() - start < 1
    assert request.fault == fault
    assert sum(map(len, request.hosts)) < 10_000
    assert len(request.target) < 2000


@each_row(
    ("name", "value", "is_fault"),
    [
        (b"Connection", b"Host", True),
        (b"CONNECTION", b"close,\thOST , x", True),
        (b"Connection", b"keep-alive, Content_Length", True),
        (b"connection", b"transfer-encoding", True),
        (b"Connection", b"keep-alive, Upgrade, HTTP2-Settings, TE, X-Host", False),
        (b"User-Agent", b"Host", False),
        (b"Connection", b"," * 60_000, False),
    ],
)
def test_no_server_is_told_to_remove_what_every_server_needs(name: bytes, value: bytes, is_fault: bool) -> None:
    fault = "its Connection names a header that is no server's to remove"
    assert request_of_flow(flow_of(headers=((name, value),))).fault == (fault if is_fault else None)


def test_a_name_that_no_database_takes_is_another() -> None:
    flow = flow_of()
    flow.metadata["proxyauth"] = ("a\0b", "")  # proxyauth=any believes it
    assert client_of_flow(flow).names[-1] == "user:a\N{REPLACEMENT CHARACTER}b"


@each_row(
    ("mode", "port"),
    [
        *(
            (mode, 8082)
            for mode in ("regular", "upstream:http://h.example", "reverse:http://h.example", "dns", "socks5")
        ),
        ("transparent", 8080),
        ("transparent@8083", 8083),
        ("wireguard@51821", 51821),
        ("local", None),
        ("local@8083", 8083),
    ],
)
def test_a_client_s_port_is_the_proxy_s_and_not_one_that_it_chose(mode: str, port: int | None) -> None:
    flow = flow_of()
    flow.client_conn.proxy_mode, flow.client_conn.sockname = ProxyMode.parse(mode), ("192.0.2.7", 8082)
    with taddons.context() as context:
        context.options.listen_port = 8080
        assert client_of_flow(flow).port == port
        context.master.event_loop.close()


@each_row(
    ("flow", "hosts"),
    [
        (flow_of(headers=((b"Host", b"other.example"),)), (b"target.example", b"other.example")),
        (flow_of(headers=((b"host", b" other.example:81 "),)), (b"target.example", b"other.example")),
        (flow_of(headers=((b"HOST", b"a"), (b"x", b"b"), (b"hOsT", b"c"))), (b"target.example", b"a", b"c")),
        (flow_of(headers=((b"Host", b"target.example:80"),)), (b"target.example",)),
        (flow_of(authority=b"other.example:443"), (b"target.example", b"other.example")),
        (flow_of("https://target.example/", sni="other.example"), (b"target.example", b"other.example")),
        (flow_of(sni="proxy.example"), (b"target.example",)),  # TLS with the proxy itself
        (
            flow_of("https://target.example/", authority=b"a", headers=((b"Host", b"b"),), sni="c"),
            (b"target.example", b"a", b"b", b"c"),
        ),
        (flow_of(headers=((b"Host", b" \tother.example "),)), (b"target.example", b"other.example")),
        (flow_of(headers=((b"Host", b""),)), (b"target.example", b"")),
        # lines that something has put into one
        (flow_of(headers=((b"Host", b"a, b:81"),)), (b"target.example", b"a, b", b"a", b"b")),
        (flow_of(headers=((b"Host", b"a\tb"),)), (b"target.example", b"a\tb", b"a", b"b")),
        (flow_of(headers=((b"Host", b",a,, "),)), (b"target.example", b",a,,", b"a")),
        (flow_of(authority=b"a,b:443"), (b"target.example", b"a,b", b"a", b"b")),
        # what servers take for Host, behind it
        (
            flow_of(headers=((b"X-Forwarded-Host", b"b, c:81"), (b"Host", b"a"), (b"x-host", b"d"))),
            (b"target.example", b"a", b"b, c", b"b", b"c"),  # one more than can be decided
        ),
        (flow_of(headers=((b"X-Forwarded-For", b"a"), (b"X-Original-Host", b"b"))), (b"target.example", b"b")),
        # the same, as a program behind CGI reads it
        (flow_of(headers=((b"X_Forwarded-HOST", b"b"), (b"x.host", b"c"))), (b"target.example", b"b", b"c")),
        (
            flow_of(headers=((b"Forwarded", b"for=x;host=a"), (b"forwarded", b'for="[::1]", HOST = "b:80";by=y'))),
            (b"target.example", b"a", b"b"),
        ),
        (flow_of(headers=((b"Forwarded", b"for=ghost=x;xhost=y"),)), (b"target.example",)),
        # what mitmproxy looks up, by IDNA 2003
        (
            flow_of(headers=((b"Host", "straße.example".encode()),)),
            (b"target.example", "straße.example".encode(), b"strasse.example"),
        ),
        (flow_of(authority="a‍b".encode()), (b"target.example", "a‍b".encode(), b"ab")),
        (flow_of(headers=((b"Host", b"\xff.example"),)), (b"target.example", b"\xff.example")),
        (flow_of("http://[::1]/", headers=((b"Host", b"[::1]:80"),)), (b"::1", b"[::1]")),
    ],
)
def test_a_request_goes_by_target_authority_host_headers_and_server_name(
    flow: http.HTTPFlow, hosts: tuple[bytes, ...]
) -> None:
    assert request_of_flow(flow, keeps=keeps_all).hosts == hosts


@each_row(
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
@each_row("kind", ["host", "authority"])
def test_no_other_name_of_a_request_hides_a_blocked_host(host: bytes, kind: str) -> None:
    flow = flow_of(authority=host) if kind == "authority" else flow_of(headers=((b"Host", host),))
    decision = engine_of("rules: [blocked.example]").decide(request_of_flow(flow))
    assert decision.action is Action.BLOCK


# -- what is no request, or more than one -----------------------------------------------------------------------------

METHOD, TARGET = "its method is none", "there is white space or a control character in its target"
HEADERS = "there is a line end or a NUL in its headers"


@pytest.mark.slow
def test_every_octet_that_would_make_another_request_is_a_fault() -> None:
    for one in (bytes((octet,)) for octet in range(256)):
        method, target = flow_of(), flow_of(path=b"/a" + one + b"b")
        method.request.data.method = b"GE" + one
        assert (request_of_flow(method).fault == METHOD) is (not re.fullmatch(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]", one))
        assert (request_of_flow(target).fault == TARGET) is (one <= b" " or one == b"\x7f")
        for flow in (
            flow_of(headers=((b"a", b"b"), (b"x" + one, b"y"))),
            flow_of(headers=((b"x", b"y" + one + b"z"), (b"a", b"b"))),
            flow_of(authority=b"h" + one),
        ):
            assert (request_of_flow(flow).fault == HEADERS) is (one in b"\0\r\n")


@each_row(
    "name",
    [b"X-Original-URL", b"x-rewrite-url", b"X-Original-URI", b"X-Forwarded-Uri", b"X_Original.URL", b"X-Invoke-Path"],
)
def test_a_header_that_a_server_takes_for_the_target_is_the_target(name: bytes) -> None:
    fault = "a header in it names another target"
    for value, expected in ((b"/p?q", None), (b" /p?q ", None), (b"/p", fault), (b"http://other.example/", fault)):
        flow = flow_of(headers=((name, value),))
        assert request_of_flow(flow, keeps=keeps_all).fault == expected
        flow.client_conn.proxy_mode = ProxyMode.parse("reverse:http://target.example")
        assert request_of_flow(flow, keeps=keeps_all).fault is None  # a server in front of the proxy may have set it
        named = value.strip().removeprefix(b"http://other.example")
        assert [other.target for other in request_of_flow(flow, keeps=keeps_all).others] == [named]


@each_row("name", [b"SCRIPT_NAME", b"x-script-name", b"X-Forwarded-Prefix"])
def test_a_path_is_decided_without_the_beginning_that_a_server_leaves_out(name: bytes) -> None:
    engine, fault = engine_of("rules: [target.example/secret/]"), "a header in it names another target"
    for value, path in ((b"/x", b"/x/secret/"), (b"/x/", b"/x/secret/"), (b"/x", b"/%78/%73ecret/")):
        flow = flow_of(path=path, headers=((name, value),))
        assert request_of_flow(flow, keeps=keeps_all).fault == fault
        flow.client_conn.proxy_mode = ProxyMode.parse("reverse:http://target.example")
        request = request_of_flow(flow, keeps=keeps_all)  # a server in front of the proxy may have set it
        assert (request.fault, engine.decide(request).action) == (None, Action.BLOCK)
    for value in (b"", b"/"):
        assert request_of_flow(flow_of(headers=((name, value),)), keeps=keeps_all).fault is None
    flow = flow_of(path=b"/" + b"%61" * 20000, headers=((name, b"/a"),) * 3000)
    flow.client_conn.proxy_mode = ProxyMode.parse("reverse:http://target.example")
    assert request_of_flow(flow, keeps=keeps_all).fault == "its headers name too many other targets"
    assert seconds(lambda: engine.decide(request_of_flow(flow, keeps=keeps_all))) < 0.25


@each_row(
    "value",
    [
        *(b"/secret/x", b"http://target.example/secret/x", b" /a/%2e%2e/%73ecret/ ", b"secret/x", b"\\secret\\x"),
        # some servers read no host there
        *(b"http://other.example/secret/", b"HTTPS:/secret/", b"dav://x/secret/", b"http:///secret/", b"//x/secret/"),
        *(b"http://blocked.example", b"https://x.BLOCKED.example.:8443/y", b"http:\\\\blocked.example\\"),
        *(b"http://me@other.example/", b"http://other.example:x@/"),
    ],
)
@each_row("name", [b"Destination", b"x-copy-from", b"X-Amz_Copy-Source", b"X-MS-Copy-Source"])
def test_a_place_to_copy_to_or_from_is_decided_too(name: bytes, value: bytes) -> None:
    engine = engine_of("rules: [target.example/secret/, blocked.example]")
    request = request_of_flow(flow_of(headers=((b"a", b"b"), (name, value))), keeps=keeps_all)
    assert (request.fault, engine.decide(request).action) == (None, Action.BLOCK)
    harmless = request_of_flow(flow_of(headers=((name, b"http://target.example/open/secret/"),)), keeps=keeps_all)
    assert engine.decide(harmless).action is Action.PASS
    mixed = request_of_flow(flow_of(headers=((name, b"/open"), (b"Destination", value))), keeps=keeps_all)
    assert engine.decide(mixed).action is Action.BLOCK


def test_more_places_than_a_client_could_mean_are_no_request() -> None:
    engine = engine_of("rules: []")
    few = tuple((b"Destination", b"/%d" % (number % 4)) for number in range(4000))
    assert engine.decide(request_of_flow(flow_of(headers=few), keeps=keeps_all)).action is Action.PASS
    many = request_of_flow(
        flow_of(headers=tuple((b"Destination", b"/%d" % number) for number in range(1000))), keeps=keeps_all
    )
    assert len(many.others) == 5
    assert engine.decide(many).fault == "its headers name too many other targets"
    long = tuple((b"Destination", b"/%d" % number + b"a/;b/..//%2e%2e/" * 500) for number in range(2))
    request = request_of_flow(flow_of(headers=long), keeps=keeps_all)
    assert engine.decide(request).fault == "its headers name other targets that are too long"
    assert sum(len(other.target) for other in request.others) < 4096
    assert engine.decide(request_of_flow(flow_of(headers=long[:1]), keeps=keeps_all)).fault is None


#: fields that servers believe, by every name that people have seen, and names like these
BELIEVED = (
    *(b"Forwarded", b"FORWARDED", b"X-Forwarded-Host", b"X_Forwarded.Host", b"X-Forwarded-Server", b"X-Forwarded-Path"),
    *(b"X-Forwarded-Prefix", b"X-Forwarded-Uri", b"X-Forwarded-Ssl", b"X-Forwarded-For-Host", b"X-Forwarded-Port-x"),
    *(
        b"X-Original-URL",
        b"x-original-uri",
        b"X-Original-Host",
        b"X-ORIGINAL-METHOD",
        b"X-Rewrite-URL",
        b"X_Rewrite_Url",
    ),
    *(b"X-WSGIProxy-PATH-INFO", b"X-WSGIProxy-HTTP-HOST", b"X-WSGIProxy-Script-Name", b"X.WSGIProxy_x"),
    *(b"SCRIPT_NAME", b"Script-Name", b"X-Script-Name", b"HTTP_X_SCRIPT_NAME", b"X-Traversal-Path", b"Traversal.Path"),
    *(b"X-Host", b"x_host", b"X-HTTP-Host-Override", b"X-Override-URL", b"X-Invoke-Path", b"X-Invoke-Query"),
    *(b"X-Matched-Path", b"Destination", b"DESTINATION", b"X-Copy-From", b"X-Amz-Copy-Source", b"X_Amz_Copy_Source"),
    *(b"x-goog-copy-source", b"X-MS-Copy-Source", b"X-Oss-Copy-Source", b"X-Cos-Copy-Source", b"X-Obs-Copy-Source"),
    *(b"X-Bce-Copy-Source", b"X-Tos-Copy-Source", b"X-Amz-Rename-Source", b"X-MS-Rename-Source", b"X-MS-Move-Source"),
    *(b"X-Oss-Fetch-Source", b"X-Bce-Fetch-URL", b"X-Amz-Copy-Source-Range", b"X-Move-To", b"X-Rename-Destination"),
)


def taken_out(request: Request, naming: Naming, keeps: Keeps = None) -> set[bytes]:
    return set() if decides_believed(request, naming, keeps) else believed_names(request.fields)


@each_row("name", BELIEVED)
def test_a_field_that_servers_believe_says_nothing_and_is_taken_out(name: bytes) -> None:
    for mode in ("regular", "upstream:http://h.example", "transparent", "socks5", "wireguard"):
        flow = flow_of(headers=((b"Host", b"target.example"), (name, b"http://blocked.example/secret/")))
        flow.client_conn.proxy_mode = ProxyMode.parse(mode)
        request = request_of_flow(flow)
        assert (request.hosts, request.others, request.fault) == ((b"target.example",), (), None)
        assert taken_out(request, naming_of(flow.client_conn.proxy_mode)) == {name}


#: what browsers, scripts of pages and other proxies send
HARMLESS = (
    *(b"Host", b"host", b"X-Forwarded-For", b"X_Forwarded_For", b"X-Forwarded-Proto", b"X-Forwarded-Port", b"Origin"),
    *(b"Sec-Fetch-Dest", b"Sec-Fetch-Site", b"X-Requested-With", b"X-RapidAPI-Host", b"X-Original", b"Referer", b"Via"),
    *(b"X-Amz-Date", b"X-Amz-Target", b"X-Goog-Api-Key", b"X-CSRF-Token", b"Content-Location", b"Overwrite", b"Depth"),
    *(b"X-Real-IP", b"X-Hostname", b"Scripts", b"X-Destination", b"Copy-Source", b"", b"X-Copy", b"X-Script-Names"),
)


@each_row("name", HARMLESS)
def test_other_fields_stay(name: bytes) -> None:
    request = request_of_flow(flow_of(headers=((name, b"target.example"),)))
    assert taken_out(request, Naming.CLIENT) == frozenset()


def test_behind_a_server_and_for_origins_that_need_them_the_fields_stay() -> None:
    def keeps(host: bytes) -> bool:
        return host == b"target.example"

    fields = ((b"Host", b"target.example"), (b"Destination", b"/x"), (b"X-Forwarded-Host", b"target.example"))
    flow = flow_of(headers=fields)
    for naming, kept, expected in (
        (Naming.ADMINISTRATOR, None, set()),
        (Naming.CLIENT, keeps, set()),
        (Naming.ADDRESS, keeps, set()),
        (Naming.CLIENT, None, {b"Destination", b"X-Forwarded-Host"}),
        (Naming.CLIENT, lambda _: False, {b"Destination", b"X-Forwarded-Host"}),
    ):
        assert taken_out(request_of_flow(flow, keeps=kept), naming, kept) == expected
    assert [own.target for own in request_of_flow(flow, keeps=keeps).others] == [b"/x"]
    # whoever else the request goes by has them decided, and not sent
    for other in ((b"Host", b"other.example"), (b"X-Forwarded-Host", b"other.example")):
        request = request_of_flow(flow_of(headers=(*fields, other)), keeps=keeps)
        assert b"other.example" in request.hosts
        assert taken_out(request, Naming.CLIENT, keeps) == {b"Destination", b"X-Forwarded-Host"}
    transparent = flow_of("http://192.0.2.7/", headers=fields)
    transparent.client_conn.proxy_mode = ProxyMode.parse("transparent")
    request = request_of_flow(transparent, keeps=keeps)
    assert request.destination == b"192.0.2.7"
    assert [own.target for own in request.others] == [b"/x"]
    assert taken_out(request, Naming.ADDRESS, keeps) == frozenset()


@each_row(
    ("method", "path", "fault"),
    [
        (b"GET", b"/", None),
        (b"get", b"/", None),
        (b"X-OWN", b"/", None),
        (b"OPTIONS", b"*", None),
        (b"CONNECT", b"", None),
        (b"", b"/", METHOD),
        (b"GET /x", b"/", METHOD),
        (b"GET", b"", "its target is no path"),
        (b"GET", b"x", "its target is no path"),
        (b"GET", b"http://h.example/", "its target is no path"),
        (b"CONNECT", b"h.example:443 x", TARGET),
    ],
)
def test_a_request_has_a_method_and_a_path(method: bytes, path: bytes, fault: str | None) -> None:
    flow = flow_of(path=path)
    flow.request.data.method = method
    assert request_of_flow(flow).fault == fault


BODY = "it has a body, which its method does not have"
LONG = "its body has more than 1,048,576 octets: send it by POST"
INSIDE = "a line of its body may be taken for another request: send it by POST"


@each_row(
    ("method", "name", "value", "fault"),
    [
        (b"GET", b"Content-Length", b"1", None),
        (b"GET", b"Content-Length", b"1048576", None),
        (b"GET", b"Content-Length", b"1048577", LONG),
        (b"GET", b"Content-Length", b"9" * 5000, LONG),
        (b"GET", b"Content-Length", b"x", LONG),
        (b"GET", b"Transfer-Encoding", b"chunked", None),
        (b"HEAD", b"Transfer-Encoding", b"chunked", None),
        (b"get", b"cOnTeNt-LeNgTh", b"010", BODY),
        (b"HEAD", b"Content-Length", b"5", BODY),
        (b"TRACE", b"content-length", b"x", BODY),
        (b"CONNECT", b"Content-Length", b"5", BODY),
        (b"CONNECT", b"Transfer-Encoding", b"chunked", BODY),
        (b"GET", b"Content-Length", b"0", None),
        (b"GET", b"Content-Length", b"00 ", None),
        (b"GET", b"Content-Lengthy", b"5", None),
        (b"GET", b"Content_Length", b"5", BODY),
        (b"GET", b"TRANSFER_ENCODING", b"chunked", BODY),
        *((method, b"Content-Length", b"5", None) for method in (b"POST", b"DELETE", b"OPTIONS", b"QUERY")),
    ],
)
def test_a_body_that_is_told_behind_a_method_that_has_none_is_a_fault(
    method: bytes, name: bytes, value: bytes, fault: str | None
) -> None:
    flow = flow_of(headers=((b"a", b"b"), (name, value)))
    flow.request.data.method, flow.request.data.content = method, None
    assert request_of_flow(flow).fault == fault


@each_row(
    ("method", "body", "fault"),
    [
        (b"GET", b"", None),
        (b"HEAD", b"", None),
        (b"HEAD", b"a", BODY),
        (b"get", b"a", BODY),
        (b"TRACE", b"{}", BODY),
        (b"POST", b"GET / HTTP/1.1", None),
        (b"GET", b"a", None),
        (b"GET", b'{"query": {"match": "GET / HTTP/1.1"}}', None),
        (b"GET", b'{"index": "a"}\n{"query": [\r\n  1,\n  2\n]}\n', None),
        (b"GET", b"GET / HTTP/1.1", INSIDE),
        (b"GET", b"{}\nGET /", INSIDE),
        (b"GET", b"{}\r GET\t", INSIDE),
        (b"GET", b'{"a":\n\x0bget\xa0/\n}', INSIDE),
        (b"GET", b"{: / http/1.1 \x00\r{}", INSIDE),
        (b"GET", b"{: / HTTP/", INSIDE),
    ],
)
def test_a_body_that_may_be_read_as_a_request_is_a_fault(method: bytes, body: bytes, fault: str | None) -> None:
    flow = flow_of()
    flow.request.data.method, flow.request.data.content = method, None
    before = seen_of_flow(flow)
    assert request_of_flow(flow).fault is None
    flow.request.data.content = body
    assert request_of_flow(flow).fault == fault
    assert (seen_of_flow(flow) == before) is (fault is None)


@each_row(
    ("version", "protocols"),
    [
        ("HTTP/1.1", {None, b"", b"http/1.1", b"h2", b"h3", b"h3-29", b"h2c"}),
        ("HTTP/1.0", {None, b"", b"http/1.1", b"h2", b"h3", b"h3-29", b"h2c"}),
        *(
            (version, {b"h2", b"h3", b"h3-29"})
            for version in ("HTTP/2.0", "HTTP/3", "HTTP/3.0", "HTTP/0.9", "HTTP/1.2")
        ),
    ],
)
def test_a_version_that_is_not_the_connections_is_a_fault(version: str, protocols: set[bytes | None]) -> None:
    fault = "its HTTP version is not that of its connection"
    for protocol in (None, b"", b"http/1.1", b"h2", b"h3", b"h3-29", b"h2c"):
        flow = flow_of()
        flow.request.http_version, flow.client_conn.alpn = version, protocol
        assert request_of_flow(flow).fault == (None if protocol in protocols else fault)


# -- what is equal ----------------------------------------------------------------------------------------------------


def setter(name: str, value: object) -> Callable[[http.HTTPFlow], None]:
    """Changes one thing that a request is made of."""
    return lambda flow: setattr(flow.request.data, name, value)


def change_a_list_in_the_place_of_fields(flow: http.HTTPFlow) -> None:
    flow.request.headers.fields[0][1] = b"other.example"  # type: ignore[index]


CHANGES = {
    **{
        name: setter(name, value)
        for name, value in (
            ("host", "other.example"),
            ("port", 81),
            ("method", b"GET /"),
            ("scheme", b"http"),
            ("authority", b"other.example"),
            ("path", b"/other"),
        )
    },
    "a Host header": lambda flow: flow.request.headers.add("Host", "other.example"),
    "another header": lambda flow: flow.request.headers.add("X", "a\r\nHost: other.example"),
    "the server name": lambda flow: setattr(flow.client_conn, "sni", "other.example"),
    "fields in place": change_a_list_in_the_place_of_fields,
}


@each_row("change", CHANGES.values())
def test_what_makes_another_request_is_seen(change: Callable[[http.HTTPFlow], None]) -> None:
    flow = flow_of("https://target.example/p?q", headers=((b"Host", b"target.example"),))
    if change is change_a_list_in_the_place_of_fields:
        flow.request.headers.fields = ([b"Host", b"target.example"],)  # type: ignore[assignment]
    request, seen = request_of_flow(flow), seen_of_flow(flow)
    assert seen == seen_of_flow(flow)
    change(flow)
    assert request_of_flow(flow) != request
    assert seen_of_flow(flow) != seen


@each_row(
    "host",
    [
        *(b"a%01.example", b"a%0d%0a", b"a b", b"a, b", b"a%c0%aeb", b"a\xc0\xaeb", b"a\xff", b"b\xfccher.example"),
        *("a ".encode(), "a　b".encode(), "a ".encode()),
        *(b"%5B::1%5D", b"a<b>", b"a|b", b"[a]", b'"a"', b"a^b"),
    ],
)
def test_a_host_that_stays_none_is_a_fault(host: bytes) -> None:
    assert request_of_flow(flow_of(headers=((b"Host", host),))).fault == "there is an octet in its host that none has"
    assert request_of_flow(flow_of(authority=host)).fault == "there is an octet in its host that none has"


# -- where no client has named the destination -------------------------------------------------------------------------


HTTP, HTTPS, LITERAL, A = "http://192.0.2.7/", "https://192.0.2.7/", b"192.0.2.7", b"a.example"


@each_row(
    ("mode", "url", "host", "sni", "hosts", "destination", "asked"),
    [
        ("regular", HTTPS, A, None, (LITERAL, A), None, None),
        ("regular", "https://a.example/", b"b.example", None, (A, b"b.example"), None, None),
        ("transparent", HTTP, A, None, (A, LITERAL), LITERAL, "a.example"),
        ("transparent", HTTPS, b"A.example", "b.example", (b"A.example", b"b.example", LITERAL), LITERAL, "b.example"),
        ("wireguard", HTTP, b"\xc3\xbc.x", None, (b"\xc3\xbc.x", b"xn--tda.x", LITERAL), LITERAL, "xn--tda.x"),
        ("transparent", HTTP, b"192.0.2.8", None, (LITERAL, b"192.0.2.8"), None, None),
        ("transparent", HTTP, b"a/b", None, (LITERAL, b"a/b"), None, None),
        ("transparent", HTTP, b"", None, (LITERAL, b""), None, None),
        ("transparent", HTTP, LITERAL, None, (LITERAL,), None, None),
        ("socks5", "http://a.example/", b"b.example", None, (A, b"b.example"), None, None),
        ("socks5", "http://[2001:db8::7]/", b"a", None, (b"a", b"2001:db8::7"), b"2001:db8::7", "a"),
        ("reverse:https://192.0.2.7", HTTPS, LITERAL, "a.example", (LITERAL, A), LITERAL, None),
    ],
)
def test_in_modes_led_by_addresses_the_name_is_asked(
    mode: str,
    url: str,
    host: bytes,
    sni: str | None,
    hosts: tuple[bytes, ...],
    destination: bytes | None,
    asked: str | None,
) -> None:
    flow = flow_of(url, headers=((b"Host", host),), sni=sni)
    flow.client_conn.proxy_mode = ProxyMode.parse(mode)
    request = request_of_flow(flow)
    assert (request.hosts, request.destination) == (hosts, destination)
    assert name_to_ask(request, sni) == asked


@each_row(
    ("change", "fault"),
    [
        ({}, None),
        ({"query": False}, "it is no query"),
        ({"op_code": 5}, "its operation is UPDATE"),
        ({"questions": []}, None),
        ({"questions": [dns.Question("a.example", 1, 1)] * 2}, "it asks more than one question"),
    ],
)
def test_a_message_that_is_no_single_question_is_a_fault(change: dict[str, object], fault: str | None) -> None:
    message = tflow.tdnsflow().request
    for name, value in change.items():
        setattr(message, name, value)
    request = request_of_question(message)
    assert (request.fault, request.scheme, request.port, request.target) == (fault, b"dns", 53, b"/")


def test_a_connection_goes_by_every_name_that_is_looked_up_for_it() -> None:
    mode = ProxyMode.parse("regular")
    address, name = "stra\u00dfe.example", "\u0378x.example"  # as mitmproxy decodes it
    request = request_of_connection(b"https", (address, 443), ["sni.example"], mode)
    assert request.hosts == (address.encode(), b"sni.example", b"strasse.example")
    assert request.fault is None
    request = request_of_connection(b"https", (name, 443), [], mode)
    assert request.hosts == (name.encode(), b"xn--x-pib.example")
    assert request.fault == "there is an octet in its host that none has"
