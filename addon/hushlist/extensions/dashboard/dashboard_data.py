"""The data of the live page, the metrics and the summary: lists and log in use, and numbers.

Of decisions, it shows only what the log may say of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from time import time
from weakref import WeakKeyDictionary

from hushlist.core.compile.compile_report import CompileReport
from hushlist.core.decide.engine import Engine
from hushlist.core.extension import ListFormat, extensions_named
from hushlist.core.lists.list_formats import FOLDERS, FORMATS, list_formats
from hushlist.core.match.rule import Action
from hushlist.core.policy.group_table import DeviceNames, device_names
from hushlist.core.policy.groups import address_text
from hushlist.core.policy.policy_file import Policy
from hushlist.core.routes import BESIDE
from hushlist.core.system.memory import resident_octets
from hushlist.extensions.dashboard.initiator import initiator_of
from hushlist.extensions.databases.store_upkeep import StoreUpkeep
from hushlist.extensions.fleet.heartbeat import fleet_of
from hushlist.extensions.fleet.proxy_records import troubles
from hushlist.extensions.journal.journal import Journal
from hushlist.extensions.journal.log_entry import fields_of
from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.extensions.journal.log_record import Privacy, who
from hushlist.extensions.journal.masked_clients import KEPT, shown_by
from hushlist.extensions.quotas.metered_use import MeteredUse
from hushlist.extensions.subscriptions.list_watch import states_in
from hushlist.extensions.unblock.actions import AskedFor, waiting
from hushlist.extensions.unblock.unblock_handler import UnblockHandler, overrides_of
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.statistics import BOUNDS, NotedDecision, Statistics


@dataclass(frozen=True, slots=True)
class ListStatus:
    file: str
    title: str | None
    format: str
    layer: str
    #: its own category, if it has one
    category: str | None
    #: entries that were read, and their results
    read: int
    rules: int
    duplicates: int
    refused: int
    #: ``None``: an update of a few lines does not count them
    #: the file when it was read: time in seconds since 1970, and octets
    modified: float | None
    size: int | None
    warnings: tuple[str, ...]
    #: why its last good copy is in force, if so
    held: str | None


@dataclass(frozen=True, slots=True)
class LogStatus:
    is_on: bool
    folder: str | None
    #: records still to be written
    waiting: int
    #: why the log cannot be written, if so
    fault: str | None
    #: settings for private data: ``keep``, ``pseudonym`` or ``drop``
    queries: str
    clients: str
    #: how large it is, and what of it ends first, as of its last tidying
    figures: Mapping[str, object] | None


#: cached, since an engine never changes
_lists: WeakKeyDictionary[Engine, tuple[ListStatus, ...]] = WeakKeyDictionary()


def lists_of(engine: Engine) -> tuple[ListStatus, ...]:
    """The lists of an engine, in the order of its policy."""
    if engine in _lists:
        return _lists[engine]
    report, titles, files = CompileReport.of(engine.index), engine.index.titles(), engine.policy.files
    listed = [(layer.name, file) for layer in engine.policy.layers for file in layer.lists]
    statuses = []
    for (layer, file), list_report in zip(listed, report.lists, strict=True):
        fingerprint = files.get(file.path)
        statuses.append(
            ListStatus(
                file=list_report.source,
                title=titles.get(list_report.source),
                format=_format_name(file.format, engine.policy),
                layer=layer,
                category=file.defaults.category,
                read=list_report.read,
                rules=list_report.kept,
                duplicates=list_report.duplicates,
                refused=list_report.refused,
                modified=None if fingerprint is None else fingerprint[0] / 1e9,
                size=None if fingerprint is None else fingerprint[1],
                warnings=tuple(str(problem) for problem in report.warnings if problem.source == list_report.source),
                held=engine.policy.held.get(file.path),
            )
        )
    _lists[engine] = tuple(statuses)
    return _lists[engine]


def _format_name(wanted: ListFormat, policy: Policy) -> str:
    folders = {folder: reader for folder, formats in FOLDERS.items() for reader in formats.values()}
    readers = {**FORMATS, **list_formats(extensions_named(policy.extensions)), **folders}
    return next((name for name, reader in readers.items() if reader == wanted), "unknown")


def log_of(runtime: Runtime) -> LogStatus:
    """The state of the log; its privacy settings also apply to the live page, even without a log."""
    engine, journal = runtime.engine, runtime.part(Journal)
    log = None if journal is None else journal.log
    settings = None if engine is None else engine.policy.of("log")
    shown = KEPT if engine is None else shown_by(engine.policy)
    if log is None:
        return LogStatus(settings is not None, None, 0, None if journal is None else journal.fault, *shown, None)
    figures = None if log.figures is None else asdict(log.figures)
    return LogStatus(True, str(log.place), log.waiting, log.fault, *shown, figures)


def store_fault(runtime: Runtime) -> str | None:
    """Why nothing can be unblocked, or minutes are not kept, if so."""
    unblock, metered = runtime.part(UnblockHandler), runtime.part(MeteredUse)
    minutes = None if metered is None else metered.minutes
    return (None if unblock is None else unblock.fault) or (None if minutes is None else minutes.fault)


def actions_of(statistics: Statistics) -> tuple[Counter[Action], int]:
    """How many decisions had each action, and how many passed by the dry run alone, which are none of the first."""
    actions: Counter[Action] = Counter()
    would_block = 0
    for outcome, number in statistics.outcomes.top():
        if outcome.would_block:
            would_block += number
        else:
            actions[outcome.action] += number
    return actions, would_block


# -- what the page gets ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupStatus:
    name: str
    mode: str


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    file: str | None
    mode: str
    rules: int
    #: the digest of what the rules are compiled from, and the octets of that
    index: str | None
    octets: int
    #: the time zone by whose clock schedules go
    zone: str | None
    groups: list[GroupStatus]
    lists: list[ListStatus]
    problem: str | None
    reading: Mapping[str, object] | None
    readings: Mapping[str, int]
    store_fault: str | None


@dataclass(frozen=True, slots=True)
class Count:
    """How often something was decided; the names of that stand beside the number."""

    names: Mapping[str, str | None] = field(metadata=BESIDE)
    count: int


@dataclass(frozen=True, slots=True)
class Counts:
    total: int
    actions: Mapping[str, int]
    would_block: int
    faults: int
    lists: Sequence[Count]
    categories: Sequence[Count]
    clients: Sequence[Count]
    hosts: Sequence[Count]
    rules: Sequence[Count]
    files: Sequence[Count]


@dataclass(frozen=True, slots=True)
class Durations:
    """In µs."""

    quantiles: Mapping[str, float | None]
    bounds: Sequence[float]
    histogram: Sequence[int]
    slowest: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class LiveData:
    """What the page shows; of decisions, those after the last one that it has."""

    now: float
    started: float
    memory: int | None
    log: LogStatus
    policy: PolicyStatus
    counts: Counts
    failures: int
    durations: Durations
    #: the proxies that share the store, with what is wrong with each
    fleet: Sequence[Mapping[str, object]]
    set_aside: Sequence[str]
    #: a name that distinguishes the numbers of decisions from those of another session
    of: str
    last: int
    requests: Sequence[AskedFor]
    decisions: Sequence[Mapping[str, object]]


#: most names of each kind
_MOST = 50
_SHARES = (0.5, 0.9, 0.99)


def name_of(statistics: Statistics) -> str:
    return f"{statistics.started:.3f}"


def live_data(runtime: Runtime, privacy: Privacy) -> LiveData:
    """All but requests and decisions, which ``with_decisions`` adds."""
    stores = runtime.part(StoreUpkeep)
    statistics, wrong = runtime.statistics, troubles(fleet_of(runtime), time())
    return LiveData(
        now=time(),
        started=statistics.started,
        memory=resident_octets(),
        log=log_of(runtime),
        policy=_policy(runtime),
        counts=_counts(statistics, privacy),
        failures=runtime.failure_policy.refused + runtime.failure_policy.passed,
        durations=_durations(statistics, privacy),
        fleet=[{**proxy._asdict(), "troubles": wrong[proxy.name]} for proxy in fleet_of(runtime)],
        set_aside=[path.name for path in (() if stores is None else stores.set_aside)],
        of=name_of(statistics),
        last=statistics.total,
        requests=(),
        decisions=(),
    )


def with_decisions(data: LiveData, runtime: Runtime, noted: Iterable[NotedDecision], privacy: Privacy) -> LiveData:
    """Waits for the disk."""
    engine = runtime.engine
    device_of = None if engine is None else device_names(engine.policy)
    decisions = [_spelled(decision, privacy, device_of) for decision in noted]
    return replace(data, requests=waiting(overrides_of(runtime), privacy), decisions=decisions)


def _spelled(noted: NotedDecision, privacy: Privacy, device_of: DeviceNames | None) -> dict[str, object]:
    """A decision in the form of the log, with its duration in µs, and what the request tells of its place."""
    fields, initiator = fields_of(noted.record, privacy, device_of), initiator_of(noted.record, privacy)
    return {**fields, "number": noted.number, "duration": noted.duration / 1000, "told": initiator}


def _policy(runtime: Runtime) -> PolicyStatus:
    engine, reading = runtime.engine, runtime.reading
    return PolicyStatus(
        file=None if engine is None else engine.policy.source,
        mode=runtime.mode,
        rules=0 if engine is None else len(engine.index),
        index=None if engine is None else engine.index.source,
        octets=0 if engine is None else engine.index.octets,
        zone=None if engine is None else str(engine.policy.zone),
        groups=[]
        if engine is None
        else [GroupStatus(group.name, group.settings.mode) for group in engine.policy.all_groups],
        lists=[] if engine is None else [_shown(each, runtime) for each in lists_of(engine)],
        problem=runtime.problem,
        reading=None if reading is None else reading._asdict(),
        readings={"used": runtime.readings[True], "refused": runtime.readings[False]},
        store_fault=store_fault(runtime),
    )


def _shown(status: ListStatus, runtime: Runtime) -> ListStatus:
    """A list as the page gets it, with what is wrong with its updates among the warnings."""
    state = states_in(runtime).get(status.file)
    if state is None:
        return status
    warnings = (*status.warnings, *state.troubles(status.file))
    return replace(status, warnings=warnings, held="; ".join(state.reasons) or None)


def _counts(statistics: Statistics, privacy: Privacy) -> Counts:
    statistics.count()
    actions, would_block = actions_of(statistics)
    clients = () if privacy.clients is LoggedClients.DROP else statistics.clients.top(_MOST)
    return Counts(
        total=statistics.total,
        actions={action.value: number for action, number in actions.items()},
        would_block=would_block,
        faults=statistics.faults,
        lists=[
            Count({"list": name.label, "file": name.source, "action": action.value}, number)
            for (name, action), number in statistics.lists.top(_MOST)
        ],
        categories=[
            Count({"category": name, "action": action.value}, number)
            for (name, action), number in statistics.categories.top(_MOST)
        ],
        clients=[
            Count({"client": _client(asker.address, privacy), "user": who("user", asker.user, privacy)}, number)
            for asker, number in clients
        ],
        hosts=[Count({"host": host}, number) for host, number in statistics.hosts.top(_MOST)],
        rules=[
            Count({"rule": place, "pattern": pattern}, number)
            for (place, pattern), number in statistics.rules.top(_MOST)
        ],
        files=[
            Count({"kind": kind, "action": action.value}, number)
            for (kind, action), number in statistics.files.top(_MOST)
        ],
    )


def _client(address: str, privacy: Privacy) -> str | None:
    return who("client", address_text(address) if address else None, privacy)


def _durations(statistics: Statistics, privacy: Privacy) -> Durations:
    slowest = statistics.slowest
    shares = zip(_SHARES, statistics.quantiles(*_SHARES), strict=True)
    return Durations(
        quantiles={str(share): None if duration is None else duration / 1000 for share, duration in shares},
        bounds=[bound / 1000 for bound in BOUNDS],
        histogram=statistics.histogram,
        slowest=None if slowest is None else _spelled(slowest, privacy, None),
    )
