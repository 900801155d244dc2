"""mitmproxy is bounded, once."""

from mitmproxy.proxy.layers import tls
from mitmproxy.proxy.layers.http import _http1

from hushlist.proxy.addon import Hushlist
from hushlist.proxy.bounds.bounded_http import BoundedBuffer
from hushlist.proxy.bounds.bounded_input import bound_input
from unit.mitmproxied import mitmproxied


def test_mitmproxy_is_bounded_once() -> None:
    bound_input()
    bounded = tls.parse_client_hello
    bound_input()
    assert tls.parse_client_hello is bounded


def test_the_addon_sets_the_bounds_once() -> None:
    for _ in range(2):
        with mitmproxied(Hushlist()):
            parse = tls.parse_client_hello
            assert vars(_http1)["ReceiveBuffer"] is BoundedBuffer
    assert tls.parse_client_hello is parse
