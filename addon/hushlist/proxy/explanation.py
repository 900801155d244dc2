"""What a person is told, and what is offered to them; plain data, made by whoever decides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Verdict(StrEnum):
    """What the filter did."""

    BLOCKED = "blocked"
    #: the person may go on after a click
    WARNED = "warned"
    #: the filter itself failed
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a blocked person is told."""

    #: the canonical address, without user information
    url: str
    #: the rule's own words, shown as they are; ``None``: the page says it in the reader's language
    reason: str | None = None
    #: why the address could not be read, in English
    fault: str | None = None
    #: an ``hrn:`` name
    category: str | None = None
    list: str | None = None
    #: where the rule stands: the file's name, without its folder, and the line
    rule: str | None = None
    expression: str | None = None
    #: aware, and shown in its own time zone: the block ends then
    until: datetime | None = None
    #: what ``hushlist log show`` resolves
    reference: str | None = None
    kind: Verdict = Verdict.BLOCKED

    def as_dict(self) -> dict[str, object]:
        """For programs; ``reason`` is in English where the rule has no words of its own."""
        return {
            "blocked": True,
            "kind": self.kind.value,
            "url": self.url,
            "reason": self.in_english(),
            "category": self.category,
            "list": self.list,
            "rule": self.rule,
            "expression": self.expression,
            "until": None if self.until is None else self.until.isoformat(timespec="seconds"),
            "reference": self.reference,
        }

    def in_english(self) -> str:
        """The reason, in a sentence for programs and logs."""
        if self.reason is not None:
            return self.reason
        if self.kind is Verdict.FAILED:
            return "The filter failed." if self.fault is None else f"The filter failed: {self.fault}."
        if self.fault is not None:
            return f"The address cannot be read: {self.fault}."
        verb = "warns of" if self.kind is Verdict.WARNED else "blocks"
        return f"A rule of the filter {verb} it."


@dataclass(frozen=True, slots=True)
class Unblock:
    """What a page offers to a person who may have it unblocked, or who may go on after a warning.

    The form sends ``token`` and, where they are offered, ``passphrase``, ``code``, ``scope`` and ``minutes``. It comes
    from a sandboxed page, so its ``Origin`` is ``null``: the token is what tells it from a forged one.
    """

    #: where the form goes: a path on the page's own origin
    action: str
    token: str
    passphrase: bool = False
    code: bool = False
    #: of "url", "host" and "category"; the first is chosen at first
    scopes: tuple[str, ...] = ()
    #: durations; the first is chosen at first
    minutes: tuple[int, ...] = ()
    #: what went wrong last time: "wrong", "locked" or "expired"; the page has general words for any other
    message: str | None = None
