"""Figures of several workers are added as those of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hushlist.extensions.dashboard.shared_figures import (
    added_data,
    added_metrics,
    between,
    counters,
    ended_in,
    note_end,
    number_at,
)
from hushlist.proxy.statistics import NotedDecision
from unit.extensions.journal.samples import record

POLICY_TEXT = """\
# HELP hushlist_decisions_total Requests.
# TYPE hushlist_decisions_total counter
hushlist_decisions_total{action="block",group="a } b"} 3
hushlist_decisions_total{action="pass",group="x"} 10
# HELP hushlist_rules Rules.
# TYPE hushlist_rules gauge
hushlist_rules{layer="x"} 7
# HELP hushlist_start_time_seconds When.
# TYPE hushlist_start_time_seconds gauge
hushlist_start_time_seconds 100.5
# HELP process_resident_memory_bytes Memory.
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 5000
"""
OTHER = POLICY_TEXT.replace(" 3\n", " 4\n").replace('action="pass"', 'action="warn"').replace("100.5", "90")


def data(total: int, **more: Any) -> dict[str, Any]:
    counts = {
        "total": total,
        "actions": {"block": total},
        "hosts": [{"host": "a.example", "count": total}, {"host": f"{total}.example", "count": 1}],
        "clients": [{"client": "192.0.2.1", "user": None, "count": total}],
    }
    durations = {
        "quantiles": {"0.5": 1.0},
        "bounds": [1.0],
        "histogram": [total, 0],
        "slowest": {"duration": float(total), "number": 1},
    }
    usual = {"started": 100.0 - total, "memory": 10, "log": {"waiting": 1, "fault": None}, "failures": 1}
    return {**usual, "counts": counts, "durations": durations, "decisions": [], "sample": [1000, 3000], **more}


def test_counters_are_added_and_of_the_rest_one_is_told() -> None:
    added = added_metrics([POLICY_TEXT, OTHER])
    assert added == (
        POLICY_TEXT.replace(" 3\n", " 7\n")
        .replace("# HELP hushlist_rules", 'hushlist_decisions_total{action="warn",group="x"} 10\n# HELP hushlist_rules')
        .replace("100.5", "90")
        .replace(" 5000", " 10000")
    )
    assert added_metrics([POLICY_TEXT]) == POLICY_TEXT


def test_of_workers_that_have_ended_counters_stay(tmp_path: Path) -> None:
    assert ended_in(tmp_path) == ("", None)
    note_end(tmp_path, POLICY_TEXT, data(3))
    note_end(tmp_path, OTHER, data(4))
    metrics, ended = ended_in(tmp_path)
    assert 'group="a } b"} 7\n' in metrics
    assert counters(metrics) == metrics
    assert "hushlist_rules{" not in added_metrics([metrics])
    assert added_metrics([POLICY_TEXT, metrics]).count("100.5") == 1
    assert ended is not None
    assert ended["counts"]["total"] == 7
    assert added_data([data(1)], ended)["counts"]["total"] == 8
    assert "192.0.2.1" not in (tmp_path / "ended.json").read_text("utf-8")
    assert "a.example" not in (tmp_path / "ended.json").read_text("utf-8")


def test_what_the_page_shows_is_of_all() -> None:
    one = data(2, decisions=[{"number": 5}, {"number": 9}])
    other = data(3, decisions=[{"number": 7}], log={"waiting": 2, "fault": "full"}, sample=[5000])
    added = added_data([one, other], None)
    assert added["counts"]["total"] == 5
    assert added["counts"]["actions"] == {"block": 5}
    assert added["counts"]["hosts"][0] == {"host": "a.example", "count": 5}
    assert added["counts"]["clients"] == [{"client": "192.0.2.1", "user": None, "count": 5}]
    assert added["durations"]["histogram"] == [5, 0]
    assert added["durations"]["quantiles"] == {"0.5": 3.0}
    assert added["durations"]["slowest"]["duration"] == 3.0
    assert (added["memory"], added["started"], added["failures"]) == (20, 97.0, 2)
    assert added["log"] == {"waiting": 3, "fault": "full"}
    assert [each["number"] for each in added["decisions"]] == [5, 7, 9]


def test_decisions_are_told_once_and_in_order_whichever_worker_made_them() -> None:
    start = 1_800_000_000.0
    noted = [NotedDecision(place, record(moment=start + place), 1) for place in range(1, 4)]
    first = between(noted, 0, number_at(start + 2.5), 1)
    rest = between(noted, number_at(start + 2.5), number_at(start + 9), 1)
    assert [one.record.moment - start for one in first] == [1, 2]
    assert [one.record.moment - start for one in rest] == [3]
    assert number_at(start, 1) < number_at(start, 2) < number_at(start) < number_at(start + 2e-5, 1) < 2**53
