"""What holds for a client at a moment, for administrators to look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Annotated, NamedTuple

from hushlist.core.decide.decision import Decision, decide_unread
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import UrlError
from hushlist.core.policy.groups import Client, Group
from hushlist.core.policy.recurrence import A_DAY, Schedule
from hushlist.core.policy.scheduled_action import ScheduledAction
from hushlist.core.routes import Parts, Text
from hushlist.core.url.parts import as_typed
from hushlist.extensions.quotas.metered_use import told_use, uses_in
from hushlist.extensions.unblock.actions import BlockStatus, GrantStatus, blocks, grants
from hushlist.proxy.runtime import Runtime


@dataclass(frozen=True, slots=True)
class LayerUse:
    name: str
    is_on: bool


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    name: str
    is_on: bool
    #: when that changes: in seconds since 1970, and by the clock of the policy
    until: float | None
    changes: str | None


@dataclass(frozen=True, slots=True)
class CategoryAction:
    category: str
    action: str | None


@dataclass(frozen=True, slots=True)
class Holds:
    """What holds for a client now; the decision is for the URL, if there is one."""

    group: str
    mode: str
    default: str | None
    layers: list[LayerUse]
    schedules: list[ScheduleStatus]
    categories: list[CategoryAction]
    quotas: list[Mapping[str, object]]
    grants: list[GrantStatus]
    blocks: list[BlockStatus]
    decision: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class ScheduleOfWeek:
    """A schedule as it holds in this week."""

    name: str
    #: who goes by it, and those of them for whom it stops whatever no rule allows
    groups: list[str]
    closing: list[str]
    #: when it is on: from and to, in minutes since Monday by the clock of the policy
    spans: list[list[int]]


@dataclass(frozen=True, slots=True)
class Week:
    """The schedules of this week."""

    zone: str
    monday: str
    schedules: list[ScheduleOfWeek]


class HoldsFor(NamedTuple):
    """What holds for a group at a moment."""

    mode: str
    default: str | None
    layers: list[LayerUse]
    schedules: list[ScheduleStatus]
    categories: list[CategoryAction]


def holds_for(engine: Engine, group: Group, now: datetime) -> HoldsFor:
    """What holds for a group."""
    default = group.settings.default
    return HoldsFor(
        group.settings.mode,
        None if default is None else _action_at(default, now),
        [LayerUse(use.name, use.during is None or use.during.is_on(now)) for use in group.layers],
        [_status_of(schedule, now, engine.policy.zone) for schedule in group.schedules.values()],
        [CategoryAction(name, _action_at(timed, now)) for name, timed in sorted(group.settings.categories.items())],
    )


def closing_of(group: Group) -> list[str]:
    """The schedules that stop whatever no rule allows for a group."""
    default = group.settings.default
    return [] if default is None else [action.during.name for action in default.chain() if action.during is not None]


def this_week(engine: Engine) -> Week:
    """When schedules are on in this week."""
    policy = engine.policy
    today = datetime.now(policy.zone).date()
    monday = today - timedelta(days=today.weekday())
    schedules = {name: item for group in policy.all_groups for name, item in group.schedules.items()}
    groups = [(group.name, set(group.schedules), closing_of(group)) for group in policy.all_groups]
    return Week(
        str(policy.zone),
        f"{monday}",
        [
            ScheduleOfWeek(
                name,
                [group for group, names, _ in groups if name in names],
                [group for group, _, closing in groups if name in closing],
                list(_spans(schedule, datetime.combine(monday, time(), policy.zone))),
            )
            for name, schedule in sorted(schedules.items())
        ],
    )


#: minutes of a week, and times in it at which a schedule changes: what comes later is not shown
_WEEK, _MOST_CHANGES = 7 * A_DAY, 400


def _spans(schedule: Schedule, monday: datetime) -> Iterator[list[int]]:
    """When a schedule is on in the week of a Monday."""
    begun, now = 0 if schedule.is_on(monday) else None, monday
    for _ in range(_MOST_CHANGES):
        change = schedule.next_change(now)
        wall = None if change is None else change.astimezone(monday.tzinfo).replace(tzinfo=None)
        minute = _WEEK if wall is None else int((wall - monday.replace(tzinfo=None)).total_seconds() // 60)
        if begun is not None:
            yield [begun, min(minute, _WEEK)]
        if change is None or minute >= _WEEK:
            return
        begun, now = minute if begun is None else None, change


def what_holds(
    engine: Engine,
    runtime: Runtime,
    parts: Parts,
    client: Annotated[str, Text("its address")] = "",
    user: Annotated[str, Text("its user in the proxy", 256)] = "",
    url: Annotated[str, Text("an address that is decided for it", 8192)] = "",
) -> Holds:
    """What holds for a client now."""
    asker, typed, now = Client(client.strip(), user.strip() or None), url.strip(), datetime.now(UTC)
    group, decision = engine.group(asker), _decided(engine, asker, typed, now) if typed else None
    names, held = {None, *asker.names, f"group:{group.name}"}, holds_for(engine, group, now)
    return Holds(
        group.name,
        *held,
        [told_use(runtime, use, asker, group) for use in uses_in(runtime, asker, group)],
        [grant for grant in parts.call(grants) if grant.client in names],
        [block for block in parts.call(blocks) if block.client in names],
        None if decision is None else {**decision.as_dict(), "why": str(decision)},
    )


def _decided(engine: Engine, client: Client, url: str, now: datetime) -> Decision:
    try:
        return engine.decide_url(as_typed(url), now, client)
    except UrlError as error:
        return decide_unread(engine.policy.unparsable, b"", error.reason)


def _action_at(timed: ScheduledAction, now: datetime) -> str | None:
    actions = (step.at(now) for step in timed.chain())
    return next((action.value for action in actions if action is not None), None)


def _status_of(schedule: Schedule, now: datetime, zone: tzinfo) -> ScheduleStatus:
    change = schedule.next_change(now)
    if change is None:
        return ScheduleStatus(schedule.name, schedule.is_on(now), None, None)
    text = change.astimezone(zone).isoformat(timespec="seconds")
    return ScheduleStatus(schedule.name, schedule.is_on(now), change.timestamp(), text)
