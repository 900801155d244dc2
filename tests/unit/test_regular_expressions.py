"""No regular expression of the package takes more than linear time, by the ways in which the package uses it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import hushlist

#: octets: half of the longest rule, and of the longest address that a proxy takes
LONG = 1 << 15
#: seconds of this process: what is linear takes milliseconds, what is quadratic from two and a half seconds on
LIMIT = 1.0
#: what is repeated
UNITS = (
    *" \t\n\r.,:;/-_%&=@#!$*+^|~<>()[]{}\\\"'a0é",
    *("%25", "%2", "a.", "1.", "a/", "a=", "a ", " a", " #", "x:", "::", "//", "\r\n", "xn--", "http://", "a,", "=a "),
    *("<!--", "${", "$a", "a-", "0x", "||", "@@", "hashed:", "+q", "&#"),
)
HEADS = ("", "http://", "hashed:sha1=", "rules:")
ENDS = ("", "\0", "!x\0")


def uses() -> Iterator[tuple[str, str, re.Pattern[str] | re.Pattern[bytes]]]:
    """Where a pattern is, by which method it is used, and the pattern."""
    for info in pkgutil.walk_packages(hushlist.__path__, "hushlist."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        assert module.__file__
        own = {name: value for name, value in vars(module).items() if isinstance(value, re.Pattern)}
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        found = {
            (node.value.id, node.attr)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in own
        }
        for name, method in sorted(found):
            if method in ("match", "fullmatch", "search", "sub", "split", "finditer", "findall"):
                yield f"{info.name}.{name}", method, own[name]


USES = list(uses())


def test_the_uses_are_found() -> None:
    assert len(USES) > 50
    assert {method for _, method, _ in USES} >= {"match", "fullmatch", "search", "sub"}


@pytest.mark.parametrize(("name", "method", "pattern"), USES, ids=[f"{name}.{method}" for name, method, _ in USES])
def test_it_is_done_with_whatever_is_long_in_time(
    name: str, method: str, pattern: re.Pattern[str] | re.Pattern[bytes]
) -> None:
    for unit in UNITS:
        for head, end in [("", end) for end in ENDS] + [(head, ENDS[-1]) for head in HEADS[1:]]:
            text = head + unit * (LONG // len(unit)) + end
            given = text.encode() if isinstance(pattern.pattern, bytes) else text
            start = time.process_time()
            apply(pattern, method, given)
            assert time.process_time() - start < LIMIT, f"{name}: {unit!r} behind {head!r}, before {end!r}"


def apply(pattern: re.Pattern[str] | re.Pattern[bytes], method: str, given: str | bytes) -> None:
    if method == "sub":
        pattern.sub(type(given)(), given)  # type: ignore[arg-type]
    elif method == "finditer":
        for _ in pattern.finditer(given):  # type: ignore[arg-type]
            pass
    else:
        getattr(pattern, method)(given)
