"""Audits logs that are too many for one machine, on a cluster of Dask, and makes one report of them.

    pip install -e '.[partitions]'
    python examples/audit_partitions.py --policy examples/audit/policy.yaml examples/audit/logs/*

As it stands it starts a cluster on this machine, a process for each core. With --scheduler it uses one that runs, on
whose machines Hushlist is installed, and the policy, its lists and the logs are found by the same paths.

Each file is a partition. Dask moves reports, of some megabytes at most, and never a request.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from dask import bag
from dask.distributed import Client

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.policy.groups import NOBODY
from hushlist.tools.audit.replay.audit_report import AuditReport
from hushlist.tools.audit.replay.audit_text import report_text
from hushlist.tools.audit.replay.auditor import ReplayMoment
from hushlist.tools.audit.replay.partition import audit_partition, merge_reports
from hushlist.tools.audit.replay.report_details import add_details
from hushlist.tools.audit.report_codec import encode


def audit_file(log: str, policy: Path, moment: ReplayMoment) -> AuditReport:
    """What each worker does with a partition."""
    return audit_partition(policy, [log], moment)


def main() -> int:
    """0, or 1 where a log could not be read."""
    parser = argparse.ArgumentParser(description="audit logs on a cluster of Dask")
    parser.add_argument("logs", nargs="+", metavar="LOG")
    parser.add_argument("--policy", type=Path, required=True, metavar="FILE")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of a cluster, such as tcp://10.0.0.1:8786")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    arguments = parser.parse_args()
    logs = [str(Path(log).resolve()) for log in arguments.logs]
    policy = arguments.policy.resolve()

    # Compiled once here, before every process of this machine would do it.
    engine = load_engine(policy)
    # One moment for all, however long it takes.
    moment = ReplayMoment(datetime.now(UTC), NOBODY)
    local = {} if arguments.scheduler else {"threads_per_worker": 1, "dashboard_address": None}
    with Client(arguments.scheduler, **local):
        partitions = bag.from_sequence(logs, partition_size=1)
        # A tree: at each step at most eight reports become one, wherever they are.
        report = partitions.map(audit_file, policy=policy, moment=moment).fold(merge_reports, split_every=8).compute()
    report = add_details(report, engine, moment)

    print("\n".join(report_text(report, width=100)))
    if arguments.json:
        arguments.json.write_text(json.dumps(encode(report)), "utf-8")
    return 1 if any(not own.number for own in report.broken.first) else 0


if __name__ == "__main__":
    sys.exit(main())
