"""Reads the ClientHello that a connection begins with: whom the client asks, in TLS, DTLS and QUIC.

What a less careful server may read in another way is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from struct import Struct

from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.quic import quic_parse_client_hello_from_datagrams
from mitmproxy.proxy.layers.tls import dtls_parse_client_hello, parse_client_hello
from mitmproxy.tls import ClientHello

from hushlist.proxy.bounds.bounded_names import LONGEST_HELLO

_HTTPS = 443
#: Spec: RFC 6066, 3
_SERVER_NAME = 0
_EXTENSION = Struct("!HH")
_CLIENT_HELLO = b"\x01"
#: the first octets of a TLS or DTLS record. Some servers accept a hello after an alert, or in any record version.
#: Spec: RFC 8446, 5.1; RFC 6520 for heartbeats
_RECORD = re.compile(rb"[\x14-\x18]")
#: the first octets of a QUIC packet that opens a connection, in versions that servers know: 1, 2, drafts, Google's
#: Spec: RFC 9000, 17.2; RFC 9369, 3.1
_QUIC = re.compile(rb"[\x80-\xff](?:\0\0\0\x01|\x6b\x33\x43\xcf|\x70\x9a\x50\xc4|\xff\0\0.|[QT]0..)", re.DOTALL)
#: the first octet of its later packets: after a pause, mitmproxy takes them for a connection of their own
#: Spec: RFC 9000, 17.3.1
_LATER_QUIC = re.compile(rb"[\x40-\x7f]")


def hides_name(hello: ClientHello) -> bool:
    """Whether a server may read a server name that mitmproxy does not: an invalid one, or a second one."""
    names = sum(kind == _SERVER_NAME for kind, _ in hello.extensions)
    return names > (1 if hello.sni else 0) or not _is_exact(hello)


def _is_exact(hello: ClientHello) -> bool:
    """Whether the fields of a ClientHello fill it; otherwise a server may find other extensions than mitmproxy does.

    Spec: RFC 8446, 4.1.2
    """
    try:
        body = hello.raw_bytes(wrap_in_record=False)
    except NotImplementedError:
        return True  # mitmproxy does not keep the length of a DTLS hello
    at = 2 + 32
    for size in (1, 2, 1):  # octets of the lengths of session, cipher suites and compression methods
        at += size + int.from_bytes(body[at : at + size], "big")
    size, extensions = int.from_bytes(body[at : at + 2], "big"), body[at + 2 :]
    listed = b"".join(_EXTENSION.pack(kind, len(value)) + value for kind, value in hello.extensions)
    return extensions == listed and size == len(listed)


def begins_tls(data: bytes) -> bool:
    """Whether some server may read data as TLS or DTLS."""
    return _RECORD.match(data) is not None


class IncompleteError(Exception):
    """A ClientHello has begun, but is not complete."""


def read_hello(context: Context, sent: Sequence[bytes]) -> ClientHello | None:
    """The ClientHello that the client begins with; ``None`` if it begins with something else.

    Raises:
            ValueError: it cannot be read, but a less careful server may read it.
            IncompleteError: more of it is to come.
    """
    data = b"".join(sent)
    is_stream = context.client.transport_protocol == "tcp"
    if begins_tls(data):
        hello = _tls_hello(data) if is_stream else _dtls_hello(data)
    elif not is_stream and _QUIC.match(data):
        hello = _quic_hello(sent)
    elif not is_stream and (context.server.address or ("", 0))[1] == _HTTPS and _LATER_QUIC.match(data):
        raise ValueError("its connection has begun before, by a name that is not known")
    else:
        return None
    if hello is None and len(data) < LONGEST_HELLO:
        raise IncompleteError
    if hello is None:
        raise ValueError("it is too long")
    return hello


def _tls_hello(data: bytes) -> ClientHello | None:
    if data[5:6] not in (b"", _CLIENT_HELLO):
        raise ValueError("it is another message")
    return parse_client_hello(data)


def _dtls_hello(data: bytes) -> ClientHello | None:
    hello = dtls_parse_client_hello(data)
    if hello is not None and (data[13:14] != _CLIENT_HELLO or data[14:17] != data[22:25]):
        raise ValueError("it is another message, or a part of one")
    return hello


def _quic_hello(datagrams: Sequence[bytes]) -> ClientHello | None:
    try:
        return quic_parse_client_hello_from_datagrams(list(datagrams))
    except AssertionError as error:  # aioquic uses assertions to check packets
        raise ValueError("it is no ClientHello") from error
