"""What the page shows of now: whether all is well, who waits for an answer, and what holds for whom.

People are the policy's groups: a family has one for each child, a school one for each class. What is no group's is
everybody else's. Addresses and names of users stand as the log may have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from time import time

from mitmproxy import ctx

from hushlist.core.decide.engine import Engine
from hushlist.core.policy.groups import DEFAULT, UNNAMED, Client, Group, address_text
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.reach import Reach
from hushlist.core.routes import ActionError, Parts
from hushlist.extensions.dashboard.dashboard_data import actions_of
from hushlist.extensions.dashboard.what_holds import CategoryAction, LayerUse, ScheduleStatus, closing_of, holds_for
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.journal.log_record import Privacy, who
from hushlist.extensions.journal.masked_clients import device_names_shown
from hushlist.extensions.quotas.metered_use import told_use, uses_in
from hushlist.extensions.quotas.quotas import Quota
from hushlist.extensions.subscriptions.actions import lists
from hushlist.extensions.unblock.actions import AskedFor, BlockStatus, GrantStatus, blocks, grants, waiting
from hushlist.extensions.unblock.overrides import Overrides
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service.health import warnings_of

#: seconds before its end from which on the certificate of the devices is told of
_RENEW = 60 * 86400.0
#: where a quota stands in the policy: for those alone who may see all of it
_PLACE = ("source", "line")
#: most devices of a group whose minutes are told
_MOST = 24


@dataclass(frozen=True, slots=True)
class Trouble:
    """What somebody should look at: its kind, what it is about, and what the proxy says of it."""

    kind: str
    name: str | None
    said: str | None


@dataclass(frozen=True, slots=True)
class Home:
    """Whether the filter works, and what waits for somebody."""

    now: float
    #: by the clock of the policy
    clock: str
    zone: str
    #: when the night ends next, by that clock
    morning: str
    mode: str
    rules: int
    #: requests since the start of the proxy that passed by a dry run alone
    would_block: int
    #: when the lists that are fetched were last asked for: the one that is longest ago
    checked: float | None
    #: what the log keeps: ``off``, ``blocked``, ``noted``, ``all``; of clients: ``keep``, ``pseudonym``, ``drop``
    kept: str
    clients: str
    troubles: list[Trouble]
    requests: list[AskedFor]


@dataclass(frozen=True, slots=True)
class QuotaOf:
    """A quota, whom more of it is for, who has used it where that is one of several, and how much of it is used."""

    whom: str
    of: str | None
    use: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Person:
    """A group, and what holds for it now."""

    name: str
    #: the group of everybody who is in no other
    is_rest: bool
    #: its devices as ``device:NAME``, its users as ``user:NAME``, its addresses and networks
    members: list[str]
    mode: str
    default: str | None
    schedules: list[ScheduleStatus]
    #: those of its schedules that stop whatever no rule allows
    closing: list[str]
    layers: list[LayerUse]
    categories: list[CategoryAction]
    quotas: list[QuotaOf]
    grants: list[GrantStatus]
    blocks: list[BlockStatus]


@dataclass(frozen=True, slots=True)
class Device:
    """A client of which requests were decided since the start of the proxy."""

    client: str | None
    user: str | None
    group: str
    requests: int
    #: what the policy calls the device, where the log keeps clients
    name: str | None = None


def home(
    engine: Engine, runtime: Runtime, parts: Parts, overrides: Overrides | None, privacy: Privacy, reach: Reach
) -> Home:
    """Whether all is well, and who waits."""
    now, policy = time(), engine.policy
    log = policy.of("log")
    runtime.statistics.count()
    checked = [listed.checked for listed in parts.call(lists) if listed.checked is not None] if reach.is_all else []
    return Home(
        now,
        f"{datetime.now(policy.zone):%Y-%m-%dT%H:%M}",
        str(policy.zone),
        f"{policy.next_morning(datetime.now(UTC)).astimezone(policy.zone):%Y-%m-%dT%H:%M}",
        runtime.mode,
        len(engine.index),
        actions_of(runtime.statistics)[1] if reach.is_all else 0,
        min(checked, default=None),
        "off" if log is None else log.what.value,
        "keep" if log is None else log.clients.value,
        list(_troubles(engine, runtime, parts, now)) if reach.is_all else [],
        waiting(overrides, privacy, reach),
    )


def _troubles(engine: Engine, runtime: Runtime, parts: Parts, now: float) -> Iterator[Trouble]:
    if runtime.problem is not None:
        yield Trouble("policy", None, runtime.problem)
    for listed in parts.call(lists):
        if listed.held is not None:
            yield Trouble("held", listed.title, "; ".join(listed.reasons))
        elif listed.fault is not None:
            yield Trouble("fetch", listed.title, listed.fault)
    for path, why in engine.policy.held.items():  # of those that are fetched, it knows nothing
        yield Trouble("held", path.name, why)
    with suppress(Exception):  # another mitmproxy may keep it in another way
        end = ctx.master.addons.get("tlsconfig").certstore.default_ca.notafter
        if end.timestamp() - now < _RENEW:
            yield Trouble("authority", f"{end:%Y-%m-%d}", None)
    for said in warnings_of(runtime):
        if not said.startswith(("lists that are held back", "the list in line")):  # named above
            yield Trouble("warning", None, said)
    if engine.policy.groups:
        number = sum(device.group == DEFAULT for device in _devices(engine, runtime))
        if number:
            yield Trouble("devices", str(number), None)


def people(
    engine: Engine, runtime: Runtime, parts: Parts, policy: Policy, privacy: Privacy, reach: Reach
) -> list[Person]:
    """What holds for each group now."""
    now = datetime.now(UTC)
    granted: list[GrantStatus] = []
    blocked: list[BlockStatus] = []
    with suppress(ActionError, StoreError):  # the page says elsewhere that nothing can be unblocked
        granted, blocked = parts.call(grants), parts.call(blocks)
    seen = _devices(engine, runtime)
    groups = (group for group in policy.all_groups if reach.has_group(group.name))
    return [_person(group, engine, runtime, now, granted, blocked, seen, privacy, reach) for group in groups]


def _person(
    group: Group,
    engine: Engine,
    runtime: Runtime,
    now: datetime,
    granted: list[GrantStatus],
    blocked: list[BlockStatus],
    seen: list[Device],
    privacy: Privacy,
    reach: Reach,
) -> Person:
    held, members = holds_for(engine, group, now), _members(group)
    clients = [Client(device.client or "", device.user) for device in seen if device.group == group.name]
    clients += [Client(str(network.network_address)) for network in group.networks if network.num_addresses == 1]
    clients += [Client(user=user) for user in sorted(group.users)]
    names = {None, f"group:{group.name}", *(name for client in clients for name in client.names)}
    return Person(
        group.name,
        group.name == DEFAULT,
        members,
        held.mode,
        held.default,
        held.schedules,
        closing_of(group),
        held.layers,
        held.categories,
        list(_quotas(runtime, group, clients, privacy, reach)),
        [grant for grant in granted if grant.client in names],
        [block for block in blocked if block.client in names],
    )


def _quotas(runtime: Runtime, group: Group, clients: list[Client], privacy: Privacy, reach: Reach) -> Iterator[QuotaOf]:
    """Those that are shared once, and those of each device that has used some, or of the only one."""
    hidden = () if reach.is_all else _PLACE
    shared, clients = set[Quota](), list(dict.fromkeys(clients[:_MOST] or [Client()]))
    for client in clients:
        name = f"user:{client.user}" if client.user else address_text(client.address)
        shown = who("user", client.user, privacy) if client.user else who("client", name or None, privacy)
        shown = name if client.user and shown == client.user else shown
        for use in uses_in(runtime, client, group):
            if use.quota in shared or not (use.quota.is_shared or use.used or use.extended or len(clients) == 1):
                continue
            if use.quota.is_shared:
                shared.add(use.quota)
            is_alone = use.quota.is_shared or len(clients) == 1
            whom = f"group:{group.name}" if group.name != DEFAULT or is_alone or shown is None else shown
            described = told_use(runtime, use, client, group)
            described = {name: value for name, value in described.items() if name not in hidden}
            yield QuotaOf(whom, None if is_alone else shown, described)


def _members(group: Group) -> list[str]:
    addresses = (
        str(network.network_address) if network.num_addresses == 1 else str(network) for network in group.networks
    )
    devices = (f"device:{name}" for name in sorted(group.devices))
    return [*devices, *(f"user:{user}" for user in sorted(group.users)), *addresses]


def _devices(engine: Engine, runtime: Runtime) -> list[Device]:
    clients = ((Client(asker.address, asker.user), number) for asker, number in runtime.statistics.clients.top())
    return [
        Device(address_text(client.address) or None, client.user, engine.group(client).name, number)
        for client, number in clients
    ]


def devices(engine: Engine, runtime: Runtime, privacy: Privacy) -> list[Device]:
    """Which devices use the proxy, and whose they are.

    Since its start.
    """
    names = device_names_shown(engine.policy, privacy)
    return [
        Device(
            who("client", device.client, privacy),
            who("user", device.user, privacy),
            device.group,
            device.requests,
            None if name == UNNAMED else name,
        )
        for device in _devices(engine, runtime)
        for name in [names(device.client or "", device.user) if names is not None else None]
    ]
