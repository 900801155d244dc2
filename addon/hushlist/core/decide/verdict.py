"""What extensions say beside the rules: verdicts on a decision, and answers about what a rule alone cannot tell.

A *verdict* has its say on each decision by the rules: blocks of administrators, and temporary unblocks. A *confirmer*
is asked about rules that only suspect, such as prefixes of hashes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from hushlist.core.decide.decision import Decision
    from hushlist.core.match.rule_match import Match
    from hushlist.core.url.request import Request


class Grant(Protocol):
    """A temporary exception, by which a request passes that the rules would stop."""

    @property
    def id(self) -> int:
        """Never used again."""

    def told_in(self, zone: tzinfo) -> str:
        """For people, by the clock of a time zone."""


class Blocks(Protocol):
    """What is blocked beside the rules at one moment; false if nothing is."""

    @property
    def categories(self) -> frozenset[str]:
        """Those that are blocked for somebody."""

    def __bool__(self) -> bool: ...

    def touches(self, host: bytes, categories: Iterable[str]) -> bool:
        """Whether a block, for whomever, may stop a request for a host of some categories."""

    def has_pages(self, host: bytes) -> bool:
        """Whether a page of a host is blocked, so that its name alone does not tell."""


class NoBlocks:
    """Nothing is blocked beside the rules."""

    categories: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return False

    def touches(self, host: bytes, categories: Iterable[str]) -> bool:
        """No block stops anything."""
        return False

    def has_pages(self, host: bytes) -> bool:
        """No page is blocked."""
        return False


NO_BLOCKS = NoBlocks()


class Verdict(Protocol):
    """Has its say on what the rules decide. It does not wait, and raises nothing."""

    def blocks_at(self, now: float) -> Blocks:
        """What it blocks at a moment, in seconds since the epoch; the same object while that is the same."""

    def after(
        self, decision: Decision, blocks: Blocks, host: bytes, client_names: Sequence[str], now: float
    ) -> Decision:
        """The decision for one form and one canonical host, as it is with these blocks and with what lifts them."""


class Question(Protocol):
    """What has to be asked to be sure of a decision; two about the same are equal."""

    def as_dict(self) -> dict[str, str]:
        """Plain types."""

    def why_open(self, confirmations: Confirmations | None) -> str:
        """What nobody has confirmed or denied, and why, for people."""


class Confirmations(Protocol):
    """What was answered, by whomever; asks for more."""

    def ask(self, questions: Iterable[Question]) -> None:
        """Ask what is not known, and wait for the answers."""


class Confirmed(NamedTuple):
    """What a rule that only suspects says of a request."""

    #: what counts; and what does as long as nobody answers
    sure: Collection[Match] = ()
    assumed: Collection[Match] = ()
    #: what an answer may make of it; without a question, nothing
    possible: Collection[Match] = ()
    question: Question | None = None


class Confirmer(Protocol):
    """Says whether a rule that only suspects is right."""

    def confirmed(
        self, match: Match, request: Request | None, confirmations: Confirmations | None, *, is_settled: bool
    ) -> Confirmed:
        """What is known of a match; ``request`` is ``None`` for a connection.

        ``is_settled``: all that a decision needs was asked. What is not known then, and through no fault of whoever
        answers, was beyond a client's share, and counts as if it were confirmed.
        """

    def fault(self, confirmations: Confirmations) -> str | None:
        """Why nobody answers now, for people."""

    def confirmations(self) -> Confirmations:
        """What asks, for programs that can wait."""
