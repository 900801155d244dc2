"""What a rule would have covered in the last week, for administrators who are about to make it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hushlist.core.decide.decision import STOPPING
from hushlist.core.lists.category_names import category_named
from hushlist.core.lists.patterns import canonical_target, parse_expression
from hushlist.core.policy.groups import address_text
from hushlist.core.routes import EVERYBODY, ActionError, ForWhom, Order, Scope, Target, usable
from hushlist.core.url.hrn import parse_hrn
from hushlist.core.url.parts import as_typed
from hushlist.extensions.journal.log_database import LogFilters, newest_records
from hushlist.extensions.journal.log_identifiers import is_pseudonym
from hushlist.extensions.journal.log_record import Privacy, shown_record, time_text, who
from hushlist.extensions.journal.log_writer import LogWriter

#: most records of the log that a preview reads, and how old they may be
MOST_PREVIEWED = 10_000
_WEEK = timedelta(days=7)
#: addresses that it shows
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class PreviewedAddress:
    url: str
    action: str
    count: int


@dataclass(frozen=True, slots=True)
class Preview:
    #: how many it would have covered, and how many of these would have been decided otherwise
    requests: int
    changed: int
    #: whether the log has no older ones
    is_all: bool
    clients: int
    actions: Mapping[str, int]
    addresses: list[PreviewedAddress]


def preview(
    journal: LogWriter | None,
    privacy: Privacy,
    scope: Scope,
    target: Target,
    action: Order = "block",
    client: ForWhom = EVERYBODY,
) -> Preview:
    """What it would have changed in the last week.

    Of the newest records of the log.
    """
    if journal is None:
        raise ActionError("the policy keeps no log, so nothing tells what was asked for")
    since = time_text((datetime.now(UTC) - _WEEK).timestamp())
    with usable():
        target_filters, page = _filters(scope, target)
    whom = whose("" if client == EVERYBODY else client, privacy)
    filters = replace(whom, category=target_filters.category, host=target_filters.host, since=since)
    records = newest_records(journal.place, filters, MOST_PREVIEWED)
    fitting = [fields for fields in records if not page or _is_below(str(fields.get("url", "")), page)]
    shown = (shown_record(fields, privacy) for fields in fitting)
    addresses = Counter((str(fields.get("url", "")), str(fields.get("action", ""))) for fields in shown)
    return Preview(
        requests=len(fitting),
        changed=sum((fields.get("action") in STOPPING) is (action == "allow") for fields in fitting),
        is_all=len(records) < MOST_PREVIEWED,
        clients=len({(fields.get("client"), fields.get("user")) for fields in fitting}),
        actions=Counter(str(fields.get("action", "")) for fields in fitting),
        addresses=[PreviewedAddress(*key, number) for key, number in addresses.most_common(_SHOWN)],
    )


def _filters(scope: str, target: str) -> tuple[LogFilters, str]:
    """What the log can tell of a target, and the expression of a page, which it cannot."""
    typed = as_typed(target).decode("utf-8", "surrogateescape")
    if scope == "category":
        return LogFilters(category=parse_hrn(category_named(typed))), ""
    page = "" if scope == "host" else str(parse_expression(typed))
    return LogFilters(host=page.partition("/")[0] or canonical_target("host", target)), page


def whose(whom: str, privacy: Privacy) -> LogFilters:
    """Filters for the records of somebody; the log may have pseudonyms in the place of names. Nothing: everybody's."""
    kind, _, name = whom.partition(":")
    if kind == "group":
        return LogFilters(group=name)
    if kind == "user":
        return LogFilters(users=_spellings("user", name, privacy))
    if is_pseudonym(whom):
        return LogFilters(users=(whom,)) if whom.startswith("user-") else LogFilters(clients=(whom,))
    return LogFilters(clients=_spellings("client", address_text(whom), privacy)) if whom else LogFilters()


def _spellings(key: str, name: str, privacy: Privacy) -> tuple[str, ...]:
    """A name, and what the log may have in its place."""
    return tuple(filter(None, (name, who(key, name, privacy))))


def _is_below(url: str, page: str) -> bool:
    """Whether a canonical URL is that of an expression, or below it."""
    rest = url.partition("://")[2]
    return rest == page or rest.startswith(page if page.endswith("/") else (f"{page}/", f"{page}?"))
