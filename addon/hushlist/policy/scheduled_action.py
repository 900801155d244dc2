"""The actions of a policy for categories, and for requests that no rule decides: always, or by a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from hushlist.errors import UrlError
from hushlist.lists.list_source import ProblemReport
from hushlist.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.match.rule import Action
from hushlist.policy.schedule import Schedule
from hushlist.url.hrn import parse_hrn

#: actions for a category
CATEGORY_ACTIONS = (Action.ALLOW, Action.BLOCK, Action.WARN, Action.TAG, Action.PASS)
#: actions if no rule decides
DEFAULT_ACTIONS = (Action.PASS, Action.BLOCK, Action.WARN)
_KEYS = ("action", "during", "otherwise")


@dataclass(frozen=True, slots=True)
class ScheduledAction:
    """An action, with its schedule if there is one, and its place in the policy."""

    action: Action
    source: str
    line: int
    during: Schedule | None = None
    #: the action while the schedule is off; ``None``: no action
    otherwise: Action | None = None
    #: everybody's action for the same; used if there is no action here
    behind: ScheduledAction | None = None

    def chain(self) -> Iterator[ScheduledAction]:
        """This action, and those to use after it."""
        one: ScheduledAction | None = self
        while one is not None:
            yield one
            one = one.behind

    def at(self, now: datetime) -> Action | None:
        """The action at a moment, or ``None``."""
        return self.action if self.during is None or self.during.is_on(now) else self.otherwise

    def __str__(self) -> str:
        """Its place, for people."""
        during = "" if self.during is None else f", schedule {self.during.name}"
        return f"{self.source}:{self.line}{during}"


def read_scheduled_action(
    node: YamlNode, what: str, actions: Iterable[Action], schedules: Mapping[str, Schedule], report: ProblemReport
) -> ScheduledAction | None:
    """An action, or a mapping with ``action``, ``during`` and ``otherwise``; ``None`` with an error in the report."""
    actions = tuple(actions)
    if not isinstance(node.value, dict):
        if node.value in actions:
            return ScheduledAction(Action(node.value), report.source, node.line)
        why = f"expected one of {', '.join(actions)}, or a mapping with {', '.join(_KEYS)}"
        report.error(node.line, f"{what}: {node}", why)
        return None
    fields = MappingReader(node, _KEYS, report)
    action = fields.choice("action", actions)
    if "action" not in fields:
        report.error(node.line, what, "it has no action")
    otherwise = fields.choice("otherwise", actions)
    during = read_during(fields, schedules, report)
    if "otherwise" in fields and "during" not in fields:
        report.error(fields.line_of("otherwise"), "otherwise", "it needs a schedule in 'during'")
    return (
        None if action is None else ScheduledAction(action, report.source, fields.line_of("action"), during, otherwise)
    )


def read_during(fields: MappingReader, schedules: Mapping[str, Schedule], report: ProblemReport) -> Schedule | None:
    """The schedule that ``during`` names, or ``None``."""
    name = fields.text("during")
    if name is None:
        return None
    if name not in schedules:
        known = f"known: {', '.join(schedules)}" if schedules else "the policy has none"
        report.error(fields.line_of("during"), name, f"there is no such schedule ({known})")
    return schedules.get(name)


def read_categories(
    fields: MappingReader, schedules: Mapping[str, Schedule], report: ProblemReport
) -> dict[str, ScheduledAction]:
    """The actions of categories, by their names in normal form."""
    found: dict[str, ScheduledAction] = {}
    for text, node in fields.entries("categories"):
        try:
            name = str(parse_hrn(text))
        except UrlError as error:
            report.error(node.line, text, error.reason)
            continue
        timed = read_scheduled_action(node, text, CATEGORY_ACTIONS, schedules, report)
        if name in found:
            report.error(node.line, text, f"the category is given twice (first in line {found[name].line})")
        elif timed is not None:
            found[name] = timed
    return found
