"""Profiles: steps in order."""

import pytest

from hushlist.core.errors import UrlError
from hushlist.core.url.parts import Parts, Profile
from hushlist.core.url.safebrowsing import SAFEBROWSING


def double(url: bytes) -> bytes:
    return url * 2


def upper(parts: Parts) -> Parts:
    return parts._replace(path=parts.path.upper())


def mark(parts: Parts) -> Parts:
    return parts._replace(path=parts.path + b"x")


PROFILE = Profile("sample", steps=(upper, mark), prepare=(double,))


def test_steps_run_in_their_order() -> None:
    assert PROFILE.canonicalize("ab") == b"ABABx"
    assert Profile("other", (mark, upper)).canonicalize(b"ab") == b"ABX"


def test_parsing_runs_no_step() -> None:
    assert PROFILE.parse(b"ab").join() == b"abab"


def test_a_trace_names_every_step_and_ends_in_the_canonical_url() -> None:
    assert list(PROFILE.trace("ab")) == [
        ("double", b"abab"),
        ("split_generic", b"abab"),
        ("upper", b"ABAB"),
        ("mark", b"ABABx"),
    ]


def test_a_trace_of_what_cannot_be_split_raises_at_the_split() -> None:
    trace = SAFEBROWSING.trace("\tmailto:me ")
    assert [next(trace)[0] for _ in range(3)] == ["strip_spaces", "remove_tab_cr_lf", "remove_fragment"]
    with pytest.raises(UrlError):
        next(trace)
