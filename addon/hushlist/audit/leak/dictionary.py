r"""Dictionaries: names and URLs to try, streamed from files of any size, with or without gzip.

>>> list(entries_of(Block("top.csv", None, 1, b"rank,domain\n1,a.example\n2,b.example\n", 0)))
[b'a.example', b'b.example']

If a file's name shows the format of a list, it is read as such a list; YAML and RPZ are read as a whole. Every other
file is a text with names or URLs in its lines.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterator
from io import BufferedReader, FileIO
from pathlib import Path
from typing import NamedTuple

from hushlist.lists.list_formats import FOLDERS, FORMATS, list_format_of
from hushlist.lists.list_source import LONGEST_LINE, ListDefaults, ProblemReport
from hushlist.lists.patterns import is_sinkhole
from hushlist.match.rule import Expression
from hushlist.system.files import open_regular, read_whole
from hushlist.url.host import is_plain_name

#: means standard input
STDIN = Path("-")
#: octets of a dictionary in one chunk
_BLOCK = 1 << 19
_GZIP = b"\x1f\x8b"
#: the other columns of a table are not names; it is read as a text, since its lines are short enough
_TEXT = "csv"


class Block(NamedTuple):
    """A chunk of a dictionary."""

    source: str
    #: a key of FORMATS; ``None``: a text
    form: str | None
    first_line: int
    octets: bytes
    #: octets of the file, still compressed, that were read up to the chunk's end
    done: int


def dictionaries(paths: list[Path]) -> Iterator[Path]:
    """The files to read; for a squidGuard folder, its files."""
    for path in paths:
        if path.is_dir():
            named = (path / name for name in FOLDERS["squidguard"] if name != "expressions")
            yield from (file for file in named if file.exists())
        else:
            yield path


def blocks_of(path: Path) -> Iterator[Block]:
    """The chunks of a file.

    Raises:
        OSError: it cannot be read or decompressed.
        EOFError: it ends too early.
        zlib.error: its compressed data is broken.
    """
    form = list_format_of(Path(path.name.removesuffix(".gz")))
    form = None if form == _TEXT else form
    with _opened(path) as raw:
        octets = gzip.GzipFile(fileobj=raw) if raw.peek(len(_GZIP)).startswith(_GZIP) else raw
        if form is not None and not FORMATS[form].is_by_line:
            yield Block(str(path), form, 1, read_whole(octets, FORMATS[form].longest, path), size_of(path))
            return
        line = 1
        while block := octets.read(_BLOCK):
            block += octets.readline(LONGEST_LINE)
            yield Block(str(path), form, line, block, raw.tell() if raw.seekable() else 0)
            line += block.count(b"\n")


def _opened(path: Path) -> BufferedReader:
    return BufferedReader(FileIO(sys.stdin.fileno(), closefd=False)) if path == STDIN else open_regular(path)


def size_of(path: Path) -> int:
    """Octets of a file; 0 if it has no size."""
    return 0 if path == STDIN else path.stat().st_size


_COMMENT = re.compile(rb"(?:^|\s)#.*", re.DOTALL)
_BETWEEN = re.compile(rb"[\s\"',;|<>]+")
#: a sign that a line has more than a URL
_MORE = re.compile(rb"[\s\"]|,https?://")
_RANK = re.compile(rb"^\"?[0-9]+\"?,")


def entries_of(block: Block) -> Iterator[bytes]:
    """Names and URLs as written, with or without a scheme."""
    if block.form is None:
        for line in block.octets.split(b"\n"):
            word = line.strip()
            if is_plain_name(word):
                yield word
            elif word:
                yield from _words(_RANK.sub(b"", _COMMENT.sub(b"", word), count=1))
        return
    report = ProblemReport(block.source, first_line=block.first_line)
    for rule in FORMATS[block.form].read(block.octets, ListDefaults(), report):
        if isinstance(rule.pattern, Expression):
            yield rule.pattern.value.removesuffix(b"/") if rule.pattern.value.count(b"/") == 1 else rule.pattern.value


def _words(text: bytes) -> Iterator[bytes]:
    """The words of a line that may be names or URLs; a URL may have commas in it."""
    if (
        b" " not in text
        and b"\t" not in text
        and b'"' not in text
        and text.count(b"://") == 1
        and not text.find(b"http")
    ):
        yield text
        return
    for word in _BETWEEN.split(text):
        if b"." in word and not is_sinkhole(word.decode(errors="replace")):
            yield word
