"""Ends mitmdump without ending requests: after SIGTERM, or when its terminal is gone, what is open has some seconds.

By itself, mitmproxy (11 and 12) ends at once at SIGTERM, and cuts off every request; SIGHUP ends it before it can write
what it logs. So the addon takes both signals, and tells mitmproxy to end when nothing is open, or the time is up.
Meanwhile:

1. ``/readyz`` says at once that the proxy is not ready. Where a port for load balancers is open, those have a moment to
   see it: what they still send is served.
2. Nothing new is accepted. An answer says that its connection carries no further request: by ``Connection: close``
   over HTTP/1, by GOAWAY over HTTP/2.
3. A connection without a request, on which nothing flows, is closed. What is relayed or is a WebSocket can only be
   judged by that.

A tunnel of mitmproxy's own, as WireGuard's, ends with all that is in it when mitmproxy listens there no more, and no
client is told: each would wait on. So it stays until the end, which every client in it is told before.

Control-C (SIGINT) still ends it at once, but for that. Spec: RFC 9112, 9.6 (Tear-down); RFC 9113, 6.8 (GOAWAY)
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from time import monotonic, time
from weakref import WeakSet

from mitmproxy import connection, ctx, http
from mitmproxy.proxy.mode_specs import ProxyMode

from hushlist.core.errors import logger_of, number_of
from hushlist.core.system.platform import stop_signals
from hushlist.proxy.connections.client_connections import (
    all_connections,
    announce_end,
    end_connection,
    end_tunnelled,
    is_tunnel,
    transport_of,
)
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: seconds from the signal to the end, at most
LONGEST = 10.0
#: seconds for load balancers to see that the proxy is not ready
NOTICE = 3.0
#: seconds without an octet after which a connection without a request counts as idle
_QUIET = 1.0
#: seconds between two looks
_INTERVAL = 0.05


class GracefulStop:
    """Knows the requests that are open, and ends the program behind them. Only the event loop uses it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        #: requests that came; those that have ended are no longer live, or are gone
        self._requests: WeakSet[http.HTTPFlow] = WeakSet()
        #: notes a request
        self.note = self._requests.add
        #: where answers are written to; octets may wait there when their connection is over for mitmproxy
        self._transports: WeakSet[asyncio.WriteTransport] = WeakSet()
        self._notice = 0.0
        self._stopping: asyncio.Task[None] | None = None
        self._latest = 0.0
        self._signals: list[int] = []

    def run(self, *, is_balanced: bool) -> None:
        """Take the signals from now on; ``is_balanced``: load balancers ask the proxy whether it is ready."""
        self._notice = NOTICE if is_balanced else 0.0
        # on Windows, or in another thread
        with suppress(AttributeError, NotImplementedError, RuntimeError, ValueError):
            for number in stop_signals():
                if signal.getsignal(number) is not signal.SIG_IGN:  # as "nohup" has it
                    asyncio.get_running_loop().add_signal_handler(number, self.stop)
                    self._signals.append(number)

    def close(self) -> None:
        """Give the signals back, unless the program ends: one that comes meanwhile would cut off what it writes."""
        self._runtime.is_stopping = True
        if ctx.master.should_exit.is_set():
            return
        for number in self._signals:
            with suppress(RuntimeError):
                ctx.master.event_loop.remove_signal_handler(number)

    def connected(self, client: connection.Client) -> None:
        """mitmproxy's hook: note where a client's answers will be written to; refuse what still comes by a tunnel."""
        if self._stopping is not None and is_tunnel(client.proxy_mode) and client.error is None:
            client.error = "the proxy is stopping"
        transport = transport_of(client)
        if transport is not None:
            self._transports.add(transport)

    def answered(self, flow: http.HTTPFlow, *, is_sent: bool = False) -> None:
        """While the program ends: the answer is the last one on its connection, and says so, unless ``is_sent``."""
        if self._stopping is None or flow.response is None:
            return
        if is_sent and not flow.request.is_http2:
            return
        if flow.request.http_version.startswith("HTTP/1") and flow.response.status_code != 101:
            flow.response.headers["connection"] = "close"
        elif flow.request.is_http2:
            announce_end(flow.client_conn, self._latest - LONGEST / 2)

    def stop(self) -> None:
        """What the signal does; a second one ends the program at once."""
        self._runtime.is_stopping = True
        if self._stopping is not None:
            ctx.master.shutdown()
            return
        self._latest = monotonic() + LONGEST
        self._stopping = asyncio.get_running_loop().create_task(self._drain(), name="hushlist: stop")

    async def _drain(self) -> None:
        try:
            logger.info("hushlist: stopping: what is open has %d seconds to end", LONGEST)
            await asyncio.sleep(self._notice)
            if self._runtime.siblings is not None:
                self._runtime.siblings.stop()  # at once: what comes from now on is for the others
            if tunnels := [mode for mode in ctx.options.mode if is_tunnel(ProxyMode.parse(mode))]:
                ctx.options.update(mode=tunnels)
            else:
                ctx.options.update(server=False)
            while monotonic() < self._latest and self._is_busy():
                await asyncio.sleep(_INTERVAL)
            if open_requests := len(self._open_requests()):
                logger.warning("hushlist: %s ended unfinished", number_of(open_requests, "request", "requests"))
            await end_tunnelled()
        finally:
            ctx.master.shutdown()

    def _open_requests(self) -> list[http.HTTPFlow]:
        return [flow for flow in self._requests if flow.live and flow.websocket is None]

    def _is_busy(self) -> bool:
        """Whether there is something to wait for; idle connections are closed."""
        has_request = {flow.client_conn.id for flow in self._open_requests()}
        latest, is_busy = time() - _QUIET, False
        for handler in all_connections():
            if handler.client.id in has_request or handler.timeout_watchdog.last_activity > latest:
                is_busy = True
            elif handler.client.transport_protocol != "udp":
                end_connection(handler.client)
                is_busy = True  # until it is closed
        if self._runtime.siblings is not None and self._runtime.siblings.is_busy:
            return True
        return is_busy or any(transport.get_write_buffer_size() for transport in self._transports)
