"""The package's errors: one root, and kinds that carry the data, not only the text.

    HushlistError
    ├── UrlError        a URL, host or name that cannot be read
    └── SourceError     a policy or a list that cannot be used: every problem that it has, at once

A *problem* is one thing wrong at one place of a file; it prints as ``file:line: what: why``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath


class HushlistError(Exception):
    """Root of every error that this package raises on purpose."""


_USER_INFORMATION = re.compile(r"//[^/?#\\@]*@")


def without_user(url: bytes | str) -> bytes | str:
    """A URL, for people to read, without what stands before "@" in its authority: that is never written anywhere.

    >>> without_user("http://me:secret@h.example/@x"), without_user(b"//me@h.example")
    ('http://h.example/@x', b'//h.example')

    Spec: RFC 3986, 7.5
    """
    if isinstance(url, bytes):
        return _USER_INFORMATION.sub("//", url.decode("latin-1")).encode("latin-1")
    return _USER_INFORMATION.sub("//", url)


def printable(text: str | None) -> str:
    r"""Text for a terminal or a log: what could steer that, begin a line, or turn what is read around, is an escape.

    >>> print(printable("a\x1b[31m\n\u202eb\u00e9"))
    a\x1b[31m\n\u202ebé
    """
    text = text or ""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


class UrlError(HushlistError, ValueError):
    """A URL, host or name that cannot be read.

    >>> str(UrlError(b"mailto:me", "it names no host"))
    "'mailto:me': it names no host"
    """

    def __init__(self, value: bytes | str, reason: str, position: int | None = None) -> None:
        #: what was given, whole; the message shows its first 200 bytes or characters, without user information
        self.value = value
        self.reason = reason
        #: offset of the fault in ``value``: bytes where that is bytes, characters where it is text
        self.position = position
        at = "" if position is None else f" (at position {position})"
        shown = without_user(value)
        # octets as text is shown, without the sign that Python has for them
        text = repr(shown[:200]).removeprefix("b") + ("..." if len(shown) > 200 else "")
        super().__init__(f"{text}: {reason}{at}")


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
        # a file that is wrong as a whole is named once
        is_named = not self.line and self.what == PurePath(self.source).name
        return printable(f"{place}: {self.why}" if is_named else f"{place}: {self.what}: {self.why}")


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
