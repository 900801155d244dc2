"""A rule: its pattern, its terms, and its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from itertools import repeat
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from hushlist.core.match.checks import Check
from hushlist.core.match.expressions import FULL_LENGTH
from hushlist.core.url.comparison import LADDER
from hushlist.core.url.hashed_uri import HashedUri

if TYPE_CHECKING:
    from hushlist.core.match.matcher import Placed
    from hushlist.core.match.overbroad import BreadthTest


class Action(StrEnum):
    """The action of a rule or a decision; ``PASS``: no final rule fits, and of a rule, it only says its category."""

    ALLOW = "allow"
    BLOCK = "block"
    #: final like blocking, but the person can go on after a click
    WARN = "warn"
    TAG = "tag"
    PASS = "pass"  # noqa: S105


#: final actions, and their rank at the same expression: allow beats block, and block beats warn
FINAL = {Action.ALLOW: 3, Action.BLOCK: 2, Action.WARN: 1}

# Patterns never change. Those of which lists have millions are no named tuples, which take twice as long to make.


class Expression:
    """The pattern of a rule in the clear: fits the expression and everything below it, at any depth."""

    __slots__ = __match_args__ = ("value",)

    def __init__(self, value: bytes) -> None:
        #: canonical: host and path, such as ``b"video.example/live/"``
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        return self.value.decode("ascii")


#: rung of the comparison ladder -> its profile; each rung fits all that those before it fit
RUNGS = {profile.name: profile for profile in LADDER}


class WholeUrl(NamedTuple):
    """The pattern of a rule with ``match``: fits one URL as the client sent it, on a rung of the comparison ladder."""

    #: in the rung's normal form
    value: bytes
    #: of ``RUNGS``
    rung: str

    def __str__(self) -> str:
        return f"{self.value.decode('utf-8', 'backslashreplace')} (match: {self.rung})"


class ExpressionHash:
    """The SHA-256 of an expression, or its HMAC-SHA-256; or the first 4 to 31 octets of that."""

    __slots__ = ("is_of_host", "seal", "value")
    __match_args__ = ("value", "seal")

    def __init__(self, value: bytes, seal: str = "", *, is_of_host: bool = False) -> None:
        self.value = value
        #: the fingerprint of the HMAC's key; empty for a SHA-256
        self.seal = seal
        #: whether its list says that it is of a whole host
        self.is_of_host = is_of_host

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExpressionHash) and (other.value, other.seal) == (self.value, self.seal)

    def __hash__(self) -> int:
        return hash((self.value, self.seal))

    @property
    def is_full(self) -> bool:
        """Whether it is a full hash; a prefix cannot allow."""
        return len(self.value) == FULL_LENGTH

    def __str__(self) -> str:
        return f"{'sealed' if self.seal else 'sha256'}:{self.value.hex()}"


class Anything:
    """The pattern of the policy's default action."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return "default"


class TimeLimit(Anything):
    """The pattern of a quota: what is used of it."""

    def __init__(self, limit: int, used: int, per: str) -> None:
        #: minutes in one period, with those that were added
        self.limit, self.used = limit, used
        #: ``day`` or ``week``
        self.per = per

    @property
    def left(self) -> int:
        """Minutes."""
        return max(0, self.limit - self.used)

    def __str__(self) -> str:
        return f"{self.used} of {self.limit} minutes a {self.per} used"


class Ordered(NamedTuple):
    """The pattern of a block that an administrator made beside the rules."""

    target: str
    #: for whom; ``None``: for everybody
    client: str | None
    #: seconds since the epoch
    made: float

    def __str__(self) -> str:
        return self.target if self.client is None else f"{self.target} for {self.client}"


class FilterPattern:
    """A pattern that an extension brings, and its matcher finds (``matcher.py``); its text is the filter as written."""

    __slots__ = ()
    #: the extension
    extension: ClassVar[str]
    #: whether it lifts what stops in its layer, and is less specific
    is_exception: bool

    @property
    def decides(self) -> bool:
        """Whether it decides requests; if not, it says what becomes of one that passes, and of its answer."""
        return True

    @property
    def digest(self) -> bytes:
        """By which it is found in the index: 32 octets of what it means."""
        raise NotImplementedError

    def placed(self, line: int) -> Placed:
        """How it stands in an index."""
        raise NotImplementedError

    def why_broad(self, breadth: BreadthTest) -> str | None:
        """Why it is broad, for people; ``None`` if it is not."""
        raise NotImplementedError


Pattern = (
    Expression
    | WholeUrl
    | ExpressionHash
    | HashedUri
    | FilterPattern
    | IPv4Network
    | IPv6Network
    | Check
    | Anything
    | Ordered
)


class Scope(NamedTuple):
    """For whom a rule counts, and when."""

    #: names of groups; without one, for everybody
    groups: tuple[str, ...] = ()
    #: the name of a schedule; empty: always
    during: str = ""

    def __str__(self) -> str:
        """As it is written in a policy."""
        of_groups = f"for: {', '.join(self.groups)}" if self.groups else ""
        return "; ".join(filter(None, (of_groups, f"during: {self.during}" if self.during else "")))


class Terms(NamedTuple):
    """What many rules of a list share: action, category, reason, expiry, and source."""

    action: Action
    #: the list's ``hrn:`` name, or else its file's name; and the file that it was read from
    list: str
    source: str
    #: an ``hrn:`` name
    category: str | None = None
    reason: str | None = None
    #: the last day on which the rule holds, in UTC
    expires: date | None = None
    #: the list's name for people
    title: str | None = None
    #: the policy's layer that the list is in
    layer: str = ""
    #: who has to confirm that a rule, which is a prefix, fits: a key of the policy's ``confirmers``; empty: nobody
    confirmer: str = ""
    #: what keys of extensions say of the rule, by their names
    values: tuple[tuple[str, str], ...] = ()
    #: for whom it counts, and when; ``None``: for everybody, always
    scope: Scope | None = None

    @property
    def label(self) -> str:
        """The list's name, for people."""
        return self.title or self.list

    @property
    def is_lasting(self) -> bool:
        """Whether the rule counts at every time, and for everybody."""
        return self.expires is None and self.scope is None

    def holds_at(self, now: datetime) -> bool:
        """Whether the rule has not expired; ``now`` is in UTC."""
        return self.expires is None or now.date() <= self.expires


class Rule(NamedTuple):
    """One rule of one list."""

    pattern: Pattern
    terms: Terms
    #: counted from 1
    line: int

    @property
    def place(self) -> str:
        """File and line, without the folder."""
        return f"{PurePath(self.terms.source).name}:{self.line}"


class RuleBlock(NamedTuple):
    """Many rules in the clear with the same terms: readers of long lists make no object for each."""

    #: canonical, as in ``Expression``
    expressions: Sequence[bytes]
    terms: Terms
    #: the line of each
    lines: Sequence[int]


def each_rule(blocks: Iterable[Rule | RuleBlock]) -> Iterator[Rule]:
    """The rules of blocks, one by one."""
    for block in blocks:
        if isinstance(block, RuleBlock):
            yield from map(Rule, map(Expression, block.expressions), repeat(block.terms), block.lines)
        else:
            yield block
