"""What a server may take a path for."""

import pytest
from hypothesis import given

from hushlist.errors import UrlError
from hushlist.url.parts import Parts
from hushlist.url.readings import readings
from hushlist.url.safebrowsing import canonicalize, parse
from unit.hostile import urls


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"/a/b", [b"/a/b"]),
        (b"/./a//b", [b"/a/b"]),
        (b"/x//../bad", [b"/x/bad", b"/bad", b"/x/../bad"]),  # nginx merges slashes first
        (b"/x/../bad", [b"/bad", b"/x/../bad"]),
        (b"/x\\..\\bad", [b"/x\\..\\bad", b"/bad", b"/x/../bad"]),  # IIS
        (b"/x/%2e%2e%5cbad", [b"/x/..\\bad", b"/bad", b"/x/../bad"]),
        (b"/a/...", [b"/a/..."]),
        (b"/a%3f/../b", [b"/a", b"/b", b"/a?/../b", b"/b"]),  # an escaped question mark begins no query
        (b"/a;x=y/..;/b", [b"/a;x=y/..;/b", b"/b", b"/a/../b"]),  # Java leaves parameters out
        (b"/%u0062", [b"/%25u0062", b"/b"]),  # IIS
        (b"/secret%c0%afx", [b"/secret%C0%AFx", b"/secret/x"]),  # decoders of long ago read overlong UTF-8
        (b"/secret\xe0\x80\xafx", [b"/secret%E0%80%AFx", b"/secret/x"]),
        (b"/a/%C0%AE%C0%AE/b", [b"/a/%C0%AE%C0%AE/b", b"/b", b"/a/../b"]),
        (b"/x%c0%afy/../b%c1%a1d", [b"/b%C1%A1d", b"/x%C0%AFy/../b%C1%A1d", b"/bad", b"/x/bad", b"/x/y/../bad"]),
        (b"/%c0%a52fb", [b"/%C0%A52fb", b"/b"]),
        (b"/%c0%bb/%c0%bf", [b"/%C0%BB/%C0%BF", b"/;/?", b"/?"]),
        (b"/caf%c3%a9/%e2%82%ac", [b"/caf%C3%A9/%E2%82%AC"]),
        (b"/./b/%252e%252e/c", [b"/c", b"/./b/../c", b"/b/../c"]),
    ],
)
def test_a_path_is_read_in_every_way_that_a_server_may(path: bytes, expected: list[bytes]) -> None:
    assert [parts.path for parts in readings(Parts(b"http", None, b"h", None, path))] == expected


@given(urls())
def test_the_first_reading_is_the_canonical_form_and_no_two_are_equal(url: bytes) -> None:
    try:
        found = readings(parse(url))
    except UrlError:
        return
    assert found[0].join() == canonicalize(url)
    assert len(set(found)) == len(found) <= 38
