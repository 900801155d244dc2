"""What a diff says of a rule: a kind of change, the rule as it was and as it is, and what is other about it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from enum import StrEnum
from typing import NamedTuple

from hushlist.match.rule import Action


class Kind(StrEnum):
    """What became of a rule; each is of one kind, but that some are the other end of several changes."""

    REMOVED = "removed"
    #: it is gone, and an added one covers all that it fits, and more
    BROADENED = "broadened"
    ADDED = "added"
    #: it is new, and fits a part of what one fits that is gone
    NARROWED = "narrowed"
    #: the same pattern asks for something else
    CHANGED = "changed"
    #: it stands at another place, and nothing else
    MOVED = "moved"
    UNCHANGED = "unchanged"


class Meaning(NamedTuple):
    """What a rule asks for: all that is not its pattern or its place."""

    action: Action
    category: str | None
    reason: str | None
    expires: date | None
    #: the policy's, that its list is in
    layer: str
    #: whether whoever reads the list reads what it fits
    is_clear: bool


class Stand(NamedTuple):
    """A rule, and where it stands."""

    source: str
    line: int
    rule: str
    meaning: Meaning

    def as_dict(self) -> dict[str, object]:
        """Plain types, as JSON needs them."""
        own = self.meaning
        return {
            "source": self.source,
            "line": self.line,
            "rule": self.rule,
            "action": own.action.value,
            "category": own.category,
            "reason": own.reason,
            "expires": None if own.expires is None else own.expires.isoformat(),
            "layer": own.layer,
        }


_SIGNS = {Kind.REMOVED: "-", Kind.ADDED: "+", Kind.MOVED: "="}


class Change(NamedTuple):
    """What became of one rule."""

    kind: Kind
    old: Stand | None
    new: Stand | None
    #: what is broad about it, for a person
    broad: str | None = None

    @property
    def how(self) -> tuple[str, ...]:
        """What the rule asks for that it did not before."""
        if self.old is None or self.new is None:
            return ()
        return tuple(differences(self.old.meaning, self.new.meaning))

    def __str__(self) -> str:
        """A line for a person."""
        old, new = self.old, self.new
        place = " -> ".join(f"{stand.source}:{stand.line}" for stand in (old, new) if stand is not None)
        rules = " -> ".join(dict.fromkeys(stand.rule for stand in (old, new) if stand is not None))
        kind = "" if self.kind in _SIGNS else f"{self.kind}: "
        asks = ""
        only = new or old
        if (old is None or new is None) and only is not None and only.meaning.action is not Action.BLOCK:
            asks = f" ({only.meaning.action})"
        how = f" ({'; '.join(self.how)})" if self.how else ""
        broad = f": broad: {self.broad}" if self.broad else ""
        return f"{_SIGNS.get(self.kind, '~')} {place}: {kind}{rules}{asks}{how}{broad}"

    def as_dict(self) -> dict[str, object]:
        """Plain types, as JSON needs them."""
        return {
            "kind": self.kind.value,
            "old": None if self.old is None else self.old.as_dict(),
            "new": None if self.new is None else self.new.as_dict(),
            "how": [*self.how],
            "broad": self.broad,
        }


def differences(old: Meaning, new: Meaning) -> Iterator[str]:
    """What is other, in words.

    >>> own = Meaning(Action.BLOCK, None, "ads", None, "", is_clear=True)
    >>> [*differences(own, own._replace(action=Action.WARN, is_clear=False))]
    ['action: block -> warn', 'now hashed']
    """
    for name in ("action", "category", "reason", "expires", "layer"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield f"{name}: {_named(before)} -> {_named(after)}"
    if old.is_clear != new.is_clear:
        yield "now in the clear" if new.is_clear else "now hashed"


def _named(value: object) -> str:
    return "none" if value is None else str(value)
