"""The report of an audit: what was asked of which policy, the tally, what never fired, and explanations; as JSON, too.

``as_dict`` gives plain types, of which ``report_again`` makes the report. Their shape:

.. code-block:: text

    {"format": "hushlist audit 1",
     "policy": {"path", "digest", "lists": [{"source", "digest"}]},    digests: SHA-256 of the files, in hex
     "asked": {"at", "client", "user", "port", "as_recorded"},         "at": ISO 8601; null where "as_recorded"
     "popular": {"path", "digest", "domains"} or null,
     "seconds", "records", "records_a_second", "workers",
     "sources": [{"source", "format", "records", "broken", "skipped"}],  by name
     "broken": {"count", "first": [{"source", "number", "why"}]},
     "actions": {"block": n, "pass": n, ...},
     "kinds": {"script": {"requests", "stopped"}, ...},
     "faults": {why: n},
     "lists": [{"list", "source", "title", "rules", "fired", "unused_first": [{"line", "text"}],
                HITS, "examples": [KEY]}],                             by source; also those without a hit
     "overlaps": [{"lists": [i, j], "requests": n}],                   places in "lists", i < j
     "categories": [{"category", HITS, "examples": [KEY]}],            the most hits first; "" is no category
     "rules": [{"list", "source", "line", "rule", "category", HITS, "example": KEY or null}],
                                                                       those that fit anything, the most hits first
     "sites": {"requests": HEAVY, "stopped": HEAVY, "breaks": HEAVY},
     "popular_domains": [{"domain", "rank", "stopped"}],               those with stopped requests, by rank
     "popular_examples": [KEY],
     "breaks": {"script": {"requests", "examples": [KEY]}, ...},
     "slowest": [{"microseconds", "record": KEY}],
     "records_shown": {KEY: {"url", "source", "number", "kind", "page", "time", "client", "user", "port", "method",
                             "status", "request", "explanation": EXPLANATION or null}}}

    HITS         "fits", "decided", "stopped", "alone", "popular", "breaks": as ``hushlist.audit.tally`` says
    HEAVY        {"most", "error", "counts": [[name, n], ...]}: as ``hushlist.audit.heavy`` says
    EXPLANATION  what ``Decision.as_dict`` gives, and
                 "forms": [{"canonical", "expressions": [{"expression", "sha256"}]}]

Texts that come from URLs keep octets that are no UTF-8 as lone surrogates, as Python's ``surrogateescape`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from hushlist.audit.plain import Shown
from hushlist.audit.tally import POPULAR, Hits, ListKey, Tally
from hushlist.errors import HushlistError

FORMAT = "hushlist audit 1"


class ReportError(HushlistError):
    """Reports cannot be merged, or a file is none."""


@dataclass(frozen=True, slots=True)
class FileDigest:
    """A file that decides: where it is, and the SHA-256 of what is in it."""

    source: str
    digest: str


@dataclass(frozen=True, slots=True)
class PolicyDigest:
    """What decided."""

    path: str
    #: of everything that decides, its lists among it
    digest: str
    lists: tuple[FileDigest, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """For whom and when it was decided."""

    #: ``None`` where each record is decided as of its own time
    at: datetime | None = None
    client: str = ""
    user: str | None = None
    port: int | None = None
    #: whether records are decided with their own client and time, where they have them
    as_recorded: bool = False

    @property
    def whose(self) -> tuple[object, ...]:
        """For whom; the moments of parts of an audit may differ."""
        return self.client, self.user, self.port, self.as_recorded


@dataclass(frozen=True, slots=True)
class Popular:
    """The list of popular domains."""

    path: str
    digest: str
    domains: int


@dataclass(frozen=True, slots=True)
class Unused:
    """A rule that never fired: where it stands, and how it is written there."""

    line: int
    text: str


@dataclass(slots=True)
class ListState:
    """What is known of a list besides its hits."""

    title: str | None = None
    #: in the index
    rules: int = 0
    #: of these, those that fitted anything, with the other rule of the same entry
    fired: int = 0
    #: the first of the others
    unused_first: list[Unused] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """See the module."""

    policy: PolicyDigest
    asked: Asked
    tally: Tally
    popular: Popular | None = None
    #: of wall-clock time; of several machines, those of all
    seconds: float = 0.0
    workers: int = 1
    #: ``finish`` finds these, by what ``tally`` has
    lists: dict[ListKey, ListState] = field(default_factory=dict)
    #: by domain, from 1
    ranks: dict[str, int] = field(default_factory=dict)
    #: by the keys of records
    explanations: dict[str, dict[str, Any]] = field(default_factory=dict)

    def merge(self, other: Report) -> None:
        """Take over what another report has counted; ``finish`` it again afterwards.

        Raises:
            ReportError: another policy decided, for another client, or other domains are popular.
        """
        popular, others = (one.popular and one.popular.digest for one in (self, other))
        for what, ours, theirs in (
            ("for another client (--client, --user, --port, --as-recorded)", self.asked.whose, other.asked.whose),
            ("with another policy, or other lists (--policy)", self.policy.digest, other.policy.digest),
            ("with other popular domains (--popular)", popular, others),
        ):
            if ours != theirs:
                raise ReportError(f"the reports cannot be merged: they were made {what}")
        self.tally.merge(other.tally)
        self.seconds += other.seconds
        self.workers = max(self.workers, other.workers)

    def as_dict(self) -> dict[str, Any]:
        """Plain types; see the module."""
        tally = self.tally
        shown = Shown(self.explanations)
        lists = sorted({*self.lists, *tally.lists}, key=lambda key: (key.source, key.list))
        places = {key: place for place, key in enumerate(lists)}
        return {
            "format": FORMAT,
            "policy": asdict(self.policy),
            "asked": {**asdict(self.asked), "at": None if self.asked.at is None else self.asked.at.isoformat()},
            "popular": None if self.popular is None else asdict(self.popular),
            "seconds": round(self.seconds, 3),
            "records": tally.records,
            "records_a_second": round(tally.records / self.seconds) if self.seconds else None,
            "workers": self.workers,
            "sources": [{"source": name, **asdict(own)} for name, own in sorted(tally.sources.items())],
            "broken": {
                "count": sum(own.broken for own in tally.sources.values()),
                "first": [own._asdict() for own in tally.broken],
            },
            "actions": dict(sorted(tally.actions.items())),
            "kinds": {
                kind: {"requests": number, "stopped": tally.stopped_kinds[kind]}
                for kind, number in sorted(tally.kinds.items())
            },
            "faults": dict(sorted(tally.faults.items())),
            "lists": [
                {
                    **key._asdict(),
                    **asdict(self.lists.get(key, ListState())),
                    **asdict(tally.lists.get(key, Hits())),
                    "examples": shown.keys(tally.list_examples[key]),
                }
                for key in lists
            ],
            "overlaps": [
                {"lists": sorted((places[first], places[second])), "requests": number}
                for (first, second), number in sorted(tally.overlaps.items())
            ],
            "categories": [
                {"category": name, **asdict(hits), "examples": shown.keys(tally.category_examples[name])}
                for name, hits in _most_first(tally.categories)
            ],
            "rules": [
                {
                    **key._asdict(),
                    "category": tally.rule_categories.get(key),
                    **asdict(hits),
                    "example": next(iter(shown.keys(tally.rule_examples[key])), None),
                }
                for key, hits in _most_first(tally.rules)
            ],
            "sites": {
                "requests": tally.sites.as_dict(),
                "stopped": tally.stopped_sites.as_dict(),
                "breaks": tally.broken_sites.as_dict(),
            },
            "popular_domains": [
                {"domain": name, "rank": self.ranks.get(name), "stopped": number}
                for name, number in sorted(tally.popular.items(), key=lambda own: (self.ranks.get(own[0], 0), own[0]))
            ],
            "popular_examples": shown.keys(tally.break_examples[POPULAR]),
            "breaks": {
                kind: {"requests": number, "examples": shown.keys(tally.break_examples[kind])}
                for kind, number in sorted(tally.breaks.items())
            },
            "slowest": [
                {"microseconds": slow.microseconds, "record": shown.key(slow.record)} for slow in tally.slowest
            ],
            "records_shown": shown.records,
        }


def _most_first(hits: Mapping[Any, Hits]) -> list[tuple[Any, Hits]]:
    return sorted(hits.items(), key=lambda item: (-item[1].stopped, -item[1].fits, item[0]))
