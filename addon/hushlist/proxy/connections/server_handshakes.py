"""Servers with which the proxy cannot begin TLS: why, and what to write, in the log and on the page in their place.

A browser may be content with such a server: it trusts the authorities that its machine does (mitmproxy trusts those of
the package ``certifi``), shows a certificate of its own, or speaks an older TLS. Whatever a server says is bounded, and
stands between words of the filter.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from mitmproxy import connection, ctx, http
from mitmproxy.net import tls as net_tls
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers.http import SendHttp
from mitmproxy.proxy.layers.http._base import HttpEvent
from mitmproxy.proxy.layers.http._events import (
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.tls import TLSLayer
from mitmproxy.tls import TlsData
from OpenSSL import SSL, crypto

from hushlist.core.errors import logger_of, printable, without_user
from hushlist.core.policy.groups import Client
from hushlist.core.system.memory import LatestEntries
from hushlist.core.system.trust_store import trust_store
from hushlist.proxy.bounds.flowing_bodies import FlowingStream
from hushlist.proxy.connections.hints import Hints
from hushlist.proxy.flow_request import client_of_connection
from hushlist.proxy.page.block_response import block_response
from hushlist.proxy.page.pages import Explanation, Verdict
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)


class Cause(StrEnum):
    """Why TLS with a server does not begin; each has a text ``tls_...`` on the page."""

    #: nobody knows the authority that has signed its certificate
    UNTRUSTED = "untrusted"
    #: its certificate is another site's, or not valid now
    CERTIFICATE = "certificate"
    #: it wants a certificate of the client
    CLIENT_CERTIFICATE = "client_certificate"
    OLD = "old"
    OTHER = "other"


_NOT_VERIFIED = "Certificate verify failed"
_BY_WORDS: tuple[tuple[Cause, re.Pattern[str]], ...] = (
    (Cause.UNTRUSTED, re.compile(rf"{_NOT_VERIFIED}: .*(?:issuer|self.signed|first certificate)", re.IGNORECASE)),
    (Cause.CERTIFICATE, re.compile(_NOT_VERIFIED)),
    (Cause.CLIENT_CERTIFICATE, re.compile("certificate required|alert (?:bad|unsupported) certificate|unknown ca")),
    (
        Cause.OLD,
        re.compile("TLS version|protocol version|unsupported protocol|no protocols|key too small|md too weak"),
    ),
    (Cause.OTHER, re.compile("alert|does not speak TLS|OpenSSL")),
)
#: characters of a server's error that are shown
_LONGEST = 300
_MOST_OF_CLIENT, _MOST_VERIFIED = 16, 256


def cause_of(error: str, *, asked_for_certificate: bool = False) -> Cause | None:
    """What an error of mitmproxy means; ``None`` if it is not about TLS with a server.

    >>> cause_of("Certificate verify failed: hostname mismatch"), cause_of("peer closed connection")
    (<Cause.CERTIFICATE: 'certificate'>, None)
    """
    by_words = next((cause for cause, words in _BY_WORDS if words.search(error)), None)
    if asked_for_certificate and by_words in (None, Cause.OTHER):
        return Cause.CLIENT_CERTIFICATE
    return by_words


@dataclass(frozen=True, slots=True)
class Failure:
    """A server with which TLS did not begin."""

    cause: Cause
    error: str
    #: what to write so that it does, beside ``pass-through``; options of mitmproxy
    option: str
    #: the line for the policy
    entry: str


@dataclass
class Unreached:
    """A request whose server was not reached; ``response`` stands in the place of mitmproxy's page."""

    flow: http.HTTPFlow
    error: str
    response: http.Response | None


_NO_FAILURES: Mapping[connection.Address, Failure] = {}


class ServerHandshakes:
    """Only the event loop uses it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._hints = Hints()
        #: the last failures for each client's connection, by host and port
        self._failures: WeakKeyDictionary[connection.Client, LatestEntries[connection.Address, Failure]]
        self._failures = WeakKeyDictionary()
        #: servers that have asked for the client's certificate, and have answered nothing
        self.asking: WeakSet[connection.Connection] = WeakSet()
        #: whether this machine trusts a chain of certificates, by its octets
        self._verified: LatestEntries[tuple[bytes, ...], bool] = LatestEntries(_MOST_VERIFIED)

    def established(self, data: TlsData) -> None:
        """Note a server that asks for a certificate: in TLS 1.3, it refuses only later, or just closes."""
        if data.ssl_conn in _asking and not ctx.options.client_certs:
            self.asking.add(data.conn)

    def answered(self, flow: http.HTTPFlow) -> None:
        """Note that a server answers."""
        self.asking.discard(flow.server_conn)

    async def failed(self, data: TlsData) -> None:
        """mitmproxy's hook ``tls_failed_server``; and our own, where a server ends TLS that has begun."""
        error = data.conn.error or ""
        asks = data.conn in self.asking or data.ssl_conn in _asking
        try:
            cause = cause_of(error, asked_for_certificate=asks and not ctx.options.client_certs)
            server = data.conn
            if self._runtime.mode == "off" or cause is None or not isinstance(server, connection.Server):
                return
            if server.address is None or server.address == (data.context.server.via or (None, None))[1]:
                return  # another proxy: the administrator's choice
            is_known = cause is Cause.UNTRUSTED and await self._is_trusted_here(data.ssl_conn)
            self._note(data.context.client, server, cause, error, is_known=is_known)
        except Exception:
            logger.exception("hushlist: it was not told why a server cannot be reached")

    def _note(
        self, client: connection.Client, server: connection.Server, cause: Cause, error: str, *, is_known: bool
    ) -> Failure:
        assert server.address is not None
        host = server.sni or server.address[0]
        failure = Failure(cause, _shown(error), _option(cause, is_known=is_known), f"={printable(host)}")
        self._failures.setdefault(client, LatestEntries(_MOST_OF_CLIENT))[server.address[:2]] = failure
        self._hints.say(
            (cause, host), self._advice(failure, f"{host}:{server.address[1]}", client_of_connection(client))
        )
        return failure

    def _advice(self, failure: Failure, where: str, client: Client) -> str:
        engine = self._runtime.engine
        passed = None if engine is None else engine.group(client).settings.pass_through
        place = None if passed is None else passed.place
        if place is None and engine is not None:
            place = f"{engine.policy.source}:  pass-through: ['{failure.entry}']"
        else:
            place = f"pass-through in {place}:  - '{failure.entry}'"
        by_option = f"start mitmproxy with --set {failure.option}, or " if failure.option else ""
        return f"no TLS with {printable(where)}: {_WORDS[failure.cause]} ({failure.error}); {by_option}add to {place}"

    async def _is_trusted_here(self, ssl_conn: SSL.Connection | None) -> bool:
        """Whether the system's own store would have trusted a chain of certificates, were it valid for its name."""
        chain = (ssl_conn.get_peer_cert_chain() if ssl_conn is not None else None) or []
        key = tuple(crypto.dump_certificate(crypto.FILETYPE_ASN1, certificate) for certificate in chain)
        if not chain:
            return False
        if key not in self._verified:
            self._verified[key] = await asyncio.to_thread(_is_trusted, chain)
        return self._verified[key]

    def unreached(self, data: Unreached) -> None:
        """Our own hook: show why in the place of mitmproxy's page, if it is TLS, or nothing was connected to."""
        try:
            self._unreached(data)
        except Exception:
            logger.exception("hushlist: mitmproxy's page stands for the filter's")

    def _unreached(self, data: Unreached) -> None:
        flow = data.flow
        if self._runtime.mode == "off" or flow.response is not None or flow.request.method == "CONNECT":
            return
        failure = self._failures.get(flow.client_conn, _NO_FAILURES).get((flow.request.host, flow.request.port))
        if failure is None or (failure.error != _shown(data.error) and flow.server_conn not in self.asking):
            cause = cause_of(data.error, asked_for_certificate=flow.server_conn in self.asking)
            server = flow.server_conn
            if cause is None and server.timestamp_tcp_setup is None:
                why = Explanation("", fault=_shown(data.error), text="unreached_reason", reason=_NOT_THERE)
                self._answer(data, why)
            if cause is None or server.address is None:
                return
            failure = self._note(flow.client_conn, server, cause, data.error, is_known=False)
        by_option = f" - mitmproxy: --set {failure.option}" if failure.option else ""
        self._answer(
            data,
            Explanation(
                "",
                fault=failure.error,
                text=f"tls_{failure.cause}",
                remedy=f"policy: pass-through: ['{failure.entry}']{by_option}",
                reason=_WORDS[failure.cause],
            ),
        )

    def _answer(self, data: Unreached, why: Explanation) -> None:
        request = data.flow.request
        explanation = replace(why, url=str(without_user(request.url)), kind=Verdict.UNREACHED)
        data.response = block_response(request, explanation, None, self._runtime.template)


_NOT_THERE = "its server does not answer, or there is no site of this name"
_WORDS = {
    Cause.UNTRUSTED: "its certificate is signed by an authority that the proxy does not trust",
    Cause.CERTIFICATE: "its certificate is not valid for it, or not now",
    Cause.CLIENT_CERTIFICATE: "it wants a certificate of the client, and the proxy shows none",
    Cause.OLD: "it speaks an old TLS, which the proxy does not",
    Cause.OTHER: "it refuses the connection, or speaks no TLS",
}


def _option(cause: Cause, *, is_known: bool) -> str:
    """The option of mitmproxy that helps, or nothing."""
    if cause is Cause.UNTRUSTED:
        option = trust_store(ssl.get_default_verify_paths()).option if is_known else None
        return option or "ssl_verify_upstream_trusted_ca=FILE"
    if cause is Cause.CLIENT_CERTIFICATE:
        return "client_certs=FOLDER"
    return "tls_version_server_min=TLS1" if cause is Cause.OLD else ""


#: an error of OpenSSL, as Python writes it
_OPENSSL = re.compile(r"\('[^']*', '[^']*', '([^']*)'\)\]\)?\Z")


def _shown(error: str) -> str:
    """An error for people.

    >>> _shown("OpenSSL Error([('SSL routines', '', 'tls alert handshake failure')])")
    'tls alert handshake failure'
    """
    match = _OPENSSL.search(error[-_LONGEST:])
    return printable(match[1] if match else error[:_LONGEST])


def _is_trusted(chain: Sequence[crypto.X509]) -> bool:
    """Whether the system's own store trusts a server's chain of certificates; as ``ssl.create_default_context``."""
    store, places = crypto.X509Store(), trust_store(ssl.get_default_verify_paths())
    try:
        if places.file is not None:
            store.load_locations(places.file)
        if places.folder is not None:
            store.load_locations(None, places.folder)  # type: ignore[arg-type]
        crypto.X509StoreContext(store, chain[0], list(chain[1:])).verify_certificate()
    except (crypto.Error, crypto.X509StoreContextError, TypeError):
        return False
    return True


# -- what is called in the place of methods of mitmproxy, which it gets first ------------------------------------------


@dataclass
class HushlistUnreachedHook(commands.StartHook):
    """Asks the addon, by ``hushlist_unreached``, for a page in the place of mitmproxy's."""

    data: Unreached


@dataclass
class HushlistTlsEndedHook(commands.StartHook):
    """Tells the addon, by ``hushlist_tls_ended``, that a server has ended TLS by an error."""

    data: TlsData


def _show_why(
    handle: Callable[..., layer.CommandGenerator[None]], stream: FlowingStream, event: HttpEvent
) -> layer.CommandGenerator[None]:
    """Tell a client why its server was not reached, before anything was answered."""
    flow = getattr(stream, "flow", None)
    if not isinstance(event, ResponseProtocolError) or flow is None or flow.response is not None:
        yield from handle(stream, event)
        return
    data = Unreached(flow, event.message, response=None)
    yield HushlistUnreachedHook(data)
    stream.page = data.response
    for command in handle(stream, event):
        is_answer = isinstance(command, SendHttp) and command.event is event
        if is_answer and data.response is not None:
            yield from _answer(stream, data.response)
        if not is_answer or data.response is None or not _is_multiplexed(stream.context.client):
            yield command  # of HTTP/1, it ends the connection


def _answer(stream: FlowingStream, response: http.Response) -> layer.CommandGenerator[None]:
    client, content = stream.context.client, response.raw_content
    if not _is_multiplexed(client):
        response.headers["Connection"] = "close"
    yield SendHttp(ResponseHeaders(stream.stream_id, response, not content), client)
    if content:
        yield SendHttp(ResponseData(stream.stream_id, content), client)
    yield SendHttp(ResponseEndOfMessage(stream.stream_id), client)


def _is_multiplexed(client: connection.Client) -> bool:
    return client.alpn == b"h2" or (client.alpn or b"").startswith(b"h3")


def _end_with_error(
    receive: Callable[..., layer.CommandGenerator[None]], tls_layer: TLSLayer, data: bytes
) -> layer.CommandGenerator[None]:
    """End a connection to a server that has ended TLS by an error: mitmproxy logs it, and waits on.

    Spec: RFC 8446, 6.2: "All further communication on the connection is discarded"
    """
    error = None
    for command in receive(tls_layer, data):
        if isinstance(command, commands.Log) and command.message.startswith(_TLS_ERROR):
            error = command.message.removeprefix(_TLS_ERROR)
        yield command
    if error is None or not isinstance(tls_layer.conn, connection.Server):
        return
    tls_layer.conn.error = error
    yield HushlistTlsEndedHook(TlsData(tls_layer.conn, tls_layer.context, tls_layer.tls))
    tls_layer.conn.state &= ~connection.ConnectionState.CAN_READ
    yield from tls_layer.event_to_child(events.ConnectionClosed(tls_layer.conn))


_TLS_ERROR = "TLS Error: "

#: connections over which a server has asked for the client's certificate
_asking: WeakSet[SSL.Connection] = WeakSet()
_READ_REQUEST = b"read server certificate request"


def _tell_requests(create: Callable[..., SSL.Context], *, method: net_tls.Method, **settings: Any) -> SSL.Context:
    """Make a context for TLS; one for servers tells which of them ask for a certificate."""
    context = create(method=method, **settings)
    if method in (net_tls.Method.TLS_CLIENT_METHOD, net_tls.Method.DTLS_CLIENT_METHOD):
        context.set_info_callback(_note_request)
    return context


def _note_request(ssl_conn: SSL.Connection, where: int, _: int) -> None:
    if where & SSL.SSL_CB_LOOP and _READ_REQUEST in ssl_conn.get_state_string():
        _asking.add(ssl_conn)


#: as in ``bounds.bounded_http``
WRAPPED: tuple[tuple[Any, tuple[str, ...], tuple[Any, ...]], ...] = (
    (_show_why, ("handle_protocol_error",), (FlowingStream,)),
    (_end_with_error, ("receive_data",), (TLSLayer,)),
    (_tell_requests, ("_create_ssl_context",), (net_tls,)),
)
