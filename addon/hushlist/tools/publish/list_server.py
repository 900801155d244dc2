"""The server of published lists: HTTP or HTTPS, for ``safebrowsing_service``.

Tornado, which mitmproxy brings, reads HTTP: it has bounds and timeouts for heads, bodies and idle connections, and TLS.
Everything is bounded: connections, requests a minute of one caller, and how many updates are made or sent at one time.
An update of a long list takes seconds the first time, so it is made in a thread; look-ups are answered at once.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qs, unquote

from tornado.http1connection import HTTP1Connection
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from hushlist.core.policy.groups import network_text
from hushlist.core.system.files import fingerprints, read_private, read_regular
from hushlist.core.system.memory import BoundedCache
from hushlist.tools.publish.safebrowsing_service import ApiAnswer, ApiRequest, SafeBrowsingService, error_answer

#: octets of a request's body; 500 prefixes and the states of all lists take 40,000
_LONGEST_BODY = 1 << 17
#: seconds until a connection is closed that sends no head or no body, or does not take its answer
_IDLE, _BODY, SENDING = 60.0, 30.0, 120.0
#: connections, in all and from one address, or one network of IPv6
MOST_CONNECTIONS, MOST_OF_ADDRESS = 1000, 250
#: callers whose requests are counted, and updates that wait for the thread or are being sent: all, and of one caller
_MOST_CALLERS, MOST_UPDATES, MOST_OF_CALLER = 20_000, 200, 20


class ServerLimits(NamedTuple):
    """Who may ask, and how often."""

    #: keys of clients; none: everybody may ask
    keys: Collection[str] = ()
    #: requests a minute of one key, or else of one address, or one network of IPv6; 0: any number
    rate: int = 600


class RequestLog(NamedTuple):
    """A request, for the log: never its query, since prefixes tell what somebody may have visited."""

    moment: datetime
    address: str
    method: str
    path: str
    status: int
    #: of the answer
    octets: int
    #: in hexadecimal
    prefixes: tuple[str, ...]


class _Caller:
    """Somebody with a key, at an address, or in a network of IPv6."""

    def __init__(self, rate: int) -> None:
        #: a bucket that holds the requests of one minute, and fills as time goes by
        self._rate, self._left, self._seen = rate, float(rate), monotonic()
        #: held while an update is made: the next one of the same caller comes after those of others
        self.turn = asyncio.Lock()
        #: that are made or sent now
        self.updates = 0

    def may_ask(self) -> bool:
        """Take one request from the bucket, if there is one left."""
        now = monotonic()
        self._left = min(self._rate, self._left + (now - self._seen) * self._rate / 60)
        self._seen = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class ListServer:
    """A service, who may ask it, and its thread."""

    def __init__(self, service: SafeBrowsingService, limits: ServerLimits, log: Callable[[RequestLog], object]) -> None:
        self._service, self._limits, self._log = service, limits, log
        self._callers: BoundedCache[str, _Caller] = BoundedCache(lambda _: _Caller(limits.rate), _MOST_CALLERS)
        #: one thread, so a history never changes while an update is made of it
        self.thread = ThreadPoolExecutor(1, "hushlist: updates")
        #: that are made or sent now
        self._updates = 0
        self._server: HTTPServer | None = None

    def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Accept connections, in the running event loop; returns the port, which the system chooses for 0.

        Raises:
            OSError: the address cannot be used.
        """
        server = self

        class Handler(RequestHandler):
            async def get(self) -> None:
                await server._respond(self)

            async def post(self) -> None:
                await server._respond(self)

            def set_default_headers(self) -> None:
                self.clear_header("Server")
                self.set_header("Cache-Control", "no-store")

        application = Application([(".*", Handler)], log_function=lambda handler: None)
        sockets = bind_sockets(port, host)
        self._server = _BoundedServer(
            application,
            ssl_options=tls,
            max_body_size=_LONGEST_BODY,
            max_buffer_size=2 * _LONGEST_BODY,
            idle_connection_timeout=_IDLE,
            body_timeout=_BODY,
        )
        self._server.add_sockets(sockets)
        chosen: int = sockets[0].getsockname()[1]
        return chosen

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """Serve new connections with another certificate."""
        if self._server is not None:
            self._server.ssl_options = tls

    def use_keys(self, keys: Collection[str]) -> None:
        """Answer clients with other keys, and no others."""
        self._limits = self._limits._replace(keys=keys)

    def close(self) -> None:
        """Accept no more connections."""
        if self._server is not None:
            self._server.stop()
        self.thread.shutdown(wait=False)

    async def _respond(self, handler: RequestHandler) -> None:
        sent = handler.request
        request = ApiRequest(
            sent.method or "", unquote(sent.path), sent.query, sent.headers.get("Content-Type", "").lower(), sent.body
        )
        address, is_update = sent.remote_ip or "", not SafeBrowsingService.is_fast(request)
        caller = self._caller_of(request, address, sent.headers.get("X-Goog-Api-Key", ""))
        self._updates += is_update
        if caller is not None:
            caller.updates += is_update
        try:
            answer = await self._answer(request, caller, is_update=is_update)
            handler.set_status(answer.status)
            handler.set_header("Content-Type", answer.content_type)
            if answer.status in (429, 503):
                handler.set_header("Retry-After", "60")
            path = "/".join(request.path.split("/", 3)[:3])  # a message may be behind that
            logged = (datetime.now(UTC), address, request.method, path, answer.status, len(answer.octets))
            self._log(RequestLog(*logged, tuple(answer.prefixes)))
            await asyncio.wait_for(handler.finish(answer.octets), SENDING)
        except TimeoutError:
            cast(HTTP1Connection, sent.connection).close()
        finally:
            self._updates -= is_update
            if caller is not None:
                caller.updates -= is_update

    def _caller_of(self, request: ApiRequest, address: str, key: str) -> _Caller | None:
        """Who sends a request; ``None``: nobody whom this server knows."""
        if not self._limits.keys:
            return self._callers[network_text(address)]
        sent_key = key or (parse_qs(request.query).get("key") or [""])[0]
        # every key is compared, so time tells nothing of them
        is_known = sum(hmac.compare_digest(sent_key.encode(), allowed.encode()) for allowed in self._limits.keys)
        return self._callers[sent_key] if is_known else None

    async def _answer(self, request: ApiRequest, caller: _Caller | None, *, is_update: bool) -> ApiAnswer:
        rate = self._limits.rate
        if caller is None:
            return error_answer(403, "the key is not known")
        if rate and not caller.may_ask():
            return error_answer(429, f"more than {rate} requests a minute")
        if not is_update:
            return self._service.answer(request)
        if rate and caller.updates > MOST_OF_CALLER:
            return error_answer(429, f"more than {MOST_OF_CALLER} updates at one time")
        if self._updates > MOST_UPDATES:
            return error_answer(503, "too many requests at one time")
        async with caller.turn:
            return await asyncio.get_running_loop().run_in_executor(self.thread, self._service.answer, request)


class _BoundedServer(HTTPServer):
    """Closes a connection at once where there are too many, in all or from one address or network."""

    def initialize(self, *arguments: Any, **options: Any) -> None:
        super().initialize(*arguments, **options)
        self._open = Counter[str]()

    def handle_stream(self, stream: IOStream, address: tuple[str, int]) -> None:
        whose = network_text(address[0])
        if self._open.total() >= MOST_CONNECTIONS or self._open[whose] >= MOST_OF_ADDRESS:
            stream.close()
            return
        self._open[whose] += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: Any) -> None:
        self._open -= Counter((network_text(server_conn.context.address[0]),))
        super().on_close(server_conn)


# -- its certificate and its clients' keys, of which the next take the place ------------------------------------------

#: octets of a file of certificates, or of a key
_LONGEST_CERTIFICATE = 1 << 20
#: seconds between two looks at the files
_LOOKING = 60.0


def read_certificate(certificate: Path, key: Path) -> ssl.SSLContext:
    """What serves HTTPS with a certificate chain and its key, both in PEM; ``OSError`` if they cannot be used."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    read_regular(certificate, _LONGEST_CERTIFICATE)  # OpenSSL would wait for a pipe
    read_private(key, _LONGEST_CERTIFICATE)
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise OSError(error.errno, f"no certificate with its key: {error.reason}", str(certificate)) from error
    return context


async def keep_fresh(files: Sequence[Path], use: Callable[[], object], complain: Callable[[OSError], object]) -> None:
    """Use files anew whenever they have changed; never ends. What cannot be used is complained of."""
    seen = fingerprints(files)
    while True:
        await asyncio.sleep(_LOOKING)
        before, seen = seen, fingerprints(files)
        if seen != before:
            try:
                use()
            except OSError as error:  # perhaps another of them is not there yet, which is another change
                complain(error)
