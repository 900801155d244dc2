"""Patterns of network filters: pieces between wildcards, with anchors, compared with a URL.

The pieces are looked for in order, each once, so that a pattern takes time linear in the URL's length.

>>> test = pattern_test(shape_of(b"||h.example^*/ad?"))
>>> test(text_of(b"https://www.h.example/x/ad?1"), 8, 21), test(text_of(b"https://www.h.example/ad"), 8, 21)
(True, False)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from hushlist.extensions.adblock.automaton import Automaton
from hushlist.extensions.adblock.linear_regex import linear_regex

#: "^": "anything but a letter, a digit, or one of the following: _ - . %"
_SEPARATORS = bytes.maketrans(
    bytes(set(range(128)) - set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.%")),
    b"^" * (128 - 66),
)


class Text(NamedTuple):
    """A URL, and the same with "^" in the place of each separator, and at its end."""

    plain: bytes
    marked: bytes


def text_of(url: bytes) -> Text:
    """A URL as patterns are compared with it."""
    return Text(url, url.translate(_SEPARATORS) + b"^")


class _Piece(NamedTuple):
    """What stands between two wildcards."""

    text: bytes
    marked: bytes
    #: where it has separators that are not "^", and these; with "^", they have to be compared, too
    exact: tuple[tuple[int, bytes], ...]
    has_mark: bool

    def at(self, text: Text, place: int) -> bool:
        """Whether it stands there."""
        if not self.has_mark:
            return text.plain.startswith(self.text, place)
        return text.marked.startswith(self.marked, place) and self._is_exact(text.plain, place)

    def find(self, text: Text, place: int) -> int:
        """Where it stands first, or -1."""
        if not self.has_mark:
            return text.plain.find(self.text, place)
        place = text.marked.find(self.marked, place)
        if place < 0 or not self.exact or self._is_exact(text.plain, place):
            return place
        match = _form_of(self.text).search(text.plain, place + 1)
        return match.start() if match else -1

    def _is_exact(self, plain: bytes, place: int) -> bool:
        return all(plain.startswith(separators, place + offset) for offset, separators in self.exact)


_SEPARATOR = rb"[^a-zA-Z0-9_.%\x80-\xff-]"
_EXACT = re.compile(rb"[^a-zA-Z0-9_.%^\x80-\xff-]+")
_MOST_FORMS = 1 << 10


def _piece(text: bytes) -> _Piece:
    exact = tuple((match.start(), match[0]) for match in _EXACT.finditer(text))
    return _Piece(text, text.translate(_SEPARATORS), exact, b"^" in text)


@lru_cache(_MOST_FORMS)
def _form_of(text: bytes) -> re.Pattern[bytes]:
    """What finds a piece with "^" and other separators where a place has others: it takes long to make."""
    form = _SEPARATOR.join(map(re.escape, text.split(b"^")))
    form = form.removesuffix(_SEPARATOR) + rb"(?:%b|\Z)" % _SEPARATOR if text.endswith(b"^") else form
    return re.compile(form)


class Shape(NamedTuple):
    """A pattern without its anchors."""

    #: "", "|", "||", or "||*" if it begins with "||*."; and whether it ends with "|"
    left: str
    right: bool
    #: between wildcards
    pieces: tuple[bytes, ...]


def shape_of(pattern: bytes) -> Shape:
    """The anchors and pieces of a pattern.

    >>> shape_of(b"||h.example^*/a|")
    Shape(left='||', right=True, pieces=(b'h.example^', b'/a'))
    """
    left = "||" if pattern.startswith(b"||") else "|" if pattern.startswith(b"|") else ""
    pattern = pattern[len(left) :]
    right = pattern.endswith(b"|")
    pattern = pattern[:-1] if right else pattern
    if pattern.startswith(b"*"):
        left = "||*" if left == "||" and pattern.startswith(b"*.") else ""
    right = right and not pattern.endswith(b"*")
    return Shape(left, right, tuple(piece for piece in pattern.split(b"*") if piece))


Test = Callable[[Text, int, int], bool]


def pattern_test(shape: Shape) -> Test:
    """A function that says whether a pattern fits a text; from and to where its host is are the others.

    It takes the first place of each piece, as that leaves the others the most room.
    """
    left, right, texts = shape
    pieces = tuple(map(_piece, texts))
    if not pieces:
        return lambda _text, _start, _end: True
    first, *middle = pieces
    if not left and not right and len(pieces) == 1 and not first.has_mark:
        text_of_piece = first.text
        return lambda text, _start, _end: text.plain.find(text_of_piece) >= 0  # "in" takes twice as long for octets
    last = middle.pop() if right and middle else None

    def test(text: Text, start: int, end: int) -> bool:
        if right and last is None:
            return any(is_first(first, text, start, end, place) for place in ends(first, text))
        place = find_first(first, text, start, end)
        if place < 0:
            return False
        place += len(first.text)
        for piece in middle:
            place = piece.find(text, place)
            if place < 0:
                return False
            place += len(piece.text)
        return last is None or any(
            text_of_piece >= place and last.at(text, text_of_piece) for text_of_piece in ends(last, text)
        )

    def find_first(piece: _Piece, text: Text, start: int, end: int) -> int:
        if left == "||":
            while not piece.at(text, start):
                start = text.plain.find(b".", start, end) + 1
                if not start:
                    return -1
            return start
        if left == "||*":  # a name below any other: who asks may write it behind the host
            place = piece.find(text, start)
            return place if place < end else -1
        if left:
            return 0 if piece.at(text, 0) else -1
        return piece.find(text, 0)

    def is_first(piece: _Piece, text: Text, start: int, end: int, place: int) -> bool:
        if left == "||" and place != start and not (start < place <= end and text.plain[place - 1] == _DOT):
            return False
        if left == "||*" and not start <= place < end:
            return False
        return (left != "|" or not place) and place >= 0 and piece.at(text, place)

    def ends(piece: _Piece, text: Text) -> tuple[int, ...]:
        place = len(text.plain) - len(piece.text)
        return (place, place + 1) if piece.text.endswith(b"^") else (place,)

    return test


_DOT = ord(".")


def regex_test(source: str, *, match_case: bool) -> tuple[Test, int, Automaton | None]:
    """The test of a regular expression; how often it may look at each octet, and the automaton that it needs."""
    expression, _, weight = linear_regex(source, match_case=match_case)
    search, automaton = expression.search, expression if isinstance(expression, Automaton) else None
    return lambda text, _start, _end: search(text.plain) is not None, weight, automaton
