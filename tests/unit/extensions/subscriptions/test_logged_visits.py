"""A list that changes too much of what clients asked for last week is held back, by what the decision log has."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from hushlist.extensions.journal.log_database import Database
from hushlist.extensions.journal.log_entry import entry_of_fields
from hushlist.extensions.journal.log_files import LineFiles
from hushlist.extensions.journal.log_keys import LogSettings
from hushlist.extensions.journal.log_record import LogFields, time_text
from hushlist.extensions.subscriptions.logged_visits import ChangedRequests, logged_requests
from unit.extensions.subscriptions.test_gate import Lists, hosts, rules_of
from unit.rows import each_row

NOW = time.time()
DAY = 86400


def record(host: str, client: str = "10.0.0.1", ago: float = 60.0, group: str = "everybody") -> LogFields:
    fields: LogFields = {"reference": "x", "time": time_text(NOW - ago), "client": client}
    return {**fields, "group": group, "url": f"http://{host}/", "action": "pass"}


def write_log(folder: Path, records: Iterable[LogFields], *, rows: int = 10**6) -> LogSettings:
    settings = LogSettings(folder=folder, rows=rows)
    entries = [entry_of_fields(fields) for fields in sorted(records, key=lambda fields: str(fields["time"]))]
    for sink in (LineFiles(folder, settings), Database(folder, settings)):
        sink.append(entries, NOW)
        sink.close()
    return settings


def requests(*numbers: int, times: int = 1) -> list[LogFields]:
    return [record(f"h{number}.example") for number in numbers for _ in range(times)]


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    made = Lists(tmp_path)
    made.write_policy()
    made.policy.write_text(f"log: {{folder: {tmp_path / 'log'}}}\n{made.policy.read_text()}")
    return made


def test_a_list_that_opens_too_much_is_held_back(lists: Lists, tmp_path: Path) -> None:
    write_log(tmp_path / "log", requests(*range(98), 1, 1))
    lists.compile(hosts(*range(200)))
    assert lists.why(hosts(*range(2, 200))) == (
        "it opens 4 of 100 of the last week's requests that the log has, more than 1 %"
    )
    assert rules_of(lists.compile(), "h1.example") == {"h1.example"}
    assert lists.why(hosts(*range(1, 200))) is None


def test_a_list_that_stops_too_much_is_held_back(lists: Lists, tmp_path: Path) -> None:
    write_log(tmp_path / "log", requests(*range(200)))
    lists.compile(hosts(*range(200, 300)))
    more = hosts(*range(197, 300))
    assert lists.why(more) == "it stops 3 of 200 of the last week's visits to sites that the log has, more than 1 %"
    assert lists.why(hosts(*range(198, 300))) is None


@pytest.mark.slow
def test_who_asks_for_a_site_again_and_again_keeps_no_list_from_stopping_it(lists: Lists, tmp_path: Path) -> None:
    flood = [record(f"{number}.game.example", "10.0.0.9", ago) for number in range(2000) for ago in (60, 2 * DAY)]
    write_log(tmp_path / "log", [*requests(*range(300)), *flood])
    lists.compile(hosts(*range(500, 600)))
    assert lists.why(hosts(*range(500, 600)) + "game.example\n") is None


@pytest.mark.parametrize(
    "log",
    [
        [record(f"h{number}.example") for number in range(99)],
        [record(f"h{number}.example", ago=8 * DAY) for number in range(200)],
        [{**record("h1.example"), "url": "?"} for _ in range(200)],
        [{**record("h1.example"), "time": "3"} for _ in range(200)],
    ],
    ids=["too short", "too old", "without a host", "without a time"],
)
def test_without_enough_of_a_log_nothing_is_counted(lists: Lists, tmp_path: Path, log: list[LogFields]) -> None:
    write_log(tmp_path / "log", log)
    lists.compile(hosts(*range(200)))
    assert lists.why(hosts(*range(100, 200)) + "more.example\n") is None


def test_what_is_not_of_the_last_week_does_not_count(tmp_path: Path) -> None:
    times = ("9999-12-31T23:59:59.000Z", "9999-12-31T23:59:59-23:59", "x", time_text(NOW + 90 * DAY))
    odd = [{**record(f"h{number}.example"), "time": moment} for number, moment in enumerate(times)]
    settings = write_log(tmp_path / "log", [*odd, record("h9.example"), record("h8.example", ago=8.0 * DAY)])
    assert [request.url for request in logged_requests(settings)] == [b"http://h9.example/"]


def test_of_two_lists_the_one_that_does_it_is_held_back(lists: Lists, tmp_path: Path) -> None:
    write_log(tmp_path / "log", requests(*range(100)))
    lists.policy.write_text(
        lists.policy.read_text().replace("lists: [{", "lists: [{file: other.txt, format: domains}, {")
    )
    (tmp_path / "other.txt").write_text("a.test\n")
    lists.compile(hosts(*range(200)))
    (tmp_path / "other.txt").write_text("b.test\n")
    assert lists.why(hosts(*range(50, 200)))
    assert [path.name for path in lists.compile().policy.held] == ["bad.txt"]
    assert rules_of(lists.compile(), "b.test", "a.test") == {"b.test"}


def test_a_request_is_decided_for_the_group_that_the_log_names(lists: Lists, tmp_path: Path) -> None:
    log = [record(f"h{number}.example", group="staff") for number in range(100)]
    write_log(tmp_path / "log", log)
    text = lists.policy.read_text()
    lists.policy.write_text(f"{text}groups: [{{name: staff, clients: [192.0.2.1], mode: block, layers: []}}]\n")
    lists.compile(hosts(*range(200)))
    assert lists.why(hosts(*range(50, 200))) is None


@each_row(
    ("change", "number"),
    [
        (ChangedRequests(100, 1, 100, 1), 0),
        (ChangedRequests(100, 2, 100, 1), 1),
        (ChangedRequests(100, 2, 100, 2), 2),
        (ChangedRequests(99, 99, 99, 99), 0),
        (ChangedRequests(200, 0, 99, 99), 0),
    ],
)
def test_the_boundaries(change: ChangedRequests, number: int) -> None:
    assert len(list(change.reasons(1))) == number
