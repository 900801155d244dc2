"""The network filters of an index, by words: sections of the index file, mapped and shared.

A filter is found by the host that it names; if it names none, or many name it, by one of its *words*: a run of letters
and digits that each URL has that it fits, the one that fewest filters have. A filter without a word is found by the
pages in its option ``domain``; one without these is looked at for each URL. The sections are:

``words of filters``, ``words of exceptions`` and ``words of hosts``
    each word, page or host by which one of these is found, and an empty host if some that name theirs are found by
    words; those of hosts depend on nothing else
``words fan`` and ``words keys``
    for the hash of each of them, by its lowest bits, the places of its filters in ``words texts``, and their bits
``words texts``
    the filters as written, each behind another of its words, and a literal part of it; the table of rows
    (``match/index_table.py``) has where each is from

A filter is read when a URL has its word, its type and its literal part, and kept for the next one.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate, chain
from typing import NamedTuple
from zlib import crc32

from hushlist.match.context import Context
from hushlist.match.filters.network_filter import NAMES_HOST, Asked, NetworkFilter, names_of, parse_filter, words_of
from hushlist.match.index_file import IndexFileError
from hushlist.match.rule import Rule

#: what is looked for apart from each other: its number is that of its words in ``SECTIONS``
FILTERS, EXCEPTIONS, OF_HOSTS = range(3)
SECTIONS = tuple(f"words {name}" for name in ("of filters", "of exceptions", "of hosts", "fan", "keys", "texts"))
#: what is not a word: what a page begins with, and a host
_PAGE, _HOST = b"@", b"|"
#: of each filter in the keys: hash, place, length and bits
_COLUMNS = 4
#: words that are kept in memory; where there are more, each word of a URL is looked up
MOST_WORDS = 1 << 17
#: words with their filters that are kept; pages and hosts with their keys
MOST_KNOWN = 1 << 15
_MOST_NAMES = 1 << 14
#: what it takes to compare a filter, to read one and each of its octets, and to look up the words of a URL, in octets
#: that are compared
_COMPARING, _READING, _READING_OCTET, _WORDS = 1 << 12, 1 << 13, 1 << 7, 100
#: words that most URLs have, besides single letters: their filters are better found by another
_COMMON = frozenset(b"http https www com net org js html htm php css png jpg jpeg gif svg json images static".split())
_VERY_COMMON = 1 << 20
#: filters that are found by one host
_MOST_OF_HOST = 64


class WordedFilter(NamedTuple):
    """A filter as it is written into the table, and by what it can be found."""

    key: bytes
    text: bytes
    literal: bytes
    bits: int
    family: int
    words: tuple[bytes, ...]
    host: bytes
    pages: tuple[bytes, ...]


def worded(pattern: NetworkFilter) -> WordedFilter:
    """A filter with that by which it can be found."""
    family = OF_HOSTS if pattern.is_of_hosts else EXCEPTIONS if pattern.is_exception else FILTERS
    words, pages = tuple(dict.fromkeys(pattern.words)), pattern.pages.only if pattern.pages is not None else ()
    host = b"" if pattern.is_of_hosts else pattern.guide
    named = tuple(own.encode() for own in sorted(pages))
    return WordedFilter(
        pattern.digest, pattern.text.encode(), pattern.literal, pattern.bits, family, words, host, named
    )


def table_sections(filters: Iterable[WordedFilter]) -> dict[str, bytes]:
    """The sections of a table of filters."""
    distinct = {own.key: own for own in filters}.values()
    hosts = Counter(own.host for own in distinct)
    frequency = Counter(word for own in distinct for word in own.words)
    counts = Counter({word: own + _VERY_COMMON * (len(word) < 2 or word in _COMMON) for word, own in frequency.items()})
    words: list[set[bytes]] = [set(), set(), set()]
    rows: list[tuple[int, int, int, int]] = []
    texts = bytearray()
    for own in distinct:
        found = [*_keys(own, hosts, counts)]
        others = set(own.words).difference(found, words_of(own.host))
        other = min(others, key=lambda word: (frequency[word], -len(word), word), default=b"")
        octets = b"\n".join((other, own.literal, own.text))
        for key in found:
            words[own.family] |= {key, key if key.startswith(_HOST) or not own.host else _HOST}
            rows.append((crc32(key, own.family), len(texts), len(octets), own.bits))
        texts += octets
    bits = len(rows).bit_length()
    mask = (1 << bits) - 1
    rows.sort(key=lambda row: (row[0] & mask, row))
    buckets = Counter(row[0] & mask for row in rows)
    fan = array("I", accumulate((buckets[own] for own in range(1 << bits)), initial=0))
    keys = array("I", (number for row in rows for number in row))
    every = (
        *(b"".join(word + b"\n" for word in sorted(own)) for own in words),
        fan.tobytes(),
        keys.tobytes(),
        bytes(texts),
    )
    return dict(zip(SECTIONS, every, strict=True))


def _keys(own: WordedFilter, hosts: Mapping[bytes, int], counts: Mapping[bytes, int]) -> Iterator[bytes]:
    """What a filter is found by."""
    best = min(own.words, key=lambda word: (counts[word], -len(word)), default=b"")
    is_rare = bool(best) and counts[best] < _VERY_COMMON
    if own.host and (hosts[own.host] <= _MOST_OF_HOST or not is_rare):
        yield _HOST + own.host
    elif own.pages and not is_rare:
        yield from (_PAGE + page for page in own.pages)
    else:
        yield best


class FilterRules(NamedTuple):
    """The rules with a filter, and what is the same for each match of it: see ``Match``."""

    rules: Sequence[Rule]
    specificity: tuple[int, int]
    via: str
    names_context: bool


class StoredFilter:
    """A filter of the table, which is read when it is first asked for."""

    __slots__ = ("_own", "_source", "_text", "bits", "place", "reading", "rules")

    def __init__(self, text: bytes, bits: int, place: int, source: str) -> None:
        #: as those of ``NetworkFilter``
        self.bits = bits
        self._own: NetworkFilter | None = None
        self._text, self._source = text, source
        #: what it takes, whether or not it has been read: the decision must not depend on that
        self.reading = _READING + _READING_OCTET * len(text)
        #: filters are stored in the order of the lists
        self.place = place
        #: kept with it by who looks for them
        self.rules: FilterRules | None = None

    def read(self) -> NetworkFilter:
        """The filter."""
        if self._own is None:
            try:
                self._own = parse_filter(self._text.decode())
            except ValueError as error:
                raise IndexFileError(self._source, "a filter cannot be read") from error
        return self._own


#: a filter behind what it is quickly known by not to fit: its bits, a word and a literal part
_Candidate = tuple[int, bytes, bytes, StoredFilter]


class FilterTable:
    """Looks up filters. The octets must not change while the table is in use."""

    def __init__(
        self, words: Iterable[bytes], fan: Sequence[int], keys: Sequence[int], texts: Sequence[int], source: str
    ) -> None:
        """The parameters are the sections; ``ValueError`` if their lengths do not fit each other."""
        self._fan, self._keys, self._texts, self._source = fan, keys, texts, source
        self._bucket = len(fan) - 2
        if fan[0] or _COLUMNS * fan[-1] != len(keys) or self._bucket & (self._bucket + 1):
            raise ValueError("the fan-out of its filters does not count them")
        self._words = [set(own.split(b"\n")[:-1]) if own.count(b"\n") < MOST_WORDS else None for own in words]
        #: a word -> its filters; place of a text -> the filter
        self._known: list[dict[bytes, tuple[_Candidate, ...]]] = [{}, {}, {}]
        self._filters: dict[int, _Candidate] = {}
        #: of pages, and of hosts: a name -> by what its filters are found
        self._pages, self._hosts = (
            [lru_cache(_MOST_NAMES)(partial(keys_of, family)) for family in (FILTERS, EXCEPTIONS)]
            for keys_of in (self._keys_of_page, self._keys_of_host)
        )

    def of_host(self, host: bytes) -> list[StoredFilter]:
        """The filters for whole hosts that fit."""
        words = words_of(host)
        keys = self._among(OF_HOSTS, words)
        return self._find(OF_HOSTS, Asked(b"http://" + host + b"/", host, Context()), keys, words) if keys else []

    def find(
        self, asked: Asked, *, is_named: bool, exceptions: bool = False, only_named: bool = False
    ) -> list[StoredFilter]:
        """The other filters that fit, or the exceptions; ``is_named``: whether some name its host or a domain above it.

        ``only_named``: only filters that do. ``UrlError`` if that would take too long.
        """
        family = EXCEPTIONS if exceptions else FILTERS
        hosts = self._hosts[family](asked.host) if is_named else ()
        if only_named and _HOST not in hosts:
            return self._find(family, asked, {*hosts}, asked.low)
        keys = self._among(family, asked.words)
        keys.update(hosts)
        if asked.page:
            keys.update(self._pages[family](asked.page))
        found = self._find(family, asked, keys, asked.words)
        return [own for own in found if own.bits & NAMES_HOST] if only_named else found

    def _among(self, family: int, words: Iterable[bytes]) -> set[bytes]:
        """The words by which filters are found."""
        known = self._words[family]
        return {*words} if known is None else known.intersection(words)

    def _keys_of_page(self, family: int, page: bytes) -> tuple[bytes, ...]:
        return (*self._among(family, [_PAGE + own.encode() for own in names_of(page.decode("ascii", "replace"))]),)

    def _keys_of_host(self, family: int, host: bytes) -> tuple[bytes, ...]:
        names = [_HOST + host]
        while host:
            host = host.partition(b".")[2]
            names.append(_HOST + host)
        return (*self._among(family, names),)

    def _find(self, family: int, asked: Asked, keys: set[bytes], words: set[bytes] | bytes) -> list[StoredFilter]:
        """Requests spend much of their time here, so that what is done for each filter is little."""
        known, low, kinds = self._known[family], asked.low, asked.kinds
        try:
            groups = [*map(known.__getitem__, keys)]
        except KeyError:
            self._load(family, asked, keys)
            groups = [*map(known.__getitem__, keys)]
        work = asked.work
        work.left -= (len(low) + _COMPARING) * sum(map(len, groups)) + _WORDS * len(low)
        if work.left < 0:
            work.spend(asked.url, 0)
        near = [
            own
            for bits, word, literal, own in chain.from_iterable(groups)
            if bits & kinds and word in words and literal in low
        ]
        if not near:
            return near
        work.spend(asked.url, sum([own.reading for own in near]))
        parties = asked.parties
        found = [own for own in near if own.bits & parties and own.read().fits(asked)]
        return found if len(found) < 2 else [own for _, own in sorted({own.place: own for own in found}.items())]

    def _load(self, family: int, asked: Asked, keys: set[bytes]) -> None:
        """Have the filters of keys known; ``UrlError`` if they are too many to be read."""
        known = self._known[family]
        if len(known) + len(keys) > MOST_KNOWN or len(self._filters) > MOST_KNOWN:
            known.clear()
            self._filters.clear()
        left = asked.work.left // (len(asked.low) + _COMPARING)
        for key in keys.difference(known):
            digest = crc32(key, family)
            bucket = digest & self._bucket
            rows = range(_COLUMNS * self._fan[bucket], _COLUMNS * self._fan[bucket + 1], _COLUMNS)
            own = [row + 1 for row in rows if self._keys[row] == digest]
            left -= len(own)
            if left < 0:
                asked.work.spend(asked.url, asked.work.left + 1)
            known[key] = tuple([self._filter_at(*self._keys[row : row + _COLUMNS - 1]) for row in own])

    def _filter_at(self, place: int, length: int, bits: int) -> _Candidate:
        known = self._filters.get(place)
        if known is None:
            try:
                word, literal, text = bytes(self._texts[place : place + length]).split(b"\n")
            except ValueError as error:
                raise IndexFileError(self._source, "a filter cannot be read") from error
            known = self._filters[place] = bits, word, literal, StoredFilter(text, bits, place, self._source)
        return known
