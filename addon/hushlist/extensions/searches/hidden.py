"""What was searched, taken out of URLs that are written down or shown.

>>> hidden = HiddenSearches()
>>> hidden("https://www.google.com/search?hl=en&q=kill"), hidden("https://duckduckgo.com/kill")
('https://www.google.com/search?(search-removed)', 'https://duckduckgo.com/(search-removed)')
>>> hidden("https://h.example/ping?ref=https%3A%2F%2Fwww.bing.com%2Fsearch%3Fq%3Dkill")
'https://h.example/ping?(search-removed)'
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from itertools import chain, islice, takewhile

from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.normalization import parameter_name, percent_decode_repeatedly
from hushlist.extensions.searches.engines import Engine, Engines
from hushlist.extensions.searches.word_lists import SEARCH_HOST, WORD_HOST

#: what stands in place of a search
REMOVED = "(search-removed)"

#: a URL, or an expression: scheme, authority, path, and what follows
_URL = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*://)?)([^/?#\\]*)([^?#]*)(.*)", re.DOTALL)
#: the host of another URL, and what it may stand after in a path or a value
_HOST_WITHIN = re.compile(rb"(?::/+|=)([a-z0-9.-]{3,255})", re.IGNORECASE)
_SEPARATORS = re.compile(rb"[?#&;]")
#: paths to which pages send what is typed so far
_SUGGESTIONS = re.compile(rb"sugg|complet|typeahead|/ac(?:/|\Z)|/sug(?:/|\Z)", re.IGNORECASE)
#: the end of a host that shows the pages of another: a dot is written as a hyphen, and a hyphen as two
_TRANSLATED = b".translate.goog"
#: a table that leaves labels of hosts, and spaces in the place of what stands between them
_LABELS = bytes(octet if octet in b"abcdefghijklmnopqrstuvwxyz0123456789-" else ord(" ") for octet in range(256))
#: so many addresses of engines inside a URL are looked at; what has more is taken for a search
_MOST_WITHIN = 8
#: characters of an authority whose engines are kept
_LONGEST_KEPT = 256


class HiddenSearches:
    """Takes what was typed out of the text of a URL or an expression; all parameters go with it, as some repeat it.

    In time linear in the text.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self._engines = Engines(() if policy is None else policy.of("search-forms"))
        of_others = chain.from_iterable(host.split(b".") for host in (SEARCH_HOST, WORD_HOST, _TRANSLATED))
        #: labels of which a text has one if anything in it may be a search
        self._labels = self._engines.labels.union(of_others)
        self._of_authority = lru_cache(1024)(partial(_of_authority, self._engines))

    def __call__(self, text: str) -> str:
        """A text without what was searched."""
        octets = percent_decode_repeatedly(text.encode("ascii", "backslashreplace"))
        if not self._has_label(octets):  # as nearly every text
            return text
        match = _URL.match(text)
        if match is None or len(match[0]) == len(match[1] + match[2]):
            return text
        head = match[1] + match[2]
        path, rest = (part.encode("ascii", "backslashreplace") for part in (match[3], match[4]))
        of_authority = self._of_authority if len(match[2]) <= _LONGEST_KEPT else self._of_authority.__wrapped__
        engines = of_authority(match[2])
        if engines is None:
            return f"{head}/?{REMOVED}"
        path, rest = percent_decode_repeatedly(path), rest and percent_decode_repeatedly(rest)
        if (begin := _begin(engines, path)) is not None:
            return f"{head}{begin.decode()}{REMOVED}"
        may_be_within = self._has_label(path + rest)
        if may_be_within and self._is_within(path + rest, len(path)):
            return f"{head}/{REMOVED}"
        if rest and (_has_keys(engines, path, rest) or (may_be_within and self._is_within(rest, len(rest)))):
            return f"{head}{match[3]}?{REMOVED}"
        return text

    def _has_label(self, octets: bytes) -> bool:
        """Whether a decoded text has a label of a host whose searches are hidden; if not, there is none in it."""
        return not self._labels.isdisjoint(octets.lower().translate(_LABELS).split())

    def _is_within(self, text: bytes, end: int) -> bool:
        """Whether an address that begins before an end, inside a decoded text, is that of a search."""
        near = self._near(text, end)
        for place, (after, engines) in enumerate(near):
            path, query = _parted(text[after:])
            if place == _MOST_WITHIN or _begin(engines, path) is not None or _has_keys(engines, path, query):
                return True
        return False

    def _near(self, text: bytes, end: int) -> list[tuple[int, list[Engine]]]:
        """Where engines' hosts end in a text, with the engines; one more than are looked at."""
        hosts = takewhile(lambda host: host.start(1) <= end, _HOST_WITHIN.finditer(text))
        named = ((host.end(), _of_host(self._engines, host[1].lower().rstrip(b"."))) for host in hosts)
        return list(islice((pair for pair in named if pair[1]), _MOST_WITHIN + 1))


def _of_authority(engines: Engines, authority: str) -> list[Engine] | None:
    """The engines of a URL's authority; ``None`` for a host that only stands for searches."""
    host = percent_decode_repeatedly(authority.encode("ascii", "backslashreplace")).lower()
    host = host.rpartition(b"@")[2].partition(b":")[0].rstrip(b".")
    return None if host in (SEARCH_HOST, WORD_HOST) else _of_host(engines, host)


def _of_host(engines: Engines, host: bytes) -> list[Engine]:
    """The engines of a host, or of that whose pages it translates."""
    if host.endswith(_TRANSLATED):
        host = host.removesuffix(_TRANSLATED).replace(b"--", b"\0").replace(b"-", b".").replace(b"\0", b"-")
    return engines.of_host(host)


def _parted(text: bytes) -> tuple[bytes, bytes]:
    """A path, and what follows."""
    cut = _SEPARATORS.search(text)
    return (text, b"") if cut is None else (text[: cut.start()], text[cut.start() :])


def _begin(engines: list[Engine], path: bytes) -> bytes | None:
    """How a path begins that has what is typed at its end; ``None`` for others."""
    for engine in engines:
        if any(engine.typed(path, ())):
            return next(begin for begin in engine.begins if path.startswith(begin))
    return None


def _has_keys(engines: list[Engine], path: bytes, query: bytes) -> bool:
    """Whether what follows a path at an engine has a parameter for what is typed, or is a suggestion's."""
    if not engines or not query:
        return False
    if _SUGGESTIONS.search(path):
        return True
    names = {parameter_name(part) for part in _SEPARATORS.split(query) if part}
    return any(names & engine.keys for engine in engines)
