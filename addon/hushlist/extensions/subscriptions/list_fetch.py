"""Fetches one list over HTTPS into a file: bounded in size and in time, and never over a weaker connection.

    URL -> certificate verified -> redirects followed, never to http -> unpacked -> the file, whole

Whatever goes wrong is a ``FetchError``, which says why. The environment's proxies are used (``https_proxy``,
``no_proxy``), but for the filter itself: its lists may not depend on what they decide.
"""

from __future__ import annotations

import io
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import IPv4Address, IPv6Address, ip_address
from threading import Event, Thread
from typing import IO, BinaryIO, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
    getproxies,
)

from hushlist import __version__
from hushlist.core.errors import FetchError, without_user
from hushlist.core.system.compression import decompressed, fault_of
from hushlist.core.url.host import EMBEDDING, is_of_internet, tunnelled_ipv4

#: seconds that a server may say nothing; seconds that one fetch may take, whatever it says
SILENCE, LONGEST_FETCH = 30.0, 600.0
_MOST_REDIRECTS = 5
#: octets of a header that is kept
_LONGEST_HEADER = 1024
#: seconds; who asks for more patience is asked again after these
_MOST_PATIENCE = 7 * 86400.0
_STEP = 1 << 16

#: octets so far, and how many there will be; 0: nobody knows
Show = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a server says of a list; the octets are in the file."""

    #: whether nothing has changed: then there are no octets
    is_same: bool
    etag: str = ""
    last_modified: str = ""


def fetch(
    url: str,
    file: BinaryIO,
    *,
    longest: int,
    etag: str = "",
    last_modified: str = "",
    own_ports: Iterable[int] = (),
    show: Show = lambda done, total: None,
    deadline: float = LONGEST_FETCH,
    message: bytes | None = None,
    is_redirected: bool = True,
) -> Fetched:
    """Write what a URL has into a file, at most ``longest`` octets, unpacked; nothing if it is what the validators say.

    ``own_ports`` are those of this machine on which the filter itself listens. A ``message`` of protobuf is posted.
    Without ``is_redirected``, a redirect is an error that does not say where it leads.

    Raises:
        FetchError: it cannot be fetched, or not whole.
        OSError: the file cannot be written.
    """
    validators = {"If-None-Match": etag, "If-Modified-Since": last_modified}
    conditions = {name: text for name, text in validators.items() if text}
    headers = {**conditions, "User-Agent": f"hushlist/{__version__}", "Accept-Encoding": "gzip, zstd"}
    headers |= {} if message is None else {"Content-Type": "application/x-protobuf"}
    request = Request(url, message, headers)  # noqa: S310  the opener knows no other scheme
    proxies = {scheme: proxy for scheme, proxy in getproxies().items() if not _is_own(proxy, own_ports)}
    proxy = proxies.get(urlsplit(url).scheme)
    with _Watched(deadline) as watched:
        opener = _opener(url, watched, proxies, is_redirected=is_redirected)
        try:
            with _faults_told(proxy):
                response = opener.open(request, timeout=SILENCE)
            with response:
                if response.status == 304 and conditions:
                    return Fetched(is_same=True)
                for octets in _body(response, longest, show, proxy):
                    file.write(octets)  # its faults are none of the connection
                kept = (str(response.headers.get(name, "")) for name in ("ETag", "Last-Modified"))
                return Fetched(False, *(text if _may_be_sent(text) else "" for text in kept))
        except FetchError as error:
            if watched.is_late:
                raise FetchError(f"it was not done after {deadline:g} seconds") from error
            raise


def _may_be_sent(header: str) -> bool:
    """Whether a server's header can go into a later request, with no folded line and no control character."""
    return len(header) <= _LONGEST_HEADER and header.isascii() and header.isprintable()


# -- connections -------------------------------------------------------------------------------------------------------


class _Watched:
    """The connections of one fetch; a thread ends them all when its time is over, whatever they wait for."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._connections: list[HTTPConnection] = []
        self._sockets: list[socket.socket] = []
        self._is_over = Event()
        self.is_late = False
        #: the address to which the first connection led, but to a proxy
        self.first = ""

    def __enter__(self) -> _Watched:
        Thread(target=self._watch, name="hushlist: deadline", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()

    def connect(self, connection: HTTPConnection, connect: Callable[[], None], *, is_by_proxy: bool) -> None:
        self._connections.append(connection)
        connect()
        self._sockets.append(connection.sock)  # urllib takes it from the connection
        if not is_by_proxy:
            self.first = self.first or str(connection.sock.getpeername()[0])

    def _watch(self) -> None:
        pause = self._deadline
        while not self._is_over.wait(pause):
            self.is_late, pause = True, 0.2
            for sock in (*self._sockets, *(connection.sock for connection in self._connections)):
                with suppress(OSError, TypeError):  # TypeError: it has no socket now
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _opener(url: str, watched: _Watched, proxies: dict[str, str], *, is_redirected: bool) -> OpenerDirector:
    """What follows redirects, and uses proxies; each connection is watched.

    Redirects lead to no private address but that of the URL's own host: not to what its name stands for a moment later.
    """
    named = urlsplit(url).hostname

    def connect(kind: type[HTTPConnection], host: str, *, of: Request, **options: object) -> HTTPConnection:
        connection = kind(host, **options)  # type: ignore[arg-type]  # those of urllib
        is_by_proxy = of.has_proxy() or getattr(of, "_tunnel_host", None) is not None
        if not is_by_proxy and of.full_url != url:
            allowed = watched.first if urlsplit(of.full_url).hostname == named else ""
            connection._create_connection = partial(_connect_outside, allowed)  # type: ignore[attr-defined]
        connect = partial(watched.connect, connection, connection.connect, is_by_proxy=is_by_proxy)
        connection.connect = connect  # type: ignore[method-assign]
        return connection

    class Plain(HTTPHandler):
        def http_open(self, req: Request) -> HTTPResponse:
            return self.do_open(cast(type[HTTPConnection], partial(connect, HTTPConnection, of=req)), req)

    class Secure(HTTPSHandler):
        def https_open(self, req: Request) -> HTTPResponse:
            kind = cast(type[HTTPConnection], partial(connect, HTTPSConnection, of=req))
            return self.do_open(kind, req, context=_context(*_authorities(), int(time.time() // _CONTEXT_LASTS)))

    opener = OpenerDirector()
    for handler in (
        ProxyHandler(proxies),
        UnknownHandler(),
        HTTPDefaultErrorHandler(),
        _Statuses(),
        _Redirects(is_redirected),
        Plain(),
        Secure(),
    ):
        opener.add_handler(handler)
    return opener


#: seconds after which certificate authorities are read again: that takes longer than a question
_CONTEXT_LASTS = 3600.0


def _authorities() -> tuple[str | None, ...]:
    """Where the environment says that certificate authorities are."""
    return tuple(map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))


@lru_cache(maxsize=2)
def _context(*_: object) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _connect_outside(allowed: str, address: tuple[str, int], timeout: float, _: object = None) -> socket.socket:
    """Connect to no private address but the allowed one: nobody may ask there by a redirect of theirs.

    Names are resolved once.
    """
    places = [place[:2] for *_, place in socket.getaddrinfo(*address, type=socket.SOCK_STREAM)]
    places = [place for place in places if place[0] == allowed] or places
    for host, _ in places:
        if host != allowed and not _is_outside(str(host)):
            raise FetchError(f"it redirects to the address {host}, which is not one of the internet")
    fault = OSError("its name has no address")
    for place in places:
        try:
            return socket.create_connection(cast(tuple[str, int], place), timeout)
        except OSError as error:
            fault = error
    raise fault


def _is_outside(text: str) -> bool:
    """Whether an address, as the system's resolver gives it, is one host of the internet.

    >>> [_is_outside(text) for text in ("192.52.193.7", "2606:4700::1", "10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::")]
    [True, True, False, False, False]
    """
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address) and any(address in network for network in EMBEDDING):
        address = IPv4Address(int(address) & 0xFFFFFFFF)
    if tunnelled_ipv4(b"[%s]" % str(address).encode()):  # an IPv4 address is none
        return False
    return is_of_internet(address)


class _Statuses(HTTPErrorProcessor):
    """Hands on every status but a redirect."""

    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:
        is_redirect = response.status in (301, 302, 303, 307, 308)
        return cast(HTTPResponse, super().http_response(request, response)) if is_redirect else response

    https_response = http_response


class _Redirects(HTTPRedirectHandler):
    """Follows some redirects, never from https to anything else."""

    max_redirections = _MOST_REDIRECTS

    def __init__(self, is_redirected: bool) -> None:
        self._is_redirected = is_redirected

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        fp.close()  # or all of its body would be read, and kept, before the next address is asked
        if not self._is_redirected:
            raise FetchError("it redirects, and a server that is asked by a protocol may not", is_refusal=True)
        scheme, before = urlsplit(newurl).scheme.lower(), urlsplit(req.full_url).scheme.lower()
        if scheme != "https" and (scheme, before) != ("http", "http"):
            raise FetchError(f"it redirects to {without_user(newurl)[:200]!r}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _is_own(proxy: str, ports: Iterable[int]) -> bool:
    """Whether a proxy is at a port of this machine."""
    parts = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    try:
        if parts.port not in set(ports):
            return False
        addresses = socket.getaddrinfo(parts.hostname, 0, type=socket.SOCK_DGRAM)
        for family, kind, _, _, address in addresses:
            with socket.socket(family, kind) as probe:
                probe.bind(address)  # works for addresses of this machine
    except (OSError, ValueError):
        return False
    return True


# -- what comes --------------------------------------------------------------------------------------------------------


def _body(response: HTTPResponse, longest: int, show: Show, proxy: str | None) -> Iterator[bytes]:
    """The octets of a response, unpacked; ``FetchError`` unless they are whole."""
    with _faults_told(proxy):
        if response.status != 200:
            why = f"the server says {response.status} {response.reason}".rstrip()
            raise FetchError(why, _retry_after(response.headers), is_refusal=True)
        total, done = response.length, 0
        if total is None and not response.chunked:
            raise FetchError("the server does not say where its answer ends, so that half of it would look like all")
        packed = io.BufferedReader(cast(io.RawIOBase, response), _STEP)
        stream = decompressed(packed)
        while octets := stream.read(_STEP):
            done += len(octets)
            if done > longest:
                raise FetchError(f"it is longer than {longest:,} octets, the most that are read")
            show(done if total is None or stream is packed else min(total - (response.length or 0), total), total or 0)
            yield octets
        if response.length:
            raise FetchError(f"it was cut off: {response.length:,} octets are missing")
        if fault := fault_of(stream):
            raise FetchError(fault)


def _retry_after(headers: Message) -> float:
    """Seconds that a server asks to wait. Spec: RFC 9110, 10.2.3: "an HTTP-date or a number of seconds"."""
    text = str(headers.get("Retry-After", "")).strip()
    if text.isascii() and text.isdecimal():
        return float(min(int(text[:12]), _MOST_PATIENCE))
    try:
        return min(max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0), _MOST_PATIENCE)
    except (ValueError, OverflowError, TypeError):
        return 0.0


@contextmanager
def _faults_told(proxy: str | None) -> Iterator[None]:
    """Faults of the network as ``FetchError``; where a proxy was asked, they name it."""
    by = f" (by the proxy {without_user(proxy)!r} of the environment)" if proxy else ""
    try:
        yield
    except HTTPError as error:  # of a redirect
        error.close()
        raise FetchError(f"it redirects too often, in a circle, or nowhere{by}") from error
    except ssl.SSLCertVerificationError as error:
        raise FetchError(f"its certificate is not valid: {error.verify_message}{by}") from error
    except URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise FetchError(f"its certificate is not valid: {error.reason.verify_message}{by}") from error
        raise FetchError(f"{_fault_text(error.reason)}{by}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise FetchError(f"{_fault_text(error)}{by}") from error


def _fault_text(error: object) -> str:
    if isinstance(error, TimeoutError):
        return f"the server said nothing for {SILENCE:g} seconds"
    if isinstance(error, HTTPException):
        return f"the server's answer is broken or cut off: {type(error).__name__}: {error}".rstrip(": ")
    return f"no connection: {getattr(error, 'strerror', None) or error}"
