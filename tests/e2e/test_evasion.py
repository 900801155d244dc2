"""A corpus of evasions: spellings of blocked requests that must not arrive at the origin, and neighbours that must.

Whoever finds another spelling adds a line. The origin's own log is the judge, never the answer: what mitmproxy itself
refuses is as good as what the filter refuses.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, process_time, sleep

import h2.config
import h2.connection
import h2.events
import pytest
from mitmproxy import http
from mitmproxy.io import FlowWriter
from mitmproxy.test import tflow

from e2e.origin import Origin
from e2e.policies import hashed_uri, sha256, simple_policy, write_list, write_policy
from e2e.proxy import LOOPBACK, PATIENCE, Proxy, mitmdump, read_answer, request_head
from hushlist.engine import MOST_HOSTS, load_engine
from hushlist.url.request import Request, canonical_forms

pytestmark = pytest.mark.xdist_group("evasion")

Headers = Sequence[tuple[bytes, bytes]]


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
    """A proxy whose every blocked thing is in the tables below."""
    folder = tmp_path_factory.mktemp("policy")
    write_list(
        folder / "rules.yaml",
        "ads.test/",
        "strasse.test/",
        "path.test/secret/",
        "path.test/find?q=secret",
        "video.test/",
        {"expression": "video.test/live/", "action": "allow"},
        {"sha256": sha256("hash.test/secret/")},
        {"sha256": sha256("prefix.test/", 8)},
        hashed_uri("http://hashed.test/page"),
        hashed_uri("http://hashed.test/"),
        hashed_uri("http://hashed.test/a%2Fb"),
        {"address": "10.0.0.0/8"},
    )
    with mitmdump(tmp_path_factory.mktemp("mitmdump"), origin, policy=write_policy(folder, ["rules.yaml"])) as running:
        yield running


def receive(proxy: Proxy, payload: bytes, tunnel: tuple[str, int] | None = None) -> bytes:
    """What comes back for these bytes, until the proxy ends the connection or has said nothing for a while."""
    received = b""
    with proxy.tunnel(*tunnel) if tunnel else proxy.connect() as connection, suppress(ConnectionError, TimeoutError):
        connection.settimeout(0.3)
        connection.sendall(payload)
        while chunk := connection.recv(65536):
            received += chunk
            connection.settimeout(0.15)
    return received


# -- paths -------------------------------------------------------------------------------------------------------

#: how a server may be asked for something in /secret/
SECRET_PATHS = [
    # escapes
    b"/secret/",
    b"/secret/?",
    b"/secret/#top",
    b"/%73ecret/x",
    b"/%2573ecret/x",
    b"/%25252573ecret/x",
    b"/%%373ecret/x",
    b"/%7%33ecret/x",
    b"/secret%2fx",
    b"/secret%252Fx",
    b"%2fsecret%2fx",
    b"/secret/%00",
    b"/secret/%0d%0aX:%20y",
    b"/secret/%ff%fe",
    b"/secret/\xff\xfe",
    b"/secret/%",
    b"/secret/%zz",
    # dot segments
    b"/./secret/x",
    b"/a/../secret/x",
    b"/../../secret/x",
    b"/%2e/secret/x",
    b"/a/%2e%2E/secret/x",
    b"/a/.%2e/secret/x",
    b"/a/%252e%252e/secret/x",
    b"/a/b/c/../../../secret/x",
    b"/a/..//secret/x",
    b"/x//../secret/x",
    b"/x//..//../secret/x",
    b"/secret/.",
    b"/secret/x/..",
    b"/secret/../secret/x",
    b"/secret/x/../../secret/",
    b"/secret/..",
    b"/secret/../x",
    # slashes of all kinds
    b"//secret/x",
    b"///secret///x",
    b"/%2fsecret/x",
    b"/.//secret/x",
    b"\\secret\\x",
    b"/\\secret/x",
    b"/%5csecret%5cx",
    b"/a\\..\\secret\\x",
    b"/a%5c%2e%2e%5csecret/x",
    b"/a/..%5csecret/x",
    b"/x\\\\..\\secret/x",
    # what is taken for a query or a fragment, and is none
    b"/a?/../secret/".replace(b"?", b"%3f"),
    b"/a%253f/../secret/x",
    b"/%3f/..//secret/x",
    b"/%3F/%2e%2e/secret/x",
    b"/a%3fb%3fc/../secret/x?q",
    b"/a#/../secret/x",
    b"/a%23/../secret/x",
    b"/a%23/..%2fsecret/x",
    b"/secret/x%3f/../..",
    b"/secret/?/../..",
    b"/secret/#/../..",
    # path parameters, which servers in Java leave out
    b"/secret;/x",
    b"/secret;a=b/x",
    b"/;a/secret/x",
    b"/a/..;/secret/x",
    b"/a/..;a=b/secret/x",
    b"/a/.;/..;/secret/x",
    b"/a/%2e%2e;/secret/x",
    b"/secret;%2fx/x",
    # a server that decodes once, or not at all, before it resolves, and takes the rest for part of the name
    b"/./secret/x.php/%252e%252e/%252e%252e/%252e%252e/",
    b"/a/../secret/x.php/%252e%252e/%252e%252e/",
    b"/a/../secret/x.php/%2e%2e/%2e%2e/",
    b"/./secret/x.php%3f/%252e%252e/%252e%252e/",
    b"/a%3f/../secret/x?y%3fz=%3f",
    b"/a/%2e%2e/secret/x.php/%252e%252e/%252e%252e/",
    # IIS's own escapes
    b"/%u0073ecret/x",
    b"/%U0073ecret/x",
    b"/secret%u002fx",
    b"/a/%u002e%u002e/secret/x",
    b"/%25u0073ecret/x",
    # overlong UTF-8, which old decoders read
    pytest.param(b"/secret%c0%afx", marks=pytest.mark.xfail(reason="only decoders of long ago read it")),
    pytest.param(b"/a/%c0%ae%c0%ae/secret/x", marks=pytest.mark.xfail(reason="only decoders of long ago read it")),
    # length
    b"/secret/" + b"a" * 65536,
    b"/" + b"a/../" * 10000 + b"secret/x",
    b"/" + b"%25" * 20000 + b"/../secret/x",
    b"/secret/" + b"a" * (1 << 20),
    # another expression of the same policy
    b"/find?q=secret",
    b"/find?q=%73ecret",
    b"/find%3fq=secret",
    b"/a/../find?q=sec%2572et",
    b"/find?q=secret#x",
]


def name(value: object) -> str:
    return repr(value[:60]) if isinstance(value, bytes) else str(value)


@pytest.mark.parametrize("path", SECRET_PATHS, ids=name)
def test_a_spelling_of_a_blocked_path_does_not_arrive(proxy: Proxy, origin: Origin, path: bytes) -> None:
    with origin.watch() as arrived:
        receive(proxy, request_head(path if path[:1] == b"/" else b"/" + path, b"path.test"))
        if path[:1] in b"/\\":
            receive(proxy, request_head(path, b"path.test"), ("path.test", 80))
    assert arrived.connections == 0


#: ways out of an allowed folder of a blocked site
WAYS_OUT = [
    b"/live",
    b"/live/../x",
    b"/live/..%2fx",
    b"/live/%252e%252e/x",
    b"/live/..\\x",
    b"/live/%5c..%5c../x",
    b"/live//../x",
    b"/live/./../x",
    b"/live/%3f/../../x",
    b"/live/a%3f/../../x",
    b"/live/#/../../x",
    b"/live/..;/x",
    b"/live/..;a/x",
    b"/live/;/../../x",
    b"/live/%u002e%u002e/x",
    b"/live/..%u002fx",
    b"/x/../live/../x",
    b"/x/%2e%2e/live/%2e%2e/x",
    b"/x?/live/",
    b"/x%3f/live/",
    b"/x#/live/",
    b"/live%00/",
]


@pytest.mark.parametrize("path", WAYS_OUT, ids=name)
def test_no_spelling_leads_out_of_an_allowed_folder(proxy: Proxy, origin: Origin, path: bytes) -> None:
    with origin.watch() as arrived:
        receive(proxy, request_head(b"http://video.test" + path, b"video.test"))
    assert arrived.connections == 0


#: what looks like the above and is harmless
HARMLESS = [
    b"http://path.test/",
    b"http://path.test/secret",
    b"http://path.test/secrets/",
    b"http://path.test/a/secret/",
    b"http://path.test/?/secret/",
    b"http://path.test/?/../secret/",
    b"http://path.test/x?y=/a/../secret/",
    b"http://path.test/x?a%3f/../secret/",
    b"http://path.test/a%3fb",
    b"http://path.test/a;b=c/d;e",
    b"http://path.test/..;/x",
    b"http://path.test/a;secret/x",
    b"http://path.test/%u0074ecret/x",
    b"http://path.test/100%25/",
    b"http://path.test/%2525/%252e/x",
    b"http://path.test/a%20b",
    b"http://path.test/*",
    b"http://path.test/find?q=secrets",
    b"http://path.test/find?q=",
    b"http://video.test/live/",
    b"http://video.test/live/x;y=z/%3f",
    b"http://video.test/live/a/../x",
    b"http://video.test/live/a/..;/x",
    b"http://hashed.test/page2",
    b"http://hashed.test/a/b",
    b"http://11.20.30.40/",
    b"http://[::ffff:11.20.30.40]/",
    b"http://[2001:db8::10.0.0.1]/",
    b"http://strase.test/",
    b"http://xn--bcher-kva.test/",
]


@pytest.mark.parametrize("target", HARMLESS, ids=name)
def test_a_harmless_neighbour_arrives(proxy: Proxy, origin: Origin, target: bytes) -> None:
    host = target.split(b"/")[2]
    with origin.watch() as arrived:
        receive(proxy, request_head(target, host))
    assert len(arrived.requests) == 1


# -- hosts -------------------------------------------------------------------------------------------------------

HOSTS = [
    b"ads.test",
    b"ADS.tEST",
    b"ads.test.",
    b"ads.test..",
    b".ads.test",
    b"ads..test",
    b"ads.test:80",
    b"ads.test:080",
    b"ads.test:",
    b"ads.test:8080",
    b"ads.test:80:80",
    b"ads.test:x",
    b"x.ads.test",
    b"a.b.c.d.e.f.g.ads.test",
    b"_._.ads.test",
    b"user@ads.test",
    b"user:word@ads.test",
    b"@ads.test",
    b"good.test@ads.test",
    b"good.test:80@ads.test",
    b"good.test#@ads.test",
    b"good.test%2f@ads.test",
    b"ads.test@",
    b"ads.test/",
    b"ads.test?",
    b"ads.test#x",
    b"ads.test\\x",
    b"http://ads.test",
    b"http://ads.test/",
    b"//ads.test",
    b"ads.test/@good.test",
    b"%61ds.test",
    b"%2561ds.test",
    b"ads%2etest",
    "ads\u3002test".encode(),
    "\uff21ds\uff0etest".encode(),
    "a\u00adds.test".encode(),
    "a\u200bds.test".encode(),
    "\U0001d41ads.test".encode(),
    b"xn--ads-.test",
    b"xn--strae-oqa.test",
    b"STRASSE.test",
    b"prefix.test",
    b"x.prefix.test.",
    # addresses
    b"10.20.30.40",
    b"10.20.30.40.",
    b"10.20.7720",
    b"10.1318440",
    b"169090600",
    b"0xa.20.30.40",
    b"0x0A141E28",
    b"012.024.036.050",
    b"0000000012.20.30.40",
    b"01205017050",
    b"[::ffff:10.20.30.40]",
    b"[::FFFF:0a14:1e28]",
    b"[0:0:0:0:0:ffff:10.20.30.40]",
    b"[::ffff:10.20.30.40%1]",
    b"[::ffff:10.20.30.40%25eth0]",
    b"[64:ff9b::10.20.30.40]",
    b"[64:ff9b::a14:1e28]",
    b"[::ffff:10.20.30.40]:80",
    b"::ffff:10.20.30.40",
    "\uff11\uff10.20.30.40".encode(),
]


@pytest.mark.parametrize("host", HOSTS, ids=name)
def test_a_spelling_of_a_blocked_host_does_not_arrive(proxy: Proxy, origin: Origin, host: bytes) -> None:
    with origin.watch() as arrived:
        receive(proxy, request_head(b"http://" + host + b"/", b"good.test"))
        receive(proxy, request_head(b"/", host))
        # the target is harmless, and Host alone is what a server on a shared address answers by
        receive(proxy, request_head(b"http://good.test/", host))
        receive(proxy, request_head(b"/", host), ("good.test", 80))
    unread = b"xn--ads-.test", b"xn--strae-oqa.test"  # other names, if mitmproxy asks for them at all
    assert arrived.connections == 0 or host in unread


@pytest.mark.parametrize("host", ["a\u200dds.test", "ads.te\u200cst", "stra\u00dfe.test", "STRA\u1e9eE.test"])
def test_a_name_that_is_looked_up_as_a_blocked_one_does_not_arrive(proxy: Proxy, origin: Origin, host: str) -> None:
    # mitmproxy looks names up by IDNA 2003, which drops and maps more than UTS 46.
    with origin.watch() as arrived:
        receive(proxy, request_head(b"/", host.encode()))
        receive(proxy, request_head(b"http://" + host.encode() + b"/", b"good.test"))
    assert arrived.connections == 0


URIS = [
    b"http://hashed.test/page",
    b"http://HASHED.test./page",
    b"http://hashed.test:080/page",
    b"http://hashed.test:80/page#x",
    b"http://hashed.test/page?x",
    b"http://hashed.test/%70age",
    b"http://hashed.test/%2570age",
    b"http://hashed.test//page",
    b"http://hashed.test/a/../page",
    b"http://hashed.test/index.html",
    b"http://hashed.test/index.htm",
    b"http://hashed.test",
    b"http://hashed.test/",
    b"http://hashed.test/a%2fb",
    b"http://HASHED.test./a%2fb",
    b"http://hashed.test/./a%2Fb",
    b"http://hashed.test/%61%2Fb",
]


@pytest.mark.parametrize("target", URIS, ids=name)
def test_a_spelling_of_a_hashed_uri_does_not_arrive(proxy: Proxy, origin: Origin, target: bytes) -> None:
    with origin.watch() as arrived:
        receive(proxy, request_head(target, target.split(b"/")[2]))
    assert arrived.connections == 0


# -- HTTP/1 ------------------------------------------------------------------------------------------------------

_SECRET = b"GET http://path.test/secret/x HTTP/1.1\r\nHost: path.test\r\n\r\n"
_LEN = str(len(_SECRET)).encode()
HEADS = {
    "HTTP/1.0": b"GET http://ads.test/ HTTP/1.0\r\n\r\n",
    "HTTP/1.0 by Host": b"GET / HTTP/1.0\r\nHost: ads.test\r\n\r\n",
    "HTTP/0.9": b"GET http://ads.test/\r\n\r\n",
    "HTTP/0.9 by Host": b"GET /\r\nHost: ads.test\r\n\r\n",
    "HTTP/2.0 in a line": b"GET http://ads.test/ HTTP/2.0\r\nHost: good.test\r\n\r\n",
    "HTTP/3.0 in a line": b"GET http://good.test/ HTTP/3.0\r\nHost: ads.test\r\n\r\n",
    "HTTP/9.9 in a line": b"GET http://ads.test/ HTTP/9.9\r\n\r\n",
    "lower-case version": b"GET http://ads.test/ http/1.1\r\n\r\n",
    "no version": b"GET http://ads.test/ \r\nHost: ads.test\r\n\r\n",
    "upper-case scheme": b"GET HTTP://ads.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "one slash": b"GET http:/ads.test/ HTTP/1.1\r\nHost: ads.test\r\n\r\n",
    "no slash": b"GET http:ads.test/ HTTP/1.1\r\nHost: ads.test\r\n\r\n",
    "ftp": b"GET ftp://ads.test/ HTTP/1.1\r\nHost: ads.test\r\n\r\n",
    "ws": b"GET ws://ads.test/ HTTP/1.1\r\nHost: ads.test\r\n\r\n",
    "bare lines": b"GET http://ads.test/ HTTP/1.1\nHost: good.test\n\n",
    "other white space": b"GET\x0bhttp://ads.test/\x0cHTTP/1.1\r\nHost: good.test\r\n\r\n",
    "space behind Host": b"GET http://good.test/ HTTP/1.1\r\nHost : ads.test\r\n\r\n",
    "space before Host": b"GET http://good.test/ HTTP/1.1\r\nX: y\r\n Host: ads.test\r\n\r\n",
    "folded Host": b"GET http://good.test/ HTTP/1.1\r\nHost:\r\n ads.test\r\n\r\n",
    "Host folded behind another": b"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\tads.test\r\n\r\n",
    "bare CR before Host": b"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nX: y\rHost: ads.test\r\n\r\n",
    "NUL in Host": b"GET http://good.test/ HTTP/1.1\r\nHost: good.test\x00ads.test\r\n\r\n",
    "odd case of Host": b"GET http://good.test/ HTTP/1.1\r\nhOsT: ads.test\r\n\r\n",
    "tabs around Host": b"GET http://good.test/ HTTP/1.1\r\nHost:\t\tads.test\t\r\n\r\n",
    "nine Hosts": b"GET http://good.test/ HTTP/1.1\r\n"
    + b"".join(b"Host: h%d.test\r\n" % number for number in range(9))
    + b"\r\n",
    "a thousand Hosts": b"GET http://good.test/ HTTP/1.1\r\n"
    + b"Host: good.test\r\n" * 1000
    + b"Host: ads.test\r\n\r\n",
    "a flood of headers": b"GET http://good.test/ HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"Host: ads.test\r\n\r\n",
    "a long method": b"G" * 65536 + b" http://ads.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "no method token": b"<> http://ads.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "TRACE": b"TRACE http://ads.test/ HTTP/1.1\r\nHost: ads.test\r\n\r\n",
    "OPTIONS *": b"OPTIONS * HTTP/1.1\r\nHost: ads.test\r\n\r\n",
    "method override": b"POST http://ads.test/ HTTP/1.1\r\nHost: ads.test\r\nX-HTTP-Method-Override: GET\r\n"
    b"Content-Length: 0\r\n\r\n",
    "Upgrade: h2c": b"GET http://ads.test/ HTTP/1.1\r\nHost: ads.test\r\nConnection: Upgrade, HTTP2-Settings\r\n"
    b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    "Upgrade: websocket": b"GET http://ads.test/ HTTP/1.1\r\nHost: ads.test\r\nConnection: keep-alive, Upgrade\r\n"
    b"UPGRADE: WebSocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    "HTTP/2's preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "HTTP/2's preface with a Host": b"PRI * HTTP/2.0\r\nHost: ads.test\r\n\r\nSM\r\n\r\n",
    "Content-Length and Transfer-Encoding": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: "
    + _LEN
    + b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + _SECRET,
    "two Content-Lengths": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
    b"Content-Length: 0\r\nContent-Length: " + _LEN + b"\r\n\r\n" + _SECRET,
    "an odd Transfer-Encoding": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
    b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + _SECRET,
    "a folded Transfer-Encoding": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
    b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + _SECRET,
    "Transfer-Encoding in HTTP/1.0": b"POST http://good.test/ HTTP/1.0\r\nHost: good.test\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _SECRET,
    "a signed Content-Length": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: +0\r\n\r\n"
    + _SECRET,
    "CONNECT, lower case": b"connect ads.test:443 HTTP/1.1\r\n\r\n",
    "CONNECT and at once a request": b"CONNECT ads.test:80 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "CONNECT to an address and at once a request": b"CONNECT 10.1:80 HTTP/1.1\r\n\r\n"
    b"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "CONNECT inside CONNECT": b"CONNECT good.test:80 HTTP/1.1\r\n\r\nCONNECT ads.test:80 HTTP/1.1\r\n\r\n"
    b"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "plain HTTP in a tunnel to 443": b"CONNECT ads.test:443 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "the preface in a tunnel": b"CONNECT ads.test:80 HTTP/1.1\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
}


@pytest.mark.parametrize("payload", HEADS.values(), ids=HEADS)
def test_nothing_of_a_blocked_request_arrives(proxy: Proxy, origin: Origin, payload: bytes) -> None:
    with origin.watch() as arrived:
        receive(proxy, payload)
    assert arrived.connections == 0


_GOOD = b"GET http://good.test/%d HTTP/1.1\r\nHost: good.test\r\n\r\n"
PIPELINES = {
    "a second request": (_GOOD % 1 + _SECRET + _GOOD % 2, [b"/1", b"/2"]),
    "behind a body": (
        b"POST http://good.test/1 HTTP/1.1\r\nHost: good.test\r\nContent-Length: 2\r\n\r\nab" + _SECRET,
        [b"/1"],
    ),
    "behind chunks": (
        b"POST http://good.test/1 HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2;x=y\r\nab\r\n0\r\n\r\n" + _SECRET,
        [b"/1"],
    ),
    "inside a body": (
        b"POST http://good.test/1 HTTP/1.1\r\nHost: good.test\r\nContent-Length: " + _LEN + b"\r\n\r\n" + _SECRET,
        [b"/1"],
    ),
    "inside a GET's body": (
        b"GET http://good.test/1 HTTP/1.1\r\nHost: good.test\r\nContent-Length: " + _LEN + b"\r\n\r\n" + _SECRET,
        [b"/1"],
    ),
    "behind a blocked one": (_SECRET + _GOOD % 1 + _SECRET, [b"/1"]),
    "behind Expect": (
        b"POST http://good.test/1 HTTP/1.1\r\nHost: good.test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab"
        + _SECRET,
        [b"/1"],
    ),
    "a blocked host in a tunnel to another": (
        b"CONNECT good.test:80 HTTP/1.1\r\n\r\nGET /1 HTTP/1.1\r\nHost: good.test\r\n\r\n"
        b"GET /2 HTTP/1.1\r\nHost: ads.test\r\n\r\nGET http://ads.test/3 HTTP/1.1\r\nHost: good.test\r\n\r\n",
        [b"/1"],
    ),
    "an upgrade that the origin does not make": (
        b"GET http://good.test/1 HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n" + _SECRET,
        [b"/1"],
    ),
}


@pytest.mark.parametrize(("payload", "targets"), PIPELINES.values(), ids=PIPELINES)
def test_of_several_requests_only_the_allowed_arrive(
    proxy: Proxy, origin: Origin, payload: bytes, targets: list[bytes]
) -> None:
    with origin.watch() as arrived:
        receive(proxy, payload)
    assert [request.target for request in arrived.requests] == targets


# -- TLS and HTTP/2 ----------------------------------------------------------------------------------------------


def over_h2(proxy: Proxy, headers: Headers, tunnel: tuple[str, int] | None = None) -> bytes | None:
    """The status for one HTTP/2 request whose headers are sent exactly as they are, or ``None`` where it is cut off.

    Without a tunnel, the proxy itself is spoken to over TLS, as browsers do with an HTTPS proxy.
    """
    config = h2.config.H2Configuration(
        header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False
    )
    protocol = h2.connection.H2Connection(config)
    context = proxy.tls()
    context.set_alpn_protocols(["h2"])
    context.check_hostname = False  # the proxy's certificate for an address names the address
    with (
        proxy.tunnel(*tunnel) if tunnel else proxy.connect() as plain,
        context.wrap_socket(plain, server_hostname=tunnel[0] if tunnel else LOOPBACK) as connection,
    ):
        protocol.initiate_connection()
        protocol.send_headers(1, headers, end_stream=True)
        connection.sendall(protocol.data_to_send())
        connection.settimeout(2)
        with suppress(OSError):
            while chunk := connection.recv(65536):
                for event in protocol.receive_data(chunk):
                    match event:
                        case h2.events.ResponseReceived():
                            return next(bytes(value) for field, value in event.headers if bytes(field) == b":status")
                        case h2.events.StreamReset() | h2.events.ConnectionTerminated():
                            return None
                connection.sendall(protocol.data_to_send())
    return None


def h2_headers(
    path: bytes = b"/",
    authority: bytes | None = b"good.test",
    *more: tuple[bytes, bytes],
    method: bytes = b"GET",
    scheme: bytes = b"http",
) -> Headers:
    named = [] if authority is None else [(b":authority", authority)]
    return [(b":method", method), (b":scheme", scheme), *named, (b":path", path), *more]


_INNER = b"GET /secret/inner HTTP/1.1\r\nHost: path.test\r\n\r\n"
H2 = {
    ":authority": h2_headers(b"/", b"ads.test"),
    ":authority with a port": h2_headers(b"/", b"ads.test:8080"),
    ":authority with a user": h2_headers(b"/", b"good.test@ads.test"),
    "host": h2_headers(b"/", b"good.test", (b"host", b"ads.test")),
    "Host in capitals": h2_headers(b"/", b"good.test", (b"Host", b"ads.test")),
    "host alone": h2_headers(b"/", None, (b"host", b"ads.test")),
    "two hosts": h2_headers(b"/", b"good.test", (b"host", b"good.test"), (b"host", b"ads.test")),
    "two authorities": [*h2_headers(), (b":authority", b"ads.test")],
    "a pseudo header behind the others": h2_headers(b"/", b"good.test", (b"x", b"y"), (b":authority", b"ads.test")),
    "an unknown pseudo header": [*h2_headers(b"/", b"ads.test")[:3], (b":path", b"/"), (b":protocol", b"websocket")],
    "extended CONNECT": [
        *h2_headers(b"/", b"ads.test", method=b"CONNECT", scheme=b"https"),
        (b":protocol", b"websocket"),
    ],
    "CONNECT with a path": h2_headers(b"/", b"ads.test:80", method=b"CONNECT"),
    ":scheme ftp": h2_headers(b"/", b"ads.test", scheme=b"ftp"),
    ":scheme in capitals": h2_headers(b"/", b"ads.test", scheme=b"HTTP"),
    "an empty path": h2_headers(b"", b"ads.test"),
    "*": h2_headers(b"*", b"ads.test"),
    "a path without its slash": h2_headers(b"secret/x", b"path.test"),
    "a path with a fragment": h2_headers(b"/a#/../secret/x", b"path.test"),
    "a path with a space": h2_headers(b"/secret/x y", b"path.test"),
    "a path of raw octets": h2_headers(b"/secret/\xff", b"path.test"),
    "a path with a version behind it": h2_headers(b"/find?q=secret HTTP/1.1", b"path.test"),
    "a path with a tab": h2_headers(b"/se\tcret/x", b"path.test"),
    "an absolute path": h2_headers(b"http://path.test/secret/x", b"good.test"),
    "an absolute path on the same host": h2_headers(b"http://path.test/secret/x", b"path.test"),
    "an absolute path to a host": h2_headers(b"http://ads.test/", b"good.test"),
    "a request in the path": h2_headers(b"/ HTTP/1.1\r\nHost: good.test\r\n\r\n" + _INNER + b"GET /"),
    "a request in the method": h2_headers(method=b"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n" + _INNER + b"GET"),
    "a path in the method": h2_headers(b"/", b"path.test", method=b"GET /secret/x"),
    "a request in a value": h2_headers(b"/", b"good.test", (b"x", b"y\r\n\r\n" + _INNER)),
    "a request in a value by bare lines": h2_headers(b"/", b"good.test", (b"x", b"y\n\n" + _INNER)),
    "a header in a value": h2_headers(b"/", b"good.test", (b"x", b"y\r\nHost: ads.test")),
    "a header behind a bare CR": h2_headers(b"/", b"good.test", (b"x", b"y\rHost: ads.test")),
    "a header in a name": h2_headers(b"/", b"good.test", (b"x: y\r\nhost: ads.test\r\nz", b"y")),
    "a line end behind a name": h2_headers(b"/", b"good.test", (b"x\n", b"y")),
    "a line end behind Content-Length": h2_headers(b"/", b"good.test", (b"content-length", b"0\n")),
    "Transfer-Encoding": h2_headers(b"/", b"good.test", (b"transfer-encoding", b"chunked")),
    "a NUL in a value": h2_headers(b"/", b"good.test", (b"x", b"y\x00z")),
}


@pytest.mark.parametrize("headers", H2.values(), ids=H2)
def test_nothing_of_a_blocked_request_arrives_that_comes_over_http_2(
    proxy: Proxy, origin: Origin, headers: Headers
) -> None:
    # The origin is spoken to in HTTP/1.1: what is harmless in HTTP/2's frames may be another request there.
    with origin.watch() as arrived:
        status = over_h2(proxy, headers)
    assert arrived.connections == 0
    assert status is None or status[:1] == b"4" or headers[0] == (b":method", b"CONNECT")


H2_IN_TUNNEL = {
    ":authority": h2_headers(b"/", b"ads.test", scheme=b"https"),
    "host": h2_headers(b"/", b"good.test", (b"host", b"ads.test"), scheme=b"https"),
    "an absolute path": h2_headers(b"https://path.test/secret/x", b"good.test", scheme=b"https"),
    "a request in a value": h2_headers(b"/", b"good.test", (b"x", b"y\r\n\r\n" + _INNER), scheme=b"https"),
    "CONNECT": h2_headers(b"/", b"ads.test:80", method=b"CONNECT", scheme=b"https"),
}


@pytest.mark.parametrize("headers", H2_IN_TUNNEL.values(), ids=H2_IN_TUNNEL)
def test_nothing_of_a_blocked_request_arrives_that_comes_over_http_2_in_a_tunnel(
    proxy: Proxy, origin: Origin, headers: Headers
) -> None:
    with origin.watch() as arrived:
        over_h2(proxy, headers, ("good.test", 443))
    assert arrived.connections == 0


def test_harmless_requests_over_http_2_arrive(proxy: Proxy, origin: Origin) -> None:
    harmless = [
        h2_headers(b"/a?b#c"),
        h2_headers(b"/", b"good.test", (b"x", b"a, b"), (b"cookie", b"a=b"), (b"cookie", b"c=d")),
        h2_headers(b"*", method=b"OPTIONS"),
        h2_headers(b"/", method=b"M-SEARCH"),
    ]
    with origin.watch() as arrived:
        statuses = [over_h2(proxy, headers) for headers in harmless]
        statuses.append(over_h2(proxy, h2_headers(scheme=b"https"), ("good.test", 443)))
    assert statuses == [b"200"] * 5
    assert len(arrived.requests) == 5


@pytest.mark.parametrize(("host", "port"), [("ads.test", 80), ("ads.test", 443), ("ads.test", 8443), ("10.1", 443)])
def test_tls_in_a_tunnel_to_any_port_is_read(proxy: Proxy, origin: Origin, host: str, port: int) -> None:
    context = proxy.tls()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        origin.watch() as arrived,
        proxy.tunnel(host, port) as tunnel,
        context.wrap_socket(tunnel, server_hostname="good.test") as connection,
    ):
        connection.sendall(request_head(b"/", b"good.test"))
        assert read_answer(connection).status == 403
    assert arrived.connections == 0


@pytest.mark.parametrize("host", ["ads.test", "good.test", "10.1"])
def test_a_tunnel_to_the_port_of_dns_carries_none(proxy: Proxy, origin: Origin, host: str) -> None:
    question = bytes.fromhex("0001 0100 0001 0000 0000 0000") + b"\x06secret\x04test\x00" + bytes.fromhex("0010 0001")
    with origin.watch() as arrived:
        receive(proxy, len(question).to_bytes(2, "big") + question, (host, 5353))
        receive(proxy, request_head(b"/", host.encode()), (host, 5353))
    assert arrived.connections == 0


@pytest.mark.parametrize("target", [b"/$reason", b"/${facts}", b"/$$", b"/%0d%0aSet-Cookie:%20a=b", b"/\xff\xfe<b>"])
def test_an_answer_is_made_of_nothing_that_the_request_says(proxy: Proxy, target: bytes) -> None:
    answer = proxy.send(request_head(b"http://ads.test" + target, b"ads.test"))
    assert answer.status in (400, 403)
    assert "set-cookie" not in answer.headers
    assert b"<b>" not in answer.body


def test_a_recorded_request_that_is_sent_again_is_decided_again(
    tmp_path: Path, start: Callable[..., Proxy], origin: Origin
) -> None:
    # As `mitmdump -C recorded.flow` does; the recording was made where nothing was blocked.
    recorded = tmp_path / "recorded.flow"
    with recorded.open("wb") as stream:
        for host, path in (("ads.test", b"/"), ("path.test", b"/secret/x"), ("good.test", b"/last")):
            flow = tflow.tflow(resp=True)
            flow.request.data.headers = http.Headers(host=host)
            flow.request.data.host, flow.request.data.port, flow.request.data.path = host, 80, path
            FlowWriter(stream).add(flow)
    with origin.watch() as arrived:
        start(options={"client_replay": recorded})
        deadline = monotonic() + PATIENCE
        while not (origin.requests and origin.requests[-1].target == b"/last") and monotonic() < deadline:
            sleep(0.05)
    assert [request.target for request in arrived.requests] == [b"/last"]


def test_an_origin_cannot_teach_the_filter_about_another(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path
) -> None:
    # Every name leads to the pupil's server, which redirects /folder to /folder/ by any of them.
    list_of = {"expression": "video.test/folder/", "action": "allow"}
    proxy = start(policy=simple_policy(tmp_path / "policy", "video.test/", list_of))
    with origin.watch() as arrived:
        for host in (b"video.test", b"VIDEO.test.", b"good.test, video.test"):
            receive(proxy, request_head(b"http://good.test/folder", host))
            receive(proxy, request_head(b"/folder", b"good.test", host), ("good.test", 80))
        assert proxy.send(request_head(b"http://good.test/folder", b"good.test")).status == 301
        assert proxy.send(request_head(b"http://video.test/folder", b"video.test")).status == 403
    assert {request.host for request in arrived.requests} <= {"good.test", "good.test, video.test"}


# -- time --------------------------------------------------------------------------------------------------------

_LENGTH = 1 << 16
_NAMES = tuple(b"a.b.c.d.e%d.test" % number for number in range(MOST_HOSTS))
#: 337 letters of which no two are alike, which is what Punycode is slowest for
_LETTERS = [chr(0x4E00 + number * 7919 % 20000).encode() for number in range(336 + MOST_HOSTS)]
COSTLY = {
    "a long path of dot segments": (_NAMES[:1], b"/a/..\\" * (_LENGTH // 6) + b"#"),
    "nested escapes, by many names": (_NAMES, b"/%" + b"25" * (_LENGTH // 2) + b"/..\\#"),
    "a host of many labels": ((b"a." * (_LENGTH // 2),), b"/..\\#"),
    "long expressions, by many names": (_NAMES, b"/" + b"a" * _LENGTH + b"/b/c/../d\\x/e//f//../..\\z#x?q"),
    "octets to escape": (_NAMES[:1], b"/" + b"\xff" * _LENGTH),
    "octets to escape, by many names": (_NAMES, b"/" + b"\xff" * _LENGTH + b"/b//c/..\\d#"),
    "a host of octets to escape": (("\u00fc".encode() * (_LENGTH // 2),), b"/"),
    "labels for Punycode": (
        tuple(b"".join(_LETTERS[number : number + 337]) for number in range(MOST_HOSTS)),
        b"/",
    ),
}


@pytest.mark.parametrize(("hosts", "target"), COSTLY.values(), ids=COSTLY)
def test_a_decision_takes_little_time(policy: Path, hosts: tuple[bytes, ...], target: bytes) -> None:
    engine = load_engine(policy)

    def seconds() -> float:
        canonical_forms(Request(b"http", (b"h", b"i"), 80, b"/"), b"h")  # nothing of the last time is kept
        start = process_time()
        engine.decide(Request(b"http", hosts, 80, target))
        return process_time() - start

    assert min(seconds() for _ in range(3)) < 0.5
