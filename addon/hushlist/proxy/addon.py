"""The addon: its options, and which of its parts does what in each of mitmproxy's hooks."""

from __future__ import annotations

import gc
import logging
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING

from mitmproxy import ctx, dns, exceptions, http, tcp, tls, udp
from mitmproxy.proxy.layer import NextLayer
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.policy import shipped_policy
from hushlist.policy.groups import MODES
from hushlist.policy.policy import PolicyError
from hushlist.proxy.commands import Commands
from hushlist.proxy.distrust import Distrust
from hushlist.proxy.framing import frame, guard
from hushlist.proxy.in_force import InForce
from hushlist.proxy.live import LivePage, hide, is_asked
from hushlist.proxy.name_queries import NameQueries, ask_filter_first
from hushlist.proxy.own import OwnConnections
from hushlist.proxy.requests import Requests
from hushlist.proxy.responses import keep_here
from hushlist.proxy.summary import summary
from hushlist.proxy.tunnels import Tunnels

if TYPE_CHECKING:
    from mitmproxy.addonmanager import Loader

logger = logging.getLogger(__name__)

#: lazy: no connection is made to an origin before its request is decided. No raw TCP: in a tunnel that carries HTTP, a
#: line's end in front of the request would be enough for mitmproxy to take it for another protocol, and pass it unseen.
_REQUIRED: dict[str, object] = {"connection_strategy": "lazy", "rawtcp": False}


class Hushlist:
    """What a script puts into ``addons``: one object, since mitmproxy asks each for each of its hooks."""

    name = "hushlist"

    def __init__(self) -> None:
        self.in_force = InForce()
        self._own = OwnConnections()
        self._requests = Requests(self.in_force, self._own)
        self._name_queries = NameQueries(self.in_force)
        self._tunnels = Tunnels(self.in_force)
        self._distrust = Distrust(self.in_force, self._tunnels)
        self._live = LivePage(self.in_force, self._own)
        #: the options; mitmproxy copies the value of one each time that it is asked for it
        self._mode = "block"
        self._learns = True
        self._is_running = False
        self._options_before: dict[str, object] = {}

    # -- options -------------------------------------------------------------------------------------------------

    def load(self, loader: Loader) -> None:
        """mitmproxy's hook: declare the options and the commands."""
        loader.add_option(
            "hushlist_policy",
            str,
            "",
            "The policy file (YAML) that names layers and lists. Empty: the one that is shipped with Hushlist. "
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
        loader.master.commands.collect_commands(Commands(self.in_force))
        ask_filter_first(loader.master.addons)

    def configure(self, updated: set[str]) -> None:
        """mitmproxy's hook: validate the options; state is swapped only after everything succeeded.

        At the start there is no good state to keep: the error is logged, which ends mitmdump, and where it does not
        end, every request is refused.

        Raises:
            OptionsError: an option cannot be used; the message has every problem with file and line.
        """
        try:
            self._configure(updated)
        except exceptions.OptionsError as error:
            if self._is_running:
                raise
            # the problems say where; the traceback that mitmproxy prints would say nothing more
            logger.error("hushlist: %s", error)  # noqa: TRY400
        finally:
            # Where the error is raised, mitmproxy takes the options back, and calls again.
            self._mode, self._learns = ctx.options.hushlist_mode, ctx.options.hushlist_learn

    def _configure(self, updated: set[str]) -> None:
        if updated & {"hushlist_mode", *_REQUIRED}:
            self._require_options()
        mode = ctx.options.hushlist_mode
        if mode not in MODES:
            raise exceptions.OptionsError(f"hushlist_mode cannot be {mode!r}, only one of {', '.join(MODES)}")
        is_first_needed = "hushlist_mode" in updated and mode != "off" and self.in_force.engine is None
        if "hushlist_policy" in updated or is_first_needed:
            try:
                self.in_force.load(_policy_path())
            except PolicyError as error:
                # not "from error": mitmproxy prints the chain, and the problems say where
                raise exceptions.OptionsError(f"hushlist_policy cannot be used:\n{error}") from None
        if "hushlist_learn" in updated and not ctx.options.hushlist_learn:
            self.in_force.learned.forget()

    def _require_options(self) -> None:
        """While the filter is on, mitmproxy has to run as ``_REQUIRED`` says; then, as it was before."""
        if ctx.options.hushlist_mode == "off":
            before, self._options_before = self._options_before, {}
            ctx.options.update(**before)
            return
        other = {name: getattr(ctx.options, name) for name in _REQUIRED}
        other = {name: value for name, value in other.items() if value != _REQUIRED[name]}
        if other:
            self._options_before |= other
            ctx.options.update(**{name: _REQUIRED[name] for name in other})

    # -- life ----------------------------------------------------------------------------------------------------

    def running(self) -> None:
        """mitmproxy's hook: from now on the files are watched."""
        self._is_running = True
        # What is there now stays to the end: without this, the collector would look at it again and again, which costs
        # a request more than its decision.
        gc.collect()
        gc.freeze()
        self.in_force.run()

    def done(self) -> None:
        """mitmproxy's hook: say what it came to; leave nothing running, and nothing unwritten."""
        words = summary(self.in_force)
        if words:
            logger.info("hushlist: %s", words)
        self.in_force.close()

    # -- traffic -------------------------------------------------------------------------------------------------

    def requestheaders(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """mitmproxy's hook: decide before any of the body, which may be streamed, goes on."""
        if is_asked(flow):
            return self._live.answer(flow, self._mode)
        self._requests.filter(flow, self._mode, again=True)
        if self._mode != "off":
            guard(flow)
        return None

    def request(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """mitmproxy's hook: decide again where another addon has changed the request since; take a page's form."""
        hide(flow)
        self._requests.filter(flow, self._mode, again=False)
        if self._mode != "off":
            frame(flow)
        return self._requests.take_form(flow)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """mitmproxy's hook: take out what leads past the filter, before a body that may be streamed."""
        assert flow.response is not None
        keep_here(flow, flow.response.headers, self._mode, self.in_force)

    def response(self, flow: http.HTTPFlow) -> None:
        """mitmproxy's hook: take the same out of trailers; learn from what an origin answers."""
        hide(flow)
        assert flow.response is not None
        keep_here(flow, flow.response.trailers, self._mode, self.in_force)
        if self._learns:
            self._requests.learn(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        """mitmproxy's hook: whoever watches may leave."""
        hide(flow)

    def server_connect(self, data: ServerConnectionHookData) -> None:
        """mitmproxy's hook: connect to nothing that was refused, and where a service searches safely."""
        self._tunnels.server_connect(data)
        self._requests.lead(data)

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """mitmproxy's hook: know what the proxy asks by, lest it be asked by itself."""
        self._own.note(data)

    def http_connect(self, flow: http.HTTPFlow) -> None:
        """mitmproxy's hook: decide a tunnel before it is opened."""
        self._tunnels.connect(flow, self._mode)

    def tls_clienthello(self, data: tls.ClientHelloData) -> None:
        """mitmproxy's hook: decide TLS by its names, and pass through what is not to be decrypted."""
        self._tunnels.client_hello(data, self._mode)

    def tls_established_client(self, data: tls.TlsData) -> None:
        """mitmproxy's hook: learn who accepts the proxy's certificates."""
        self._distrust.established(data)

    async def tls_failed_client(self, data: tls.TlsData) -> None:
        """mitmproxy's hook: see to hosts whose apps do not accept the proxy's certificates."""
        await self._distrust.failed(data, self._mode)

    def next_layer(self, nextlayer: NextLayer) -> None:
        """mitmproxy's hook: decide what mitmproxy's own options pass as it is."""
        self._tunnels.next_layer(nextlayer, self._mode)

    def tcp_start(self, flow: tcp.TCPFlow) -> None:
        """mitmproxy's hook: decide raw TCP."""
        self._tunnels.raw(flow, self._mode)

    def udp_start(self, flow: udp.UDPFlow) -> None:
        """mitmproxy's hook: decide raw UDP."""
        self._tunnels.raw(flow, self._mode)

    def dns_request(self, flow: dns.DNSFlow) -> None:
        """mitmproxy's hook: decide a question for a name before it goes on."""
        self._name_queries.ask(flow, self._mode)

    def dns_response(self, flow: dns.DNSFlow) -> None:
        """mitmproxy's hook: decide where an answer leads to."""
        self._name_queries.answer(flow, self._mode)


def _policy_path() -> Path:
    given = ctx.options.hushlist_policy
    try:
        return Path(given).expanduser() if given else shipped_policy()
    except RuntimeError as error:
        raise exceptions.OptionsError(f"hushlist_policy cannot be {given!r}: {error}") from error
