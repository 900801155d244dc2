"""Decides connections, before or without any request in them: CONNECT, TLS and its server name, raw TCP and UDP.

The requests of a decrypted tunnel are decided one by one later. So a tunnel to a blocked host is opened, but only as
far as the proxy, which shows a block page in it: no browser shows the answer to a CONNECT. mitmproxy connects to no
server for it, since its ``connection_strategy`` is lazy. A tunnel that is not decrypted is decided here, once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

from mitmproxy import connection, ctx, http, tcp, udp
from mitmproxy.net.tls import starts_like_tls_record
from mitmproxy.proxy import layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import HttpLayer
from mitmproxy.proxy.layers.quic import RawQuicLayer
from mitmproxy.proxy.layers.tls import HTTP_ALPNS
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.tls import ClientHelloData

from hushlist.core.decide.decision import STOPPING, Judgement
from hushlist.core.errors import logger_of
from hushlist.core.match.checks import Check
from hushlist.core.policy.groups import Client, GroupSettings
from hushlist.core.policy.pass_through import BY_NEED, NEVER, WITHOUT_PAGES
from hushlist.core.url.http_head import Naming
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import Request, canonical_host
from hushlist.proxy import flow_outcome
from hushlist.proxy.bounds.framed_http1 import let_switch
from hushlist.proxy.connections.beginnings import (
    CLIENT_FIRST_PORTS,
    OTHER_PORTS,
    OTHER_TLS_PORTS,
    begins_http,
)
from hushlist.proxy.connections.client_connections import end_connection, is_gone
from hushlist.proxy.connections.client_hello import IncompleteError, begins_tls, hides_name, read_hello
from hushlist.proxy.connections.dns_queries import TUNNELLING
from hushlist.proxy.connections.hints import Hints
from hushlist.proxy.connections.relayed_connections import RelayedConnections, WhyEnd
from hushlist.proxy.connections.tunnel_layers import (
    EarlyRelay,
    Held,
    LaterAsked,
    Refused,
    RefusedAtStart,
    Said,
    SocksRequest,
    Turn,
    sent_by,
)
from hushlist.proxy.connections.unread_connections import (
    Raw,
    entry_of,
    fits,
    inner_name,
    is_ignored,
    is_raw,
    is_raw_beginning,
    is_unseen,
    names_of,
    way_through,
    why_read,
)
from hushlist.proxy.flow_outcome import is_open, refuse
from hushlist.proxy.flow_request import (
    SelfConnections,
    client_of_connection,
    client_of_flow,
    is_framed,
    name_to_ask,
    naming_of,
    request_of_connect,
    request_of_connection,
    request_of_flow,
)
from hushlist.proxy.hook_calls import BegunCoroutine, begin
from hushlist.proxy.page import block_response
from hushlist.proxy.page.block_response import LOOP
from hushlist.proxy.parts import Parts
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

_WEB_PORTS = (80, 443)
#: lower ports are assigned to one protocol each
_WELL_KNOWN = 1024
_HIDDEN = "its TLS server name cannot be read"
_OTHER = "it is neither HTTP nor TLS, and may carry anything"
#: octets by which mitmproxy tells TLS
_SHORTEST_TLS = 3
_UNSEEN = "its datagrams are neither DNS nor HTTP/3, and may carry anything"

#: ALPN names of protocols by which browsers ask for several hosts over one connection
_SHARED = frozenset({b"h2", b"h3"})
#: ports of DNS, which mitmproxy reads; in a tunnel, it is what nobody reads
_DNS_PORTS = (53, 5353)
#: seconds in which a client that speaks first has begun; on a port where it has to, and on others
_FIRST_PATIENCE, _OTHER_PATIENCE = 1.0, 0.1
#: seconds after which a connection ends over which nothing has come that could be decided: on the ports of the web,
#: browsers open some before they need them
QUIET, QUIET_ON_WEB = 4.0, 60.0
_HOST_LINE = re.compile(rb"\r\nhost:[ \t]*([^\r\n:]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Early:
    """What is known of a connection when it begins, taken as one that nobody reads."""

    request: Request
    #: ``None`` while the filter is off for the client
    judgement: Judgement | None
    #: whether policy or options say that nobody reads it
    is_named: bool

    @property
    def passes(self) -> bool:
        return self.judgement is None or not self.judgement.stops


class Tunnels:
    """Decides connections, and carries decisions out; if anything fails here, ``failure_policy`` decides."""

    def __init__(self, runtime: Runtime, loops: SelfConnections, relayed: RelayedConnections, parts: Parts) -> None:
        self._runtime, self._loops, self._relayed, self._parts = runtime, loops, relayed, parts
        #: servers not to connect to as they are: decrypted requests have server connections of their own
        self._refused: WeakKeyDictionary[connection.Server, str] = WeakKeyDictionary()
        #: servers of client connections that could carry more than one tunnel
        self._shared: WeakSet[connection.Server] = WeakSet()
        #: by what names clients may switch to another protocol (``upgrade``), and why that would end now
        self._switching: WeakKeyDictionary[connection.Client, tuple[Request, WhyEnd]] = WeakKeyDictionary()
        self._hints = Hints()

    def connect(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """mitmproxy's hook ``http_connect``."""
        return begin(self._decide_connect(flow))

    async def _decide_connect(self, flow: http.HTTPFlow) -> None:
        """Decide a CONNECT by its target and its Host header; refuse it if no page could be shown in the tunnel.

        One that the proxy itself asks for is refused in any case: a client that leads the proxy to itself would be in
        the group of the proxy's own machine.
        """
        if self._runtime.mode != "off" and not self._is_second(flow) and is_open(flow):
            await self._connect(flow)
        if self._loops.is_loop(flow.client_conn, flow.server_conn):
            refuse(flow, block_response.loop_response)

    async def _connect(self, flow: http.HTTPFlow) -> None:
        is_blocked = False
        try:
            request = request_of_connect(flow)
            if self._loops.is_loop(flow.client_conn, flow.server_conn):
                request = request._replace(fault=LOOP)
            judgement = await self._judge(request, client_of_flow(flow))
            if judgement is None:
                return
            is_blocked = judgement.stops
            if not is_blocked and request.port in OTHER_PORTS:
                other = await self._early(request, flow.client_conn, (flow.request.host, request.port))
                if other.judgement is not None and not other.passes:
                    judgement, is_blocked = other.judgement, True
                    self._hint(other, "its port is no port of the web")
            flow_outcome.annotate(flow, judgement)
            if is_blocked and not self._shows_page(judgement):
                recorded = self._runtime.record_connection(judgement)
                explanation = block_response.explanation_of(recorded, self._runtime.zone)
                refuse(flow, lambda request: block_response.block_response(request, explanation))
        except Exception as error:
            self._runtime.failure_policy.act(flow, error, is_blocked=is_blocked)

    def _is_second(self, flow: http.HTTPFlow) -> bool:
        """Whether this is a later CONNECT of an HTTP/2 connection; if so, it is killed.

        In mitmproxy, all tunnels of a connection share one server. Its address is the target of the last CONNECT,
        answered or not. So a second CONNECT could lead a tunnel that was already allowed to a blocked host.
        """
        if flow.request.is_http10 or flow.request.is_http11:
            return False  # no other CONNECT can follow an open tunnel
        if flow.server_conn not in self._shared:
            if is_open(flow):
                self._shared.add(flow.server_conn)
            return False
        if flow.killable:
            flow.kill()
        logger.info("hushlist: no second tunnel over one HTTP/2 connection, for %s", flow.client_conn.peername)
        return True

    async def upgrade(self, flow: http.HTTPFlow) -> None:
        """Let a request that passes turn its connection into one for another protocol (``Upgrade``), if policy or
        options pass all through that goes by its names, as a connection that nobody reads.

        WebSocket needs no leave. Spec: RFC 9110, 7.8
        """
        sent, is_inner = flow.request, flow.request.scheme == "https"
        if not is_open(flow) or is_framed(flow.client_conn.alpn):
            return
        client = client_of_flow(flow)
        settings = self._runtime.settings(client)
        names = [host.decode("utf-8", "surrogateescape") for host in request_of_flow(flow).hosts]
        why_end = partial(why_read, names, sent.port, is_inner)
        request = request_of_connection(b"tcp", (sent.host, sent.port), names, flow.client_conn.proxy_mode)
        if settings.mode != "off":
            if why_end(flow.client_conn, settings) is not None:
                return
            judgement = await self._judge(request, client)
            if judgement is not None and judgement.stops:
                return
        self._switching[flow.client_conn] = request, why_end
        let_switch(sent)

    def client_hello(self, data: ClientHelloData) -> Awaitable[None] | None:
        """mitmproxy's hook ``tls_clienthello``."""
        return begin(self._decide_hello(data))

    async def _decide_hello(self, data: ClientHelloData) -> None:
        """Decide TLS by its names; pass it through undecrypted if the policy says so.

        A connection that the proxy itself has made is decrypted, and the requests in it are refused.
        """
        server = data.context.server
        if server.address is None:
            return  # of the connection to the proxy itself
        try:
            if self._loops.is_loop(data.context.client, server):
                self._refused[server], data.ignore_connection = LOOP, False
            else:
                await self._client_hello(data, server.address)
        except Exception as error:
            if not self._lets_pass(error, server, is_blocked=server in self._refused):
                data.ignore_connection = False

    async def _client_hello(self, data: ClientHelloData, address: connection.Address) -> None:
        context, sni = data.context, data.client_hello.sni
        request = request_of_connection(b"https", address, names_of(sni), context.client.proxy_mode)
        client, engine = client_of_connection(context.client), self._runtime.engine
        settings = self._runtime.settings(client)
        is_never, is_hidden = settings.decrypt == NEVER, hides_name(data.client_hello)
        hidden = request._replace(fault=_HIDDEN) if is_hidden else request
        why_decrypt = partial(self._why_decrypt, hidden, sni, address, tuple(data.client_hello.alpn_protocols))
        judgement = await self._judge(hidden if is_never else request, client)
        if engine is not self._runtime.engine:  # while somebody was asked
            await self._client_hello(data, address)
            return
        if judgement is not None and judgement.stops:
            # It is decrypted to show the page. Requests in it that a rule allows get a connection of their own.
            # If it is not decrypted, it ends when mitmproxy is to connect.
            has_no_page = settings.decrypt in (NEVER, WITHOUT_PAGES)
            data.ignore_connection = has_no_page and why_decrypt(context.client, settings) is None
            self._refused[context.server] = str(judgement.decision)
            if data.ignore_connection:
                self._runtime.record_connection(judgement)
            return
        is_given = data.ignore_connection
        way = None if is_hidden else way_through(settings.pass_through, request, sni, address)
        if way is not None:
            context.server.address = way
            data.ignore_connection = True
        elif is_hidden and judgement is not None and not is_never:
            data.ignore_connection = False  # another addon that passes it through cannot read the name either
        elif is_given or why_decrypt(context.client, settings) is None:
            data.ignore_connection = True
            _lead(context.server, request)
        if data.ignore_connection:
            if judgement is not None:
                self._runtime.record_connection(judgement)
            self._relayed.note(
                context.client, request, judgement, None if is_given else partial(_decrypted, why_decrypt)
            )

    def _why_decrypt(
        self,
        request: Request,
        sni: str | None,
        address: connection.Address,
        protocols: Sequence[bytes],
        client: connection.Client,
        settings: GroupSettings,
    ) -> str | None:
        """Why the policy has a connection decrypted, for people; ``None`` if nothing in it could change what is done.

        In reverse mode, the address is the administrator's, and says nothing about what is asked for. Pages of the
        proxy itself need decryption. A client that looks up addresses itself may ask for another name on a connection
        that can carry several requests at once (RFC 9113, 9.1.1): only its inside shows that name.
        """
        engine, is_readable = self._runtime.engine, request.fault is None
        if settings.decrypt == NEVER or (is_readable and way_through(settings.pass_through, request, sni, address)):
            return None
        if settings.decrypt not in BY_NEED or engine is None or naming_of(client.proxy_mode) is Naming.ADMINISTRATOR:
            return "the policy says so"
        if not self._pages().isdisjoint(host.lower() for host in request.hosts):
            return "it is for a page of the proxy"
        if settings.mode == "off":
            return None
        if request.destination is not None and not _SHARED.isdisjoint(protocols):
            return "it may be used for another name"
        return engine.why_decrypt(request, client=client_of_connection(client))

    def next_layer(self, nextlayer: layer.NextLayer) -> Awaitable[None] | None:
        """mitmproxy's hook of the same name."""
        return begin(self._next_layer(nextlayer))

    async def held(self, held: BegunCoroutine[Any]) -> None:
        """Our own hook: wait until raw data is decided that a client has begun to send."""
        await held

    # -- what nobody reads, decided when it begins -----------------------------------------------------------------

    def begun(self, nextlayer: layer.NextLayer) -> Awaitable[None] | None:
        """Our own hook: a connection to a known destination begins."""
        return begin(self._begun(nextlayer))

    async def _begun(self, nextlayer: layer.NextLayer) -> None:
        """Relay what nobody has to read, end what can be nothing else and does not pass, and wait for all others."""
        context = nextlayer.context
        try:
            if not self._can_be_other(context):
                return
            if self._loops.is_loop(context.client, context.server):
                nextlayer.layer = RefusedAtStart(context)
                return
            early = await self._early_of(context)
            if early.passes:
                nextlayer.layer = self._relay(context)
            elif early.request.port in (OTHER_TLS_PORTS if context.server.tls else OTHER_PORTS):
                self._refuse(early, "its port is no port of the web")
                nextlayer.layer = RefusedAtStart(context)
            else:
                self.end_if_quiet(nextlayer)
        except Exception as error:
            if not self._lets_pass(error):
                nextlayer.layer = RefusedAtStart(context)

    def socks(self, request: SocksRequest) -> Awaitable[None] | None:
        """Our own hook: a client of SOCKS has named its destination."""
        return begin(self._socks(request))

    async def _socks(self, request: SocksRequest) -> None:
        context = request.context
        try:
            address = context.server.address
            if self._can_be_other(context) and address is not None and address[1] in OTHER_PORTS:
                early = await self._early_of(context)
                request.is_refused = not early.passes
                if request.is_refused:
                    self._refuse(early, "its port is no port of the web")
        except Exception as error:
            request.is_refused = not self._lets_pass(error)

    def _can_be_other(self, context: Context) -> bool:
        """Whether a connection may carry what nobody reads, and the filter has to decide that.

        In reverse mode, the administrator says what it carries. DNS is read, but for that of tunnels.
        """
        client, server = context.client, context.server
        naming = naming_of(client.proxy_mode)
        if client.transport_protocol != "tcp" or server.address is None or self._runtime.mode == "off":
            return False
        if naming is Naming.ADMINISTRATOR or (server.tls and client.alpn in HTTP_ALPNS):
            return False
        return server.address[1] not in _DNS_PORTS or isinstance(client.proxy_mode, TUNNELLING)

    def _relay(self, context: Context) -> EarlyRelay:
        assert context.server.address is not None
        host, port, *_ = context.server.address
        is_other = port in OTHER_TLS_PORTS if context.server.tls else port not in CLIENT_FIRST_PORTS
        is_shown = ctx.options.show_ignored_hosts or fits(ctx.options.tcp_hosts, host)
        decide = partial(self._turn, context, has_flow=is_shown)
        patience = _OTHER_PATIENCE if is_other and context.server.via is None else _FIRST_PATIENCE
        return EarlyRelay(context, decide, patience, has_flow=is_shown)

    async def _turn(self, context: Context, said: Said, *, has_flow: bool) -> Turn | None:
        """What becomes of an early relay; ``None`` until more is said."""
        is_blocked = False
        try:
            if not said.is_greeted and said.sent:
                begins_raw = is_raw_beginning(context, said)
                if begins_raw is None:
                    return None
                if not begins_raw:
                    return Turn.READ if said.is_readable else Turn.END
            early = await self._early_of(context)
            is_blocked = not early.passes
            if is_blocked:
                self._refuse(early, "it is neither HTTP nor TLS")
                return Turn.END
            if not has_flow:  # else another hook does it
                if early.judgement is not None:
                    self._runtime.record_connection(early.judgement)
                self._relayed.note(context.client, early.request, early.judgement, partial(self._why_unnamed, context))
        except Exception as error:
            is_blocked = not self._lets_pass(error, is_blocked=is_blocked)
            if not is_blocked:
                self._note_undecided(context.client, context.server)
        return Turn.END if is_blocked else Turn.RELAY

    async def _early_of(self, context: Context) -> _Early:
        client, server = context.client, context.server
        assert server.address is not None
        names = inner_name(client, server)
        request = request_of_connection(b"tcp", server.address, names, client.proxy_mode)
        return await self._early(request, client, server.address, is_inner=server.tls)

    async def _early(
        self, request: Request, client: connection.Client, address: connection.Address, *, is_inner: bool = False
    ) -> _Early:
        """Decide a connection as one that nobody reads: with what policy or options name, rules alone speak against it.

        In TLS that is decrypted, nothing is passed through: one of its names is not.
        """
        who, engine = client_of_connection(client), self._runtime.engine
        settings = self._runtime.settings(who)
        is_passed = not is_inner and way_through(settings.pass_through, request, None, address) is not None
        is_named = is_passed or is_raw(to_bytes(address[0]), address[1], is_inner=is_inner)
        judged = request if is_named else request._replace(fault=request.fault or _OTHER)
        judgement = await self._judge(judged, who)
        if engine is not self._runtime.engine:  # while somebody was asked
            return await self._early(request, client, address, is_inner=is_inner)
        return _Early(request, judgement, is_named)

    def _why_unnamed(self, context: Context, client: connection.Client, settings: GroupSettings) -> str | None:
        """Why what nobody reads would end now; ``None`` if it would not, for all that is not in rules."""
        engine, address, server = self._runtime.engine, context.server.address, context.server
        if address is None or engine is None or engine.policy.unparsable not in STOPPING:
            return None
        request = request_of_connection(b"tcp", address, inner_name(client, server), client.proxy_mode)
        is_passed = not server.tls and way_through(settings.pass_through, request, None, address) is not None
        is_named = is_passed or is_raw(to_bytes(address[0]), address[1], is_inner=server.tls)
        return None if is_named else "nobody passes it through now"

    def _refuse(self, early: _Early, why: str) -> None:
        """Record that a connection ends, and say what to write if nothing but that is missing."""
        assert early.judgement is not None
        self._runtime.record_connection(early.judgement)
        self._hint(early, why)

    def _hint(self, early: _Early, why: str) -> None:
        judgement = early.judgement
        if judgement is None or early.is_named or judgement.decision.fault != _OTHER:
            return
        engine = self._runtime.engine
        passed, group = judgement.settings.pass_through, judgement.decision.group
        entry = entry_of(early.request)
        place = passed.place or (engine.policy.source if engine is not None else None)
        line = f"pass-through: ['{entry}']" if passed.place is None else f"- '{entry}'"
        where = f"to {place}" if passed.place is None else f"to pass-through in {place}"
        who = f"a client in group {group}" if group else "a client"
        self._hints.say(
            (group, entry),
            f"ended a connection of {who} to {entry}: {why}, and nobody passes it through; "
            f"to do so, add {where}:  {line}",
        )

    def end_if_quiet(self, nextlayer: layer.NextLayer, seconds: float | None = None) -> None:
        """End a connection, after a while, if nothing has come over it by which it could be decided."""
        address = nextlayer.context.server.address
        if seconds is None:
            seconds = QUIET_ON_WEB if address is not None and address[1] in _WEB_PORTS else QUIET
        asyncio.get_running_loop().call_later(seconds, self._look_at_quiet, ref(nextlayer), seconds)

    def _look_at_quiet(self, reference: ref[layer.NextLayer], seconds: float) -> None:
        nextlayer = reference()
        if nextlayer is None or is_gone(nextlayer.context.client):
            return
        chosen, context = nextlayer.layer, nextlayer.context
        is_undecided = chosen is None or (isinstance(chosen, Held) and not chosen.is_decided)
        if not is_undecided:
            return
        if nextlayer._paused or getattr(chosen, "_paused", None):  # somebody is asked
            self.end_if_quiet(nextlayer, seconds)
            return
        asyncio.get_running_loop().create_task(self._end_quiet(context, seconds), name="hushlist: a quiet connection")

    async def _end_quiet(self, context: Context, seconds: float) -> None:
        try:
            early = await self._early_of(context)
            if early.judgement is not None:
                self._refuse(early, f"nothing has come in {seconds:.0f} seconds that is HTTP or TLS")
        except Exception as error:
            self._runtime.failure_policy.lets_pass(error, "connection", is_blocked=True)
        finally:
            end_connection(context.client)

    # -- what a client has begun to send ---------------------------------------------------------------------------

    async def _next_layer(self, nextlayer: layer.NextLayer) -> None:
        """Decide raw connections: mitmproxy calls its other hooks for them too late, or never.

        They are those of ``ignore_hosts``, ``allow_hosts`` and ``tcp_hosts``, all raw data on its way to another
        proxy, and datagrams in which nothing can be read: a VPN's, or QUIC for another protocol than HTTP.
        """
        try:
            if nextlayer.layer is None and (addon := ctx.master.addons.get("nextlayer")) is not None:
                addon.next_layer(nextlayer)
            chosen, context = nextlayer.layer, nextlayer.context
            decide: Callable[[list[bytes]], Coroutine[None, None, layer.Layer | None]]
            if isinstance(chosen, HttpLayer) and self._can_be_other(context):
                decide = partial(self._layer_of_http, chosen)
            elif isinstance(chosen, Raw):
                decide = partial(self._layer_of_raw, chosen)
            else:
                return
            if self._loops.is_loop(context.client, context.server):
                nextlayer.layer = Refused(context) if isinstance(chosen, Raw) else chosen
                return
            decided = await decide(sent_by(context.client, nextlayer.events))
            nextlayer.layer = decided or Held(chosen, decide)
        except Exception as error:
            if not self._lets_pass(error):
                nextlayer.layer = Refused(nextlayer.context)

    async def _layer_of_http(self, chosen: HttpLayer, sent: list[bytes]) -> layer.Layer | None:
        """The layer that reads HTTP, if a client has begun with it; ``None`` until it has sent enough.

        mitmproxy takes for HTTP whatever is nothing else, and waits for the end of a head.
        """
        context, data = chosen.context, b"".join(sent)
        fault, is_http = _OTHER, begins_http(data)
        if begins_tls(data):
            if len(data) < _SHORTEST_TLS:
                return None
            if starts_like_tls_record(data):
                context.layers.remove(chosen)
                return LaterAsked(context)
            fault, is_http = _HIDDEN, False
        if is_http is not False:
            return chosen if is_http else None
        early = await self._early_of(context)
        if fault == _HIDDEN or early.is_named:
            who = client_of_connection(context.client)
            early = replace(early, judgement=await self._judge(early.request._replace(fault=fault), who))
        if early.passes:
            return chosen
        self._refuse(early, "it is neither HTTP nor TLS")
        return Refused(context)

    async def _layer_of_raw(self, chosen: Raw, sent: list[bytes]) -> layer.Layer | None:
        """The layer that passes raw data, or ends the connection; ``None`` until the client has sent enough."""
        context = chosen.context
        is_blocked = False
        try:
            judgement = await self._judge_raw(chosen, sent)
            if judgement is not None:
                is_blocked = judgement.stops
                if not is_blocked:
                    _lead(context.server, judgement.request)
                if is_blocked or is_ignored(chosen):
                    self._runtime.record_connection(judgement)
                if not is_blocked:
                    self._relayed.note(context.client, judgement.request, judgement)
        except IncompleteError:
            return None
        except Exception as error:
            is_blocked = not self._lets_pass(error, is_blocked=is_blocked)
            if not is_blocked:
                self._note_undecided(context.client, context.server)
        return Refused(context) if is_blocked else chosen

    def _note_undecided(self, client: connection.Client, server: connection.Server) -> None:
        """Note raw data that passes while nothing is decided, by what is known of it without reading it."""
        if server.address is not None:
            names = inner_name(client, server)
            protocol = client.transport_protocol.encode()
            self._relayed.note(client, request_of_connection(protocol, server.address, names, client.proxy_mode), None)

    async def _judge_raw(self, chosen: Raw, sent: list[bytes]) -> Judgement | None:
        """The judgement of raw data, if it is made here."""
        context, is_hidden, is_quic = chosen.context, is_ignored(chosen), isinstance(chosen, RawQuicLayer)
        client, engine = client_of_connection(context.client), self._runtime.engine
        settings = self._runtime.settings(client)
        if context.server.address is None:
            return None
        if settings.mode == "off":
            self._note_undecided(context.client, context.server)
            return None
        try:
            hello = None if is_quic else read_hello(context, sent)
            fault = _HIDDEN if hello is not None and hides_name(hello) else None
        except ValueError:
            hello, fault = None, _HIDDEN
        if not is_hidden and is_unseen(context.client, context.server.address, settings.pass_through):
            fault = fault or _UNSEEN
        if not (is_hidden or is_quic) and context.server.via is None and hello is None and fault is None:
            return None  # another hook decides in time
        if is_hidden and not sent:
            raise IncompleteError
        scheme = b"https" if hello is not None else context.client.transport_protocol.encode()
        names = [*inner_name(context.client, context.server), *names_of(None if hello is None else hello.sni)]
        host = _HOST_LINE.search(b"".join(sent)) if hello is None else None
        if host is not None:
            names.append(host[1].strip().decode("utf-8", "surrogateescape"))
        request = request_of_connection(scheme, context.server.address, names, context.client.proxy_mode)
        judgement = await self._judge(request._replace(fault=fault or request.fault), client)
        is_same = engine is self._runtime.engine  # else another policy came while somebody was asked
        return judgement if is_same else await self._judge_raw(chosen, sent)

    def raw(self, flow: tcp.TCPFlow | udp.UDPFlow) -> Awaitable[None] | None:
        """mitmproxy's hooks ``tcp_start`` and ``udp_start``."""
        return begin(self._raw(flow))

    async def _raw(self, flow: tcp.TCPFlow | udp.UDPFlow) -> None:
        """Decide raw TCP or UDP before mitmproxy connects to a server."""
        server, client = flow.server_conn, flow.client_conn
        if not flow.live or server.address is None:
            return
        scheme = b"tcp" if isinstance(flow, tcp.TCPFlow) else b"udp"
        switched = self._switching.get(client)
        is_blocked = False
        try:
            if switched is None:
                names = inner_name(client, server)
                request, why_end = request_of_connection(scheme, server.address, names, client.proxy_mode), None
            else:
                request, why_end = switched
            judgement = None
            if self._runtime.mode != "off":
                judgement = await self._judge(request, client_of_connection(client))
            if judgement is None:
                if switched is not None:
                    self._relayed.note(client, request, None, why_end)
                return
            is_blocked = judgement.stops
            if is_blocked:
                self._refused[server] = str(judgement.decision)
                if server.connected:
                    end_connection(client)
            flow_outcome.annotate(flow, self._runtime.record_connection(judgement))
            if not is_blocked:
                _lead(server, request)
                self._relayed.note(client, request, judgement, why_end)
        except Exception as error:
            if self._lets_pass(error, server, is_blocked=is_blocked):
                self._note_undecided(client, server)

    def server_connect(self, data: ServerConnectionHookData) -> None:
        """Stop connections to refused servers."""
        why = self._refused.get(data.server)
        if why is not None:
            data.server.error = f"blocked by hushlist: {why}"

    def _lets_pass(
        self, error: Exception, server: connection.Server | None = None, *, is_blocked: bool = False
    ) -> bool:
        """Whether a connection passes after a failure; if not, its server is refused."""
        if server is not None:
            self._refused.setdefault(server, "the filter failed")  # first, since the rest may fail, too
        passes = self._runtime.failure_policy.lets_pass(error, "connection", is_blocked=is_blocked)
        if passes and server is not None:
            self._refused.pop(server, None)
        return passes

    async def _judge(self, request: Request, client: Client) -> Judgement | None:
        judgement = self._runtime.judge(request, client, is_connection=True)
        return await self._runtime.confirmed(judgement, is_connection=True)

    def _shows_page(self, judgement: Judgement) -> bool:
        """Whether a block page can be shown in the tunnel."""
        if self._runtime.engine is None:
            return True
        decision, request, decrypt = judgement.decision, judgement.request, judgement.settings.decrypt
        pattern = None if decision.winner is None else decision.winner.rule.pattern
        if decision.fault is not None or (isinstance(pattern, Check) and not pattern.is_about_host):
            return False
        if request.port < _WELL_KNOWN and request.port not in _WEB_PORTS:
            return False
        if decrypt == NEVER or (
            decrypt == WITHOUT_PAGES
            and self._pages().isdisjoint(host.lower() for host in request.hosts)
            and self._runtime.engine.why_decrypt(request, client=judgement.client) is None
        ):
            return False
        host = request.hosts[0]
        passed = judgement.settings.pass_through
        return not (passed.covers_at(canonical_host(host), request.port) or is_raw(host, request.port))

    def _pages(self) -> set[bytes]:
        """The names of pages that the proxy serves: those of parts, and mitmproxy's, with its certificate authority."""
        mitmproxy = [to_bytes(ctx.options.onboarding_host)] if "onboarding_host" in ctx.options else []
        return {*map(str.encode, self._parts.hosts), *mitmproxy}


def _lead(server: connection.Server, request: Request) -> None:
    """Connect to the name that was decided, if the client named only an address as its destination."""
    name = name_to_ask(request)
    if name is not None and server.address is not None and not server.connected:
        server.address = (name, server.address[1])


def _decrypted(why_decrypt: WhyEnd, client: connection.Client, settings: GroupSettings) -> str | None:
    why = why_decrypt(client, settings)
    return None if why is None else f"it would be decrypted now: {why}"
