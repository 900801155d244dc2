"""The format of a list by its content: where the file's name does not tell it, and of Adblock lists their language.

Each format says how many entries of the first lines it can read, and how many it would lose; the one that loses least
is taken. Formats whose entries can do more than block are never told so: a list in YAML may allow what it wants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from os import SEEK_END
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple

from hushlist.core.extension import Extension, ListFormat, load, usable_extensions
from hushlist.core.lists.list_formats import FORMATS, format_named, list_formats, unnamed_reader
from hushlist.core.lists.list_source import ListDefaults, ProblemReport, blocks
from hushlist.core.lists.packed_lists import open_list
from hushlist.core.match.rule import Rule, RuleBlock

#: octets from which a format is told
HEAD = 1 << 16
#: octets of each later piece of a longer file
_PIECE = 1 << 14
#: of so many entries, one may be lost
_LOST = 10
_COMMENT = re.compile(r"\s*(?:#(?:[\s#].*)?|;.*|//(?:\s.*)?)?")
_UNTOLD = "neither its name nor its content tells its format: give one of {}"
_EQUAL = "its content may be of the formats {}, which lose the same of it: give one of them"


class Sample:
    """The first lines of a list."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def entries(self) -> list[str]:
        """Its lines without comments."""
        lines = (line.strip() for line in self.text.splitlines() if not _COMMENT.fullmatch(line))
        return [line.partition(" #")[0].rstrip() for line in lines]

    @property
    def number(self) -> int:
        """How many entries it has."""
        return len(self.entries)


class Count(NamedTuple):
    """How many entries of a sample a format can read."""

    #: that tell the format
    telling: int
    #: that another format can have, too
    others: int
    lost: int

    @property
    def is_likely(self) -> bool:
        """Whether the list may be in the format."""
        return self.telling > 0 and self.lost * _LOST <= self.telling + self.others + self.lost


class Detected(NamedTuple):
    """The format that a file's content tells, or ``None``; and why that is not sure, for people."""

    form: str | None
    doubt: str = ""


def detect_format(path: Path, form: str | None = None, foreign: Iterable[Extension] = ()) -> Detected:
    """The format of a file: that which its content tells, or which of the Adblock formats a given one is.

    ``foreign``: extensions of other packages whose formats it may have.

    Raises:
        OSError: the file cannot be read.
        ValueError: no file can have that name.
    """
    with open_list(path) as file:
        octets = file.read(HEAD)
        if form is None and len(octets) == HEAD:
            octets = octets[: octets.rfind(b"\n") + 1] + b"".join(_later_pieces(file))
    if form is None:
        return format_of(octets, foreign, is_whole=len(octets) < HEAD)
    return _dialect(_text_of(octets), form)


def _later_pieces(file: BinaryIO) -> Iterator[bytes]:
    """Whole lines from the middle and the end of a longer file: what is there may be of another format."""
    size = file.seek(0, SEEK_END)
    for place in ((HEAD + size - _PIECE) // 2, size - _PIECE):
        if place >= HEAD:
            file.seek(place)
            _, _, lines = file.read(_PIECE).partition(b"\n")
            yield lines[: lines.rfind(b"\n") + 1]


def read_untold(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """No rule of a list whose format nothing tells, but why, in the report."""
    next(blocks(octets, report), None)  # says what else it is, such as a web page
    if not report.errors:
        report.error(0, "list", unnamed_reader(PurePath(report.source)) or _why_untold(octets))
    yield from ()


def _why_untold(octets: bytes) -> str:
    installed = usable_extensions()
    detected = format_of(octets[:HEAD], installed, is_whole=len(octets) < HEAD)
    if reader := next((each.name for each in installed if detected.form in each.list_formats), None):
        return f"the installed extension {reader} reads its format, {detected.form}: add it to 'extensions'"
    return detected.doubt


def _text_of(octets: bytes) -> str:
    """The text of whole lines."""
    text = octets.decode(errors="replace").replace("\r\n", "\n")
    return text.replace("\ufeff", "").replace("\u200b", "")


def format_of(octets: bytes, foreign: Iterable[Extension] = (), *, is_whole: bool = True) -> Detected:
    """The format of a list by its first octets; without one, why none is told.

    A whole list without an entry is one of domains, of which there are none. ``foreign`` is as in ``detect_format``.

    >>> format_of(b"# x\\n0 a.example\\n").form, format_of(b"a.example\\nb.example/x\\n").form, format_of(b"a b c").form
    ('hosts', 'urls', None)
    """
    formats = list_formats(foreign) | FORMATS
    untold = Detected(None, _UNTOLD.format(", ".join(formats)))
    cut = octets if is_whole else octets[: octets.rfind(b"\n") + 1] or octets
    sample = Sample(_text_of(cut))
    if "\0" in sample.text:
        return untold
    counts = {name: count for name, form in formats.items() if (count := _count(sample, form)).is_likely}
    if not counts:
        return Detected("domains") if is_whole and not sample.number else untold
    dialects = {name: _dialect(sample.text, name) for name in counts}
    # who reads a list says best what is lost of it
    losses = {name: _lost(cut, format_named(dialects[name].form or name)) if len(counts) > 1 else 0 for name in counts}
    least = min(losses.values())
    best = [name for name in counts if losses[name] == least]
    best = [name for name in best if not set(formats[name].also) & set(best)]
    most = max(counts[name].telling for name in best)
    best = [name for name in best if counts[name].telling == most]
    return dialects[best[0]] if len(best) == 1 else Detected(None, _EQUAL.format(" and ".join(best)))


def _count(sample: Sample, form: ListFormat) -> Count:
    counted: Count = load(form.counter)(sample, form) if form.counter else count_entries(sample, form)
    return counted


def count_entries(sample: Sample, form: ListFormat) -> Count:
    """The entries that fit the format's expression, and those of the formats that it takes, too; with its head, all."""
    if form.head and _compiled(form.head).match(sample.text):
        return Count(max(sample.number, 1), 0, 0)
    if not form.entry:
        return Count(0, 0, sample.number)
    foreign = [entry for entry in sample.entries if not _compiled(form.entry).fullmatch(entry)]
    also = [_compiled(format_named(name).entry) for name in form.also]
    lost = sum(1 for entry in foreign if not any(other.fullmatch(entry) for other in also))
    return Count(sample.number - len(foreign), len(foreign) - lost, lost)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _dialect(text: str, form: str) -> Detected:
    """Which of the Adblock formats a format is, by a list's first lines."""
    dialect = format_named(form).dialect
    return Detected(*load(dialect)(text, form)) if dialect else Detected(form)


def _lost(octets: bytes, form: ListFormat) -> float:
    """How many entries are lost by the format's reader; without limit if it makes no rule."""
    report = ProblemReport("")
    rules = sum(
        len(block.expressions) if isinstance(block, RuleBlock) else 1
        for block in form.read_blocks(octets, ListDefaults(), report)
    )
    return report.refused if rules else float("inf")
