"""A flow as the engine's request and client: raw octets, every host that it goes by, and whether the proxy sent it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from weakref import WeakKeyDictionary, WeakValueDictionary

from mitmproxy import connection, ctx, dns, http
from mitmproxy.flow import Flow
from mitmproxy.net.dns import op_codes
from mitmproxy.proxy.mode_specs import DnsMode, ProxyMode, RegularMode, ReverseMode, Socks5Mode, UpstreamMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.core.policy.groups import Client, user_of
from hushlist.core.policy.proxy_settings import LOOPBACK
from hushlist.core.url.host import LONGEST_NAME
from hushlist.core.url.http_head import (
    Keeps,
    Naming,
    fault_of_body,
    is_name,
    looked_up,
    named,
    request_of_head,
)
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import Request, canonical_host
from hushlist.core.url.request_bodies import with_form

#: all of a flow that a request is made from
Seen = tuple[object, ...]


def seen_of_flow(flow: http.HTTPFlow, *, with_media: bool = False) -> Seen:
    """All that ``request_of_flow`` reads: if it is equal, so is the request, which costs more to make."""
    data = flow.request.data
    return (
        data.host,
        data.port,
        data.method,
        data.scheme,
        data.authority,
        data.path,
        data.http_version,
        tuple(map(tuple, data.headers.fields)),  # copied only if another addon has stored lists
        flow.client_conn.sni,
        fault_of_body(data) if data.content else None,
        None if data.method == b"GET" else form_of_flow(flow),
        with_media,
    )


#: the requests whose forms are decided, each with the fields that are
_with_form = WeakKeyDictionary[http.Request, frozenset[bytes]]()


def decide_form(request: http.Request, keys: frozenset[bytes]) -> None:
    """Have fields of a form decided with its request: nothing of the request goes on before all of it is there."""
    _with_form[request] = keys
    request.stream = False


def has_form(request: http.Request) -> bool:
    """Whether the form of a request is decided."""
    return request in _with_form


def form_of_flow(flow: http.HTTPFlow) -> bytes | None:
    """The form that the request of a flow sends, where it is decided, and is there."""
    return flow.request.data.content if flow.request in _with_form else None


_LINE_VERSIONS = (b"HTTP/1.1", b"HTTP/1.0")


def request_of_flow(flow: http.HTTPFlow, *, with_media: bool = False, keeps: Keeps = None) -> Request:
    """The request, with all its names; ``with_media`` and ``keeps`` as for ``request_of_head``.

    In a request's line, a client may write any version. Servers read what they do not know in their own ways, and
    mitmproxy takes ``HTTP/2.0`` for HTTP/2, whose requests end by frames.
    """
    client, data = flow.client_conn, flow.request.data
    request = request_of_head(data, client.sni, naming_of(client.proxy_mode), with_media=with_media, keeps=keeps)
    if data.http_version not in _LINE_VERSIONS and not is_framed(client.alpn):
        request.fault = request.fault or "its HTTP version is not that of its connection"
    form = None if data.method == b"GET" else form_of_flow(flow)
    return with_form(request, form, _with_form[flow.request]) if form else request


def is_framed(protocol: bytes | None) -> bool:
    """Whether a protocol, as ALPN names it, is HTTP/2 or HTTP/3, whose frames end a request.

    >>> is_framed(b"h3-29"), is_framed(b"http/1.1"), is_framed(None)
    (True, False, False)
    """
    return protocol in (b"h2", b"h3") or (protocol is not None and protocol.startswith(b"h3-"))


def request_of_connect(flow: http.HTTPFlow) -> Request:
    """The request for all that is served at a CONNECT's target; its Host headers name the target, too."""
    request = request_of_head(flow.request.data, None, Naming.CLIENT)
    return request._replace(scheme=_WEB_PORTS.get(request.port, b"https"), target=b"/")


def request_of_connection(scheme: bytes, address: connection.Address, names: Iterable[str], mode: ProxyMode) -> Request:
    """The request for all that a connection may carry; only its address and some names are known."""
    every, fault = looked_up([to_bytes(address[0]), *map(to_bytes, names)])
    hosts, destination = named(every, naming_of(mode))
    return Request(_WEB_PORTS.get(address[1], scheme), hosts, address[1], b"/", fault=fault, destination=destination)


#: schemes of web ports, so that no check takes data sent there for another protocol's
_WEB_PORTS = {80: b"http", 443: b"https"}


def naming_of(mode: ProxyMode) -> Naming:
    """Who chose the destination of a client in a mode."""
    if isinstance(mode, _KNOWN_TO_CLIENTS):
        return Naming.CLIENT
    return Naming.ADMINISTRATOR if isinstance(mode, _IN_FRONT_OF_SERVERS) else Naming.ADDRESS


_KNOWN_TO_CLIENTS = (RegularMode, UpstreamMode)
_IN_FRONT_OF_SERVERS = (ReverseMode, DnsMode)
#: modes in which clients connect to the proxy's own port
_WITH_OWN_PORT = (*_KNOWN_TO_CLIENTS, *_IN_FRONT_OF_SERVERS, Socks5Mode)


def name_to_ask(request: Request, server_name: str | None = None) -> str | None:
    """The name to connect to, instead of an address that the client has not named; ``None``: there is none.

    Of several, it is the TLS server name. Otherwise a client could reach any address by the name of an allowed host.
    """
    if request.destination in (None, request.hosts[0]):
        return None
    hosts = sorted(request.hosts, key=to_bytes(server_name or "").__ne__)
    return next((canonical_host(host).decode("ascii") for host in hosts if is_name(host)), None)


# Spec: RFC 1035, 4.1.1; RFC 4501 for the URL
_QUERY = 0
_DELIMITERS_OF_AUTHORITY = re.compile(rb"[/?#@\\:\[\]]")


def request_of_question(message: dns.Message) -> Request:
    """The request for all names in a DNS message."""
    hosts = dict.fromkeys(host for question in message.questions for host in hosts_of_name(question.name))
    return Request(b"dns", tuple(hosts), 53, b"/", fault=_fault_of_message(message))


def hosts_of_name(name: str) -> list[bytes]:
    """A DNS name as hosts: as mitmproxy has it, and as mitmproxy asks for it.

    A DNS name may have any octet; a URL's host has none that delimits its parts. Such octets are replaced, and the
    resulting name is decided: it is below the same domains.
    """
    hosts = [_DELIMITERS_OF_AUTHORITY.sub(b"-", to_bytes(name))]
    if not name.isascii() and len(name) <= LONGEST_NAME:
        with suppress(UnicodeError):
            hosts.append(_DELIMITERS_OF_AUTHORITY.sub(b"-", name.encode("idna")))
    return hosts


def _fault_of_message(message: dns.Message) -> str | None:
    if not message.query:
        return "it is no query"
    if message.op_code != _QUERY:
        return f"its operation is {op_codes.to_str(message.op_code)}"
    if len(message.questions) > 1:
        return "it asks more than one question"
    return None


def client_of_connection(client: connection.Client) -> Client:
    """The client of a connection without a flow: the user is that of the connection's CONNECT, or of SOCKS."""
    addon = ctx.master.addons.get("proxyauth")
    credentials = None if addon is None else addon.authenticated.get(client)
    return _client(client, credentials)


def client_of_flow(flow: Flow) -> Client:
    """The client of a flow: the address, the user that mitmproxy's ``proxyauth`` let in, and the proxy's port."""
    return _client(flow.client_conn, flow.metadata.get("proxyauth"))


def _client(client: connection.Client, credentials: Sequence[str] | None) -> Client:
    """A client. Its port is the proxy's; where a firewall or a tunnel has led it here, mitmproxy has the port that the
    client chose."""
    peer, sockname, mode = client.peername, client.sockname, client.proxy_mode
    port = (sockname and sockname[1]) if isinstance(mode, _WITH_OWN_PORT) else port_of_mode(mode)
    return Client(peer[0] if peer else "", user_of(credentials[0]) if credentials else None, port)


def port_of_mode(mode: ProxyMode) -> int | None:
    """The port on which mitmproxy listens for a mode; ``None``: it listens on none, and is not given one.

    mitmproxy before 12.3 says that ``local``, which listens on none, has the port of the other modes.
    """
    return mode.listen_port(mode.default_port and ctx.options.listen_port)


#: address and port of one end
_End = tuple[str, int]


class SelfConnections:
    """Keeps the proxy's connections, and recognizes clients that are their other end.

    Any DNS name may lead to the proxy's own port, and so do many spellings of its address, of which mitmproxy refuses
    only a few. Such a request comes back from the proxy's own machine, which may be allowed more than the client. If
    its Host header names the port, too, it comes back without end.
    """

    def __init__(self) -> None:
        #: by protocol and both ends: a port of this machine may serve connections to several addresses at once
        self._made: WeakValueDictionary[tuple[str, _End, _End], connection.Server] = WeakValueDictionary()
        #: every port that the proxy has used: most clients' ports are none of them, which is soon found out
        self._ports: set[int] = set()

    def note(self, data: ServerConnectionHookData) -> None:
        server = data.server
        if server.sockname is not None and server.peername is not None:
            self._made[server.transport_protocol, end_of(server.sockname), end_of(server.peername)] = server
            self._ports.add(server.sockname[1])

    def has(self, client: connection.Client, server: connection.Server) -> bool:
        """Whether a client is the proxy itself; ``server`` is that of the client's connection.

        mitmproxy reports a connection before anything is sent over it, so it is noted in time. A firewall may have led
        a connection here: then the proxy connected to the address that the connection is for.
        """
        peer = client.peername
        if peer is None or peer[1] not in self._ports:
            return False
        is_led = naming_of(client.proxy_mode) is Naming.ADDRESS
        targets = (client.sockname, server.address if is_led else None)
        keys = ((client.transport_protocol, end_of(peer), end_of(target)) for target in targets if target is not None)
        return any(made is not None and _is_end_of(client, made) for made in map(self._made.get, keys))

    def is_loop(self, client: connection.Client, server: connection.Server) -> bool:
        """The same, for a proxy mode in which the client names the destination, which may again be the proxy."""
        peer = client.peername
        if peer is None or peer[1] not in self._ports:  # as mostly
            return False
        return self.has(client, server) and naming_of(client.proxy_mode) is not Naming.ADMINISTRATOR


def _is_end_of(client: connection.Client, made: connection.Server) -> bool:
    """Whether a client with the ends of a connection is that, although it may be over by now, at one end or at both;
    otherwise another client has got the port since."""
    return made.timestamp_end is None or client.timestamp_start <= made.timestamp_end


def end_of(address: connection.Address) -> _End:
    """The address and port of an end, as all sockets would show it.

    >>> end_of(("::ffff:10.0.0.7", 80, 0, 0))
    ('10.0.0.7', 80)
    """
    host, port, *_ = address
    return host.removeprefix("::ffff:"), port  # a socket for both families has the prefix


# -- the proxy's own address -------------------------------------------------------------------------------------------


def is_sent_to(client: connection.Client) -> bool:
    """Whether a client sends to the proxy by its address, and the network does not lead it here without that."""
    return isinstance(client.proxy_mode, RegularMode | UpstreamMode | Socks5Mode)


def host_of_socket(host: str) -> str:
    """An address of a socket, without what is only this machine's: the prefix of a socket for both families, a zone."""
    return host.removeprefix("::ffff:").partition("%")[0]


#: the machine of whoever asks
_HERE = ("localhost", "127.0.0.1", "::1")


def is_at_own_address(flow: http.HTTPFlow) -> bool:
    """Whether a request is for the address and port by which the client has reached the proxy.

    By no name, which any site could give the address, but ``localhost``, which is the machine of whoever asks: where
    that is the proxy's, it is this port. mitmproxy refuses to go on to its own port, so that nothing else answers.
    """
    data, socket = flow.request.data, flow.client_conn.sockname
    if socket is None or data.port != socket[1] or data.scheme != b"http" or not is_sent_to(flow.client_conn):
        return False
    # where the network leads connections here, mitmproxy has the origin's address as its own
    host = host_of_socket(socket[0])
    return data.host == host or (data.host in _HERE and _is_from_here(flow, host))


def _is_from_here(flow: http.HTTPFlow, host: str) -> bool:
    """Whether a request is from the machine of the proxy: by its loopback, or from the address that it leads to."""
    client = client_of_flow(flow)
    return host_of_socket(client.address) == host or LOOPBACK.fits(client)
