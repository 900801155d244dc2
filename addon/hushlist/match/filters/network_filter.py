"""Network filters of Adblock lists: a pattern and options, and whether they fit a URL and its context.

No pattern takes more than linear time in the URL's length: its pieces between wildcards are looked for in order, each
once. A regular expression is taken only if that is known of it (``match/filters/linear_regex.py``).

>>> own = parse_filter("||cdn.example^*/ads/$script,third-party")
>>> context = Context("www.news.example", "script", True, "GET")
>>> own.fits(Asked(b"https://cdn.example/v1/ads/x.js", b"cdn.example", context))
True

Spec: https://help.adblockplus.org/hc/en-us/articles/360062733293, How to write filters;
https://github.com/gorhill/uBlock/wiki/Static-filter-syntax
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from itertools import chain, pairwise
from typing import NamedTuple

from hushlist.errors import UrlError
from hushlist.match.context import KINDS, Context, Telling
from hushlist.match.filters.filter_patterns import Test, Text, pattern_test, regex_test, shape_of, text_of
from hushlist.match.filters.linear_regex import linear_regex
from hushlist.url.host import is_address, to_ascii

# -- what a filter is compared with ------------------------------------------------------------------------------------

_BITS = {kind: 1 << place for place, kind in enumerate(KINDS)}
_UNKNOWN = 1 << len(KINDS)
_EVERY_KIND = 2 * _UNKNOWN - 1
#: "document" has to be named
_DEFAULT = _EVERY_KIND - _BITS["document"]
_THIRD, _FIRST, _UNKNOWN_PARTY = (2 << len(KINDS) << place for place in range(3))
_EVERY_PARTY = _THIRD | _FIRST | _UNKNOWN_PARTY
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
    from hushlist.match.public_suffixes import public_suffixes  # who asks no filter starts faster without it

    domain = public_suffixes().registrable_domain(host.encode()).decode()
    suffix = domain.partition(".")[2]
    found: list[str] = []
    name = host
    while name:
        found.append(name)
        if suffix and name.endswith(f".{suffix}") and len(name) >= len(domain):
            found.append(name.removesuffix(suffix) + "*")
        name = name.partition(".")[2]
    return tuple(found)


#: octets that filters are compared with for one request, by all its names and forms: some 6 times of what any
#: recorded request takes with EasyList and EasyPrivacy
MOST_WORK = 3 << 25


class Work:
    """How much may still be done for a request."""

    left = MOST_WORK

    def spend(self, url: bytes, octets: int) -> None:
        """``UrlError`` if nothing is left."""
        self.left -= octets
        if self.left < 0:
            raise UrlError(url, "too many filters would have to be compared with it, for its length")


class Asked:
    """A URL as a browser sends it, and its context."""

    __slots__ = (
        *("_context", "_parties", "_text", "_words", "host", "kinds", "low", "may_guess", "page", "url", "work"),
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
        self.kinds = _BITS.get(context.kind) or (_EVERY_KIND if may_guess else _UNKNOWN)
        self._text: Text | None = None
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
            unknown = _EVERY_PARTY if self.may_guess else _UNKNOWN_PARTY
            self._parties = unknown if is_third is None else _THIRD if is_third else _FIRST
        return self._parties

    def knowing(self) -> Asked:
        """The same for exceptions: what is not known fits none of their options."""
        return Asked(self.url, self.host, self._context, work=self.work) if self.may_guess else self

    def text(self, *, match_case: bool) -> Text:
        """The URL as patterns are compared with it."""
        if match_case:
            return text_of(self.url)
        self._text = self._text or text_of(self.url.lower())
        return self._text


# -- filters -----------------------------------------------------------------------------------------------------------


class Names(NamedTuple):
    """Hosts that an option names, and those that it excludes; the nearest name decides."""

    only: frozenset[str] = frozenset()
    but: frozenset[str] = frozenset()

    def fit(self, names: Sequence[str]) -> bool:
        """Whether a host fits, by its names."""
        for name in names:
            if name in self.but:
                return False
            if name in self.only:
                return True
        return not self.only


@dataclass(slots=True, unsafe_hash=True)
class NetworkFilter:
    """The pattern of a rule that is a network filter."""

    #: as written, without the white space around it
    text: str = field(compare=False)
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
    #: of ``domain``; of ``to`` and ``denyallow``; of ``method``; ``None`` where there is none
    pages: Names | None = field(compare=False)
    hosts: Names | None = field(compare=False)
    methods: Names | None = field(compare=False)
    #: what it means, however it is written: two with the same are equal
    key: str
    _test: Test | None = field(default=None, compare=False, repr=False)
    #: what a regular expression, or one with many "^", costs for each octet
    _weight: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    @property
    def digest(self) -> bytes:
        """By which it is found in the index: that of what it means."""
        return sha256(b"!" * self.is_badfilter + self.key.encode()).digest()

    @property
    def badfilter_digest(self) -> bytes:
        """The digest of the filter that takes it back."""
        return sha256(b"!" + self.key.encode()).digest()

    def fits(self, asked: Asked) -> bool:
        """Whether it fits a URL in its context."""
        if not self.kinds & asked.kinds or (self.parties != _EVERY_PARTY and not self.parties & asked.parties):
            return False
        if self.host:  # as most filters
            if not (asked.host == self.host or asked.host.endswith(b"." + self.host)):
                return False
        else:
            test = self._test or self._make_test()
            if self._weight:
                asked.work.spend(asked.url, self._weight * len(asked.url))
            start = asked.url.find(b"://") + 3
            if not test(asked.text(match_case=self.match_case), start, start + len(asked.host)):
                return False
        return self.pages is self.hosts is self.methods is None or self._fits_options(asked)

    def _make_test(self) -> Test:
        if self.is_regex:
            self._test, self._weight = regex_test(self.pattern.decode(), match_case=self.match_case)
        else:
            self._test = pattern_test(shape_of(self.pattern))
            marks = self.pattern.count(b"^")
            self._weight = marks if marks > _FEW_MARKS else 0
        return self._test

    @property
    def _is_narrow(self) -> bool:
        return not (self.pages is self.hosts is self.methods is None)

    def _fits_options(self, asked: Asked) -> bool:
        page, method = asked.context.page, asked.context.method
        if self.pages is not None and not (self.pages.fit(names_of(page)) if page else asked.may_guess):
            return False
        if self.hosts is not None and not self.hosts.fit(names_of(asked.host.decode("ascii", "replace"))):
            return False
        return self.methods is None or (self.methods.fit((method.lower(),)) if method else asked.may_guess)

    @property
    def is_of_hosts(self) -> bool:
        """Whether host and domain alone decide, so that it can be asked before a request is known."""
        is_plain = self.kinds == _EVERY_KIND and self.parties == _EVERY_PARTY and not self.match_case
        return is_plain and not self._is_narrow and not self.is_regex and _HOST.fullmatch(self.pattern) is not None

    @property
    def whole_host(self) -> bytes:
        """The host, if it is for all of one host, whatever the context."""
        return self.host if self.is_of_hosts else b""

    @property
    def guide(self) -> bytes:
        """The host below which it fits; empty if it may fit on any host."""
        anchored = _GUIDED.match(self.pattern) if not self.is_regex else None
        return anchored[1] if anchored else b""

    @property
    def bits(self) -> int:
        """Its types and parties; and ``NAMES_HOST``, if it has a ``guide``."""
        return self.kinds | self.parties | (NAMES_HOST if self.guide else 0)

    @property
    def names_context(self) -> bool:
        """Whether it depends on the context."""
        has_kinds = not self.kinds & _UNKNOWN or self.parties != _EVERY_PARTY
        return has_kinds or not (self.pages is self.methods is None)

    @property
    def specificity(self) -> tuple[int, int]:
        """As in ``Match``: exceptions are above expressions, important filters above these.

        Other filters are as specific as the expression of their host and what follows, if they name one; if not, less
        specific than any expression.
        """
        if self.is_exception or self.is_important:
            return _EXCEPTION + (not self.is_exception), len(self.pattern)
        host = self.guide
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


_FEW_MARKS = 8
_NOT_LITERAL = re.compile(rb"[*^|]+")
_EXCEPTION = 1 << 31
#: with "*" only before it: behind "*", the path counts, too
_HOST = re.compile(rb"\|\|((?:\*\.)?[a-z0-9_.-]+|\[[0-9a-f:.]+\])\^")
_GUIDED = re.compile(rb"\|\|([a-z0-9_-]+(?:\.[a-z0-9_-]+)+)(?=[/^:?]|\|$)")
_RUN = re.compile(rb"(?<=[^a-z0-9])[a-z0-9]+(?=[^a-z0-9])")


# -- reading -----------------------------------------------------------------------------------------------------------

_ALIASES = {
    "doc": "document",
    "css": "stylesheet",
    "xhr": "xmlhttprequest",
    "frame": "subdocument",
    "beacon": "ping",
    "object-subrequest": "object",
    "popunder": "popup",
    "from": "domain",
    "3p": "third-party",
    "1p": "first-party",
}
_PARTIES = {
    ("third-party", False): _THIRD,
    ("third-party", True): _FIRST,
    ("first-party", False): _FIRST,
    ("first-party", True): _THIRD,
}
#: what they do instead of blocking a request, or what else than a request they are about
_NOT_FOR_A_PROXY = frozenset((
    *("csp", "permissions", "header", "removeparam", "queryprune", "redirect", "redirect-rule", "rewrite", "replace"),
    *("cname", "ipaddress", "removeheader", "requestheader", "responseheader", "cookie", "hls", "jsonprune"),
    *("xmlprune", "uritransform", "urltransform", "urlskip", "referrerpolicy", "webrtc", "inline-script"),
    *("inline-font", "elemhide", "ehide", "generichide", "ghide", "specifichide", "shide", "genericblock", "urlblock"),
    *("jsinject", "content", "extension", "stealth", "app", "network", "empty", "mp4", "client", "ctag", "dnstype"),
    *("dnsrewrite", "strict1p", "strict3p", "jsonprune", "sitekey", "trusted-types", "protobuf"),
))  # fmt: skip
_OPTION = re.compile(r"[~\w]")
_METHODS = frozenset(("connect", "delete", "get", "head", "options", "patch", "post", "put", "trace"))
_NEW_WINDOW = "popup: a proxy cannot tell a new window"


def split_options(text: str) -> tuple[str, list[str]]:
    """The pattern of a filter and its options, without "@@".

    >>> split_options("||h.example^$script,domain=a.example")
    ('||h.example^', ['script', 'domain=a.example'])
    """
    body = text.removeprefix("@@")
    pattern, dollar, options = body.rpartition("$")
    if not dollar or not _OPTION.match(options):
        return body, []
    return pattern, [own for option in options.split(",") if (own := option.strip()) and own.strip("_")]


def parse_filter(text: str) -> NetworkFilter:
    """A network filter; ``ValueError`` with its kind if it is none that a proxy can apply."""
    if len(text) > _LONGEST:
        raise ValueError("a filter that is too long")
    pattern, options = split_options(text)
    is_exception = text.startswith("@@")
    kinds = without = 0
    parties, match_case, is_important, is_badfilter, is_popup = _EVERY_PARTY, False, False, False, False
    lists: dict[str, list[str]] = {}
    for option in options:
        name, equals, value = option.partition("=")
        is_not = name.startswith("~")
        name = _ALIASES.get(name[is_not:].lower(), name[is_not:].lower())
        if name in _BITS and not equals:
            kinds, without = (kinds, without | _BITS[name]) if is_not else (kinds | _BITS[name], without)
        elif (name, is_not) in _PARTIES and not equals:
            parties &= _PARTIES[name, is_not]
        elif name == "popup":
            is_popup = is_popup or not is_not
        elif equals and value and not is_not and name in ("domain", "to", "denyallow", "method"):
            lists.setdefault(name, []).extend(value.lower().split("|"))
        elif is_not or equals:
            raise ValueError(_unusable(name))
        elif name == "all":
            kinds = _EVERY_KIND
        elif name == "match-case":
            match_case = True
        elif name == "important":
            is_important = True
        elif name == "badfilter":
            is_badfilter = True
        else:
            raise ValueError(_unusable(name))
    if is_popup and not kinds:
        raise ValueError(_NEW_WINDOW)
    if not parties:
        raise ValueError("options that exclude each other")
    is_regex = len(pattern) > 2 and pattern.startswith("/") and pattern.endswith("/")
    octets = pattern[1:-1].encode() if is_regex else _canonical(pattern, match_case=match_case)
    if is_regex:
        linear_regex(octets.decode(), match_case=match_case)
    if not kinds:
        is_whole = not is_regex and not without and octets.startswith(b"||") and _WHOLE.fullmatch(octets)
        kinds = _EVERY_KIND if is_whole else (_DEFAULT & ~_UNKNOWN if without else _DEFAULT)
    pages, hosts = _names(lists.get("domain", ())), _names(lists.get("to", ()), lists.get("denyallow", ()))
    found = _HOST.fullmatch(octets) if not is_regex else None
    host = found[1] if found and b"*" not in found[1] else b""
    if is_exception and host and kinds == _BITS["document"] and not lists:
        # "@@||host^$document" switches the blocker off for all that the site's pages ask for, themselves included
        pages = Names(frozenset((host.decode(),)))
        octets, host, kinds = b"", b"", _EVERY_KIND
    if not options and not is_regex and len(octets.strip(b"|*^")) < _SHORTEST:
        raise ValueError("a pattern that is too short: it would fit nearly every URL")
    is_important, kinds = is_important and not is_exception, kinds & ~without
    named = (pages, hosts, _methods(lists.get("method", ())))
    return NetworkFilter(
        text=text,
        is_exception=is_exception,
        is_important=is_important,
        is_badfilter=is_badfilter,
        pattern=octets,
        is_regex=is_regex,
        host=host,
        match_case=match_case,
        kinds=kinds,
        parties=parties,
        pages=pages,
        hosts=hosts,
        methods=named[-1],
        key=f"{is_exception:d}{is_important:d}{match_case:d}{is_regex:d} {kinds} {parties} {octets!r} "
        + " ".join("" if names is None else f"{sorted(names.only)}{sorted(names.but)}" for names in named),
    )


#: the longest of EasyList has 6,395 characters, and the one with most wildcards 4
_SHORTEST, _LONGEST, _MOST_WILDCARDS = 3, 1 << 13, 32
_WHOLE = re.compile(rb"\|\|(?:\*\.)?[^/?:|*^]+\^")


def _unusable(name: str) -> str:
    return f"${name} is not for a proxy" if name in _NOT_FOR_A_PROXY else "an option that is not known"


def _canonical(pattern: str, *, match_case: bool) -> bytes:
    """A pattern in octets as of a URL; in lower case unless case counts."""
    if _NEVER_SENT.search(pattern):
        raise ValueError("white space or a fragment, which no URL that is asked for has")
    if pattern.count("*") > _MOST_WILDCARDS:
        raise ValueError("a pattern with too many wildcards")
    if not pattern.isascii():
        anchor, host, rest = _UNICODE_HOST.fullmatch(pattern).groups()  # type: ignore[union-attr]
        name = to_ascii(host.encode()).decode("ascii", "replace") if host else ""
        pattern = anchor + name + "".join(map(_escaped, rest))
    octets = pattern.encode()
    if not match_case:
        octets = octets.lower()
    # "||host^|": the end of the host, in lists for DNS
    if octets.startswith(b"||") and octets.endswith(b"^|") and _HOST.fullmatch(octets[:-1]):
        octets = octets[:-1]
    return octets.rstrip(b"*") if octets.rstrip(b"*") not in (b"", b"|", b"||") else b""


_NEVER_SENT = re.compile(r"[\s#]")
_UNICODE_HOST = re.compile(r"(\|\||\|?https?://|)(?:(?<=.)([^/?:^*|]+))?(.*)", re.DOTALL)


def _escaped(letter: str) -> str:
    return letter if letter.isascii() else "".join(f"%{octet:02X}" for octet in letter.encode())


def _names(names: Sequence[str], denied: Sequence[str] = ()) -> Names | None:
    if not names and not denied:
        return None
    only, but = set[str](), set[str]()
    for name in (*names, *(f"~{own}" for own in denied)):
        host = name.removeprefix("~").strip()
        if not host or host.startswith(("/", "~")) or "*" in host.removesuffix(".*"):
            raise ValueError("a domain that is no name")
        plain = host if host.isascii() else to_ascii(host.encode()).decode("ascii", "replace")
        (but if name.startswith("~") else only).add(plain)
    return Names(frozenset(only), frozenset(but))


def _methods(methods: Sequence[str]) -> Names | None:
    names = _names(methods)
    if names is not None and not (names.only | names.but) <= _METHODS:
        raise ValueError("a method that is not known")
    return names
