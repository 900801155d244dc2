"""An audit as a function over partitions of what was recorded, on as many machines as there are: their reports merge.

    audit_partition on each -> merged, in any order and any grouping -> finish, once

A report can be pickled, and is JSON by ``as_dict`` and ``report_again``. All partitions have to be audited by the same
files, at the same paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from hushlist.audit.auditor import Moment
from hushlist.audit.finish import digest_file, digest_policy
from hushlist.audit.report import Asked, Popular, Report
from hushlist.audit.tally import Tally
from hushlist.audit.work import Progress, Work, audit
from hushlist.engine import Engine, load_engine
from hushlist.errors import Problem, SourceError
from hushlist.lists.popular import read_popular
from hushlist.lists.source import Report as SourceReport
from hushlist.lists.source import read_octets


def audit_partition(policy: Path, sources: Sequence[str], moment: Moment, popular: Path | None = None) -> Report:
    """The report of some sources, by one process; it is still to be finished.

    ``popular``: a file of popular domains.

    Raises:
        PolicyError: with every problem of every file.
        SourceError: the popular domains cannot be read; what is wrong with a source is in the report.
    """
    engine = load_engine(policy)
    report = empty_report(policy, engine, moment, popular)
    count(report, engine, Work(sources, moment))
    return report


def merged(first: Report, second: Report) -> Report:
    """One report of two, which stay as they are.

    Raises:
        ReportError: they were not made by the same policy and popular domains.
    """
    both = replace(first, tally=Tally(), seconds=0.0, lists={}, explanations={})
    both.merge(first)
    both.merge(second)
    return both


def empty_report(policy: Path, engine: Engine, moment: Moment, popular: Path | None = None) -> Report:
    """A report of nothing, by a policy, of which the engine is.

    Raises:
        SourceError: a file that decides, or the popular domains, cannot be read any more.
    """
    client = moment.client
    asked = Asked(
        None if moment.as_recorded else moment.at, client.address, client.user, client.port, moment.as_recorded
    )
    try:
        report = Report(digest_policy(policy, engine.policy), asked, Tally())
        if popular is not None:
            domains = _read_popular(popular)
            report.popular = Popular(str(popular), digest_file(popular), len(domains))
            report.ranks = domains
    except OSError as error:
        why = error.strerror or str(error)
        raise SourceError([Problem(str(error.filename or policy), 0, "audit", why)]) from error
    return report


def count(report: Report, engine: Engine, work: Work, progress: Progress | None = None) -> None:
    """Fill an empty report with the tally of all sources, by its own popular domains.

    Raises:
        WorkError: a process ended before it had done its part.
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
