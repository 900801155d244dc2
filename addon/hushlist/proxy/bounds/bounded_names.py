"""Bounds of host names, which Punycode makes dear to read, and of the ClientHello that has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from encodings.idna import dots
from functools import wraps
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
_LONGEST_AUTHORITY, _LONGEST_LABEL = (own + len(":65535") for own in (LONGEST_DNS_NAME, 63))


def _bounded(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A parser that refuses a ClientHello which is incomplete and too long already."""

    @wraps(parse)
    def bounded(data: bytes | list[bytes]) -> Any:
        hello = parse(data)
        if hello is None and (sum(map(len, data)) if isinstance(data, list) else len(data)) > LONGEST_HELLO:
            raise ValueError("it is too long")
        return hello

    return bounded


def _is_long(host: bytes | str) -> bool:
    """Whether a host or an authority is longer than any, or has a longer label.

    Python's Punycode takes a time that grows with the square of a label's length, before it finds it too long.
    """
    labels: Sequence[bytes | str] = dots.split(host) if isinstance(host, str) else host.split(b".")
    return len(host) > _LONGEST_AUTHORITY or max(map(len, labels)) > _LONGEST_LABEL


def _bounded_validity(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """What says whether a host is one."""

    @wraps(is_valid)
    def bounded(host: bytes | str) -> bool:
        return not _is_long(host) and is_valid(host)

    return bounded


def _bounded_authority(parse: Callable[..., Any]) -> Callable[..., Any]:
    """What reads host and port of an authority."""

    @wraps(parse)
    def bounded(authority: bytes | str, check: bool) -> Any:
        if not _is_long(authority):
            return parse(authority, check)
        if check:
            raise ValueError("its host is too long")
        return always_str(authority, "utf-8", "surrogateescape"), None

    return bounded


_HELLOS = ("parse_client_hello", "dtls_parse_client_hello", "quic_parse_client_hello_from_datagrams")
#: as in ``bounded_http``
WRAPPED = (
    (_bounded, _HELLOS, (tls, next_layer, QUIC_LAYERS)),
    (_bounded_validity, ("is_valid_host",), (check, url)),
    (_bounded_authority, ("parse_authority",), (url,)),
)
