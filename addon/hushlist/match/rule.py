"""A rule: what it fits, what it asks for, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import PurePath
from typing import NamedTuple

from hushlist.match.checks import Check
from hushlist.match.hashing import FULL_LENGTH
from hushlist.url.hashed import HashedUri


class Action(StrEnum):
    """What a rule asks for, and what a decision says; ``PASS`` is the decision where no rule is final."""

    ALLOW = "allow"
    BLOCK = "block"
    #: final, as blocking is, but the person can go on after a click
    WARN = "warn"
    TAG = "tag"
    PASS = "pass"  # noqa: S105


#: what decides, by its rank among rules at the same expression: allow beats block, and block beats warn
FINAL = {Action.ALLOW: 3, Action.BLOCK: 2, Action.WARN: 1}

# Patterns are never changed, and not frozen all the same: a frozen one takes twice as long to make, and lists have
# millions of them.


@dataclass(slots=True, unsafe_hash=True)
class Expression:
    """A rule in the clear: fits the expression and everything below it, however deep."""

    #: canonical: host and path, such as ``b"video.example/live/"``
    value: bytes

    def __str__(self) -> str:
        return self.value.decode("ascii")


@dataclass(slots=True, unsafe_hash=True)
class ExpressionHash:
    """The SHA-256 of an expression, or the first 4 to 31 octets of it."""

    value: bytes

    @property
    def is_full(self) -> bool:
        """Whether it is a full hash, which alone can allow."""
        return len(self.value) == FULL_LENGTH

    def __str__(self) -> str:
        return f"sha256:{self.value.hex()}"


@dataclass(frozen=True, slots=True)
class Anything:
    """What a policy does where no rule decides."""

    def __str__(self) -> str:
        return "default"


Pattern = Expression | ExpressionHash | HashedUri | IPv4Network | IPv6Network | Check | Anything


@dataclass(frozen=True, slots=True)
class Terms:
    """What many rules of a list have in common: what they ask for, and where they stand."""

    action: Action
    #: the list's ``hrn:`` name, or its file's where it has none; and the file it was read from
    list: str
    source: str
    #: an ``hrn:`` name
    category: str | None = None
    reason: str | None = None
    #: the last day on which the rule holds, in UTC
    expires: date | None = None
    #: what people call the list
    title: str | None = None
    #: the policy's layer that the list is in
    layer: str = ""

    @property
    def label(self) -> str:
        """What to call the list."""
        return self.title or self.list

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
        """Where it stands, for whoever need not know the folder of its file."""
        return f"{PurePath(self.terms.source).name}:{self.line}"
