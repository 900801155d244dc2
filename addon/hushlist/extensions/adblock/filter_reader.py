"""Reads network filters, in either of the languages in which Adblock lists are written.

A filter of a list for *browsers* is compared with URLs, in the context in which they are asked for. A filter of a list
for *name servers* (AdGuard Home, AdGuard DNS, Pi-hole) is compared with the name of a host, and with nothing else: its
pattern has no path, and no option but those that a name can be judged by.

>>> from hushlist.core.match.context import Context
>>> from hushlist.extensions.adblock.network_filter import UrlInContext
>>> parse_filter("/ads/*.js$script").fits(UrlInContext(b"http://h/ads/x.js", b"h", Context(kind="script")))
True
>>> parse_filter("|ads*.com^", of_names=True).fits(UrlInContext(b"http://ads1.com/", b"ads1.com", Context()))
True

Spec: https://help.adblockplus.org/hc/en-us/articles/360062733293, How to write filters;
https://github.com/gorhill/uBlock/wiki/Static-filter-syntax;
https://adguard-dns.io/kb/general/dns-filtering-syntax/ and github.com/AdguardTeam/urlfilter, for names
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from hushlist.core.url.host import to_ascii
from hushlist.extensions.adblock.head_options import HEAD_OPTIONS, OF_PAGES, head_effect
from hushlist.extensions.adblock.linear_regex import linear_regex
from hushlist.extensions.adblock.network_filter import (
    BITS,
    DEFAULT_KINDS,
    EVERY_KIND,
    EVERY_PARTY,
    FIRST,
    HOST_PATTERN,
    THIRD,
    UNKNOWN_KIND,
    Names,
    NetworkFilter,
)

#: the longest of EasyList has 6,395 characters, and the one with most wildcards 4
_SHORTEST, _LONGEST, _MOST_WILDCARDS = 3, 1 << 13, 32
_TOO_SHORT = "a pattern that is too short: it would fit nearly every URL"

# -- options -----------------------------------------------------------------------------------------------------------

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
    "queryprune": "removeparam",
}
_PARTIES = {
    ("third-party", False): THIRD,
    ("third-party", True): FIRST,
    ("first-party", False): FIRST,
    ("first-party", True): THIRD,
}
#: options -> why a filter with one of them is left out
_LEFT_OUT = {
    name: why
    for names, why in (
        ("trusted-types", "it changes the header of an answer, and stops nothing"),
        ("removeparam uritransform urltransform urlskip", "it changes the address, and stops nothing"),
        ("replace hls jsonprune xmlprune protobuf", "it changes the content of an answer, and stops nothing"),
        ("responseheader ipaddress", "it decides by the answer, and a request is decided before it is sent"),
        ("requestheader", "it decides by fields of a request that no filter here looks at"),
        ("cname", "it decides by the names that a name server answers with"),
        ("redirect-rule", "how something is answered that another filter stops; it is answered neutrally here anyway"),
        (
            "elemhide generichide specifichide genericblock urlblock jsinject content extension stealth",
            "it is about what a blocker does in a page",
        ),
        ("inline-script inline-font webrtc", "what is in a page is not asked for"),
        ("app network sitekey", "nothing tells a proxy what it decides by"),
        ("client ctag", "which clients it is for is what the groups of a policy say"),
        ("dnstype", "it is about kinds of DNS queries, and no request has one"),
    )
    for name in names.split()
}
_ALIASES |= {"ehide": "elemhide", "ghide": "generichide", "shide": "specifichide"}
_METHODS = frozenset(("connect", "delete", "get", "head", "options", "patch", "post", "put", "trace"))
_NEW_WINDOW = "popup: a proxy cannot tell a new window"
_UNKNOWN = "an option that is not known"
_LISTS = ("domain", "to", "denyallow", "method")
#: resources that are empty -> the type that asks for each: to be answered with one is to be blocked. Others are
#: scripts that do less than the one that is asked for: nothing here has them, and what is asked for is blocked
#: Spec: https://github.com/gorhill/uBlock/wiki/Resources-Library, Empty redirect resources;
#: https://help.adblockplus.org/hc/en-us/articles/360062733293, Rewrite
_EMPTY = {
    name: kind
    for kind, names in {
        "script": "noop.js noopjs blank-js",
        "image": "1x1.gif 1x1-transparent.gif 1x1-transparent-gif 2x2.png 2x2-transparent.png 2x2-transparent-png "
        "3x2.png 3x2-transparent.png 3x2-transparent-png 32x32.png 32x32-transparent.png 32x32-transparent-png",
        "subdocument": "noop.html noopframe blank-html",
        "stylesheet": "noop.css noopcss blank-css",
        "media": "noop-0.1s.mp3 noopmp3-0.1s noop-0.5s.mp3 noop-1s.mp4 noopmp4-1s blank-mp3 blank-mp4",
        "xmlhttprequest": "noop-vmap1.xml noop-vmap1.0.xml noopvmap-1.0 noop-vast2.xml noopvast-2.0 noop-vast3.xml "
        "noopvast-3.0 noop-vast4.xml noopvast-4.0 noop.json",
        "": "noop.txt nooptext blank-text empty none",
    }.items()
    for name in names.split()
}
_PRIORITY = re.compile(r":-?[0-9]+$")
#: answers of ``dnsrewrite`` by which nothing is reached
_NO_ANSWER = frozenset(("refused", "nxdomain", "servfail", "noerror", "noerror;;", "refused;;", "nxdomain;;"))
_NAMES_ADDRESS = "$dnsrewrite: names get no addresses here; leave them to the name server"
_LIFTS_REWRITE = "$dnsrewrite: it lifts what rewrites names, which nothing here does"

#: one option: a name and its value; a regular expression in it may have commas, others stand behind a backslash
_OPTION = re.compile(
    r"[ \t]*+(~?[A-Za-z0-9_-]++)[ \t]*+"
    r"(?:=((?>(?<![^=|:~ ])/(?>[^/\\]|\\.)++/[a-z]*+(?=[,|]|\Z)|\\.|[^,\\]|\\\Z)*+))?(?:,|\Z)"
)
_MOST_DOLLARS = 16


def split_options(text: str) -> tuple[str, list[str]]:
    r"""The pattern of a filter and its options, without "@@": they begin behind the last "$" that only options follow.

    >>> split_options("||h.example^$script,domain=a.example")
    ('||h.example^', ['script', 'domain=a.example'])
    >>> split_options(r"/ads$/$domain=/^(a|b),?\.example$/,script")
    ('/ads$/', ['domain=/^(a|b),?\\.example$/', 'script'])
    >>> split_options("/banner[0-9]$/")
    ('/banner[0-9]$/', [])
    """
    body = text.removeprefix("@@")
    end = len(body)
    for _ in range(_MOST_DOLLARS):
        end = body.rfind("$", 0, end)
        if end < 0:
            break
        if (end == 0 or body[end - 1] != "\\") and (options := _options(body, end + 1)) is not None:
            return body[:end], options
    return body, []


def _options(body: str, place: int) -> list[str] | None:
    """The options from a place to the end; ``None`` if something else is there."""
    options = []
    if place == len(body):
        return None
    while place < len(body):
        option = _OPTION.match(body, place)
        if option is None:
            return None
        name, value = option.groups()
        if name.strip("_"):
            options.append(name if value is None else f"{name}={value.strip()}")
        place = option.end()
    return options


@dataclass(slots=True)
class _Options:
    """What the options of a filter say together."""

    kinds: int = 0
    without: int = 0
    parties: int = EVERY_PARTY
    match_case: bool = False
    is_important: bool = False
    is_badfilter: bool = False
    is_popup: bool = False
    #: ``strict1p``, ``strict3p``: whether page and request have to have one host, or two
    same_host: bool | None = None
    #: ``redirect``: the type of the resource that is answered
    resource: str | None = None
    lists: dict[str, list[str]] = field(default_factory=dict)
    #: of ``HEAD_OPTIONS``, with their values
    heads: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: str | None, *, is_not: bool, is_exception: bool) -> None:
        """Add an option; ``ValueError`` with the kind if the filter has to be left out."""
        if name in BITS and value is None:
            if is_not:
                self.without |= BITS[name]
            else:
                self.kinds |= BITS[name]
        elif (name, is_not) in _PARTIES and value is None:
            self.parties &= _PARTIES[name, is_not]
        elif name in ("strict1p", "strict3p") and value is None:
            same = (name == "strict1p") is not is_not
            if self.same_host is not None and self.same_host is not same:
                raise ValueError(_EXCLUDE)
            self.same_host = same
        elif name == "popup":
            self.is_popup = self.is_popup or not is_not
        elif value and not is_not and name in _LISTS:
            self.lists.setdefault(name, []).extend(_listed(value))
        elif name in HEAD_OPTIONS and not is_not:
            self.heads[name] = value or ""
        elif name in ("redirect", "rewrite", "empty", "mp4") and not is_not:
            self._redirect(name, value or "", is_exception=is_exception)
        elif is_not or value is not None:
            raise ValueError(_unusable(name))
        elif name == "all":
            self.kinds = EVERY_KIND
        elif name in ("match-case", "important", "badfilter"):
            self.match_case |= name == "match-case"
            self.is_important |= name == "important"
            self.is_badfilter |= name == "badfilter"
        else:
            raise ValueError(_unusable(name))

    def add_of_names(self, name: str, value: str | None, *, is_not: bool, is_exception: bool) -> None:
        """Take in an option of a filter in a list for name servers."""
        if name in ("important", "badfilter") and value is None and not is_not:
            self.add(name, value, is_not=False, is_exception=is_exception)
        elif name == "denyallow" and value and not is_not:
            self.lists.setdefault(name, []).extend(_listed(value))
        elif name == "dnsrewrite":
            if is_exception:
                raise ValueError(_LIFTS_REWRITE)
            if not _leads_nowhere(value or ""):
                raise ValueError(_NAMES_ADDRESS)
        elif name in _OF_CLIENTS_OR_QUERIES:
            raise ValueError(_unusable(name))
        elif name in (*BITS, *_LISTS, *_LEFT_OUT, *HEAD_OPTIONS) or (name, False) in _PARTIES or name in _OF_URLS:
            raise ValueError(f"${name}: a name server sees a name, and nothing that this decides by")
        else:
            raise ValueError(_UNKNOWN)

    def _redirect(self, name: str, value: str, *, is_exception: bool) -> None:
        if is_exception:
            raise ValueError(f"${name}: {_LEFT_OUT['redirect-rule']}")
        resource = {"empty": "nooptext", "mp4": "noopmp4-1s"}.get(name, value.removeprefix("abp-resource:"))
        resource = _PRIORITY.sub("", resource).lower()
        self.resource = _EMPTY.get(resource, "script" if resource.endswith(".js") else "")


_EXCLUDE = "options that exclude each other"
_OF_CLIENTS_OR_QUERIES = ("client", "ctag", "dnstype")
_OF_URLS = ("all", "popup", "match-case", "redirect", "rewrite", "empty", "mp4", "strict1p", "strict3p")


def _unusable(name: str) -> str:
    return f"${name}: {_LEFT_OUT[name]}" if name in _LEFT_OUT else _UNKNOWN


def _leads_nowhere(value: str) -> bool:
    """Whether a name that is answered so leads nowhere.

    >>> [*map(_leads_nowhere, ("REFUSED", "0.0.0.0", "NOERROR;AAAA;::", "192.0.2.1", "NOERROR;CNAME;h.example", ""))]
    [True, True, True, False, False, False]
    """
    value = value.strip().lower()
    if value in _NO_ANSWER:
        return True
    if value.startswith("noerror;"):
        value = value.rpartition(";")[2]
    try:
        address = ip_address(value)
    except ValueError:
        return False
    return address.is_unspecified or address.is_loopback


_LISTED = re.compile(r"~?/(?>[^/\\]|\\.)++/(?=\||\Z)|[^|]++")


def _listed(value: str) -> list[str]:
    r"""The names of an option; a regular expression may have "|".

    >>> _listed(r"A.example|/^(b|\D)\./|~D.example")
    ['a.example', '/^(b|\\D)\\./', '~d.example']
    """
    return [name if name.lstrip("~").startswith("/") else name.lower() for name in _LISTED.findall(value)]


# -- filters -----------------------------------------------------------------------------------------------------------


def parse_filter(text: str, *, of_names: bool = False, is_nearest: bool = False) -> NetworkFilter:
    """A network filter; ``of_names``: of a list for name servers; ``is_nearest`` as there.

    Raises ``ValueError`` with its kind if it is none that a proxy can apply.
    """
    if len(text) > _LONGEST:
        raise ValueError("a filter that is too long")
    pattern, options = split_options(text)
    is_exception, said = text.startswith("@@"), _Options()
    for option in options:
        name, equals, value = option.partition("=")
        is_not = name.startswith("~")
        name = _ALIASES.get(name[is_not:].lower(), name[is_not:].lower())
        add = said.add_of_names if of_names else said.add
        add(name, value if equals else None, is_not=is_not, is_exception=is_exception)
    if said.is_popup and not said.kinds:
        raise ValueError(_NEW_WINDOW)
    if not said.parties or (said.same_host and said.parties == THIRD):
        raise ValueError(_EXCLUDE)
    is_regex = len(pattern) > 2 and pattern.startswith("/") and pattern.endswith("/")
    if is_regex:
        octets = pattern[1:-1].encode()
        if of_names and not octets.isascii():
            raise ValueError(_NO_LETTERS)
        linear_regex(octets.decode(), match_case=said.match_case)
    else:
        octets = _name_pattern(pattern) if of_names else _canonical(pattern, match_case=said.match_case)
    head = head_effect(said.heads, lifts=is_exception) if said.heads else None
    is_exception = is_exception and head is None
    kinds, without = said.kinds, said.without
    if head is not None and not kinds and head.option != "header":
        kinds = BITS["document"] | BITS["subdocument"] if head.option in OF_PAGES else EVERY_KIND
    if not kinds and said.resource:
        kinds = BITS[said.resource]
    if of_names:
        kinds = EVERY_KIND
    elif not kinds:
        is_whole = not is_regex and not without and octets.startswith(b"||") and _WHOLE.fullmatch(octets)
        kinds = EVERY_KIND if is_whole else (DEFAULT_KINDS & ~UNKNOWN_KIND if without else DEFAULT_KINDS)
    pages = _names(said.lists.get("domain", ()))
    hosts = _names(said.lists.get("to", ()), said.lists.get("denyallow", ()))
    whole_host = HOST_PATTERN.fullmatch(octets) if not is_regex else None
    host = whole_host[1] if whole_host and b"*" not in whole_host[1] else b""
    if is_exception and host and kinds == BITS["document"] and not said.lists and said.same_host is None:
        # "@@||host^$document" switches the blocker off for all that the site's pages ask for, themselves included
        pages = Names(frozenset((host.decode(),)))
        octets, host, kinds = b"", b"", EVERY_KIND
    if not (options or is_regex or is_nearest) and len(octets.strip(b"|*^")) < _SHORTEST:
        raise ValueError(_TOO_SHORT)
    kinds &= ~without
    named = (pages, hosts, _methods(said.lists.get("method", ())))
    flags = (of_names, is_nearest, is_exception, said.is_important, said.match_case, is_regex)
    return NetworkFilter(
        text=text,
        of_names=of_names,
        is_nearest=is_nearest,
        is_exception=is_exception,
        is_important=said.is_important,
        is_badfilter=said.is_badfilter,
        pattern=octets,
        is_regex=is_regex,
        host=host,
        match_case=said.match_case,
        kinds=kinds,
        parties=said.parties,
        same_host=said.same_host,
        pages=pages,
        hosts=hosts,
        methods=named[-1],
        head=head,
        key=f"{''.join(map(str, map(int, flags)))} {kinds} {said.parties} {octets!r} "
        + " ".join("" if names is None else f"{sorted(names.only)}{sorted(names.but)}" for names in named)
        + ("" if said.same_host is None else f" {said.same_host:d}")
        + ("" if head is None else f" {head}"),
    )


_NO_LETTERS = "a regular expression of names with letters that no name has as they are: write A-labels (xn--...)"
_WHOLE = re.compile(rb"\|\|(?:\*\.)?[^/?:|*^]+\^")


def _canonical(pattern: str, *, match_case: bool) -> bytes:
    """A pattern in octets as of a URL; in lower case unless case counts."""
    if _NEVER_SENT.search(pattern):
        raise ValueError("white space or a fragment, which no URL that is asked for has")
    if pattern.count("*") > _MOST_WILDCARDS:
        raise ValueError(_WILDCARDS)
    if not pattern.isascii():
        anchor, host, rest = _UNICODE_HOST.fullmatch(pattern).groups()  # type: ignore[union-attr]
        name = to_ascii(host.encode()).decode("ascii", "replace") if host else ""
        pattern = anchor + name + "".join(map(_escaped, rest))
    octets = pattern.encode()
    if not match_case:
        octets = octets.lower()
    # "||host^|": the end of the host, in lists for DNS
    if octets.startswith(b"||") and octets.endswith(b"^|") and HOST_PATTERN.fullmatch(octets[:-1]):
        octets = octets[:-1]
    return octets.rstrip(b"*") if octets.rstrip(b"*") not in (b"", b"|", b"||") else b""


_WILDCARDS = "a pattern with too many wildcards"
_NEVER_SENT = re.compile(r"[\s#]")
_UNICODE_HOST = re.compile(r"(\|\||\|?https?://|)(?:(?<=.)([^/?:^*|]+))?(.*)", re.DOTALL)


def _escaped(letter: str) -> str:
    return letter if letter.isascii() else "".join(f"%{octet:02X}" for octet in letter.encode())


#: what a pattern for names may begin with in place of "|": it is compared with "http://NAME"; and "/name." means that
_SCHEME = re.compile(r"\|?(?:https?:)?//|://|/(?=[a-z0-9.-]*\.\Z)", re.IGNORECASE)
#: a pattern that a name can fit: a mark or an end stands at its end alone
_OF_NAME = re.compile(rb"(?:\|\||\|)?(?:[a-z0-9_.*-]*|\[[0-9a-f:.]+\])(?:\^?\|?|\^\*?|\*\|?)")


def _name_pattern(pattern: str) -> bytes:
    r"""A pattern for names in octets; ``ValueError`` if no name can fit it.

    >>> _name_pattern("://ads."), _name_pattern("|*.SBS^"), _name_pattern("||ads.example/*")
    (b'|ads.', b'|*.sbs|', b'||ads.example^')
    """
    if pattern.count("*") > _MOST_WILDCARDS:
        raise ValueError(_WILDCARDS)
    if scheme := _SCHEME.match(pattern):
        pattern = "|" + pattern[scheme.end() :]
    if pattern.endswith("/*"):
        pattern = pattern[:-2] + "^"
    if not pattern.isascii():
        pattern = ".".join(map(_a_label, pattern.split(".")))
    octets = pattern.lower().encode("ascii", "replace")
    if not _OF_NAME.fullmatch(octets):
        raise ValueError("a pattern that no name of a host can fit")
    # a name ends where a mark fits, and a mark does not fit anywhere else in it
    for ending in (b"^|", b"^*", b"^"):
        if octets.endswith(ending) and octets.strip(b"|^*"):
            is_whole = HOST_PATTERN.fullmatch(octets.removesuffix(ending) + b"^")
            return octets.removesuffix(ending) + (b"^" if is_whole else b"|")
    return octets.rstrip(b"*") if octets.rstrip(b"*") not in (b"", b"|", b"||") else b""


def _a_label(label: str) -> str:
    """A label with its anchors in front and behind, of which the part between is an A-label."""
    plain = label.strip("|^*")
    before, _, after = label.partition(plain) if plain else (label, "", "")
    return before + to_ascii(plain.encode()).decode("ascii", "replace") + after


def _names(names: Sequence[str], denied: Sequence[str] = ()) -> Names | None:
    if not names and not denied:
        return None
    only, but, has_expressions = set[str](), set[str](), False
    for name in (*names, *(f"~{denied_name}" for denied_name in denied)):
        host = name.removeprefix("~").strip()
        is_regex = len(host) > 2 and host.startswith("/") and host.endswith("/")
        if is_regex:
            has_expressions = True
            if not host.isascii():
                raise ValueError(_NO_LETTERS)
            linear_regex(host[1:-1], match_case=False)
        elif not host or host.startswith(("/", "~")) or "*" in host.removesuffix(".*"):
            raise ValueError("a domain that is no name")
        plain = host if host.isascii() or is_regex else to_ascii(host.encode()).decode("ascii", "replace")
        (but if name.startswith("~") else only).add(plain)
    return Names(frozenset(only), frozenset(but), has_expressions)


def _methods(methods: Sequence[str]) -> Names | None:
    names = _names(methods)
    if names is not None and not (names.only | names.but) <= _METHODS:
        raise ValueError("a method that is not known")
    return names
