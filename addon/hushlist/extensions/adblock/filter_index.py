"""The network filters of an index, by the requests that they fit.

They are compared with other URLs than the rest of the rules, and in the context of the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from hushlist.core.match.context import Context, Telling
from hushlist.core.match.matcher import PlacesOf, Sections
from hushlist.core.match.rule import Rule
from hushlist.core.match.rule_match import Match
from hushlist.core.url.parts import DEFAULT_PORTS, Parts, rooted
from hushlist.core.url.path_interpretations import FormBudget
from hushlist.core.url.request import WEBSOCKET, Request
from hushlist.extensions.adblock.filter_table import (
    FilterRules,
    FilterTable,
    StoredFilter,
    cost_of_key,
    find_keys,
    table_sections,
)
from hushlist.extensions.adblock.network_filter import NetworkFilter, UrlInContext, WordedFilter, Work


class FilterIndex:
    """Finds the network filters that fit a request; the ``Matcher`` of this extension."""

    def __init__(
        self, section: Callable[[str], memoryview], places_of: PlacesOf, lists: Sequence[tuple[str, str]], source: str
    ) -> None:
        self._table = FilterTable(section, source)
        self._places_of, self._lists = places_of, lists

    @staticmethod
    def sections(lists: Sequence[Sequence[WordedFilter]]) -> Sections:
        """The sections of a ``FilterTable``."""
        found_filters = find_keys(lists)
        places = {id(row): place for rows in lists for place, row in enumerate(rows)}
        left_out = [
            [(places[id(row)], row.line, row.text.decode().strip(), cost_of_key(key)) for row, key in of_list.left_out]
            for of_list in found_filters
        ]
        return Sections(table_sections(found_filters), left_out)

    def name_of(self, number: int) -> tuple[str, str]:
        """Name and layer of the list with a number, as ``Work`` has it."""
        return self._lists[number] if number < len(self._lists) else self._lists[-1]

    def on_host(self, name: bytes) -> list[Match]:
        """Filters for all of a canonical host: they depend on nothing else."""
        stored = self._table.of_host(name)
        return self._matches(stored, UrlInContext(b"http://" + name + b"/", name, Context())) if stored else []

    def of_request(self, request: Request, budget: FormBudget, *, may_guess: bool) -> FilteredRequest:
        """The request as filters see it."""
        return FilteredRequest(self, request, budget, may_guess=may_guess)

    def find(self, subject: UrlInContext, *, is_named: bool, is_stopped: bool, only_named: bool = False) -> list[Match]:
        """The others that fit a URL in its context; exceptions only if one of them, or another rule, stops it.

        ``is_named``: whether some name its host or a domain above it; ``only_named``: only those, and exceptions.
        Of lists that would take too long, the request's work tells that they were not all compared.
        """
        stored = self._table.find(subject, is_named=is_named, only_named=only_named)
        matches = self._matches(stored, subject) if stored else []
        if is_stopped or matches:
            knowing = subject.knowing()
            matches += self._matches(self._table.find(knowing, is_named=is_named, exceptions=True), knowing)
        return self._without_lifted_heads(subject.host, matches)

    def _without_lifted_heads(self, host: bytes, matches: list[Match]) -> list[Match]:
        """Matches without those about heads that an exception of their layer lifts though it names no head."""
        if all(_filter_of(match).decides for match in matches):
            return matches
        lifting = [match for match in (*matches, *self.on_host(host)) if _filter_of(match).is_exception]
        return [match for match in matches if not any(_lifts_head(other, match) for other in lifting)]

    def _matches(self, filters: Iterable[StoredFilter], subject: UrlInContext) -> list[Match]:
        matches: list[Match] = []
        for stored in filters:
            if stored.rules is None:
                network_filter = stored.read()
                stored.rules = FilterRules(
                    self._rules_of(network_filter),
                    network_filter.specificity,
                    f"filter {network_filter}",
                    network_filter.names_context,
                )
            rules, specificity, via, names_context = stored.rules
            if names_context:
                via = f"{via}, for {subject.context}"
            for rule in rules:
                matches.append(Match(rule, subject.url, specificity, via))
        return matches

    def _rules_of(self, network_filter: NetworkFilter) -> Sequence[Rule]:
        """The rules with a filter, but for those that another one of the same layer takes back."""
        taken_back = {terms.layer for terms, _ in self._places_of(network_filter.badfilter_digest)}
        places = self._places_of(network_filter.digest)
        return [Rule(network_filter, terms, line) for terms, line in places if terms.layer not in taken_back]


def _filter_of(match: Match) -> NetworkFilter:
    assert isinstance(match.rule.pattern, NetworkFilter)
    return match.rule.pattern


def _lifts_head(other: Match, match: Match) -> bool:
    is_of_layer = other.rule.terms.layer == match.rule.terms.layer
    return is_of_layer and _filter_of(other).lifts_head(_filter_of(match))


#: what no browser sends in a target as it is
_UNSENT = re.compile(rb"[\x00-\x20\x7f-\xff\"<>]")
_UNSENT_OCTETS = bytes(octet for octet in range(256) if _UNSENT.match(bytes((octet,))))


class FilteredRequest:
    """A request as network filters see it, with all its hosts and forms.

    As sent, as a browser writes it: with the port where it is not the default, nothing unescaped in path and query.
    Then without the port, and with the path as in the canonical form. In a query there are other URLs: the canonical
    one is only for filters that name the host, if there are such.

    >>> from hushlist.core.url.request import canonical_forms, request_of
    >>> request = request_of(b"http://H.example:81/%61?u=%2F")
    >>> (form,) = canonical_forms(request, b"h.example")
    >>> own = FilteredRequest(None, request, FormBudget(), may_guess=False)
    >>> for url, _ in own.urls(b"h.example", form, is_first=True, is_named=True): print(url.decode())
    http://h.example:81/%61?u=%2F
    http://h.example/%61?u=%2F
    http://h.example/a?u=%2F
    http://h.example/a?u=/
    """

    __slots__ = ("_filters", "_may_guess", "_path", "_port", "_query", "_scheme", "_sent", "_telling", "_work")

    def __init__(self, filters: FilterIndex | None, request: Request, budget: FormBudget, *, may_guess: bool) -> None:
        self._filters, self._may_guess = filters, may_guess
        self._telling, self._work = Telling(request), budget.work.setdefault("adblock", Work())
        self._scheme, target = request.scheme, request.target
        if self._telling.kind == "websocket":
            schemes = (scheme for scheme, as_http in WEBSOCKET.items() if as_http == request.scheme)
            self._scheme = next(schemes, request.scheme)
        self._port = b"" if request.port == DEFAULT_PORTS.get(request.scheme) else b":%d" % request.port
        if len(target.translate(None, _UNSENT_OCTETS)) < len(target):
            target = _UNSENT.sub(lambda match: b"%%%02X" % ord(match[0]), target)
        self._path, mark, query = target.partition(b"?")
        self._query, self._sent = mark + query, rooted(target)

    def urls(self, host: bytes, form: Parts, *, is_first: bool, is_named: bool) -> list[tuple[bytes, bool]]:
        """The URLs that one form has by one canonical host; each with whether only for filters that name it."""
        begin, path, query = self._scheme + b"://" + host, self._path, self._query
        urls = []
        if is_first:
            if self._port:
                urls.append((begin + self._port + self._sent, False))
            urls.append((begin + self._sent, False))
        if not is_first or form.path != path:
            urls.append((begin + form.path + query, False))
        if is_named:
            canonical = b"" if form.query is None else b"?" + form.query
            if canonical != query:
                urls.append((begin + form.path + canonical, True))
        return urls

    def matches(
        self, host: bytes, form: Parts, *, is_first: bool, is_named: bool, is_stopped: bool
    ) -> list[list[Match]]:
        """The matches for each of these URLs; ``is_stopped``: whether another rule stops the request."""
        assert self._filters is not None
        matches = []
        for url, only_named in self.urls(host, form, is_first=is_first, is_named=is_named):
            subject = UrlInContext(url, host, self._telling, may_guess=self._may_guess, work=self._work)
            matches.append(self._filters.find(subject, is_named=is_named, is_stopped=is_stopped, only_named=only_named))
        return matches

    @property
    def spent(self) -> list[tuple[str, str]]:
        """Name and layer of the lists of which more would have to be compared than may be for the request."""
        assert self._filters is not None
        spent = self._work.spent
        return [self._filters.name_of(number) for number in sorted(spent)] if spent else []
