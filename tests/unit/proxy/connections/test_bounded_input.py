"""What mitmproxy keeps of a head or a ClientHello that does not end."""

import pytest
from mitmproxy.addons import next_layer
from mitmproxy.net.http.http1 import read_request_head, read_response_head
from mitmproxy.proxy.layers import tls
from mitmproxy.proxy.layers.http import _http1

from hushlist.proxy.addon import Hushlist
from hushlist.proxy.connections.bounded_input import LONGEST_HELLO, MOST_WAITING, BoundedBuffer, bound_input
from unit.mitmproxied import mitmproxied


def filled(*pieces: bytes) -> BoundedBuffer:
    buffer = BoundedBuffer()
    for piece in pieces:
        buffer += piece
    return buffer


def test_mitmproxy_is_bounded_once() -> None:
    bound_input()
    bounded = tls.parse_client_hello
    bound_input()
    assert tls.parse_client_hello is bounded


@pytest.mark.parametrize(
    "pieces",
    [[b"GET / HTTP/1.1\r\n", *[b"X: y\r\n" * 9999] * 9], [b"a" * MOST_WAITING, b"\n\n"], [b"\r\n" * MOST_WAITING]],
)
def test_a_head_that_does_not_end_becomes_one_that_nobody_can_read(pieces: list[bytes]) -> None:
    buffer = filled(*pieces)
    assert len(buffer) <= MOST_WAITING
    lines = [bytes(line) for line in buffer.maybe_extract_lines() or []]
    for read in (read_request_head, read_response_head):
        with pytest.raises(ValueError, match="too long"):
            read(lines)


def test_what_is_no_longer_than_that_is_read() -> None:
    head = b"GET / HTTP/1.1\r\nX: " + b"y" * (MOST_WAITING - 23) + b"\r\n\r\n"
    assert len(head) == MOST_WAITING
    lines = filled(*(head[at : at + 65535] for at in range(0, len(head), 65535))).maybe_extract_lines()
    assert lines is not None
    assert read_request_head([bytes(line) for line in lines]).headers["x"] == "y" * (MOST_WAITING - 23)


def test_a_hello_that_does_not_end_is_refused() -> None:
    bound_input()
    begun = b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(LONGEST_HELLO)
    for module in (tls, next_layer):
        assert module.parse_client_hello(begun[:LONGEST_HELLO]) is None
        with pytest.raises(ValueError, match="too long"):
            module.parse_client_hello(begun)
        with pytest.raises(ValueError):
            module.parse_client_hello(b"GET / HTTP/1.1")


def test_the_addon_sets_the_bounds_once() -> None:
    for _ in range(2):
        with mitmproxied(Hushlist()):
            parse = tls.parse_client_hello
            assert vars(_http1)["ReceiveBuffer"] is BoundedBuffer
    assert tls.parse_client_hello is parse
