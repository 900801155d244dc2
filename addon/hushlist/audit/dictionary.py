r"""Dictionaries: the names and URLs that a search tries, streamed from files of any size, compressed by gzip or not.

>>> list(entries_of(Block("top.csv", None, 1, b"rank,domain\n1,a.example\n2,b.example\n", 0)))
[b'a.example', b'b.example']

A file whose name tells the format of a list is read as that, one in YAML or RPZ as a whole. Every other is a text with
names or URLs in its lines.
"""

from __future__ import annotations

import errno
import gzip
import re
import sys
from collections.abc import Iterator
from io import BufferedReader, FileIO
from pathlib import Path
from typing import NamedTuple

from hushlist.lists.foreign import is_sinkhole
from hushlist.lists.formats import FOLDERS, FORMATS, format_of
from hushlist.lists.source import LONGEST_LINE, Defaults, Report
from hushlist.match.rule import Expression
from hushlist.url.host import is_plain_name

#: stands for standard input
STDIN = Path("-")
#: octets of a dictionary that one process reads at a time
_BLOCK = 1 << 19
#: octets of one that is read as a whole
_LONGEST = 1 << 28
_GZIP = b"\x1f\x8b"
#: a table's other columns are no names; it is read as a text, since its lines are not too long for that
_TEXT = "csv"


class Block(NamedTuple):
    """A piece of a dictionary."""

    source: str
    #: a key of FORMATS; ``None``: a text
    form: str | None
    first_line: int
    octets: bytes
    #: octets of the file, compressed as they are, that were read when this was
    done: int


def dictionaries(paths: list[Path]) -> Iterator[Path]:
    """The files that are meant; for a squidGuard folder, those in it."""
    for path in paths:
        if path.is_dir():
            named = (path / name for name in FOLDERS["squidguard"] if name != "expressions")
            yield from (file for file in named if file.exists())
        else:
            yield path


def blocks_of(path: Path) -> Iterator[Block]:
    """The pieces of a file.

    Raises:
        OSError: it cannot be read, or not unpacked.
        EOFError: it ends too soon.
        zlib.error: what is packed in it is broken.
    """
    form = format_of(Path(path.name.removesuffix(".gz")))
    form = None if form == _TEXT else form
    with BufferedReader(FileIO(sys.stdin.fileno() if path == STDIN else path, closefd=path != STDIN)) as raw:
        octets = gzip.GzipFile(fileobj=raw) if raw.peek(len(_GZIP)).startswith(_GZIP) else raw
        if form is not None and not FORMATS[form].is_by_line:
            whole = octets.read(_LONGEST + 1)
            if len(whole) > _LONGEST:
                raise OSError(errno.EFBIG, f"it is read as a whole, and longer than {_LONGEST:,} octets", str(path))
            yield Block(str(path), form, 1, whole, size_of(path))
            return
        line = 1
        while block := octets.read(_BLOCK):
            block += octets.readline(LONGEST_LINE)
            yield Block(str(path), form, line, block, raw.tell() if raw.seekable() else 0)
            line += block.count(b"\n")


def size_of(path: Path) -> int:
    """Octets of a file; 0 where it has no size."""
    return 0 if path == STDIN else path.stat().st_size


_COMMENT = re.compile(rb"(?:^|\s)#.*", re.DOTALL)
_BETWEEN = re.compile(rb"[\s\"',;|<>]+")
#: what shows that there is more in a line than a URL
_MORE = re.compile(rb"[\s\"]|,https?://")
_RANK = re.compile(rb"^\"?[0-9]+\"?,")


def entries_of(block: Block) -> Iterator[bytes]:
    """Names and URLs, as they are written, with or without a scheme."""
    if block.form is None:
        for line in block.octets.split(b"\n"):
            word = line.strip()
            if is_plain_name(word):
                yield word
            elif word:
                yield from _words(_RANK.sub(b"", _COMMENT.sub(b"", word), count=1))
        return
    report = Report(block.source, first_line=block.first_line)
    for rule in FORMATS[block.form].read(block.octets, Defaults(), report):
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
