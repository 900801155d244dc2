"""The format of a list by its content: where the file's name does not tell it, and of Adblock lists their language.

Formats whose entries can do more than block are never told so: a list in YAML may allow what it wants.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hushlist.core.extension import load
from hushlist.core.lists.list_formats import FORMATS, format_named
from hushlist.core.lists.list_source import ListDefaults, ProblemReport, blocks
from hushlist.core.lists.patterns import is_sinkhole
from hushlist.core.match.rule import Rule
from hushlist.core.system.files import open_regular

#: octets from which a format is told
HEAD = 1 << 16
#: formats that take the entries of the others, which are names and addresses
_WIDER = ("urls", "domains", "addresses")
_COMMENT = re.compile(r"\s*(?:#(?:[\s#].*)?|;.*)?")


@cache
def _entries() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Formats and their entries; the first that fits an entry is counted, and wider ones come last."""
    names = [name for name, form in FORMATS.items() if form.entry]
    ordered = sorted(names, key=lambda name: name in ("urls", "domains"))
    return tuple((name, re.compile(FORMATS[name].entry)) for name in ordered)


@cache
def _heads() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(form.head)) for name, form in FORMATS.items() if form.head)


class Detected(NamedTuple):
    """The format that a file's content tells, or ``None``; and why that is not sure, for people."""

    form: str | None
    doubt: str = ""


def detect_format(path: Path, form: str | None = None) -> Detected:
    """The format of a file: that which its content tells, or which of the Adblock formats a given one is.

    Raises:
        OSError: the file cannot be read.
        ValueError: no file can have that name.
    """
    with open_regular(path) as file:
        octets = file.read(HEAD)
    whole = octets if len(octets) < HEAD else octets[: octets.rfind(b"\n") + 1]
    text = whole.decode(errors="replace").replace("\ufeff", "").replace("\u200b", "")
    if form is None:
        form = format_of_text(text, is_whole=len(octets) < HEAD)
    dialect = "" if form is None else format_named(form).dialect
    return Detected(*load(dialect)(text, form)) if dialect else Detected(form)


def read_untold(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """No rule of a list whose format nothing tells, but why, in the report."""
    next(blocks(octets, report), None)  # says what else it is, such as a web page
    if not report.errors:
        why = f"neither its name nor its content tells its format: give one of {', '.join(FORMATS)}"
        report.error(0, "list", why)
    yield from ()


def format_of_text(text: str, *, is_whole: bool = False) -> str | None:
    """The format of a list's first lines, or ``None`` if no format fits nine of ten entries.

    A whole list without an entry is one of domains, of which there are none.

    >>> format_of_text("# x\\n0 a.example\\n"), format_of_text("a.example\\nb.example/x\\n"), format_of_text("a b c")
    ('hosts', 'urls', None)
    """
    if "\0" in text:
        return None
    if (headed := next((name for name, head in _heads() if head.match(text)), None)) is not None:
        return headed
    lines = (line.strip() for line in text.splitlines() if not _COMMENT.fullmatch(line))
    counts = Counter(map(_format_of_entry, lines))
    if not counts and is_whole:
        return "domains"
    total = counts.total()
    wide = sum(counts[form] for form in _WIDER)
    found, number = counts.most_common(1)[0] if counts else (None, 0)
    if found in _WIDER:
        found, number = next(form for form in _WIDER if counts[form]), wide
    return found if number * 10 >= total * 9 else None


def _format_of_entry(line: str) -> str | None:
    entry = line.partition(" #")[0].rstrip()
    address, *names = entry.split(maxsplit=2)
    if names and names[0] != "-" and (address == "0" or is_sinkhole(address) is not None):
        return "hosts"
    return next((form for form, pattern in _entries() if pattern.fullmatch(entry)), None)
