"""Clients of a proxy, whose requests go through the addon's hooks."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from mitmproxy import exceptions, http
from mitmproxy.test import tflow

from hushlist.proxy.addon import Hushlist

PUPIL, OTHER = "192.0.2.7", "192.0.2.8"


class Person:
    """A client, and what it does with a page."""

    def __init__(self, hushlist: Hushlist, address: str = PUPIL) -> None:
        self.hushlist, self.address = hushlist, address

    def flow(self, url: str, method: str = "GET", body: bytes = b"", **headers: str) -> http.HTTPFlow:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        flow = tflow.tflow(req=http.Request.make(method, url, body, fields))
        flow.client_conn.peername = (self.address, 50000)
        flow.client_conn.sni = None
        return flow

    def go(self, flow: http.HTTPFlow) -> http.Response | None:
        """As mitmproxy calls the hooks; ``None`` where the request goes to its origin."""
        with suppress(exceptions.AddonHalt):
            self.hushlist.requestheaders(flow)
            taking = self.hushlist.request(flow)
            if taking is not None:
                asyncio.run(taking)
        return flow.response

    def get(self, url: str, **headers: str) -> http.Response | None:
        return self.go(self.flow(url, **headers))
