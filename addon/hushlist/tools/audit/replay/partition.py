"""Audits partitions of recorded browsing, on any number of machines; their reports merge.

    audit_partition on each -> merge_reports, in any order and any grouping -> add_details, once

A report can be pickled, and is JSON by ``encode`` and ``read_report``. All partitions must be audited with the same
files, at the same paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.compile.worker_processes import Progress
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import Problem, SourceError
from hushlist.core.lists.list_source import ProblemReport as SourceReport
from hushlist.core.lists.popular_domains import read_popular_file
from hushlist.core.system.files import reason_of, sha256_of
from hushlist.tools.audit.replay import audit_report
from hushlist.tools.audit.replay.auditor import ReplayMoment
from hushlist.tools.audit.replay.decryption import TlsCounts, by_setting
from hushlist.tools.audit.replay.replay_job import ReplayWork, audit
from hushlist.tools.audit.replay.report_details import digest_policy
from hushlist.tools.audit.replay.tally import (
    POPULAR,
    AuditTally,
    HeavyHitters,
    HitKey,
    Hits,
    KeyT,
    ListKey,
    RuleKey,
    SlowDecision,
    by_number,
    by_source,
)
from hushlist.tools.audit.report_codec import ReportError
from hushlist.tools.audit.sources.recorded_request import RecordedRequest

# -- auditing ----------------------------------------------------------------------------------------------------------


def audit_partition(
    policy: Path, sources: Sequence[str], moment: ReplayMoment, popular: Path | None = None
) -> audit_report.AuditReport:
    """The report of some sources, from one process, still without details.

    ``popular``: a file of popular domains.

    Raises:
        PolicyError: with every problem of every file.
            SourceError: the popular domains cannot be read; problems of sources are in the report.
    """
    return report_of(policy, load_engine(policy), ReplayWork(sources, moment), popular)


def report_of(
    policy: Path, engine: Engine, work: ReplayWork, popular: Path | None = None, progress: Progress | None = None
) -> audit_report.AuditReport:
    """The report of all sources, still without details.

    Raises:
            SourceError: a file that decides, or the popular domains, can no longer be read.
            WorkerError: a process ended too early.
    """
    at, client, as_recorded = work.moment.at, work.moment.client, work.moment.as_recorded
    options = audit_report.ReplayOptions(None if as_recorded else at, *client, as_recorded)
    ranks = {} if popular is None else _read_popular(popular)
    try:
        digest = digest_policy(policy, engine.policy)
        domains = None if popular is None else audit_report.PopularDomains(str(popular), sha256_of(popular), len(ranks))
    except OSError as error:
        why = reason_of(error)
        raise SourceError([Problem(str(error.filename or policy), 0, "audit", why)]) from error
    start = perf_counter()
    tally, workers = audit(engine, replace(work, popular=ranks), progress)
    return tallied_report(tally, digest, options, domains, perf_counter() - start, workers)


def _read_popular(path: Path) -> dict[bytes, int]:
    """Ranks of popular domains; ``SourceError`` if the file cannot be read."""
    problems = SourceReport(str(path))
    ranks: dict[bytes, int] = {}
    for rank, name in enumerate(read_popular_file(path, problems), 1):
        ranks.setdefault(name, rank)
    if problems.errors:
        raise SourceError(problems.errors)
    return ranks


# -- merging -----------------------------------------------------------------------------------------------------------


def merge_reports(first: audit_report.AuditReport, second: audit_report.AuditReport) -> audit_report.AuditReport:
    """Merge two reports, without details; ``ReportError`` if policies, clients or popular domains differ."""
    popular, others = (merged.popular and merged.popular.digest for merged in (first, second))
    for what, ours, theirs in (
        ("for another client (--client, --user, --port, --as-recorded)", first.options.whose, second.options.whose),
        ("with another policy, or other lists (--policy)", first.policy.digest, second.policy.digest),
        ("with other popular domains (--popular)", popular, others),
    ):
        if ours != theirs:
            raise ReportError(f"the reports cannot be merged: they were made {what}")
    tally = AuditTally()
    for report in (first, second):
        tally.merge(_tally_of(report))
    seconds, workers = first.seconds + second.seconds, max(first.workers, second.workers)
    return tallied_report(tally, first.policy, first.options, first.popular, seconds, workers)


def _tally_of(report: audit_report.AuditReport) -> AuditTally:
    """The tally that a report was made from, as far as the report shows it."""
    records = {key: audit_report.recorded(row) for key, row in report.records_shown.items()}
    keys = [row.key for row in report.lists]
    rows: list[tuple[HitKey, Hits, tuple[str, ...]]] = [
        *((row.key, row.hits, row.examples) for row in report.lists),
        *((row.category, row.hits, row.examples) for row in report.categories),
        *((row.key, row.hits, () if row.example is None else (row.example,)) for row in report.rules),
    ]
    parties = {(row.role, row.key): row for row in report.third_parties}
    tally = AuditTally(
        sources={row.source: row for row in report.sources},
        broken=[*report.broken.first],
        actions=Counter(report.actions),
        kinds=Counter({kind: row.requests for kind, row in report.kinds.items()}),
        stopped_kinds=Counter({kind: row.stopped for kind, row in report.kinds.items() if row.stopped}),
        faults=Counter(report.faults),
        doubts=Counter(report.doubts),
        changes=Counter(report.changes),
        hits={key: hits for key, hits, _ in rows},
        rule_categories={row.key: row.category for row in report.rules if row.category is not None},
        sites=HeavyHitters.of(report.sites.requests),
        stopped_sites=HeavyHitters.of(report.sites.stopped),
        broken_sites=HeavyHitters.of(report.sites.breaks),
        popular=Counter({row.domain: row.stopped for row in report.popular_domains}),
        popular_ranks={row.domain: row.rank for row in report.popular_domains if row.rank is not None},
        breaks=Counter({kind: row.requests for kind, row in report.breaks.items()}),
        parties=Counter({key: row.stopped for key, row in parties.items()}),
        party_pages={key: HeavyHitters.of(row.pages) for key, row in parties.items()},
        slowest=[SlowDecision(row.microseconds, records[row.record]) for row in report.slowest],
        tls_requests=Counter({use: row.requests for use, row in report.tls.items()}),
        tls_otherwise=Counter({use: row.otherwise for use, row in report.tls.items()}),
        tls_hosts={use: row.hosts.names for use, row in report.tls.items()},
        tls_connections={use: row.connections.names for use, row in report.tls.items()},
    )
    for overlap in report.overlaps:
        first, second = sorted(keys[place] for place in overlap.lists)
        tally.overlaps[first, second] = overlap.requests
    for examples, name, shown in (
        *((tally.examples_of(key), key, row) for key, _, row in rows),
        *((tally.other_examples, key, row.examples) for key, row in parties.items()),
        *((tally.break_examples, kind, row.examples) for kind, row in report.breaks.items()),
        (tally.break_examples, POPULAR, report.popular_examples),
    ):
        for key in shown:
            examples.add(name, records[key].ranked)
    return tally


# -- from a tally ------------------------------------------------------------------------------------------------------


def tallied_report(
    tally: AuditTally,
    policy: audit_report.PolicyDigest,
    options: audit_report.ReplayOptions,
    popular: audit_report.PopularDomains | None,
    seconds: float,
    workers: int,
) -> audit_report.AuditReport:
    """The report of a tally, without details."""
    shown: dict[str, audit_report.ShownRecord] = {}

    def key_of(record: RecordedRequest) -> str:
        key = record.key
        if key not in shown:
            shown[key] = audit_report.shown_record(record)
        return key

    def keys_of(records: Iterable[RecordedRequest]) -> tuple[str, ...]:
        return tuple(map(key_of, records))

    def most_first(kind: type[KeyT]) -> list[tuple[KeyT, Hits, tuple[str, ...]]]:
        """The keys with the most hits first, each with its examples."""
        hits = sorted(tally.hits_of(kind).items(), key=lambda row: (-row[1].stopped, -row[1].fits, row[0]))
        return [(key, row, keys_of(tally.examples_of(key)[key])) for key, row in hits]

    tls = {
        use: TlsCounts(
            number, tally.tls_otherwise[use], tally.tls_hosts[use].result(), tally.tls_connections[use].result()
        )
        for use, number in sorted(tally.tls_requests.items())
    }
    lists = tally.hits_of(ListKey)
    places = {key: place for place, key in enumerate(sorted(lists, key=by_source))}
    return audit_report.AuditReport(
        format=audit_report.FORMAT,
        policy=policy,
        options=options,
        popular=popular,
        # An audit that merges with others never takes no time.
        seconds=max(round(seconds, 3), 0.001) if seconds else 0.0,
        records=tally.records,
        records_a_second=round(tally.records / max(seconds, 1e-6)) if seconds else None,
        workers=workers,
        sources=tuple(tally.sources[source] for source in sorted(tally.sources)),
        broken=audit_report.BrokenRecords(sum(row.broken for row in tally.sources.values()), tuple(tally.broken)),
        actions=dict(sorted(tally.actions.items())),
        kinds={
            name: audit_report.KindCount(all_, tally.stopped_kinds[name]) for name, all_ in sorted(tally.kinds.items())
        },
        faults=dict(sorted(tally.faults.items())),
        doubts=dict(sorted(tally.doubts.items())),
        changes=dict(sorted(tally.changes.items())),
        lists=tuple(
            audit_report.ListUse(key, audit_report.ListFacts(), lists[key], keys_of(tally.other_examples[key]))
            for key in places
        ),
        overlaps=tuple(
            audit_report.Overlap((min(pair), max(pair)), number)
            for keys, number in sorted(tally.overlaps.items())
            for pair in ([places[key] for key in keys],)
        ),
        categories=tuple(audit_report.CategoryUse(*row) for row in most_first(str)),
        rules=tuple(
            audit_report.RuleUse(key, tally.rule_categories.get(key), hits, next(iter(examples), None))
            for key, hits, examples in most_first(RuleKey)
        ),
        sites=audit_report.SitesUse(tally.sites.result(), tally.stopped_sites.result(), tally.broken_sites.result()),
        popular_domains=tuple(
            sorted(
                (
                    audit_report.PopularUse(name, tally.popular_ranks.get(name), number)
                    for name, number in tally.popular.items()
                ),
                key=lambda row: (row.rank or 0, row.domain),
            )
        ),
        popular_examples=keys_of(tally.break_examples[POPULAR]),
        breaks={
            kind: audit_report.Breakage(number, keys_of(tally.break_examples[kind]))
            for kind, number in sorted(tally.breaks.items())
        },
        third_parties=tuple(
            audit_report.PartyUse(*key, number, tally.party_pages[key].result(), keys_of(tally.other_examples[key]))
            for key, number in by_number(tally.parties)
        ),
        slowest=tuple(audit_report.SlowRecord(slow.microseconds, key_of(slow.record)) for slow in tally.slowest),
        tls=tls,
        decryption=by_setting(tls),
        records_shown=shown,
    )
