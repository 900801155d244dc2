"""What a server may take a path for."""

import re
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.errors import UrlError
from hushlist.core.url import normalization
from hushlist.core.url import normalization as paths
from hushlist.core.url.path_interpretations import FormBudget, Readings, path_interpretations
from hushlist.core.url.safebrowsing import canonicalize, parse
from unit.hostile import urls
from unit.rows import each_row


@each_row(
    ("path", "expected"),
    [
        (b"/a/b", {b"/a/b"}),
        (b"/a/.../b", {b"/a/.../b", b"/a/b"}),
        (b"/a./b%20/.c", {b"/a./b%20/.c", b"/a/b%20/.c", b"/a/b/.c"}),  # Windows
        (b"/a/..%20/b", {b"/a/..%20/b", b"/a/../b", b"/b"}),
        (b"/a::$DATA/b", {b"/a::$DATA/b", b"/a/b"}),
        (b"/a:$I30:$index_allocation", {b"/a:$I30:$index_allocation", b"/a"}),
        (b"/a::$DATAx/b:$c", {b"/a::$DATAx/b:$c"}),
        (b"/(S(x)A(y))/b", {b"/(S(x)A(y))/b", b"/b"}),  # ASP.NET
        (b"/a/(S(x))b/(S(x))/", {b"/a/(S(x))b/(S(x))/", b"/ab/(S(x))/", b"/ab/"}),
        (b"/(S(x))", {b"/(S(x))", b"/"}),
        (b"/(s(x))/(S)/(S(x)/b)/()", {b"/(s(x))/(S)/(S(x)/b)/()"}),
        (b"/a%00b/c", {b"/a%00b/c", b"/a"}),  # servers in C
        (b"/\t/a/b", {b"/a/b", b"/%09/a/b", b"/b"}),
        (b"/caf%c3%a9/%e2%82%ac", {b"/caf%C3%A9/%E2%82%AC"}),
        (b"/a//b/./c", {b"/a/b/c"}),
        (b"/./a//b", {b"/a/b"}),
        (b"//a/b", {b"/a/b", b"/b"}),  # a reference with an authority
        (b"///a/b", {b"/a/b", b"/b"}),
        (b"/\\a/b", {b"/\\a/b", b"/a/b", b"/b"}),
        (b"/x/../bad", {b"/bad", b"/x/../bad"}),
        (b"/x//../bad", {b"/x/bad", b"/bad", b"/x/../bad"}),  # nginx merges slashes first
        (b"/x\\..\\bad", {b"/x\\..\\bad", b"/bad", b"/x/../bad"}),  # IIS
        (b"/a;x=y/..;/b", {b"/a;x=y/..;/b", b"/b", b"/a/../b"}),  # Java leaves parameters out
        (b"/a%3f/../b", {b"/a", b"/b", b"/a?/../b"}),  # an escaped question mark begins no query
        (b"/a%23b", {b"/a%23b", b"/a"}),
        (b"/a%09b%20", {b"/a%09b%20", b"/a%09b", b"/ab"}),  # a browser leaves both out
        (b"/%u0062", {b"/%25u0062", b"/b"}),  # IIS
        (b"/secret%c0%afx", {b"/secret%C0%AFx", b"/secret/x"}),  # decoders of long ago read overlong UTF-8
        (b"/secret\xe0\x80\xafx", {b"/secret%E0%80%AFx", b"/secret/x"}),
        (b"/a/%C0%AE%C0%AE/b", {b"/a/%C0%AE%C0%AE/b", b"/b", b"/a/../b"}),
        (b"/%c0%a52fb", {b"/%C0%A52fb", b"/b", b"/"}),
        (b"/./b/%252e%252e/c", {b"/c", b"/b/../c"}),
    ],
)
def test_a_path_is_read_in_every_way_that_a_server_may(path: bytes, expected: set[bytes]) -> None:
    found = path_interpretations(path, None)
    assert {reading for reading, _ in found.targets} == expected
    assert not found.is_cut


def test_a_query_begins_at_an_escaped_question_mark_for_one_server_and_not_for_another() -> None:
    assert path_interpretations(b"/a%3fb", b"c#d").targets == (
        (b"/a", b"b?c%23d"),
        (b"/a?b", b"c%23d"),
        (b"/a?b", b"c"),
        (b"/a", b"b?c"),
    )


STEPS: tuple[Callable[[bytes], bytes], ...] = (
    normalization.unescape_once,
    normalization.unescape_all_but_slashes,
    normalization.unescape_unreserved,
    paths.unescape_percent_u,
    paths.backslashes_to_slashes,
    paths.merge_slashes,
    paths.remove_authority,
    paths.remove_parameters,
    paths.resolve_dot_segments,
    paths.shorten_overlong,
    lambda path: path.partition(b"?")[0],
    lambda path: path.partition(b"#")[0],
    lambda path: path.partition(b"\0")[0],
    lambda path: re.sub(rb"(?<=[^/. ])[. ]+(?=/|\Z)", b"", path),
)
PIECES = (
    *(b"/", b"//", b"\\", b"%2f", b"%252F", b"%5c", b"..", b".", b"%2e", b"%252e", b";", b"%3b", b"%25", b"%", b"5c"),
    *(b"a", b"b", b"?", b"%3f", b"#", b"%u002f", b"\xc0\xaf", b"%c0%ae", b"%zz", b"2e", b"%00", b"%20"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join), st.lists(st.sampled_from(STEPS), max_size=8))
def test_whatever_a_server_does_in_whatever_order_is_a_reading(
    pieces: bytes, server: list[Callable[..., bytes]]
) -> None:
    path = asked = b"/" + pieces
    for step in server:
        path = step(path)
    found = path_interpretations(asked, None)
    assert found.is_cut or path_interpretations(path, None).targets[0][0] in {reading for reading, _ in found.targets}


@given(urls())
def test_the_first_reading_is_the_canonical_form_and_no_two_are_equal(url: bytes) -> None:
    try:
        parts = parse(url)
        canonical = canonicalize(url)
    except UrlError:
        return
    found = path_interpretations(parts.path, parts.query).targets
    path, query = found[0]
    assert canonical.endswith(path if query is None else path + b"?" + query)
    assert len(set(found)) == len(found) <= 258


LONG = 1 << 16


@each_row(
    "path",
    [
        b"/" + b"%2f..%5c;x/.." * (LONG // 13),
        b"/%" + b"25" * (LONG // 2),
        b"/" + b"%25" * (LONG // 3),
        b"//a" * (LONG // 3),
        b"/a?" * (LONG // 3),
        b"/" + b"a/../" * (LONG // 5),
        b"/" + b"%255c%252e" * (LONG // 10),
        b"/" + b"%c0%af;" * (LONG // 7),
        b"/(" + b"A()" * (LONG // 3),
        b"/a" + b":$" * (LONG // 2),
    ],
)
def test_a_long_path_is_read_in_few_ways(path: bytes) -> None:
    assert len(path_interpretations(path, None).targets) <= 17


@each_row("odd", [b";x", b"\\", b"/./..", b"//a?"])
def test_a_path_that_is_longer_than_servers_take_has_one_reading_and_others_that_are_not_looked_for(odd: bytes) -> None:
    path = b"/secret/" + b"a" * (1 << 14)
    assert path_interpretations(path, None) == Readings(((path, None),), is_cut=False)
    for long, is_cut in ((path, True), (path[:-99], False)):
        found = path_interpretations(long + odd, b"q")
        assert (found.targets[0][0][:8], found.is_cut) == (b"/secret/", is_cut)
        assert len(found.targets) == 1 or not is_cut


def test_a_short_path_that_means_too_much_is_cut() -> None:
    found = path_interpretations(b"/%252f..%255c;x/..%253f//" * 4, None)
    assert found.is_cut
    assert len(found.targets) == 1


def test_all_targets_of_a_request_have_one_budget() -> None:
    budget, path = FormBudget(), b"/a;b/..%2fc;d%5ce/x;y"
    alone = path_interpretations(path, None)
    found = [path_interpretations(path + b"/%d" % number, None, budget) for number in range(9)]
    assert not alone.is_cut
    assert not found[0].is_cut
    assert found[-1] == ((found[-1].targets[0],), True)
    assert sum(not own.is_cut for own in found) * len(alone.targets) < 64


def test_a_query_that_steps_make_longer_counts() -> None:
    assert not path_interpretations(b"/a%3fb;%253fc;x%25253f", b"q" * 1000).is_cut
    assert path_interpretations(b"/a%3fb;%253fc;x%25253f", b"q" * 60_000).is_cut
