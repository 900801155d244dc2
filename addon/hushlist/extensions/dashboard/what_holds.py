"""What holds for a client at a moment, for administrators to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Annotated, NamedTuple

from hushlist.core.decide.decision import Decision, decide_unread
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import UrlError
from hushlist.core.policy.groups import Client, Group
from hushlist.core.policy.recurrence import Schedule
from hushlist.core.policy.schedule import ScheduledAction
from hushlist.core.routes import Parts, Text
from hushlist.core.url.parts import as_typed
from hushlist.extensions.quotas.metered_use import uses_in
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
        [_status_of(one, now, engine.policy.zone) for one in group.schedules.values()],
        [CategoryAction(name, _action_at(timed, now)) for name, timed in sorted(group.settings.categories.items())],
    )


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
        [use.as_dict() for use in uses_in(runtime, asker)],
        [one for one in parts.call(grants) if one.client in names],
        [one for one in parts.call(blocks) if one.client in names],
        None if decision is None else {**decision.as_dict(), "why": str(decision)},
    )


def _decided(engine: Engine, client: Client, url: str, now: datetime) -> Decision:
    try:
        return engine.decide_url(as_typed(url), now, client)
    except UrlError as error:
        return decide_unread(engine.policy.unparsable, b"", error.reason)


def _action_at(timed: ScheduledAction, now: datetime) -> str | None:
    actions = (one.at(now) for one in timed.chain())
    return next((action.value for action in actions if action is not None), None)


def _status_of(schedule: Schedule, now: datetime, zone: tzinfo) -> ScheduleStatus:
    change = schedule.next_change(now)
    if change is None:
        return ScheduleStatus(schedule.name, schedule.is_on(now), None, None)
    told = change.astimezone(zone).isoformat(timespec="seconds")
    return ScheduleStatus(schedule.name, schedule.is_on(now), change.timestamp(), told)
