"""What all readers of lists share: octets, lines, default terms, and the report of problems."""

from __future__ import annotations

import re
import sys
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from operator import attrgetter
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from hushlist.core.errors import Problem, UrlError, without_user
from hushlist.core.match.rule import Action, Scope, Terms
from hushlist.core.system.files import LONGEST_WHOLE, read_private, read_regular, reason_of, source_errors
from hushlist.core.system.late_pattern import late_pattern

if TYPE_CHECKING:
    from hushlist.core.match.seal import SealKey

#: octets of a line; rules are far shorter, and no reader has to hold more than this
LONGEST_LINE = 1 << 16
#: characters of a list's title, and of a reason: the index has both with all rules that differ in anything, and each
#: record of the log has them
LONGEST_TITLE, LONGEST_REASON = 200, 500


#: errors of a source that are kept, and warnings other than for entries left out; the rest are only counted
MOST_KEPT = 1000
#: warnings with the same reason that are shown one by one, and that are kept: some of these may be gone after an update
MOST_SHOWN, _MOST_OF_REASON = 20, 200
# A reason may quote the entry, so there may be as many reasons as entries. More than this are counted together.
_MOST_REASONS = 100
_OTHER_REASONS = "other reasons"

_line = attrgetter("line")
#: from a line's number to its number after a change of the list
LineNow = Callable[[int], int]


class _ProblemCount:
    """Problems of one kind: how many, the line of the last, and the first ones, in the order of their lines."""

    def __init__(self, most: int, number: int = 0, last: int = 0, first: Iterable[Sequence[Any]] = ()) -> None:
        #: how many are kept
        self.most = most
        self.number = number
        self.last = last
        self.first = [Problem(*problem) for problem in first]

    def add(self, source: str, line: int, what: str, why: str) -> None:
        self.number += 1
        self.last = line
        if len(self.first) < self.most:
            insort(self.first, Problem(source, line, _shorten(what), why), key=_line)

    def merge(self, other: _ProblemCount) -> None:
        """Add the problems of later lines."""
        self.number += other.number
        self.last = max(self.last, other.last)
        self.first = sorted((*self.first, *other.first), key=_line)[: self.most]

    def changed(self, gone: _ProblemCount, came: _ProblemCount, now: LineNow) -> _ProblemCount | None:
        """The problems after a change of lines; ``None`` if that cannot be told, as others than the first are not kept.

        ``gone`` has those of lines that are gone, ``came`` those of new ones; ``now``: the number of a line now.
        """
        is_whole, left = self.number == len(self.first), Counter(gone.first)
        after = _ProblemCount(self.most, self.number - gone.number + came.number)
        stay = list[Problem]()
        for problem in self.first:
            if left[problem]:
                left[problem] -= 1
            else:
                stay.append(problem._replace(line=now(problem.line)))
        is_last_gone = any(problem.line == self.last for problem in gone.first)
        if not is_whole and (len(stay) < len(self.first) or is_last_gone):
            return None
        new = [problem for problem in came.first if is_whole or (stay and problem.line < stay[-1].line)]
        after.first = sorted((*stay, *new), key=_line)[: self.most]
        lasts = [problem.line for problem in stay] if is_whole else [now(self.last)]
        after.last = max((*lasts, *(problem.line for problem in came.first)), default=0)
        return after

    def all(self, source: str, what: str) -> list[Problem]:
        """The problems that are kept, and one that gives the number of the others."""
        more = self.number - len(self.first)
        return [*self.first, *([Problem(source, 0, what, f"{more:,} more are not shown")] if more else [])]


def _by_reason(counts: dict[str, _ProblemCount], why: str, most: int) -> _ProblemCount:
    """The count of a reason, or of other reasons if there are already very many."""
    if why not in counts:
        why = why if len(counts) < _MOST_REASONS else _OTHER_REASONS
        counts.setdefault(why, _ProblemCount(most))
    return counts[why]


class ListedProblem(NamedTuple):
    """A problem of a list, told alone."""

    problem: Problem
    #: ``error``; ``unreadable``: the entry is none of its format; ``unsupported``: it is understood, and no rule can
    #: say it; ``exception``: the same, of an exception; ``skipped``; ``warning``: it is used, but not quite as written
    kind: str


class ProblemReport:
    """The problems of one source. An error makes it unusable; a warning names an entry that is not used as written.

    Both are in the order of their lines. Each chunk of a source may have its own report; ``merge`` joins them.
    """

    def __init__(self, source: str, first_line: int = 1, *, keeps_all: bool = False) -> None:
        self.source = source
        #: the number of the first line of the octets
        self.first_line = first_line
        #: whether every problem is kept, and not only the first ones of each kind
        self.keeps_all = keeps_all
        self._errors = _ProblemCount(self._most(MOST_KEPT))
        self._warnings = _ProblemCount(self._most(MOST_KEPT))
        #: entries that cannot be used, by reason, and lines that no rule can express, by kind
        self._left_out: dict[str, _ProblemCount] = {}
        self._kinds: dict[str, _ProblemCount] = {}
        #: those of them that are exceptions
        self._exceptions = _ProblemCount(self._most(MOST_KEPT))
        #: how many entries were skipped, each with a warning
        self._skipped = 0

    def _most(self, number: int) -> int:
        return sys.maxsize if self.keeps_all else number

    @property
    def errors(self) -> list[Problem]:
        """Why the source is not used."""
        return self._errors.all(self.source, "errors")

    @property
    def is_full(self) -> bool:
        """Whether further errors are only counted."""
        return self._errors.number >= MOST_KEPT

    @property
    def warnings(self) -> list[Problem]:
        """Entries that were left out, and other warnings."""
        problems = self._warnings.all(self.source, "warnings")
        for count in self._left_out.values():
            problems += count.first[:MOST_SHOWN]
        for why, count in self._left_out.items():
            if count.number > MOST_SHOWN:
                more, line = f"{count.number - MOST_SHOWN:,} more", count.first[MOST_SHOWN].line
                problems.append(Problem(self.source, line, more, f"left out: {why} (the last in line {count.last})"))
        for kind, count in self._kinds.items():
            number = f" (the first of {count.number:,})" if count.number > 1 else ""
            problems.append(count.first[0]._replace(why=f"left out: {kind}{number}"))
        return sorted(problems, key=_line)

    @property
    def refused(self) -> int:
        """How many entries are not used."""
        return self.left_out + self._skipped

    @property
    def left_out(self) -> int:
        """How many entries could not become rules."""
        return self.bad + sum(count.number for count in self._kinds.values())

    @property
    def bad(self) -> int:
        """How many entries are none of the format's."""
        return sum(count.number for count in self._left_out.values())

    @property
    def exceptions(self) -> tuple[int, list[Problem]]:
        """How many exceptions were left out, and the first of them."""
        return self._exceptions.number, self._exceptions.first

    def every(self) -> list[ListedProblem]:
        """Every problem that is kept, one by one, in the order of their lines."""
        excepted = {(problem.line, problem.what) for problem in self._exceptions.first}
        problems = [ListedProblem(problem, "error") for problem in self._errors.first]
        for problem in self._warnings.first:
            problems.append(ListedProblem(problem, "skipped" if problem.why.startswith("skipped:") else "warning"))
        for count in self._left_out.values():
            problems += (ListedProblem(problem, "unreadable") for problem in count.first)
        for count in self._kinds.values():
            for problem in count.first:
                kind = "exception" if (problem.line, problem.what) in excepted else "unsupported"
                problems.append(ListedProblem(problem._replace(why=f"left out: {problem.why}"), kind))
        return sorted(problems, key=lambda listed: listed.problem.line)

    def error(self, line: int, what: str, why: str) -> None:
        """Add an error: the source cannot be used."""
        self._errors.add(self.source, line, what, why)

    def warn(self, line: int, what: str, why: str) -> None:
        """Add a warning: the source can be used, but not quite as it is written."""
        self._warnings.add(self.source, line, what, why)

    def skip(self, line: int, what: str, why: str) -> None:
        """Add a warning: an entry is valid, but not used."""
        self.warn(line, what, f"skipped: {why}")
        self._skipped += 1

    def leave_out(self, line: int, what: str, why: str) -> None:
        """Add a warning: an entry of a third-party list cannot be used. Of many with one reason, the first are shown.

        >>> report = ProblemReport("f")
        >>> for line in range(1, 31): report.leave_out(line, "a b", "there is white space in it")
        >>> len(report.warnings), str(report.warnings[-1])
        (21, 'f:21: 10 more: left out: there is white space in it (the last in line 30)')
        """
        count = _by_reason(self._left_out, why, self._most(_MOST_OF_REASON))
        count.add(self.source, line, what, f"left out: {why}")

    def tally(self, line: int, what: str, kind: str) -> None:
        """Add one warning for all lines of a kind: they are understood, but no rule can express them.

        >>> report = ProblemReport("f")
        >>> for line in (3, 5, 8): report.tally(line, "##.ad", "a cosmetic filter")
        >>> print(*report.warnings)
        f:3: ##.ad: left out: a cosmetic filter (the first of 3)
        """
        _by_reason(self._kinds, kind, self._most(_MOST_OF_REASON)).add(self.source, line, what, kind)

    def tally_exception(self, line: int, what: str, kind: str) -> None:
        """The same for an exception: without it, filters stop what their author lets pass."""
        self.tally(line, what, kind)
        self._exceptions.add(self.source, line, what, kind)

    def merge(self, other: ProblemReport) -> None:
        """Add the report of the next chunk: the result is as if both chunks had been read as one.

        There is one exception: with very many reasons, others may be counted together as "other reasons".
        """
        if any(problem.why in (_IN_UTF_16, _IS_COMPRESSED, _IS_PAGE) for problem in self._errors.first):
            return  # the rest of the file is not read
        self._errors.merge(other._errors)
        self._warnings.merge(other._warnings)
        self._exceptions.merge(other._exceptions)
        for ours, theirs in ((self._left_out, other._left_out), (self._kinds, other._kinds)):
            for why, count in theirs.items():
                _by_reason(ours, why, count.most).merge(count)
        self._skipped += other._skipped

    def changed(self, gone: ProblemReport, came: ProblemReport, now: LineNow) -> ProblemReport | None:
        """The report after a change of lines; ``None`` if that cannot be told, so that all lines have to be read.

        ``gone`` and ``came`` keep all problems, of lines that are gone, and of new ones; ``now``: a line's number now.
        """
        after = ProblemReport(self.source, self.first_line, keeps_all=self.keeps_all)
        after._skipped = self._skipped - gone._skipped + came._skipped
        for name in _COUNTS:
            count = getattr(self, name).changed(getattr(gone, name), getattr(came, name), now)
            if count is None:
                return None
            setattr(after, name, count)
        for name in _BY_REASON:
            ours, theirs, new = (getattr(report, name) for report in (self, gone, came))
            reasons = {**ours, **new}
            if len(reasons) >= _MOST_REASONS:
                return None
            for why in reasons:
                before, old, fresh = (counts.get(why, _ProblemCount(_MOST_OF_REASON)) for counts in (ours, theirs, new))
                count = before.changed(old, fresh, now)
                if count is None:
                    return None
                if count.number:
                    getattr(after, name)[why] = count
        return after

    def renumbered(self, now: LineNow) -> ProblemReport:
        """The report, which keeps all problems, with other numbers of lines."""
        empty = ProblemReport(self.source)
        after = self.changed(empty, empty, now)
        assert after is not None, "a problem is not kept"
        return after

    def to_plain(self) -> dict[str, Any]:
        """What JSON can have of it."""
        counts = {name: vars(getattr(self, name)) for name in _COUNTS}
        by_reason = {name: {why: vars(count) for why, count in getattr(self, name).items()} for name in _BY_REASON}
        return {**vars(self), **counts, **by_reason}

    @classmethod
    def of_plain(cls, plain: dict[str, Any]) -> ProblemReport:
        """The reverse of ``to_plain``."""
        report = cls(plain["source"], plain["first_line"], keeps_all=plain["keeps_all"])
        report._skipped = plain["_skipped"]
        for name in _COUNTS:
            setattr(report, name, _ProblemCount(**plain[name]))
        for name in _BY_REASON:
            setattr(report, name, {why: _ProblemCount(**count) for why, count in plain[name].items()})
        return report


#: the fields of a report that are counts, and counts by a reason
_COUNTS, _BY_REASON = ("_errors", "_warnings", "_exceptions"), ("_left_out", "_kinds")


def reason_at(error: UrlError) -> str:
    """An error's reason, with its position as people count."""
    return error.reason if error.position is None else f"{error.reason} (at character {error.position + 1})"


def _shorten(what: str) -> str:
    what = str(without_user(what))
    return what if len(what) <= 120 else what[:117] + "..."


class ListDefaults(NamedTuple):
    """Default terms for the rules of a list, and how to read it; ``None`` where not given."""

    #: the list's ``hrn:`` name, and its title for people
    name: str | None = None
    title: str | None = None
    action: Action | None = None
    category: str | None = None
    reason: str | None = None
    #: how the list's author canonicalized hashed URIs: a key of ``hushlist.core.url.hashed_uri.VARIANTS``
    variant: str | None = None
    #: length of the hash prefixes of a binary list, in octets
    prefix_length: int | None = None
    #: whether a URL that is only a host and a fragment is a rule for the whole host: ``drop``; without it, for nothing
    fragments: str | None = None
    #: ``hosts``: all rules are for whole hosts, those that are hashes, too
    covers: str | None = None
    #: the fingerprint of the key that is given for sealed hashes; empty: none is; ``None``: they need not be found
    seal: str | None = None
    #: the policy's layer that names the list
    layer: str | None = None
    #: who has to confirm that a rule fits, as in ``Terms``
    confirmer: str | None = None
    #: of Adblock lists: the conditions in which the octets begin
    conditions: tuple[str, ...] = ()
    #: for whom its rules count, and when, as in ``Terms``
    scope: Scope | None = None
    #: the groups and the schedules that a rule may name; ``None``: any
    scope_names: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    def behind(self, other: ListDefaults) -> ListDefaults:
        """``other``, with its missing values taken from here."""
        return ListDefaults._make(theirs or mine for theirs, mine in zip(other, self, strict=True))

    def check_seal(self, line: int, fingerprint: str | None, report: ProblemReport) -> str:
        """The fingerprint that a list's head names in a line, with an error if another key is given; empty: none."""
        from hushlist.core.match.seal import FINGERPRINT  # most policies have no sealed list

        why = ""
        if fingerprint is None:
            why = "a key is given for the list, and it is not sealed" if self.seal else ""
        elif not FINGERPRINT.fullmatch(fingerprint):
            why = "expected the fingerprint of a key, 16 hexadecimal digits"
        elif self.seal is not None and self.seal != fingerprint:
            key = f"the key {self.seal} is given" if self.seal else "no key is given (in a policy: 'seal: FILE')"
            why = f"the list is sealed with the key {fingerprint}, and {key}"
        if why:
            report.error(line, "seal", why)
        return fingerprint or ""

    def terms(
        self,
        source: str,
        action: Action | None = None,
        category: str | None = None,
        reason: str | None = None,
        expires: date | None = None,
        values: tuple[tuple[str, str], ...] = (),
        scope: Scope | None = None,
    ) -> Terms:
        """A rule's own terms, completed by the defaults; the default action is ``block`` if the list has none."""
        return Terms(
            action=action or self.action or Action.BLOCK,
            list=self.name or PurePath(source).stem,
            source=source,
            category=category or self.category,
            reason=reason or self.reason,
            expires=expires,
            title=self.title,
            layer=self.layer or "",
            confirmer=self.confirmer or "",
            values=values,
            scope=scope or self.scope,
        )


def read_octets(path: Path, report: ProblemReport, longest: int = LONGEST_WHOLE) -> bytes | None:
    """A file's octets, at most ``longest``, or ``None`` with an error in the report."""
    try:
        return read_regular(path, longest)
    except (OSError, ValueError) as error:  # ValueError: no file can have that name
        report.error(0, path.name or str(path), reason_of(error))
        return None


def read_seal_key(path: Path) -> SealKey:
    """The key in a file that is private; ``SourceError``, which quotes nothing of it, if there is none."""
    from hushlist.core.match.seal import SealKey

    with source_errors(path, "seal"):
        return SealKey.parse(read_private(path, _LONGEST_KEY).decode("ascii", "replace"))


#: octets
_LONGEST_KEY = 1 << 12
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OTHER_ENCODINGS = (b"\xff\xfe", b"\xfe\xff")
#: text of US-ASCII in UTF-16 without a mark: every other octet of its begin is 0
_UTF_16 = re.compile(rb"(?:[\t\n\r -~]\0){4}|(?:\0[\t\n\r -~]){4}").match
_IN_UTF_16 = "the file is in UTF-16; lists are in UTF-8"
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ\x00": "xz",
    b"BZh91AY&SY": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_IS_COMPRESSED = "the file is compressed; unpack it first"
# An error page of a server or the log-in page of a network, in place of a list.
_PAGE = late_pattern(rb"\s*<[!?/A-Za-z]")
_IS_PAGE = "the file begins as a web page does (HTML), and is no list"
#: octets that are read at once; a block of at most LONGEST_LINE has no longer line
BLOCK = LONGEST_LINE // 2


#: what nobody sees, and editors and joined files leave: a byte order mark (U+FEFF) and U+200B
_MARKS = (_BYTE_ORDER_MARK, b"\xe2\x80\x8b")
_LEADING_MARKS = late_pattern(rb"^(?:\xef\xbb\xbf|\xe2\x80\x8b)+", re.MULTILINE)
#: comments in a line: of most formats; of documents, where "#" may stand in a text
COMMENTS = re.compile(rb"(?:^|(?<=\s))#.*", re.DOTALL)
WHOLE_COMMENT = re.compile(rb"^\s*#.*", re.DOTALL)


def blocks(octets: bytes, report: ProblemReport) -> Iterator[tuple[int, bytes]]:
    """``(number of the first line, octets)`` of blocks of whole lines, without the LF between them.

    Skips byte order marks, and U+200B, in front of lines.
    """
    number = report.first_line
    start = 0
    if number == 1:
        if octets.startswith(_OTHER_ENCODINGS) or _UTF_16(octets):
            what = "text" if _UTF_16(octets) else "byte order mark"
            report.error(1, what, _IN_UTF_16)
            return
        if kind := next((name for begin, name in _COMPRESSED.items() if octets.startswith(begin)), None):
            report.error(1, kind, _IS_COMPRESSED)
            return
        start = len(_BYTE_ORDER_MARK) if octets.startswith(_BYTE_ORDER_MARK) else 0
        if page := _PAGE.match(octets, start):
            begin = octets[page.end() - 2 : page.end() + 40].partition(b"\n")[0].decode(errors="replace")
            report.error(1 + octets.count(b"\n", 0, page.end()), begin.strip(), _IS_PAGE)
            return
    while start <= len(octets):
        end = octets.find(b"\n", start + BLOCK)
        end = len(octets) if end < 0 else end
        block = octets[start:end]
        if any(mark in block for mark in _MARKS):
            block = _LEADING_MARKS.sub(b"", block)
        yield number, block
        number += block.count(b"\n") + 1
        start = end + 1


def numbered_lines(
    octets: bytes, report: ProblemReport, *, is_foreign: bool = False, comments: re.Pattern[bytes] = COMMENTS
) -> Iterator[tuple[int, str]]:
    """``(line number, text)`` of every line that can be read; the report has an error for each other line.

    In a third-party list it has a warning instead, and byte order marks and U+200B are skipped anywhere. LF or CRLF
    ends a line. What is not UTF-8 in a comment is left out with that.
    """
    for first, block in blocks(octets, report):
        yield from block_lines(block, first, report, is_foreign=is_foreign, comments=comments)


def block_lines(
    block: bytes, first: int, report: ProblemReport, *, is_foreign: bool, comments: re.Pattern[bytes] = COMMENTS
) -> Iterable[tuple[int, str]]:
    """``numbered_lines`` of one block; line by line only if one of them may be too long or is not UTF-8."""
    if is_foreign and any(mark in block for mark in _MARKS):
        for mark in _MARKS:
            block = block.replace(mark, b"")
    with suppress(UnicodeDecodeError):
        if len(block) <= LONGEST_LINE:
            # not "splitlines", which splits at other characters, too
            return enumerate(block.decode().removesuffix("\r").replace("\r\n", "\n").split("\n"), first)
    comments = comments if is_foreign else WHOLE_COMMENT
    return _lines_one_by_one(block, first, report, is_foreign=is_foreign, comments=comments)


def _lines_one_by_one(
    block: bytes, first: int, report: ProblemReport, *, is_foreign: bool, comments: re.Pattern[bytes]
) -> Iterator[tuple[int, str]]:
    """Each line that can be read; the others go into the report."""
    refuse = report.leave_out if is_foreign else report.error
    for number, line in enumerate(block.split(b"\n"), first):
        if len(line) > LONGEST_LINE:
            refuse(number, "line", f"it is longer than {LONGEST_LINE} octets")
            continue
        try:
            yield number, line.removesuffix(b"\r").decode()
            continue
        except UnicodeDecodeError as error:
            fault = error
        try:
            yield number, comments.sub(b"", line).removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            # entries that are left out are counted by their reason, so it names no place
            place = "" if is_foreign else f" (at octet {fault.start})"
            refuse(number, repr(fault.object[fault.start : fault.end]), f"not UTF-8{place}")


def entries(octets: bytes, report: ProblemReport, *, is_foreign: bool = False) -> Iterator[tuple[int, str]]:
    """Lines without comments ("#" at the start of a line or after white space) and without empty lines."""
    return _entries(numbered_lines(octets, report, is_foreign=is_foreign))


def block_entries(
    block: bytes, first: int, report: ProblemReport, comments: re.Pattern[bytes] = COMMENTS
) -> Iterator[tuple[int, str]]:
    """Like ``entries``, for a block of a third-party list."""
    return _entries(block_lines(block, first, report, is_foreign=True, comments=comments))


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
