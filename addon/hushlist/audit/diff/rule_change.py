"""One change of a rule in a diff: the kind of change, the old and the new rule, and the differences."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from enum import StrEnum
from typing import NamedTuple

from hushlist.match.rule import Action, Terms


class ChangeKind(StrEnum):
    """What became of a rule. Each rule has one kind, but can also be the other rule of several changes."""

    REMOVED = "removed"
    #: removed, but an added rule covers all that it fits, and more
    BROADENED = "broadened"
    ADDED = "added"
    #: added, and fits a part of what a removed rule fits
    NARROWED = "narrowed"
    #: the same pattern with other terms
    CHANGED = "changed"
    #: only its place has changed
    MOVED = "moved"
    UNCHANGED = "unchanged"


class RuleMeaning(NamedTuple):
    """All of a rule but its pattern and its place."""

    action: Action
    category: str | None
    reason: str | None
    expires: date | None
    #: the policy's layer that has its list
    layer: str
    #: whether the list shows in the clear what the rule fits
    is_clear: bool


def meaning_of(terms: Terms, *, is_clear: bool) -> RuleMeaning:
    """The meaning of a rule with these terms."""
    return RuleMeaning(terms.action, terms.category, terms.reason, terms.expires, terms.layer, is_clear)


class RuleState(NamedTuple):
    """A rule, and its place."""

    source: str
    line: int
    rule: str
    meaning: RuleMeaning

    def as_dict(self) -> dict[str, object]:
        """The same as plain types, for JSON."""
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


_SIGNS = {ChangeKind.REMOVED: "-", ChangeKind.ADDED: "+", ChangeKind.MOVED: "="}


class RuleChange(NamedTuple):
    """What became of one rule."""

    kind: ChangeKind
    old: RuleState | None
    new: RuleState | None
    #: why it is broad, for a person
    broad: str | None = None

    @property
    def how(self) -> tuple[str, ...]:
        """What differs in the new rule's meaning."""
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
        """The same as plain types, for JSON."""
        return {
            "kind": self.kind.value,
            "old": None if self.old is None else self.old.as_dict(),
            "new": None if self.new is None else self.new.as_dict(),
            "how": [*self.how],
            "broad": self.broad,
        }


def differences(old: RuleMeaning, new: RuleMeaning) -> Iterator[str]:
    """The differences, in words.

    >>> own = RuleMeaning(Action.BLOCK, None, "ads", None, "", is_clear=True)
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
