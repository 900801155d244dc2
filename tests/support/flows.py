"""Requests, as mitmproxy hands them to the addon."""

from __future__ import annotations

from mitmproxy import http
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import tflow


def flow_of(
    url: str = "http://h.example/",
    method: str = "GET",
    body: bytes = b"",
    *,
    client: str = "127.0.0.1",
    mode: str = "regular",
    sni: str | None = None,
    **headers: str,
) -> http.HTTPFlow:
    """A request, over TLS for the URL's host where its scheme is https; ``_`` in a header's name stands for ``-``."""
    request = http.Request.make(method, url, body)
    request.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    flow = tflow.tflow(req=request)
    flow.client_conn.peername = (client, 50000)
    flow.client_conn.proxy_mode = ProxyMode.parse(mode)
    flow.client_conn.sni = sni or (request.host if request.scheme == "https" else None)
    return flow
