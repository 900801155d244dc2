"""The network filters of an index, by words: sections of the index file, mapped and shared.

A filter is found by the host that it names; if it names none, or many name it, by one of its *words*: a run of letters
and digits that each URL has that it fits, the one that fewest filters have. A filter without a word is found by the
pages in its option ``domain``; one without these is looked at for each URL. The sections are:

``words marks``
    an octet for each of many hashes of words: 0 if no filter has such a word
``words fan`` and ``words keys``
    for each hash, by its lowest bits, the places of its filters in ``words texts``
``words texts``
    the filters as written; the table of rows (``match/index_table.py``) has where each is from

A filter is read when a URL has its word, and kept for the next one.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple
from zlib import crc32

from hushlist.errors import UrlError
from hushlist.match.index_file import IndexFileError
from hushlist.match.network_filter import Asked, NetworkFilter, find_words, names_of, parse_filter

#: what a hash begins with: filters and exceptions, by words of URLs, by pages, by hosts; those for whole hosts
_BLOCKS, _EXCEPTIONS, _BY_PAGE, _BY_HOST, _OF_HOSTS = 0, 1, 2, 4, 6
SECTIONS = tuple(f"words {name}" for name in ("marks", "fan", "keys", "texts"))
_LENGTH = Struct("=I")
#: marks for each bucket of the fan-out
_MARKS = 16
#: words with their filters that are kept
MOST_KNOWN = 1 << 15
#: what it takes to read a filter and each of its octets, and to look up the words of a URL, in octets that are compared
_READING, _READING_OCTET, _WORDS = 1 << 13, 1 << 7, 100
#: words that most URLs have: their filters are better found by another
_COMMON = frozenset(b"http https www com net org js html htm php css png jpg jpeg gif svg json images static".split())
_VERY_COMMON = 1 << 20
#: filters that are found by one host
_MOST_OF_HOST = 16


class WordedFilter(NamedTuple):
    """A filter as it is written into the table, and by what it can be found."""

    key: bytes
    text: bytes
    seed: int
    words: tuple[bytes, ...]
    host: bytes
    pages: tuple[bytes, ...]


def worded(pattern: NetworkFilter) -> WordedFilter:
    """A filter with that by which it can be found."""
    seed = _OF_HOSTS if pattern.is_of_hosts else _EXCEPTIONS if pattern.is_exception else _BLOCKS
    words, pages = tuple(dict.fromkeys(pattern.words)), pattern.pages.only if pattern.pages is not None else ()
    host = b"" if pattern.is_of_hosts else pattern.guide
    named = tuple(own.encode() for own in sorted(pages))
    return WordedFilter(pattern.digest, pattern.text.encode(), seed, words, host, named)


def table_sections(filters: Iterable[WordedFilter]) -> dict[str, bytes]:
    """The sections of a table of filters."""
    distinct = {own.key: own for own in filters}.values()
    hosts = Counter(own.host for own in distinct)
    counts = Counter(word for own in distinct for word in own.words)
    counts.update(dict.fromkeys(_COMMON, _VERY_COMMON))
    pairs: list[tuple[int, int]] = []
    texts = bytearray()
    for own in distinct:
        pairs += ((key, len(texts)) for key in _keys(own, hosts, counts))
        texts += _LENGTH.pack(len(own.text)) + own.text
    bits = len(pairs).bit_length()
    mask = (1 << bits) - 1
    pairs.sort(key=lambda pair: (pair[0] & mask, pair))
    buckets = Counter(key & mask for key, _ in pairs)
    fan = array("I", accumulate((buckets[own] for own in range(1 << bits)), initial=0))
    marks = bytearray(_MARKS << bits)
    for key, _ in pairs:
        marks[key & len(marks) - 1] = 1
    keys = array("I", (number for pair in pairs for number in pair))
    return dict(zip(SECTIONS, (bytes(marks), fan.tobytes(), keys.tobytes(), bytes(texts)), strict=True))


def _keys(own: WordedFilter, hosts: Mapping[bytes, int], counts: Mapping[bytes, int]) -> Iterator[int]:
    """The hashes by which a filter is found."""
    best = min(own.words, key=lambda word: (counts[word], -len(word)), default=b"")
    is_rare = bool(best) and counts[best] < _VERY_COMMON
    if own.host and (hosts[own.host] <= _MOST_OF_HOST or not is_rare):
        yield crc32(own.host, own.seed + _BY_HOST)
    elif own.pages and not is_rare:
        yield from (crc32(page, own.seed + _BY_PAGE) for page in own.pages)
    else:
        yield crc32(best, own.seed)


@lru_cache(maxsize=1 << 14)
def _keys_of_names(name: str, seed: int) -> tuple[int, ...]:
    return tuple(crc32(own.encode(), seed) for own in names_of(name))


#: a filter, and before it what every URL has that it fits, and its kinds and parties: these rule out most candidates
_Known = tuple[bytes, int, int, NetworkFilter]


class FilterTable:
    """Looks up filters. The octets must not change while the table is in use."""

    def __init__(self, sections: Sequence[Sequence[int]], read_text: Callable[[int, int], bytes], source: str) -> None:
        """``sections``: marks, fan and keys; ``read_text``: octets of the texts, by offset and length.

        Raises ``ValueError`` if the lengths do not fit each other.
        """
        self._marks, self._fan, self._keys = sections
        self._read_text, self._source = read_text, source
        self._mask, self._bucket = len(self._marks) - 1, len(self._fan) - 2
        if len(self._marks) != _MARKS * (self._bucket + 1) or (self._marks and self._mask & len(self._marks)):
            raise ValueError("the words of its filters are not as many as it says")
        if self._fan[0] or 2 * self._fan[-1] != len(self._keys):
            raise ValueError("the fan-out of its filters does not count them")
        #: hash of a word -> what it takes to read its filters, and these; place of a text -> the filter
        self._known: dict[int, tuple[int, tuple[_Known, ...]]] = {}
        self._filters: dict[int, _Known] = {}

    def of_hosts(self, asked: Asked) -> list[NetworkFilter]:
        """The filters for whole hosts that fit."""
        return self._find(asked, (_OF_HOSTS, *map(crc32, find_words(asked.host), repeat(_OF_HOSTS))))

    def find(self, asked: Asked, words: Iterable[bytes], *, is_named: bool, exceptions: bool) -> list[NetworkFilter]:
        """The other filters that fit, or the exceptions.

        ``words``: those of the URL in lower case; ``is_named``: whether filters name its host, or a domain above it.
        """
        seed = _EXCEPTIONS if exceptions else _BLOCKS
        keys = [seed, *map(crc32, words, repeat(seed))]
        if page := asked.context.page:
            keys += _keys_of_names(page, seed + _BY_PAGE)
        if is_named:
            keys += _keys_of_names(asked.host.decode("ascii", "replace"), seed + _BY_HOST)
        return self._find(asked, keys)

    def _find(self, asked: Asked, keys: Iterable[int]) -> list[NetworkFilter]:
        """Requests spend much of their time in this loop, so it calls few functions."""
        marks, mask, known = self._marks, self._mask, self._known
        low, kinds, parties = asked.low, asked.kinds, asked.parties
        found, work, length = [], asked.work, len(low)
        work.spend(asked.url, _WORDS * length)
        for key in keys:
            if marks[key & mask]:
                reading, filters = known.get(key) or self._load(key, asked)
                work.left -= reading + length * len(filters)
                if work.left < 0:
                    work.spend(asked.url, 0)
                for literal, own_kinds, own_parties, own in filters:
                    if literal in low and own_kinds & kinds and own_parties & parties and own.fits(asked):
                        found.append(own)
        if len(found) < 2:
            return found
        work.spend(asked.url, _READING * len(found))
        return list(dict.fromkeys(found))

    def _load(self, key: int, asked: Asked) -> tuple[int, tuple[_Known, ...]]:
        """The filters of a hash, which are then known; ``UrlError`` if they take too long to be read."""
        if len(self._known) >= MOST_KNOWN or len(self._filters) >= MOST_KNOWN:
            self._known.clear()
            self._filters.clear()
        try:
            bucket = key & self._bucket
            pairs = range(2 * self._fan[bucket], 2 * self._fan[bucket + 1], 2)
            places = [self._keys[own + 1] for own in pairs if self._keys[own] == key]
            filters = tuple(self._filters_at(places, asked))
        except UrlError:
            raise
        except (LookupError, ValueError, StructError) as error:
            raise IndexFileError(self._source, "a filter cannot be read") from error
        reading = sum(_READING + _READING_OCTET * len(own.text) for *_, own in filters)
        self._known[key] = reading, filters
        return reading, filters

    def _filters_at(self, places: Sequence[int], asked: Asked) -> Iterator[_Known]:
        """The filters at these places; those that are read are no more than may be."""
        left = asked.work.left - len(places) * (len(asked.low) + _READING)
        for place in places:
            if left < 0:
                asked.work.spend(asked.url, asked.work.left + 1)
            yield (known := self._filter_at(place))
            left -= _READING_OCTET * len(known[-1].text)

    def _filter_at(self, place: int) -> _Known:
        known = self._filters.get(place)
        if known is None:
            (length,) = _LENGTH.unpack(self._read_text(place, _LENGTH.size))
            own = parse_filter(self._read_text(place + _LENGTH.size, length).decode())
            known = self._filters[place] = own.literal, own.kinds, own.parties, own
        return known
