"""A ClientHello is read, or refused where servers may read it in different ways."""

from __future__ import annotations

import pytest
from mitmproxy import connection
from mitmproxy.options import Options
from mitmproxy.proxy.context import Context

from hushlist.proxy.connections.client_hello import LONGEST_HELLO, IncompleteError, read_hello


def test_a_datagram_with_packets_in_the_wrong_order_is_no_hello() -> None:
    # an Initial packet (RFC 9001, A.2), which cannot be read, and behind it one that would have to stand behind another
    datagram = bytes.fromhex("c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11") + bytes(1168)
    packets = datagram + b"GET / HTTP/1.1\r\nA: b\r\nHost: \tblocked.example :80\r\n\r\n\0\0"
    context = Context(
        connection.Client(peername=("192.0.2.1", 1), sockname=("", 0), transport_protocol="udp"), Options()
    )
    with pytest.raises(ValueError, match="no ClientHello"):
        read_hello(context, [packets])


@pytest.mark.parametrize(
    ("length", "kind", "why"),
    [(LONGEST_HELLO - 1, IncompleteError, None), (LONGEST_HELLO, ValueError, "it is too long")],
)
def test_a_hello_is_waited_for_up_to_a_length(length: int, kind: type[Exception], why: str | None) -> None:
    # records of TLS, of which the first begins a ClientHello of 2^24 - 1 octets
    body = b"\1\xff\xff\xff" + bytes(0x3FFC)
    records = b"\x16\3\1\x40\0" + body + (b"\x16\3\1\x40\0" + bytes(0x4000)) * (length // 0x4000)
    context = Context(connection.Client(peername=("192.0.2.1", 1), sockname=("", 0)), Options())
    with pytest.raises(kind, match=why):
        read_hello(context, [records[:length]])
