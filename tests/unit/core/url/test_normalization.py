"""Percent-encoding."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from hushlist.core.url.normalization import (
    normalize_percent_encoding,
    percent_decode_repeatedly,
    percent_encode,
    unescape_once,
)
from unit.hostile import octets
from unit.rows import each_row

_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


def until_no_more_percent_escapes(data: bytes) -> bytes:
    """The specification, word for word; quadratic."""
    while True:
        unescaped = _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), data)
        if unescaped == data:
            return data
        data = unescaped


def escapes() -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from([*b"%%%%0123456789abcdefABCDEFg"]), max_size=40).map(bytes)


@each_row(
    ("data", "expected"),
    [
        # Safe Browsing v4, Canonicalization: the paths of its examples
        (b"%25%32%35", b"%"),
        (b"%25%32%35%25%32%35", b"%%"),
        (b"%2525252525252525", b"%"),
        (b"asdf%25%32%35asd", b"asdf%asd"),
        (b"%%%25%32%35asd%%", b"%%%asd%%"),
        (b"%257Ea%2521b%2540c%2523d%2524e%25f%255E00", b"~a!b@c#d$e%f^00"),
        # an escape made of the results of others, on either side
        (b"%%34%31", b"A"),
        (b"%2%35%34%31", b"A"),
        (b"%%32%35%34%31", b"A"),
        (b"%3%37a", b"7a"),
        (b"", b""),
        (b"%", b"%"),
        (b"%4", b"%4"),
        (b"%4g%G4", b"%4g%G4"),
        (b"%aF%Af", b"\xaf\xaf"),
        (b"%00", b"\x00"),
    ],
)
def test_escapes_are_undone_until_there_are_no_more(data: bytes, expected: bytes) -> None:
    assert percent_decode_repeatedly(data) == expected


@given(escapes() | st.lists(st.sampled_from([*b"%%%%==3D25\r\n \t_."]), max_size=20).map(bytes) | octets())
@example(b"=%\n%41")
@example(b"%%41%")
@example(b"%=\r\n%3D=3D")
def test_escapes_are_decoded_once(data: bytes) -> None:
    assert unescape_once(data) == _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), data)


@given(escapes() | octets())
@example(b"%%%33%32%35%34%31")
def test_one_pass_does_what_all_passes_would(data: bytes) -> None:
    assert percent_decode_repeatedly(data) == until_no_more_percent_escapes(data)


def test_exactly_the_unsafe_octets_are_escaped_in_upper_case() -> None:
    for octet in range(256):
        is_unsafe = octet <= 32 or octet >= 127 or octet in b"#%"
        assert percent_encode(bytes([octet])) == (b"%%%02X" % octet if is_unsafe else bytes([octet]))


@each_row(
    ("data", "expected"),
    [
        (b"/a%62c", b"/abc"),
        (b"%7e%7E%2d%2E%5f", b"~~-._"),
        (b"%2f%3f%c3%Bc", b"%2F%3F%C3%BC"),
        (b"%2562", b"%2562"),  # once, not repeatedly
        (b"%zz%4", b"%zz%4"),
        (b"a b", b"a b"),
    ],
)
def test_only_unreserved_characters_are_decoded_and_only_once(data: bytes, expected: bytes) -> None:
    assert normalize_percent_encoding(data) == expected
