"""No regular expression of the package takes more than linear time, by the ways in which the package uses it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from re import _parser as parser  # type: ignore[attr-defined]

import pytest

import hushlist
from unit.sources import GROUP, nodes_of

pytestmark = GROUP

#: octets: a quarter of the longest rule, and of the longest address that a proxy takes; how much shorter another is
LONG, TIMES = 1 << 14, 8
#: seconds of this process: what is linear takes milliseconds, what is quadratic from six tenths of a second on
LIMIT = 0.25
#: what is repeated
UNITS = (
    *" \t\n\r.,:;/-_%&=@#!$*+^|~<>()[]{}\\\"'a0é",
    *("%25", "%2", "a.", "1.", "a/", "a=", "a ", " a", " #", "x:", "::", "//", "\r\n", "xn--", "http://", "a,", "=a "),
    *("<!--", "${", "$a", "a-", "0x", "||", "@@", "hashed:", "+q", "&#"),
)
HEADS = ("", "http://", "hashed:sha1=", "rules:", "||")
ENDS = ("", "\0", "!x\0")


@cache
def uses() -> list[tuple[str, str, re.Pattern[str] | re.Pattern[bytes]]]:
    """Where a pattern is, by which method it is used, and the pattern."""
    return list(_uses())


def _uses() -> Iterator[tuple[str, str, re.Pattern[str] | re.Pattern[bytes]]]:
    for info in pkgutil.walk_packages(hushlist.__path__, "hushlist."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        assert module.__file__
        own = {name: value for name, value in vars(module).items() if isinstance(value, re.Pattern)}
        found = {
            (node.value.id, node.attr)
            for node in nodes_of(Path(module.__file__))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in own
        }
        for name, method in sorted(found):
            if method in ("match", "fullmatch", "search", "sub", "split", "finditer", "findall"):
                yield f"{info.name}.{name}", method, own[name]


#: what takes one character, and cannot be tried in another way
_PLAIN = ("LITERAL", "NOT_LITERAL", "IN", "ANY")


def unsafe(parsed: list[tuple[object, object]], *, is_repeated: bool = False) -> Iterator[str]:
    """What a possessive repetition repeats that may fail behind its beginning, if no atomic group takes that back.

    Until Python 3.11.4, the repetition would go on there. Spec: https://github.com/python/cpython/issues/106052
    """
    for place, (operation, argument) in enumerate(parsed):
        name = str(operation)
        if is_repeated and place and name not in _PLAIN:
            yield f"{name} behind the beginning"
        is_possessive = name == "POSSESSIVE_REPEAT"
        for own in parts(argument):
            yield from unsafe(own, is_repeated=is_possessive or (is_repeated and name == "BRANCH"))


def parts(argument: object) -> Iterator[list[tuple[object, object]]]:
    """The patterns within an operation of a parsed pattern."""
    if isinstance(argument, parser.SubPattern):
        yield list(argument)
    elif isinstance(argument, tuple | list):
        for own in argument:
            yield from parts(own)


@pytest.mark.slow
def test_a_possessive_repetition_takes_back_what_it_tried_in_vain() -> None:
    compiled = {name: pattern for name, _, pattern in uses()}
    found = {name: list(unsafe(list(parser.parse(own.pattern, own.flags)))) for name, own in compiled.items()}
    assert {name: what for name, what in found.items() if what} == {}
    assert list(unsafe(list(parser.parse("(?:/(?!a)b*)++"))))
    assert list(unsafe(list(parser.parse("(?:a|b(?:cc|d))*+"))))
    assert not list(unsafe(list(parser.parse("(?:(?>/(?!a)b*))++[a-z]++(?:25)*+"))))


def texts(length: int) -> list[str]:
    """Each unit, repeated to a length, alone before each end, and behind each head."""
    around = [*(("", end) for end in ENDS), *((head, ENDS[-1]) for head in HEADS[1:])]
    return [head + unit * (length // len(unit)) + end for unit in UNITS for head, end in around]


@pytest.mark.slow
@pytest.mark.thorough
def test_each_is_done_in_time_with_whatever_is_long() -> None:
    """By an eighth of a text: what is done with it in ``LIMIT / TIMES**2`` is quick even if it takes quadratic time."""
    used = uses()
    assert len(used) > 50
    assert {method for _, method, _ in used} >= {"match", "fullmatch", "search", "sub"}
    pairs = list(zip(texts(LONG // TIMES), texts(LONG), strict=True))
    octets = [(short.encode(), long.encode()) for short, long in pairs]
    slow = [
        f"{name}.{method}: {len(long)} characters, {long[:20]!r} ... {long[-20:]!r}"
        for name, method, pattern in used
        for short, long in (octets if isinstance(pattern.pattern, bytes) else pairs)
        if seconds(pattern, method, short) > LIMIT / TIMES**2 and seconds(pattern, method, long) > LIMIT
    ]
    assert not slow, "\n".join(slow)


def seconds(pattern: re.Pattern[str] | re.Pattern[bytes], method: str, given: str | bytes) -> float:
    start = time.process_time()
    apply(pattern, method, given)
    return time.process_time() - start


def apply(pattern: re.Pattern[str] | re.Pattern[bytes], method: str, given: str | bytes) -> None:
    if method == "sub":
        pattern.sub(type(given)(), given)  # type: ignore[arg-type]
    elif method == "finditer":
        for _ in pattern.finditer(given):  # type: ignore[arg-type]
            pass
    else:
        getattr(pattern, method)(given)
