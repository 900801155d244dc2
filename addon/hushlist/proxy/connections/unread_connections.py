"""Which connections nobody reads, as policy and options name them: where they lead, and what they begin with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from mitmproxy import connection, ctx
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import TCPLayer, UDPLayer
from mitmproxy.proxy.layers.quic import RawQuicLayer

from hushlist.core.errors import UrlError, printable
from hushlist.core.policy.groups import GroupSettings
from hushlist.core.policy.pass_through import PassThrough
from hushlist.core.url.host import is_address
from hushlist.core.url.http_head import Naming
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import Request, canonical_host
from hushlist.proxy.connections.beginnings import begins_http, may_become_http
from hushlist.proxy.connections.client_hello import IncompleteError, read_hello
from hushlist.proxy.connections.tunnel_layers import Said
from hushlist.proxy.flow_request import name_to_ask, naming_of

#: what passes on data that mitmproxy does not read
Raw = TCPLayer | UDPLayer | RawQuicLayer


def way_through(
    passed: PassThrough, request: Request, sni: str | None, address: connection.Address
) -> connection.Address | None:
    """Where to pass a connection through to; ``None`` to decrypt it.

    The policy must pass every name through, and the connection then goes to one of them. If the policy passes the
    address itself through, the names do not matter: the connection goes to that address.
    """
    if not (passed.names or passed.networks or passed.by_port):
        return None
    covers = partial(_covers, passed, address[1])
    try:
        *names, target = map(canonical_host, map(to_bytes, (*names_of(sni), address[0])))
    except UrlError:
        return None
    if is_address(target) and covers(target):
        return address
    name = name_to_ask(request)
    if name is not None:
        return (name, address[1]) if covers(name.encode()) else None
    return address if all(map(covers, (*names, target))) else None


def _covers(passed: PassThrough, port: int, host: bytes) -> bool:
    return passed.covers_at(host, port)


def names_of(sni: str | None) -> tuple[str, ...]:
    """A TLS server name, if there is one."""
    return (sni,) if sni else ()


def inner_name(client: connection.Client, server: connection.Server) -> tuple[str, ...]:
    """The client's TLS server name, if it is that of its destination, and not of the proxy itself."""
    is_inner = server.tls or naming_of(client.proxy_mode) is not Naming.CLIENT
    return names_of(client.sni) if is_inner else ()


def is_ignored(chosen: Raw) -> bool:
    """Whether mitmproxy tells nobody of the data, as with ``ignore_hosts``."""
    return isinstance(chosen, TCPLayer | UDPLayer) and chosen.flow is None


def is_unseen(client: connection.Client, address: connection.Address, passed: PassThrough) -> bool:
    """Whether data comes by datagrams, the client has chosen where to, and neither policy nor mitmproxy's options have
    named that place."""
    if client.transport_protocol != "udp" or naming_of(client.proxy_mode) is Naming.ADMINISTRATOR:
        return False
    places = (address[0], *names_of(client.sni))
    return not any(
        fits(ctx.options.udp_hosts, place) or passed.covers_at(_canonical(place), address[1]) for place in places
    )


def _canonical(place: str) -> bytes:
    try:
        return canonical_host(to_bytes(place))
    except UrlError:
        return b""


def is_raw(host: bytes, port: int, *, is_inner: bool = False) -> bool:
    """Whether mitmproxy's options keep a tunnel from being decrypted, or read as HTTP; or decrypted TLS from the
    latter."""
    name = host.decode("utf-8", "surrogateescape")
    full, options = f"{name}:{port}", ctx.options
    if fits(options.tcp_hosts, name):
        return True
    is_left_out = bool(options.allow_hosts) and not fits(options.allow_hosts, full)
    return not is_inner and (is_left_out or fits(options.ignore_hosts, full))


def is_raw_beginning(context: Context, said: Said) -> bool | None:
    """Whether a client has begun with neither TLS nor HTTP; ``None`` until that is clear."""
    try:
        hello = read_hello(context, said.sent)
    except IncompleteError:
        return False if said.is_whole else None
    except ValueError:
        return False
    if hello is not None:
        return False
    data = b"".join(said.sent)
    is_http = begins_http(data)
    if is_http is None:
        return None if may_become_http(data) and not said.is_whole else True
    return not is_http


def why_read(
    names: Sequence[str], port: int, is_inner: bool, _: connection.Client, settings: GroupSettings
) -> str | None:
    """Why nobody may switch to a protocol that is not read; ``None`` if policy or options pass all names through."""
    for name in names:
        is_named = is_raw(to_bytes(name), port, is_inner=is_inner)
        if not is_named and not settings.pass_through.covers_at(_canonical(name), port):
            return "nobody passes it through now"
    return None


def entry_of(request: Request) -> str:
    """What names a connection's destination in ``pass-through``.

    >>> entry_of(Request(b"tcp", (b"Mail.example",), 25, b"/")), entry_of(Request(b"tcp", (b"::1",), 22, b"/"))
    ('mail.example:25', '[::1]:22')
    """
    host = request.hosts[0]
    with suppress(UrlError):
        host = canonical_host(host)
    return f"{printable(host.decode('ascii', 'backslashreplace'))}:{request.port}"


def fits(patterns: Iterable[str], text: str) -> bool:
    """Whether any of an option's expressions is in a text."""
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
