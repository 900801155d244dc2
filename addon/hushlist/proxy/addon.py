"""The addon: its options, and which part handles which of mitmproxy's hooks."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mitmproxy import connection, ctx, exceptions, http
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.utils import human

from hushlist.core.errors import Lines, did_you_mean, logger_of, printable
from hushlist.core.policy import default_policy
from hushlist.core.policy.groups import MODES
from hushlist.core.policy.policy_file import PolicyError
from hushlist.core.system.authority_file import fault_of_authority
from hushlist.core.system.package_code import OTHER_MITMPROXY, loaded_digest
from hushlist.core.system.socket_address import parse_socket_address
from hushlist.core.url.comparison import PERMANENT
from hushlist.core.url.http_head import HEAD_LIMIT, HeadLimit
from hushlist.proxy.bodies_flow import STREAM, BodiesFlow
from hushlist.proxy.bounds.bounded_input import bound_input, not_taken
from hushlist.proxy.bounds.bounded_streams import close_ports
from hushlist.proxy.bounds.bounded_websocket import MESSAGE_LIMIT, MessageLimit, keep_last
from hushlist.proxy.commands import Commands
from hushlist.proxy.connections.alternative_services import CHALLENGE, hide_challenge, keep_here
from hushlist.proxy.connections.certificate_pinning import CertificatePinning
from hushlist.proxy.connections.client_connections import end_all, end_tunnelled, refuse_forged
from hushlist.proxy.connections.dns_queries import DnsQueries, ask_filter_first
from hushlist.proxy.connections.name_lookups import NameLookups
from hushlist.proxy.connections.open_files import OpenFiles
from hushlist.proxy.connections.own_proxies import OwnProxies
from hushlist.proxy.connections.proxy_protocol import ProxyProtocol, read_balancers
from hushlist.proxy.connections.relayed_connections import RelayedConnections
from hushlist.proxy.connections.server_handshakes import ServerHandshakes
from hushlist.proxy.connections.tunnels import Tunnels
from hushlist.proxy.connections.turns import Turns
from hushlist.proxy.flow_outcome import HIDDEN, hide, is_open
from hushlist.proxy.flow_request import SelfConnections, port_of_mode
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

#: how the names of our options begin
_OURS = "hushlist_"
#: lazy: no connection is made to an origin before its request is decided. No raw TCP: otherwise a line end before the
#: request makes mitmproxy take HTTP in a tunnel for another protocol, which passes unfiltered. Validation: otherwise
#: mitmproxy sends on what servers read in different ways, such as a space behind a header's name, or two lengths.
_REQUIRED: dict[str, object] = {"connection_strategy": "lazy", "rawtcp": False, "validate_inbound_headers": True}


#: options that bound what a peer may send: what is bounded, as it is by default, at least and at most; a description
_LIMITS: dict[str, tuple[HeadLimit | MessageLimit, str, str, str, str]] = {
    "hushlist_longest_head": (
        HEAD_LIMIT,
        "64k",
        "16k",
        "1m",
        "Octets of a request's header fields; a longer head is refused. Each connection that has begun a head may have "
        "four times of it kept, and the time for a decision grows with it.",
    ),
    "hushlist_longest_message": (
        MESSAGE_LIMIT,
        "16m",
        "64k",
        "1g",
        "Octets of a WebSocket's message; a longer one ends the connection. Each is kept until it has arrived whole, "
        "some four times, and the last messages of a connection up to as much once more.",
    ),
}


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
        self._start_error = ""
        #: options by which the authority is read, once it is checked
        self._authority: tuple[str, str] | None = None
        self._is_running = False
        self._options_before: dict[str, object] = {}
        self._files, self._names = OpenFiles(), NameLookups()
        self._proxy_protocol, self._turns = ProxyProtocol(), Turns()
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
        loader.add_option(
            "hushlist_policy",
            str,
            "",
            "The policy file (YAML) that names layers and lists. Empty: the one that the first start has "
            "written, or else the one that is shipped with Hushlist. "
            "It is read again when it or one of its lists changes.",
        )
        loader.add_option(
            "hushlist_mode",
            str,
            "block",
            "block: what the policy blocks is answered with a block page. "
            "tag: it passes, and is marked as what would be blocked. off: nothing is decided.",
            choices=MODES,
        )
        loader.add_option(
            "hushlist_learn",
            bool,
            True,
            "Learn from permanent redirects of an origin for which of its paths a trailing slash makes no difference, "
            "so that a rule for one fits the other. It is forgotten after a day, and when this is turned off.",
        )
        loader.add_option(
            "hushlist_stream",
            str,
            "on",
            "on: bodies go on while they arrive, and are in no recording. "
            "off: a body goes on when it has arrived whole, for who records bodies, and for scripts that change them.",
            choices=STREAM,
        )
        loader.add_option(
            "hushlist_proxy_protocol",
            Sequence[str],
            [],
            "Addresses and networks of load balancers that tell by the PROXY protocol whose connections they hand on. "
            "Whatever comes from there has to begin with such a header; nobody else is believed.",
        )
        for option, (_, usual, least, most, what) in _LIMITS.items():
            loader.add_option(option, str, usual, f"{what} From {least} to {most}, such as 128k or 1m.")
        loader.add_option(
            "hushlist_health",
            str,
            "",
            "ADDRESS:PORT at which /healthz and /readyz answer, for load balancers. Empty: no such port.",
        )
        loader.add_option(
            "hushlist_quiet", bool, False, "Leave out mitmproxy's own messages about each connection, but warnings."
        )
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
        """mitmproxy's hook: validate the options; state is swapped only after everything succeeded.

        An error at the start is logged, which ends mitmdump. A program that it does not end refuses every request,
        since there is no good state to keep.

        Raises:
            OptionsError: an option cannot be used; the message has every problem with file and line.
        """
        try:
            self._configure(updated)
        except exceptions.OptionsError as error:
            if self._is_running:
                raise
            if str(error) != self._start_error:  # mitmproxy calls twice for an option that waited for the script
                # the problems have file and line; a traceback would add nothing
                logger.error("hushlist: %s", Lines(error), extra=ENDS_THE_START)  # noqa: TRY400
            self._start_error = str(error)
        finally:
            # After the error, mitmproxy restores the options, and calls again.
            self.runtime.mode, self._learns = ctx.options.hushlist_mode, ctx.options.hushlist_learn
            self._bodies_flow.configure()
            self.parts.begin("configured")

    def _configure(self, updated: set[str]) -> None:
        if not self._is_running:
            _refuse_unknown()
            self._check_authority()
        if updated & {"hushlist_mode", *_REQUIRED}:
            self._require_options()
        for option in updated & _LIMITS.keys():
            _set_limit(option)
        if "hushlist_health" in updated:
            self._check_health_address()
        mode = ctx.options.hushlist_mode
        if mode not in MODES:
            raise exceptions.OptionsError(f"hushlist_mode cannot be {mode!r}, only one of {', '.join(MODES)}")
        is_first_needed = "hushlist_mode" in updated and mode != "off" and self.runtime.engine is None
        if "hushlist_proxy_protocol" in updated:
            try:
                self._proxy_protocol.balancers = read_balancers(ctx.options.hushlist_proxy_protocol)
            except ValueError as error:
                raise exceptions.OptionsError(f"hushlist_proxy_protocol: {error}") from None
        if "hushlist_policy" in updated or is_first_needed:
            try:
                self.policy_watch.load(_policy_path(), _own_ports())
            except PolicyError as error:
                # not "from error": mitmproxy prints the chain, which would add nothing
                raise exceptions.OptionsError(f"hushlist_policy cannot be used:\n{error}") from None
            self._require_patches()
        if "hushlist_learn" in updated and not ctx.options.hushlist_learn:
            self.runtime.redirect_memory.forget()

    def _check_authority(self) -> None:
        """Check that the authority which devices trust is whole, before mitmproxy makes another or fails by it.

        Once, as long as the options stay: mitmproxy calls for each option that a script adds, and to read a key takes
        longer than all else.

        Raises:
            OptionsError: it is not.
        """
        if "confdir" not in ctx.options:
            return
        passphrase = ctx.options.cert_passphrase if "cert_passphrase" in ctx.options else None
        options = (ctx.options.confdir, passphrase or "")
        if options == self._authority:
            return
        fault = fault_of_authority(Path(options[0]).expanduser(), options[1])
        if fault is not None:
            raise exceptions.OptionsError(f"confdir cannot be used: {fault}")
        self._authority = options

    def _require_patches(self) -> None:
        """Say what of mitmproxy could not be patched, before anything is served.

        Raises:
            OptionsError: the policy has ``require-patches``.
        """
        missing, engine = not_taken(), self.runtime.engine
        if not missing or self._is_running:
            return
        message = f"{OTHER_MITMPROXY}: {', '.join(missing)}"
        if engine is not None and engine.policy.requires_patches:
            raise exceptions.OptionsError(
                f"{message} (require-patches: on); see hushlist doctor for the one to install"
            )
        logger.warning("hushlist: %s", printable(message))

    def _require_options(self) -> None:
        """Set mitmproxy's options as ``_REQUIRED`` says while the filter is on; restore them afterwards."""
        if ctx.options.hushlist_mode == "off":
            before, self._options_before = self._options_before, {}
            ctx.options.update(**before)
            return
        other = {name: getattr(ctx.options, name) for name in _REQUIRED}
        other = {name: value for name, value in other.items() if value != _REQUIRED[name]}
        if other:
            self._options_before |= other
            ctx.options.update(**{name: _REQUIRED[name] for name in other})

    def _check_health_address(self) -> None:
        address = ctx.options.hushlist_health
        if self._is_running:
            raise exceptions.OptionsError("hushlist_health can only be given at the start")
        try:
            if address:
                parse_socket_address(address)
        except ValueError as error:
            raise exceptions.OptionsError(f"hushlist_health cannot be {address!r}: {error}") from None

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


def _set_limit(option: str) -> None:
    """Bound what peers may send, as an option says.

    Raises:
        OptionsError: it is no size, or one that is too small or too large.
    """
    bound, _, least, most, _ = _LIMITS[option]
    value = getattr(ctx.options, option)
    with suppress(ValueError):
        octets, at_least, at_most = (human.parse_size(size) or 0 for size in (value, least, most))
        if at_least <= octets <= at_most:
            bound.octets = octets
            return
    raise exceptions.OptionsError(f"{option} cannot be {value!r}, only a size from {least} to {most}")


def _refuse_unknown() -> None:
    """Refuse options that look like ours, and are none: mitmproxy itself would wait for somebody to declare them.

    Raises:
        OptionsError: with the nearest name.
    """
    names = sorted(name for name in ctx.options.keys() if name.startswith(_OURS))  # noqa: SIM118  it is no mapping
    for name in ctx.options.deferred:
        if name.startswith(_OURS):
            why = f"there is no option {name}{did_you_mean(name, names)}"
            raise exceptions.OptionsError(f"{why} (known: {', '.join(names)})")


def _own_ports() -> Iterator[int]:
    """The ports on which the proxy listens, or will."""
    for mode in ctx.options.mode:
        with suppress(ValueError):  # mitmproxy says so itself
            yield port_of_mode(ProxyMode.parse(mode)) or 0


def _policy_path() -> Path:
    path = ctx.options.hushlist_policy
    try:
        return Path(path).expanduser() if path else default_policy()
    except RuntimeError as error:
        raise exceptions.OptionsError(f"hushlist_policy cannot be {path!r}: {error}") from error
