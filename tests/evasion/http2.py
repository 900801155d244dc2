"""Spellings in HTTP/2, whose frames can carry any octet anywhere, while the origin may be spoken to in HTTP/1.1."""

from __future__ import annotations

from collections.abc import Iterator

from evasion.entries import Entry, Fields, fields

_INNER = b"GET /secret/inner HTTP/1.1\r\nHost: path.test\r\n\r\n"

#: family -> what one sees -> the request, sent to the proxy itself
REQUESTS: dict[str, dict[str, Fields]] = {
    "HTTP/2: authority": {
        ":authority": fields(b"/", b"ads.test"),
        "with a port": fields(b"/", b"ads.test:8080"),
        "with a user": fields(b"/", b"good.test@ads.test"),
        "in capitals": fields(b"/", b"ADS.TEST"),
        "for https": fields(b"/", b"ads.test", scheme=b"https"),
        "host": fields(b"/", b"good.test", (b"host", b"ads.test")),
        "host is harmless": fields(b"/", b"ads.test", (b"host", b"good.test")),
        "Host in capitals": fields(b"/", b"good.test", (b"Host", b"ads.test")),
        "HOST in capitals": fields(b"/", b"good.test", (b"HOST", b"ads.test")),
        "host alone": fields(b"/", None, (b"host", b"ads.test")),
        "Host alone, in capitals": fields(b"/", None, (b"Host", b"ads.test")),
        "an empty authority": fields(b"/", b"", (b"host", b"ads.test")),
        "no host at all, but a path that is absolute": fields(b"http://ads.test/", None),
        "two hosts": fields(b"/", b"good.test", (b"host", b"good.test"), (b"host", b"ads.test")),
        "two authorities": [*fields(), (b":authority", b"ads.test")],
        "two authorities, the first": [(b":authority", b"ads.test"), *fields()],
        "behind the other fields": fields(b"/", b"good.test", (b"x", b"y"), (b":authority", b"ads.test")),
        "in capitals, the name": [(b":Authority", b"ads.test"), *fields()],
        "two paths": [*fields(b"/", b"path.test"), (b":path", b"/secret/x")],
        "two schemes": [*fields(b"/", b"ads.test"), (b":scheme", b"https")],
        "two methods": [*fields(b"/", b"ads.test"), (b":method", b"POST")],
        "a list": fields(b"/", b"good.test, ads.test"),
    },
    "HTTP/2: methods and schemes": {
        "an unknown pseudo header": [*fields(b"/", b"ads.test"), (b":protocol", b"websocket")],
        "extended CONNECT": [
            *fields(b"/", b"ads.test", method=b"CONNECT", scheme=b"https"),
            (b":protocol", b"websocket"),
        ],
        "extended CONNECT for http": [*fields(b"/", b"ads.test", method=b"CONNECT"), (b":protocol", b"websocket")],
        "extended CONNECT to a path": [
            *fields(b"/secret/", b"path.test", method=b"CONNECT"),
            (b":protocol", b"websocket"),
        ],
        "CONNECT": [(b":method", b"CONNECT"), (b":authority", b"ads.test:80")],
        "CONNECT with a path": fields(b"/", b"ads.test:80", method=b"CONNECT"),
        "ftp": fields(b"/", b"ads.test", scheme=b"ftp"),
        "scheme in capitals": fields(b"/", b"ads.test", scheme=b"HTTP"),
        "an empty scheme": fields(b"/", b"ads.test", scheme=b""),
        "method in lower case": fields(b"/", b"ads.test", method=b"get"),
        "HEAD": fields(b"/", b"ads.test", method=b"HEAD"),
        "OPTIONS *": fields(b"*", b"ads.test", method=b"OPTIONS"),
        "a method of the WebDAV kind": fields(b"/", b"ads.test", method=b"PROPFIND"),
        "an upgrade": fields(b"/", b"ads.test", (b"upgrade", b"websocket"), (b"connection", b"upgrade")),
    },
    "HTTP/2: paths": {
        "empty": fields(b"", b"ads.test"),
        "*": fields(b"*", b"ads.test"),
        "without its slash": fields(b"secret/x", b"path.test"),
        "a query alone": fields(b"?/../secret/", b"ads.test"),
        "with a fragment": fields(b"/a#/../secret/x", b"path.test"),
        "with a space": fields(b"/secret/x y", b"path.test"),
        "of raw octets": fields(b"/secret/\xff", b"path.test"),
        "with a version behind it": fields(b"/find?q=secret HTTP/1.1", b"path.test"),
        "with a tab": fields(b"/se\tcret/x", b"path.test"),
        "with a NUL": fields(b"/secret/\x00", b"path.test"),
        "absolute": fields(b"http://path.test/secret/x", b"good.test"),
        "absolute, https": fields(b"https://path.test/secret/x", b"good.test"),
        "absolute, on the same host": fields(b"http://path.test/secret/x", b"path.test"),
        "absolute, to a host": fields(b"http://ads.test/", b"good.test"),
        "another host behind two slashes": fields(b"//secret/x", b"path.test"),
    },
    "requests in requests": {
        "in the path": fields(b"/ HTTP/1.1\r\nHost: good.test\r\n\r\n" + _INNER + b"GET /"),
        "in the method": fields(method=b"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n" + _INNER + b"GET"),
        "in the scheme": fields(scheme=b"http://ads.test/ HTTP/1.1\r\n\r\n" + _INNER),
        "in the authority": fields(authority=b"good.test\r\n\r\n" + _INNER),
        "a path in the method": fields(b"/", b"path.test", method=b"GET /secret/x"),
        "in a value": fields(b"/", b"good.test", (b"x", b"y\r\n\r\n" + _INNER)),
        "in a value, by bare lines": fields(b"/", b"good.test", (b"x", b"y\n\n" + _INNER)),
        "a header in a value": fields(b"/", b"good.test", (b"x", b"y\r\nHost: ads.test")),
        "a header behind a bare carriage return": fields(b"/", b"good.test", (b"x", b"y\rHost: ads.test")),
        "a header in a name": fields(b"/", b"good.test", (b"x: y\r\nhost: ads.test\r\nz", b"y")),
        "a line end behind a name": fields(b"/", b"good.test", (b"x\n", b"y")),
        "a line end behind Content-Length": fields(b"/", b"good.test", (b"content-length", b"0\n")),
        "Transfer-Encoding": fields(b"/", b"good.test", (b"transfer-encoding", b"chunked")),
        "a NUL in a value": fields(b"/", b"good.test", (b"x", b"y\x00z")),
    },
}

#: as in ``http1``
BELIEVED: dict[str, Fields] = {
    "X-Forwarded-Host": fields(b"/", b"good.test", (b"x-forwarded-host", b"ads.test")),
    "Forwarded": fields(b"/", b"good.test", (b"forwarded", b"for=_x;host=ads.test")),
    "Destination": fields(b"/", b"path.test", (b"destination", b"/secret/x"), method=b"COPY"),
    "X-Original-URL": fields(b"/", b"path.test", (b"x-original-url", b"/secret/x")),
    "X-WSGIProxy-PATH-INFO": fields(b"/", b"path.test", (b"x-wsgiproxy-path-info", b"/secret/x")),
}

_FAMILY = "HTTP/2 in a tunnel"
_TUNNEL = ("good.test", 443)


def entries() -> Iterator[Entry]:
    """Requests to the proxy itself, and in a tunnel."""
    for family, requests in REQUESTS.items():
        for spelling, request in requests.items():
            said = b"".join(map(b"".join, request))
            blocked = "path.test/secret/" if b"path.test" in said else "ads.test"
            yield Entry(family, blocked, f"HTTP/2: {spelling}", request)
            if family.endswith(("authority", "paths")):
                secure = [(name, b"https" if name == b":scheme" else value) for name, value in request]
                yield Entry(_FAMILY, blocked, f"{family}: {spelling}", secure, _TUNNEL)
    for spelling, request in BELIEVED.items():
        blocked = "path.test/secret/" if (b":authority", b"path.test") in request else "ads.test"
        family, shown = "headers that servers believe", f"HTTP/2: {spelling}"
        secure = [(name, b"https" if name == b":scheme" else value) for name, value in request]
        yield Entry(family, blocked, shown, request, arrives=(b"/",))
        yield Entry(family, blocked, f"{shown}, in a tunnel", secure, _TUNNEL, arrives=(b"/",))
    told = (b"content-length", b"%d" % len(_INNER))
    for spelling, head, arrives in (
        ("in a body of untold length", fields(b"/", b"good.test", method=b"POST"), (b"/",)),
        ("in a body", fields(b"/", b"good.test", told, method=b"POST"), (b"/",)),
        # an origin may read no body of these, and takes it for the next request
        ("in a body of untold length, for a GET", fields(b"/", b"good.test"), ()),
        ("in a body, for a GET", fields(b"/", b"good.test", told), ()),
        ("in a body of no length", fields(b"/", b"good.test", (b"content-length", b"0"), method=b"POST"), ()),
        ("in a body, for a HEAD", fields(b"/", b"good.test", told, method=b"HEAD"), ()),
    ):
        family = "requests in requests"
        yield Entry(family, "path.test/secret/", f"HTTP/2: {spelling}", head, arrives=arrives, body=_INNER)
    good, https = fields(scheme=b"https"), b"https"
    yield Entry(_FAMILY, "ads.test", "CONNECT", fields(b"/", b"ads.test:80", method=b"CONNECT", scheme=https), _TUNNEL)
    yield Entry(_FAMILY, "ads.test", "the tunnel", good, ("ads.test", 443), "good.test")
    yield Entry(_FAMILY, "ads.test", "the tunnel to port 8443", good, ("ads.test", 8443), "good.test")
    yield Entry(_FAMILY, "10.0.0.0/8", "the tunnel to an address", good, ("10.1", 443), "good.test")
    yield Entry(_FAMILY, "ads.test", "the server name", good, _TUNNEL, "ads.test")
    in_value = fields(b"/", b"good.test", (b"x", b"y\r\n\r\n" + _INNER), scheme=https)
    yield Entry(_FAMILY, "path.test/secret/", "a request in a value", in_value, _TUNNEL)
