"""DNS: names made of pointers, and questions that are kept."""

import struct

import pytest
from mitmproxy.net.dns import domain_names, types
from mitmproxy.options import Options
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import DNSLayer
from mitmproxy.test import tflow, tutils

from hushlist.proxy.bounds.bounded_dns import MOST_QUESTIONS
from hushlist.proxy.bounds.bounded_input import bound_input
from unit.proxy.bounds.little_time import takes_little_time
from unit.rows import each_row


def question(name: bytes) -> bytes:
    return name + b"\0\x01\0\x01"


def message(*questions: bytes) -> bytes:
    return b"\0\x07\x01\0" + len(questions).to_bytes(2, "big") + bytes(6) + b"".join(questions)


def pointer(place: int) -> bytes:
    return (0xC000 | place).to_bytes(2, "big")


_LONG = b"\x01a" * 127
HOSTILE = {
    "one long name, many times": message(question(_LONG + b"\0"), *[question(pointer(12))] * 9000),
    "each name longer than that before it": message(
        question(b"\x01a\0"), *(question(b"\x01a" + pointer(max(12, 11 + 8 * at))) for at in range(1000))
    ),
    "a name of 257 letters": message(question(_LONG + b"\x03aaa\0")),
    "a pointer to a pointer, and so on": message(b"".join(map(pointer, range(14, 6014, 2))) + question(b"\0")),
    "no punycode": message(question(b"\x0cxn--99999999\0")),
}


@each_row("octets", HOSTILE.values())
def test_a_dns_message_is_not_read_further_than_is_sensible(octets: bytes) -> None:
    bound_input()
    with pytest.raises(struct.error, match=r"too long|cannot be read|illegal characters"):
        type(tutils.tdnsreq()).unpack(octets)


def record(kind: int, data: bytes) -> bytes:
    return b"\0" + struct.pack("!HHIH", kind, 1, 1, len(data)) + data


def test_what_may_be_a_pointer_in_a_record_takes_little_time() -> None:
    """Each octet of the first record begins a name that is too long, and each two of the second one lead there."""
    number, start = 2000, 12 + 5 + 11
    pointers = b"".join(pointer(start + at) for at in range(number))
    octets = message(question(b"\0"))[:6] + b"\0\2" + bytes(4) + question(b"\0")
    octets += record(types.A, b"\1" * number) + record(types.TXT, pointers)
    unpack = type(tutils.tdnsreq()).unpack
    bound_input()
    assert len(unpack(octets).answers) == 2
    assert takes_little_time(lambda: unpack(octets))


def test_names_are_read_as_before() -> None:
    bound_input()
    octets = b"\3www\7example\0" + b"\3ftp" + pointer(4) + b"\x0dxn--bcher-kva" + pointer(12)
    cache = domain_names.cache()
    read = [domain_names.unpack_from_with_compression(octets, place, cache) for place in (0, 13, 19, 13)]
    assert read == [("www.example", 13), ("ftp.example", 6), ("b\u00fccher.", 16), ("ftp.example", 6)]
    for broken in (b"\3ab", b"\xc0", pointer(0), b"\1a" + pointer(0), b"\x40" + b"a" * 64, b""):
        with pytest.raises(struct.error):
            domain_names.unpack_from_with_compression(broken, 0, domain_names.cache())


def test_only_the_last_questions_of_a_connection_are_kept() -> None:
    bound_input()
    layer = DNSLayer(Context(tflow.tclient_conn(), Options()))
    for number in range(2 * MOST_QUESTIONS):
        layer.flows[number] = tflow.tdnsflow()
    assert list(layer.flows) == list(range(MOST_QUESTIONS, 2 * MOST_QUESTIONS))
