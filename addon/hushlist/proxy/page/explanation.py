"""The content of a block page: an explanation, and an offer to unblock; plain data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Verdict(StrEnum):
    """What the filter did."""

    BLOCKED = "blocked"
    #: the person may click to go on
    WARNED = "warned"
    #: the filter itself failed
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation for a blocked person."""

    #: the canonical address, without user information
    url: str
    #: the rule's own text, shown unchanged; ``None``: the page explains in the reader's language
    reason: str | None = None
    #: why the address could not be read, in English
    fault: str | None = None
    #: an ``hrn:`` name
    category: str | None = None
    list: str | None = None
    #: the rule's place: the file's name without its folder, and the line
    rule: str | None = None
    expression: str | None = None
    #: when the block ends: aware, shown in its own time zone
    until: datetime | None = None
    #: the number that ``hushlist log show`` looks up
    reference: str | None = None
    kind: Verdict = Verdict.BLOCKED

    def as_dict(self) -> dict[str, object]:
        """For programs; ``reason`` is in English if the rule has no text of its own."""
        return {
            "blocked": True,
            "kind": self.kind.value,
            "url": self.url,
            "reason": self.in_english(),
            **{name: getattr(self, name) for name in ("category", "list", "rule", "expression")},
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
    """What a page offers: to unblock the site, or to go on after a warning.

    The form sends ``token`` and, if offered, ``passphrase``, ``code``, ``scope`` and ``minutes``. It comes from a
    sandboxed page, so its ``Origin`` is ``null``: only the token proves that it is not forged.
    """

    #: the form's target: a path on the page's own origin
    action: str
    token: str
    passphrase: bool = False
    code: bool = False
    #: of "url", "host" and "category"; the first is the default
    scopes: tuple[str, ...] = ()
    #: durations; the first is the default
    minutes: tuple[int, ...] = ()
    #: the last try's error: "wrong", "locked" or "expired"; for any other, the page has a general message
    message: str | None = None
