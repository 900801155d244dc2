"""Filters that lint finds: what it says of one holds for every request."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushlist.core.match.context import Context
from hushlist.extensions.adblock.filter_reader import parse_filter
from hushlist.extensions.adblock.network_filter import UrlInContext
from hushlist.tools.audit.filter_findings import covers, why_never
from unit.rows import each_row

FILTERS = st.builds(
    "{}{}".format,
    st.sampled_from([
        *("||a.example^", "||a.example/ads/", "||a.example/ads/x.js", "||a.example", "||b.a.example/", "ads/x"),
        *("/ads/X.", "|https://a.example/", "|https://", "|http://a", "/ads^", "ads^x", "/x.js|", "*/ads*js"),
        *("||a.example^*ads", "|ftp://a.example/", "||A.example/ads/", "/a(ds|b)\\/x/", "||*.example/ads"),
        "@@||a.example/ads/",
    ]),
    st.sampled_from(["", "$script", "$script,image", "$~image", "$3p", "$domain=x.net", "$domain=x.net|y.net",
                     "$domain=x.net|~x.net", "$to=a.example", "$to=c.example", "$match-case", "$script,match-case",
                     "$important", "$method=get", "$script,~script", "$document"]),
)  # fmt: skip
URLS = [
    *("https://a.example/ads/x.js", "https://b.a.example/ads/x.js", "http://a.example/", "https://a.example/ads/X.js"),
    *(
        "https://c.example/ads/x.js",
        "http://a.example/b/ads^x.js",
        "https://b.a.example/ads?x",
        "http://x.net/a.example/",
    ),
]
CONTEXTS = [
    Context(page, kind, party, "GET")
    for page in ("x.net", "y.net", "a.example") for kind in ("script", "image", "document") for party in (True, False)
]  # fmt: skip


def fits(text: str) -> set[tuple[str, Context]]:
    own = parse_filter(text)
    return {
        (url, context)
        for url in URLS
        for context in CONTEXTS
        if own.fits(UrlInContext(url.encode(), url.split("/")[2].encode(), context))
    }


@pytest.mark.slow
@given(FILTERS, FILTERS)
@settings(max_examples=400)
def test_what_a_covered_filter_fits_the_one_that_covers_it_fits(wide: str, own: str) -> None:
    if covers(parse_filter(wide), parse_filter(own)):
        assert fits(own) <= fits(wide)


@given(FILTERS)
@settings(max_examples=300)
def test_a_filter_that_never_fits_does_not_fit(own: str) -> None:
    if why_never(parse_filter(own)):
        assert not fits(own)


@each_row(
    ("wide", "own", "expected"),
    [
        ("/ads/x", "/ads/x$script", True),
        ("/ads/x$script", "/ads/x", False),
        ("||a.example/ads", "||a.example/ads/x.js$image", True),
        ("||a.example/ads", "||b.a.example/ads/x", False),
        ("-ad-", "||a.example/x*-ad-^", True),
        ("x.js|", "/x.js", False),
        ("/ads/x$important", "/ads/x", False),
        ("@@/ads/x", "/ads/x$script", False),
        ("/ads/x$badfilter", "/ads/x$script", False),
        ("/ads/x$domain=a.example", "/ads/x$domain=a.example,script", True),
        ("/ads/x$domain=a.example|b.example", "/ads/x$domain=a.example", False),
    ],
)
def test_a_filter_covers_others_with_more_text_and_fewer_options(wide: str, own: str, expected: bool) -> None:
    assert covers(parse_filter(wide), parse_filter(own)) is expected


@each_row("text", ["||a.example/x$script,~script", "|cdn.", "||A.example^$match-case,script",
                                  "||a.example^$to=b.example", "/ads/x$domain=a.b|~a.b"])  # fmt: skip
def test_a_filter_that_never_fits_is_told(text: str) -> None:
    assert why_never(parse_filter(text))
