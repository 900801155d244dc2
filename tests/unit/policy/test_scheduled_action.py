"""What a policy does, always or by a schedule."""

from datetime import UTC, datetime

import pytest

from hushlist.lists.list_source import ProblemReport
from hushlist.lists.yaml_nodes import MappingReader, read_document
from hushlist.match.rule import Action
from hushlist.policy.recurrence import RecurringSpans
from hushlist.policy.schedule import Schedule
from hushlist.policy.scheduled_action import (
    CATEGORY_ACTIONS,
    DEFAULT_ACTIONS,
    ScheduledAction,
    read_categories,
    read_scheduled_action,
)

NIGHT = Schedule("night", UTC, (RecurringSpans(spans=((21 * 60, 30 * 60),)),))
SCHEDULES = {"night": NIGHT}
AT_NIGHT, BY_DAY = datetime(2026, 12, 24, 22, tzinfo=UTC), datetime(2026, 12, 24, 12, tzinfo=UTC)
BLOCK = ScheduledAction(Action.BLOCK, "p", 1)


@pytest.mark.parametrize(
    ("timed", "at_night", "by_day"),
    [
        (BLOCK, Action.BLOCK, Action.BLOCK),
        (ScheduledAction(Action.BLOCK, "p", 1, NIGHT), Action.BLOCK, None),
        (ScheduledAction(Action.BLOCK, "p", 1, NIGHT, Action.WARN), Action.BLOCK, Action.WARN),
    ],
)
def test_an_action_holds_while_its_schedule_is_on(
    timed: ScheduledAction, at_night: Action, by_day: Action | None
) -> None:
    assert (timed.at(AT_NIGHT), timed.at(BY_DAY)) == (at_night, by_day)


def test_it_tells_where_it_stands() -> None:
    assert str(BLOCK) == "p:1"
    assert str(ScheduledAction(Action.BLOCK, "p", 1, NIGHT)) == "p:1, schedule night"


def timed_of(text: str) -> tuple[ScheduledAction | None, list[str]]:
    report = ProblemReport("p")
    node = read_document(text.encode(), report)
    assert node is not None
    return read_scheduled_action(node, "default", DEFAULT_ACTIONS, SCHEDULES, report), list(map(str, report.errors))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("block", BLOCK),
        ("{action: block}", BLOCK),
        ("{during: night,\n action: block}", ScheduledAction(Action.BLOCK, "p", 2, NIGHT)),
        ("{action: block, during: night, otherwise: warn}", ScheduledAction(Action.BLOCK, "p", 1, NIGHT, Action.WARN)),
    ],
)
def test_an_action_is_a_word_or_has_a_schedule(text: str, expected: ScheduledAction) -> None:
    assert timed_of(text) == (expected, [])


EXPECTED = "expected one of pass, block, warn, or a mapping with action, during, otherwise"


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("allow", [f"p:1: default: 'allow': {EXPECTED}"]),
        ("", [f"p:1: default: nothing: {EXPECTED}"]),
        ("[block]", [f"p:1: default: a list: {EXPECTED}"]),
        ("{}", ["p:1: default: it has no action"]),
        ("{during: night}", ["p:1: default: it has no action"]),
        ("{action: block, when: night}", ["p:1: when: unknown key (known: action, during, otherwise)"]),
        ("{action: block,\n during: day}", ["p:2: day: there is no such schedule (known: night)"]),
        ("{action: block,\n otherwise: pass}", ["p:2: otherwise: it needs a schedule in 'during'"]),
        (
            "{action: block, during: night,\n otherwise: tag}",
            ["p:2: otherwise: tag: expected one of pass, block, warn"],
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(text: str, errors: list[str]) -> None:
    assert timed_of(text)[1] == errors


def categories_of(text: str) -> tuple[dict[str, ScheduledAction], list[str]]:
    report = ProblemReport("p")
    node = read_document(f"categories:\n{text}".encode(), report)
    assert node is not None
    return read_categories(MappingReader(node, ("categories",), report), SCHEDULES, report), list(
        map(str, report.errors)
    )


def test_categories_go_by_their_names_in_normal_form() -> None:
    found, errors = categories_of(" hrn://C.Example/%67ames: warn\n hrn://c.example: {action: allow, during: night}")
    assert errors == []
    assert found == {
        "hrn://c.example/games": ScheduledAction(Action.WARN, "p", 2),
        "hrn://c.example": ScheduledAction(Action.ALLOW, "p", 3, NIGHT),
    }


@pytest.mark.parametrize("action", CATEGORY_ACTIONS)
def test_everything_can_be_done_with_a_category(action: Action) -> None:
    assert categories_of(f" hrn://c.example: {action.value}")[0]["hrn://c.example"].action is action


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (" games: block", "p:2: games: an hrn: name must begin with 'hrn://'"),
        (
            " hrn://c.example: stop",
            "p:2: hrn://c.example: 'stop': expected one of allow, block, warn, tag, pass, "
            "or a mapping with action, during, otherwise",
        ),
        (
            " hrn://c.example/a: block\n hrn://C.example/%61: warn",
            "p:3: hrn://C.example/%61: the category is given twice (first in line 2)",
        ),
        (" [a]", "p:2: categories: expected a mapping, not a list"),
    ],
)
def test_a_category_that_cannot_be_is_named(text: str, error: str) -> None:
    assert categories_of(text)[1] == [error]
