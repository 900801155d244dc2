"""Which language an Adblock list speaks: that of browsers' blockers, or that of name servers.

To a browser's blocker a pattern is about URLs; to AdGuard Home, AdGuard DNS or Pi-hole it is about names of hosts.
There, ``.mov|`` is a top-level name, and here the ending of a file. A list's head tells it, or else what can only be
meant in one of the two. What can be meant in both is read as browsers do, with a warning.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from hushlist.extensions.adblock.filter_reader import split_options

_OF_NAME_SERVERS = re.compile(
    r"AdGuard[ -]?(?:Home|DNS|S?DNS ?filter)|AdGuardSDNSFilter|HostlistsRegistry|Pi-?hole|Technitium|NextDNS|"
    r"\A!\s*(?:Title|Description)\s*:.*\bDNS\b",
    re.IGNORECASE,
)
_OF_BROWSERS = re.compile(r"uBlock|Adblock Plus (?:or|and)\b|AdGuard (?:Base|Browser|for)", re.IGNORECASE)
_COSMETIC = re.compile(r"#@?[$%?]{0,2}#|\$@?\$")
#: options that only one of the two knows
_QUERY_OPTION = re.compile(r"~?(?:dnstype|dnsrewrite|ctag|client)\b")
_EITHER_OPTION = re.compile(r"(?:important|badfilter|denyallow=.*|reason=.*|all|_+)\Z")
_WEB_SCHEME = re.compile(r"\|?(?:https?|wss?|\*)?:?//|\|(?:h|w|ht|htt|https?|wss?)\Z", re.IGNORECASE)
_WHOLE_HOST = re.compile(r"\|\|[\w.*-]+(?:\^\|?|\^\*)?|[\w-]+(?:\.[\w-]+)+")
_URL_SIGN = re.compile(r"[/?=&:%]")
_REGEX_OF_NAME = re.compile(r"\^(?!\(?\??:?(?:h|w|\.|\[|\\w|\*))|\(\?:?\^\|\\\.\)|\(\^\|\\\.\)|\(\\\.\|\^\)")
_REGEX_OF_URL = re.compile(r"/|\\\?|[=&:]|\\\.(?:js|gif|png|jpe?g|html?|php|css|swf|mp4|m3u8)\b")
#: a pattern that a name, or the end of a URL, may fit
_MAY_BE_NAME = re.compile(r"\|?[\w.*-]*\.[\w*-]+(?:\^|\|)|\|[\w.*-]+\^?\|?", re.ASCII)


class _Sign(Enum):
    NAMES = auto()
    URLS = auto()
    EITHER = auto()
    UNSURE = auto()


def language_of(text: str, form: str) -> tuple[str, str]:
    """The format of an Adblock list, and why that is not sure, for people; ``form``: the one that is given.

    >>> language_of("! Title: AdGuard DNS filter\\n.mov|\\n", "adblock")
    ('adblock-dns', '')
    >>> language_of("||a.example^\\n/ads/*.js\\n", "adblock"), language_of("! uBlock filters\\na.example", "adblock")
    (('adblock', ''), ('adblock-hosts', ''))
    """
    head = _head_of(text)
    for_names = any(map(_OF_NAME_SERVERS.search, head))
    for_browsers = any(map(_OF_BROWSERS.search, head))
    if for_names and not for_browsers:
        return "adblock-dns", ""
    if for_browsers and not for_names:
        return "adblock-hosts", ""
    if form == "adblock-hosts" and not for_names:
        return form, ""
    first: dict[_Sign, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.strip()
        if entry and entry[0] not in "![" and not (entry[0] == "#" and entry[1:2] in ("", " ", "#")):
            first.setdefault(_sign_of(entry), f"line {number}, {entry[:60]}")
    if for_names:
        return ("adblock-hosts" if _Sign.URLS in first else "adblock-dns"), ""
    if _Sign.NAMES in first and _Sign.URLS in first:
        return form, _BOTH.format(first[_Sign.NAMES], first[_Sign.URLS])
    if _Sign.NAMES in first:
        return "adblock-dns", _AS_NAMES.format(first[_Sign.NAMES])
    if _Sign.UNSURE in first and _Sign.URLS not in first:
        return form, _AS_URLS.format(first[_Sign.UNSURE])
    return form, ""


_BOTH = (
    "it is read as a list for browsers, though {} is about names of hosts, since {} is not; "
    "name its format: 'adblock-dns' for a list of AdGuard Home or Pi-hole, 'adblock-hosts' for others"
)
_AS_NAMES = (
    "it is read as a list for name servers (adblock-dns), since {} is about names of hosts, and no head tells; "
    "name its format: 'adblock-dns', or 'adblock-hosts' for a list for browsers"
)
_AS_URLS = (
    "it is read as a list for browsers, and {} may be about names of hosts; "
    "name its format: 'adblock-dns' for a list of AdGuard Home or Pi-hole, 'adblock-hosts' for others"
)


def _head_of(text: str) -> list[str]:
    """The lines before the first filter."""
    head = []
    for line in text.splitlines():
        if line.strip() and line[0] not in "![#":
            break
        head.append(line)
    return head


def _sign_of(entry: str) -> _Sign:
    """What a filter says about the language of its list."""
    if _COSMETIC.search(entry):
        return _Sign.URLS
    pattern, options = split_options(entry)
    if any(map(_QUERY_OPTION.match, options)):
        return _Sign.NAMES
    if not all(map(_EITHER_OPTION.match, options)):
        return _Sign.URLS
    if len(pattern) > 2 and pattern[0] == pattern[-1] == "/":
        source = pattern[1:-1]
        if _REGEX_OF_URL.search(source.replace("\\/", "/")):
            return _Sign.URLS
        return _Sign.NAMES if _REGEX_OF_NAME.match(source) else _Sign.UNSURE
    if _WHOLE_HOST.fullmatch(pattern):
        return _Sign.EITHER
    if _WEB_SCHEME.match(pattern) or _URL_SIGN.search(pattern):
        return _Sign.URLS
    if pattern.startswith("|") and not pattern.startswith("||"):
        return _Sign.NAMES  # no URL begins so
    return _Sign.UNSURE if _MAY_BE_NAME.fullmatch(pattern) else _Sign.EITHER
