"""Searches in a proxy: asked for with safe results, at the host of the service that has them."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple
from weakref import WeakKeyDictionary

from mitmproxy import connection, http
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.core.decide.decision import Judgement
from hushlist.core.errors import UrlError
from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import canonical_host, readable_host
from hushlist.extensions.safe_search.safe_search import rewrite_for_safe_search, safe_host, services, set_cookies
from hushlist.proxy.connections.client_connections import end_server, servers_of
from hushlist.proxy.flow_outcome import SAFE_SEARCH, set_header
from hushlist.proxy.flow_request import client_of_connection
from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime


class _Lead(NamedTuple):
    """Where a connection to a server would have gone, and the host that it goes to."""

    address: connection.Address
    host: str


class Searches(Part):
    """Changes requests of searches, and leads their connections."""

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        #: by client connection: host -> host to connect to instead
        self._led: WeakKeyDictionary[connection.Client, dict[str, str]] = WeakKeyDictionary()
        #: the connections that go elsewhere
        self._leads: WeakKeyDictionary[connection.Server, _Lead] = WeakKeyDictionary()

    def prepare(self, policy: Policy) -> None:
        """Read the services while the package is what it was at the start."""
        services()

    def server_connect(self, data: ServerConnectionHookData) -> None:
        """Connect to the host of a service's safe search, as soon as a client's connection names the service.

        So it holds, too, for what is not decrypted. Host header and TLS server name stay, as if a CNAME record led
        there.
        """
        address = data.server.address
        host = self._host_led_to(data.client, address[0]) if address else None
        if address and host:
            self._leads[data.server] = _Lead(address, host)
            data.server.address = (host, *address[1:])

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """End a connection that was begun before it had to be led elsewhere.

        One that was led gets its address back, by which mitmproxy knows it for the next request.
        """
        lead = self._leads.get(data.server)
        if lead is not None:
            # mitmproxy lets nobody change the address of an open connection, since that leads it nowhere else
            object.__setattr__(data.server, "address", lead.address)
        address = data.server.address
        wanted = self._host_led_to(data.client, address[0]) if address else None
        if wanted is not None and (lead is None or lead.host != wanted):
            end_server(data.client, data.server)

    def _host_led_to(self, client: connection.Client, host: str) -> str | None:
        """The host of safe search to connect to for a client, in place of another; ``None`` if there is none."""
        by_request = self._led.get(client, {}).get(host)
        if by_request is not None:
            return by_request
        settings = self._runtime.settings(client_of_connection(client))
        if not settings.of("safe-search") or settings.mode != "block":
            return None
        safe = safe_host(readable_host(to_bytes(host)), settings.of("safe-search"))
        return None if safe is None else safe.decode("ascii")

    def http_connect_upstream(self, flow: http.HTTPFlow) -> None:
        """Ask an upstream proxy for a tunnel to the host of safe search."""
        host = self._host_led_to(flow.client_conn, flow.request.host)
        if host:
            flow.request.host = host

    def change(self, flow: http.HTTPFlow, judgement: Judgement) -> bool:
        """Ask a search engine for safe results if the policy says so and the client does not.

        A request may name several hosts; any of them can be the search engine's. A dry run changes nothing.
        """
        settings = judgement.settings
        if not settings.of("safe-search") or settings.mode == "tag":
            return False
        data = flow.request.data
        changes = []
        for host in dict.fromkeys(judgement.request.hosts):
            with suppress(UrlError):
                change = rewrite_for_safe_search(canonical_host(host), data.path, settings.of("safe-search"))
                if change is None:
                    continue
                way, headers = change.way, flow.request.headers
                for name, value in way.headers:
                    set_header(headers, name.decode("ascii"), value.decode("ascii"))
                if way.cookies:
                    sent = map(to_bytes, headers.get_all("cookie"))
                    set_header(headers, "Cookie", set_cookies(sent, way.cookies).decode("utf-8", "surrogateescape"))
                data.path = data.path if change.target is None else change.target
                if way.host is not None:
                    self._lead(flow, way.host.decode("ascii"))
                changes.append(str(change))
        if changes:
            flow.metadata[SAFE_SEARCH] = "; ".join(changes)
        return bool(changes)

    def _lead(self, flow: http.HTTPFlow, host: str) -> None:
        if flow.server_conn.via is not None and flow.request.scheme == "http":
            flow.request.host = host  # an upstream proxy connects to the host that the request names
        else:
            self._led.setdefault(flow.client_conn, {})[flow.request.host] = host
            for server in servers_of(flow.client_conn):  # mitmproxy would use one again that was not led
                is_for_it = server.connected and server.address and server.address[0] == flow.request.host
                lead = self._leads.get(server)
                if is_for_it and (lead is None or lead.host != host):
                    end_server(flow.client_conn, server)
