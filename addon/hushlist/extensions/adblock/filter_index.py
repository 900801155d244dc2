"""The network filters of an index, by the requests that they fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hushlist.core.match.context import Context
from hushlist.core.match.index_table import IndexTable, TableRow
from hushlist.core.match.rule import Rule, Terms
from hushlist.core.match.rule_match import Match
from hushlist.extensions.adblock.filter_table import FilterRules, FilterTable, StoredFilter
from hushlist.extensions.adblock.network_filter import Asked, NetworkFilter


class FilterIndex:
    """Finds the network filters that fit a request."""

    def __init__(
        self,
        table: FilterTable,
        rows: IndexTable,
        terms_of: Callable[[TableRow], tuple[bool, Terms]],
        lists: Sequence[tuple[str, str]],
    ) -> None:
        """``rows``: by the digest of a filter, where it is from; ``terms_of``: the terms of a row come second;
        ``lists``: name and layer of each."""
        self._table, self._rows, self._terms_of, self._lists = table, rows, terms_of, lists

    def name_of(self, number: int) -> tuple[str, str]:
        """Name and layer of the list with a number, as ``Work`` has it."""
        return self._lists[number] if number < len(self._lists) else self._lists[-1]

    def on_host(self, name: bytes) -> list[Match]:
        """Filters for all of a canonical host: they depend on nothing else."""
        found = self._table.of_host(name)
        return self._matches(found, Asked(b"http://" + name + b"/", name, Context())) if found else []

    def find(self, asked: Asked, *, is_named: bool, is_stopped: bool, only_named: bool = False) -> list[Match]:
        """The others that fit a URL in its context; exceptions only if one of them, or another rule, stops it.

        ``is_named``: whether some name its host or a domain above it; ``only_named``: only those, and exceptions.
        Of lists that would take too long, the request's work tells that they were not all compared.
        """
        found = self._table.find(asked, is_named=is_named, only_named=only_named)
        matches = self._matches(found, asked) if found else []
        if is_stopped or matches:
            knowing = asked.knowing()
            matches += self._matches(self._table.find(knowing, is_named=is_named, exceptions=True), knowing)
        return matches

    def _matches(self, found: Iterable[StoredFilter], asked: Asked) -> list[Match]:
        matches: list[Match] = []
        for stored in found:
            if stored.rules is None:
                own = stored.read()
                stored.rules = FilterRules(self._rules_of(own), own.specificity, f"filter {own}", own.names_context)
            rules, specificity, via, names_context = stored.rules
            if names_context:
                via = f"{via}, for {asked.context}"
            for rule in rules:
                matches.append(Match(rule, asked.url, specificity, via))
        return matches

    def _rules_of(self, own: NetworkFilter) -> Sequence[Rule]:
        """The rules with a filter, but for those that another one of the same layer takes back."""
        taken_back = {self._terms_of(row)[1].layer for row in self._rows.find(own.badfilter_digest)}
        found = ((self._terms_of(row)[1], row.line) for row in self._rows.find(own.digest))
        return [Rule(own, terms, line) for terms, line in found if terms.layer not in taken_back]
