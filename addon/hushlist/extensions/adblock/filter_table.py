"""The network filters of an index, by words: sections of the index file, mapped and shared.

A filter is found by the host that it names; if it names none, or many name it, by one of its *words*: a run of letters
and digits that each URL has that it fits, or two such runs in a row, whatever fewest filters have. Exceptions, which
few URLs are compared with, are found by one run. A filter without a word is found by the pages in its option
``domain``; one without these is looked at for each URL. The sections are:

``words of filters``, ``words of exceptions`` and ``words of hosts``
    each run by which one of these is found; those of hosts depend on nothing else
``pairs of filters``
    the same for two runs, each on a line of its own
``names of filters``, ``names of exceptions`` and ``names of hosts``
    the same for hosts and pages; and each host that one names that is found by a word
``words fan`` and ``words keys``
    for the hash of each of them, by its lowest bits, the places of its filters in ``words texts``, and their bits
``words texts``
    the filters as written, each behind a literal part of it; the table of rows (``index_table``) has where
    each is from

What a list costs is known here. Of the filters that it has for one word, those beyond a number are left out, with a
warning, whatever other lists have. The keys tell whose each filter
is, so that each list has its own part of what may be compared for a request.

A filter is read when a URL has its word, its type and its literal part, and kept for the next one.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple
from zlib import crc32

from hushlist.core.match.context import Context
from hushlist.core.match.index_file import IndexFileError
from hushlist.core.match.rule import Rule
from hushlist.extensions.adblock.filter_reader import parse_filter
from hushlist.extensions.adblock.network_filter import (
    EXCEPTIONS,
    FILTERS,
    MOST_OF_LIST,
    NAMES_HOST,
    NEAREST,
    OF_HOSTS,
    OF_NAMES,
    NetworkFilter,
    UrlInContext,
    WordedFilter,
    Work,
    names_of,
    words_of,
)

_FAMILIES = ("filters", "exceptions", "hosts")
SECTIONS = (
    *(f"{kind} of {family}" for kind in ("words", "names") for family in _FAMILIES),
    *("pairs of filters", "words fan", "words keys", "words texts"),
)
#: what a name begins with: a page; a host; one that filters name that are found by words
_PAGE, _HOST, _BY_WORDS = _NAMES = b"@", b"|", b"^"
#: of each filter in the keys: hash, place, length and bits
_COLUMNS = 4
#: words that are kept in memory; where there are more, each word of a URL is looked up
MOST_WORDS = 1 << 17
#: words that are kept with their filters, and these filters; pages and hosts with their keys
MOST_KNOWN = 1 << 15
MOST_NAMES = 1 << 12
#: what it takes to compare a filter, to read one and each of its octets, and to look up the words of a URL, in octets
#: that are compared
_COMPARING, _READING, _READING_OCTET, _WORDS = 1 << 12, 1 << 13, 1 << 7, 100
#: runs that most URLs have, besides single letters: filters are better found by a word with another
_COMMON = frozenset(b"http https www com net org js html htm php css png jpg jpeg gif svg json images static".split())
_VERY_COMMON = 1 << 20
#: work of which no list has too much
_UNBOUNDED = 1 << 62
#: filters that are found by one host
_MOST_OF_HOST = 64
#: filters of one list that are found by one key; EasyList has 19, and EasyPrivacy 46
MOST_OF_KEY = 128
#: among the bits of a key: from which one on they are the list's number, and how many lists can be told apart
_LIST_BITS = NAMES_HOST.bit_length()
_MOST_LISTS = 1 << 32 - _LIST_BITS


def parse_stored(text: bytes) -> NetworkFilter:
    """The filter of a ``WordedFilter``; ``ValueError`` if it is none."""
    marks = text[: len(text) - len(text.lstrip(OF_NAMES + NEAREST))]
    return parse_filter(text[len(marks) :].decode(), of_names=OF_NAMES in marks, is_nearest=NEAREST in marks)


class FoundFilters(NamedTuple):
    """The filters of a list, each with that by which it is found; and those that are too many for one key."""

    by: list[tuple[WordedFilter, list[bytes]]]
    left_out: list[tuple[WordedFilter, bytes]]


class _Frequencies:
    """How many of some filters have a word, and how many name a host."""

    def __init__(self, filters: Iterable[WordedFilter]) -> None:
        filters = [*filters]
        self.hosts = Counter(worded.host for worded in filters)
        self.words = Counter(word for worded in filters for word in worded.words)
        for word in self.words:
            self.words[word] += _VERY_COMMON * all(len(run) < 2 or run in _COMMON for run in word.split())


def find_keys(lists: Iterable[Iterable[WordedFilter]]) -> list[FoundFilters]:
    """What the filters of each list are found by: whatever fewest filters of all lists have.

    What is left out depends on its own list alone. Where the words of others would have too many of a list's filters
    found by one key, those are found by what is rarest in their own list.
    """
    every = [[*{worded.key: worded for worded in reversed([*filters])}.values()][::-1] for filters in lists]
    by_all = _Frequencies({worded.key: worded for filters in every for worded in filters}.values())
    return [_keys_of_list(filters, by_all) for filters in every]


def _keys_of_list(filters: Sequence[WordedFilter], by_all: _Frequencies) -> FoundFilters:
    by_list, keyed = _Frequencies(filters), FoundFilters([], [])
    alone, together = Counter[tuple[int, bytes]](), Counter[tuple[int, bytes]]()
    for worded in filters:
        keys = [*_found_by(worded, by_list)]
        full = next((key for key in keys if alone[worded.family, key] >= MOST_OF_KEY), None)
        if full is not None:
            keyed.left_out.append((worded, full))
            continue
        alone.update((worded.family, key) for key in keys)
        others = [*_found_by(worded, by_all)]
        if all(together[worded.family, key] < MOST_OF_KEY for key in others):
            keys = others
            together.update((worded.family, key) for key in keys)
        keyed.by.append((worded, keys))
    return keyed


def cost_of_key(key: bytes) -> str:
    """Why a filter is left out that is found by a key, for people."""
    what = key.lstrip(b"".join(_NAMES)).decode("ascii", "replace")
    where = f"have the words {what!r}" if b" " in key else f"have the word or name {what!r}" if what else "name no word"
    return f"the list has more than {MOST_OF_KEY} filters that {where}: each costs time on every such request"


def table_sections(lists: Sequence[FoundFilters]) -> dict[str, bytes]:
    """The sections for the filters of all lists, whose numbers are their places; a filter is the first list's."""
    keys_by_family: list[set[bytes]] = [set() for _ in _FAMILIES]
    rows: list[tuple[int, int, int, int]] = []
    texts, seen = bytearray(), set[bytes]()
    for number, (worded, by) in ((number, keyed) for number, filters in enumerate(lists) for keyed in filters.by):
        if worded.key in seen:
            continue
        seen.add(worded.key)
        octets = worded.literal + b"\n" + worded.text
        bits = worded.bits | min(number, _MOST_LISTS - 1) << _LIST_BITS
        rows += ((crc32(key, worded.family), len(texts), len(octets), bits) for key in by)
        keys_by_family[worded.family].update(by)
        if worded.host and by != [_HOST + worded.host]:
            keys_by_family[worded.family].add(_BY_WORDS + worded.host)
        texts += octets
    bits = len(rows).bit_length()
    mask = (1 << bits) - 1
    rows.sort(key=lambda row: (row[0] & mask, row))
    buckets = Counter(row[0] & mask for row in rows)
    fan = array("I", accumulate((buckets[bucket] for bucket in range(1 << bits)), initial=0))
    keys = array("I", (number for row in rows for number in row))
    lines = [[key + b"\n" for key in sorted(of_family)] for of_family in keys_by_family]
    names = [[key for key in of_family if key.startswith(_NAMES)] for of_family in lines]
    words = [[key for key in of_family if not key.startswith(_NAMES) and b" " not in key] for of_family in lines]
    pairs = [key.replace(b" ", b"\n") for key in lines[FILTERS] if b" " in key]
    every = (*map(b"".join, (*words, *names, pairs)), fan.tobytes(), keys.tobytes(), bytes(texts))
    return dict(zip(SECTIONS, every, strict=True))


def _found_by(worded: WordedFilter, among: _Frequencies) -> Iterator[bytes]:
    """What a filter is found by."""
    best = min(worded.words, key=lambda word: (among.words[word], -len(word)), default=b"")
    is_rare = bool(best) and among.words[best] < _VERY_COMMON
    if worded.host and (among.hosts[worded.host] <= _MOST_OF_HOST or not is_rare):
        yield _HOST + worded.host
    elif worded.pages and not is_rare:
        yield from (_PAGE + page for page in worded.pages)
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

    __slots__ = ("_filter", "_source", "_text", "rules")

    def __init__(self, text: bytes, source: str) -> None:
        self._filter: NetworkFilter | None = None
        self._text, self._source = text, source
        #: kept with it by who looks for them
        self.rules: FilterRules | None = None

    def read(self) -> NetworkFilter:
        if self._filter is None:
            try:
                self._filter = parse_stored(self._text)
            except ValueError as error:
                raise IndexFileError(self._source, "a filter cannot be read") from error
        return self._filter


#: what a filter is quickly known by not to fit: its bits, and a literal part; then place and length of its text, which
#: are in the order of the lists
_Candidate = tuple[int, str, int, int]

#: by what filters are found: a run or a name, or two runs
_Key = bytes | tuple[bytes, bytes]
_Keys = set[_Key] | frozenset[_Key]


class _HostKeys(NamedTuple):
    """By what filters are found that name a host, or a domain above it; and whether some are found by words."""

    keys: frozenset[_Key]
    by_words: bool


class FilterTable:
    """Looks up filters. The octets must not change while the table is in use."""

    def __init__(self, section: Callable[[str], memoryview], source: str) -> None:
        """``section`` gives those of ``SECTIONS``; ``ValueError`` if their lengths do not fit each other."""
        *words, fan, keys, texts = map(section, SECTIONS)
        self._fan, self._keys, self._texts, self._source = fan.cast("I"), keys.cast("I"), texts, source
        fan, keys = self._fan, self._keys
        self._bucket = len(fan) - 2
        if fan[0] or _COLUMNS * fan[-1] != len(keys) or self._bucket & (self._bucket + 1):
            raise ValueError("the fan-out of its filters does not count them")
        lines = [text.split(b"\n")[:-1] if text.count(b"\n") < MOST_WORDS else None for text in map(bytes, words)]
        every: list[set[_Key] | None] = [
            None if keys_of_section is None else {*keys_of_section} for keys_of_section in lines[:-1]
        ]
        self._words, self._names, pairs = every[: len(_FAMILIES)], every[len(_FAMILIES) :], lines[-1]
        self._pairs = None if pairs is None else {*zip(pairs[::2], pairs[1::2], strict=True)}
        #: by what they are found -> filters, and how many these are; place of a text -> the filter
        self._candidates: list[dict[_Key, tuple[_Candidate, ...]]] = [{}, {}, {}]
        self._kept = 0
        self._filters: dict[int, StoredFilter] = {}
        #: of pages, and of hosts: a name -> by what its filters are found
        families = FILTERS, EXCEPTIONS
        self._pages = [lru_cache(MOST_NAMES)(partial(_keys_of_page, self._names[family])) for family in families]
        self._hosts = [lru_cache(MOST_NAMES)(partial(_keys_of_host, self._names[family])) for family in families]

    def of_host(self, host: bytes) -> list[StoredFilter]:
        """The filters for whole hosts that fit; a host has few words, and each few filters of a list."""
        keys = self._by_words(OF_HOSTS, words_of(host))
        if not keys:
            return []
        subject = UrlInContext(b"http://" + host + b"/", host, Context(), work=Work(_UNBOUNDED))
        return self._fitting(OF_HOSTS, subject, keys)

    def find(
        self, subject: UrlInContext, *, is_named: bool, exceptions: bool = False, only_named: bool = False
    ) -> list[StoredFilter]:
        """The other filters that fit, or the exceptions; ``is_named``: whether some name its host or a domain above it.

        ``only_named``: only filters that do. Those of a list that would take too long are not compared: the request's
        work tells of it.
        """
        family = EXCEPTIONS if exceptions else FILTERS
        hosts, by_words = self._hosts[family](subject.host) if is_named else _NO_HOSTS
        if only_named and not by_words:
            return self._fitting(family, subject, hosts)
        keys = self._by_words(family, subject.words)
        if hosts:
            keys |= hosts
        if subject.page and (pages := self._pages[family](subject.page)):
            keys |= pages
        return self._fitting(family, subject, keys, NAMES_HOST if only_named else 0) if keys else []

    def _by_words(self, family: int, words: Sequence[bytes]) -> set[_Key]:
        """The words among those of a URL by which filters are found."""
        runs = self._words[family]
        keys: set[_Key] = {*words} if runs is None else runs.intersection(words)
        if family == FILTERS:
            pairs = zip(words, words[1:], strict=False)  # noqa: RUF007  pairwise takes longer: it makes each tuple anew
            keys |= {*pairs} if self._pairs is None else self._pairs.intersection(pairs)
        return keys

    def _fitting(self, family: int, subject: UrlInContext, keys: _Keys, bit: int = 0) -> list[StoredFilter]:
        """Of the filters that are found so, those that fit, and have a bit.

        Requests spend much of their time here, so that what is done for each filter is little.
        """
        candidates, low, kinds = self._candidates[family], subject.low, subject.kinds
        try:
            groups = [*map(candidates.__getitem__, keys)]
        except KeyError:
            self._load(family, subject, keys)
            groups = [candidates[key] for key in keys if key in candidates]
        work, each = subject.work, len(low) + _COMPARING
        left = work.left - each * sum(map(len, groups)) - _WORDS * len(low)
        if left < 0:
            groups = [
                tuple(
                    [
                        candidate
                        for group in groups
                        for candidate in group
                        if work.takes(candidate[0] >> _LIST_BITS, each)
                    ]
                )
            ]
        else:
            work.left = left
        near: list[_Candidate] = []  # no comprehension: it would call a function, and mostly nothing is near
        for group in groups:
            for candidate in group:
                if candidate[0] & kinds and candidate[1] in low:
                    near.append(candidate)
        if not near:
            return []
        parties, fitting = subject.parties, list[StoredFilter]()
        for bits, _, place, length in sorted({*near}, key=_place) if len(near) > 1 else near:
            work.payer = bits >> _LIST_BITS
            if not work.takes(work.payer, _READING + _READING_OCTET * length):
                continue
            if bits & parties and bits & bit == bit:
                stored = self._filters.get(place) or self._stored(place, length)
                if stored.read().fits(subject):
                    fitting.append(stored)
        return fitting

    def _load(self, family: int, subject: UrlInContext, keys: _Keys) -> None:
        """Have the filters of keys known; of more than may be read, it is noted whose they are."""
        candidates = self._candidates[family]
        if len(candidates) + len(keys) > MOST_KNOWN or self._kept > MOST_KNOWN:
            for kept in self._candidates:
                kept.clear()
            self._filters.clear()
            self._kept = 0
        left = (max(subject.work.left, 0) + MOST_OF_LIST) // (len(subject.low) + _COMPARING)
        for key in keys.difference(candidates):
            digest = crc32(key if isinstance(key, bytes) else b" ".join(key), family)
            bucket = digest & self._bucket
            rows = range(_COLUMNS * self._fan[bucket], _COLUMNS * self._fan[bucket + 1], _COLUMNS)
            matching_rows = [row + 1 for row in rows if self._keys[row] == digest]
            left -= len(matching_rows)
            if left < 0:
                subject.work.spend({self._keys[row + 2] >> _LIST_BITS for row in matching_rows})
                continue
            candidates[key] = tuple([self._candidate(*self._keys[row : row + _COLUMNS - 1]) for row in matching_rows])
            self._kept += len(matching_rows)

    def _candidate(self, place: int, length: int, bits: int) -> _Candidate:
        literal, _, text = bytes(self._texts[place : place + length]).partition(b"\n")
        return bits, literal.decode("latin-1"), place + length - len(text), len(text)

    def _stored(self, place: int, length: int) -> StoredFilter:
        stored = self._filters[place] = StoredFilter(bytes(self._texts[place : place + length]), self._source)
        return stored


def _keys_of_page(kept_names: set[_Key] | None, page: bytes) -> frozenset[_Key]:
    names = [_PAGE + name.encode() for name in names_of(page.decode("ascii", "replace"))]
    return frozenset(names if kept_names is None else kept_names.intersection(names)) or _NO_KEYS


def _keys_of_host(kept_names: set[_Key] | None, host: bytes) -> _HostKeys:
    names, by_words = list[bytes](), False
    while host:
        if kept_names is None or _HOST + host in kept_names:
            names.append(_HOST + host)
        by_words = by_words or kept_names is None or _BY_WORDS + host in kept_names
        host = host.partition(b".")[2]
    return _HostKeys(frozenset(names), by_words) if names or by_words else _NO_HOSTS


_place = itemgetter(2)
#: of most names; an empty set of Python's takes 216 octets
_NO_KEYS: frozenset[_Key] = frozenset()
_NO_HOSTS = _HostKeys(_NO_KEYS, by_words=False)
