"""Actions for categories, and for requests that no rule decides; each holds always, or by a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.match.rule import Action
from hushlist.core.policy.key_types import (
    Reading,
    any_text,
    choice,
    names_of,
    of_node,
    schema_of_category,
    schema_of_rows,
    schema_of_words,
)
from hushlist.core.policy.keys import Key, Schema, Type

if TYPE_CHECKING:
    from hushlist.core.policy.recurrence import Schedule

#: actions for a category
CATEGORY_ACTIONS = (Action.ALLOW, Action.BLOCK, Action.WARN, Action.TAG, Action.PASS)
#: actions if no rule decides
DEFAULT_ACTIONS = (Action.PASS, Action.BLOCK, Action.WARN)


def _action_keys(actions: Iterable[Action]) -> tuple[Key, ...]:
    return (
        Key("action", choice(actions), is_required=True).says("""what is done, or what is done while the schedule of
            `during` is on"""),
        Key("during", any_text).says("a schedule"),
        Key("otherwise", choice(actions)).says("what is done while it is off"),
    )


class ScheduledAction(NamedTuple):
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
        action: ScheduledAction | None = self
        while action is not None:
            yield action
            action = action.behind

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
    keys = names_of(_action_keys(actions))
    if not isinstance(node.value, dict):
        if node.value in actions:
            return ScheduledAction(Action(node.value), report.source, node.line)
        why = f"expected one of {', '.join(actions)}, or a mapping with {', '.join(keys)}"
        report.error(node.line, f"{what}: {node}", why)
        return None
    fields = MappingReader(node, keys, report)
    action = fields.choice("action", actions)
    fields.require("action", what)
    otherwise = fields.choice("otherwise", actions)
    during = read_during(fields, schedules)
    if "otherwise" in fields and "during" not in fields:
        fields.error("otherwise", "it needs a schedule in 'during'")
    return (
        None if action is None else ScheduledAction(action, report.source, fields.line_of("action"), during, otherwise)
    )


def read_during(fields: MappingReader, schedules: Mapping[str, Schedule]) -> Schedule | None:
    """The schedule that ``during`` names, or ``None``."""
    name = fields.text("during")
    if name is None:
        return None
    if name not in schedules:
        choices = f"known: {', '.join(schedules)}" if schedules else "the policy has none"
        fields.error("during", f"there is no such schedule ({choices})", name)
    return schedules.get(name)


def read_categories(fields: MappingReader, reading: Reading) -> dict[str, ScheduledAction]:
    """The actions of categories, by their names in normal form."""
    timed = (
        (name, read_scheduled_action(node, text, CATEGORY_ACTIONS, reading.schedules, fields.report))
        for name, text, node in fields.names("categories", reading.category)
    )
    return {name: action for name, action in timed if action is not None}


def _action_schema(actions: Iterable[Action], says: str = "") -> Schema:
    described = {"description": says} if says else {}
    timed = schema_of_rows(_action_keys(actions), dependentRequired={"otherwise": ["during"]})
    return {**described, "anyOf": [schema_of_words(actions), timed]}


_OF_CATEGORY = (
    "what is done: `allow`, `block`, `warn`, `tag` or `pass` (the rule is as if it were not there), also by a schedule"
)
CATEGORIES = Type(
    lambda fields, _, reading: read_categories(fields, reading),
    lambda: {
        "$name": "categories",
        "type": "object",
        "propertyNames": schema_of_category(),
        "additionalProperties": _action_schema(CATEGORY_ACTIONS, _OF_CATEGORY),
    },
    _action_keys(CATEGORY_ACTIONS),
)
DEFAULT_ACTION = of_node(
    lambda node, reading: read_scheduled_action(node, "default", DEFAULT_ACTIONS, reading.schedules, reading.report),
    lambda: {"$name": "default", **_action_schema(DEFAULT_ACTIONS)},
    _action_keys(DEFAULT_ACTIONS),
)
