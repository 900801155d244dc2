"""Whole files: the end of a download waits until all of it is known, and parts of a file are for the policy.

Spec: RFC 9110, 14
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

from mitmproxy import http

from hushlist.core.policy.key_types import choice
from hushlist.core.system.memory import LatestEntries
from hushlist.core.url.header_names import as_read
from hushlist.extensions.files.content_kinds import LONGEST_LOOK
from hushlist.extensions.files.file_rules import FileFacts

#: octets at the end of a download that wait; what is no longer waits as a whole
TAIL = 1 << 14
#: what becomes of a part of a file of which the rest was not seen
RANGES = choice(("whole", "refuse", "pass"))
#: fields that ask for a part
_ASKS_PART = frozenset((b"range", b"if-range", b"request-range"))
_CONTENT_RANGE = re.compile(r"\s*bytes\s+([0-9]{1,18})\s*-\s*([0-9]{1,18})\s*/\s*([0-9]{1,18}|\*)\s*", re.IGNORECASE)
_FROM = re.compile(rb"\s*bytes\s*=\s*([0-9]{1,18})\s*-\s*", re.IGNORECASE)
_BEGINNING = re.compile(rb"\s*bytes\s*=\s*0+\s*-\s*([0-9]{0,18})\s*", re.IGNORECASE)
_WITH_FILE = (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT)
#: files that are remembered
_MOST_SEEN = 4096


class HeldEnd:
    """A streamed body whose last octets wait until somebody says whether it passes."""

    def __init__(self, take: Callable[[bytes], bool | None], passes: Callable[[], bool], octets: int = TAIL) -> None:
        """``take`` looks at octets, and is true if none of them goes on, nor any behind them."""
        self._take, self._passes, self._octets = take, passes, octets
        #: the last octets that have come
        self.waiting = b""
        self._has_ended = False

    def __call__(self, octets: bytes) -> bytes:
        """What goes on of the body once these octets have come; none: it has ended."""
        if not octets:
            if self._has_ended:
                return b""
            passes, tail = self._passes(), self.waiting
            self.waiting = b""
            return tail if passes else b""
        if self._has_ended or self._take(octets):
            self._has_ended, self.waiting = True, b""
            return b""
        waiting = self.waiting + octets
        end = max(0, len(waiting) - self._octets)
        self.waiting = waiting[end:]
        return waiting[:end]


class Part(NamedTuple):
    """Which part of a file an answer has."""

    #: the first octet's place, and that behind the last; and the length of the file, if it is told
    first: int
    end: int
    whole: int | None

    @property
    def is_whole(self) -> bool:
        return self.first == 0 and self.end == self.whole


def part_of(answer: http.Response) -> Part | None:
    """The part that an answer says it has; ``None``: it says none. Several are one that
    has no beginning."""
    said = answer.headers.get_all("content-range")
    if answer.status_code != HTTPStatus.PARTIAL_CONTENT and (not said or answer.status_code >= 300):
        return None
    stated = _CONTENT_RANGE.fullmatch(said[0]) if len(said) == 1 else None
    if stated is None:
        return _ODD
    return Part(int(stated[1]), int(stated[2]) + 1, None if stated[3] == "*" else int(stated[3]))


_ODD = Part(1, 1, None)


def asks_part(request: http.Request, *, is_beginning_enough: bool) -> bool:
    """Whether a request may be for a part of a file that says too little; a long beginning may say enough."""
    ranges = [value for name, value in request.headers.fields if as_read(name) in _ASKS_PART - {b"if-range"}]
    beginning = _BEGINNING.fullmatch(ranges[0]) if len(ranges) == 1 else None
    if not ranges or (beginning is not None and not beginning[1]):
        return False
    return not (is_beginning_enough and beginning is not None and int(beginning[1]) >= LONGEST_LOOK)


def open_range_of(request: http.Request) -> tuple[int, str] | None:
    """From where on a request asks for a file, up to its end, and what of its version it wants: as for a resumed
    download; ``None``: it asks for all of it, or for another part.

    Spec: RFC 9110, 13.1.5 and 14.2
    """
    ranges = [value for name, value in request.headers.fields if as_read(name) in _ASKS_PART - {b"if-range"}]
    start = _FROM.fullmatch(ranges[0]) if len(ranges) == 1 and request.method == "GET" else None
    return None if start is None else (int(start[1]), request.headers.get("if-range", ""))


class Resumed:
    """The rest of a file that was asked for as a whole: its answer as the part that the client has asked for."""

    def __init__(self, first: int) -> None:
        self._left = first

    def __call__(self, octets: bytes) -> bytes:
        """What of the next octets belongs to the part; none: it has ended."""
        skipped = min(self._left, len(octets))
        self._left -= skipped
        return octets[skipped:]

    @classmethod
    def of(cls, answer: http.Response, open_range: tuple[int, str] | None) -> Resumed | None:
        """Make a whole answer that part, which flows, if its head says how long it is, and it is that version."""
        first, version = (0, "") if open_range is None else open_range
        length = answer.headers.get("content-length", "")
        is_plain = not answer.headers.get("content-encoding") and length.isdecimal() and len(length) < 19
        if not first or answer.status_code != HTTPStatus.OK or not is_plain or int(length) <= first:
            return None
        if version and version not in _version(answer):
            return None
        answer.stream = True
        answer.status_code, answer.reason = HTTPStatus.PARTIAL_CONTENT, HTTPStatus.PARTIAL_CONTENT.phrase
        answer.headers["content-range"] = f"bytes {first}-{int(length) - 1}/{int(length)}"
        answer.headers["content-length"] = str(int(length) - first)
        return cls(first)


def ask_for_whole(request: http.Request) -> None:
    """Take out what asks for a part."""
    fields = request.headers.fields
    request.headers.fields = tuple(field for field in fields if as_read(field[0]) not in _ASKS_PART)


class SeenFile(NamedTuple):
    """A file whose beginning was seen, and passed."""

    facts: FileFacts
    #: its length, and what tells its version
    whole: int | None
    version: tuple[str, ...]


class SeenFiles:
    """The files that were seen last: later parts of them are no news."""

    def __init__(self) -> None:
        self._seen: LatestEntries[tuple[str, bytes], SeenFile] = LatestEntries(_MOST_SEEN)

    def note(self, flow: http.HTTPFlow, facts: FileFacts, part: Part | None) -> None:
        """Remember a file whose beginning has passed, if its length is told."""
        assert flow.response is not None
        whole = facts.octets if part is None else part.whole
        # a HEAD has no beginning, and what answers another method is no part of the same file
        if whole is None or flow.request.method != "GET" or flow.response.status_code not in _WITH_FILE:
            return
        self._seen[_key(flow)] = SeenFile(facts, whole, _version(flow.response))

    def of_request(self, flow: http.HTTPFlow) -> FileFacts | None:
        """What was seen of the file that a request asks for a part of."""
        seen = self._seen.get(_key(flow))
        return None if seen is None else seen.facts

    def of_part(self, flow: http.HTTPFlow, part: Part) -> FileFacts | None:
        """What was seen of the file that an answer is a part of, if it is still that file."""
        assert flow.response is not None
        seen = self._seen.get(_key(flow))
        if seen is None or not any(seen.version) or seen.whole != part.whole:
            return None
        return seen.facts if seen.version == _version(flow.response) else None


def _key(flow: http.HTTPFlow) -> tuple[str, bytes]:
    request = flow.request
    return f"{request.scheme}://{request.host}:{request.port} {request.host_header}", request.data.path


def _version(answer: http.Response) -> tuple[str, ...]:
    return tuple(answer.headers.get(name, "") for name in ("etag", "last-modified"))
