"""What extensions read in a request besides: the addresses inside it, and other names of what it asks for.

An *inner address* is one more reading of the request: it is decided as if it were asked for, and the strictest decision
holds. A *name* is another URL of what is asked for: a rule for its path is a rule for the request, which blocks or
allows it. An extension knows both by the host, so that a request to any other host costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hushlist.core.extension import extensions_named, load

if TYPE_CHECKING:
    from hushlist.core.match.rule import Terms
    from hushlist.core.match.rule_match import Match
    from hushlist.core.policy.policy_file import Policy
    from hushlist.core.url.parts import Parts
    from hushlist.core.url.request import Request

#: how many addresses inside each other are decided
DEEPEST = 3


class Inner(NamedTuple):
    """An address inside a request."""

    #: by one host
    request: Request
    #: whether a rule with these terms says anything of it; ``None``: every rule does
    counts: Callable[[Terms], bool] | None


class HostReader(Protocol):
    """Reads the requests to one host; one that is made of it has nothing inside, no form, and counts every name."""

    #: why a TLS connection to the host has to be decrypted, in words that go before the host; empty: it need not
    why_decrypt: str
    #: whether requests, or connections, may carry other addresses
    has_inner: bool
    #: the canonical hosts of the names that ``names`` may give; ``None``: any
    hosts_of_names: Sequence[bytes] | None

    def concerns(self, path: bytes, query: bytes | None) -> bool:
        """Whether anything may be read in a plain target: a quick look, which mostly says no.

        The query is as it was sent, or canonical.
        """

    def inner(self, request: Request, forms: Sequence[Parts]) -> Iterable[Inner]:
        """The addresses inside a request, each once; without ``forms`` of its target, only those that its host tells.

        It raises nothing, and takes time linear in the target and the forms.
        """
        return ()

    #: how a match by such a name says so, for people
    via: str

    def names(self, form: Parts, target: bytes) -> Iterable[Parts]:
        """Other canonical URLs of what one form of the target asks for; ``target`` is as it was sent."""

    def counted(self, matches: Sequence[Match]) -> Sequence[Match]:
        """Those of the matches by these names that count."""
        return matches

    def form_keys(self, path: bytes) -> frozenset[bytes]:
        """The fields of a form that is sent to a canonical path, in lower case, which are read as those of a query."""
        return frozenset()

    def spares(self, terms: Terms) -> bool:
        """Whether a rule with these terms that allows the request means what is inside it as well."""
        return False


class Readings(Protocol):
    """What an extension reads in requests, by one policy."""

    #: why every connection has to be decrypted, for people; ``None`` if that depends on its host
    needs_all: str | None
    #: the canonical hosts of all names that its readers may give, if they do nothing else; ``None``: any
    hosts_of_names: Sequence[bytes] | None

    def of_host(self, host: bytes) -> HostReader | None:
        """What reads the requests to a canonical host; ``None`` if there is nothing in them."""


def readings_of(policy: Policy) -> tuple[Readings, ...]:
    """What the extensions that a policy uses read in requests."""
    references = (extension.readings for extension in extensions_named(policy.extensions) if extension.readings)
    return tuple(map(partial(_made, policy), references))


def _made(policy: Policy, reference: str) -> Readings:
    readings: Readings = load(reference)(policy)
    return readings
