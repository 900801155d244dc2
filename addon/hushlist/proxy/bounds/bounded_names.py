"""Bounds of host names, which Punycode makes dear to read, and of the ClientHello that has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from encodings.idna import dots
from typing import Any

from mitmproxy.addons import next_layer
from mitmproxy.net import check
from mitmproxy.net.http import url
from mitmproxy.proxy.layers import tls
from mitmproxy.utils.strutils import always_str

from hushlist.proxy.bounds.bounded_dns import LONGEST_DNS_NAME
from hushlist.proxy.bounds.bounded_quic import QUIC_LAYERS

#: octets of a ClientHello with its records: several times what a browser sends
LONGEST_HELLO = 1 << 14
#: of a name and of its last label, with a port behind them
_LONGEST_AUTHORITY, _LONGEST_LABEL = (octets + len(":65535") for octets in (LONGEST_DNS_NAME, 63))


def _parse_hello(parse: Callable[[Any], Any], data: bytes | list[bytes]) -> Any:
    """Parse a ClientHello; refuse one that is incomplete and too long already."""
    hello = parse(data)
    if hello is None and (sum(map(len, data)) if isinstance(data, list) else len(data)) > LONGEST_HELLO:
        raise ValueError("it is too long")
    return hello


def _is_long(host: bytes | str) -> bool:
    """Whether a host or an authority is longer than any, or has a longer label.

    Python's Punycode takes a time that grows with the square of a label's length, before it finds it too long.
    """
    if len(host) <= _LONGEST_LABEL:  # as nearly all
        return False
    labels: Sequence[bytes | str] = dots.split(host) if isinstance(host, str) else host.split(b".")
    return len(host) > _LONGEST_AUTHORITY or max(map(len, labels)) > _LONGEST_LABEL


def _is_valid_host(is_valid: Callable[[Any], bool], host: bytes | str) -> bool:
    """Whether a host is valid; one that is longer than any is not read to its end."""
    return not _is_long(host) and is_valid(host)


def _parse_authority(parse: Callable[..., Any], authority: bytes | str, check: bool) -> Any:
    """Host and port of an authority."""
    if not _is_long(authority):
        return parse(authority, check)
    if check:
        raise ValueError("its host is too long")
    return always_str(authority, "utf-8", "surrogateescape"), None


_HELLOS, _QUIC_HELLO = ("parse_client_hello", "dtls_parse_client_hello"), "quic_parse_client_hello_from_datagrams"
#: as in ``bounded_http``
WRAPPED = (
    (_parse_hello, _HELLOS, (tls, next_layer)),
    (_parse_hello, (_QUIC_HELLO,), (next_layer, QUIC_LAYERS)),
    (_is_valid_host, ("is_valid_host",), (check, url)),
    (_parse_authority, ("parse_authority",), (url,)),
)
