"""A source: its octets, its lines, and the report of what is wrong with it."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import date
from pathlib import Path, PurePath

from hushlist.errors import Problem, without_user
from hushlist.match.rule import Action, Pattern, Rule, Terms

#: octets; no rule is anywhere near as long, and no reader has to hold more than this at a time
LONGEST_LINE = 1 << 16


#: warnings with one reason that are shown each for itself
MOST_SHOWN = 20
# A reason may quote the entry, and every entry may be another: how many are told apart.
_MOST_REASONS = 100
_OTHER_REASONS = "other reasons"


@dataclass(slots=True)
class _Count:
    """How many there are, and where those are that are not shown each for itself."""

    number: int = 0
    first: int = 0
    last: int = 0
    what: str = ""

    def rest(self, source: str, why: str) -> Problem:
        """Those that were not shown."""
        more = f"{self.number - MOST_SHOWN:,} more"
        return Problem(source, self.first, more, f"left out: {why} (the last in line {self.last})")

    def all(self, source: str, kind: str) -> Problem:
        """All, shown as the first."""
        number = f" (the first of {self.number:,})" if self.number > 1 else ""
        return Problem(source, self.first, self.what, f"left out: {kind}{number}")


def _count(counts: dict[str, _Count], why: str, line: int, what: str, shown: int) -> int:
    """Count one more; the number of those with the same reason."""
    if why not in counts and len(counts) >= _MOST_REASONS:
        why = _OTHER_REASONS
    count = counts.setdefault(why, _Count())
    count.number += 1
    count.last = line
    if count.number == shown + 1:
        count.first, count.what = line, _shorten(what)
    return count.number


@dataclass(slots=True)
class Report:
    """What is wrong with one source: errors make it unusable, warnings name what was left out or will not do.

    Both are in the order of their lines.
    """

    source: str
    errors: list[Problem] = field(default_factory=list)
    _warnings: list[Problem] = field(default_factory=list)
    #: reason -> how often something was left out for it
    _left_out: dict[str, _Count] = field(default_factory=dict)
    #: kind -> how many lines are of it
    _kinds: dict[str, _Count] = field(default_factory=dict)

    @property
    def warnings(self) -> list[Problem]:
        """What was left out, and what will not do."""
        more = (count.rest(self.source, why) for why, count in self._left_out.items() if count.number > MOST_SHOWN)
        kinds = (count.all(self.source, kind) for kind, count in self._kinds.items())
        return sorted((*self._warnings, *more, *kinds), key=_line)

    def error(self, line: int, what: str, why: str) -> None:
        """The source cannot be used."""
        insort(self.errors, Problem(self.source, line, _shorten(what), why), key=_line)

    def warn(self, line: int, what: str, why: str) -> None:
        """The source can be used, but not quite as it is written."""
        insort(self._warnings, Problem(self.source, line, _shorten(what), why), key=_line)

    def leave_out(self, line: int, what: str, why: str) -> None:
        """A warning: an entry of somebody else's list is not used. Of many with one reason, the first are shown.

        >>> report = Report("f")
        >>> for line in range(1, 31): report.leave_out(line, "a b", "there is white space in it")
        >>> len(report.warnings), str(report.warnings[-1])
        (21, 'f:21: 10 more: left out: there is white space in it (the last in line 30)')
        """
        if _count(self._left_out, why, line, what, MOST_SHOWN) <= MOST_SHOWN:
            self.warn(line, what, f"left out: {why}")

    def tally(self, line: int, what: str, kind: str) -> None:
        """A warning for all lines of a kind together: they are understood, but there is no rule for them.

        >>> report = Report("f")
        >>> for line in (3, 5, 8): report.tally(line, "##.ad", "a cosmetic filter")
        >>> print(*report.warnings)
        f:3: ##.ad: left out: a cosmetic filter (the first of 3)
        """
        _count(self._kinds, kind, line, what, 0)


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

    def rule(self, pattern: Pattern, report: Report, line: int, own: OwnTerms | None = None) -> Rule:
        """A rule of this list."""
        return Rule(pattern, self.terms(report.source, own), line)


@dataclass(frozen=True, slots=True)
class OwnTerms:
    """What a rule says itself."""

    action: Action | None = None
    category: str | None = None
    reason: str | None = None
    expires: date | None = None


def read_octets(path: Path, report: Report) -> bytes | None:
    """A file's octets, or ``None`` with an error in the report."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: no file can have that name
        report.error(0, path.name, getattr(error, "strerror", None) or str(error))
        return None


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OTHER_ENCODINGS = (b"\xff\xfe", b"\xfe\xff")


def numbered_lines(octets: bytes, report: Report, *, is_foreign: bool = False) -> Iterator[tuple[int, str]]:
    """``(line number, text)`` of every line that can be read; the others are errors in the report.

    In a foreign list they are left out with a warning. A byte order mark is skipped, and CRLF ends a line as LF does.
    """
    if octets.startswith(_OTHER_ENCODINGS):
        report.error(1, "byte order mark", "the file is in UTF-16; lists are in UTF-8")
        return
    start = len(_BYTE_ORDER_MARK) if octets.startswith(_BYTE_ORDER_MARK) else 0
    number = 0
    while start <= len(octets):
        number += 1
        end = octets.find(b"\n", start)
        end = len(octets) if end < 0 else end
        line_start, start = start, end + 1
        if end - line_start > LONGEST_LINE:
            if is_foreign:
                report.leave_out(number, "line", f"it is longer than {LONGEST_LINE} octets")
            else:
                report.error(number, "line", f"it is {end - line_start} octets long; {LONGEST_LINE} are the most")
            continue
        try:
            yield number, octets[line_start:end].removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            what = repr(error.object[error.start : error.end])
            if is_foreign:
                report.leave_out(number, what, "not UTF-8")
            else:
                report.error(number, what, f"not UTF-8 (at octet {error.start})")


def entries(octets: bytes, report: Report, *, is_foreign: bool = False) -> Iterator[tuple[int, str]]:
    """Lines with their comments removed ("#" at the start of a line or behind white space), the empty ones left out."""
    for number, line in numbered_lines(octets, report, is_foreign=is_foreign):
        entry = without_comment(line)
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
