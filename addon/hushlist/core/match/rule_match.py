"""A match: a rule that fits a request, and what of the request it fits."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from hushlist.core.errors import printable
from hushlist.core.match.rule import Rule

#: most characters of a name and of a media type
_MOST_SHOWN = 255


class SeenFile(NamedTuple):
    """What was seen of a file in an answer or an upload."""

    name: str = ""
    media_type: str = ""
    #: what it is by its content
    kinds: tuple[str, ...] = ()
    #: octets, if it is known how long it is
    size: int | None = None

    def as_dict(self) -> dict[str, object]:
        """For logs, without what was not seen."""
        name, media_type = self.name[-_MOST_SHOWN:], self.media_type[:_MOST_SHOWN]
        shown = {"name": name, "media_type": media_type, "kinds": [*self.kinds], "size": self.size}
        return {key: value for key, value in shown.items() if value or value == 0}

    def __str__(self) -> str:
        """For people.

        >>> print(SeenFile("a.png", "image/png", ("program",), 4096))
        a.png (image/png, program, 4,096 bytes)
        """
        size = "" if self.size is None else f"{self.size:,} bytes"
        more = ", ".join(filter(None, (self.media_type[:_MOST_SHOWN], *self.kinds, size)))
        return " ".join(filter(None, (self.name[-_MOST_SHOWN:], more and f"({more})")))


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
    #: the file that it fits, in the answer or the body of the request
    file: SeenFile | None = None

    def __str__(self) -> str:
        """For people: the expression, the list, file and line, and the reason."""
        terms = self.rule.terms
        reason = f": {terms.reason}" if terms.reason else ""
        via = f", {self.via}" if self.via else ""
        return printable(f"{self.text} by {terms.label} ({terms.source}:{self.rule.line}{via}){reason}")

    @property
    def text(self) -> str:
        return self.expression.decode("utf-8", "backslashreplace")

    def as_dict(self) -> dict[str, object]:
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
            **({} if self.file is None else {"file": self.file.as_dict()}),
        }
