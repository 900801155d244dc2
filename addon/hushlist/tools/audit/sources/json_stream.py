"""The elements of one array in a JSON document of any size, one at a time: only the current one is in memory.

>>> from io import BytesIO
>>> list(elements(BytesIO(b'{"log": {"x": [{}], "entries": [{"a": 1}, 2]}}'), ("log", "entries")))
[{'a': 1}, 2]
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

from hushlist.tools.audit.sources.recorded_request import BrokenRecord, RecordedRequest

#: octets of one read
CHUNK = 1 << 18
#: most characters of a value, of which no more than the current one is kept
LONGEST_ELEMENT = 1 << 26
#: most values in an element, about: each takes memory, however short it is
MOST_VALUES = 1 << 22

_SPACE = re.compile(r"[ \t\n\r]*")
_TOO_EARLY = "the document ends too early"
_TOO_LONG = f"it is longer than {LONGEST_ELEMENT:,} characters"


class JsonError(ValueError):
    """The text is not JSON, or has not the expected shape."""


def json_records(
    stream: BinaryIO, source: str, keys: tuple[str, ...], read: Callable[[object, int], RecordedRequest]
) -> Iterator[RecordedRequest | BrokenRecord]:
    """What ``read`` makes of each element and its number, from 1; a broken record where it raises ``JsonError``.

    If the document is broken, a broken record at the end says why.
    """
    number = 0
    try:
        for number, element in enumerate(elements(stream, keys), 1):
            record: RecordedRequest | BrokenRecord
            try:
                record = read(element, number)
            except JsonError as error:
                record = BrokenRecord(source, number, str(error))
            yield record
    except JsonError as error:
        yield BrokenRecord(source, number and number + 1, str(error))


def elements(stream: BinaryIO, keys: tuple[str, ...]) -> Iterator[object]:
    """The elements of the array at the end of a path of keys.

    Raises:
        JsonError: the document is invalid, ends too early, or has no such array, or a value is too long.
    """
    text = _JsonText(stream)
    for key in keys:
        if not any(name == key for name in text.names()):
            raise JsonError(f"there is no {'.'.join(keys)!r}")
    text.expect("[")
    is_first = True
    while not text.ends("]", is_first=is_first):
        yield text.value()
        is_first = False


class _JsonText:
    """The loaded part of a document, and the place in it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        # A byte order mark is common in files from Windows. Octets that are not UTF-8 are kept.
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape").decode
        self._text, self._at, self._is_whole = "", 0, False
        self._raw = json.JSONDecoder().raw_decode

    def _more(self, octets: int) -> bool:
        """Read so many octets, and drop the text already read; whether there was anything."""
        if self._is_whole:
            return False
        chunk = self._stream.read(octets)
        self._is_whole = not chunk
        self._text = self._text[self._at :] + self._decode(chunk, final=not chunk)
        self._at = 0
        return True

    def _peek(self) -> str:
        """The next character that is not white space; empty at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # it always matches
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(CHUNK):
                return ""

    def expect(self, character: str) -> None:
        next_character = self._peek()
        if next_character != character:
            raise JsonError(f"expected {character!r}, found {next_character!r}" if next_character else _TOO_EARLY)
        self._at += 1

    def ends(self, character: str, *, is_first: bool) -> bool:
        """Go past what is before the next thing in an object or array; whether it ends there, with a character."""
        next_character = self._peek()
        if next_character == character or (next_character != "," and not is_first):
            self.expect(character)
            return True
        self._at += not is_first
        return False

    def names(self) -> Iterator[object]:
        """The keys of the object that begins here, each with its value next."""
        self.expect("{")
        is_first = True
        while not self.ends("}", is_first=is_first):
            name = self.value()
            self.expect(":")
            yield name
            self.value()
            is_first = False

    def value(self) -> object:
        self._peek()
        size = CHUNK
        while True:
            length = len(self._text) - self._at
            if length > MOST_VALUES and sum(self._text.count(mark, self._at) for mark in ",[{") > MOST_VALUES:
                raise JsonError(f"it has more than {MOST_VALUES:,} values")
            try:
                value, end = self._raw(self._text, self._at)
            except (ValueError, RecursionError) as error:
                # What is incomplete is invalid, too. The size doubles, so that a long value is not read too often.
                if length <= LONGEST_ELEMENT and self._more(size):
                    size *= 2
                    continue
                why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
                if self._is_whole and (why.startswith("Unterminated") or getattr(error, "pos", 0) >= len(self._text)):
                    why = _TOO_EARLY
                raise JsonError(why if self._is_whole else _TOO_LONG) from None
            else:
                if len(self._text) - end < 3 and self._more(CHUNK):
                    continue  # a number may go on: "1" as "1e+5"
                if end - self._at > LONGEST_ELEMENT:
                    raise JsonError(_TOO_LONG)
                self._at = end
                return value
