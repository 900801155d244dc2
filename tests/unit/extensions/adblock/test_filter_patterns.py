"""Patterns of network filters, against regular expressions that say the same slowly."""

import re

from hypothesis import given
from hypothesis import strategies as st

from hushlist.extensions.adblock.filter_patterns import pattern_test, shape_of, text_of
from unit.rows import each_row


def slowly(pattern: str, url: str) -> bool:
    """The pattern as Adblock Plus once turned it into a regular expression."""
    begin, body = "", pattern
    if body.startswith("||"):
        begin, body = r"^[a-z]+://([^/?#:]*\.)?", body[2:]
        body = body if body.strip("*|") else "*"
    elif body.startswith("|"):
        begin, body = "^", body[1:]
    end = "$" if body.endswith("|") else ""
    body = body.removesuffix("|")
    form = "".join({"*": ".*", "^": r"([^a-z0-9_.%-]|$)"}.get(letter, re.escape(letter)) for letter in body)
    return re.search(begin + form + end, url, re.DOTALL) is not None


PATTERNS = st.builds(
    "{}{}{}".format, st.sampled_from(["", "|", "||"]), st.text("ab./^*?:", max_size=9), st.sampled_from(["", "|"])
).filter(lambda own: own.strip("|*") and "^^" not in own and "^*^" not in own and "^*|" not in own)
URLS = st.builds("http://{}/{}".format, st.from_regex(r"[ab]{1,3}(\.[ab]{1,2}){0,2}(:8)?", fullmatch=True),
                 st.text("ab./?", max_size=8))  # fmt: skip


@given(PATTERNS, URLS)
def test_a_pattern_fits_what_its_regular_expression_fits(pattern: str, url: str) -> None:
    host = url[7:].partition("/")[0].partition(":")[0]
    test = pattern_test(shape_of(pattern.encode()))
    assert test(text_of(url.encode()), 7, 7 + len(host)) is slowly(pattern, url)


@each_row(
    ("pattern", "urls"),
    [
        ("||b.a/|", ["http://b.a/", "http://x.b.a/"]),
        ("||a/|", ["http://a/", "http://b.a/", "http://x.b.a/", "http://xb.a/"]),
        ("|http://b.a/|", ["http://b.a/"]),
        ("http://b.a/|", ["http://b.a/"]),
        ("p://xb.a/|", ["http://xb.a/"]),
        ("xhttp://b.a/|", []),
        ("a/|", ["http://a/", "http://b.a/", "http://x.b.a/", "http://xb.a/", "http://c/?a/"]),
        ("||*.a/|", ["http://b.a/", "http://x.b.a/", "http://xb.a/"]),
        ("||c/?a^|", ["http://c/?a/"]),
    ],
)
def test_a_pattern_that_ends_with_the_url_fits_at_its_end_alone(pattern: str, urls: list[str]) -> None:
    test, fitting = pattern_test(shape_of(pattern.encode())), []
    for url in ("http://a/", "http://b.a/", "http://x.b.a/", "http://xb.a/", "http://c/?a/", "http://c/?a/x"):
        host = url[7:].partition("/")[0]
        if test(text_of(url.encode()), 7, 7 + len(host)):
            fitting.append(url)
    assert fitting == urls
