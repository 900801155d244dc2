"""A rule: its pattern, its terms, and its line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import PurePath
from typing import NamedTuple

from hushlist.match.checks import Check
from hushlist.match.expressions import FULL_LENGTH
from hushlist.url.hashed_uri import HashedUri


class Action(StrEnum):
    """The action of a rule or a decision; only decisions have ``PASS``: no final rule fits."""

    ALLOW = "allow"
    BLOCK = "block"
    #: final like blocking, but the person can go on after a click
    WARN = "warn"
    TAG = "tag"
    PASS = "pass"  # noqa: S105


#: final actions, and their rank at the same expression: allow beats block, and block beats warn
FINAL = {Action.ALLOW: 3, Action.BLOCK: 2, Action.WARN: 1}

# Patterns never change, but are not frozen: a frozen one takes twice as long to make, and lists have millions.


@dataclass(slots=True, unsafe_hash=True)
class Expression:
    """The pattern of a rule in the clear: fits the expression and everything below it, at any depth."""

    #: canonical: host and path, such as ``b"video.example/live/"``
    value: bytes

    def __str__(self) -> str:
        return self.value.decode("ascii")


@dataclass(slots=True, unsafe_hash=True)
class ExpressionHash:
    """The SHA-256 of an expression, or its first 4 to 31 octets."""

    value: bytes

    @property
    def is_full(self) -> bool:
        """Whether it is a full hash; a prefix cannot allow."""
        return len(self.value) == FULL_LENGTH

    def __str__(self) -> str:
        return f"sha256:{self.value.hex()}"


@dataclass(frozen=True, slots=True)
class Anything:
    """The pattern of the policy's default action."""

    def __str__(self) -> str:
        return "default"


Pattern = Expression | ExpressionHash | HashedUri | IPv4Network | IPv6Network | Check | Anything


@dataclass(frozen=True, slots=True)
class Terms:
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

    @property
    def label(self) -> str:
        """The list's name, for people."""
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
        """File and line, without the folder."""
        return f"{PurePath(self.terms.source).name}:{self.line}"
