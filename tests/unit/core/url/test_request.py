"""Requests, and the canonical URLs that they may mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.errors import UrlError
from hushlist.core.url.host import LONGEST_NAME
from hushlist.core.url.parts import DEFAULT_PORTS, Parts
from hushlist.core.url.path_interpretations import path_interpretations
from hushlist.core.url.request import (
    LONGEST_TARGET,
    Request,
    canonical_forms,
    canonical_host,
    canonical_url,
    plain_target,
    request_of,
    target_forms,
)
from hushlist.core.url.safebrowsing import canonicalize, parse
from unit.hostile import octets
from unit.rows import each_row

# -- requests from URLs ------------------------------------------------------------------------------------------------


@each_row(
    ("url", "expected"),
    [
        ("http://h.example", Request(b"http", (b"h.example",), 80, b"/")),
        ("HTTPS://u:p@h.example/p?q#f", Request(b"https", (b"h.example",), 443, b"/p?q", b"f", b"u:p")),
        ("h.example:8080/p?", Request(b"http", (b"h.example",), 8080, b"/p?")),
        (" http://h\t.example/#", Request(b"http", (b"h.example",), 80, b"/", b"")),
        ("http://[::1]:1/", Request(b"http", (b"[::1]",), 1, b"/")),
        ("ftp://h.example/", Request(b"ftp", (b"h.example",), 21, b"/")),
        ("wss://h.example/", Request(b"wss", (b"h.example",), 443, b"/")),
        ("http://h.example:65535/", Request(b"http", (b"h.example",), 65535, b"/")),
        ("http://h.example:000000080/", Request(b"http", (b"h.example",), 80, b"/")),
        ("http://h.example:" + "0" * 5000, Request(b"http", (b"h.example",), 0, b"/")),
        ("https:h.example/p", Request(b"https", (b"h.example",), 443, b"/p")),
        (b"http://h.example/\xff", Request(b"http", (b"h.example",), 80, b"/\xff")),
    ],
)
def test_a_url_is_the_request_that_a_browser_makes(url: bytes | str, expected: Request) -> None:
    assert request_of(url) == expected


def test_of_a_target_that_is_too_long_only_the_beginning_is_kept() -> None:
    longest = b"/".ljust(LONGEST_TARGET, b"x")
    assert request_of(b"http://h.example" + longest) == Request(b"http", (b"h.example",), 80, longest)
    for faults in ("its target has more than 65,536 octets", None), ("another", "another"):
        said, given = faults
        request = Request(b"http", (b"h.example",), 80, longest + b"x", fault=given)
        assert (request.target, request.fault) == (longest[:1024] + b"...", said)
        assert len(request.url) < 1100


@each_row(
    ("url", "reason"),
    [
        ("mailto:me@h.example", "it names no host"),
        ("http:///x", "it names no host"),
        ("http://h.example:65536/", "its port is no number up to 65535"),
        ("http://h.example:99999999/", "its port is no number up to 65535"),
        ("http://h.example:x/", "its port is no number up to 65535"),
    ],
)
def test_a_url_that_a_browser_could_not_ask_for_is_no_request(url: str, reason: str) -> None:
    with pytest.raises(UrlError, match=reason):
        request_of(url)


@each_row(
    ("given_request", "url"),
    [
        (Request(b"http", (b"h", b"other"), 80, b"/p"), b"http://h/p"),
        (Request(b"https", (b"h",), 80, b"/p"), b"https://h:80/p"),
        (Request(b"https", (b"::1",), 443, b"/"), b"https://[::1]/"),
        (Request(b"", (), 0, b""), b"://:0"),
    ],
)
def test_a_request_has_a_url_for_people(given_request: Request, url: bytes) -> None:
    assert given_request.url == url


@given(octets().map(b"http://".__add__))
def test_the_first_form_of_a_url_s_request_is_the_canonical_url(url: bytes) -> None:
    try:
        asked = request_of(url)
        (host,) = asked.hosts
        forms = canonical_forms(asked, host)
        canonical = canonicalize(url)
    except UrlError:
        return
    assert forms[0].join() == canonical_url(asked) == canonical


# -- hosts -------------------------------------------------------------------------------------------------------------


@each_row(
    ("host", "canonical"),
    [
        (b"h.example", b"h.example"),
        (b"H.Example.", b"h.example"),
        (b"h\t.exa\r\nmple", b"h.example"),
        (b"%68.example", b"h.example"),
        (b"%2568.example", b"h.example"),
        (b"0x7f.1", b"127.0.0.1"),
        (b"::1", b"[::1]"),
        (b"[0::1]", b"[::1]"),
        (b"::ffff:1.2.3.4", b"1.2.3.4"),
        ("bücher.example".encode(), b"xn--bcher-kva.example"),
        (b"\x01\x80.com", b"%01%80.com"),
        (b"h%01.example", b"h%01.example"),
        (b"h_.example", b"h_.example"),
        (b"a" * LONGEST_NAME, b"a" * LONGEST_NAME),
    ],
)
def test_a_host_is_canonical_with_brackets_where_it_is_an_ipv6_address(host: bytes, canonical: bytes) -> None:
    assert canonical_host(host) == canonical
    assert canonical_host(canonical) == canonical


@each_row(
    ("host", "reason"),
    [
        (b"", "it names no host"),
        (b"\t", "it names no host"),
        (b"..", "it names no host"),
        *((b"a" + octet + b"b", "there is a delimiter in the host") for octet in (b"/", b"?", b"#", b"@", b"\\")),
        *((b"a%" + octet + b"b", "there is a delimiter in the host") for octet in (b"2f", b"3F", b"23", b"40", b"5c")),
        (b"a%25252fb", "there is a delimiter in the host"),
        *((own, "there is a delimiter in the host") for own in (b"a:80", b"a:", b"a:x.b", b"a%3ax.b", b"a%253ax.b")),
        *((own, "there is a delimiter in the host") for own in (b"[::1]:80", b"[::1]%3ax.b", b"%5b::1%5d:x.b", b"1:2")),
        (b"a%2\tfb", "there is a delimiter in the host"),
        *((own, "there is a NUL in the host") for own in (b"a\0b", b"a%00b", b"a%2500.b", b"%00", b"[::1%00]")),
        (b"a" * (LONGEST_NAME + 1), "the host is longer than any name can be"),
    ],
)
def test_what_cannot_be_a_host_is_refused(host: bytes, reason: str) -> None:
    with pytest.raises(UrlError, match=reason):
        canonical_host(host)


@given(octets())
def test_a_host_can_be_one_or_is_refused_and_never_shifts_the_url_s_parts(host: bytes) -> None:
    try:
        canonical = canonical_host(host)
    except UrlError:
        return
    assert canonical
    assert not set(b"/?#@\\") & set(canonical)
    assert parse(b"http://" + canonical + b"/x").path == b"/x"


# -- targets -----------------------------------------------------------------------------------------------------------


def plainly(scheme: bytes, target: bytes) -> tuple[Parts, ...]:
    """The forms of a target of a web request, by its readings alone."""
    path, mark, query = target.partition(b"?")
    rooted = path if path.startswith(b"/") else b"/" + path
    found = path_interpretations(rooted, query if mark else None).targets
    return tuple(Parts(scheme, None, b"h", None, *asked) for asked in found)


def nearly_plain() -> st.SearchStrategy[bytes]:
    """Targets that are plain but for an octet or two, or for parameters."""
    words = [b"/", b"/a", b"/a.b", b"/..a", b"/a..", b"/-", b"/~x", b"?", b"?q", b"&x=/../y;z", b"?a\\b", b"A", b"|"]
    words += [b";", b"/a;b", b"/;", b"/a.;b", b"/..;b", b";b.", b"%41"]
    any_octet = st.binary(min_size=1, max_size=1)
    return st.lists(st.sampled_from(words) | any_octet, max_size=6).map(b"".join).map(b"/".__add__)


@given(st.sampled_from([b"http", b"https"]), nearly_plain() | octets())
def test_a_plain_target_is_what_its_readings_say(scheme: bytes, target: bytes) -> None:
    assert target_forms(scheme, target).forms == plainly(scheme, target)
    asked = Request(scheme, (b"h.example",), DEFAULT_PORTS[scheme], target)
    assert asked.written_url in (None, canonical_url(asked))


def test_a_url_is_written_only_where_all_of_it_is_as_sent() -> None:
    plain = Request(b"http", (b"h.example",), 80, b"/a?b")
    assert plain.written_url == b"http://h.example/a?b"
    for change in (
        *(
            {"scheme": b"ftp"},
            {"port": 8080},
            {"destination": b"h.example"},
            {"target": b"/a?%62"},
            {"target": b"/a/."},
        ),
        *({"hosts": hosts} for hosts in ((), (b"H.example",), (b"h.example", b"other.example"))),
    ):
        assert plain._replace(**change).written_url is None  # type: ignore[arg-type]


@each_row(
    "target",
    [
        *(
            b"a",
            b"?",
            b"//",
            b"/a//b",
            b"/.",
            b"/..",
            b"/a/./b",
            b"/a/..",
            b"/a.",
            b"/a./b",
            b"/a.?b",
            b"/a;b",
            b"/a%b",
            b"/a::$b",
            b"/(b",
        ),
        *(
            b"/a#",
            b"/a?q#",
            b"/a\\b",
            b"/a b",
            b"/a\n",
            b"/a?q\n",
            b"/a\t",
            b"/\0",
            b"/a\x7f",
            b"/\xff",
            b"/a?\xff",
            b"/a\r",
        ),
    ],
)
def test_a_target_that_may_have_other_readings_is_not_plain(target: bytes) -> None:
    assert plain_target(target) is None


@each_row(
    ("target", "paths"),
    [
        (b"/a?q#f", [(b"/a", b"q%23f"), (b"/a", b"q")]),
        (b"/a#f?q", [(b"/a%23f", b"q"), (b"/a", None)]),
        (b"", [(b"/", None)]),
        (b"?", [(b"/", b"")]),
        (b"*", [(b"/*", None)]),
        (b"/x//../bad", [(b"/x/bad", None), (b"/x/../bad", None), (b"/bad", None)]),
    ],
)
def test_a_target_s_first_form_is_the_canonical_one(target: bytes, paths: list[tuple[bytes, bytes | None]]) -> None:
    assert [(form.path, form.query) for form in target_forms(b"http", target).forms] == paths


# -- canonical URLs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hosts", [(), (b"",), (b"a/b", b"good.example")])
def test_a_request_without_a_first_host_that_can_be_one_has_no_canonical_url(hosts: tuple[bytes, ...]) -> None:
    with pytest.raises(UrlError):
        canonical_url(Request(b"http", hosts, 80, b"/"))
