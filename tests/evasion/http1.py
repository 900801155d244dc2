"""Spellings of whole requests in HTTP/1: lines, Host headers, methods, versions, and requests in requests."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from e2e.proxy import request_head
from evasion.entries import Entry

_SECRET = b"GET http://path.test/secret/x HTTP/1.1\r\nHost: path.test\r\n\r\n"
_INNER = b"GET /secret/x HTTP/1.1\r\nHost: path.test\r\n\r\n"
_LENGTH = b"%d" % len(_SECRET)
_END = b"\r\nConnection: close\r\n\r\n"
_WEBSOCKET = (
    b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def _asking(*lines: bytes, target: bytes = b"http://good.test/") -> bytes:
    return b"\r\n".join([b"GET " + target + b" HTTP/1.1", *lines]) + _END


#: fields by which servers take a request for another: it arrives without them
BELIEVED: dict[str, bytes] = (
    {
        name.decode(): _asking(b"Host: good.test", name + b": " + value)
        for name, value in (
            (b"X-Forwarded-Host", b"ads.test"),
            (b"x-forwarded-host", b"good.test, ADS.test.:443"),
            (b"X-Host", b"ads.test"),
            (b"X-Forwarded-Server", b"ads.test"),
            (b"X-WSGIProxy-HTTP-HOST", b"ads.test"),
            (b"X-Original-Host", b"ads.test"),
            (b"X-HTTP-Host-Override", b"x.ads.test"),
            (b"Forwarded", b"for=192.0.2.1;host=ads.test;proto=http"),
            (b"forwarded", b'for=192.0.2.1, FOR="[::1]"; Host = "ads.test:80"'),
            # as a program behind CGI reads them
            (b"X_Forwarded_Host", b"ads.test"),
            (b"x.forwarded_host", b"ads.test"),
        )
    }
    | {
        name.decode(): _asking(b"Host: path.test", name + b": /secret/x", target=b"http://path.test/")
        for name in (
            *(b"X-Original-URL", b"x-rewrite-url", b"X-Original-URI", b"X-Forwarded-Uri", b"X-Override-URL"),
            *(b"X_ORIGINAL_URL", b"x.rewrite.url", b"x-invoke-path", b"X-Matched-Path", b"X-WSGIProxy-PATH-INFO"),
        )
    }
    | {
        name.decode(): _asking(b"Host: path.test", name + b": /x", target=b"http://path.test/x/secret/")
        for name in (
            *(b"SCRIPT_NAME", b"X-Script-Name", b"x-forwarded-prefix", b"X-Forwarded-Path", b"X-Traversal-Path"),
            *(b"X_WSGIProxy_SCRIPT_NAME", b"x.traversal.path"),
        )
    }
    | {
        "X-Original-URL of a URL": _asking(
            b"Host: path.test", b"X-Original-URL: http://path.test/secret/x", target=b"http://path.test/"
        ),
    }
    | {
        f"{method.decode()} by {name.decode()} {value.decode()}": method
        + b" http://path.test/open HTTP/1.1\r\nHost: path.test\r\n%b: %b" % (name, value)
        + _END
        for method, name, value in (
            (b"MOVE", b"Destination", b"/%73ecret/x"),
            (b"COPY", b"destination", b"http://good.test/secret/x"),
            (b"PUT", b"X-Amz-Copy-Source", b"secret/x"),
            (b"PUT", b"x-oss-copy-source", b"/secret/x"),
            (b"PUT", b"X_Ms_Rename_Source", b"/secret/x"),
        )
    }
)

#: family -> what one sees -> what is sent; all of it asks for ads.test, or for /secret/ of path.test
REQUESTS: dict[str, dict[str, bytes]] = {
    "versions": {
        "HTTP/1.0": b"GET http://ads.test/ HTTP/1.0\r\n\r\n",
        "HTTP/1.0 by Host": b"GET / HTTP/1.0\r\nHost: ads.test\r\n\r\n",
        "HTTP/1.0 with another Host": b"GET http://ads.test/ HTTP/1.0\r\nHost: good.test\r\n\r\n",
        "HTTP/1.0 with a lying Host": b"GET http://good.test/ HTTP/1.0\r\nHost: ads.test\r\n\r\n",
        "HTTP/1.1 without Host": b"GET http://ads.test/ HTTP/1.1\r\nConnection: close\r\n\r\n",
        "HTTP/0.9": b"GET http://ads.test/\r\n\r\n",
        "HTTP/0.9 with one line end": b"GET http://ads.test/\r\n",
        "HTTP/0.9 by Host": b"GET /\r\nHost: ads.test\r\n\r\n",
        "HTTP/1.2": b"GET http://ads.test/ HTTP/1.2\r\nHost: ads.test" + _END,
        "HTTP/1.10": b"GET http://ads.test/ HTTP/1.10\r\nHost: ads.test" + _END,
        "HTTP/01.1": b"GET http://ads.test/ HTTP/01.1\r\nHost: ads.test" + _END,
        "HTTP/2.0": b"GET http://ads.test/ HTTP/2.0\r\nHost: good.test\r\n\r\n",
        "HTTP/3.0 with a lying Host": b"GET http://good.test/ HTTP/3.0\r\nHost: ads.test\r\n\r\n",
        "HTTP/9.9": b"GET http://ads.test/ HTTP/9.9\r\n\r\n",
        "lower case": b"GET http://ads.test/ http/1.1\r\n\r\n",
        "no version": b"GET http://ads.test/ \r\nHost: ads.test\r\n\r\n",
        "two versions": b"GET http://ads.test/ HTTP/1.1 HTTP/1.1\r\nHost: ads.test" + _END,
        "HTTP/2's preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        "HTTP/2's preface with a Host": b"PRI * HTTP/2.0\r\nHost: ads.test\r\n\r\nSM\r\n\r\n",
    },
    "request lines": {
        "scheme in capitals": _asking(b"Host: good.test", target=b"HTTP://ads.test/"),
        "one slash": _asking(b"Host: ads.test", target=b"http:/ads.test/"),
        "no slash": _asking(b"Host: ads.test", target=b"http:ads.test/"),
        "three slashes": _asking(b"Host: ads.test", target=b"http:///ads.test/"),
        "backslashes": _asking(b"Host: good.test", target=b"http:\\\\ads.test\\"),
        "no scheme": _asking(b"Host: ads.test", target=b"//ads.test/"),
        "no path": _asking(b"Host: good.test", target=b"http://ads.test"),
        "a query and no path": _asking(b"Host: good.test", target=b"http://ads.test?x"),
        "https": _asking(b"Host: ads.test", target=b"https://ads.test/"),
        "https on port 8443": _asking(b"Host: ads.test", target=b"https://ads.test:8443/"),
        "http on port 443": _asking(b"Host: ads.test", target=b"http://ads.test:443/"),
        "ftp": _asking(b"Host: ads.test", target=b"ftp://ads.test/"),
        "ws": _asking(b"Host: ads.test", target=b"ws://ads.test/"),
        "gopher on port 80": _asking(b"Host: ads.test", target=b"gopher://ads.test:80/"),
        "view-source": _asking(b"Host: ads.test", target=b"view-source:http://ads.test/"),
        "an absolute URL in the path": _asking(
            b"Host: good.test", target=b"http://path.test/http://x/../../../secret/"
        ),
        "bare lines": b"GET http://ads.test/ HTTP/1.1\nHost: good.test\n\n",
        "bare carriage returns": b"GET http://ads.test/ HTTP/1.1\rHost: good.test\r\r",
        "other white space": b"GET\x0bhttp://ads.test/\x0cHTTP/1.1\r\nHost: good.test\r\n\r\n",
        "tabs": b"GET\thttp://ads.test/\tHTTP/1.1\r\nHost: ads.test" + _END,
        "many spaces": b"GET   http://ads.test/   HTTP/1.1\r\nHost: ads.test" + _END,
        "a space before it": b" GET http://ads.test/ HTTP/1.1\r\nHost: ads.test" + _END,
        "a line end before it": b"\r\n\r\nGET http://ads.test/ HTTP/1.1\r\nHost: ads.test" + _END,
        "a bare line end before it": b"\n\nGET http://ads.test/ HTTP/1.1\r\nHost: ads.test" + _END,
        "a byte order mark before it": b"\xef\xbb\xbfGET http://ads.test/ HTTP/1.1\r\nHost: ads.test" + _END,
        "a NUL in it": b"GET http://ads.test/\x00 HTTP/1.1\r\nHost: ads.test" + _END,
        "*": b"GET * HTTP/1.1\r\nHost: ads.test" + _END,
    },
    "another Host than the target's": {
        "the target": _asking(b"Host: good.test", target=b"http://ads.test/"),
        "Host": _asking(b"Host: ads.test"),
        "Host with its port": _asking(b"Host: ads.test:80"),
        "Host with another port": _asking(b"Host: ads.test:8080"),
        "Host of a blocked path": _asking(b"Host: path.test", target=b"http://good.test/secret/x"),
        "the target of a blocked path": _asking(b"Host: good.test", target=b"http://path.test/secret/x"),
        "an address as the target": _asking(b"Host: good.test", target=b"http://10.20.30.40/"),
        "an address as Host": _asking(b"Host: 10.20.30.40"),
        "a harmless address as the target": _asking(b"Host: ads.test", target=b"http://11.20.30.40/"),
        "Host of a hashed URI": _asking(b"Host: hashed.test", target=b"http://good.test/page"),
        "an empty Host": _asking(b"Host:", target=b"http://ads.test/"),
        "an empty Host and a blocked one": _asking(b"Host:", b"Host: ads.test"),
        "Host of dots": _asking(b"Host: .", target=b"http://ads.test/"),
    },
    "Host headers": {
        "two, the last": _asking(b"Host: good.test", b"Host: ads.test"),
        "two, the first": _asking(b"Host: ads.test", b"Host: good.test"),
        "two that are alike": _asking(b"Host: ads.test", b"host: ads.test", target=b"http://ads.test/"),
        "two, with a tunnel's target": _asking(b"Host: good.test", b"Host: ads.test", target=b"/"),
        "three": _asking(b"Host: good.test", b"Host: x.test", b"Host: ads.test"),
        "nine": _asking(*(b"Host: h%d.test" % number for number in range(9)), b"Host: ads.test"),
        "a thousand": _asking(*[b"Host: good.test"] * 1000, b"Host: ads.test"),
        "behind a flood of headers": _asking(*[b"A: b"] * 20000, b"Host: ads.test"),
        "odd case": _asking(b"hOsT: ads.test"),
        "odd cases of two": _asking(b"hOsT: ads.test", b"HoSt: good.test"),
        "no space": _asking(b"Host:ads.test"),
        "tabs around the value": _asking(b"Host:\t\tads.test\t"),
        "a space behind the name": _asking(b"Host : ads.test"),
        "a tab behind the name": _asking(b"Host\t: ads.test"),
        "a space before the name": _asking(b"X: y", b" Host: ads.test"),
        "a space before the first name": _asking(b" Host: ads.test"),
        "a NUL behind the name": _asking(b"Host\x00: ads.test"),
        "a NUL in the value": _asking(b"Host: good.test\x00ads.test"),
        "folded": _asking(b"Host:", b" ads.test"),
        "folded by a tab": _asking(b"Host:", b"\tads.test"),
        "folded twice": _asking(b"Host:", b" ", b" ads.test"),
        "folded behind another": _asking(b"Host: good.test", b"\tads.test"),
        "folded in the middle": _asking(b"Host: ads.", b" test"),
        "behind a bare carriage return": _asking(b"Host: good.test", b"X: y\rHost: ads.test"),
        "behind a bare line feed": _asking(b"Host: good.test", b"X: y\nHost: ads.test"),
        "without a colon": _asking(b"Host ads.test", target=b"http://ads.test/"),
        "with an equals sign": _asking(b"Host= ads.test", target=b"http://ads.test/"),
        "in quotes": _asking(b'Host: "ads.test"', target=b"http://ads.test/"),
        "a URL": _asking(b"Host: http://ads.test/"),
        "a path behind it": _asking(b"Host: ads.test/x"),
        "a user before it": _asking(b"Host: good.test@ads.test"),
        # a server removes what Connection names: whoever is behind it answers for the first of its hosts
        "removed by Connection": _asking(b"Host: good.test", b"Connection: keep-alive, Host"),
        "removed by a second Connection": _asking(b"Host: good.test", b"CONNECTION: a,\thost\t,b"),
        "removed with the length": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 2\r\n"
        b"Connection: Content-Length\r\n\r\nab",
    },
    "methods": {
        method.decode(): method + b" http://ads.test/ HTTP/1.1\r\nHost: ads.test\r\nContent-Length: 0" + _END
        for method in (
            *(b"HEAD", b"POST", b"PUT", b"DELETE", b"PATCH", b"TRACE", b"TRACK", b"PROPFIND", b"SEARCH", b"QUERY"),
            *(b"M-SEARCH", b"PURGE", b"LINK", b"FOO", b"get", b"Get", b"gET", b"post", b"G", b"GET!#$%&'*+-.^_`|~"),
        )
    }
    | {
        "HEAD of a path": b"HEAD http://path.test/secret/ HTTP/1.1\r\nHost: path.test" + _END,
        "lower case for a path": b"get http://path.test/secret/ HTTP/1.1\r\nHost: path.test" + _END,
        "POST to a path": b"POST http://path.test/secret/ HTTP/1.1\r\nHost: path.test\r\nContent-Length: 1\r\n\r\na",
        "OPTIONS": b"OPTIONS http://ads.test/ HTTP/1.1\r\nHost: ads.test" + _END,
        "OPTIONS *": b"OPTIONS * HTTP/1.1\r\nHost: ads.test" + _END,
        "OPTIONS http://ads.test": b"OPTIONS http://ads.test HTTP/1.1\r\nHost: ads.test" + _END,
        "a long method": b"G" * 65536 + b" http://ads.test/ HTTP/1.1\r\nHost: good.test" + _END,
        "no method token": b"<> http://ads.test/ HTTP/1.1\r\nHost: good.test" + _END,
        "an empty method": b" http://ads.test/ HTTP/1.1\r\nHost: good.test" + _END,
        "override": b"POST http://ads.test/ HTTP/1.1\r\nHost: ads.test\r\nX-HTTP-Method-Override: GET\r\n"
        b"Content-Length: 0" + _END,
    },
    "upgrades": {
        "websocket": b"GET http://ads.test/ HTTP/1.1\r\nHost: ads.test\r\n" + _WEBSOCKET,
        "websocket in capitals": b"GET http://ads.test/ HTTP/1.1\r\nHost: ads.test\r\n"
        + _WEBSOCKET.replace(b"Upgrade: websocket", b"UPGRADE: WebSocket"),
        "websocket to a path": b"GET http://path.test/secret/ws HTTP/1.1\r\nHost: path.test\r\n" + _WEBSOCKET,
        "websocket by Host": b"GET http://good.test/ HTTP/1.1\r\nHost: ads.test\r\n" + _WEBSOCKET,
        "websocket, origin form": b"GET / HTTP/1.1\r\nHost: ads.test\r\n" + _WEBSOCKET,
        "h2c": b"GET http://ads.test/ HTTP/1.1\r\nHost: ads.test\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        "h2c to a path": b"GET http://path.test/secret/ HTTP/1.1\r\nHost: path.test\r\n"
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        "TLS/1.0": b"OPTIONS * HTTP/1.1\r\nHost: ads.test\r\nUpgrade: TLS/1.0\r\nConnection: Upgrade\r\n\r\n",
        "connect-udp": b"GET http://ads.test/ HTTP/1.1\r\nHost: ads.test\r\nConnection: Upgrade\r\n"
        b"Upgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\r\n",
    },
    "requests in requests": {
        "Content-Length and Transfer-Encoding": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
        b"Content-Length: " + _LENGTH + b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _SECRET,
        "Transfer-Encoding and Content-Length": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n%x\r\n" % len(_INNER) + _INNER + b"\r\n0\r\n\r\n",
        "two Content-Lengths": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
        b"Content-Length: 0\r\nContent-Length: " + _LENGTH + b"\r\n\r\n" + _SECRET,
        "two Content-Lengths in a line": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
        b"Content-Length: 0, " + _LENGTH + b"\r\n\r\n" + _SECRET,
        "two Transfer-Encodings": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + _SECRET,
        "an odd Transfer-Encoding": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + _SECRET,
        "a Transfer-Encoding in quotes": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
        b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n' + _SECRET,
        "a folded Transfer-Encoding": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
        b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + _SECRET,
        "a space behind Transfer-Encoding": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
        b"Transfer-Encoding : chunked\r\nContent-Length: " + _LENGTH + b"\r\n\r\n0\r\n\r\n" + _SECRET,
        "Transfer-Encoding in HTTP/1.0": b"POST http://good.test/ HTTP/1.0\r\nHost: good.test\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _SECRET,
        "a signed Content-Length": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: +0\r\n\r\n"
        + _SECRET,
        "a hexadecimal Content-Length": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
        b"Content-Length: 0x0\r\n\r\n" + _SECRET,
        "a negative Content-Length": b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
        b"Content-Length: -1\r\n\r\n" + _SECRET,
        "a chunk's size with a line end": b"POST http://ads.test/ HTTP/1.1\r\nHost: ads.test\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n2;\nxx\r\nab\r\n0\r\n\r\n" + _SECRET,
        "in the target": b"GET http://good.test/ HTTP/1.1\rHost: good.test\r\r" + _SECRET,
    },
}

_GOOD = b"GET http://good.test/%d HTTP/1.1\r\nHost: good.test\r\n\r\n"
_WITHOUT = b"%b http://good.test/1 HTTP/1.1\r\nHost: good.test\r\n"
_POST = b"POST http://good.test/1 HTTP/1.1\r\nHost: good.test\r\n"

#: what one sees -> what is sent, and the targets of what is harmless in it, which arrive
PIPELINES: dict[str, tuple[bytes, tuple[bytes, ...]]] = {
    "between two others": (_GOOD % 1 + _SECRET + _GOOD % 2, (b"/1", b"/2")),
    "behind another, by Host": (_GOOD % 1 + b"GET / HTTP/1.1\r\nHost: ads.test\r\n\r\n", (b"/1",)),
    "behind another and a line end": (_GOOD % 1 + b"\r\n" + _SECRET, (b"/1",)),
    "behind a blocked one": (_SECRET + _GOOD % 1 + _SECRET, (b"/1",)),
    "behind a body": (_POST + b"Content-Length: 2\r\n\r\nab" + _SECRET, (b"/1",)),
    "behind chunks": (_POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n" + _SECRET, (b"/1",)),
    "behind chunks with extensions": (
        _POST + b'Transfer-Encoding: chunked\r\n\r\n2;x=y;z="a"\r\nab\r\n0;x\r\n\r\n' + _SECRET,
        (b"/1",),
    ),
    "behind chunks with a trailer": (
        _POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nHost: ads.test\r\n\r\n" + _SECRET,
        (b"/1",),
    ),
    "behind chunks by another white space": (
        _POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n2\r\nab\r\n0\r\n\r\n" + _SECRET,
        (b"/1",),
    ),
    "inside a body": (_POST + b"Content-Length: " + _LENGTH + b"\r\n\r\n" + _SECRET, (b"/1",)),
    "inside a chunk": (
        _POST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(_SECRET), _SECRET),
        (b"/1",),
    ),
    # an origin may read no body of these, and takes it for the next request
    **{
        f"inside a {method.decode()}'s body": (
            _WITHOUT % method + b"Content-Length: " + _LENGTH + b"\r\n\r\n" + _SECRET,
            (),
        )
        for method in (b"GET", b"HEAD", b"TRACE", b"get")
    },
    "inside a GET's chunk": (
        _WITHOUT % b"GET" + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(_SECRET), _SECRET),
        (),
    ),
    # what is in the body of a GET that passes can be no request, not even in an old version
    "behind a GET's body": (_WITHOUT % b"GET" + b"Content-Length: 7\r\n\r\n" + b'{"a":1}' + _SECRET, (b"/1",)),
    "behind a GET's chunks": (
        _WITHOUT % b"GET" + b'Transfer-Encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n0\r\n\r\n' + _SECRET,
        (b"/1",),
    ),
    "behind a GET without chunks": (
        _WITHOUT % b"GET" + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _SECRET,
        (b"/1",),
    ),
    **{
        f"inside a GET's body, {how}": (
            _WITHOUT % b"GET" + b"Content-Length: %d\r\n\r\n%b" % (len(body), body) + _GOOD % 2,
            (b"/2",),
        )
        for how, body in {
            "behind JSON": b'{"a":1}\r\n' + _SECRET,
            "behind JSON and a bare line end": b'{"a":1}\n' + _INNER,
            "inside JSON": b'{"a":[\r\n' + _INNER + b"]}",
            "of version 0.9": b"{}\r\nGET http://path.test/secret/x\r\n",
            "without its line end": b"GET http://path.test/secret/x HTTP/1.1",
            "with another white space": b"{}\r\n\x0bGET\x0chttp://path.test/secret/x\tHTTP/1.1\r\n\r\n",
            "with an odd method": b"{} /secret/x HTTP/1.1\r\nHost: path.test\r\n\r\n",
        }.items()
    },
    **{
        f"inside a GET's chunks, {how}": (
            _WITHOUT % b"GET"
            + b"Transfer-Encoding: chunked\r\n\r\n"
            + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
            + b"0\r\n\r\n"
            + _GOOD % 2,
            (b"/2",),
        )
        for how, pieces in {
            "in pieces": (b"{}\r", b"\nGE", b"T", _INNER[3:]),
            "an octet each": [_INNER[at : at + 1] for at in range(len(_INNER))],
        }.items()
    },
    # mitmproxy takes the first for HTTP/2, whose bodies end by frames
    **{
        f"inside a body of {version.decode()} in HTTP/1.1": (
            _GOOD % 1
            + b"POST http://good.test/2 "
            + version
            + b"\r\nHost: good.test\r\n"
            + b"Content-Length: "
            + _LENGTH
            + b"\r\n\r\n"
            + _SECRET,
            (b"/1",),
        )
        for version in (b"HTTP/2.0", b"HTTP/3.0", b"HTTP/0.9", b"HTTP/1.2", b"HTTP/9.9")
    },
    "behind a length that only CGI reads": (
        b"GET http://good.test/1 HTTP/1.1\r\nHost: good.test\r\nContent_Length: " + _LENGTH + b"\r\n\r\n" + _SECRET,
        (),
    ),
    "behind Expect": (_POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nab" + _SECRET, (b"/1",)),
    "in a tunnel to another host": (
        b"CONNECT good.test:80 HTTP/1.1\r\n\r\nGET /1 HTTP/1.1\r\nHost: good.test\r\n\r\n"
        b"GET /2 HTTP/1.1\r\nHost: ads.test\r\n\r\nGET http://ads.test/3 HTTP/1.1\r\nHost: good.test\r\n\r\n",
        (b"/1",),
    ),
    "behind an upgrade that the origin does not make": (
        b"GET http://good.test/1 HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n" + _SECRET,
        (b"/1",),
    ),
    "behind an upgrade with a body": (
        b"POST http://good.test/1 HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade\r\nUpgrade: foo\r\n"
        b"Content-Length: " + _LENGTH + b"\r\n\r\n" + _SECRET,
        (b"/1",),
    ),
    "behind an upgrade to h2c": (
        b"GET http://good.test/1 HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + _SECRET,
        (b"/1",),
    ),
}

#: where a page redirects to
_LOCATIONS = {
    "ads.test": [
        *(
            "http://ads.test/",
            "http://ADS.TEST./",
            "https://ads.test/",
            "//ads.test/",
            "http:\\\\ads.test",
            "http://ads%2etest/",
        ),
        *("http://x@ads.test/", "http://ads.test:8080/", "http://ads\u3002test/", "http://ads.test#x"),
    ],
    "path.test/secret/": [
        "http://path.test/secret/",
        "http://path.test//secret/x",
        "http://path.test/a/%2e%2e/secret/",
    ],
    "10.0.0.0/8": ["http://10.1/", "http://0xa.1/", "http://[::ffff:10.1.2.3]/"],
}


def entries() -> Iterator[Entry]:
    """All of them; redirects are followed by a client that goes wherever it is sent."""
    for family, requests in REQUESTS.items():
        for spelling, payload in requests.items():
            blocked = "path.test/secret/" if b"/secret/" in payload else "ads.test"
            blocked = "http://hashed.test/page" if b"hashed.test" in payload else blocked
            yield Entry(family, blocked, spelling, payload)
    for spelling, payload in BELIEVED.items():
        blocked = "path.test/secret/" if b"path.test" in payload else "ads.test"
        target = payload.split(b" ")[1].partition(b".test")[2]
        yield Entry("headers that servers believe", blocked, spelling, payload, arrives=(target,))
    for spelling, (payload, arrives) in PIPELINES.items():
        yield Entry("requests in requests", "path.test/secret/", spelling, payload, arrives=arrives)
    for blocked, locations in _LOCATIONS.items():
        for location in locations:
            away = b"/away?" + quote(location, safe="").encode()
            head = request_head(b"http://good.test" + away, b"good.test")
            yield Entry("redirects", blocked, location, head, arrives=(away,), follows=True)
