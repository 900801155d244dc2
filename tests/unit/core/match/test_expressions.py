"""Host-suffix/path-prefix expressions."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from hushlist.core.errors import UrlError
from hushlist.core.match.expressions import deepest_folder, expressions, host_suffixes, own_expression, path_prefixes
from hushlist.core.url.parts import Parts
from hushlist.core.url.safebrowsing import SAFEBROWSING
from unit.hostile import urls
from unit.rows import each_row


def canonical(url: bytes | str) -> Parts:
    return SAFEBROWSING.apply(SAFEBROWSING.parse(url))


@each_row(
    ("url", "expected"),
    [
        # Safe Browsing v4's three examples, the most specific first
        (
            "http://a.b.c/1/2.html?param=1",
            [
                *("a.b.c/1/2.html?param=1", "a.b.c/1/2.html", "a.b.c/1/", "a.b.c/"),
                *("b.c/1/2.html?param=1", "b.c/1/2.html", "b.c/1/", "b.c/"),
            ],
        ),
        (
            "http://a.b.c.d.e.f.g/1.html",
            [
                *("a.b.c.d.e.f.g/1.html", "a.b.c.d.e.f.g/"),
                *("c.d.e.f.g/1.html", "c.d.e.f.g/"),
                *("d.e.f.g/1.html", "d.e.f.g/"),
                *("e.f.g/1.html", "e.f.g/"),
                *("f.g/1.html", "f.g/"),
            ],
        ),
        ("http://1.2.3.4/1/", ["1.2.3.4/1/", "1.2.3.4/"]),
        # readings 3 and 5 of addon/readings.md
        ("http://a.b/q?", ["a.b/q", "a.b/"]),
        ("http://a.b/?", ["a.b/"]),
        ("http://a.b/", ["a.b/"]),
        ("http://b/", ["b/"]),
        ("http://b/?/", ["b/?/", "b/"]),
        ("http://[::1]/a", ["[::1]/a", "[::1]/"]),
        ("http://u:p@a.b:99/", ["a.b/"]),
        ("http://276.2.3/", ["276.2.3/", "2.3/"]),
        ("http://a.b/1/2/3/4/5", ["a.b/1/2/3/4/5", "a.b/1/2/3/", "a.b/1/2/", "a.b/1/", "a.b/"]),
        ("http://a.b/1/2/3/4/", ["a.b/1/2/3/4/", "a.b/1/2/3/", "a.b/1/2/", "a.b/1/", "a.b/"]),
        ("http://a.b/1/2/3/", ["a.b/1/2/3/", "a.b/1/2/", "a.b/1/", "a.b/"]),
    ],
)
def test_the_most_specific_comes_first(url: str, expected: list[str]) -> None:
    assert expressions(canonical(url)) == [text.encode() for text in expected]


@each_row(
    ("host", "expected"),
    [
        (b"a.b.c.d.e", [b"a.b.c.d.e", b"b.c.d.e", b"c.d.e", b"d.e"]),
        (b"a.b.c.d.e.f", [b"a.b.c.d.e.f", b"b.c.d.e.f", b"c.d.e.f", b"d.e.f", b"e.f"]),
        (b"a.b.c.d.e.f.g", [b"a.b.c.d.e.f.g", b"c.d.e.f.g", b"d.e.f.g", b"e.f.g", b"f.g"]),
        (b"co.uk", [b"co.uk"]),
        (b"localhost", [b"localhost"]),
        (b"1.2.3.4", [b"1.2.3.4"]),
        (b"[1::2.3.4.5", [b"[1::2.3.4.5"]),
    ],
)
def test_at_most_five_hosts_and_never_a_bare_top_level_label(host: bytes, expected: list[bytes]) -> None:
    assert host_suffixes(host) == expected


@given(st.lists(st.sampled_from([b"a", b"/", b"//", b"b/"]), max_size=12).map(lambda own: b"/" + b"".join(own)))
@example(b"/1/2/3/4/")
@example(b"/1/2/3//")
def test_the_deepest_folder_has_all_that_a_path_has(path: bytes) -> None:
    for deepest in range(6):
        folder = deepest_folder(path, deepest)
        folders = path_prefixes(path, None, deepest)[1:]
        assert folders == (path_prefixes(folder, None, deepest) if folder else [])


@given(urls())
def test_at_most_thirty_all_distinct_and_nested(url: bytes) -> None:
    try:
        parts = canonical(url)
    except UrlError:
        return
    found = expressions(parts)
    assert 0 < len(found) <= 30
    assert len(set(found)) == len(found)
    assert found[0] == own_expression(parts)
    hosts = host_suffixes(parts.host or b"")
    paths = path_prefixes(parts.path, parts.query)
    assert len(hosts) <= 5
    assert len(paths) <= 6
    assert all(longer.endswith(b"." + shorter) for longer, shorter in pairwise(hosts))
    assert all(longer.startswith(shorter) for longer, shorter in pairwise(paths))
    assert all(b"." in host for host in hosts[1:])
