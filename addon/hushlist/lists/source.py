"""A source: its octets, its lines, and the report of what is wrong with it."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import date
from errno import EINVAL, EISDIR
from functools import cache, partial
from os import strerror
from pathlib import Path, PurePath
from stat import S_ISDIR, S_ISREG

from hushlist.errors import Problem, without_user
from hushlist.match.rule import Action, Terms

#: octets; no rule is anywhere near as long, and no reader has to hold more than this at a time
LONGEST_LINE = 1 << 16


#: warnings with one reason that are shown each for itself
MOST_SHOWN = 20
# A reason may quote the entry, and every entry may be another: how many are told apart.
_MOST_REASONS = 100
_OTHER_REASONS = "other reasons"


@dataclass(slots=True)
class _Count:
    """How many there are, the first of them, and where the last is."""

    number: int = 0
    last: int = 0
    #: at most as many as are shown each for itself, and one more: where the others begin
    first: list[Problem] = field(default_factory=list)

    def rest(self, source: str, why: str) -> Problem:
        """Those that are not shown."""
        more = f"{self.number - MOST_SHOWN:,} more"
        return Problem(source, self.first[MOST_SHOWN].line, more, f"left out: {why} (the last in line {self.last})")

    def all(self, source: str, kind: str) -> Problem:
        """All, shown as the first."""
        number = f" (the first of {self.number:,})" if self.number > 1 else ""
        return Problem(source, self.first[0].line, self.first[0].what, f"left out: {kind}{number}")


@dataclass(slots=True)
class _Counts:
    """What was left out, counted by reason."""

    #: how many of each reason are kept
    most: int
    by_reason: dict[str, _Count] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """How many there are in all."""
        return sum(count.number for count in self.by_reason.values())

    def add(self, source: str, line: int, what: str, why: str) -> None:
        """Count one more."""
        reason = self._reason(why)
        count = self.by_reason[reason]
        count.number += 1
        count.last = line
        if len(count.first) < self.most:
            count.first.append(Problem(source, line, _shorten(what), f"left out: {why}"))

    def merge(self, other: _Counts) -> None:
        """Count those of the lines behind."""
        for why, theirs in other.by_reason.items():
            ours = self.by_reason[self._reason(why)]
            ours.number += theirs.number
            ours.last = max(ours.last, theirs.last)
            ours.first = sorted((*ours.first, *theirs.first), key=_line)[: self.most]

    def _reason(self, why: str) -> str:
        """The reason by which one is counted."""
        if why not in self.by_reason:
            if len(self.by_reason) >= _MOST_REASONS:
                why = _OTHER_REASONS
            self.by_reason.setdefault(why, _Count())
        return why


@dataclass(slots=True)
class Report:
    """What is wrong with one source: errors make it unusable, warnings name what was left out or will not do.

    Both are in the order of their lines. A source may be read in pieces, each with a report of its own; ``merge`` makes
    one of them.
    """

    source: str
    #: the number of the line with which the octets begin
    first_line: int = 1
    errors: list[Problem] = field(default_factory=list)
    _warnings: list[Problem] = field(default_factory=list)
    _left_out: _Counts = field(default_factory=lambda: _Counts(MOST_SHOWN + 1))
    _kinds: _Counts = field(default_factory=lambda: _Counts(1))
    #: how many entries were skipped, each with a warning of its own
    _skipped: int = 0

    @property
    def warnings(self) -> list[Problem]:
        """What was left out, and what will not do."""
        left_out = self._left_out.by_reason
        shown = (problem for count in left_out.values() for problem in count.first[:MOST_SHOWN])
        more = (count.rest(self.source, why) for why, count in left_out.items() if count.number > MOST_SHOWN)
        kinds = (count.all(self.source, kind) for kind, count in self._kinds.by_reason.items())
        return sorted((*self._warnings, *shown, *more, *kinds), key=_line)

    @property
    def refused(self) -> int:
        """How many entries are not used."""
        return self.left_out + self._skipped

    @property
    def left_out(self) -> int:
        """How many entries no rule could be made of."""
        return self._left_out.number + self._kinds.number

    def error(self, line: int, what: str, why: str) -> None:
        """The source cannot be used."""
        insort(self.errors, Problem(self.source, line, _shorten(what), why), key=_line)

    def warn(self, line: int, what: str, why: str) -> None:
        """The source can be used, but not quite as it is written."""
        insort(self._warnings, Problem(self.source, line, _shorten(what), why), key=_line)

    def skip(self, line: int, what: str, why: str) -> None:
        """A warning: an entry is not used, though nothing is wrong with it."""
        self.warn(line, what, f"skipped: {why}")
        self._skipped += 1

    def leave_out(self, line: int, what: str, why: str) -> None:
        """A warning: an entry of somebody else's list is not used. Of many with one reason, the first are shown.

        >>> report = Report("f")
        >>> for line in range(1, 31): report.leave_out(line, "a b", "there is white space in it")
        >>> len(report.warnings), str(report.warnings[-1])
        (21, 'f:21: 10 more: left out: there is white space in it (the last in line 30)')
        """
        self._left_out.add(self.source, line, what, why)

    def tally(self, line: int, what: str, kind: str) -> None:
        """A warning for all lines of a kind together: they are understood, but there is no rule for them.

        >>> report = Report("f")
        >>> for line in (3, 5, 8): report.tally(line, "##.ad", "a cosmetic filter")
        >>> print(*report.warnings)
        f:3: ##.ad: left out: a cosmetic filter (the first of 3)
        """
        self._kinds.add(self.source, line, what, kind)

    def merge(self, other: Report) -> None:
        """Take over the report of the lines behind: the two then say what one reading of both pieces would say.

        Only where there are more reasons than are told apart, which of them are may be another matter.

        >>> report, behind = Report("f"), Report("f", first_line=5)
        >>> report.tally(3, "##.ad", "a cosmetic filter")
        >>> behind.tally(5, "##.banner", "a cosmetic filter")
        >>> report.merge(behind)
        >>> print(*report.warnings)
        f:3: ##.ad: left out: a cosmetic filter (the first of 2)
        """
        if any(problem.why in (_IN_UTF_16, _IS_COMPRESSED) for problem in self.errors):
            return  # nothing behind that is read
        self.errors = sorted((*self.errors, *other.errors), key=_line)
        self._warnings = sorted((*self._warnings, *other._warnings), key=_line)
        self._left_out.merge(other._left_out)
        self._kinds.merge(other._kinds)
        self._skipped += other._skipped


def _line(problem: Problem) -> int:
    return problem.line


def _shorten(what: str) -> str:
    what = str(without_user(what))
    return what if len(what) <= 120 else what[:117] + "..."


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for the rules of a list that do not say otherwise themselves; ``None`` where nothing is said."""

    #: the list's ``hrn:`` name, and what people call it
    name: str | None = None
    title: str | None = None
    action: Action | None = None
    category: str | None = None
    reason: str | None = None
    #: how the list's author canonicalized hashed URIs: a key of ``hushlist.url.hashed.VARIANTS``
    variant: str | None = None
    #: how long the hash prefixes of a binary list are, in octets
    prefix_length: int | None = None
    #: the policy's layer that names the list
    layer: str | None = None

    def behind(self, other: Defaults) -> Defaults:
        """``other``, completed by these."""
        return Defaults(*(getattr(other, f.name) or getattr(self, f.name) for f in fields(self)))

    def terms(self, source: str, own: OwnTerms | None = None) -> Terms:
        """The terms of its rules; what they do not say themselves comes from here, and ``block`` from nowhere."""
        own = own or OwnTerms()
        return Terms(
            action=own.action or self.action or Action.BLOCK,
            list=self.name or PurePath(source).stem,
            source=source,
            category=own.category or self.category,
            reason=own.reason or self.reason,
            expires=own.expires,
            title=self.title,
            layer=self.layer or "",
        )


@dataclass(frozen=True, slots=True)
class OwnTerms:
    """What a rule says itself."""

    action: Action | None = None
    category: str | None = None
    reason: str | None = None
    expires: date | None = None


def shared_terms(defaults: Defaults, source: str) -> Callable[[OwnTerms], Terms]:
    """A function that completes a rule's own terms; equal ones become one object.

    >>> terms = shared_terms(Defaults(), "f")
    >>> terms(OwnTerms(reason="why")) is terms(OwnTerms(reason="why"))
    True
    """
    return cache(partial(defaults.terms, source))


def check_regular(path: Path) -> None:
    """Whether a file is one that ends: a pipe or a device may keep its reader waiting for ever.

    Raises:
        OSError: it is none, or not there.
        ValueError: no file can have that name.
    """
    mode = path.stat().st_mode
    if S_ISDIR(mode):
        raise IsADirectoryError(EISDIR, strerror(EISDIR), str(path))
    if not S_ISREG(mode):
        raise OSError(EINVAL, "it is no regular file", str(path))


def read_octets(path: Path, report: Report) -> bytes | None:
    """A file's octets, or ``None`` with an error in the report."""
    try:
        check_regular(path)
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: no file can have that name
        report.error(0, path.name or str(path), getattr(error, "strerror", None) or str(error))
        return None


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OTHER_ENCODINGS = (b"\xff\xfe", b"\xfe\xff")
_IN_UTF_16 = "the file is in UTF-16; lists are in UTF-8"
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ\x00": "xz",
    b"BZh91AY&SY": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_IS_COMPRESSED = "the file is compressed; unpack it first"
#: octets that are read at once; in a block of at most LONGEST_LINE no line can be longer
_BLOCK = LONGEST_LINE // 2


def blocks(octets: bytes, report: Report) -> Iterator[tuple[int, bytes]]:
    """``(number of the first line, octets)`` of pieces that end where lines do; nothing is between them but a LF.

    A byte order mark is skipped.
    """
    number = report.first_line
    start = 0
    if number == 1:
        if octets.startswith(_OTHER_ENCODINGS):
            report.error(1, "byte order mark", _IN_UTF_16)
            return
        if octets.startswith(tuple(_COMPRESSED)):
            kind = next(name for begin, name in _COMPRESSED.items() if octets.startswith(begin))
            report.error(1, kind, _IS_COMPRESSED)
            return
        start = len(_BYTE_ORDER_MARK) if octets.startswith(_BYTE_ORDER_MARK) else 0
    while start <= len(octets):
        end = octets.find(b"\n", start + _BLOCK)
        end = len(octets) if end < 0 else end
        block = octets[start:end]
        yield number, block
        number += block.count(b"\n") + 1
        start = end + 1


def numbered_lines(octets: bytes, report: Report, *, is_foreign: bool = False) -> Iterator[tuple[int, str]]:
    """``(line number, text)`` of every line that can be read; the others are errors in the report.

    In a foreign list they are left out with a warning. A byte order mark is skipped, and CRLF ends a line as LF does.
    """
    for first, block in blocks(octets, report):
        yield from _block_lines(block, first, report, is_foreign=is_foreign)


def _block_lines(block: bytes, first: int, report: Report, *, is_foreign: bool) -> Iterable[tuple[int, str]]:
    """The same of one block."""
    lines = _lines(block)
    if lines is None:
        return _lines_one_by_one(block, first, report, is_foreign=is_foreign)
    return enumerate(lines, first)


def _lines(block: bytes) -> list[str] | None:
    """The lines, or ``None`` where one of them may be too long or is no text."""
    if len(block) > LONGEST_LINE:
        return None
    try:
        text = block.decode()
    except UnicodeDecodeError:
        return None
    # not "splitlines", which sees a line's end in other characters, too
    return text.removesuffix("\r").replace("\r\n", "\n").split("\n")


def _lines_one_by_one(block: bytes, first: int, report: Report, *, is_foreign: bool) -> Iterator[tuple[int, str]]:
    """As ``numbered_lines``, of lines of which the first has this number."""
    for number, line in enumerate(block.split(b"\n"), first):
        if len(line) > LONGEST_LINE:
            if is_foreign:
                report.leave_out(number, "line", f"it is longer than {LONGEST_LINE} octets")
            else:
                report.error(number, "line", f"it is {len(line)} octets long; {LONGEST_LINE} are the most")
            continue
        try:
            yield number, line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            what = repr(error.object[error.start : error.end])
            if is_foreign:
                report.leave_out(number, what, "not UTF-8")
            else:
                report.error(number, what, f"not UTF-8 (at octet {error.start})")


def entries(octets: bytes, report: Report, *, is_foreign: bool = False) -> Iterator[tuple[int, str]]:
    """Lines with their comments removed ("#" at the start of a line or behind white space), the empty ones left out."""
    return _entries(numbered_lines(octets, report, is_foreign=is_foreign))


def block_entries(block: bytes, first: int, report: Report) -> Iterator[tuple[int, str]]:
    """As ``entries``, of a block of a foreign list."""
    return _entries(_block_lines(block, first, report, is_foreign=True))


def _entries(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    for number, line in lines:
        entry = without_comment(line) if "#" in line else line.strip()
        if entry:
            yield number, entry


def without_comment(line: str) -> str:
    """A line without its comment and the white space around it.

    >>> without_comment("  http://a.example/x#y  # why"), without_comment("# all")
    ('http://a.example/x#y', '')
    """
    position = line.find("#")
    while position > 0 and not line[position - 1].isspace():
        position = line.find("#", position + 1)
    return (line if position < 0 else line[:position]).strip()
