"""What network filters of Adblock lists say of a request: for each URL that it may be for them.

They are compared with other URLs than the rest of the rules, and in the context of the request.
"""

from __future__ import annotations

from collections.abc import Sequence

from hushlist.core.match.context import Telling
from hushlist.core.match.rule_match import Match
from hushlist.core.url.parts import Parts
from hushlist.core.url.path_interpretations import FormBudget
from hushlist.core.url.request import Request, filtered_urls, plain_filtered_urls
from hushlist.extensions.adblock.filter_index import FilterIndex
from hushlist.extensions.adblock.network_filter import Asked, Work


class RequestBudget(FormBudget):
    """What may still be done for one request, by all its names, readings and targets."""

    __slots__ = ("work",)

    def __init__(self) -> None:
        super().__init__()
        self.work = Work()


class FilteredRequest:
    """A request as network filters see it, with all its hosts and forms."""

    __slots__ = ("_filters", "_may_guess", "_request", "_telling", "_work")

    def __init__(self, filters: FilterIndex, request: Request, work: Work | None = None, *, may_guess: bool) -> None:
        """``work``: of the whole request; ``may_guess``: whether a filter fits what is not known of the context."""
        self._filters, self._request, self._may_guess = filters, request, may_guess
        self._telling, self._work = Telling(request), work or Work()

    def urls(self, host: bytes, form: Parts, *, is_first: bool, is_named: bool) -> Sequence[tuple[bytes, bool]]:
        """The URLs that one form has by one canonical host; each with whether only for filters that name it.

        ``is_named``: whether filters name the host or a domain above it.
        """
        is_websocket = self._telling.is_websocket
        return filtered_urls(self._request, host, form, is_websocket=is_websocket, is_first=is_first, is_named=is_named)

    def plain_urls(self, host: bytes, *, is_named: bool) -> Sequence[tuple[bytes, bool]] | None:
        """The same, much faster, for a request that is as a browser sends it, as most are; ``None`` for others."""
        return None if self._telling.is_websocket else plain_filtered_urls(self._request, host, is_named=is_named)

    @property
    def spent(self) -> list[tuple[str, str]]:
        """Name and layer of the lists of which more would have to be compared than may be for the request."""
        spent = self._work.spent
        return [self._filters.name_of(number) for number in sorted(spent)] if spent else []

    def matches(self, url: bytes, host: bytes, *, is_named: bool, is_stopped: bool, only_named: bool) -> list[Match]:
        """The matches for one of these URLs; ``is_stopped``: whether another rule stops it."""
        asked = Asked(url, host, self._telling, may_guess=self._may_guess, work=self._work)
        return self._filters.find(asked, is_named=is_named, is_stopped=is_stopped, only_named=only_named)
