"""What looks like something that is blocked, and is harmless: it has to arrive."""

from __future__ import annotations

from collections.abc import Iterator

from e2e.proxy import request_head
from evasion.entries import Entry, Fields, fields, shown

#: family -> URLs
URLS: dict[str, list[str | bytes]] = {
    "hosts": [
        "http://good.test/",
        "http://notads.test/",
        "http://ads.test.example/",
        "http://ads-test/",
        "http://adstest/",
        "http://ads.tests/",
        "http://ads.test-x.example/",
        "http://xads.test/",
        "http://ad.test/",
        "http://test/",
        "http://full.tests/",
        "http://notprefix.test/",
        "http://x.hashed.test/",  # a hashed URI is that URI, and nothing below it
        "http://strase.test/",
        "http://xn--bcher-kva.example/",
        "http://bucher.test/",
        "http://buecher.test/",
        "http://xn--bchr-5ra.test/",
        "http://kiosks.test/",
    ],
    "addresses": [
        "http://11.20.30.40/",
        "http://9.255.255.255/",
        "http://110.20.30.40/",
        "http://100.20.30.40/",
        "http://1.10.20.30/",
        "http://10.20.30.40.example/",
        "http://185999660/",
        "http://0xb.1/",
        "http://012.1.example/",
        "http://[::ffff:11.20.30.40]/",
        "http://[2001:db8::10.0.0.1]/",
        "http://[2001:db8:bac::1]/",
        "http://[2001:db8:bae::1]/",
        "http://[2001:db8::bad]/",
        "http://[::1]/",
    ],
    "paths": [
        "http://path.test/",
        "http://path.test/secret",
        "http://path.test/secrets/",
        "http://path.test/notsecret/",
        "http://path.test/SECRET/",  # the path's case tells two resources apart
        "http://path.test/a/secret/",
        "http://path.test/secret.x/",
        "http://path.test/.secret/x",
        "http://path.test/s/e/c/r/e/t/",
        "http://path.test/a%3fb",
        "http://path.test/a;b=c/d;e",
        "http://path.test/..;/x",
        "http://path.test/a;secret/x",
        "http://path.test/a/b/../c/./d",
        "http://path.test//a//b//",
        "http://path.test/a\\b",
        "http://path.test/%u0074ecret/x",
        "http://path.test/100%25/",
        "http://path.test/100%/",
        "http://path.test/%2525/%252e/x",
        "http://path.test/a%20b",
        "http://path.test/a+b",
        "http://path.test/*",
        "http://path.test/~user/",
        "http://path.test/caf%C3%A9/%E2%82%AC/%F0%9F%98%80",
        "http://path.test/caf%E9",
        "http://path.test/%C0/%C1x",
        "http://path.test/secret%C2%AFx",
        "http://path.test/secre%C1%B5/",
        "http://hash.test/secret",
        "http://hash.test/other/",
        "http://other.test/secret/",
        "http://path.test/" + "a" * 65000,
    ],
    "an allowed folder of a blocked site": [
        "http://video.test/live/",
        "http://video.test/live/x",
        "http://video.test/live/?q=/../x",
        "http://VIDEO.test./live/x",
        "http://video.test:80/live/x",
        "http://video.test/%6cive/x",
        "http://video.test/live//x",
        "http://video.test/./live/x",
        "http://video.test/live/x;y=z/%3f",
        "http://video.test/live/a/../x",
        "http://video.test/live/a/..;/x",
        "http://video.test/live/%C3%A9",
        "http://www.video.test/live/x",
    ],
    "an allowed site with a blocked folder": [
        "http://open.test/",
        "http://open.test/secret",
        "http://open.test/secrets/x",
        "http://www.open.test/x",
    ],
    "queries": [
        "http://path.test/?/secret/",
        "http://path.test/?/../secret/",
        "http://path.test/?../../secret/",
        "http://path.test/x?y=/a/../secret/",
        "http://path.test/x?a%3f/../secret/",
        "http://path.test/find?q=secrets",
        "http://path.test/find?q=",
        "http://path.test/find?Q=secret",
        "http://path.test/find?q=secret&page=2",
        "http://path.test/find?x=y&q=secret",
        "http://path.test/find",
        "http://good.test/?url=http://ads.test/",
        "http://good.test/?url=http%3A%2F%2Fads.test%2F",
        "http://good.test/login?next=//path.test/secret/",
        "http://good.test/?host=10.20.30.40",
        "http://good.test/http://ads.test/",
        "http://good.test/@ads.test/",
        "http://good.test/ads.test/",
    ],
    "hashed URIs": [
        "http://hashed.test/page2",
        "http://hashed.test/Page",
        "http://hashed.test/a/b",
        "http://hashed.test/pages/",
        "http://hashed.test/x/page",
        "http://hashed.test:8080/page",
    ],
    "ports": ["http://good.test:8080/", "http://good.test//ads.test/", "http://good.test:080/"],
}

#: what one sees -> what is sent, and the targets of all that arrives
REQUESTS: dict[str, tuple[bytes, tuple[bytes, ...]]] = {
    "a Host of another harmless host": (request_head(b"http://good.test/", b"fine.test"), (b"/",)),
    "a Host in capitals with a port": (request_head(b"http://good.test/", b"GOOD.test:80"), (b"/",)),
    "origin form": (request_head(b"/x", b"good.test"), (b"/x",)),
    "a blocked URL as Referer": (
        request_head(b"http://good.test/", b"good.test", headers=[b"Referer: http://ads.test/"]),
        (b"/",),
    ),
    "a blocked URL as Origin": (
        request_head(b"http://good.test/", b"good.test", headers=[b"Origin: http://ads.test"]),
        (b"/",),
    ),
    "a blocked URL in a body": (
        request_head(b"http://good.test/", b"good.test", method=b"POST", headers=[b"Content-Length: 16"])
        + b"http://ads.test/",
        (b"/",),
    ),
    **{
        method.decode(): (request_head(b"http://good.test/", b"good.test", method=method), (b"/",))
        for method in (b"HEAD", b"OPTIONS", b"DELETE", b"PROPFIND", b"M-SEARCH", b"get")
    },
    **{
        f"a body of {method.decode()}": (
            request_head(b"http://good.test/", b"good.test", method=method, headers=[b"Content-Length: 2"]) + b"ab",
            (b"/",),
        )
        for method in (b"POST", b"DELETE", b"OPTIONS", b"PROPFIND", b"QUERY")
    },
    "a length of nothing": (request_head(b"http://good.test/", b"good.test", headers=[b"Content-Length: 0"]), (b"/",)),
    "HTTP/1.0": (b"GET http://good.test/ HTTP/1.0\r\nHost: good.test\r\n\r\n", (b"/",)),
    "commas in other headers": (
        request_head(b"http://good.test/", b"good.test", headers=[b"Accept: a, b", b"Cookie: a=b; c=ads.test"]),
        (b"/",),
    ),
    "headers of another proxy": (
        request_head(
            b"http://good.test/",
            b"good.test",
            headers=[
                *(b"X-Forwarded-For: 192.0.2.1", b"X-Forwarded-Host: good.test", b"X-Forwarded-Proto: http"),
                *(b'Forwarded: for="[::1]:80";proto=http;host=good.test', b"X-Original-URL: /"),
                *(b"X_Forwarded_Host: good.test", b"X_Requested_With: ads.test"),
                b"Destination: http://good.test/secret/",
            ],
        ),
        (b"/",),
    ),
    "a websocket": (
        b"GET http://good.test/ws HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        (b"/ws",),
    ),
}

#: what one sees -> an HTTP/2 request to the proxy itself
HTTP2: dict[str, Fields] = {
    "a path": fields(b"/a?b"),
    "repeated fields": fields(b"/", b"good.test", (b"x", b"a, b"), (b"cookie", b"a=b"), (b"cookie", b"c=d")),
    "OPTIONS *": fields(b"*", method=b"OPTIONS"),
    "M-SEARCH": fields(method=b"M-SEARCH"),
    "an authority with a port": fields(b"/", b"good.test:8080"),
    "an authority of another's beginning": fields(b"/", b"ads.test.example"),
    "host and authority": fields(b"/", b"good.test", (b"host", b"good.test")),
    "a blocked URL in a field": fields(b"/", b"good.test", (b"referer", b"http://ads.test/")),
}


def entries() -> Iterator[Entry]:
    """All of them, and how they go through a tunnel."""
    for family, urls in URLS.items():
        for url in urls:
            octets = url.encode() if isinstance(url, str) else url
            host, path = octets.split(b"/", 3)[2:]
            yield Entry(family, "", shown(octets), request_head(octets, host), arrives=(b"/" + path,))
    for spelling, (payload, arrives) in REQUESTS.items():
        yield Entry("requests", "", spelling, payload, arrives=arrives)
    for spelling, request in HTTP2.items():
        yield Entry("HTTP/2", "", spelling, request, arrives=(dict(request)[b":path"],))
    get = request_head(b"/x", b"good.test")
    yield Entry("tunnels", "", "a request", get, ("good.test", 80), arrives=(b"/x",))
    yield Entry(
        "tunnels",
        "",
        "two requests",
        get.replace(b"Connection: close\r\n", b"") + get,
        ("good.test", 80),
        arrives=(b"/x",) * 2,
    )
    yield Entry("tunnels", "", "TLS", get, ("good.test", 443), "good.test", arrives=(b"/x",))
    yield Entry("tunnels", "", "TLS to port 8443", get, ("good.test", 8443), "good.test", arrives=(b"/x",))
    yield Entry("tunnels", "", "TLS to an address", get, ("11.20.30.40", 443), "good.test", arrives=(b"/x",))
    yield Entry("tunnels", "", "HTTP/2", fields(b"/x", scheme=b"https"), ("good.test", 443), arrives=(b"/x",))
