"""What the table says of a parser, and what its entries share."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hushlist.core.errors import HushlistError, Problem
from hushlist.core.lists.list_source import ProblemReport

ROOT = Path(__file__).parents[3]
NOON = datetime(2026, 12, 24, 12, tzinfo=UTC)
#: of tokens and codes
KEY = b"k" * 32

Read = Callable[[bytes], object]


@dataclass(frozen=True)
class Parser:
    """One of them."""

    #: reads octets to their end, and looks at all that comes of it
    read: Read
    #: real ones, most of which it reads
    samples: Callable[[], Iterable[bytes]]
    #: what it raises where it refuses them
    errors: tuple[type[Exception], ...] = (HushlistError,)
    #: what makes long texts of its kind, besides what all are tried with
    units: tuple[bytes, ...] = ()


def put(
    table: dict[str, Parser],
    name: str,
    *samples: bytes | str,
    errors: type[Exception] = HushlistError,
    units: Iterable[bytes] = (),
) -> Callable[[Read], Read]:
    """A decorator that puts a parser with these samples into a table."""
    octets = [sample if isinstance(sample, bytes) else sample.encode() for sample in samples]

    def decorate(read: Read) -> Read:
        table[name] = Parser(read, lambda: octets, (errors, HushlistError), tuple(units))
        return read

    return decorate


def text_of(octets: bytes) -> str:
    """As text arrives from outside: what is no UTF-8 stays as surrogates."""
    return octets.decode("utf-8", "surrogateescape")


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def scratch_file() -> Path:
    """A file in a folder of this process's own, which goes when the process ends."""
    if not _FOLDERS:
        _FOLDERS.append(tempfile.TemporaryDirectory(prefix="hushlist-fuzz-"))
    return Path(_FOLDERS[0].name) / "scratch"


def check_problems(report: ProblemReport, octets: bytes) -> None:
    """Every problem stands in a line that there is, or names a value of a JSON text of one line, and can be printed."""
    is_one_line = b"\n" not in octets.strip()
    last = octets.count(b"\n") + 1 + (octets.count(b'"') if is_one_line else 0)
    for problem in (*report.errors, *report.warnings):
        assert isinstance(problem, Problem)
        assert 0 <= problem.line <= last
        assert str(problem).encode("utf-8", "backslashreplace")
