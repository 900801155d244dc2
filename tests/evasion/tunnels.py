"""Tunnels: CONNECT in all its forms, TLS in them for other names, and what is no HTTP, or does not look like it."""

from __future__ import annotations

from collections.abc import Iterator

from e2e.proxy import request_head
from evasion.entries import Entry

_REQUEST = request_head(b"/", b"good.test")

#: what one sees -> what is sent
CONNECT: dict[str, bytes] = {
    "and at once a request": b"CONNECT ads.test:80 HTTP/1.1\r\n\r\n" + _REQUEST,
    "to port 8080": b"CONNECT ads.test:8080 HTTP/1.1\r\n\r\n" + _REQUEST,
    "to port 5353": b"CONNECT ads.test:5353 HTTP/1.1\r\n\r\n" + _REQUEST,
    "to port 443 and no TLS": b"CONNECT ads.test:443 HTTP/1.1\r\n\r\n" + _REQUEST,
    "to an address": b"CONNECT 10.1:80 HTTP/1.1\r\n\r\n" + _REQUEST,
    "with another Host": b"CONNECT ads.test:80 HTTP/1.1\r\nHost: good.test:80\r\n\r\n" + _REQUEST,
    "of a harmless host with another Host": b"CONNECT good.test:80 HTTP/1.1\r\nHost: ads.test:80\r\n\r\n"
    + request_head(b"/", b"ads.test"),
    "lower case": b"connect ads.test:80 HTTP/1.1\r\n\r\n" + _REQUEST,
    "HTTP/1.0": b"CONNECT ads.test:80 HTTP/1.0\r\n\r\n" + _REQUEST,
    "by a URL": b"CONNECT http://ads.test/ HTTP/1.1\r\n\r\n" + _REQUEST,
    "without a port": b"CONNECT ads.test HTTP/1.1\r\n\r\n" + _REQUEST,
    "inside CONNECT": b"CONNECT good.test:80 HTTP/1.1\r\n\r\nCONNECT ads.test:80 HTTP/1.1\r\n\r\n" + _REQUEST,
    "HTTP/2's preface in it": b"CONNECT ads.test:80 HTTP/1.1\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
}

#: what stands before a request in a tunnel, for which mitmproxy may take it for another protocol
_BEFORE = [
    b"\r\n",
    b"\n",
    b"\r\n\r\n\r\n",
    b" ",
    b"\t",
    b"G\r\n",
    b"\x00",
    b"\xef\xbb\xbf",
    b"\x16\x03",
    b"SSH-2.0-x\r\n",
]
#: what is no HTTP at all
_OTHER = [b"SSH-2.0-OpenSSH_9\r\n", b"\x05\x01\x00", b"EHLO x\r\n", b"\x16\x03\x01\x00\x00"]
#: a question for ads.test, as it is asked over TCP
_QUESTION = bytes.fromhex("0001 0100 0001 0000 0000 0000") + b"\x03ads\x04test\x00" + bytes.fromhex("0010 0001")
_DNS = len(_QUESTION).to_bytes(2, "big") + _QUESTION


def entries() -> Iterator[Entry]:
    """All of them."""
    for spelling, payload in CONNECT.items():
        yield Entry("CONNECT", "ads.test", spelling, payload)
    for before in _BEFORE:
        for host, path in (("ads.test", b"/"), ("path.test", b"/secret/x")):
            blocked = "ads.test" if host == "ads.test" else "path.test/secret/"
            request = before + request_head(path, host.encode())
            yield Entry("octets before a request", blocked, repr(before), request, (host, 80))
    for other in _OTHER:
        yield Entry("no HTTP", "ads.test", repr(other), other + b"\r\n" * 8, ("ads.test", 80))
        yield Entry("no HTTP", "10.0.0.0/8", repr(other), other + b"\r\n" * 8, ("10.1", 80))
    for host in ("ads.test", "10.1", "good.test"):
        yield Entry("no HTTP", "ads.test", f"DNS in a tunnel to {host}", _DNS, (host, 5353))
    yield from _over_tls()


def _over_tls() -> Iterator[Entry]:
    """TLS in a tunnel: the tunnel's host, the server name and Host each say who is asked."""
    family = "TLS in a tunnel"
    good, ads = request_head(b"/", b"good.test"), request_head(b"/", b"ads.test")
    for port in (80, 443, 8080, 8443):
        yield Entry(family, "ads.test", f"the tunnel to port {port}", good, ("ads.test", port), "good.test")
    for blocked, host in (
        ("10.0.0.0/8", "10.1"),
        ("10.0.0.0/8", "[::ffff:10.1.2.3]"),
        ("prefix.test", "x.prefix.test"),
    ):
        yield Entry(family, blocked, f"the tunnel to {host}", good, (host, 443), "good.test")
    for name in ("ads.test", "ADS.test", "x.ads.test"):
        yield Entry(family, "ads.test", f"the server name {name}", good, ("good.test", 443), name)
    yield Entry(family, "bücher.test", "the server name", good, ("good.test", 443), "xn--bcher-kva.test")
    for name in ("", "good.test", "xn--x-pib.test"):
        spelling = f"the tunnel, with the server name {name}"
        yield Entry(family, "xn--x-pib.test", spelling, good, ("xn--x-pib.test", 443), name)
    yield Entry(family, "ads.test", "Host", ads, ("good.test", 443), "good.test")
    yield Entry(family, "ads.test", "Host and server name", ads, ("good.test", 443), "ads.test")
    yield Entry(family, "ads.test", "everything", ads, ("ads.test", 443), "ads.test")
    absolute = request_head(b"https://ads.test/", b"good.test")
    yield Entry(family, "ads.test", "an absolute target", absolute, ("good.test", 443), "good.test")
    secret = request_head(b"/%73ecret/x", b"path.test")
    yield Entry(family, "path.test/secret/", "a path", secret, ("path.test", 443), "path.test")
    yield Entry(family, "path.test/secret/", "a path, by server name", secret, ("good.test", 443), "path.test")
    yield Entry(
        family, "path.test/secret/", "a path, in a tunnel to an address", secret, ("11.1.1.1", 443), "path.test"
    )
    for before in _BEFORE[:4]:
        spelling = f"{before!r} before the request"
        yield Entry(family, "ads.test", spelling, before + ads, ("ads.test", 443), "ads.test")
    for other in _OTHER[:3]:
        yield Entry(family, "ads.test", f"no HTTP: {other!r}", other + b"\r\n" * 8, ("ads.test", 443), "ads.test")
