"""The hashes that a search looks for, and the guesses that it tries.

Hashes are grouped by what is hashed, and how. Guesses are the strings that an author may have hashed for a name or URL.

For a name: the host, "www." in front of it, and its parent domains. For a URL: also all its expressions, or, for hashed
URIs, the URL and its site, in both schemes, with and without a slash at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from hushlist.audit.leak.dictionary import Block, entries_of
from hushlist.errors import UrlError
from hushlist.match.expressions import expressions, host_suffixes
from hushlist.match.index_writer import Stored, unspill
from hushlist.match.rule import ExpressionHash, Rule
from hushlist.url import safebrowsing
from hushlist.url.hashed_uri import ALGORITHMS, HashedUri, HashKey, matching_strings
from hushlist.url.host import is_address, is_plain_name
from hushlist.url.parts import Parts, split_generic


class TargetKind(NamedTuple):
    """A group of hashes that can be compared with each other."""

    #: octets of a digest in the list
    octets: int
    #: ``None`` for expressions, which are hashed by SHA-256
    uri: HashKey | None = None

    def __str__(self) -> str:
        if self.uri is None:
            return f"sha256, {self.octets} octets"
        flags = "+frag" * self.uri.fragment + "+query" * self.uri.query
        return f"hashed:{self.uri.algorithm}{flags}, variant {self.uri.variant}"


@dataclass(slots=True)
class Targets:
    """The hashes of one list; their number decides the memory."""

    #: digest -> the line of its first rule
    lines: dict[TargetKind, dict[bytes, int]] = field(default_factory=dict)
    #: rules in the clear
    clear: int = 0

    @property
    def tables(self) -> tuple[TargetKind, ...]:
        """The tables, in the order in which results number them."""
        return tuple(self.lines)

    @property
    def sets(self) -> tuple[tuple[TargetKind, frozenset[bytes]], ...]:
        """The data that a search needs."""
        return tuple((table, frozenset(lines)) for table, lines in self.lines.items())

    def add(self, rules: Iterable[Rule]) -> None:
        """Add the rules of a list."""
        for pattern, _, line in rules:
            if isinstance(pattern, ExpressionHash):
                self.lines.setdefault(TargetKind(len(pattern.value)), {}).setdefault(pattern.value, line)
            elif isinstance(pattern, HashedUri):
                self.lines.setdefault(TargetKind(len(pattern.digest), pattern.key), {}).setdefault(pattern.digest, line)
            else:
                self.clear += 1


_Sets = tuple[tuple[TargetKind, frozenset[bytes]], ...]


class TriedBlock(NamedTuple):
    """The result for a chunk."""

    entries: int
    #: different strings that were hashed: expressions, URIs
    expressions: int
    uris: int
    #: number of the table, digest as in the list, hashed text
    hits: list[tuple[int, bytes, bytes]]


#: the hashes in a file; they are loaded once in each process
_load: Callable[[Stored], _Sets] = lru_cache(maxsize=1)(unspill)


def try_block(block: Block, hashes: Stored) -> TriedBlock:
    """Hash all guesses of a chunk, and compare with the stored ``Targets.sets``."""
    sets = _load(hashes)
    prefixes = [(number, table.octets, own) for number, (table, own) in enumerate(sets) if table.uri is None]
    uris = [(number, table.uri, own) for number, (table, own) in enumerate(sets) if table.uri is not None]
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
            digest = sha256(text).digest()
            for number, octets, own in prefixes:
                if digest[:octets] in own:
                    hits.append((number, digest[:octets], text))
    hashed = 0
    strings: dict[tuple[str, bool, bool], set[bytes]] = {}
    for number, key, own in uris:
        how = key.variant, key.query, key.fragment
        if how not in strings:  # the same for every algorithm
            strings[how] = {*_of_names(names, key), *(string for url in urls for string in _of_url(url, key))}
            hashed += len(strings[how])
        digest_of = ALGORITHMS[key.algorithm]
        for text in strings[how]:
            digest = digest_of(text)
            if digest in own:
                hits.append((number, digest, text))
    return TriedBlock(entries, len(tried), hashed, hits)


# -- names -------------------------------------------------------------------------------------------------------------

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
    """The strings that are hashed for whole hosts, which have neither query nor fragment.

    Variant P removes empty segments, and with them the slash.
    """
    if key.query or key.fragment:
        return
    ends = (b"", b"/") if key.variant == "n" else (b"",)
    for name in names:
        for end in ends:
            yield b"http://" + name + end
            yield b"https://" + name + end


# -- URLs --------------------------------------------------------------------------------------------------------------


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
        for own in {parts, nobody, nobody._replace(port=None)}:
            for scheme in (b"http", b"https"):
                for form in _ends(own._replace(scheme=scheme, host=host)):
                    try:
                        yield from matching_strings(form, key)
                    except UrlError:
                        continue


def _ends(parts: Parts) -> Iterator[Parts]:
    """A URL, the same with or without a slash at the end, and its site."""
    yield parts
    if len(parts.path) > 1:
        path = parts.path.removesuffix(b"/") if parts.path.endswith(b"/") else parts.path + b"/"
        yield parts._replace(path=path)
        yield parts._replace(path=b"/", query=None, fragment=None)
