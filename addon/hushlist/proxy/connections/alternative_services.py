"""Removes from answers what would lead a browser past the filter.

From headers: alternative services, and line ends, behind which they could hide; a question for the proxy's password,
which only the proxy itself may ask. From HTTPS and SVCB records of DNS: ECH
and HTTP/3. A redirect's target is decided when it is requested. An ALTSVC frame of HTTP/2 ends at mitmproxy.

>>> text = b"\\x00\\x01\\x00" + b"\\x00\\x01\\x00\\x06\\x02h3\\x02h2" + b"\\x00\\x05\\x00\\x02\\xfe\\x0d"
>>> read_service_record(text).filtered().to_bytes()
b'\\x00\\x01\\x00\\x00\\x01\\x00\\x03\\x02h2'

Spec: RFC 9460, 2.2, and 7.1 for alpn; RFC 9849 for ech
"""

from __future__ import annotations

from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address
from itertools import chain, pairwise
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from mitmproxy import ctx, http

from hushlist.proxy.flow_request import client_of_flow
from hushlist.proxy.runtime import Runtime

MANDATORY, ALPN, NO_DEFAULT_ALPN, _PORT, IPV4_HINT, ECH, IPV6_HINT = range(7)
_NUMBER = Struct("!H")
_FIELD = Struct("!HH")
#: octets of a name with its lengths, and of a label
_LONGEST_NAME, _LONGEST_LABEL = 255, 63


class ServiceRecord(NamedTuple):
    """The data of a record; "SvcPriority 0 is alias mode"."""

    priority: int
    #: labels of the target; none for "."
    target: tuple[bytes, ...]
    #: values by key, in ascending order
    params: dict[int, bytes]

    @property
    def addresses(self) -> tuple[IPv4Address | IPv6Address, ...]:
        ipv4, ipv6 = self.params.get(IPV4_HINT, b""), self.params.get(IPV6_HINT, b"")
        return (
            *(IPv4Address(ipv4[at : at + 4]) for at in range(0, len(ipv4), 4)),
            *(IPv6Address(ipv6[at : at + 16]) for at in range(0, len(ipv6), 16)),
        )

    def filtered(self) -> ServiceRecord | None:
        """The record without ECH and HTTP/3; ``None`` if it offers nothing else."""
        params = {key: value for key, value in self.params.items() if key != ECH}
        if ALPN in params:
            protocols = [
                protocol
                for protocol in _protocols(params[ALPN])
                if protocol != b"h3" and not protocol.startswith(b"h3-")
            ]
            if not protocols and NO_DEFAULT_ALPN in params:
                return None
            params[ALPN] = b"".join(bytes((len(protocol),)) + protocol for protocol in protocols)
            if not protocols:
                del params[ALPN]
        if MANDATORY in params:
            keys = (key for (key,) in _NUMBER.iter_unpack(params[MANDATORY]) if key in params)
            params[MANDATORY] = b"".join(map(_NUMBER.pack, keys))
            if not params[MANDATORY]:
                del params[MANDATORY]
        return self._replace(params=params)

    def to_bytes(self) -> bytes:
        """The data as in a message."""
        labels = b"".join(bytes((len(label),)) + label for label in self.target)
        params = b"".join(_FIELD.pack(key, len(value)) + value for key, value in self.params.items())
        return _NUMBER.pack(self.priority) + labels + b"\0" + params


def read_service_record(data: bytes) -> ServiceRecord:
    """Parse a record's data.

    Raises:
            ValueError: it is malformed: "the client MUST treat RRs with ... malformed SvcParams as malformed".
    """
    try:
        (priority,) = _NUMBER.unpack_from(data, 0)
        target, at = _read_name(data, _NUMBER.size)
        params: dict[int, bytes] = {}
        while at < len(data):
            key, length = _FIELD.unpack_from(data, at)
            at += _FIELD.size + length
            if at > len(data):
                raise ValueError("a value is cut off")
            if params and key <= max(params):
                raise ValueError("keys are not in ascending order")
            params[key] = data[at - length : at]
    except (StructError, IndexError) as error:
        raise ValueError("it is cut off") from error
    _check(params)
    return ServiceRecord(priority, target, params)


def _read_name(data: bytes, at: int) -> tuple[tuple[bytes, ...], int]:
    """An uncompressed name, and where it ends."""
    start, labels = at, []
    while length := data[at]:
        if length > _LONGEST_LABEL or at + 1 + length - start >= _LONGEST_NAME:
            raise ValueError("its target is no name")
        labels.append(data[at + 1 : at + 1 + length])
        at += 1 + length
    return tuple(labels), at + 1


def _check(params: dict[int, bytes]) -> None:
    if ALPN in params and not _protocols(params[ALPN]):
        raise ValueError("alpn is empty")
    for key, size in ((MANDATORY, 2), (IPV4_HINT, 4), (IPV6_HINT, 16)):
        if key in params and (not params[key] or len(params[key]) % size):
            raise ValueError(f"the length of key {key} is wrong")
    mandatory = [key for (key,) in _NUMBER.iter_unpack(params.get(MANDATORY, b""))]
    if any(first >= second for first, second in pairwise(mandatory)) or not params.keys() >= {*mandatory} - {MANDATORY}:
        raise ValueError("mandatory keys are missing, or not in ascending order")


def _protocols(value: bytes) -> list[bytes]:
    """7.1.1: "a list of 1-octet length prefixed alpn-ids"."""
    names, at = [], 0
    while at < len(value):
        end = at + 1 + value[at]
        if end > len(value) or end == at + 1:
            raise ValueError("alpn is cut off, or has an empty name in it")
        names.append(value[at + 1 : end])
        at = end
    return names


_ALT_SVC = b"alt-svc"
#: "the origin requests all alternatives for that origin to be invalidated" (RFC 7838, 3): that does no harm
_CLEAR = b"clear"


#: Spec: RFC 9112, 2.2 and 5.2: who forwards a bare CR or a folded line has to "replace each ... with SP"; browsers may
#: take what is behind one for a field of its own. HTTP/2 can carry any octet.
_AS_SPACES = bytes.maketrans(b"\r\n\0", b"   ")
_CR, _LF, _NUL = b"\r\n\0"  # an octet is found faster as a number


def keep_here(flow: http.HTTPFlow, headers: http.Headers | None, runtime: Runtime) -> None:
    """Remove ``Alt-Svc`` from a response's headers or trailers while the filter is on; recordings are unchanged.

    Line ends in them, and in the reason of its status, become spaces.
    """
    if headers is None or runtime.mode == "off" or not flow.live:
        return
    reason = b"" if flow.response is None else flow.response.data.reason
    written = b"".join([reason, *chain.from_iterable(headers.fields)])
    has_line_end = _CR in written or _LF in written or _NUL in written
    if (has_line_end or _ALT_SVC in written.lower()) and runtime.settings(client_of_flow(flow)).mode != "off":
        kept = [(name, value) for name, value in headers.fields if not _leads_away(name, value)]
        headers.fields = tuple([(name, value.translate(_AS_SPACES)) for name, value in kept])
        if flow.response is not None:
            flow.response.data.reason = reason.translate(_AS_SPACES)


#: the status by which a proxy asks for a password
CHALLENGE = HTTPStatus.PROXY_AUTHENTICATION_REQUIRED


def hide_challenge(flow: http.HTTPFlow, runtime: Runtime) -> None:
    """Make an origin's ``CHALLENGE`` a 502: a browser would ask for a password in the name of the proxy, which has
    none, and the origin would get it.

    Spec: RFC 9110, 15.5.8 and 11.7.1: only a proxy asks so
    """
    response = flow.response
    if response is None or not flow.live or runtime.mode == "off":
        return
    addon = ctx.master.addons.get("proxyauth")
    has_passwords = (addon is not None and addon.validator is not None) or flow.server_conn.via is not None
    if not has_passwords and runtime.settings(client_of_flow(flow)).mode != "off":
        response.status_code, response.reason = HTTPStatus.BAD_GATEWAY, HTTPStatus.BAD_GATEWAY.phrase
        response.headers.pop("proxy-authenticate", None)


def _leads_away(name: bytes, value: bytes) -> bool:
    return name.lower() == _ALT_SVC and value.strip() != _CLEAR
