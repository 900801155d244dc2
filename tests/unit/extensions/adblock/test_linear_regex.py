"""Regular expressions that are searched for in linear time; others are refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.extensions.adblock.automaton import Automaton
from hushlist.extensions.adblock.linear_regex import linear_regex
from unit.rows import each_row

TAKEN = [
    r"^https?:\/\/[0-9a-z]{8,}\.xyz\/.*",
    r"^https?:\/\/.*\.(club|bid|xyz)\/.*",
    r"^https?:\/\/s3\.*\.amazonaws\.com\/[a-f0-9]{45,}\/[a-f,0-9]{8,10}$",
    r"(https?:\/\/)\w{30,}\.me\/\w{30,}\.",
    r"(https?:\/\/)104\.154\..{100,}",
    r"\/[0-9a-f]{32}\/invoke\.js",
    r"\.gsmarena\.com\/[0-9]+\.[a-z]+\?s?Search=",
    r"^https?:\/\/(35|104)\.(\d){1,3}\.(\d){1,3}\.(\d){1,3}\/",
    r"banner[^/]",
    r"^a|^b",
]
#: those that Python's engine may take long for
SLOW = [
    *("(a+)+b", "(a|a)*b", "a*b", "[a-z]+x", ".*x", "x.*y", "^.*a.*b", "^a*a*a*b", "(ab)*c", "(?=a)b", "(?:a+|b)c"),
    *("(?:[a-z]+x|b)y", "(?:a?){40}a{40}", "(a{1,9}){1,9}b", r"(x[a-z]+)y[a-z]*z", "(aa|bb)" * 8 + "c?"),
]
REFUSED = [r"(a)\1", "a++b", "a{1,2000}b{1,2000}", "(((a{1,200}){200}){200}){200}b", "a{2048}b"]


@each_row("source", TAKEN)
def test_a_regular_expression_that_reads_each_place_a_few_times_is_taken(source: str) -> None:
    search, _, _ = linear_regex(source, match_case=False)
    assert isinstance(search, re.Pattern)
    assert search.pattern == source.encode()


@each_row("source", SLOW)
def test_one_that_may_take_long_is_searched_for_by_an_automaton(source: str) -> None:
    search, _, weight = linear_regex(source, match_case=False)
    assert isinstance(search, Automaton)
    assert weight == 64 * search.automata


@each_row("source", REFUSED)
def test_one_that_no_automaton_has_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="a regular expression"):
        linear_regex(source, match_case=False)


@each_row("source", ["(", "a{2,1}", "[", "[[a]/", "a" * 5000])
def test_one_that_cannot_be_read_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="a regular expression that is"):
        linear_regex(source, match_case=False)


@pytest.mark.parametrize("source", ["(" * 200 + "a" + ")" * 200, "(?:" * 65 + "a" + "){1}" * 65])
def test_one_is_refused_wherever_it_is_read_or_nowhere(source: str) -> None:
    with pytest.raises(ValueError, match="too many groups"):
        linear_regex(source, match_case=False)
    own = "(" * 64 + "a" + ")" * 64
    assert linear_regex(own, match_case=False)[1] == b"a*"


@given(st.text("ab/.", max_size=30))
def test_the_literal_text_is_in_every_text_that_fits(text: str) -> None:
    for source in (r"a/b+\.", r"^a(b|\.)/", r"\/[ab]{2}\/a$", r"(a\.)b?/"):
        search, literal, _ = linear_regex(source, match_case=False)
        if search.search(text.encode()):
            assert all(piece.decode() in text for piece in re.split(rb"[*|]", literal))
