"""Guesses: what the author of a list may have hashed for a name or a URL, and which of that is in the list.

For a name: the host, "www." in front of it, and its parent domains. For a URL: all expressions of it as well, or, for
hashed URIs, the URL and its site, in both schemes, with and without a slash at the end.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from hushlist.audit.dictionary import Block, entries_of
from hushlist.audit.targets import Table
from hushlist.errors import UrlError
from hushlist.match.expressions import expressions, host_suffixes
from hushlist.url import safebrowsing
from hushlist.url.hashed import ALGORITHMS, HashKey, matching_strings
from hushlist.url.host import is_address, is_plain_name
from hushlist.url.parts import Parts, split_generic

_Sets = tuple[tuple[Table, frozenset[bytes]], ...]


class Task(NamedTuple):
    """A piece of a dictionary, and the file with the hashes to look for."""

    block: Block
    sets: Path


class Tried(NamedTuple):
    """What came of a piece."""

    entries: int
    #: different strings that were hashed: expressions, URIs
    expressions: int
    uris: int
    #: number of the table, digest as the list has it, what was hashed
    hits: list[tuple[int, bytes, bytes]]


@lru_cache(maxsize=1)
def _load(path: Path) -> _Sets:
    sets: _Sets = pickle.loads(path.read_bytes())  # noqa: S301  we wrote it, into a folder of our own
    return sets


def try_block(task: Task) -> Tried:
    """Hash all guesses of a piece, and compare."""
    sets = _load(task.sets)
    prefixes = [(number, table.octets, own) for number, (table, own) in enumerate(sets) if table.uri is None]
    uris = [(number, table.uri, own) for number, (table, own) in enumerate(sets) if table.uri is not None]
    names: set[bytes] = set()
    urls: list[bytes] = []
    entries = 0
    for entry in entries_of(task.block):
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
    return Tried(entries, len(tried), hashed, hits)


# -- names -------------------------------------------------------------------------------------------------------------

_WWW = b"www."


def _add_hosts(name: bytes, names: set[bytes]) -> None:
    """Add a host, and those that a list may have in its place.

    >>> names = set()
    >>> _add_hosts(b"shop.site.example", names)
    >>> sorted(names)
    [b'shop.site.example', b'site.example', b'www.shop.site.example', b'www.site.example']
    """
    for suffix in host_suffixes(name):
        if suffix in names:  # and so are those above it
            return
        names.add(suffix)
        if not suffix.startswith(_WWW):
            names.add(_WWW + suffix)


def _of_names(names: Iterable[bytes], key: HashKey) -> Iterator[bytes]:
    """The strings that are hashed for whole hosts; they have neither query nor fragment.

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
