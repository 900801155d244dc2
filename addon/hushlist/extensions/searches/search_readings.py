"""What was typed into a search, and the words of an address, as names of the request that rules may be for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote_to_bytes

from hushlist.core.decide.readings import HostReader
from hushlist.core.match.rule import Action
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.normalization import parameter_name, percent_decode_repeatedly, unescape_percent_u
from hushlist.core.url.parts import Parts
from hushlist.extensions.searches.engines import Engine, Engines
from hushlist.extensions.searches.word_lists import SEARCH_HOST, WORD_HOST, read_words
from hushlist.extensions.searches.words import combinations_of, words_of

# Spec: URL Standard, 5.1; some servers end a parameter at ";", too
_SEPARATOR = re.compile(rb"[&;]")


class SearchReadings:
    """Reads searches in requests, and words where a policy has a list of them."""

    hosts_of_names = (SEARCH_HOST, WORD_HOST)

    def __init__(self, policy: Policy) -> None:
        self._engines = Engines(policy.of("search-forms"))
        name = f"{read_words.__module__}:{read_words.__name__}"
        lists = (file for layer in policy.layers for file in layer.lists)
        self._has_words = policy.of("words-in-addresses") == "on" or any(file.format.reader == name for file in lists)
        self.needs_all = "words may stand in any address" if self._has_words else None

    def of_host(self, host: bytes) -> HostReader | None:
        """What reads the requests to a canonical host."""
        engines = self._engines.of_host(host)
        return WordReader(engines, has_words=self._has_words) if engines or self._has_words else None


class WordReader(HostReader):
    """Reads the requests to one host: those that search, and where words count, all."""

    has_inner = False
    via = "words of it"

    def __init__(self, engines: Sequence[Engine], *, has_words: bool) -> None:
        self._engines, self._has_words = engines, has_words
        self.hosts_of_names: Sequence[bytes] | None = (
            *((SEARCH_HOST,) if engines else ()),
            *((WORD_HOST,) if has_words else ()),
        )
        self.why_decrypt = "people may search at" if engines else ""

    def concerns(self, path: bytes, query: bytes | None) -> bool:
        """Whether people search at a path, or every word counts."""
        return self._has_words or any(engine.has_place(path) for engine in self._engines)

    def names(self, form: Parts, target: bytes) -> Iterator[Parts]:
        """A name for each combination of the words that were typed, and of those of the address."""
        query = target.partition(b"?")[2]
        if self._engines:
            yield from _names(form, SEARCH_HOST, combinations_of(typed_words(self._engines, form.path, query)))
        if self._has_words:
            text = b" ".join((form.host or b"", form.path, query))
            words = words_of(" ".join(_readings(text)))
            yield from _names(form, WORD_HOST, combinations_of(words, _WINDOW_OF_ADDRESS))

    def counted(self, matches: Sequence[Match]) -> Sequence[Match]:
        """All but those whose words an exception of the same layer has, too. The exception allows nothing else."""
        excepted = [
            (match.rule.terms.layer, _words(match)) for match in matches if match.rule.terms.action is Action.ALLOW
        ]
        return [
            match
            for match in matches
            if match.rule.terms.action is not Action.ALLOW
            and not any(layer == match.rule.terms.layer and _words(match) <= words for layer, words in excepted)
        ]

    def form_keys(self, path: bytes) -> frozenset[bytes]:
        """Those with what is typed there."""
        return frozenset(key for engine in self._engines for key in engine.form_keys(path))


def _words(match: Match) -> set[bytes]:
    return set(match.expression.partition(b"?")[2].split(b"+"))


#: of an address with many words, how many that follow each other are combined
_WINDOW_OF_ADDRESS = 4


def _names(form: Parts, host: bytes, queries: Iterable[bytes]) -> Iterator[Parts]:
    scheme = form.scheme
    return (Parts(scheme, None, host, None, b"/", query) for query in queries)


def typed_words(engines: Sequence[Engine], path: bytes, query: bytes) -> tuple[str, ...]:
    """The words that were typed into one of the engines, in normal form; a form's body may stand for the query.

    >>> typed_words(Engines().of_host(b"google.de"), b"/search", b"hl=en&Q=%4bill%2Bmyself&q=now")
    ('kill', 'myself', 'now')
    """
    parts = dict.fromkeys((*query.split(b"&"), *(_SEPARATOR.split(query) if b";" in query else ())))
    parameters = [(parameter_name(part), part.partition(b"=")[2]) for part in parts]
    typed = (value for engine in engines for value in engine.typed(path, parameters))
    return words_of(" ".join(text for value in dict.fromkeys(typed) for text in _readings(value)))


def _readings(octets: bytes) -> Iterator[str]:
    """The texts that a value may be: decoded once, as servers do, and as often as there are escapes."""
    octets = octets.replace(b"+", b" ")
    once = unquote_to_bytes(octets)
    yield _text(once)
    if b"%" in once:
        yield _text(unescape_percent_u(percent_decode_repeatedly(octets)))


def _text(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets.decode("cp1252", "ignore")
