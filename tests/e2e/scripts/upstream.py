"""A mitmproxy script for the tests: every name leads to the origin on loopback, and nothing leaves the machine.

A connection to port 80, 8080 or 5353 of any host goes to the origin's plain port, one to 443 or 8443 to its TLS port,
and every other one is refused, but to an upstream proxy, or where ``upstream_others`` is set: then it goes to that port
of loopback. One name, self.test, leads to loopback, whatever the port.
This sits below mitmproxy, so that the filter sees what it would see with real names. (A ``server_connect`` hook would
have to change ``server.address``, and the next request through the same tunnel would then seem to be for 127.0.0.1.)

The filter looks more often than by itself whether files have changed, so that no test waits long for that; but not
with ``upstream_hurries=false``, for benchmarks.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader

from hushlist.proxy.service import policy_watch

_open_connection = asyncio.open_connection


class Upstream:
    def load(self, loader: Loader) -> None:
        loader.add_option("upstream_http", int, 0, "Loopback port that stands for port 80 of every host.")
        loader.add_option("upstream_https", int, 0, "Loopback port that stands for port 443 of every host.")
        loader.add_option("upstream_proxy", int, 0, "Loopback port of another proxy, which is reached as it is.")
        loader.add_option("upstream_others", bool, False, "Every other port of any host is that of loopback.")
        loader.add_option("upstream_hurries", bool, True, "Look often for changed files.")
        asyncio.open_connection = self.open_connection

    def configure(self, updated: set[str]) -> None:
        if "upstream_hurries" in updated and ctx.options.upstream_hurries:
            policy_watch.INTERVAL, policy_watch.DUE_INTERVAL = 0.1, 0.5

    async def open_connection(self, host: str, port: int, **_: Any) -> Any:
        plain, tls = ctx.options.upstream_http, ctx.options.upstream_https
        local = {80: plain, 8080: plain, 5353: plain, 443: tls, 8443: tls, ctx.options.upstream_proxy: port}.get(port)
        if host == "self.test" or (local is None and ctx.options.upstream_others):
            local = port
        if not local:
            raise ConnectionRefusedError(f"{host}:{port} is outside of the tests")
        return await _open_connection("127.0.0.1", local)

    async def running(self) -> None:
        """Say when mitmproxy has started: until then, any error that is logged ends it."""
        self.started = asyncio.create_task(self.announce_the_start())

    async def announce_the_start(self) -> None:
        check = ctx.master.addons.get("errorcheck")
        while check and check.logger in logging.getLogger().handlers:
            await asyncio.sleep(0.01)
        logging.info("mitmproxy has started")

    def done(self) -> None:
        asyncio.open_connection = _open_connection


addons = [Upstream()]
