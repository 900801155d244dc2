"""Host names and ClientHellos that are too long."""

from functools import cache

import pytest
from mitmproxy.addons import next_layer
from mitmproxy.net import check
from mitmproxy.net.http import url
from mitmproxy.net.http.http1 import read_request_head
from mitmproxy.proxy.layers import tls

from hushlist.proxy.bounds.bounded_input import bound_input
from hushlist.proxy.bounds.bounded_names import LONGEST_HELLO
from unit.proxy.bounds.little_time import takes_little_time
from unit.proxy.connections.test_tunnels import client_hello
from unit.rows import each_row


def test_a_hello_that_does_not_end_is_refused() -> None:
    bound_input()
    begun = b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(LONGEST_HELLO)
    for module in (tls, next_layer):
        assert module.parse_client_hello(client_hello(b"good.example")).sni == "good.example"
        assert module.parse_client_hello(begun[:LONGEST_HELLO]) is None
        with pytest.raises(ValueError, match="too long"):
            module.parse_client_hello(begun)
        with pytest.raises(ValueError):
            module.parse_client_hello(b"GET / HTTP/1.1")


#: letters of which no two are alike, which is what Punycode is slowest for
_LETTERS = "".join(chr(0x4E00 + number) for number in range(2000))
_LONG_HOSTS = {
    "letters": _LETTERS.encode,
    "punycode": cache(lambda: b"xn--" + _LETTERS.encode("punycode")),
    "no punycode": lambda: b"xn--" + b"a" * 60000,
    "labels": "\u4e00.".__mul__(9000).encode,
}


@pytest.mark.slow
@each_row("more", [b"", b".test", b":80"])
@each_row("host", _LONG_HOSTS)
def test_a_long_host_takes_little_time(host: str, more: bytes) -> None:
    octets = _LONG_HOSTS[host]() + more
    assert takes_little_time(lambda: read_request_head([b"GET http://%b/ HTTP/1.1" % octets]))
    assert takes_little_time(lambda: url.parse_authority(octets.decode(), check=True))
    assert url.parse_authority(octets, check=False) == (octets.decode(), None)
    assert takes_little_time(lambda: check.is_valid_host(octets))
    assert not check.is_valid_host(octets)
