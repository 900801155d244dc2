"""Network filters of Adblock lists: a pattern and options, and whether they fit a URL and its context.

No pattern takes more than linear time in the URL's length: its pieces between wildcards are looked for in order, each
once. A regular expression is taken only if that is known of it (``extensions/adblock/linear_regex.py``).

>>> from hushlist.extensions.adblock.filter_reader import parse_filter
>>> own = parse_filter("||cdn.example^*/ads/$script,third-party")
>>> context = Context("www.news.example", "script", True, "GET")
>>> own.fits(UrlInContext(b"https://cdn.example/v1/ads/x.js", b"cdn.example", context))
True

Spec: https://help.adblockplus.org/hc/en-us/articles/360062733293, How to write filters;
https://github.com/gorhill/uBlock/wiki/Static-filter-syntax
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import chain, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from hushlist.core.match.context import KINDS, Context, Telling
from hushlist.core.match.matcher import Placed
from hushlist.core.match.rule import FilterPattern
from hushlist.core.url.host import is_address
from hushlist.extensions.adblock.automaton import Automaton, ExhaustedError
from hushlist.extensions.adblock.filter_patterns import Test, Text, pattern_test, regex_test, shape_of, text_of
from hushlist.extensions.adblock.head_options import HeadEffect, value_test
from hushlist.extensions.adblock.linear_regex import linear_regex

if TYPE_CHECKING:
    from hushlist.core.match.overbroad import BreadthTest

# -- what a filter is compared with ------------------------------------------------------------------------------------

BITS = {kind: 1 << place for place, kind in enumerate(KINDS)}
UNKNOWN_KIND = 1 << len(KINDS)
EVERY_KIND = 2 * UNKNOWN_KIND - 1
#: "document" has to be named
DEFAULT_KINDS = EVERY_KIND - BITS["document"]
THIRD, FIRST, _UNKNOWN_PARTY = (2 << len(KINDS) << place for place in range(3))
EVERY_PARTY = THIRD | FIRST | _UNKNOWN_PARTY
#: among the bits of a filter: whether it names its host
NAMES_HOST = 2 * _UNKNOWN_PARTY
#: letters in lower case, digits, and a space for anything else
_WORDS = bytes(octet if octet in b"abcdefghijklmnopqrstuvwxyz0123456789" else 32 for octet in bytes(range(256)).lower())


def words_of(url: bytes) -> list[bytes]:
    """Nothing; then runs of letters and digits, in lower case.

    >>> words_of(b"ads.Example/x")
    [b'', b'ads', b'example', b'x']
    """
    return [b"", *url.translate(_WORDS).split()]


@lru_cache(maxsize=1 << 12)
def names_of(host: str) -> tuple[str, ...]:
    """A host and the domains above it, each with its name under any public suffix, as options of filters name them.

    >>> names_of("www.news.co.uk")
    ('www.news.co.uk', 'www.news.*', 'news.co.uk', 'news.*', 'co.uk', 'uk')
    """
    if is_address(host.encode()):
        return (host,)
    from hushlist.core.match.public_suffixes import public_suffixes  # who asks no filter starts faster without it

    domain = public_suffixes().registrable_domain(host.encode()).decode()
    suffix = domain.partition(".")[2]
    names: list[str] = []
    name = host
    while name:
        names.append(name)
        if suffix and name.endswith(f".{suffix}") and len(name) >= len(domain):
            names.append(name.removesuffix(suffix) + "*")
        name = name.partition(".")[2]
    return tuple(names)


#: octets that filters are compared with for one request, by all its names and forms: five times of what any recorded
#: request takes with EasyList and EasyPrivacy; and what each list may take beside that, which is as much as that takes
MOST_WORK = 1 << 24
MOST_OF_LIST = 1 << 22


class Work:
    """How much may still be done for a request: by all lists together, and then by each list alone.

    So none that takes too much keeps another's filters from being compared.
    """

    #: the list, by its number, whose filter is compared
    payer = 0
    #: lists with filters that were not compared
    spent: Set[int] = frozenset()

    def __init__(self, most: int = MOST_WORK) -> None:
        self.left = most

    def takes(self, number: int, octets: int) -> bool:
        """Whether a list may have so many octets compared."""
        if number in self.spent:
            return False
        self.left -= octets
        if self.left >= 0:
            return True
        left = self._left_of_lists[number] = self._left_of_lists.get(number, MOST_OF_LIST) - octets
        if left < 0:
            self.spend({number})
        return left >= 0

    def spend(self, numbers: Set[int]) -> None:
        """Compare no more filters of these lists."""
        self.spent |= numbers

    @cached_property
    def _left_of_lists(self) -> dict[int, int]:
        """What is left of each list's own, which few requests begin."""
        return {}


class UrlInContext:
    """A URL as a browser sends it, and its context."""

    __slots__ = (
        *("_context", "_name", "_parties", "_text", "_words"),
        *("host", "kinds", "low", "may_guess", "page", "url", "work"),
    )

    def __init__(
        self, url: bytes, host: bytes, context: Context | Telling, *, may_guess: bool = False, work: Work | None = None
    ) -> None:
        """``host``: as in the URL; ``may_guess``: whether an option fits what is not known of the context."""
        self.url, self.host, self._context, self.may_guess = url, host, context, may_guess
        self.work = work or Work()
        #: in lower case: as text, in which Python finds others three times as fast as octets in octets
        self.low = url.lower().decode("latin-1")
        #: the host of the page that asks, which is known before the rest of the context
        self.page = context.page.encode() if isinstance(context, Context) else context.page_by(host)
        #: the bits of its type
        self.kinds = BITS.get(context.kind) or (EVERY_KIND if may_guess else UNKNOWN_KIND)
        self._text: Text | None = None
        self._name: Text | None = None
        self._words: list[bytes] | None = None
        self._parties = 0

    @property
    def context(self) -> Context:
        """The whole context: most URLs are decided without it."""
        if not isinstance(self._context, Context):
            self._context = self._context.context_by(self.host)
        return self._context

    @property
    def words(self) -> list[bytes]:
        """Its words in their order, behind nothing, which each URL has."""
        if self._words is None:
            self._words = words_of(self.url)
        return self._words

    @property
    def parties(self) -> int:
        """The bits of its party."""
        if not self._parties:
            is_third = self.context.is_third_party
            unknown = EVERY_PARTY if self.may_guess else _UNKNOWN_PARTY
            self._parties = unknown if is_third is None else THIRD if is_third else FIRST
        return self._parties

    def knowing(self) -> UrlInContext:
        """The same for exceptions: what is not known fits none of their options."""
        return UrlInContext(self.url, self.host, self._context, work=self.work) if self.may_guess else self

    def text(self, *, match_case: bool) -> Text:
        """The URL as patterns are compared with it."""
        if match_case:
            return text_of(self.url)
        self._text = self._text or text_of(self.url.lower())
        return self._text

    @property
    def name(self) -> Text:
        """The host as patterns for names are compared with it; an IPv6 address has no brackets there."""
        self._name = self._name or text_of(self.host.strip(b"[]"))
        return self._name


# -- filters -----------------------------------------------------------------------------------------------------------

#: what is looked for apart from each other
FILTERS, EXCEPTIONS, OF_HOSTS = range(3)
#: in front of a filter's text, which no text begins with: it is of a list for name servers; it is one of dnsmasq's
OF_NAMES, NEAREST = b" ", b"\t"


class WordedFilter(NamedTuple):
    """A filter as it is written into the table, and by what it can be found."""

    key: bytes
    #: as ``parse_stored`` reads it
    text: bytes
    literal: bytes
    bits: int
    family: int
    words: tuple[bytes, ...]
    host: bytes
    pages: tuple[bytes, ...]
    line: int


class Names(NamedTuple):
    """Hosts that an option names, and those that it excludes; the nearest name decides.

    Among them may be regular expressions, between slashes: these are compared with the whole host.
    """

    only: frozenset[str] = frozenset()
    but: frozenset[str] = frozenset()
    has_expressions: bool = False

    def fit(self, names: Sequence[str]) -> bool:
        """Whether a host fits, by its names."""
        for name in names:
            if name in self.but:
                return False
            if name in self.only:
                return True
        if self.has_expressions:
            if any(_fits_host(expression, names[0]) for expression in self.but):
                return False
            if any(_fits_host(expression, names[0]) for expression in self.only):
                return True
        return not self.only


def _fits_host(name: str, host: str) -> bool:
    return name.startswith("/") and value_test(name, match_case=False).fits(host.encode())


@dataclass(slots=True, unsafe_hash=True)
class NetworkFilter(FilterPattern):
    """The pattern of a rule that is a network filter."""

    extension = "adblock"
    #: as written, without the white space around it
    text: str = field(compare=False)
    #: whether it is of a list for name servers, and compared with the host's name alone
    of_names: bool = field(compare=False)
    #: whether it is an exception that lifts only what is less specific than it, as in files of dnsmasq
    is_nearest: bool = field(compare=False)
    is_exception: bool = field(compare=False)
    is_important: bool = field(compare=False)
    #: whether it takes back the filter that is the same without this option
    is_badfilter: bool
    #: the pattern without options: canonical, or the source of a regular expression
    pattern: bytes = field(compare=False)
    is_regex: bool = field(compare=False)
    #: the host, if the pattern is ``||host^``
    host: bytes = field(compare=False)
    match_case: bool = field(compare=False)
    kinds: int = field(compare=False)
    parties: int = field(compare=False)
    #: whether page and request have to have one host, or two
    same_host: bool | None = field(compare=False)
    #: of ``domain``; of ``to`` and ``denyallow``; of ``method``; ``None`` where there is none
    pages: Names | None = field(compare=False)
    hosts: Names | None = field(compare=False)
    methods: Names | None = field(compare=False)
    #: what it does with heads; ``None``: it decides requests
    head: HeadEffect | None = field(compare=False)
    #: what it means, however it is written: two with the same are equal
    key: str
    _test: Test | None = field(init=False, default=None, compare=False, repr=False)
    #: what a regular expression, or one with many "^", costs for each octet
    _weight: int = field(init=False, default=0, compare=False, repr=False)
    #: what searches for a regular expression, if Python's engine may take long for it
    _automaton: Automaton | None = field(init=False, default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[NetworkFilter], tuple[object, ...]]:
        """What another process makes it of; there it makes its test, which cannot be sent."""
        return NetworkFilter, _written(self)

    @property
    def decides(self) -> bool:
        return self.head is None

    def lifts_head(self, other: NetworkFilter) -> bool:
        """Whether it is an exception that lifts a filter about heads though it names no head itself.

        Each exception lifts what would block an answer, and one for all that the pages of a site ask for the rest.
        """
        is_of_pages = self.pages is not None and not self.pattern and self.kinds == EVERY_KIND
        is_above = self.is_exception and (self.is_important or not other.is_important)
        return is_above and other.head is not None and (is_of_pages or other.head.option == "header")

    @property
    def digest(self) -> bytes:
        """By which it is found in the index: that of what it means."""
        return sha256(b"!" * self.is_badfilter + self.key.encode()).digest()

    @property
    def badfilter_digest(self) -> bytes:
        """The digest of the filter that takes it back."""
        return sha256(b"!" + self.key.encode()).digest()

    def fits(self, subject: UrlInContext) -> bool:
        """Whether it fits a URL in its context."""
        if not self.kinds & subject.kinds or (self.parties != EVERY_PARTY and not self.parties & subject.parties):
            return False
        if self.host:  # as most filters
            if not (subject.host == self.host or subject.host.endswith(b"." + self.host)):
                return False
        else:
            test = self._test or self._make_test()
            if self._weight and not subject.work.takes(subject.work.payer, self._weight * len(subject.url)):
                return False
            if self.of_names:
                text, start, end = subject.name, 0, len(subject.name.plain)
            else:
                text, start = subject.text(match_case=self.match_case), subject.url.find(b"://") + 3
                end = start + len(subject.host)
            if self._automaton is None:
                if not test(text, start, end):
                    return False
            elif (self._is_narrow and not self._fits_options(subject)) or not self._search(
                self._automaton, subject, text
            ):
                return False
        return not self._is_narrow or self._fits_options(subject)

    def _search(self, automaton: Automaton, subject: UrlInContext, text: Text) -> bool:
        """Search by an automaton; what that costs is known afterwards."""
        try:
            return automaton.search(text.plain) is not None
        except ExhaustedError:
            subject.work.spend({subject.work.payer})
            return False
        finally:
            subject.work.takes(subject.work.payer, _LOOKING_AT * automaton.looked_at)

    def _make_test(self) -> Test:
        if self.is_regex:
            self._test, self._weight, self._automaton = regex_test(self.pattern.decode(), match_case=self.match_case)
        else:
            self._test = pattern_test(shape_of(self.pattern))
            marks = self.pattern.count(b"^")
            self._weight = marks if marks > _FEW_MARKS else 0
        return self._test

    @property
    def _is_narrow(self) -> bool:
        return not (self.pages is self.hosts is self.methods is None) or self.same_host is not None

    def _fits_options(self, subject: UrlInContext) -> bool:
        if self.of_names:
            # "*$denyallow=com|net" is about names: an address is below none of them, and would always fit
            return self.hosts is None or (
                not is_address(subject.host) and self.hosts.fit(names_of(subject.host.decode("ascii", "replace")))
            )
        page, method = subject.context.page, subject.context.method
        if self.same_host is not None:
            is_same = subject.context.is_same_host(subject.host)
            if is_same is not self.same_host and not (is_same is None and subject.may_guess):
                return False
        if self.pages is not None and not (self.pages.fit(names_of(page)) if page else subject.may_guess):
            return False
        if self.hosts is not None and not self.hosts.fit(names_of(subject.host.decode("ascii", "replace"))):
            return False
        return self.methods is None or (self.methods.fit((method.lower(),)) if method else subject.may_guess)

    @property
    def is_of_hosts(self) -> bool:
        """Whether host and domain alone decide, so that it can be asked before a request is known."""
        if self.of_names:
            return True
        if not self.decides:
            return False
        is_plain = self.kinds == EVERY_KIND and self.parties == EVERY_PARTY and not self.match_case
        return (
            is_plain and not self._is_narrow and not self.is_regex and HOST_PATTERN.fullmatch(self.pattern) is not None
        )

    @property
    def whole_host(self) -> bytes:
        """The host, if it is for all of one host, whatever the context."""
        return self.host if self.is_of_hosts and not self._is_narrow else b""

    @property
    def guide(self) -> bytes:
        """The host below which it fits; empty if it may fit on any host."""
        anchored = _GUIDED.match(self.pattern) if not self.is_regex else None
        return anchored[1] if anchored else b""

    def placed(self, line: int) -> Placed:
        """How it stands in an index, and by what it can be found there."""
        if self.is_badfilter:
            host = b"" if self.is_exception or self.is_important else self.whole_host
            return Placed(None, takes_back=host and host + b"/")
        family = OF_HOSTS if self.is_of_hosts else EXCEPTIONS if self.is_exception else FILTERS
        pages = self.pages.only if self.pages is not None and not self.pages.has_expressions else ()
        host, literal = self.guide, self.literal
        row = WordedFilter(
            self.digest,
            OF_NAMES * self.of_names + NEAREST * self.is_nearest + self.text.encode(),
            literal,
            self.bits,
            family,
            tuple(dict.fromkeys((*self.words, *(self.pairs if family == FILTERS else ())))),
            b"" if family == OF_HOSTS else host,
            tuple(page.encode() for page in sorted(pages)),
            line,
        )
        return Placed(row, None if family == OF_HOSTS else host, bool(self.host) or literal in _ALL_INVENTED)

    def why_broad(self, breadth: BreadthTest) -> str | None:
        """Why it is broad, for people: on pages of any site, or of any below a public suffix.

        >>> from hushlist.core.match.overbroad import BreadthTest
        >>> from hushlist.extensions.adblock.filter_reader import parse_filter
        >>> own = ("@@||com^", "@@*$script", "@@.org^", "@@||www.", "@@*$domain=com")
        >>> [parse_filter(text).why_broad(BreadthTest(())) is not None for text in own]
        [True, True, True, True, True]
        >>> own = ("@@||a.example^", "@@*$domain=a.example", "/ads/*$domain=com")
        >>> [parse_filter(text).why_broad(BreadthTest(())) for text in own]
        [None, None, None]
        """
        pages = self.pages.only if self.pages else ()
        if pages and breadth.suffixes.isdisjoint(f"{page}/".encode() for page in pages):
            return None
        if self.host:
            return breadth.of_expression(self.host + b"/")
        # only what begins a host may be one of the signs in a row
        invented = _INVENTED if self.pattern.startswith((b"|", b"^")) else _INVENTED[:_UNORDERED]
        is_broad = self.literal in _ALL_INVENTED and any(map(self.fits, invented))
        return "it fits hosts that nobody has named" if is_broad else None

    @property
    def bits(self) -> int:
        """Its types and parties; and ``NAMES_HOST``, if it has a ``guide``."""
        return self.kinds | self.parties | (NAMES_HOST if self.guide else 0)

    @property
    def names_context(self) -> bool:
        """Whether it depends on the context."""
        has_kinds = not self.kinds & UNKNOWN_KIND or self.parties != EVERY_PARTY
        return has_kinds or not (self.pages is self.methods is None) or self.same_host is not None

    @property
    def specificity(self) -> tuple[int, int]:
        """As in ``Match``: exceptions are above expressions, important filters above these, and important exceptions
        above all (reading 29).

        Other filters are as specific as the expression of their host and what follows, if they name one; if not, less
        specific than any expression.
        """
        if (self.is_exception and not self.is_nearest) or self.is_important:
            return _EXCEPTION + self.is_important + (self.is_important and self.is_exception), len(self.pattern)
        host = self.host or self.guide
        return len(host), len(self.pattern) - len(host)

    @property
    def _literal_pattern(self) -> bytes:
        """The pattern with ``*`` for all that is not literal, in lower case."""
        if self.is_regex:
            return linear_regex(self.pattern.decode(), match_case=self.match_case)[1]
        return self.pattern.lower()

    @property
    def words(self) -> list[bytes]:
        """Runs of letters and digits that each URL has that it fits."""
        return [*chain.from_iterable(self._runs)]

    @property
    def pairs(self) -> list[bytes]:
        """Two of them that each such URL has in a row, with a space between them."""
        return [b" ".join(pair) for runs in self._runs for pair in pairwise(runs)]

    @property
    def _runs(self) -> Iterator[list[bytes]]:
        pattern = self._literal_pattern
        padded = b"*" * (not pattern.startswith(b"|")) + pattern + b"*" * (not pattern.endswith(b"|"))
        return map(_RUN.findall, padded.split(b"*"))

    @property
    def literal(self) -> bytes:
        """The longest text that each URL has that it fits, in lower case."""
        return max(_NOT_LITERAL.split(self._literal_pattern), key=len)


#: the fields that a filter is made of
_written = attrgetter(*(entry.name for entry in fields(NetworkFilter) if entry.init))

_FEW_MARKS = 8
#: what it costs an automaton to look at a state in a new set, in octets that are compared
_LOOKING_AT = 75
_NOT_LITERAL = re.compile(rb"[*^|]+")
_EXCEPTION = 1 << 31
#: with "*" only before it: behind "*", the path counts, too
HOST_PATTERN = re.compile(rb"\|\|((?:\*\.)?[a-z0-9_.-]+|\[[0-9a-f:.]+\])\^")
_GUIDED = re.compile(rb"\|\|([a-z0-9_-]+(?:\.[a-z0-9_-]+)+)(?=[/^:?]|\|$)")
_RUN = re.compile(rb"(?<=[^a-z0-9])[a-z0-9]+(?=[^a-z0-9])")

# -- filters that fit nearly everything --------------------------------------------------------------------------------

_SIGNS = b"abcdefghijklmnopqrstuvwxyz0123456789"
#: hosts that nobody has a filter for; of the last ones, each begins with another sign
_HOSTS = (
    *(b"qzxkvj.wvqzjx.com", b"www.jqvzkx.org", b"www.xkqjzv.net", b"www.zvjqxk.de", b"www.vkzxqj.co.uk"),
    *(b"%b.com" % (_SIGNS[at:] + _SIGNS[:at]) for at in range(len(_SIGNS))),
)
#: their URLs: what fits one fits nearly all of their top-level domain, or of the hosts that begin so
_INVENTED = [
    UrlInContext(b"%b://" % scheme + host + path, host, Context(), may_guess=True)
    for host in _HOSTS
    for scheme, path in ((b"https", b"/"), (b"http", b"/zqjx/kvwq.xqz?vq=zk"))
]
#: how many of these are of hosts without an order of signs
_UNORDERED = 2 * 5
_ALL_INVENTED = b"\n".join(invented.url for invented in _INVENTED)
