"""What the rules say of an upload as it comes: of a bare body by its beginning, of a form by each of its parts."""

from __future__ import annotations

import binascii
import quopri
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hushlist.core.decide.decision import STOPPING
from hushlist.core.match.rule import Action
from hushlist.core.match.rule_match import Match
from hushlist.extensions.files.content_coding import CodingError, Decoder
from hushlist.extensions.files.content_kinds import LONGEST_LOOK, can_tell, kinds_of
from hushlist.extensions.files.file_hashes import FileHasher
from hushlist.extensions.files.file_names import file_name, names_of_disposition
from hushlist.extensions.files.file_rules import FileFacts, FileRule, kinds_wanted
from hushlist.extensions.files.multipart import (
    MultipartError,
    MultipartReader,
    PartHead,
    PartTaker,
    boundary_of,
)

_MULTIPART = "multipart"
#: forms within forms
_DEEPEST = 3
#: codings of a part that leave it as it is, and those that some servers undo
_AS_IT_IS = frozenset(("", "7bit", "8bit", "binary"))
_NO_BASE64 = bytes({*range(256)} - {*b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="})
_SOFT_BREAK, _NO_ESCAPE = re.compile(rb"=[ \t]*\r?\n"), re.compile(rb"=(?![0-9A-Fa-f]{2})")


def _from_base64(coded: bytes) -> bytes:
    if b"=" in coded.rstrip(b"="):
        raise ValueError("something is behind its end")
    return binascii.a2b_base64(coded)


def _from_quoted_printable(coded: bytes) -> bytes:
    flaw = _NO_ESCAPE.search(coded)
    if flaw is not None and flaw.start() < len(coded) - 2:  # or the last escape is cut
        raise ValueError("an escape cannot be read")
    return quopri.decodestring(coded)


class _PartCoding(NamedTuple):
    """A coding of a part that some servers undo."""

    #: takes out what stands for no octet; and what is left -> octets; raises ``ValueError``
    compact: Callable[[bytes], bytes]
    decode: Callable[[bytes], bytes]
    #: octets of what is left that are needed
    longest: int


_PART_CODINGS = {
    "base64": _PartCoding(lambda octets: octets.translate(None, _NO_BASE64), _from_base64, -(-LONGEST_LOOK // 3) * 4),
    "quoted-printable": _PartCoding(
        lambda octets: _SOFT_BREAK.sub(b"", octets), _from_quoted_printable, 3 * LONGEST_LOOK
    ),
}

#: facts of a file -> the rule that fits
Judge = Callable[[FileFacts], Match | None]


class Hashing(NamedTuple):
    """How files are looked at as a whole: by their hashes and their members."""

    hasher: Callable[[], FileHasher]
    #: the hashes of a whole file -> what lists say of it
    look_up: Callable[[FileHasher], tuple[Match, ...]]
    #: whether a rule waits for the members of a file
    needs_members: Callable[[FileFacts], bool]


@dataclass(slots=True)
class _File:
    """A file in an upload, judged again whenever more of it may matter."""

    facts: FileFacts
    judge: Judge
    note: Callable[[Match | None], None]
    wanted: frozenset[str]
    #: sizes at which a rule begins to fit; none where the head has told the size
    bounds: Sequence[int] = ()
    coding: _PartCoding | None = None
    hashing: Hashing | None = None
    hasher: FileHasher | None = None
    beginning: bytes = b""
    #: what stands for octets, where it has a coding
    coded: bytes = b""
    came: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether it is known what it is."""
        return self.facts.kinds is not None and self.hashing is None

    def take(self, octets: bytes) -> None:
        before, self.came = self.came, self.came + len(octets)
        if self.hashing is not None:
            self.hasher = self.hasher or self.hashing.hasher()
            self.hasher.take(octets)
        has_news = any(before <= bound < self.came for bound in self.bounds)
        if self.facts.kinds is None:
            self.beginning += octets[: LONGEST_LOOK - len(self.beginning)]
            if self.coding is None:
                is_enough = can_tell(self.beginning, self.wanted)
            else:
                self.coded = self.coding.compact(self.coded + octets)
                is_enough = len(self.coded) >= self.coding.longest
            if is_enough:
                has_news = True
                self._see()
        if has_news:
            self._judge()

    def end(self) -> None:
        if self.facts.kinds is None:
            self._see()
        if self.facts.is_part:
            self.facts = self.facts._replace(octets=self.came, is_part=False)
        if self.hashing is not None:
            hasher = self.hasher or self.hashing.hasher()
            members = hasher.members()
            self.facts = self.facts._replace(listed=self.hashing.look_up(hasher), members=members)
            if members.why_unseen and self.hashing.needs_members(self.facts._replace(members=None)):
                self._judge()
                raise MultipartError(members.why_unseen)
        self._judge()

    def _see(self) -> None:
        kinds = kinds_of(self.beginning)
        if self.coding is not None:
            try:
                kinds |= kinds_of(self.coding.decode(self.coded[: self.coding.longest]))
            except ValueError:
                raise MultipartError("a part has a coding that is not as it says") from None
        self.facts = self.facts._replace(kinds=kinds)

    def _judge(self) -> None:
        self.note(self.judge(self.facts._replace(octets=self.came) if self.facts.is_part else self.facts))


class UploadLook:
    """Looks at one upload."""

    def __init__(
        self,
        rules: Sequence[FileRule],
        judge: Judge,
        facts: FileFacts,
        codings: str,
        content_types: Sequence[str],
        hashing: Hashing | None = None,
        *,
        waits_for_end: bool = False,
    ) -> None:
        """``facts`` of the whole, as its head says; ``rules`` that hold now for uploads, by which ``judge`` goes.

        ``waits_for_end``: somebody else looks at all of it.
        """
        self._waits_for_end = waits_for_end
        self._judge, self._wanted, self._hashing = judge, kinds_wanted(rules), hashing
        self._bounds = [rule.larger_than for rule in rules if rule.larger_than is not None]
        #: the rules that fit the upload or a part of it, each once; those that allow are left out
        self.matches: list[Match] = []
        #: why not all of it can be looked at: a coding that is not read, or a form that servers read in different ways
        self.why_unseen = ""
        #: whether nothing that comes can change anything
        self.is_decided = False
        self._taker: PartTaker | None = None
        #: whether it has parts
        self.is_form = is_form(content_types)
        try:
            self._decoder = Decoder(codings)
            if self.is_form:
                self._taker = self._reader_of(content_types, 1)
            else:
                self._taker = _File(facts, judge, self._note, self._wanted, hashing=hashing)
        except (CodingError, MultipartError) as error:
            self.give_up(str(error))

    @property
    def is_settled(self) -> bool:
        """Whether what has come may go on, as far as that can be said."""
        if self._waits_for_end and not self.is_decided:
            return False
        return self.is_decided or (self._taker is not None and self._taker.is_settled)

    def take(self, octets: bytes) -> None:
        """Look at the next octets."""
        if self.is_decided or self._taker is None:
            return
        try:
            for decoded in self._decoder.decode(octets):
                self._taker.take(decoded)
                if self.is_decided or (not self.is_form and self.is_settled):
                    self.is_decided = True
                    break
        except (CodingError, MultipartError) as error:
            self.give_up(str(error))

    def end(self) -> None:
        """There is no more of it."""
        if self.is_decided or self._taker is None:
            return
        try:
            self._taker.end()
        except MultipartError as error:
            self.give_up(str(error))
        self.is_decided = True

    def give_up(self, why: str) -> None:
        """Look at no more of it."""
        self.why_unseen, self.is_decided = why, True

    def _note(self, match: Match | None) -> None:
        if match is None or match.rule.terms.action is Action.ALLOW:
            return
        if all(match.rule.line != each.rule.line for each in self.matches):
            self.matches.append(match)
        self.is_decided = self.is_decided or match.rule.terms.action in STOPPING

    def _reader_of(self, content_types: Sequence[str], depth: int) -> MultipartReader:
        if len(content_types) != 1:
            raise MultipartError("it states several media types")
        if depth > _DEEPEST:
            raise MultipartError("it has forms within forms")
        boundary, of_form = boundary_of(content_types[0]), "multipart/form-data" in media_types_of(content_types)
        return MultipartReader(boundary, lambda head: self._begin_part(head, depth, of_form=of_form))

    def _begin_part(self, head: PartHead, depth: int, *, of_form: bool) -> PartTaker:
        disposition, content_type = head.get("content-disposition", ""), head.get("content-type", "")
        if of_form and disposition.partition(";")[0].strip().lower() != "form-data":
            raise MultipartError("a part of it is none of a form")
        coding = head.get("content-transfer-encoding", "").strip().lower()
        part_coding = _PART_CODINGS.get(coding)
        is_read = coding in _AS_IT_IS or (part_coding is not None and self._hashing is None and not self._waits_for_end)
        if not is_read or "content-encoding" in head:
            raise MultipartError("a part has a coding that is not read")
        if is_form([content_type]):
            if coding not in _AS_IT_IS:
                raise MultipartError("a form within it has a coding")
            return self._reader_of([content_type], depth + 1)
        fields = (disposition, f";{content_type.partition(';')[2]}")
        names = (*names_of_disposition(fields), file_name(head.get("content-location", "")))
        facts = FileFacts(True, media_types_of([content_type]), tuple(filter(None, names)), 0, is_part=True)
        file = _File(facts, self._judge, self._note, self._wanted, self._bounds, part_coding, self._hashing)
        self._note(self._judge(facts))
        return file


class _Content:
    """Keeps a part whole."""

    is_settled = True

    def __init__(self, head: PartHead) -> None:
        self.head, self.octets = head, bytearray()

    def take(self, octets: bytes) -> None:
        self.octets += octets

    def end(self) -> None:
        """There is nothing to do."""


def contents_of(content_types: Sequence[str], body: bytes) -> list[tuple[PartHead, bytes]]:
    """The parts of a form with their heads, by one of its media types; raises ``MultipartError``."""
    if len(content_types) != 1:
        raise MultipartError("it states several media types")
    parts: list[_Content] = []

    def begin(head: PartHead) -> PartTaker:
        parts.append(_Content(head))
        return parts[-1]

    reader = MultipartReader(boundary_of(content_types[0]), begin)
    reader.take(body)
    reader.end()
    return [(part.head, bytes(part.octets)) for part in parts]


def is_form(content_types: Sequence[str]) -> bool:
    """Whether a server may read a body in parts."""
    return any(_MULTIPART in each.lower() for each in content_types)


def media_types_of(content_types: Iterable[str]) -> tuple[str, ...]:
    """The media types that fields ``Content-Type`` state, without parameters, in lower case: clients take any of them.

    >>> media_types_of(["text/plain; charset=utf-8, Image/PNG", "text/plain"])
    ('text/plain', 'image/png')
    """
    stated = (each.partition(";")[0].strip().lower() for field in content_types for each in field.split(","))
    return tuple(dict.fromkeys(each for each in stated if "/" in each))
