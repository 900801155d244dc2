r"""Dictionaries, the hashes that a search looks for, and the guesses that it tries.

A dictionary has names and URLs. It is streamed from a file of any size, with or without gzip. If the file's name shows
the format of a list, it is read as such a list; YAML and RPZ are read as a whole. Every other file is a text with names
or URLs in its lines.

>>> list(entries_of(Block("top.csv", None, 1, b"rank,domain\n1,a.example\n2,b.example\n", 0)))
[b'a.example', b'b.example']

Hashes are grouped by what is hashed, and how. Guesses are the strings that an author may have hashed for a name or URL.
For a name: the host, "www." in front of it, and its parent domains. For a URL: also all its expressions, or, for hashed
URIs, the URL and its site, in both schemes, with and without a slash at the end.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from io import BufferedReader, FileIO
from pathlib import Path
from typing import NamedTuple

from hushlist.core.errors import UrlError
from hushlist.core.extension import usable_extensions
from hushlist.core.lists.list_formats import files_of_folder, format_named, list_format_of
from hushlist.core.lists.list_source import LONGEST_LINE, ListDefaults, ProblemReport
from hushlist.core.lists.patterns import is_sinkhole
from hushlist.core.match.expressions import expressions, host_suffixes
from hushlist.core.match.rule import Expression, ExpressionHash, Rule
from hushlist.core.match.seal import SealKey
from hushlist.core.match.sorted_runs import Stored, unspill
from hushlist.core.system.files import open_regular, read_whole
from hushlist.core.url import safebrowsing
from hushlist.core.url.hashed_uri import ALGORITHMS, HashedUri, HashKey, matching_strings, sent_string
from hushlist.core.url.host import is_address, is_plain_name
from hushlist.core.url.parts import Parts, split_generic

# -- dictionaries ------------------------------------------------------------------------------------------------------

#: means standard input
STDIN = Path("-")
#: octets of a dictionary in one chunk
BLOCK = 1 << 19
_GZIP = b"\x1f\x8b"
#: the other columns of a table are not names; it is read as a text, since its lines are short enough
_TEXT = "csv"


class Block(NamedTuple):
    """A chunk of a dictionary."""

    source: str
    #: the name of a format; ``None``: a text
    form: str | None
    first_line: int
    octets: bytes
    #: octets of the file, still compressed, that were read up to the chunk's end
    done: int


def dictionaries(paths: list[Path]) -> Iterator[Path]:
    """The files to read; for a squidGuard folder, its files."""
    for path in paths:
        if path.is_dir():
            named = files_of_folder(path, "squidguard", Path.exists)
            yield from (file for file, _ in named if not file.name.startswith("expressions"))
        else:
            yield path


def blocks_of(path: Path) -> Iterator[Block]:
    """The chunks of a file.

    Raises:
        OSError: it cannot be read or decompressed.
        EOFError: it ends too early.
        zlib.error: its compressed data is broken.
    """
    name = Path(path.name.removesuffix(".gz"))
    form = list_format_of(name) or list_format_of(name, usable_extensions())
    form = None if form == _TEXT else form
    with _opened(path) as raw:
        octets = gzip.GzipFile(fileobj=raw) if raw.peek(len(_GZIP)).startswith(_GZIP) else raw
        if form is not None and not format_named(form).is_by_line:
            yield Block(str(path), form, 1, read_whole(octets, format_named(form).longest, path), size_of(path))
            return
        line = 1
        while block := octets.read(BLOCK):
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
    for rule in format_named(block.form).read(block.octets, ListDefaults(), report):
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


# -- hashes ------------------------------------------------------------------------------------------------------------


class TargetKind(NamedTuple):
    """A group of hashes that can be compared with each other."""

    #: octets of a digest in the list
    octets: int
    #: ``None`` for expressions, which are hashed by SHA-256
    uri: HashKey | None = None
    #: the fingerprint of the key with which they are sealed
    seal: str = ""

    def __str__(self) -> str:
        if self.uri is None:
            return f"{'sealed with ' + self.seal if self.seal else 'sha256'}, {self.octets} octets"
        flags = "+frag" * self.uri.fragment + "+query" * self.uri.query
        return f"hashed:{self.uri.algorithm}{flags}, variant {self.uri.variant}"


@dataclass(slots=True)
class Targets:
    """The hashes of one list; their number decides the memory."""

    #: digest -> the line of its first rule; results number the tables in this order
    lines: dict[TargetKind, dict[bytes, int]] = field(default_factory=dict)
    #: rules in the clear
    clear: int = 0

    @property
    def sets(self) -> tuple[tuple[TargetKind, frozenset[bytes]], ...]:
        """The data that a search needs."""
        return tuple((table, frozenset(lines)) for table, lines in self.lines.items())

    def add(self, rules: Iterable[Rule]) -> None:
        for pattern, _, line in rules:
            if isinstance(pattern, ExpressionHash):
                kind = TargetKind(len(pattern.value), seal=pattern.seal)
                self.lines.setdefault(kind, {}).setdefault(pattern.value, line)
            elif isinstance(pattern, HashedUri):
                self.lines.setdefault(TargetKind(len(pattern.digest), pattern.key), {}).setdefault(pattern.digest, line)
            else:
                self.clear += 1


_Sets = tuple[tuple[TargetKind, frozenset[bytes]], ...]


class TriedBlock(NamedTuple):
    entries: int
    #: different strings that were hashed: expressions, URIs
    expressions: int
    uris: int
    #: number of the table, digest as in the list, hashed text
    hits: list[tuple[int, bytes, bytes]]


#: the hashes in a file; they are loaded once in each process
_load: Callable[[Stored], _Sets] = lru_cache(maxsize=1)(unspill)


def try_block(block: Block, hashes: Stored, seal_key: SealKey | None = None) -> TriedBlock:
    """Hash all guesses of a chunk, and compare with the stored ``Targets.sets``; without its key, sealed ones, too."""
    sets = _load(hashes)
    prefixes = [(number, table.octets, digests) for number, (table, digests) in enumerate(sets) if table.uri is None]
    name = None if seal_key is None else seal_key.fingerprint
    sealed = {number for number, (table, _) in enumerate(sets) if table.seal == name}
    seal = seal_key.sealer() if seal_key is not None and sealed else None
    uris = [(number, table.uri, digests) for number, (table, digests) in enumerate(sets) if table.uri is not None]
    names: set[bytes] = set()
    urls: list[bytes] = []
    entries = 0
    for entry in entries_of(block):
        entries += 1
        if is_plain_name(entry):
            _add_hosts(entry, names)
        else:
            urls.append(entry)
    hits: list[tuple[int, bytes, bytes]] = []
    tried = {name + b"/" for name in names} if prefixes else set()
    if prefixes:
        for url in urls:
            tried.update(_expressions(url))
        for text in tried:
            plain, keyed = sha256(text).digest(), seal(text) if seal else b""
            for number, octets, digests in prefixes:
                digest = keyed if number in sealed else plain
                if digest[:octets] in digests:
                    hits.append((number, digest[:octets], text))
    hashed = 0
    strings: dict[tuple[str, bool, bool], set[bytes]] = {}
    for number, key, digests in uris:
        how = key.variant, key.query, key.fragment
        if how not in strings:  # the same for every algorithm
            strings[how] = {*_of_names(names, key), *(string for url in urls for string in _of_url(url, key))}
            hashed += len(strings[how])
        digest_of = ALGORITHMS[key.algorithm]
        for text in strings[how]:
            digest = digest_of(text)
            if digest in digests:
                hits.append((number, digest, text))
    return TriedBlock(entries, len(tried), hashed, hits)


# -- guesses for names -------------------------------------------------------------------------------------------------

_WWW = b"www."


def _add_hosts(name: bytes, names: set[bytes]) -> None:
    """Add a host, and hosts that a list may have instead of it.

    >>> names = set()
    >>> _add_hosts(b"shop.site.example", names)
    >>> sorted(names)
    [b'shop.site.example', b'site.example', b'www.shop.site.example', b'www.site.example']
    """
    for suffix in host_suffixes(name):
        if suffix in names:  # then its parents are there, too
            return
        names.add(suffix)
        if not suffix.startswith(_WWW):
            names.add(_WWW + suffix)


def _of_names(names: Iterable[bytes], key: HashKey) -> Iterator[bytes]:
    """The strings that are hashed for whole hosts, which have neither query nor fragment."""
    if key.query or key.fragment:
        return
    for name in names:
        for end in (b"", b"/"):
            yield b"http://" + name + end
            yield b"https://" + name + end


# -- guesses for URLs --------------------------------------------------------------------------------------------------


def _expressions(url: bytes) -> Iterator[bytes]:
    try:
        parts = safebrowsing.SAFEBROWSING.apply(safebrowsing.parse(url))
    except UrlError:
        return
    for host in _both(parts.host):
        yield from expressions(parts._replace(host=host))


def _both(host: bytes | None) -> Iterator[bytes]:
    """A host with and without "www."."""
    if host:
        yield host
        if not is_address(host):
            yield host.removeprefix(_WWW) if host.startswith(_WWW) else _WWW + host


def _of_url(url: bytes, key: HashKey) -> Iterator[bytes]:
    """The strings that are hashed for a URL, and for its site."""
    try:
        parts = split_generic(url if b"://" in url else b"http://" + url)
    except UrlError:
        return
    for host in _both(parts.host):
        nobody = parts._replace(userinfo=None)
        for variant in {parts, nobody, nobody._replace(port=None)}:
            for scheme in (b"http", b"https"):
                for form in _ends(variant._replace(scheme=scheme, host=host)):
                    if (string := sent_string(form, key)) is not None:
                        yield string
                    try:
                        yield from matching_strings((form,), (key.kind,))[0]
                    except UrlError:
                        continue


def _ends(parts: Parts) -> Iterator[Parts]:
    """A URL, the same with or without a slash at the end, and its site."""
    yield parts
    if len(parts.path) > 1:
        path = parts.path.removesuffix(b"/") if parts.path.endswith(b"/") else parts.path + b"/"
        yield parts._replace(path=path)
        yield parts._replace(path=b"/", query=None, fragment=None)
