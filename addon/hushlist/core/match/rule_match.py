"""A match: a rule that fits a request, and what of the request it fits."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from hushlist.core.errors import printable
from hushlist.core.match.rule import Rule


class Match(NamedTuple):
    """One rule that fits a request."""

    rule: Rule
    #: the expression, URI or address that it fits, in the clear, from the request
    expression: bytes
    #: octets of the host, then of the path; the larger, the more specific, as in "the order in which the expressions
    #: are generated". A check is above everything, a whole URI above every expression, and an address range below, by
    #: its prefix length.
    specificity: tuple[int, int]
    #: where the expression comes from, if not from the request's own URL; and the policy's rule that set the action
    via: str | None = None
    #: when a schedule ends the action
    until: datetime | None = None
    #: the server that has confirmed a prefix; empty: no server answered, and the policy blocks for that
    confirmed_by: str | None = None

    def __str__(self) -> str:
        """For people: the expression, the list, file and line, and the reason."""
        terms = self.rule.terms
        reason = f": {terms.reason}" if terms.reason else ""
        via = f", {self.via}" if self.via else ""
        return printable(f"{self.text} by {terms.label} ({terms.source}:{self.rule.line}{via}){reason}")

    @property
    def text(self) -> str:
        return self.expression.decode("utf-8", "backslashreplace")

    def as_dict(self) -> dict[str, str | int | None]:
        """Plain types for JSON and mitmproxy's metadata."""
        pattern, terms, line = self.rule
        return {
            "expression": self.text,
            "rule": str(pattern),
            "action": terms.action.value,
            "category": terms.category,
            "reason": terms.reason,
            "expires": None if terms.expires is None else terms.expires.isoformat(),
            "list": terms.list,
            "title": terms.title,
            "source": terms.source,
            "line": line,
            "layer": terms.layer,
            "via": self.via,
            "until": None if self.until is None else self.until.isoformat(),
        }
