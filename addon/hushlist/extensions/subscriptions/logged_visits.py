"""The last week's requests, as the decision log has them, and what is done with them by other lists.

    the log -> some of its records, spread evenly -> both policies decide each -> how many are opened, and stopped

Clients are not asked for: the log says which group decided. Without a log, or with a short one, nothing is counted.
What is newly stopped is counted by visits, all requests of a client for a site on one day. Else who sends many requests
for one site could keep a list from stopping it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from hushlist.core.decide.decision import SEVERITY
from hushlist.core.decide.engine import Engine
from hushlist.core.match.index import Index
from hushlist.core.match.public_suffixes import public_suffixes
from hushlist.core.policy.groups import Group
from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.files import state_folder
from hushlist.extensions.journal.log_database import sampled_records
from hushlist.extensions.journal.log_keys import LogSettings
from hushlist.extensions.journal.log_record import LogFields, host_of_record, time_text

#: seconds of the log that count, and by which other clocks may be ahead; records that are decided again
_WEEK, _DAY, MOST_RECORDS = 7 * 86400, 86400, 20_000
#: with fewer requests, or visits, a share of them says nothing
FEWEST = 100


class LoggedRequest(NamedTuple):
    """A request of the log: what was asked for, by whom, when."""

    url: bytes
    #: the name of the group that decided
    group: str
    at: datetime
    #: client, site and day
    visit: tuple[str, bytes, str]


class ChangedRequests(NamedTuple):
    """How many of some requests, and of the visits that they are part of, a change opens and stops."""

    requests: int
    opened: int
    visits: int
    stopped: int

    def reasons(self, most: int) -> Iterator[str]:
        """Why that is too much, for people, if it is more than ``most`` of a hundred."""
        of = "of the last week's {} that the log has, more than"
        if self.requests >= FEWEST and self.opened * 100 > most * self.requests:
            yield f"it opens {self.opened:,} of {self.requests:,} {of.format('requests')} {most} %"
        if self.visits >= FEWEST and self.stopped * 100 > most * self.visits:
            yield f"it stops {self.stopped:,} of {self.visits:,} {of.format('visits to sites')} {most} %"


def logged_requests(settings: LogSettings | None) -> list[LoggedRequest]:
    """Some of the last week's requests, if there is a log that can be read."""
    if settings is None:
        return []
    try:
        now = time.time()
        records = sampled_records(settings.place or state_folder(), time_text(now - _WEEK), MOST_RECORDS)
    except (OSError, RuntimeError):  # it is another user's; or the user has no home
        return []
    requests = (_request_of(fields) for fields in records)
    # of a clock that was far ahead, or of whoever has the database: not of the last week
    return [request for request in requests if request is not None and request.at.timestamp() < now + _DAY]


def _request_of(fields: LogFields) -> LoggedRequest | None:
    url, moment, host = str(fields.get("url", "")), str(fields.get("time", "")), host_of_record(fields)
    with suppress(ValueError, OverflowError):
        if host:
            at = datetime.fromisoformat(moment).astimezone(UTC)
            who = f"{fields.get('client', '')} {fields.get('user', '')}"
            site = public_suffixes().registrable_domain(host.encode())
            return LoggedRequest(url.encode(), str(fields.get("group", "")), at, (who, site, moment[:10]))
    return None


def changed_requests(
    old: tuple[Policy, Index], new: tuple[Policy, Index], requests: Sequence[LoggedRequest]
) -> ChangedRequests:
    """Have both decide the requests."""
    engines: dict[str, tuple[Engine, Engine]] = {}
    visits, stopped, opened = set[tuple[str, bytes, str]](), set[tuple[str, bytes, str]](), 0
    for request in requests:
        if request.group not in engines:
            engines[request.group] = _engine(*old, request.group), _engine(*new, request.group)
        before, after = (
            SEVERITY.get(engine.decide_url(request.url, request.at).action, 0) for engine in engines[request.group]
        )
        visits.add(request.visit)
        opened += after < before
        if after > before:
            stopped.add(request.visit)
    return ChangedRequests(len(requests), opened, len(visits), len(stopped))


def _engine(policy: Policy, index: Index, name: str) -> Engine:
    """An engine for which everybody is in one group; without a group of this name, in everybody's."""
    groups = tuple(Group(group.name, group.layers, group.settings) for group in policy.groups if group.name == name)
    return Engine(policy._replace(groups=groups), index)
