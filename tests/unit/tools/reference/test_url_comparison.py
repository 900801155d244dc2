"""The comparison ladder as a whole."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.errors import UrlError
from hushlist.core.url.comparison import LADDER
from hushlist.core.url.hrn import parse_hrn
from hushlist.core.url.parts import StepChange, to_bytes
from hushlist.core.url.rfc3986 import split_generic
from hushlist.tools.reference.abnf import find_rule
from hushlist.tools.reference.url_comparison import compare
from unit.hostile import octets, urls
from unit.rows import each_row

RUNGS = [profile.name for profile in LADDER]


def test_the_rungs_are_those_of_the_specification() -> None:
    assert RUNGS == ["simple", "syntax", "scheme"]
    for lower, higher in pairwise(LADDER):
        assert higher.steps[: len(lower.steps)] == lower.steps


#: of "http://www.thus.net" (draft-feather-hashed-uri-03, 4.4)
THUS = "be96302a0468481aca954431cf293e05"


@each_row(
    ("a", "b", "rung"),
    [
        # RFC 3986, 6.2.1, and the draft, 4.1
        ("http://example.org/rosé", "http://example.org/rosé", "simple"),
        ("http://example.org/rosé", "http://example.org/rosé".encode(), "simple"),
        ("s:a/../b", "s:a/../b", "simple"),
        # RFC 3986, 6.2.2
        ("example://a/b/c/%7Bfoo%7D", "eXAMPLE://a/./b/../b/%63/%7bfoo%7d", "syntax"),
        ("HTTP://www.EXAMPLE.com/", "http://www.example.com/", "syntax"),
        ("http://h/%3a", "http://h/%3A", "syntax"),
        # the draft, 4.2
        ("example://a/b/c/%7Bfoo%7D/rosé", "eXAMPLE://a/./b/../b/%63/%7bfoo%7d/ros%C3%A9", "syntax"),
        ("http://example.org/~user", "http://example.org/%7euser", "syntax"),
        ("http://example.org/~user", "http://example.org/%7Euser", "syntax"),
        ("http://example.org/%7euser", "http://example.org/%7Euser", "syntax"),
        ("http://www.example.org/r\u00e9sum\u00e9.html", "http://www.example.org/re\u0301sume\u0301.html", None),
        ("s:Vi\u1ec7t", "s:Vi\u00ea\u0323t", None),
        # 4.3
        ("http://résumé.example.org", "http://xn--rsum-bpad.example.org", "scheme"),
        # RFC 3986, 6.2.3, and the draft, 4.3
        ("http://example.com/", "http://example.com/?", None),
        ("http://example.com/", "http://example.com/#", None),
        ("http://u@h/", "http://u:@h/", None),
        ("http://h/", "http://@h/", None),
        ("mailto:Joe@Example.COM", "mailto:Joe@example.com", "scheme"),
        ("mailto:Joe@example.com", "mailto:joe@example.com", None),
        ("mailto:?to=Joe@Example.COM", "mailto:Joe@example.com", "scheme"),
        ("mailto:a@h?to=b@h", "mailto:b@h,a@h", None),
        ("urn:ISBN:0451450523", "URN:isbn:0451450523", "scheme"),
        ("urn:example:a", "urn:example:A", None),
        # 6.2.4 and 4.4: it takes an observation
        ("http://example.com/data", "http://example.com/data/", None),
        # names and hashed URIs have rules of their own
        ("HRN://a.example/ads", "hrn://a.example/ads", "syntax"),
        ("HRN://A.example/%41ds", "hrn://a.example/Ads", "scheme"),
        ("hrn://a.example/%7e%2B", "hrn://a.example/%7E+", "scheme"),
        ("hrn://a.example/%7E", "hrn://a.example/~", None),  # the draft's grammar has no "~"
        ("hrn://a.example/a/../ads", "hrn://a.example/ads", None),  # ".." is a name
        ("hrn://a.example/./ads", "hrn://a.example/ads", None),
        ("hrn://A?b@h.example", "hrn://a?b@h.example", None),  # a user, which may have a "?"
        ("hrn://a.example", "hrn://a.example/", None),  # the second is no name
        ("hrn://a.example:/ads", "hrn://a.example/ads", None),
        ("hrn://-.example/a", "HRN://-.EXAMPLE/a", None),  # no names
        ("hrn://a.example/a%2Bb", "hrn://a.example/a+b", "scheme"),
        ("hrn://a.example/ads", "hrn://a.example/Ads", None),
        ("hrn://-/F81D4FAE-7dec-11d0-a765-00a0c91e6bf6", "hrn://-/f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "scheme"),
        (f"hashed:MD5={THUS.upper()}", f"HASHED:md5={THUS}", "scheme"),
        (f"hashed:md5={THUS}+frag+QUERY", f"hashed:md5={THUS}+query+frag+frag", "scheme"),
        (f"hashed:md5={THUS}+frag", f"hashed:md5={THUS}", None),
        ("hashed:A", "hashed:a", None),  # no hashed URI
        (f"hashed:%6Dd5={THUS}", f"hashed:md5={THUS}", None),
        (f"hashed:md5={THUS}", "HTTP://www.Thus.net", "hashed-n"),
        (f"hashed:md5={THUS}", "http://www.thus.net/", "hashed-p"),
        (f"hashed:md5={THUS}", "http://www.thus.net/x", None),
        ("hashed:sha1=31a79a96e0404778a3b95cb426b04b6114a604a5+frag", "http://www.thus.net#end", "hashed-n"),
        # the host of an address in SIP (RFC 3261, 19.1.1)
        ("sip:Me@É.example:5060;a=B", "SIP:Me@xn--9ca.EXAMPLE:5060;a=B", "scheme"),
        ("sips:[2001:DB8::1]:5061", "sips:[2001:db8::1]:5061", "scheme"),
        ("sip:Me@h.example", "sip:me@h.example", None),
        # reserved characters are not what escapes of them are
        ("http://h/a%2Fb", "http://h/a/b", None),
        ("http://h/?a%26b", "http://h/?a&b", None),
        ("http://h/%%34%31", "http://h/A", None),
        ("http://::1/", "http://[::1]/", None),
        ("http://[::1]x/", "http://[::1]/", None),
        ("s:a/../b", "s:/b", None),
        ("s:/a/..//b", "s://b", None),
        ("s:%61:b", "s:a:b", "syntax"),
        ("http://h/", "https://h/", None),
    ],
)
def test_the_lowest_rung_decides(a: str, b: str, rung: str | None) -> None:
    assert compare(a, b).rung == rung
    assert compare(b, a).rung == rung


@each_row(
    ("a", "b"),
    list(
        combinations(["http://example.com", "http://example.com/", "http://example.com:/", "http://example.com:80/"], 2)
    ),
)
def test_four_uris_are_equivalent_by_their_scheme(a: str, b: str) -> None:
    """RFC 3986, 6.2.3."""
    assert compare(a, b).rung == "scheme"


def test_each_side_tells_what_each_step_changed() -> None:
    comparison = compare("HTTP://é.example:80/%7e", "http://xn--9ca.example/~")
    assert comparison.rung == "scheme"
    assert [(change.step, change.after.decode()) for change in comparison.a.changes] == [
        ("map_to_uri", "HTTP://%C3%A9.example:80/%7e"),
        ("lowercase_scheme", "http://%C3%A9.example:80/%7e"),
        ("normalize_escapes", "http://%C3%A9.example:80/~"),
        ("convert_to_a_labels", "http://xn--9ca.example:80/~"),
        ("remove_port", "http://xn--9ca.example/~"),
    ]
    assert comparison.a.original == "HTTP://é.example:80/%7e".encode()
    assert comparison.b.changes == ()
    assert comparison.a.normal == comparison.b.normal == b"http://xn--9ca.example/~"


def test_relative_references_are_resolved_before() -> None:
    """RFC 3986, 6.1: "the references should be converted to their respective target URIs before comparison"."""
    comparison = compare("../g", "http://a/b/g", base="http://a/b/c/d;p?q")
    assert comparison.rung == "simple"
    assert comparison.a.changes == (StepChange("resolve", b"../g", b"http://a/b/g"),)
    assert comparison.a.original == b"../g"
    assert comparison.b.changes == ()
    assert compare("g", "./g", base="http://a/").rung == "simple"


@each_row("reference", ["", "g", "/g", "//h.example/", "?q", "#f", "www.h.example/", "%61:b"])
def test_a_relative_reference_is_not_compared_directly(reference: str) -> None:
    """The draft, 2: "applications should not directly compare relative references"."""
    for other in ("http://h.example/", reference):
        for pair in ((reference, other), (other, reference)):
            with pytest.raises(UrlError, match="without a base"):
                compare(*pair)


def test_fragments_are_excluded_for_a_network_action() -> None:
    """The draft, 2: "fragment components (if any) MUST be excluded from the comparison"."""
    assert compare("http://h/#a", "http://h/").rung is None
    comparison = compare("http://h/#a", "http://h/", network_action=True)
    assert comparison.rung == "simple"
    assert comparison.a.changes == (StepChange("remove_fragment", b"http://h/#a", b"http://h/"),)


# -- properties --------------------------------------------------------------------------------------------------

TEXTS = octets() | urls()
#: so few that two are often equivalent
NEAR = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["http://", "HTTP://", "mailto:x@", "s://", "//", "s:", ""]),
    st.sampled_from(["é", "É", "%c3%a9", "xn--9ca", "A", "%61"]),
    st.sampled_from(["", ":", ":80", ":080"]),
    st.sampled_from(["", "/", "/.", "/./b/..", "//", "/%7e", "/~"]),
    st.sampled_from(["", "?", "#"]),
)


def with_scheme(text: bytes | str) -> bytes | str:
    if split_generic(to_bytes(text)).scheme is not None:
        return text
    return "s:" + text if isinstance(text, str) else b"s:" + text


ABSOLUTE = (NEAR | TEXTS).map(with_scheme)


def rungs_of(a: bytes | str, b: bytes | str) -> list[bool]:
    return [profile.canonicalize(a) == profile.canonicalize(b) for profile in LADDER]


@given(ABSOLUTE, ABSOLUTE)
def test_the_ladder_is_monotone(a: bytes | str, b: bytes | str) -> None:
    """What is equivalent on a rung is so on all above: ``compare`` finds the lowest."""
    equivalent = rungs_of(a, b)
    assert equivalent == sorted(equivalent)
    assert compare(a, b).rung == dict(zip(equivalent[::-1], RUNGS[::-1], strict=True)).get(True)


@given(ABSOLUTE)
def test_changes_lead_from_the_original_to_the_normal_form(a: bytes | str) -> None:
    side = compare(a, b"s:\xff\xff").a
    before = side.original
    assert before == to_bytes(a)
    for change in side.changes:
        assert change.before == before
        assert change.after != before
        before = change.after
    assert before == side.normal


# -- what has its own syntax -------------------------------------------------------------------------------------

_PIECES = st.sampled_from(
    ["a", "A", "%41", "%7e", "%7E", "%2b", "+", "~", ".", "..", "/", "//", "?", "@", ":", ";", "-"]
)
NAMES = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["hrn://", "HRN://", "hrn:"]),
    st.sampled_from(
        ["a.example", "A.Example", "-/f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "-", "1.2.3.4", "a?b@h", "A?b@h"]
    ),
    st.sampled_from(["", "/", ":", "/x"]),
    st.lists(_PIECES, max_size=4).map("".join),
)


@given(NAMES, NAMES)
def test_names_are_equivalent_if_they_are_the_same_category(a: str, b: str) -> None:
    is_name = [find_rule("hrn-URI").accepts(text) for text in (a, b)]
    if all(is_name):
        assert (compare(a, b).rung is not None) == (parse_hrn(a) == parse_hrn(b))
    elif any(is_name):
        assert compare(a, b).rung is None
