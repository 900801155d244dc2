"""The data of the live page, the metrics and the summary, in plain types: lists and log in use, and numbers.

Of decisions, it shows only what the log may say of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from time import time
from weakref import WeakKeyDictionary

from hushlist.core.compile.compile_report import CompileReport
from hushlist.core.decide.engine import Engine
from hushlist.core.lists.list_formats import FOLDERS, FORMATS, ListFormat
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import address_text
from hushlist.core.policy.proxy_settings import LoggedClients, LogSettings
from hushlist.core.system.memory import resident_octets
from hushlist.extensions.fleet.proxy_records import troubles
from hushlist.extensions.journal.log_record import Privacy, who
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
    covered: int
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
    found = []
    for (layer, file), own in zip(listed, report.lists, strict=True):
        fingerprint = files.get(file.path)
        found.append(
            ListStatus(
                file=own.source,
                title=titles.get(own.source),
                format=_format_name(file.format),
                layer=layer,
                category=file.defaults.category,
                read=own.read,
                rules=own.kept,
                duplicates=own.duplicates,
                refused=own.refused,
                covered=own.covered,
                modified=None if fingerprint is None else fingerprint[0] / 1e9,
                size=None if fingerprint is None else fingerprint[1],
                warnings=tuple(str(problem) for problem in report.warnings if problem.source == own.source),
                held=engine.policy.held.get(file.path),
            )
        )
    _lists[engine] = tuple(found)
    return _lists[engine]


def _shown(status: ListStatus, runtime: Runtime) -> dict[str, object]:
    """A list as the page gets it, with what is wrong with its updates among the warnings."""
    state = runtime.list_states.get(status.file)
    own = asdict(status)
    if state is not None:
        own |= {"warnings": [*status.warnings, *state.troubles(status.file)], "held": "; ".join(state.reasons) or None}
    return own


def _format_name(wanted: ListFormat) -> str:
    known = {**FORMATS, **{folder: own for folder, formats in FOLDERS.items() for own in formats.values()}}
    return next((name for name, own in known.items() if own == wanted), "unknown")


def log_of(runtime: Runtime) -> LogStatus:
    """The state of the log; its privacy settings also apply to the live page, even without a log."""
    engine, journal = runtime.engine, runtime.journal
    settings = None if engine is None else engine.policy.log
    kept = settings or LogSettings()
    shown = kept.queries.value, kept.clients.value
    if journal is None:
        return LogStatus(settings is not None, None, 0, runtime.journal_fault, *shown, None)
    figures = None if journal.figures is None else asdict(journal.figures)
    return LogStatus(True, str(journal.place), journal.waiting, journal.fault, *shown, figures)


#: most names of each kind
_MOST = 50
_SHARES = (0.5, 0.9, 0.99)


def privacy_of(runtime: Runtime) -> Privacy:
    """The log's limits on what may be shown of decisions; no limits if the policy has no log. May read the disk."""
    settings = None if runtime.engine is None else runtime.engine.policy.log
    if settings is None:
        return Privacy()
    if runtime.journal is not None:
        return runtime.journal.privacy()
    clients = LoggedClients.DROP if settings.clients is LoggedClients.PSEUDONYM else settings.clients
    return Privacy(settings.queries, clients)


def clients_shown(runtime: Runtime) -> LoggedClients:
    """What the policy says of clients; as ``privacy_of``, which may have no pseudonyms, but at once."""
    settings = None if runtime.engine is None else runtime.engine.policy.log
    return LoggedClients.KEEP if settings is None else settings.clients


def recent(noted: Iterable[NotedDecision], privacy: Privacy) -> list[dict[str, object]]:
    """Decisions in the form of the log, with their duration in µs."""
    return [_spelled(one, privacy) for one in noted]


def view(runtime: Runtime, privacy: Privacy) -> dict[str, object]:
    """Everything but the decisions themselves."""
    return {
        "now": time(),
        "started": runtime.statistics.started,
        "memory": resident_octets(),
        "log": asdict(log_of(runtime)),
        "policy": _policy(runtime),
        "counts": _counts(runtime.statistics, privacy),
        "failures": runtime.failure_policy.refused + runtime.failure_policy.passed,
        "durations": _durations(runtime.statistics, privacy),
        "fleet": _fleet(runtime),
        "set_aside": [path.name for path in runtime.set_aside],
    }


def _fleet(runtime: Runtime) -> list[dict[str, object]]:
    """The proxies that share the store, with what is wrong with each."""
    wrong = troubles(runtime.fleet, time())
    return [{**one._asdict(), "troubles": wrong[one.name]} for one in runtime.fleet]


def _spelled(noted: NotedDecision, privacy: Privacy) -> dict[str, object]:
    return {**noted.record.fields(privacy), "number": noted.number, "duration": noted.duration / 1000}


def _policy(runtime: Runtime) -> dict[str, object]:
    engine, reading = runtime.engine, runtime.reading
    return {
        "file": None if engine is None else engine.policy.source,
        "mode": runtime.mode,
        "rules": 0 if engine is None else len(engine.index),
        "index": None if engine is None else engine.index.source,
        "octets": 0 if engine is None else engine.index.octets,
        "zone": None if engine is None else str(engine.policy.zone),
        "groups": [
            {"name": group.name, "mode": group.settings.mode}
            for group in (() if engine is None else engine.policy.all_groups)
        ],
        "lists": [_shown(each, runtime) for each in (() if engine is None else lists_of(engine))],
        "problem": runtime.problem,
        "reading": None if reading is None else reading._asdict(),
        "readings": {"used": runtime.readings[True], "refused": runtime.readings[False]},
        "store_fault": runtime.store_fault,
    }


def actions_of(statistics: Statistics) -> tuple[Counter[Action], int]:
    """How many decisions had each action, and how many of all passed only by the dry run."""
    actions: Counter[Action] = Counter()
    would_block = 0
    for outcome, number in statistics.outcomes.top():
        actions[outcome.action] += number
        would_block += number if outcome.would_block else 0
    return actions, would_block


def _counts(statistics: Statistics, privacy: Privacy) -> dict[str, object]:
    statistics.count()
    actions, would_block = actions_of(statistics)
    return {
        "total": statistics.total,
        "actions": {action.value: number for action, number in actions.items()},
        "would_block": would_block,
        "faults": statistics.faults,
        "lists": [
            {"list": name.label, "file": name.source, "action": action.value, "count": number}
            for (name, action), number in statistics.lists.top(_MOST)
        ],
        "categories": [
            {"category": name, "action": action.value, "count": number}
            for (name, action), number in statistics.categories.top(_MOST)
        ],
        "clients": [
            {
                "client": who("client", address_text(asker.address) if asker.address else None, privacy),
                "user": who("user", asker.user, privacy),
                "count": number,
            }
            for asker, number in (() if privacy.clients is LoggedClients.DROP else statistics.clients.top(_MOST))
        ],
        "hosts": [{"host": host, "count": number} for host, number in statistics.hosts.top(_MOST)],
        "rules": [
            {"rule": place, "pattern": pattern, "count": number}
            for (place, pattern), number in statistics.rules.top(_MOST)
        ],
    }


def _durations(statistics: Statistics, privacy: Privacy) -> dict[str, object]:
    """In µs."""
    slowest = statistics.slowest
    told = zip(_SHARES, statistics.quantiles(*_SHARES), strict=True)
    return {
        "quantiles": {str(share): None if found is None else found / 1000 for share, found in told},
        "bounds": [bound / 1000 for bound in BOUNDS],
        "histogram": statistics.histogram,
        "slowest": None if slowest is None else _spelled(slowest, privacy),
    }
