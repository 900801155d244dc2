"""Partitions that are audited apart say together what one audit of all says."""

from __future__ import annotations

import pickle
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest

from hushlist.core.compile.stat_cache import load_engine
from hushlist.tools.audit.replay.audit_report import AuditReport
from hushlist.tools.audit.replay.partition import audit_partition, merge_reports
from hushlist.tools.audit.replay.report_details import add_details
from unit.tools.audit.samples import AT_NOW, MORE, write_policy

LOGS = (
    b"http://ads.example/1\nhttp://both.example/\n",
    b"http://both.example/2\nhttp:///\nhttp://clean.example/\n",
    b"https://js.stripe.com/v3/\thttp://page.example/a?1\tscript\nhttp://both.example/\thttp://page.example/\timage\n"
    b"http://more.example/\thttp://page.example/\tscript\nhttp://page.example/own.js\thttp://page.example/\tscript\n",
    b"https://js.stripe.com/v4/\thttp://page.example/a?2\tscript\nhttps://vimeo.com/1\thttp://page.example/b\tsubdocument\n",
)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return write_policy(tmp_path, **{"more.domains": f"{MORE}stripe.com\nvimeo.com\n"})


@pytest.fixture
def popular(tmp_path: Path) -> Path:
    (tmp_path / "popular.txt").write_text("other.example\nboth.example\n")
    return tmp_path / "popular.txt"


@pytest.fixture
def logs(tmp_path: Path) -> list[str]:
    for number, log in enumerate(LOGS):
        (tmp_path / f"{number}.log").write_bytes(log)
    return [str(tmp_path / f"{number}.log") for number in range(len(LOGS))]


def finished(report: AuditReport, policy: Path) -> AuditReport:
    """The finished report but for its times, and what is shown only for being slow."""
    own = add_details(report, load_engine(policy), AT_NOW)
    assert all((own.slowest, own.records_shown, own.seconds, own.records_a_second))
    return replace(own, slowest=(), records_shown={}, seconds=0.0, records_a_second=None)


@pytest.mark.slow
def test_partitions_say_together_what_one_audit_says_however_they_are_merged(
    policy: Path, popular: Path, logs: list[str]
) -> None:
    whole = finished(audit_partition(policy, logs, AT_NOW, popular), policy)
    assert whole.records == 11
    parties = [(own.role, own.stopped, own.pages.counts) for own in whole.third_parties]
    assert parties == [("payment", 2, (("http://page.example/a", 2),)), ("player", 1, (("http://page.example/b", 1),))]
    assert [own.rank for own in whole.popular_domains] == [2]

    first, second, third, fourth = (audit_partition(policy, [log], AT_NOW, popular) for log in logs)
    for together in (
        reduce(merge_reports, [first, second, third, fourth]),
        merge_reports(merge_reports(first, second), merge_reports(third, fourth)),
        merge_reports(fourth, merge_reports(third, merge_reports(second, first))),
    ):
        assert finished(together, policy) == whole


def test_what_is_merged_stays_as_it_is(policy: Path, logs: list[str]) -> None:
    first, second = (audit_partition(policy, [log], AT_NOW) for log in logs[:2])
    before = deepcopy([first, second])
    together = merge_reports(first, second)
    merge_reports(together, second)
    assert [first, second] == before
    assert together == merge_reports(first, second)


def test_a_report_travels_between_processes(policy: Path, logs: list[str]) -> None:
    report = audit_partition(policy, logs, AT_NOW)
    assert pickle.loads(pickle.dumps(report)) == report
