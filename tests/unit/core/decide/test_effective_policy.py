"""What a policy says for one group at one moment."""

from datetime import UTC, date, datetime, timedelta
from ipaddress import IPv4Network
from zoneinfo import ZoneInfo

import pytest

from hushlist.core.decide.decision import Decision
from hushlist.core.decide.effective_policy import EffectivePolicy
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.match.rule import Action, Expression, ExpressionHash, Pattern, Rule, Terms
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import Group, GroupSettings, LayerUse
from hushlist.core.policy.recurrence import RecurringDates, RecurringSpans, Schedule
from hushlist.core.policy.scheduled_action import ScheduledAction
from unit.rows import each_row

NIGHT = Schedule("night", UTC, (RecurringSpans(spans=((21 * 60, 30 * 60),)),))
EVENING = Schedule("evening", UTC, (RecurringSpans(spans=((18 * 60, 22 * 60),)),))
EVE = date(2026, 12, 24).toordinal()
ONCE = Schedule("once", UTC, (RecurringSpans(dates=RecurringDates.of([(EVE, EVE)])),))
NOON, TICK = datetime(2026, 12, 24, 12, tzinfo=UTC), timedelta.resolution
NINE, TEN, SIX = (datetime(2026, 12, 24, hour, tzinfo=UTC) for hour in (21, 22, 18))
GAMES = "hrn://c.example/web/games"
FULL, PREFIX = ExpressionHash(b"x" * 32), ExpressionHash(b"x" * 31)


def match(
    action: Action = Action.BLOCK,
    category: str | None = GAMES,
    layer: str = "lists",
    pattern: Pattern = Expression(b"h.example/"),  # noqa: B008
    via: str | None = None,
) -> Match:
    return Match(Rule(pattern, Terms(action, "list", "file", category, layer=layer), 7), b"h.example/", (9, 1), via)


def timed(
    action: Action, during: Schedule | None = None, otherwise: Action | None = None, line: int = 3
) -> ScheduledAction:
    return ScheduledAction(action, "p", line, during, otherwise)


def view(
    now: datetime = NOON,
    default: ScheduledAction | None = None,
    layers: tuple[LayerUse, ...] = (),
    **categories: ScheduledAction,
) -> EffectivePolicy:
    """``categories``: what is said of ``hrn://c.example``, and of what stands behind underscores below it."""
    said = {"/".join(("hrn:", "", "c.example", *name.split("_")[1:])): one for name, one in categories.items()}
    uses = layers or (LayerUse("overrides"), LayerUse("lists"))
    return EffectivePolicy(Group("pupils", uses, GroupSettings(said, default)), now)


def done(found: Decision) -> Action:
    return found.action


# -- categories --------------------------------------------------------------------------------------------------------


@each_row("own", [Action.BLOCK, Action.WARN])
@each_row("action", list(Action))
def test_a_category_s_action_takes_the_place_of_the_list_s(own: Action, action: Action) -> None:
    decision = view(c=timed(action)).decide([match(own)])
    assert decision.action is action
    assert len(decision.matches) == (action is not Action.PASS)


@each_row("own", [Action.ALLOW, Action.TAG])
@each_row("action", list(Action))
def test_exceptions_and_tags_of_a_list_stay(own: Action, action: Action) -> None:
    assert view(c=timed(action)).decide([match(own)]).matches == (match(own),)


def test_a_rule_without_a_category_and_one_of_another_stay() -> None:
    for category in (None, "hrn://d.example/web/games", "hrn://www.c.example"):
        assert view(c=timed(Action.ALLOW)).decide([match(category=category)]).action is Action.BLOCK


@each_row(
    ("category", "action"),
    [
        (GAMES, Action.WARN),
        (f"{GAMES}/chess", Action.WARN),
        ("hrn://c.example/web", Action.TAG),
        ("hrn://c.example/web/gamesome", Action.TAG),
        ("hrn://c.example/other", Action.ALLOW),
        ("hrn://c.example", Action.ALLOW),
    ],
)
def test_the_nearest_superordinate_decides(category: str, action: Action) -> None:
    one = view(c=timed(Action.ALLOW), c_web=timed(Action.TAG), c_web_games=timed(Action.WARN))
    assert done(one.decide([match(category=category)])) is action


@pytest.mark.parametrize(
    ("now", "action"), [(NINE - TICK, Action.ALLOW), (NINE, Action.WARN), (NINE + TICK, Action.WARN)]
)
def test_the_nearest_that_says_something_at_that_moment_decides(now: datetime, action: Action) -> None:
    said = {"c": timed(Action.ALLOW), "c_web_games": timed(Action.WARN, NIGHT)}
    assert done(view(now, **said).decide([match()])) is action


@each_row(
    ("pattern", "action"),
    [
        (PREFIX, Action.PASS),
        (FULL, Action.ALLOW),
        (Expression(b"h.example/"), Action.ALLOW),
        (IPv4Network("10.0.0.0/8"), Action.ALLOW),
    ],
)
def test_a_hash_prefix_is_never_turned_into_an_allowance(pattern: Pattern, action: Action) -> None:
    below = match(category=None, layer="below")
    uses = (LayerUse("lists"), LayerUse("below"))
    one = view(c=timed(Action.ALLOW), layers=uses)
    assert done(one.decide([match(pattern=pattern)])) is action
    assert done(one.decide([match(pattern=pattern), below])) is (
        Action.ALLOW if action is Action.ALLOW else Action.BLOCK
    )
    assert one.allows(match(pattern=pattern)) is (action is Action.ALLOW)


def test_a_match_tells_what_in_the_policy_decided() -> None:
    decision = view(TEN, c_web=timed(Action.WARN, NIGHT)).decide([match(), match(via="rung protocol")])
    assert [found.via for found in decision.matches] == [
        "category by p:3, schedule night",
        "rung protocol, category by p:3, schedule night",
    ]
    assert str(decision) == "h.example/ by list (file:7, category by p:3, schedule night)"


@each_row(
    ("said", "until"),
    [
        ({}, None),
        ({"c": timed(Action.WARN)}, None),
        ({"c": timed(Action.WARN, NIGHT, Action.BLOCK)}, NINE),
        # a nearer one of which nothing is said yet
        ({"c": timed(Action.WARN), "c_web_games": timed(Action.ALLOW, NIGHT)}, NINE),
        ({"c_web_games": timed(Action.ALLOW, NIGHT)}, NINE),
        ({"c_web": timed(Action.BLOCK, NIGHT, Action.BLOCK), "c_web_games": timed(Action.ALLOW, EVENING)}, SIX),
        # one that is farther away makes no difference
        ({"c": timed(Action.BLOCK, EVENING), "c_web_games": timed(Action.BLOCK, NIGHT, Action.BLOCK)}, NINE),
    ],
)
def test_a_match_tells_until_when(said: dict[str, ScheduledAction], until: datetime | None) -> None:
    (found,) = view(**said).decide([match()]).matches
    assert found.until == until


# -- where no rule decides ---------------------------------------------------------------------------------------------


@each_row(
    ("default", "at_noon", "at_night"),
    [
        (None, Action.PASS, Action.PASS),
        (timed(Action.PASS), Action.PASS, Action.PASS),
        (timed(Action.BLOCK), Action.BLOCK, Action.BLOCK),
        (timed(Action.WARN, NIGHT), Action.PASS, Action.WARN),
        (timed(Action.BLOCK, NIGHT, Action.WARN), Action.WARN, Action.BLOCK),
    ],
)
def test_the_default_is_what_is_done_where_nothing_fits(
    default: ScheduledAction | None, at_noon: Action, at_night: Action
) -> None:
    for now, action in ((NOON, at_noon), (TEN, at_night)):
        assert done(view(now, default).decide([])) is done(view(now, default).nothing) is action


def test_the_default_is_below_every_layer_and_explained() -> None:
    one = view(TEN, timed(Action.BLOCK, NIGHT))
    tag, allow = match(Action.TAG), match(Action.ALLOW)
    assert done(one.decide([allow])) is Action.ALLOW
    decision = one.decide([tag])
    assert (decision.action, decision.tags, decision.group) == (Action.BLOCK, (tag,), "pupils")
    assert str(decision) == "* by policy (p:3): Only what is allowed passes (schedule night)"
    assert decision.winner is not None
    assert decision.winner.until == datetime(2026, 12, 25, 6, tzinfo=UTC)


# -- layers ------------------------------------------------------------------------------------------------------------


def test_layers_are_asked_in_the_group_s_order_and_others_neither_decide_nor_tag() -> None:
    one = view(layers=(LayerUse("lists"), LayerUse("overrides")))
    assert one.layers == ("lists", "overrides", "default")
    assert done(one.decide([match(Action.ALLOW, layer="overrides"), match()])) is Action.BLOCK
    assert view(layers=(LayerUse("overrides"),)).decide([match(), match(Action.TAG)]) == Decision(
        Action.PASS, group="pupils"
    )


# -- for how long ------------------------------------------------------------------------------------------------------


def test_a_view_holds_to_the_first_change_of_any_schedule_and_not_a_microsecond_longer() -> None:
    one = view(NOON, timed(Action.BLOCK, NIGHT), (LayerUse("lists", EVENING),), c=timed(Action.WARN, ONCE))
    assert one.until == SIX
    assert [one.holds_at(now) for now in (NOON, SIX - TICK, SIX, NOON - TICK)] == [True, True, False, False]


def test_what_changes_no_more_does_not_hold_for_the_past() -> None:
    one = view(datetime(2027, 1, 1, tzinfo=UTC), timed(Action.BLOCK, ONCE))
    assert (one.until, one.is_timeless) == (None, False)
    assert one.holds_at(datetime(2030, 1, 1, tzinfo=UTC))
    assert not one.holds_at(NOON)


def test_an_hour_that_the_clock_shows_twice_is_two() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first, second = (datetime(2026, 10, 25, 2, 15, tzinfo=berlin, fold=fold) for fold in (0, 1))
    one = view(second, timed(Action.BLOCK, NIGHT))
    assert not one.holds_at(first.replace(minute=25))
    assert one.holds_at(second.replace(minute=25))


# -- a group, and everybody behind it ----------------------------------------------------------------------------------


def test_where_a_group_says_nothing_now_what_is_said_for_everybody_holds() -> None:
    everybody = GroupSettings({GAMES: timed(Action.WARN)}, timed(Action.BLOCK, line=8))
    own = GroupSettings({GAMES: timed(Action.ALLOW, NIGHT, line=5)}, timed(Action.BLOCK, NIGHT, line=6))
    given = MappingReader(YamlNode(1, {"default": YamlNode(1, "x")}), ("default",), ProblemReport("p"))
    group = Group("pupils", (LayerUse("lists"),), everybody.behind(own, given))
    by_day, by_night = EffectivePolicy(group, NOON), EffectivePolicy(group, NINE)
    assert [by_day.decide([match()]).action, by_night.decide([match()]).action] == [Action.WARN, Action.ALLOW]
    assert [by_day.nothing.action, by_night.nothing.action] == [Action.PASS, Action.BLOCK]  # its own, as a whole
    assert (by_day.until, by_day.decide([match()]).winner) == (NINE, by_day.decide([match()]).matches[0])
    assert by_day.decide([match()]).matches[0].until == NINE
