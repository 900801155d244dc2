"""Audits partitions of recorded browsing, on any number of machines; their reports merge.

    audit_partition on each -> merged, in any order and any grouping -> add_details, once

A report can be pickled, and is JSON by ``as_dict`` and ``report_of``. All partitions must be audited with the same
files, at the same paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from hushlist.audit.replay.audit_report import AuditReport, PopularDomains, ReplayOptions
from hushlist.audit.replay.audit_workers import ReplayWork, audit
from hushlist.audit.replay.auditor import ReplayMoment
from hushlist.audit.replay.report_details import digest_file, digest_policy
from hushlist.audit.replay.tally import AuditTally
from hushlist.decide.engine import Engine, load_engine
from hushlist.errors import Problem, SourceError
from hushlist.jobs.worker_processes import Progress
from hushlist.lists.domain_lists import read_popular
from hushlist.lists.list_source import ProblemReport as SourceReport
from hushlist.lists.list_source import read_octets


def audit_partition(
    policy: Path, sources: Sequence[str], moment: ReplayMoment, popular: Path | None = None
) -> AuditReport:
    """The report of some sources, from one process, still without details.

    ``popular``: a file of popular domains.

    Raises:
        PolicyError: with every problem of every file.
            SourceError: the popular domains cannot be read; problems of sources are in the report.
    """
    engine = load_engine(policy)
    report = empty_report(policy, engine, moment, popular)
    fill_report(report, engine, ReplayWork(sources, moment))
    return report


def merge_reports(first: AuditReport, second: AuditReport) -> AuditReport:
    """Merge two reports into a new one.

    Raises:
            ReportError: their policies or popular domains differ.
    """
    both = replace(first, tally=AuditTally(), seconds=0.0, lists={}, explanations={})
    both.merge(first)
    both.merge(second)
    return both


def empty_report(policy: Path, engine: Engine, moment: ReplayMoment, popular: Path | None = None) -> AuditReport:
    """A report without counts, for a policy and its engine.

    Raises:
            SourceError: a file that decides, or the popular domains, can no longer be read.
    """
    client = moment.client
    asked = ReplayOptions(
        None if moment.as_recorded else moment.at, client.address, client.user, client.port, moment.as_recorded
    )
    try:
        report = AuditReport(digest_policy(policy, engine.policy), asked, AuditTally())
        if popular is not None:
            domains = _read_popular(popular)
            report.popular = PopularDomains(str(popular), digest_file(popular), len(domains))
            report.ranks = domains
    except OSError as error:
        why = error.strerror or str(error)
        raise SourceError([Problem(str(error.filename or policy), 0, "audit", why)]) from error
    return report


def fill_report(report: AuditReport, engine: Engine, work: ReplayWork, progress: Progress | None = None) -> None:
    """Fill an empty report with the tally of all sources; uses the report's popular domains.

    Raises:
        WorkerError: a process ended too early.
    """
    ranks = {name.encode(): rank for name, rank in report.ranks.items()}
    start = perf_counter()
    report.tally, report.workers = audit(engine, replace(work, popular=ranks), progress)
    report.seconds = perf_counter() - start


def _read_popular(path: Path) -> dict[str, int]:
    """Ranks of popular domains.

    Raises:
        SourceError: the file cannot be read.
    """
    own = SourceReport(str(path))
    octets = read_octets(path, own)
    if octets is None:
        raise SourceError(own.errors)
    ranks: dict[str, int] = {}
    for rank, name in enumerate(read_popular(octets, own), 1):
        ranks.setdefault(name.decode("ascii"), rank)
    return ranks
