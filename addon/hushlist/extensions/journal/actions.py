"""What the page shows of the past: how many requests there were and when, what was decided, and sites; and previews."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Annotated

from hushlist.core.decide.decision import STOPPING
from hushlist.core.lists.category_names import category_named
from hushlist.core.lists.patterns import canonical_target
from hushlist.core.match.rule import Action as RuleAction
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.reach import Reach
from hushlist.core.policy.recurrence import parse_moment
from hushlist.core.routes import Action, ActionError, Limit, Role, Text, Whole, usable
from hushlist.core.url.hrn import parse_hrn
from hushlist.extensions.journal.log_database import (
    LogFilters,
    LogPlace,
    counted_requests,
    counts_over_time,
    newest_records,
    of_minutes,
)
from hushlist.extensions.journal.log_record import (
    LogFields,
    Privacy,
    file_of_record,
    host_of_record,
    logged_name,
    shown_record,
    time_text,
)
from hushlist.extensions.journal.log_writer import LogWriter
from hushlist.extensions.journal.preview import preview, whose
from hushlist.extensions.journal.request_counts import QUARTER, WOULD

#: records that are looked at for the sites of a time, and sites that are told
MOST_READ, _MOST_SITES = 5000, 60
#: days -> minutes of a bar
_STEPS = {1: 15, 7: 60, 31: 1440}
_DAY_FORM = "%Y-%m-%d"
#: what is asked for together: whatever was kept from its origin
_STOPPED = "stopped"
_ACTIONS = ("", _STOPPED, WOULD, *(action.value for action in RuleAction))

Whose = Annotated[str, Text("whose: an address, user:NAME, group:NAME, a pseudonym of the log; nothing: everybody's")]
Days = Annotated[int, Whole("how many days, of which today is the last", 366)]
Day = Annotated[str, Text("from which day on, as 2026-12-24, by the clock of the policy", 10, pattern="([0-9-]{10})?")]


@dataclass(frozen=True, slots=True)
class Bar:
    """A time, by the clock of the policy, and how many requests it had that were decided so."""

    at: str
    passed: int
    warned: int
    stopped: int
    would: int


@dataclass(frozen=True, slots=True)
class Figures:
    """The requests of some days."""

    #: what is counted: ``all`` requests; or those of which the ``log`` has a record, where nothing counts the others
    counted: str
    zone: str
    #: the first day and now, by the clock of the policy
    first: str
    now: str
    #: minutes of a bar; those without requests are left out
    step: int
    bars: list[Bar]
    #: how many requests each group had in each of the 24 hours of a day
    groups: Mapping[str, list[int]]


@dataclass(frozen=True, slots=True)
class Site:
    """A site that somebody asked for."""

    host: str
    client: str | None
    user: str | None
    group: str | None
    category: str | None
    title: str | None
    passed: int
    stopped: int
    #: when it was asked for last
    last: str
    #: the reference of that decision
    reference: str


@dataclass(frozen=True, slots=True)
class Sites:
    """The sites that were asked for most, of the newest records; whether these are all of the time."""

    is_all: bool
    read: int
    sites: list[Site]


@dataclass(frozen=True, slots=True)
class FileKind:
    """Files of one kind, or else of one media type, and what was done with them."""

    file: str
    passed: int
    stopped: int
    last: str


@dataclass(frozen=True, slots=True)
class Files:
    """The kinds of files that rules were about most, of the newest records; whether these are all of the time."""

    is_all: bool
    read: int
    files: list[FileKind]


@dataclass(frozen=True, slots=True)
class Activity:
    """Records of the log, the newest first; whether there are older ones."""

    is_all: bool
    #: which decisions the log keeps: ``blocked``, ``noted`` or ``all``
    kept: str
    records: list[Mapping[str, object]]


def figures(policy: Policy, journal: LogWriter | None, privacy: Privacy, days: Days = 1, whom: Whose = "") -> Figures:
    """How many requests there were, and when."""
    place, now = _log(journal).place, datetime.now(UTC).astimezone(policy.zone)
    first = now.date() - timedelta(days=days - 1)
    begin = datetime.combine(first, time(), policy.zone).timestamp()
    step = next((minutes for most, minutes in _STEPS.items() if days <= most), 1440)
    filters = whose(whom, privacy)
    rows = counted_requests(
        place, int(begin) // QUARTER, clients=filters.clients, users=filters.users, group=filters.group
    )
    counted = "all" if rows is not None else "log"
    if rows is None:
        since = time_text(begin)
        rows = list(
            of_minutes(
                _minutes(newest_records(place, replace(filters, since=since), MOST_READ))
                if whom
                else counts_over_time(place, since)
            )
        )
    bars, groups = dict[str, Counter[str]](), dict[str, list[int]]()
    for quarter, group, action, number in rows:
        label = _label(quarter, step, policy.zone)
        bars.setdefault(label, Counter())[_KINDS.get(action, "passed")] += number
        groups.setdefault(group, [0] * 24)[int(label[11:13])] += number
    shown = [Bar(label, **{kind: counts[kind] for kind in _BAR}) for label, counts in sorted(bars.items())]
    return Figures(counted, str(policy.zone), f"{first}", f"{now:%Y-%m-%dT%H:%M}", step, shown, groups)


_BAR = ("passed", "warned", "stopped", "would")
_KINDS = {"block": "stopped", "warn": "warned", WOULD: "would"}


def _minutes(records: Iterable[LogFields]) -> Iterator[tuple[str, int]]:
    """Of records, what ``counts_over_time`` tells."""
    for fields in records:
        action = WOULD if fields.get("would_block") else fields.get("action", "")
        yield f"{str(fields.get('time', ''))[:16]} {action}", 1


def _label(quarter: int, step: int, zone: tzinfo) -> str:
    """The beginning of the bar of a quarter of an hour."""
    moment = datetime.fromtimestamp(quarter * QUARTER, UTC).astimezone(zone)
    minutes = (moment.hour * 60 + moment.minute) // step * step
    return f"{moment:{_DAY_FORM}}T{minutes // 60:02}:{minutes % 60:02}"


def sites(
    policy: Policy,
    journal: LogWriter | None,
    privacy: Privacy,
    reach: Reach,
    whom: Whose = "",
    days: Days = 1,
    action: Annotated[str, Text("what was done", choices=_ACTIONS)] = "",
) -> Sites:
    """Which sites were asked for most.

    Of the newest records of the log.
    """
    filters = _lately(policy, privacy, whom, days, action)
    records, is_all = _newest_of(reach, _log(journal).place, filters, MOST_READ)
    by_site = dict[tuple[object, ...], Site]()
    for fields in records:
        host = host_of_record(fields)
        if host is None:
            continue
        client, user = (
            None if name is None else logged_name(kind, str(name), privacy)
            for kind, name in (("client", fields.get("client")), ("user", fields.get("user")))
        )
        key = host, client, user, fields.get("group")
        before = by_site.get(key)
        is_stopped = _is_stopped(fields)
        category, title = (
            _text(fields, name) or (None if before is None else getattr(before, name)) for name in ("category", "title")
        )
        by_site[key] = Site(
            *(host, client, user, _text(fields, "group"), category, title),
            passed=(0 if before is None else before.passed) + (not is_stopped),
            stopped=(0 if before is None else before.stopped) + is_stopped,
            last=str(fields.get("time", "")),
            reference=str(fields.get("reference", "")),
        )
    most = sorted(by_site.values(), key=lambda site: (-site.passed - site.stopped, site.host))
    return Sites(is_all, len(records), most[:_MOST_SITES])


def files(
    policy: Policy, journal: LogWriter | None, privacy: Privacy, reach: Reach, whom: Whose = "", days: Days = 1
) -> Files:
    """Which kinds of files rules were about most.

    Of the newest records of the log.
    """
    filters = replace(_lately(policy, privacy, whom, days), file="")
    records, is_all = _newest_of(reach, _log(journal).place, filters, MOST_READ)
    counts, last = dict[str, Counter[bool]](), dict[str, str]()
    for fields in records:
        file = file_of_record(fields) or ""
        counts.setdefault(file, Counter())[_is_stopped(fields)] += 1
        last[file] = str(fields.get("time", ""))
    most = sorted(counts, key=lambda file: (-counts[file].total(), file))[:_MOST_SITES]
    rows = [FileKind(file, counts[file][False], counts[file][True], last[file]) for file in most]
    return Files(is_all, len(records), rows)


def _lately(policy: Policy, privacy: Privacy, whom: str, days: int, action: str = "") -> LogFilters:
    """What somebody did in the last days, by the clock of the policy."""
    begin = datetime.combine(datetime.now(policy.zone).date() - timedelta(days=days - 1), time(), policy.zone)
    return replace(whose(whom, privacy), actions=_wanted(action), since=time_text(begin.timestamp()))


def _is_stopped(fields: LogFields) -> bool:
    return fields.get("action") in STOPPING and not fields.get("would_block")


def _text(fields: LogFields, name: str) -> str | None:
    return str(fields[name]) if fields.get(name) is not None else None


def activity(
    policy: Policy,
    journal: LogWriter | None,
    privacy: Privacy,
    reach: Reach,
    whom: Whose = "",
    action: Annotated[str, Text("what was done", choices=_ACTIONS)] = "",
    category: Annotated[str, Text("a category, with those below it", 8192)] = "",
    list_name: Annotated[str, Text("a list, by its title")] = "",
    host: Annotated[str, Text("a site, with all below it", 2048)] = "",
    reference: Annotated[str, Text("the number of a block page", 40)] = "",
    file: Annotated[str, Text("a text in what a file is, in its media type or its name", 255)] = "",
    day: Day = "",
    before: Annotated[str, Text("before which moment, as a record has it", 40)] = "",
    most: Annotated[int, Whole("how many records at most", 500)] = 100,
) -> Activity:
    """What was decided.

    As far as the log keeps it.
    """
    with usable():
        canonical = canonical_target("host", host.strip()) if host.strip() else None
        hrn = parse_hrn(category_named(category)) if category else None
    filters = replace(
        whose(whom, privacy),
        actions=_wanted(action),
        category=hrn,
        list_name=list_name or None,
        host=canonical,
        reference=reference.strip().upper() or None,
        file=file.strip() or None,
        since=_moment(day, policy.zone) if day else None,
        until=before or (_moment(day, policy.zone, 1) if day else None),
    )
    records, is_all = _newest_of(reach, _log(journal).place, filters, most)
    shown = [shown_record(fields, privacy) for fields in reversed(records)]
    settings = policy.of("log")
    return Activity(is_all, "all" if settings is None else settings.what.value, [*shown])


def _newest_of(reach: Reach, place: LogPlace, filters: LogFilters, most: int) -> tuple[list[LogFields], bool]:
    """The newest records of some clients, as ``newest_records`` gives them, and whether there are no more.

    The second says nothing of others' records: for whoever sees some groups, ``MOST_READ`` are looked through.
    """
    newest = newest_records(place, filters, most if reach.is_all else MOST_READ)
    records = [fields for fields in newest if reach.has_group(fields.get("group"))][-most:]
    return records, len(records) < most


def _log(journal: LogWriter | None) -> LogWriter:
    if journal is None:
        raise ActionError("there is no log: write 'log: on' into the policy")
    return journal


def _wanted(action: str) -> tuple[str, ...]:
    stopping = tuple(stop.value for stop in STOPPING)
    return {"": (), _STOPPED: stopping}.get(action, (action,))


def _moment(day: str, zone: tzinfo, later: int = 0) -> str:
    with usable():
        begin = parse_moment(day)
    return time_text((begin.replace(tzinfo=zone) + timedelta(days=later)).timestamp())


ACTIONS = (
    Action("GET", "/figures", Role.VIEW, figures),
    Action("GET", "/sites", Role.VIEW, sites, limit=Limit.WHOM),
    Action("GET", "/files", Role.VIEW, files, limit=Limit.WHOM),
    Action("GET", "/activity", Role.VIEW, activity, limit=Limit.WHOM),
    Action("GET", "/preview", Role.VIEW, preview),
)
UNDOINGS: dict[str, object] = {}
