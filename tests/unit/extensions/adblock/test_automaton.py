"""Automata: they find what Python's engine finds, in a time that grows with the text alone."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hushlist.core.match.context import Context
from hushlist.extensions.adblock import automaton
from hushlist.extensions.adblock.automaton import Automaton, ExhaustedError, parse
from hushlist.extensions.adblock.filter_reader import parse_filter
from hushlist.extensions.adblock.linear_regex import linear_regex
from hushlist.extensions.adblock.network_filter import UrlInContext
from unit.rows import each_row


def made(source: bytes, *, fold: bool = True) -> Automaton:
    return Automaton(parse(source, re.IGNORECASE if fold else 0), fold=fold)


_ATOMS = st.sampled_from(
    [
        *("a", "b", "B", "1", "-", ".", r"\d", r"\w", r"\W", "[ab]", "[^ab]", "[a-c1]", "^", "$", r"\b", r"\B"),
        *("(?=b)", "(?!a)", "(?=a*1)", "(?!.*1)", "(?<=a)", "(?<!b)", "(?=b$)", r"(?=\bb)"),
    ]
)
_SOURCES = st.recursive(
    _ATOMS,
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda both: f"(?:{both[0]}|{both[1]})")
        | st.tuples(inner, st.sampled_from(("*", "+", "?", "*?", "{2}", "{0,2}", "{1,}"))).map(
            lambda x: f"(?:{x[0]}){x[1]}"
        )
    ),
    max_leaves=8,
)


# before Python 3.14, r"\B" is not in an empty text, which no URL is
@given(_SOURCES, st.text("abB1-", min_size=1, max_size=8), st.booleans())
def test_an_automaton_finds_what_python_finds(source: str, text: str, fold: bool) -> None:
    flags = re.IGNORECASE if fold else 0
    try:
        expression = re.compile(source.encode(), flags)
    except re.error:
        assume(False)
    own = made(source.encode(), fold=fold)
    assert (own.search(text.encode()) is not None) is (expression.search(text.encode()) is not None)


@each_row(
    ("source", "fitting", "others"),
    [
        (r"^https:\/\/(?:[a-z]+\.)?hotel-(?:id)?\d{3,8}\.com\/",
         ["https://www.hotel-id123.com/", "https://hotel-1234.com/x"], ["https://w1.hotel-123.com/", "https://hotel-12.com/"]),
        (r"\/(?=[a-z]{0,6}\d)[a-f0-9]{7}\.js$", ["https://x.net/abcdef0.js"], ["https://x.net/abcdefa.js", "https://x.net/abc0.js"]),
        (r"\/img\/(?!new).+\.gif", ["https://x.net/img/old.gif"], ["https://x.net/img/new.gif"]),
        (r"^https?:\/\/.*\/.*sw[0-9._].*", ["https://x.net/a/bsw1"], ["https://x.net/a/bsw", "https://x.netsw1"]),
        ("/реклама[0-9]", ["https://x.net/%D1%80%D0%B5%D0%BA%D0%BB%D0%B0%D0%BC%D0%B01"], ["https://x.net/reklama1"]),
        (r"ad(?:[ä-]|x)s(a+)+b", ["https://x.net/ad%c3%a4saab", "https://x.net/ad-sab"], ["https://x.net/adsab"]),
    ],
)  # fmt: skip
def test_what_python_may_take_long_for_is_found(source: str, fitting: list[str], others: list[str]) -> None:
    search, _, weight = linear_regex(source, match_case=False)
    assert weight > 0
    assert all(search.search(url.encode()) for url in fitting)
    assert not any(search.search(url.encode()) for url in others)


@each_row(
    ("source", "why"),
    [
        (r"(a+)\1b", "a back-reference"),
        ("(?:a{1,100}b){20}(c+)+", "too many states"),
        ("(?=a(?=b))(c+)+", "look-arounds within each other"),
        ("(?i:a)(c+)+", "with flags"),
        ("[а-я](c+)+", "a range of letters that no URL has"),
        ("((a+)+b", "not valid"),
    ],
)
def test_what_has_no_automaton_is_refused_with_the_reason(source: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        linear_regex(source, match_case=False)


def test_a_search_that_would_look_at_too_many_states_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "MOST_LOOKED_AT", 2_000)
    own = made(rb"(?:[a-z]{1,40}[0-9]?){5}-(a+)+b")
    texts = [bytes(97 + (place * place) % 26 for place in range(size)) for size in (10, 1_000)]
    assert own.search(texts[0]) is None
    assert 0 < own.looked_at <= 2_000
    with pytest.raises(ExhaustedError):
        own.search(texts[1])
    asked = UrlInContext(b"https://h.example/" + texts[1], b"h.example", Context(kind="script"))
    other = parse_filter(r"/(?:[a-z]{1,40}[0-9]?){5}-(a+)+b/")
    assert not other.fits(asked)
    assert asked.work.spent == {0}  # so that the request is decided as one that cannot be compared with its list
