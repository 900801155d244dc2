"""Bounds of what others may write into the log: no line of their own, nothing that steers a terminal, no flood.

mitmproxy logs names as clients send them, and so may any addon. A line end in one would begin a line that looks like
the log's own.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from mitmproxy.log import MitmLogHandler
from mitmproxy.proxy import layer
from mitmproxy.proxy.layers import modes
from mitmproxy.proxy.server import ConnectionHandler

from hushlist.core.errors import escape_message

#: characters of a message about a connection
LONGEST_LOGGED = 1000


def _log_in_short(
    log: Callable[..., None], handler: ConnectionHandler, message: str, *arguments: object, **named: object
) -> None:
    """Log about a connection: a client that sends nonsense would fill the log with four times of it."""
    if len(message) > LONGEST_LOGGED:
        message = f"{message[:LONGEST_LOGGED]}... ({len(message):,} characters)"
    log(handler, message, *arguments, **named)


#: loggers of mitmproxy that tell of its options alone, in several lines, such as a WireGuard client's configuration
_OF_LINES = {f"mitmproxy.{module}" for module in ("addons.dns_resolver", "addons.proxyserver", "addons.tlsconfig")}
_OF_LINES |= {"mitmproxy.proxy.mode_servers"}


def _filter_printably(
    passes: Callable[[MitmLogHandler, logging.LogRecord], bool], handler: MitmLogHandler, record: logging.LogRecord
) -> bool:
    """Whether a handler takes a record, which is made printable before."""
    if not passes(handler, record):
        return False
    try:
        escape_message(record, has_lines=record.name in _OF_LINES)
    except Exception:
        record.msg, record.args, record.exc_info = f"a message of {record.name} that cannot be told", (), None
    return True


#: what no name has in the request of a client of SOCKS (RFC 1928, 5)
_NO_NAME = re.compile(rb"[\x00-\x20\x7f]")
_TO_NAME = bytes((modes.SOCKS5_VERSION, 1, 0, modes.SOCKS5_ATYP_DOMAINNAME))


def _connect_to_name(
    state_connect: Callable[[modes.Socks5Proxy], layer.CommandGenerator[None]], proxy: modes.Socks5Proxy
) -> layer.CommandGenerator[None]:
    """Read the request of a client of SOCKS; refuse a name with white space or a control character before it is used.

    Such a name has no decision but that it cannot be read, and mitmproxy logs it when it connects.
    """
    octets = proxy.buf
    if octets[:4] == _TO_NAME and len(octets) > 4:
        name = octets[5 : 5 + octets[4]]
        if _NO_NAME.search(name):
            why = f"The name that a SOCKS5 request asks for has an octet that none has: {name!r}"
            yield from proxy.socks_err(why, modes.SOCKS5_REP_HOST_UNREACHABLE)
            return
    yield from state_connect(proxy)


#: as in ``bounded_http``
WRAPPED = (
    (_log_in_short, ("log",), (ConnectionHandler,)),
    (_filter_printably, ("filter",), (MitmLogHandler,)),
    (_connect_to_name, ("state_connect",), (modes.Socks5Proxy,)),
)
