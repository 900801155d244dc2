"""Which alerts a decision, or something else that happened, is for, and what there is to tell of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from hushlist.core.decide.decision import Decision, LogRecord, own_categories
from hushlist.core.match.checks import Check
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.group_table import DeviceNames
from hushlist.core.policy.groups import address_text
from hushlist.core.url.hrn import category_levels
from hushlist.extensions.alerts.alert_book import AlertRow
from hushlist.extensions.alerts.alert_keys import DOH, TRANSLATORS, VPN, Alert, Conditions
from hushlist.extensions.journal.log_record import Privacy, logged_name, url_of, without_query
from hushlist.extensions.journal.masked_clients import SOMEBODY, shown_client, with_device
from hushlist.extensions.searches.word_lists import SEARCH_HOST

#: categories of ways around a filter, and the code of a check of one
_AROUND: Mapping[str, tuple[bytes, ...]] = {
    DOH: (b"hrn://hushlist.example/web/doh",),
    VPN: (b"hrn://hushlist.example/services/vpn", b"hrn://hushlist.example/web/bypass"),
    TRANSLATORS: (),
}
_DOH_CHECK = "dns-over-https"


def whom_of(address: str | None, user: str | None, privacy: Privacy) -> str:
    """Who did it, as the log may have it."""
    client = f"user:{user}" if user is not None else address_text(address or "")
    return shown_client(client, privacy)


def shown_alert(row: AlertRow, privacy: Privacy) -> AlertRow:
    """An alert as it may be shown now: it may be older than the log's settings."""
    about = {key: without_query(text, privacy) if key == "url" else text for key, text in row.about.items()}
    if not row.whom or _is_of_list(row):
        return replace(row, about=about)
    kind, _, name = row.whom.partition(":") if row.whom.startswith("user:") else ("client", "", row.whom)
    shown = logged_name(kind, name, privacy)
    return replace(row, about=about, whom=SOMEBODY if shown is None else row.whom if shown == name else shown)


def told_whom(row: AlertRow, device_of: DeviceNames | None) -> str:
    """Whom an alert is about, of one that may be shown: a client, after the name of its device, or a list."""
    return with_device(row.whom, device_of) if row.whom and not _is_of_list(row) else row.whom


def _is_of_list(row: AlertRow) -> bool:
    return "list" in row.about and "event" in row.about


def is_for(alert: Alert, group: str | None, user: str | None) -> bool:
    """Whether an alert is about what somebody does."""
    return not alert.whom or group in alert.whom or f"user:{user}" in alert.whom


def alerts_of(alerts: Iterable[Alert], record: LogRecord) -> Iterator[Alert]:
    """The alerts for which a decision counts; not what somebody was let through to."""
    decision = record.decision
    if record.grant is None and (decision.matches or decision.inside):
        for alert in alerts:
            if not alert.is_of_events and is_for(alert, record.group, record.user) and _fits(alert.when, decision):
                yield alert


def _fits(when: Conditions, decision: Decision) -> bool:
    if when.action and decision.action not in when.action:
        return False
    if when.around and not any(_goes_around(way, decision) for way in when.around):
        return False
    if not (when.category or when.list or when.search):
        return True
    counted = frozenset(own_categories(decision))
    return any(_match_fits(when, match, counted) for match in decision.matches)


def _match_fits(when: Conditions, match: Match, counted: frozenset[str]) -> bool:
    terms = match.rule.terms
    if when.list and not {terms.list, terms.title, terms.label} & {*when.list}:
        return False
    if when.search and not match.expression.startswith(SEARCH_HOST + b"/"):
        return False
    return not when.category or (terms.category in counted and _is_below(terms.category, when.category))


def _is_below(category: str | None, above: Sequence[str]) -> bool:
    levels = () if category is None else category_levels(category)
    return any(name.encode("ascii", "replace") in levels for name in above)


def _goes_around(way: str, decision: Decision) -> bool:
    if way == TRANSLATORS and decision.inside:
        return True
    for match in decision.matches:
        pattern = match.rule.pattern
        if way == DOH and isinstance(pattern, Check) and pattern.code == _DOH_CHECK:
            return True
        levels = category_levels(match.rule.terms.category or "")
        if any(category in levels for category in _AROUND[way]):
            return True
    return False


def about_record(record: LogRecord, alert: Alert, privacy: Privacy) -> dict[str, str]:
    """What there is to tell of a decision, with what the log may have of it."""
    decision, counted = record.decision, frozenset(own_categories(record.decision))
    fitting = (match for match in decision.matches if _match_fits(alert.when, match, counted))
    match = next(fitting, decision.winner)
    terms = None if match is None else match.rule.terms
    about = {
        "action": decision.action.value,
        "url": url_of(decision, privacy),
        "category": terms and terms.category,
        "list": terms and terms.label,
        "rule": match and match.rule.place,
        "reference": record.reference,
    }
    return {name: text[:1000] for name, text in about.items() if isinstance(text, str) and text}
