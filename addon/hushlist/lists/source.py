"""A source: its octets, its lines, and the report of what is wrong with it."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import date
from pathlib import Path, PurePath

from hushlist.errors import Problem
from hushlist.match.rule import Action, Pattern, Rule

#: octets; no rule is anywhere near as long, and no reader has to hold more than this at a time
LONGEST_LINE = 1 << 16


@dataclass(slots=True)
class Report:
    """What is wrong with one source: errors make it unusable, warnings name what was left out or will not do.

    Both are in the order of their lines.
    """

    source: str
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def error(self, line: int, what: str, why: str) -> None:
        """The source cannot be used."""
        insort(self.errors, Problem(self.source, line, _shorten(what), why), key=_line)

    def warn(self, line: int, what: str, why: str) -> None:
        """The source can be used, but not quite as it is written."""
        insort(self.warnings, Problem(self.source, line, _shorten(what), why), key=_line)


def _line(problem: Problem) -> int:
    return problem.line


def _shorten(what: str) -> str:
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

    def behind(self, other: Defaults) -> Defaults:
        """``other``, completed by these."""
        return Defaults(*(getattr(other, f.name) or getattr(self, f.name) for f in fields(self)))

    def rule(self, pattern: Pattern, report: Report, line: int, own: OwnTerms | None = None) -> Rule:
        """A rule of this list; what it does not say itself comes from here, and ``block`` from nowhere."""
        own = own or OwnTerms()
        return Rule(
            pattern=pattern,
            action=own.action or self.action or Action.BLOCK,
            list=self.name or PurePath(report.source).stem,
            source=report.source,
            line=line,
            category=own.category or self.category,
            reason=own.reason or self.reason,
            expires=own.expires,
            title=self.title,
        )


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


def numbered_lines(octets: bytes, report: Report) -> Iterator[tuple[int, str]]:
    """``(line number, text)`` of every line that can be read; the others are errors in the report.

    A byte order mark is skipped, and CRLF ends a line as LF does.
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
            report.error(number, "line", f"it is {end - line_start} octets long; {LONGEST_LINE} are the most")
            continue
        try:
            yield number, octets[line_start:end].removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            report.error(number, repr(error.object[error.start : error.end]), f"not UTF-8 (at octet {error.start})")


def entries(octets: bytes, report: Report) -> Iterator[tuple[int, str]]:
    """Lines with their comments removed ("#" at the start of a line or behind white space), the empty ones left out."""
    for number, line in numbered_lines(octets, report):
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
