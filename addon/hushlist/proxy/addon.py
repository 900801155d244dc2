"""The addon: its options, and which part handles which of mitmproxy's hooks."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING

from mitmproxy import connection, ctx, http
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.core.errors import Lines, logger_of
from hushlist.core.system.package_code import loaded_digest
from hushlist.core.system.socket_address import parse_socket_address
from hushlist.core.url.comparison import PERMANENT
from hushlist.proxy.addon_options import AddonOptions, declare_options
from hushlist.proxy.bodies_flow import BodiesFlow
from hushlist.proxy.bounds.bounded_input import bound_input
from hushlist.proxy.bounds.bounded_streams import close_ports
from hushlist.proxy.bounds.bounded_websocket import keep_last
from hushlist.proxy.commands import Commands
from hushlist.proxy.connections.alternative_services import CHALLENGE, hide_challenge, keep_here
from hushlist.proxy.connections.certificate_pinning import CertificatePinning
from hushlist.proxy.connections.client_connections import end_all, end_tunnelled, refuse_forged
from hushlist.proxy.connections.dns_queries import DnsQueries, ask_filter_first
from hushlist.proxy.connections.name_lookups import NameLookups
from hushlist.proxy.connections.open_files import OpenFiles
from hushlist.proxy.connections.own_proxies import OwnProxies
from hushlist.proxy.connections.proxy_protocol import ProxyProtocol
from hushlist.proxy.connections.relayed_connections import RelayedConnections
from hushlist.proxy.connections.server_handshakes import ServerHandshakes
from hushlist.proxy.connections.tunnels import Tunnels
from hushlist.proxy.connections.turns import Turns
from hushlist.proxy.flow_outcome import HIDDEN, hide, is_open
from hushlist.proxy.flow_request import SelfConnections
from hushlist.proxy.hook_calls import ask_the_filter, begin, end_what_is_open, filter_is_gone
from hushlist.proxy.request_handler import RequestHandler
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service.connection_lines import ConnectionLines
from hushlist.proxy.service.graceful_stop import GracefulStop
from hushlist.proxy.service.health import HEALTH_PATHS, HealthPort, why_unready
from hushlist.proxy.service.policy_watch import PolicyWatch
from hushlist.proxy.service.script_watch import ScriptWatch
from hushlist.proxy.service.start_errors import ENDS_THE_START, count_reasons_alone
from hushlist.proxy.service.upkeep import Upkeep

if TYPE_CHECKING:
    from mitmproxy.addonmanager import AddonManager, Loader

logger = logger_of(__name__)


class LastLook:
    """Decides what the addons behind the filter, mitmproxy's own among them, have made of a request."""

    def __init__(self, requests: RequestHandler) -> None:
        self._requests = requests

    def request(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """mitmproxy's hook, called behind that of all others."""
        return self._requests.filter_again(flow) if is_open(flow) else None


class Hushlist:
    """The object that a script puts into ``addons``: only one, since mitmproxy calls every addon for every hook."""

    name = "hushlist"

    def __init__(self) -> None:
        self._loops = loops = SelfConnections()
        self.runtime = Runtime(loops)
        self.parts = self.runtime.parts
        self.policy_watch = PolicyWatch(self.runtime)
        names, pinning = DnsQueries(self.runtime), CertificatePinning(self.runtime)
        self._bodies_flow = BodiesFlow()
        self._requests = RequestHandler(self.runtime, loops, self.parts)
        self._last_look = LastLook(self._requests)
        self._relayed = RelayedConnections(self.runtime, self.parts, self._requests)
        self._tunnels = Tunnels(self.runtime, loops, self._relayed, self.parts)
        self._stop = GracefulStop(self.runtime)
        self._health = HealthPort(self.runtime)
        self._upkeep = Upkeep(self.runtime)
        self._connection_lines = ConnectionLines(self.runtime)
        #: the option's value; mitmproxy copies a value each time it is read
        self._learns = True
        self._is_running = False
        self._files, self._names = OpenFiles(), NameLookups()
        self._proxy_protocol, self._turns = ProxyProtocol(), Turns()
        self._options = AddonOptions(self.runtime, self.policy_watch, self._proxy_protocol)
        self._own_proxies = OwnProxies(self.runtime, self._proxy_protocol)
        self._script = ScriptWatch(self.runtime, Hushlist)
        self._handshakes = handshakes = ServerHandshakes(self.runtime)
        # mitmproxy's hooks that one part handles alone; the others are methods below
        self.http_connect = self._tunnels.connect
        self.tls_clienthello = self._tunnels.client_hello
        self.tls_established_client = pinning.established
        self.tls_failed_client = pinning.failed
        self.tls_established_server = handshakes.established
        self.tls_failed_server = self.hushlist_tls_ended = handshakes.failed
        self.hushlist_unreached = handshakes.unreached
        self.next_layer = self._tunnels.next_layer
        self.hushlist_held = self._tunnels.held
        self.hushlist_begun = self._tunnels.begun
        self.hushlist_socks = self._tunnels.socks
        self.tcp_start = self.udp_start = self._tunnels.raw
        self.websocket_message = self.tcp_message = self.udp_message = keep_last
        self.dns_request = names.ask
        self.dns_response = names.answer
        self.error = hide
        #: all of them; what a script has put in the place of one differs
        self._made = dict(vars(self))

    def take_over(self, before: Hushlist) -> None:
        """Go on with the parts of another one, which is not asked any more; it has been loaded, and runs."""
        addons, mine = ctx.master.addons, vars(self)
        for name, made in before._made.items():
            is_hook = not name.startswith("_") and name not in ("runtime", "policy_watch")
            now = made if is_hook else vars(before)[name]
            if mine.get(name) is self._made.get(name):
                mine[name] = now
            self._made[name] = now
        addons.lookup.pop(before.name, None)
        addons.lookup[self.name] = self
        ask_the_filter(addons, self)

    # -- options -------------------------------------------------------------------------------------------------

    def load(self, loader: Loader) -> None:
        """mitmproxy's hook: declare the options and the commands."""
        declare_options(loader)
        self._connection_lines.begin()
        count_reasons_alone(loader.master.addons)
        loader.master.commands.collect_commands(Commands(self.runtime, self.policy_watch))
        ask_filter_first(loader.master.addons)
        bound_input()
        self.parts.begin("load")
        loaded_digest()
        ask_the_filter(loader.master.addons, self)
        with suppress(RuntimeError):  # another program loads it before it has an event loop
            asyncio.get_running_loop().call_soon(self._script.begin, self)

    def configure(self, updated: set[str]) -> None:
        """mitmproxy's hook: take options into use; ``OptionsError`` as for ``AddonOptions.use``."""
        try:
            self._options.use(updated, is_running=self._is_running)
        finally:
            # After the error, mitmproxy restores the options, and calls again.
            self.runtime.mode, self._learns = ctx.options.hushlist_mode, ctx.options.hushlist_learn
            self._bodies_flow.configure()
            self.parts.begin("configured")

    # -- life ----------------------------------------------------------------------------------------------------

    def running(self) -> None:
        """mitmproxy's hook: begin to watch the files, and what is relayed."""
        self._is_running = True
        # Objects that exist now live to the end. Without this, the collector would visit them again and again, which
        # costs a request more than its decision.
        gc.collect()
        gc.freeze()
        ctx.master.addons.chain.append(self._last_look)
        self.policy_watch.run()
        self._names.run()
        self._relayed.run()
        self._open_health_port()
        self._upkeep.run()
        self.parts.begin("running")
        if self.runtime.siblings is not None:
            self.runtime.siblings.answers["health"] = self._own_health
            self.runtime.siblings.run(why_unready(self.runtime))

    async def _own_health(self, path: str) -> bytes:
        """What another worker wants to know of this one."""
        return HEALTH_PATHS[path](self.runtime).body

    def _open_health_port(self) -> None:
        """Answer load balancers, and take the signal that ends the program; a port that is taken ends mitmdump."""
        address = ctx.options.hushlist_health
        try:
            if address:
                self._health.open(parse_socket_address(address))
        except OSError as error:
            text = "hushlist: hushlist_health cannot be %s: %s"
            logger.error(text, address, error, extra=ENDS_THE_START)  # noqa: TRY400
        self._stop.run(is_balanced=bool(address))

    def done(self) -> Awaitable[None] | None:
        """mitmproxy's hook: end what is in tunnels, log the summary, stop all threads, and write all data."""
        if ctx.master.should_exit.is_set():
            return self._done()
        self._close()
        return None

    async def _done(self) -> None:
        await end_tunnelled()
        ctx.options.update(server=False)
        await end_all()
        if (closing := close_ports()) is not None:
            await closing
        self._close()

    def _close(self) -> None:
        self._connection_lines.end()
        for summary in self.parts.summary:
            if words := summary():
                logger.info("hushlist: %s", Lines(words))
        self._leave(ctx.master.addons)
        self._stop.close()
        for leave in self.parts.leave:
            leave()
        self._upkeep.close()
        self._health.close()
        self._relayed.close()
        self._names.close()
        self.policy_watch.close()
        self.runtime.close()
        if self.runtime.siblings is not None:
            self.runtime.siblings.close()

    def _leave(self, addons: AddonManager) -> None:
        """Let nothing pass from now on; mitmproxy may go on although the filter was taken out of it."""
        was_asked = filter_is_gone(addons, self)
        self._script.close()
        addons.chain = [addon for addon in addons.chain if addon is not self._last_look]
        if was_asked and self._is_running and addons.get(self.name) is not self:
            logger.error("hushlist: the filter was taken out of mitmproxy: everything is refused until it is back")
            end_what_is_open()

    # -- traffic -------------------------------------------------------------------------------------------------

    def client_connected(self, client: connection.Client) -> Awaitable[None] | None:
        """mitmproxy's hook: find out who it is, before it can send anything."""
        if self._options.has_ended_start:  # mitmproxy, which listens already, would only trace back
            client.error = "the start has failed"
        self._stop.connected(client)
        refuse_forged(client)
        self._files.connected(client, client)
        return self._proxy_protocol.connected(client)

    def requestheaders(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """mitmproxy's hook: decide before any of the body, which may be streamed, goes on."""
        turn = self._turns.wait(flow.client_conn)
        return self._requestheaders(flow) if turn is None else self._in_turn(flow, turn)

    async def _in_turn(self, flow: http.HTTPFlow, turn: Awaitable[None]) -> None:
        await turn
        if (deciding := self._requestheaders(flow)) is not None:
            await deciding

    def _requestheaders(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        self._stop.note(flow)
        parts = self.parts
        for answer in parts.answer if flow.request.data.path.startswith(parts.targets) else parts.answer_any:
            if (answering := answer(flow)) is not None:
                return begin(self._answered(flow, answering))
        return self._decide(flow)

    async def _answered(self, flow: http.HTTPFlow, answering: Awaitable[None]) -> None:
        await answering
        if (deciding := self._decide(flow)) is not None:
            await deciding

    def _decide(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        self._bodies_flow.stream_request(flow)
        if flow.request.headers.get("upgrade", "websocket").lower() != "websocket":
            return begin(self._answer_upgrade(flow))
        return self._requests.filter(flow, again=True)

    async def _answer_upgrade(self, flow: http.HTTPFlow) -> None:
        if (deciding := self._requests.filter(flow, again=True)) is not None:
            await deciding
        await self._tunnels.upgrade(flow)

    def request(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """mitmproxy's hook: decide again if the request has changed; take a page's form."""
        if HIDDEN in flow.metadata:
            for take in self.parts.take:
                if (taking := take(flow)) is not None:
                    return taking
            hide(flow)
        deciding = self._requests.filter_again(flow)
        return self._request(flow) if deciding is None else self._decided(flow, deciding)

    async def _decided(self, flow: http.HTTPFlow, deciding: Awaitable[None]) -> None:
        await deciding
        if (answering := self._request(flow)) is not None:
            await answering

    def _request(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """The first part that answers a decided request does."""
        parts = self.parts
        try:
            for request in parts.request if flow.response is None else (*parts.refused_body, *parts.request):
                if (answering := request(flow)) is not None:
                    return self._or_refuse(flow, answering)
        except Exception as error:
            self.runtime.failure_policy.act(flow, error)
        return None

    async def _or_refuse(self, flow: http.HTTPFlow, answering: Awaitable[None]) -> None:
        try:
            await answering
        except Exception as error:
            self.runtime.failure_policy.act(flow, error)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """mitmproxy's hook: remove headers that lead past the filter, before a body that may be streamed."""
        response = flow.response
        assert response is not None
        keep_here(flow, response.headers, self.runtime)
        if response.data.status_code == CHALLENGE:
            hide_challenge(flow, self.runtime)
        if self._handshakes.asking:
            self._handshakes.answered(flow)
        if self.runtime.is_stopping:
            self._stop.answered(flow)
        try:
            for look_at in self.parts.responseheaders:
                look_at(flow)
        except Exception as error:
            if not self.runtime.failure_policy.lets_pass(error, "answer") and flow.killable:
                flow.kill()
        self._bodies_flow.stream_answer(flow)

    def response(self, flow: http.HTTPFlow) -> None:
        """mitmproxy's hook: remove the same from trailers; learn from an origin's redirects."""
        response = flow.response
        assert response is not None
        if self.runtime.is_stopping:
            self._stop.answered(flow, is_sent=bool(response.stream))
        if flow.metadata:
            hide(flow)
        if response.data.trailers is not None:
            keep_here(flow, response.data.trailers, self.runtime)
        if self._learns and response.data.status_code in PERMANENT:
            self._requests.learn(flow)

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """mitmproxy's hook: know the connection again; end one that leads to another proxy of this machine."""
        self._loops.note(data)
        self._own_proxies.connected(data)
        for connected in self.parts.server_connected:
            connected(data)
        self._files.connected(data.client, data.server)  # last: what refuses must not depend on it

    def server_connect(self, data: ServerConnectionHookData) -> Awaitable[None] | None:
        """mitmproxy's hook: do not connect to refused servers; connect to the hosts of safe search."""
        self._names.note(data.client)
        self._tunnels.server_connect(data)
        return begin(self._connect(data)) if self.parts.server_connect else None

    async def _connect(self, data: ServerConnectionHookData) -> None:
        for connect in self.parts.server_connect:
            if (waits := connect(data)) is not None:
                await waits

    def http_connect_upstream(self, flow: http.HTTPFlow) -> None:
        """mitmproxy's hook: a tunnel is asked of an upstream proxy."""
        for connect in self.parts.http_connect_upstream:
            connect(flow)
