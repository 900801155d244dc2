"""The package's errors: one root, and kinds that carry the data, not only the text.

    HushlistError
    ├── UrlError        a URL, host or name that cannot be read
    └── SourceError     a policy or a list that cannot be used: every problem that it has, at once

A *problem* is one thing wrong at one place of a file; it prints as ``file:line: what: why``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class HushlistError(Exception):
    """Root of every error that this package raises on purpose."""


class UrlError(HushlistError, ValueError):
    """A URL, host or name that cannot be read.

    >>> str(UrlError(b"mailto:me", "it names no host"))
    "b'mailto:me': it names no host"
    """

    def __init__(self, value: bytes | str, reason: str, position: int | None = None) -> None:
        #: what was given, whole; the message shows its first 200 bytes or characters
        self.value = value
        self.reason = reason
        #: offset of the fault in ``value``: bytes where that is bytes, characters where it is text
        self.position = position
        at = "" if position is None else f" (at position {position})"
        shown = repr(value) if len(value) <= 200 else f"{value[:200]!r}..."
        super().__init__(f"{shown}: {reason}{at}")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong at one place.

    >>> str(Problem("lists/ads.yaml", 7, "'com..'", "it names no host"))
    "lists/ads.yaml:7: 'com..': it names no host"
    """

    source: str
    #: counted from 1; 0 where the problem is the file as a whole
    line: int
    what: str
    why: str

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        return f"{place}: {self.what}: {self.why}"


class SourceError(HushlistError):
    """A policy or list is not usable; carries all its problems in the order of their places.

    >>> raise SourceError([Problem("p.yaml", 3, "layers", "there is no such file")])
    Traceback (most recent call last):
        ...
    hushlist.errors.SourceError: p.yaml:3: layers: there is no such file
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
