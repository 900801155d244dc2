"""What extensions say beside the rules: verdicts on a decision, and answers about what a rule alone cannot tell.

A *verdict* has its say on each decision by the rules: blocks of administrators, and temporary unblocks. A *confirmer*
is asked about rules that only suspect, such as prefixes of hashes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from concurrent.futures import Future

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


class Verdict(Protocol):
    """Has its say on what the rules decide. It does not wait, and raises nothing.

    It is asked of requests that are stopped, and of those that its ``Blocks`` touch.
    """

    def blocks_at(self, now: float) -> Blocks:
        """What it blocks at a moment, in seconds since the epoch; the same object while that is the same."""

    def after(
        self, decision: Decision, blocks: Blocks, host: bytes, client_names: Sequence[str], now: float
    ) -> Decision:
        """The decision for one form and one canonical host, as it is with these blocks and with what lifts them."""


def together(verdicts: Iterable[Verdict]) -> Verdict | None:
    """What has the say of several, each on what those before it have made of a decision."""
    every = tuple(verdicts)
    return _Several(every) if len(every) > 1 else next(iter(every), None)


class _EveryBlocks(tuple[Blocks, ...]):
    """The blocks of several verdicts."""

    __slots__ = ()

    @property
    def categories(self) -> frozenset[str]:
        """Those of all."""
        return frozenset().union(*(blocks.categories for blocks in self))

    def __bool__(self) -> bool:
        return any(self)

    def touches(self, host: bytes, categories: Iterable[str]) -> bool:
        """Whether one of them does."""
        named = tuple(categories)
        return any(blocks.touches(host, named) for blocks in self)

    def has_pages(self, host: bytes) -> bool:
        """Whether one of them has."""
        return any(blocks.has_pages(host) for blocks in self)


#: nothing is blocked beside the rules
NO_BLOCKS = _EveryBlocks()


class _Several:
    def __init__(self, verdicts: Sequence[Verdict]) -> None:
        self._verdicts, self._blocks = verdicts, NO_BLOCKS

    def blocks_at(self, now: float) -> Blocks:
        """All; the same object while each is the same."""
        blocks = _EveryBlocks(verdict.blocks_at(now) for verdict in self._verdicts)
        if len(blocks) != len(self._blocks) or any(a is not b for a, b in zip(blocks, self._blocks, strict=True)):
            self._blocks = blocks
        return self._blocks

    def after(
        self, decision: Decision, blocks: Blocks, host: bytes, client_names: Sequence[str], now: float
    ) -> Decision:
        """The decision after the last of them."""
        assert isinstance(blocks, _EveryBlocks)
        for verdict, part in zip(self._verdicts, blocks, strict=True):
            decision = verdict.after(decision, part, host, client_names, now)
        return decision


class Question(Protocol):
    """What has to be asked to be sure of a decision; two about the same are equal."""

    def as_dict(self) -> dict[str, str]:
        """Plain types."""

    def why_open(self, confirmations: Confirmations | None) -> str:
        """What nobody has confirmed or denied, and why, for people."""


class Confirmations(Protocol):
    """What was answered, by whomever; asks for more."""

    #: the seconds that a request waits for answers at most
    longest_wait: float

    def ask_soon(self, questions: Iterable[Question], client: str = "") -> Collection[Future[None]]:
        """Ask what is not known, for a client; each is done when it is answered, or will not be."""

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
