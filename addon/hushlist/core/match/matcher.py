"""What an extension brings that has a type of pattern beside core's: how its rules stand in an index, and are found.

A rule with such a pattern is a *filter*. Readers of lists make ``FilterPattern``s; the extension's matcher writes them
into sections of the index, and finds them there again for a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hushlist.core.extension import extension_named, load

if TYPE_CHECKING:
    from hushlist.core.match.rule import Terms
    from hushlist.core.match.rule_match import Match
    from hushlist.core.url.parts import Parts
    from hushlist.core.url.path_interpretations import FormBudget
    from hushlist.core.url.request import Request


class Placed(NamedTuple):
    """How a filter stands in an index."""

    #: what ``Matcher.sections`` gets of it, which can be pickled; ``None``: it only takes back other rules
    row: Any
    #: the host below which it fits; empty: it may fit any host; ``None``: the host alone decides
    host: bytes | None = None
    #: whether it may fit hosts that nobody has named
    may_be_broad: bool = False
    #: the expression of the rule for a host that it takes back in its layer, if its list is one of filters
    takes_back: bytes = b""


class Sections(NamedTuple):
    """The sections of an index for all filters of an extension."""

    sections: Mapping[str, bytes]
    #: for each list, the places of its filters that are left out: line, text, and why
    left_out: Sequence[Sequence[tuple[int, int, str, str]]]


#: the key of a filter's pattern -> the terms and the line of each rule that has it
PlacesOf = Callable[[bytes], "list[tuple[Terms, int]]"]


class Matcher(Protocol):
    """The filters of an extension in an index."""

    def __init__(
        self, section: Callable[[str], memoryview], places_of: PlacesOf, lists: Sequence[tuple[str, str]], source: str
    ) -> None:
        """``lists``: name and layer of each; ``source``: the index's, for ``IndexFileError``.

        Raises:
            LookupError, ValueError, TypeError: a section is not there, or cannot be read.
        """

    @staticmethod
    def sections(lists: Sequence[Sequence[Any]]) -> Sections:
        """The sections for the rows of each list, as ``Placed`` has them."""

    def on_host(self, name: bytes) -> list[Match]:
        """The matches for all of a canonical host."""

    def of_request(self, request: Request, budget: FormBudget, *, may_guess: bool) -> RequestMatcher:
        """``may_guess``: whether a filter fits what is not known of the request's context."""


class RequestMatcher(Protocol):
    """Finds the filters that fit one request, by all its hosts and forms."""

    def matches(
        self, host: bytes, form: Parts, *, is_first: bool, is_named: bool, is_stopped: bool
    ) -> Sequence[list[Match]]:
        """The matches for each URL that one form of the target may be by a canonical host.

        ``is_first``: it is the standard form; ``is_named``: filters name the host, or a domain above it (if not, the
        form may be without its query); ``is_stopped``: another rule stops the request, so that an exception can lift
        that.
        """

    @property
    def spent(self) -> Iterable[tuple[str, str]]:
        """Name and layer of the lists of which more would have to be compared than may be for one request."""


def matcher_of(extension: str) -> type[Matcher]:
    """The matcher of an extension.

    Raises:
        ExtensionError: there is no such extension.
        LookupError: it has no matcher.
    """
    reference = extension_named(extension).matcher
    if not reference:
        raise LookupError(f"the extension {extension} has no matcher")
    matcher: type[Matcher] = load(reference)
    return matcher
