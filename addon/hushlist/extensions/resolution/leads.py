"""Where names lead, in a proxy: looked up before a request is decided, and connected to as it was decided."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from time import monotonic
from weakref import WeakKeyDictionary

from mitmproxy import connection, ctx
from mitmproxy.proxy.mode_specs import ProxyMode, UpstreamMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.core.policy.groups import Client
from hushlist.core.system.memory import LatestEntries
from hushlist.core.url.host import is_address
from hushlist.core.url.http_head import Naming
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import MOST_HOSTS, Request, readable_host
from hushlist.extensions.resolution.resolver import MOST_KNOWN, Resolution, Resolver
from hushlist.proxy.connections.name_lookups import connect_only_to
from hushlist.proxy.flow_request import client_of_connection, naming_of, port_of_mode
from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime

#: seconds for which a client's decision stands for the connection that it is made for, whatever the time to live
_FRESH = 10.0


class Leads(Part):
    """Looks names up, and connects to what was decided; if anything fails here, ``failure_policy`` decides."""

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        self._resolver = Resolver(name_servers, uses_hosts_file)
        #: client's address and name -> where it led when that was decided, and when
        self._decided: LatestEntries[tuple[str, bytes], tuple[Resolution, float]] = LatestEntries(MOST_KNOWN)
        #: servers whose address stands for a name, which they get back
        self._names: WeakKeyDictionary[connection.Server, connection.Address] = WeakKeyDictionary()
        #: ports at which others look names up: an upstream proxy, or whoever set up a proxy in front of servers
        self._unknown: dict[int | None, type[ProxyMode]] = {}

    def configured(self) -> None:
        """Learn in which modes mitmproxy itself connects to the names that clients ask for."""
        modes = [ProxyMode.parse(mode) for mode in ctx.options.mode] if "mode" in ctx.options else []
        self._unknown = {port_of_mode(mode): type(mode) for mode in modes if _is_unknown(mode)}

    def states(self) -> Iterable[str]:
        """That it is not known where names lead, if so."""
        if self._runtime.asks_leads and UpstreamMode in self._unknown.values():
            yield "where names lead is not known: the upstream proxy looks them up"

    async def look_up(self, request: Request, client: Client) -> Request:
        """The request with where its names lead."""
        if request.fault is not None or client.port in self._unknown:
            return request
        names = tuple(dict.fromkeys(_names_of(request)))
        if len(names) == 1:  # as nearly always: what is known needs no task
            resolutions = [await self._resolver.look_up(names[0], client.address)]
        else:
            resolutions = await asyncio.gather(*(self._resolver.look_up(name, client.address) for name in names))
        for name, resolution in zip(names, resolutions, strict=True):
            self._decided[client.address, name] = resolution, monotonic()
        leads = tuple(lead for resolution in resolutions for lead in resolution.leads)
        fault = next((resolution.fault for resolution in resolutions if resolution.fault is not None), None)
        return request if leads == request.leads and fault is None else request._replace(leads=leads, fault=fault)

    async def server_connect(self, data: ServerConnectionHookData) -> None:
        """Connect to the addresses that were decided; decide them, if they are not, or no longer hold."""
        server = data.server
        is_known = server.via is None and naming_of(data.client.proxy_mode) is not Naming.ADMINISTRATOR
        if not (self._runtime.asks_leads and is_known) or server.error or server.address is None:
            return
        try:
            await self._connect(data.client, server, server.address)
        except Exception as error:
            if not self._runtime.failure_policy.lets_pass(error, "connection"):
                server.error = "blocked by hushlist: the filter failed"

    async def _connect(self, client: connection.Client, server: connection.Server, address: connection.Address) -> None:
        who = client_of_connection(client)
        name = readable_host(to_bytes(address[0]))
        if not name or is_address(name) or self._runtime.settings(who).mode == "off":
            return
        resolution, moment = self._decided.get((who.address, name), (None, 0.0))
        now = monotonic()
        if resolution is None or (resolution.until <= now and now - moment > _FRESH):
            resolution = await self._resolver.look_up(name, who.address)
            if resolution.fault is not None or await self._is_stopped(name, address[1], who, resolution):
                server.error = f"blocked by hushlist: {resolution.fault or 'where the name leads'}"
                return
            self._decided[who.address, name] = resolution, monotonic()
        if not resolution.addresses:
            server.error = f"no address is known of {address[0]}"
        elif server.transport_protocol == "udp":  # mitmproxy looks its names up elsewhere
            self._names[server] = address
            server.address = (resolution.addresses[0], *address[1:])
        else:
            connect_only_to(address[0], resolution.addresses)

    async def _is_stopped(self, name: bytes, port: int, client: Client, resolution: Resolution) -> bool:
        """Whether rules stop a connection to where a name leads. The name itself was decided, as were others for it."""
        request = Request(b"https", (name,), port, b"/", destination=name, leads=resolution.leads)
        judgement = self._runtime.judge(request, client, is_connection=True, is_lookup=True)
        judgement = await self._runtime.confirmed(judgement, is_connection=True, is_lookup=True)
        if judgement is None or not judgement.stops:
            return False
        self._runtime.record_connection(judgement)
        return True

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """Give a server its name back, by which mitmproxy knows it for the next request."""
        address = self._names.pop(data.server, None)
        if address is not None:
            # mitmproxy lets nobody change the address of an open connection, since that leads it nowhere else
            object.__setattr__(data.server, "address", address)


def _is_unknown(mode: ProxyMode) -> bool:
    return isinstance(mode, UpstreamMode) or naming_of(mode) is Naming.ADMINISTRATOR


def _names_of(request: Request) -> Iterator[bytes]:
    """The names by which a request goes, without addresses; those that cannot be read are decided as such."""
    for name in map(readable_host, request.hosts[:MOST_HOSTS]):
        if name and not is_address(name):
            yield name


def name_servers() -> list[str]:
    """Those of mitmproxy's option, or else of the system."""
    resolver = ctx.master.addons.get("dnsresolver")
    return [] if resolver is None else list(resolver.name_servers())


def uses_hosts_file() -> bool:
    return bool(ctx.options.dns_use_hosts_file) if "dns_use_hosts_file" in ctx.options else True
