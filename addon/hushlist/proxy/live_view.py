"""What the live page shows, in plain types; of decisions, what the log may say of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from time import time

from hushlist.journal.record import Privacy, address_text, who
from hushlist.policy.log import Clients
from hushlist.proxy.figures import BOUNDS, Figures, Noted
from hushlist.proxy.in_force import InForce
from hushlist.proxy.memory import resident_octets
from hushlist.proxy.state import lists_of, log_of

#: names of each kind
_MOST = 50
_SHARES = (0.5, 0.9, 0.99)


def privacy_of(in_force: InForce) -> Privacy:
    """What may be said of decisions: what the log may; everything, where the policy has none. May read the disk."""
    settings = None if in_force.engine is None else in_force.engine.policy.log
    if settings is None:
        return Privacy()
    if in_force.journal is not None:
        return in_force.journal.privacy()
    clients = Clients.DROP if settings.clients is Clients.PSEUDONYM else settings.clients
    return Privacy(settings.queries, clients)


def recent(noted: Iterable[Noted], privacy: Privacy) -> list[dict[str, object]]:
    """Decisions as the log spells them, with how long they took in µs."""
    return [_spelled(one, privacy) for one in noted]


def view(in_force: InForce, mode: str, privacy: Privacy) -> dict[str, object]:
    """Everything but the decisions themselves; ``mode`` is the option's."""
    return {
        "now": time(),
        "started": in_force.figures.started,
        "memory": resident_octets(),
        "log": asdict(log_of(in_force)),
        "policy": _policy(in_force, mode),
        "counts": _counts(in_force.figures, privacy),
        "failures": in_force.failing.refused + in_force.failing.passed,
        "durations": _durations(in_force.figures, privacy),
    }


def _spelled(noted: Noted, privacy: Privacy) -> dict[str, object]:
    return {**noted.record.fields(privacy), "number": noted.number, "duration": noted.duration / 1000}


def _policy(in_force: InForce, mode: str) -> dict[str, object]:
    engine, reading = in_force.engine, in_force.reading
    return {
        "file": None if engine is None else engine.policy.source,
        "mode": mode,
        "rules": 0 if engine is None else len(engine.index),
        "index": None if engine is None else engine.index.source,
        "octets": 0 if engine is None else engine.index.octets,
        "zone": None if engine is None else str(engine.policy.zone),
        "groups": [
            {"name": group.name, "mode": group.settings.mode}
            for group in (() if engine is None else engine.policy.all_groups)
        ],
        "lists": [asdict(each) for each in (() if engine is None else lists_of(engine))],
        "problem": in_force.problem,
        "reading": None if reading is None else reading._asdict(),
        "readings": {"used": in_force.readings[True], "refused": in_force.readings[False]},
        "store_fault": in_force.store_fault,
    }


def _counts(figures: Figures, privacy: Privacy) -> dict[str, object]:
    figures.count()
    actions: Counter[str] = Counter()
    would_block = 0
    for outcome, number in figures.outcomes.top():
        actions[outcome.action.value] += number
        would_block += number if outcome.would_block else 0
    return {
        "total": figures.total,
        "actions": actions,
        "would_block": would_block,
        "faults": figures.faults,
        "lists": [
            {"list": name.label, "file": name.source, "action": action.value, "count": number}
            for (name, action), number in figures.lists.top(_MOST)
        ],
        "categories": [
            {"category": name, "action": action.value, "count": number}
            for (name, action), number in figures.categories.top(_MOST)
        ],
        "clients": [
            {
                "client": who("client", address_text(asker.address) if asker.address else None, privacy),
                "user": who("user", asker.user, privacy),
                "count": number,
            }
            for asker, number in (() if privacy.clients is Clients.DROP else figures.clients.top(_MOST))
        ],
        "hosts": [{"host": host, "count": number} for host, number in figures.hosts.top(_MOST)],
        "rules": [
            {"rule": place, "pattern": pattern, "count": number}
            for (place, pattern), number in figures.rules.top(_MOST)
        ],
    }


def _durations(figures: Figures, privacy: Privacy) -> dict[str, object]:
    """In µs."""
    slowest = figures.slowest
    told = zip(_SHARES, figures.quantiles(*_SHARES), strict=True)
    return {
        "quantiles": {str(share): None if found is None else found / 1000 for share, found in told},
        "bounds": [bound / 1000 for bound in BOUNDS],
        "histogram": figures.histogram,
        "slowest": None if slowest is None else _spelled(slowest, privacy),
    }
