"""The elements of one array in a JSON document of any size, one at a time.

>>> from io import BytesIO
>>> list(elements(BytesIO(b'{"log": {"x": [{}], "entries": [{"a": 1}, 2, {3}]}}'), ("log", "entries")))
[{'a': 1}, 2, JsonError('Expecting property name enclosed in double quotes')]

Only the current element is in memory. An invalid element gives an error in its place, and reading goes on after it if
its brackets and quotes are balanced.
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
#: most characters of an element
LONGEST_ELEMENT = 1 << 26
#: most values in an element, about: each takes memory, however short it is
MOST_VALUES = 1 << 22
#: characters already read that are kept; a decoder's error counts the lines in all of them
_KEPT = 1 << 13

_SPACE = re.compile(r"[ \t\n\r]*")
#: regular expressions for brackets and quotes, the end of a number or word, and the inside of a string
_STRUCTURE = re.compile(r'["{}\[\],]')
_STRING_END = re.compile(r'["\\]')
_KEY_LIMIT = 1 << 16


class JsonError(ValueError):
    """The text is not JSON, or has not the expected shape."""


def elements(stream: BinaryIO, keys: tuple[str, ...]) -> Iterator[object]:
    """The elements of the array at the end of a path of keys; a ``JsonError`` in place of each invalid one.

    Raises:
            JsonError: the document is invalid, ends too early, or has no such array.
    """
    reader = _JsonScanner(stream)
    for key in keys:
        if not reader.enter(key):
            raise JsonError(f"there is no {'.'.join(keys)!r}")
    yield from reader.array()


def json_records(
    stream: BinaryIO, source: str, keys: tuple[str, ...], read: Callable[[object, int], RecordedRequest]
) -> Iterator[RecordedRequest | BrokenRecord]:
    """What ``read`` makes of each element and its number, from 1; it may raise ``JsonError``.

    A broken record stands for an invalid element; if the document is incomplete, one at the end says why.
    """
    number = 0
    try:
        for number, element in enumerate(elements(stream, keys), 1):
            record: RecordedRequest | BrokenRecord
            try:
                if isinstance(element, JsonError):
                    raise element
                record = read(element, number)
            except JsonError as error:
                record = BrokenRecord(source, number, str(error))
            yield record
    except JsonError as error:
        yield BrokenRecord(source, number and number + 1, str(error))


class _Structure:
    """Where a value ends, by its brackets and quotes, in a text that comes in pieces."""

    def __init__(self) -> None:
        self._depth, self._is_string, self._is_escaped = 0, False, False

    def end(self, text: str, at: int) -> int | None:
        """Where in the next piece, from ``at`` on, the value ends; ``None`` if it goes on behind the piece."""
        if self._is_escaped and at < len(text):
            at, self._is_escaped = at + 1, False
        while found := (_STRING_END if self._is_string else _STRUCTURE).search(text, at):
            character, at = found[0], found.end()
            if character == "\\":
                self._is_escaped = at == len(text)
                at += 1
            elif character == '"':
                self._is_string = not self._is_string
            elif character in ("{", "["):
                self._depth += 1
            elif self._depth and character in ("}", "]"):
                self._depth -= 1
                if not self._depth:
                    return at
            elif not self._depth:
                return found.start()
        return None


class _JsonScanner:
    """The loaded part of a document, and the place in it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        # A byte order mark is common in files from Windows. Octets that are not UTF-8 are kept.
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape").decode
        self._text, self._at, self._is_whole = "", 0, False
        self._raw = json.JSONDecoder().raw_decode

    def _more(self, octets: int = 0) -> bool:
        """Read so many octets or the usual number, and drop the text already read; whether there was anything."""
        if self._is_whole:
            return False
        chunk = self._stream.read(octets or CHUNK)
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
            if not self._more():
                return ""

    def _expect(self, character: str) -> None:
        found = self._peek()
        if found != character:
            raise JsonError(f"expected {character!r}, found {found!r}" if found else _TOO_EARLY)
        self._at += 1

    def enter(self, key: str) -> bool:
        """Go to the value of a key in the object that begins here; whether the key exists."""
        self._expect("{")
        if self._peek() == "}":
            return False
        while True:
            name = self._value(_KEY_LIMIT)
            self._expect(":")
            if name == key:
                return True
            self._skip()
            if self._peek() != ",":
                self._expect("}")
                return False
            self._at += 1

    def array(self) -> Iterator[object]:
        """The elements of the array that begins here."""
        self._expect("[")
        if self._peek() == "]":
            return
        while True:
            try:
                yield self._value(LONGEST_ELEMENT)
            except JsonError as error:
                if str(error) == _TOO_EARLY:
                    raise
                yield error
            if self._peek() != ",":
                self._expect("]")
                return
            self._at += 1

    def _value(self, longest: int) -> object:
        """The value that begins here; ``JsonError`` if it is invalid, after which it is skipped."""
        self._peek()
        size = CHUNK
        while True:
            if self._has_too_many():
                self._skip()
                raise JsonError(f"it has more than {MOST_VALUES:,} values")
            try:
                value, end = self._raw(self._text, self._at)
            except (ValueError, RecursionError) as error:
                why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
                # An incomplete value is invalid, too: the brackets tell. The size doubles each time, so that a long
                # element is not decoded too often.
                balanced = _Structure().end(self._text, self._at)
                if balanced is not None:
                    self._at = balanced
                    if balanced > _KEPT:
                        self._text, self._at = self._text[balanced:], 0
                    raise JsonError(why) from None
                if len(self._text) - self._at > longest:
                    self._skip()
                    raise JsonError(f"it is longer than {longest:,} characters") from None
                if not self._more(size):
                    raise JsonError(_TOO_EARLY) from None
                size *= 2
            else:
                if len(self._text) - end < 3 and self._more():
                    continue  # a number may go on: "1" as "1e+5"
                length, self._at = end - self._at, end
                if length > longest:
                    raise JsonError(f"it is longer than {longest:,} characters")
                return value

    def _has_too_many(self) -> bool:
        """Whether the value read so far has too many values in it; counts only if its length allows that."""
        if len(self._text) - self._at < MOST_VALUES:
            return False
        return sum(self._text.count(character, self._at) for character in ",[{") > MOST_VALUES

    def _skip(self) -> None:
        """Go past the value that begins here, of any length, without keeping it."""
        self._peek()
        structure = _Structure()
        while True:
            end = structure.end(self._text, self._at)
            self._at = len(self._text) if end is None else end
            if self._text[self._at : self._at + 1] in (",", "}", "]"):  # what is between is invalid, and skipped, too
                return
            if end is None and not self._more():
                raise JsonError(_TOO_EARLY)


_TOO_EARLY = "the document ends too early"
