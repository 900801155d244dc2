"""Sends the corpus through a mitmdump, and has the origin's own log judge what arrived.

What a client is answered says nothing about what arrived; it is looked at only to tell who has stopped a request.
"""

from __future__ import annotations

import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from socket import IPPROTO_TCP, TCP_NODELAY, socket
from typing import TypeVar

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import httpx

from e2e.origin import Arrivals, Origin
from e2e.proxy import LOOPBACK, PATIENCE, Proxy, mitmdump, read_answer, request_head
from evasion.corpus import write_corpus_policy
from evasion.entries import BELIEVED, Entry, Fields

#: seconds without an octet after which a connection is given up: before the first one, and behind it
Silence = tuple[float, float]
SILENCE: Silence = (1.0, 0.15)
#: without a filter, something arrives at once or not at all, unless the machine is busy
SHORT: Silence = (0.2, 0.15)
#: what has to arrive gets the time that a busy machine takes
LONG: Silence = (PATIENCE, 0.5)
#: connections at a time
AT_ONCE = 8
#: seconds between the pieces of a ClientHello, so that each arrives by itself
PAUSE = 0.02
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a family."""

    leaked: tuple[Entry, ...]
    #: how many were answered in the origin's place; the rest of what did not leak, mitmproxy refused by itself
    answered: int


@contextmanager
def filtering(
    folder: Path,
    origin: Origin,
    *,
    mode: str = "block",
    options: Mapping[str, object] | None = None,
    settings: Mapping[str, object] | None = None,
) -> Iterator[Proxy]:
    """A mitmdump with the corpus's policy, which has these settings; in an empty folder."""
    home = folder / f"mitmdump-{mode}"
    home.mkdir(parents=True)
    policy = write_corpus_policy(home, **settings or {})
    with mitmdump(home, origin, policy=policy, mode=mode, options=options) as proxy:
        yield proxy


def sweep(proxy: Proxy, origin: Origin, entries: Sequence[Entry], silence: Silence = SILENCE) -> Result:
    """Send what must not arrive, and find what does.

    Many at a time: that only what is harmless arrives is seen of all of them together. Only where something else does,
    it is asked of each by itself which one it was.
    """
    silent, partly = ([entry for entry in entries if bool(entry.arrives) is some] for some in (False, True))
    arrivals, answers = _send_all(proxy, origin, silent, silence)
    harmless, more = _send_all(proxy, origin, partly, silence)
    answers += more
    with origin.watch() as late:
        proxy.send(request_head(b"http://good.test/fence", b"good.test"))
    is_quiet = not arrivals.connections and [request.target for request in late.requests] == [b"/fence"]
    one_by_one = [*([] if is_quiet else silent), *([] if _is_as_told(harmless, partly) else partly)]
    leaked = [entry for entry in one_by_one if leaks(entry, ask(proxy, origin, entry, silence)[0])]
    if not is_quiet and not leaked:
        leaked = silent  # something arrived, and comes from no one alone
    return Result(tuple(leaked), sum(b"HTTP/1.1 403" in answer or answer == b"403" for answer in answers))


def stopped(proxy: Proxy, origin: Origin, entries: Sequence[Entry]) -> list[Entry]:
    """The harmless entries of which not all arrives; they are sent as ``sweep`` does."""
    arrivals, _ = _send_all(proxy, origin, entries, LONG)
    return [] if _is_as_told(arrivals, entries) else [one for one in entries if not passes(proxy, origin, one)]


def _send_all(proxy: Proxy, origin: Origin, entries: Sequence[Entry], silence: Silence) -> tuple[Arrivals, list[bytes]]:
    """What arrives of entries that are sent many at a time, and what comes back."""
    with origin.watch() as arrivals, ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda entry: send(proxy, entry, silence), entries))
    return arrivals, answers


def _is_as_told(arrivals: Arrivals, entries: Sequence[Entry]) -> bool:
    """Whether exactly that arrived which has to."""
    due = Counter(target for entry in entries for target in entry.arrives)
    return Counter(request.target for request in arrivals.requests) == due and not _is_believed(arrivals)


def _is_believed(arrivals: Arrivals) -> bool:
    """Whether a request arrived with a field by which a server takes it for another."""
    return any(not BELIEVED.isdisjoint(request.headers) for request in arrivals.requests)


def ask(proxy: Proxy, origin: Origin, entry: Entry, silence: Silence = SILENCE) -> tuple[Arrivals, bytes]:
    """What arrives of an entry that is sent by itself, and what comes back."""
    with origin.watch() as arrivals:
        answer = send(proxy, entry, silence)
    return arrivals, answer


def leaks(entry: Entry, arrivals: Arrivals) -> bool:
    """Whether more arrived than what is harmless; of what is blocked, not even a connection may be made."""
    if not entry.arrives:
        return bool(arrivals.connections)
    return bool(Counter(request.target for request in arrivals.requests) - Counter(entry.arrives)) or _is_believed(
        arrivals
    )


def passes(proxy: Proxy, origin: Origin, entry: Entry) -> bool:
    """Whether all of a harmless entry arrives."""
    arrivals, _ = ask(proxy, origin, entry, LONG)
    return not Counter(entry.arrives) - Counter(request.target for request in arrivals.requests)


def arrives_unfiltered(proxy: Proxy, origin: Origin, same: Sequence[Entry], silence: Silence = SHORT) -> bool:
    """Whether a spelling reaches an origin in one of the ways to send it, through a proxy that does not filter.

    It does where the origin logs a request, or answers that it does not understand one. A connection alone does not
    count: without a filter, mitmproxy makes one before it knows of a request.
    """
    for entry in same:
        arrivals, answer = ask(proxy, origin, entry, silence)
        if len(arrivals.requests) > len(entry.arrives) or (not entry.arrives and b"server: hypercorn" in answer):
            return True
        if _is_believed(arrivals):
            return True
    return False


def relays(proxy: Proxy, name: str) -> bool:
    """Whether TLS to a name is not decrypted: the proxy has not made the certificate."""
    with proxy.tunnel(name, 443) as tunnel:
        try:
            proxy.tls().wrap_socket(tunnel, server_hostname=name).close()
        except ssl.SSLCertVerificationError:
            return True
        return False


def send(proxy: Proxy, entry: Entry, silence: Silence = SILENCE) -> bytes:
    """Send an entry as it is and give what comes back: octets, or, over HTTP/2, the status."""
    if entry.follows:
        return _follow(proxy, entry)
    with suppress(OSError), proxy.connect() as connection:
        if entry.tunnel is not None:
            refusal = _open_tunnel(connection, *entry.tunnel)
            if refusal:
                return refusal
        if not isinstance(entry.payload, bytes):
            with _secured(_tls("h2"), connection, entry) as secured:
                return _exchange_http2(secured, entry.payload, entry.body, silence)
        if entry.server_name is not None:
            context = _tls("http/1.1")
            if entry.hello is not None or entry.resumes is not None:
                session = None if entry.resumes is None else _session(proxy, context, entry, silence)
                connection.settimeout(silence[0])
                shaped = _ShapedTls(connection, context, entry.server_name, entry.hello, session)
                return _exchange(shaped, entry.payload, silence)
            with _secured(context, connection, entry) as secured:
                return _exchange(secured, entry.payload, silence)
        return _exchange(connection, entry.payload, silence)
    return b""


def _open_tunnel(connection: socket, host: str, port: int) -> bytes:
    """Nothing, or the answer that refuses a tunnel."""
    connection.sendall(b"CONNECT %s:%d HTTP/1.1\r\n\r\n" % (host.encode(), port))
    answer = read_answer(connection, "CONNECT")
    return b"" if answer.status == 200 else b"HTTP/1.1 %d" % answer.status


@cache
def _tls(protocol: str) -> ssl.SSLContext:
    """TLS for whatever name; the certificate is not looked at, since that name is often a lie."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


def _secured(context: ssl.SSLContext, connection: socket, entry: Entry) -> ssl.SSLSocket:
    host = entry.tunnel[0].strip("[]") if entry.tunnel else LOOPBACK
    name = host if entry.server_name is None else entry.server_name or None
    return context.wrap_socket(connection, server_hostname=name)


def _session(proxy: Proxy, context: ssl.SSLContext, entry: Entry, silence: Silence) -> ssl.SSLSession | None:
    """The session of a harmless request to the server of an entry's tunnel."""
    assert entry.resumes is not None
    with proxy.tunnel(entry.resumes, 443) as connection:
        first = _ShapedTls(connection, context, entry.resumes)
        _exchange(first, request_head(b"/session", entry.resumes.encode()), silence)
        return first.session


class _ShapedTls:
    """TLS whose ClientHello is sent as a test wants it, in place of a socket."""

    def __init__(
        self,
        connection: socket,
        context: ssl.SSLContext,
        name: str | None,
        shape: Callable[[bytes], Sequence[bytes]] | None = None,
        session: ssl.SSLSession | None = None,
    ) -> None:
        self._connection, self._received, self._sent = connection, ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sent, server_hostname=name or None, session=session)
        connection.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        hello = self._sent.read()
        for piece in [hello] if shape is None else shape(hello):
            connection.sendall(piece)
            time.sleep(0 if shape is None else PAUSE)
        self._run(self._tls.do_handshake)

    @property
    def session(self) -> ssl.SSLSession | None:
        return self._tls.session

    def settimeout(self, seconds: float) -> None:
        self._connection.settimeout(seconds)

    def sendall(self, data: bytes) -> None:
        self._run(lambda: self._tls.write(data))

    def recv(self, most: int) -> bytes:
        return self._run(lambda: self._tls.read(most))

    def _run(self, step: Callable[[], T]) -> T:
        """The result of a step, when everything has been sent and received that it needs."""
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._connection.sendall(self._sent.read())
                data = self._connection.recv(65536)
                if data:
                    self._received.write(data)
                else:
                    self._received.write_eof()
            else:
                self._connection.sendall(self._sent.read())
                return result


def _exchange(connection: socket | _ShapedTls, payload: bytes, silence: Silence) -> bytes:
    """What comes back until the proxy ends the connection, or has said nothing for a while."""
    received = b""
    first, next_one = silence
    connection.settimeout(first)
    with suppress(OSError):
        connection.sendall(payload)
        while chunk := connection.recv(65536):
            received += chunk
            connection.settimeout(next_one)
    return received


def _exchange_http2(connection: socket, request: Fields, body: bytes, silence: Silence) -> bytes:
    """The status for one request, or nothing where it is cut off."""
    config = h2.config.H2Configuration(
        header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False
    )
    protocol = h2.connection.H2Connection(config)
    protocol.initiate_connection()
    protocol.send_headers(1, request, end_stream=not body)
    if body:
        protocol.send_data(1, body, end_stream=True)
    connection.settimeout(2 * silence[0])
    with suppress(OSError, h2.exceptions.ProtocolError):
        connection.sendall(protocol.data_to_send())
        while chunk := connection.recv(65536):
            for event in protocol.receive_data(chunk):
                match event:
                    case h2.events.ResponseReceived():
                        return next(bytes(value) for name, value in event.headers if bytes(name) == b":status")
                    case h2.events.StreamReset() | h2.events.ConnectionTerminated():
                        return b""
            connection.sendall(protocol.data_to_send())
    return b""


def _follow(proxy: Proxy, entry: Entry) -> bytes:
    """The status where a client ends that goes where it is redirected to."""
    assert isinstance(entry.payload, bytes)
    url = entry.payload.split()[1].decode()
    with suppress(httpx.HTTPError, httpx.InvalidURL), proxy.client() as client:
        return b"%d" % client.get(url, follow_redirects=True).status_code
    return b""
