"""Splitting and joining."""

import pytest
from hypothesis import given

from hushlist.core.errors import UrlError
from hushlist.core.url.parts import (
    Parts,
    as_typed,
    rooted,
    split_generic,
    split_web,
    to_bytes,
)
from unit.hostile import octets, urls
from unit.rows import each_row


@each_row(
    ("uri", "parts"),
    [
        (b"http://u:p@h:1/p?q#f", Parts(b"http", b"u:p", b"h", b"1", b"/p", b"q", b"f")),
        (b"http://h", Parts(b"http", None, b"h", None, b"")),
        (b"http://@h:?#", Parts(b"http", b"", b"h", b"", b"", b"", b"")),
        (b"http:///p", Parts(b"http", None, b"", None, b"/p")),
        (b"//h/p", Parts(None, None, b"h", None, b"/p")),
        (b"mailto:clive@demon.net", Parts(b"mailto", None, None, None, b"clive@demon.net")),
        (b"/p?q?r#f#g", Parts(None, None, None, None, b"/p", b"q?r", b"f#g")),
        (b"1a:b//c", Parts(None, None, None, None, b"1a:b//c")),
        (b":x", Parts(None, None, None, None, b":x")),
        (b"1a://h/p?q", Parts(None, None, None, None, b"1a://h/p", b"q")),
        (b"http://[::1]:8/", Parts(b"http", None, b"[::1]", b"8", b"/")),
        (b"http://::1/", Parts(b"http", None, b"", b":1", b"/")),
        (b"http://a@b@c/", Parts(b"http", b"a@b", b"c", None, b"/")),
        (b"http://h:1:2/", Parts(b"http", None, b"h", b"1:2", b"/")),
        (b"", Parts(None, None, None, None, b"")),
        (b"a\nb#\n", Parts(None, None, None, None, b"a\nb", None, b"\n")),
    ],
)
def test_generic_split_tells_undefined_from_empty(uri: bytes, parts: Parts) -> None:
    assert split_generic(uri) == parts


@given(octets() | urls())
def test_joining_gives_back_what_was_split(uri: bytes) -> None:
    assert split_generic(uri).join() == uri


@each_row(
    ("url", "host", "rest"),
    [
        (b"http://a.example", b"a.example", (b"http", None, None, b"/", None)),
        (b"HTTP://a.example?x", b"a.example", (b"HTTP", None, None, b"/", b"x")),
        (b"a.example", b"a.example", (None, None, None, b"/", None)),
        (b"a.example:443/abc", b"a.example", (None, None, b"443", b"/abc", None)),
        (b"//a.example:443/abc", b"a.example", (None, None, b"443", b"/abc", None)),
        (b"a.example:443", b"a.example", (None, None, b"443", b"/", None)),
        (b"a.example:?x", b"a.example", (None, None, b"", b"/", b"x")),
        (b"http://me:pw@a.example:80/", b"a.example", (b"http", b"me:pw", b"80", b"/", None)),
        (b"http://good\\@bad/", b"good", (b"http", None, None, b"/\\@bad/", None)),
        (b"http://good/@bad/", b"good", (b"http", None, None, b"/@bad/", None)),
        (b"http://good?@bad/", b"good", (b"http", None, None, b"/", b"@bad/")),
        (b"http://h/p??q?", b"h", (b"http", None, None, b"/p", b"?q?")),
        (b"::1/x", b"[::1]", (None, None, None, b"/x", None)),
        (b"fe80::1", b"[fe80::1]", (None, None, None, b"/", None)),
        (b"[::1]:80/x", b"[::1]", (None, None, b"80", b"/x", None)),
        (b"svn+ssh://h/x", b"h", (b"svn+ssh", None, None, b"/x", None)),
        (b" h/x", b" h", (None, None, None, b"/x", None)),
        # A browser needs no slashes behind http and https, and takes backslashes too.
        (b"http:a.example/x", b"a.example", (b"http", None, None, b"/x", None)),
        (b"HTTPS:/a.example", b"a.example", (b"HTTPS", None, None, b"/", None)),
        (b"http:\\\\a.example\\x", b"a.example", (b"http", None, None, b"/\\x", None)),
        (b"http:/\\a.example", b"a.example", (b"http", None, None, b"/", None)),
        (b"http:me:pw@a.example", b"a.example", (b"http", b"me:pw", None, b"/", None)),
        (b"http:80", b"80", (b"http", None, None, b"/", None)),
    ],
)
def test_web_split_presumes_a_host(url: bytes, host: bytes, rest: tuple[bytes | None, ...]) -> None:
    parts = split_web(url)
    assert parts.host == host
    assert (parts.scheme, parts.userinfo, parts.port, parts.path, parts.query) == rest
    assert parts.fragment is None


@pytest.mark.parametrize("url", [b"wss:/h/", b"WS:/h", b"ftp:/"])
def test_one_slash_behind_a_scheme_does_not_make_the_scheme_a_host(url: bytes) -> None:
    with pytest.raises(UrlError, match="expected '//' behind the scheme"):
        split_web(url)


@each_row(
    ("url", "expected"),
    [
        (b"\x80", b"\x80"),
        ("ü", b"\xc3\xbc"),
        ("\x80", b"\xc2\x80"),
        ("\udc80", b"\x80"),  # an octet that Python smuggled into text
        ("\ud800", b"\xed\xa0\x80"),  # stands for no octet
    ],
)
def test_text_is_utf_8(url: bytes | str, expected: bytes) -> None:
    assert to_bytes(url) == expected


@each_row(("path", "expected"), [(b"", b"/"), (b"a", b"/a"), (b"/a", b"/a"), (b"\\a", b"/\\a")])
def test_a_path_is_rooted_once(path: bytes, expected: bytes) -> None:
    assert rooted(path) == rooted(rooted(path)) == expected


# -- what a person types -----------------------------------------------------------------------------------------


@each_row(
    ("text", "url"),
    [
        ("http://h.example/a b", b"http://h.example/a b"),
        (" http://h.example/ ", b" http://h.example/ "),  # as given: whoever canonicalizes it removes the spaces
        ("<http://h.ex\n  ample/a b>", b"http://h.example/ab"),
        ('"http://h.ex\r\n ample/a b"', b"http://h.example/a b"),
        ("<url: \u00fc.example\t>", "\u00fc.example".encode()),
        ("h.example?%68ttp://", b"h.example?%68ttp://"),
        ("h.example/%68ttp://", b"h.example/%68ttp://"),
        ("h.example:80%://", b"h.example:80%://"),
        ("\udcff", b"\xff"),
        ("", b""),
        # "recognize and strip both delimiters and embedded whitespace": no host has any
        ("http://h. example /a b", b"http://h.example/a b"),
        ("https://h.\n  example:80 80?a b", b"https://h.example:8080?a b"),
        ("http://a.example http://b.example", b"http://a.example http://b.example"),
        ("a b.example/c", b"a b.example/c"),
    ],
)
def test_what_a_person_types_is_taken_without_its_delimiters(text: str, url: bytes) -> None:
    assert as_typed(text) == url


@each_row("text", ["http://h/in-\ndex.html", "<http://h/in- \r\n dex.html>", '"a.b-\n\nc"'])
def test_a_hyphen_at_a_line_s_end_is_asked_about(text: str) -> None:
    """Appendix C: "the interpreter ... should be aware that the hyphen may or may not actually be part of the URI"."""
    with pytest.raises(UrlError, match="a line ends in a hyphen, which may or may not be part of it"):
        as_typed(text)
