"""What a policy does, always or by a schedule: the actions of categories, and of what nothing else decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from hushlist.errors import UrlError
from hushlist.lists.document import Fields, Node
from hushlist.lists.source import Report
from hushlist.match.rule import Action
from hushlist.policy.schedule import Schedule
from hushlist.url.hrn import parse_hrn

#: what can be done with a category
CATEGORY_ACTIONS = (Action.ALLOW, Action.BLOCK, Action.WARN, Action.TAG, Action.PASS)
#: what can be done where no rule decides
DEFAULT_ACTIONS = (Action.PASS, Action.BLOCK, Action.WARN)
_KEYS = ("action", "during", "otherwise")


@dataclass(frozen=True, slots=True)
class Timed:
    """An action, while a schedule is on where there is one; and where it stands."""

    action: Action
    source: str
    line: int
    during: Schedule | None = None
    #: what is done while the schedule is off; ``None``: nothing is said
    otherwise: Action | None = None
    #: what is said of the same for everybody, which holds where nothing is said here
    behind: Timed | None = None

    def chain(self) -> Iterator[Timed]:
        """This, and what stands behind it."""
        one: Timed | None = self
        while one is not None:
            yield one
            one = one.behind

    def at(self, now: datetime) -> Action | None:
        """What is done at a moment, or ``None`` where nothing is said."""
        return self.action if self.during is None or self.during.is_on(now) else self.otherwise

    def __str__(self) -> str:
        """Where it stands, for people."""
        during = "" if self.during is None else f", schedule {self.during.name}"
        return f"{self.source}:{self.line}{during}"


def read_timed(
    node: Node, what: str, actions: Iterable[Action], schedules: Mapping[str, Schedule], report: Report
) -> Timed | None:
    """An action, or a mapping with ``action``, ``during`` and ``otherwise``; ``None`` with an error in the report."""
    actions = tuple(actions)
    if not isinstance(node.value, dict):
        if node.value in actions:
            return Timed(Action(node.value), report.source, node.line)
        why = f"expected one of {', '.join(actions)}, or a mapping with {', '.join(_KEYS)}"
        report.error(node.line, f"{what}: {node}", why)
        return None
    fields = Fields(node, _KEYS, report)
    action = fields.choice("action", actions)
    if "action" not in fields:
        report.error(node.line, what, "it has no action")
    otherwise = fields.choice("otherwise", actions)
    during = read_during(fields, schedules, report)
    if "otherwise" in fields and "during" not in fields:
        report.error(fields.line_of("otherwise"), "otherwise", "it needs a schedule in 'during'")
    return None if action is None else Timed(action, report.source, fields.line_of("action"), during, otherwise)


def read_during(fields: Fields, schedules: Mapping[str, Schedule], report: Report) -> Schedule | None:
    """The schedule that ``during`` names, or ``None``."""
    name = fields.text("during")
    if name is None:
        return None
    if name not in schedules:
        known = f"known: {', '.join(schedules)}" if schedules else "the policy has none"
        report.error(fields.line_of("during"), name, f"there is no such schedule ({known})")
    return schedules.get(name)


def read_categories(fields: Fields, schedules: Mapping[str, Schedule], report: Report) -> dict[str, Timed]:
    """The actions of categories, by their names in normal form."""
    found: dict[str, Timed] = {}
    for text, node in fields.entries("categories"):
        try:
            name = str(parse_hrn(text))
        except UrlError as error:
            report.error(node.line, text, error.reason)
            continue
        timed = read_timed(node, text, CATEGORY_ACTIONS, schedules, report)
        if name in found:
            report.error(node.line, text, f"the category is given twice (first in line {found[name].line})")
        elif timed is not None:
            found[name] = timed
    return found
