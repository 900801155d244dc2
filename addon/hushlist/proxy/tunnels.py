"""Connections, before or without any request in them: CONNECT, TLS and its server name, raw TCP and UDP.

What is decrypted is decided again, request by request. So a tunnel to a blocked host is opened, towards the proxy
alone, where a block page can be shown in it: no browser shows what a CONNECT is answered. Nothing is connected to for
it, since mitmproxy's ``connection_strategy`` is lazy. What is not decrypted is decided here, and for good.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from time import perf_counter_ns
from typing import NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from mitmproxy import connection, ctx, http, tcp, udp
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import TCPLayer, UDPLayer
from mitmproxy.proxy.layers.quic import quic_parse_client_hello_from_datagrams
from mitmproxy.proxy.layers.tls import dtls_parse_client_hello, parse_client_hello
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.tls import ClientHello, ClientHelloData

from hushlist.errors import UrlError
from hushlist.match.checks import Check
from hushlist.policy.decision import STOPPING, Decision
from hushlist.policy.groups import Client, Settings
from hushlist.policy.pass_through import PassThrough
from hushlist.proxy import answer, notes
from hushlist.proxy.in_force import InForce
from hushlist.proxy.refusing import is_open, refuse
from hushlist.proxy.wire import (
    client_of_connection,
    client_of_flow,
    name_to_ask,
    naming_of,
    request_of_connect,
    request_of_connection,
)
from hushlist.url.host import is_address
from hushlist.url.message import Naming
from hushlist.url.request import Request, canonical_host

logger = logging.getLogger(__name__)

_METHOD = "CONNECT"
_WEB_PORTS = (80, 443)
#: below it, a port belongs to one protocol
_WELL_KNOWN = 1024
#: Spec: RFC 6066, 3
_SERVER_NAME = 0
_HOST_LINE = re.compile(rb"\r\nhost:[ \t]*([^\r\n:]+)", re.IGNORECASE)


class Judged(NamedTuple):
    """What was decided of a connection, and whether that is done."""

    request: Request
    client: Client
    settings: Settings
    decision: Decision
    #: it is stopped; or it would be, if the policy were not only tried out
    stops: bool
    would_block: bool
    #: of the decision, in ns
    duration: int


class Tunnels:
    """Decides connections, and acts; whatever fails here, ``failing`` says what becomes of the connection."""

    def __init__(self, in_force: InForce) -> None:
        self._in_force = in_force
        #: what must not be connected to as it stands: requests that are decrypted have connections of their own
        self._refused: WeakKeyDictionary[connection.Server, str] = WeakKeyDictionary()
        #: those of connections that could carry more than one tunnel
        self._shared: WeakSet[connection.Server] = WeakSet()

    def connect(self, flow: http.HTTPFlow, mode: str) -> None:
        """Decide a CONNECT by its target and its Host header; refuse it where no page could be shown in the tunnel."""
        if mode == "off" or self._is_second(flow) or not is_open(flow):
            return
        is_blocked = False
        try:
            judged = self.judge(request_of_connect(flow), client_of_flow(flow), mode)
            if judged is None:
                return
            is_blocked = judged.stops
            notes.annotate(flow, judged.decision, would_block=judged.would_block)
            if judged.stops and not self._shows_page(judged):
                reference = self.record(judged)
                explanation = answer.explain(judged.decision, reference=reference)
                refuse(flow, lambda request: answer.answer(request, explanation))
        except Exception as error:
            self._in_force.failing.act(flow, error, is_blocked=is_blocked)

    def _is_second(self, flow: http.HTTPFlow) -> bool:
        """Whether it is not the first CONNECT of an HTTP/2 connection; then it is killed.

        To mitmproxy, all tunnels of a connection have one server, whose address is the target of whatever CONNECT came
        last, answered or not: a tunnel that was decided, and is passed through, would lead to what is blocked.
        """
        if flow.request.is_http10 or flow.request.is_http11:
            return False  # where nothing follows a tunnel that is open
        if flow.server_conn not in self._shared:
            if is_open(flow):
                self._shared.add(flow.server_conn)
            return False
        logger.info("hushlist: no second tunnel over one HTTP/2 connection, for %s", flow.client_conn.peername)
        if flow.killable:
            flow.kill()
        return True

    def client_hello(self, data: ClientHelloData, mode: str) -> None:
        """Decide TLS by its names; pass it through undecrypted where the policy says so."""
        server = data.context.server
        if server.address is None:
            return  # of the proxy itself
        try:
            self._client_hello(data, server.address, mode)
        except Exception as error:
            if not self._in_force.failing.lets_pass(error, "connection"):
                data.ignore_connection = False
                self._refused[server] = "the filter failed"

    def _client_hello(self, data: ClientHelloData, address: connection.Address, mode: str) -> None:
        context, sni = data.context, data.client_hello.sni
        request = request_of_connection(b"https", address, _known(sni), context.client.proxy_mode)
        client = client_of_connection(context.client)
        judged = self.judge(request, client, mode)
        if judged is not None and judged.stops:
            # It is decrypted, for the page; what a rule allows within it has a connection of its own.
            data.ignore_connection = False
            self._refused[context.server] = str(judged.decision)
            return
        passed = self._in_force.settings(client).pass_through
        hides_name = _hides_name(data.client_hello)
        way = None if hides_name else _way(passed, request, sni, address)
        if way is not None:
            context.server.address = way
            data.ignore_connection = True
        elif hides_name and judged is not None:
            data.ignore_connection = False  # whoever says that it is to be passed has not read the name either
        elif data.ignore_connection:
            _lead(context.server, request)
        if judged is not None and data.ignore_connection:
            self.record(judged)

    def next_layer(self, nextlayer: layer.NextLayer, mode: str) -> None:
        """Decide what mitmproxy passes as it is: where it says so, none of its other hooks is called, or none in time.

        That is what ``ignore_hosts`` and ``allow_hosts`` say, and all raw data on its way to another proxy.
        """
        try:
            if nextlayer.layer is None and (own := ctx.master.addons.get("nextlayer")) is not None:
                own.next_layer(nextlayer)
            chosen = nextlayer.layer
            if mode == "off" or not isinstance(chosen, TCPLayer | UDPLayer):
                return
            if chosen.flow is None or nextlayer.context.server.via is not None:
                self._pass_raw(nextlayer, mode, is_shown=chosen.flow is not None)
        except Exception as error:
            if not self._in_force.failing.lets_pass(error, "connection"):
                nextlayer.layer = _Refused(nextlayer.context)

    def _pass_raw(self, nextlayer: layer.NextLayer, mode: str, *, is_shown: bool) -> None:
        context = nextlayer.context
        if context.server.address is None:
            return
        data = nextlayer.data_client()
        hello = _hello_of(context, data)
        scheme = b"https" if hello is not None else context.client.transport_protocol.encode()
        names = [*_known(_inner_sni(context)), *_known(None if hello is None else hello.sni)]
        host = _HOST_LINE.search(data) if hello is None else None
        if host is not None:
            names.append(host[1].strip().decode("utf-8", "surrogateescape"))
        request = request_of_connection(scheme, context.server.address, names, context.client.proxy_mode)
        if hello is not None and _hides_name(hello):
            request = replace(request, fault="its TLS server name cannot be read")
        judged = self.judge(request, client_of_connection(context.client), mode)
        if judged is None:
            return
        if judged.stops:
            nextlayer.layer = _Refused(context)
        elif not is_shown:
            _lead(context.server, judged.request)
        if judged.stops or not is_shown:
            self.record(judged)

    def raw(self, flow: tcp.TCPFlow | udp.UDPFlow, mode: str) -> None:
        """Decide raw TCP or UDP before it is connected anywhere."""
        server = flow.server_conn
        if mode == "off" or not flow.live or server.address is None:
            return
        try:
            scheme = b"tcp" if isinstance(flow, tcp.TCPFlow) else b"udp"
            names = _known(flow.client_conn.sni if _is_inner(flow.client_conn, server) else None)
            request = request_of_connection(scheme, server.address, names, flow.client_conn.proxy_mode)
            judged = self.judge(request, client_of_connection(flow.client_conn), mode)
            if judged is None:
                return
            notes.annotate(flow, judged.decision, would_block=judged.would_block)
            self.record(judged)
            if judged.stops:
                self._refused[server] = str(judged.decision)
            else:
                _lead(server, request)
        except Exception as error:
            if not self._in_force.failing.lets_pass(error, "connection"):
                self._refused[server] = "the filter failed"

    def server_connect(self, data: ServerConnectionHookData) -> None:
        """Keep from connecting what was refused."""
        why = self._refused.get(data.server)
        if why is not None:
            data.server.error = f"blocked by hushlist: {why}"

    # -- deciding ------------------------------------------------------------------------------------------------

    def judge(self, request: Request, client: Client, mode: str) -> Judged | None:
        """The decision for a connection; ``None`` where nothing is decided."""
        settings = self._in_force.settings(client)
        mode = settings.mode_under(mode)
        if mode == "off":
            return None
        start = perf_counter_ns()
        decision = self._in_force.decide_host(request, client)
        duration = perf_counter_ns() - start
        stops = decision.action in STOPPING
        would_block = stops and mode == "tag"
        return Judged(request, client, settings, decision, stops and not would_block, would_block, duration)

    def record(self, judged: Judged) -> str | None:
        """Write it into the log, and where it is stopped, say so."""
        if judged.stops:
            url = judged.decision.url.decode("ascii", "backslashreplace")
            logger.info("hushlist: no connection for %s to %s: %s", judged.client.address, url, judged.decision)
        return self._in_force.record(
            judged.decision, judged.client, _METHOD, would_block=judged.would_block, duration=judged.duration
        )

    def _shows_page(self, judged: Judged) -> bool:
        """Whether a page can be shown in a tunnel in place of what was asked for."""
        if self._in_force.engine is None:
            return True
        decision, request = judged.decision, judged.request
        if decision.fault is not None or (decision.winner and isinstance(decision.winner.rule.pattern, Check)):
            return False  # it is not about the host
        if request.port < _WELL_KNOWN and request.port not in _WEB_PORTS:
            return False
        host = request.hosts[0]
        return not (judged.settings.pass_through.covers(canonical_host(host)) or _is_raw(host, request.port))


class _Refused(layer.Layer):
    """Ends the connection."""

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, events.Start):
            yield commands.CloseConnection(self.context.client)


def _lead(server: connection.Server, request: Request) -> None:
    """Connect to the name that was decided, where the client has named no other destination than an address."""
    name = name_to_ask(request)
    if name is not None and server.address is not None:
        server.address = (name, server.address[1])


def _way(
    passed: PassThrough, request: Request, sni: str | None, address: connection.Address
) -> connection.Address | None:
    """Where to pass a connection through to, or ``None``: it is decrypted.

    Every name has to be covered, and the connection goes to a name that is; but to an address that is covered itself,
    whatever the name, since it goes nowhere else.
    """
    try:
        *names, target = map(canonical_host, (*_octets(sni), address[0].encode("utf-8", "surrogateescape")))
    except UrlError:
        return None
    if is_address(target) and passed.covers(target):
        return address
    name = name_to_ask(request)
    if name is not None:
        return (name, address[1]) if passed.covers(name.encode()) else None
    return address if all(map(passed.covers, (*names, target))) else None


def _known(sni: str | None) -> tuple[str, ...]:
    return (sni,) if sni else ()


def _octets(sni: str | None) -> Iterable[bytes]:
    return (name.encode("utf-8", "surrogateescape") for name in _known(sni))


def _hides_name(hello: ClientHello) -> bool:
    """Whether there is a server name that mitmproxy does not read, and a server may: one that is none, or a second."""
    names = sum(kind == _SERVER_NAME for kind, _ in hello.extensions)
    return names > (1 if hello.sni else 0)


def _hello_of(context: Context, data: bytes) -> ClientHello | None:
    """The ClientHello with which the client begins; ``None`` where there is none that can be read."""
    with suppress(ValueError):
        if context.client.transport_protocol == "tcp":
            return parse_client_hello(data) if data[:1] == b"\x16" else None
        with suppress(ValueError, AssertionError):  # aioquic asserts what is in a packet
            return quic_parse_client_hello_from_datagrams([data])
        return dtls_parse_client_hello(data)
    return None


def _is_inner(client: connection.Client, server: connection.Server) -> bool:
    """Whether the client's server name is that of what it asks for, and not of the proxy itself."""
    return server.tls or naming_of(client.proxy_mode) is not Naming.CLIENT


def _inner_sni(context: Context) -> str | None:
    return context.client.sni if _is_inner(context.client, context.server) else None


def _is_raw(host: bytes, port: int) -> bool:
    """Whether mitmproxy's own options keep a tunnel from being decrypted, or read as HTTP."""
    name = host.decode("utf-8", "surrogateescape")
    options = ctx.options

    def fits(patterns: Iterable[str], text: str) -> bool:
        return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)

    full = f"{name}:{port}"
    is_left_out = bool(options.allow_hosts) and not fits(options.allow_hosts, full)
    return is_left_out or fits(options.ignore_hosts, full) or fits(options.tcp_hosts, name)
