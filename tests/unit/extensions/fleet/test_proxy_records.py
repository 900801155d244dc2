"""What proxies say of themselves: how much of it is kept, and which of them is named for what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.databases.store import open_store
from hushlist.extensions.fleet import proxy_records
from hushlist.extensions.fleet.proxy_records import FLEET, GONE, KEPT, STALE, ProxyRecord, ProxyRecords, age, troubles
from support.clock import Clock
from unit.rows import each_row

NOW = 1_000_000.0
GOOD = ProxyRecord("gate:1", NOW, version="1", policy_digest="a", index_digest="b", mode="block", read=NOW)


@pytest.fixture
def records(place: Path | PostgresAddress, clock: Clock) -> Iterator[ProxyRecords]:
    opened = ProxyRecords(place, clock)
    yield opened
    opened.close()


def test_each_proxy_has_one_row_its_newest(records: ProxyRecords, clock: Clock) -> None:
    for number in (2, 1, 2):
        records.beat(GOOD._replace(name=f"gate:{number}", at=clock.now, requests=number))
        clock.now += 1
    assert [(one.name, one.at) for one in records.all()] == [("gate:1", clock.now - 2), ("gate:2", clock.now - 1)]
    records.leave("gate:1", clock.now)
    assert records.all() == [GOOD._replace(name="gate:2", at=clock.now - 1, requests=2)]


def test_rows_go_after_a_day_and_are_so_many(
    records: ProxyRecords, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_records, "MOST_PROXIES", 3)
    records.beat(GOOD._replace(at=clock.now))
    clock.now += KEPT + 1
    for number in range(5):
        records.beat(GOOD._replace(name=f"gate:{number}", at=clock.now + number))
    assert [one.name for one in records.all()] == ["gate:2", "gate:3", "gate:4"]


@pytest.mark.parametrize("text", ["", "x", "[]", "[" * 100_000, '{"version": 7, "rules": "many", "read": null}'])
def test_what_another_version_wrote_is_read_as_far_as_it_can_be(
    records: ProxyRecords, place: Path | PostgresAddress, text: str
) -> None:
    store = open_store(place, FLEET, "fleet")
    with store.writing() as database:
        database.execute("INSERT INTO proxies VALUES ('gate:9', 5, ?)", (text,))
    store.close()
    assert records.all() == [ProxyRecord("gate:9", 5.0)]


def test_what_a_newer_version_knows_besides_is_left_out(records: ProxyRecords, place: Path | PostgresAddress) -> None:
    store = open_store(place, FLEET, "fleet")
    text = json.dumps({"name": "other", "at": 1, "version": "9", "rules": 7, "news": [1]})
    with store.writing() as database:
        database.execute("INSERT INTO proxies VALUES ('gate:9', 5, ?)", (text,))
    store.close()
    assert records.all() == [ProxyRecord("gate:9", 5.0, version="9", rules=7)]


@pytest.mark.parametrize("number", ["NaN", "-1", "1e999", "-1e999", f"1{'0' * 400}", "8e12"])
def test_no_number_in_a_row_stops_what_shows_all_proxies(
    records: ProxyRecords, place: Path | PostgresAddress, number: str
) -> None:
    fields = ("started", "rules", "read", "checked", "requests", "rate", "memory")
    text = "{" + ", ".join(f'"{field}": {number}' for field in fields) + "}"
    store = open_store(place, FLEET, "fleet")
    with store.writing() as database:
        database.execute("INSERT INTO proxies VALUES ('gate:9', ?, ?)", (-float("inf"), text))
    store.close()
    assert records.all() == [ProxyRecord("gate:9", 0.0)]


def test_texts_in_a_row_are_bounded(records: ProxyRecords, clock: Clock) -> None:
    records.beat(ProxyRecord("n" * 9999, clock.now, fault="f" * 9999))
    assert [(len(one.name), len(one.fault)) for one in records.all()] == [(1000, 1000)]


def test_a_file_that_is_none_is_an_error(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "fleet.sqlite"
    path.write_bytes(b"no database")
    with pytest.raises(StoreError, match="file is not a database"):
        ProxyRecords(path, clock)


# -- what is wrong -----------------------------------------------------------------------------------------------------


def others(*changed: ProxyRecord) -> dict[str, tuple[str, ...]]:
    """The troubles of two good proxies and others."""
    return troubles([GOOD, GOOD._replace(name="gate:2"), *changed], NOW)


def test_proxies_that_agree_have_no_troubles() -> None:
    assert others() == {"gate:1": (), "gate:2": ()}


@each_row(
    ("changed", "said"),
    [
        ({"policy_digest": 64 * "f"}, "another policy than the others: ffffffffffff, and not a"),
        ({"index_digest": "c"}, "another index than the others: c, and not b"),
        ({"version": "2"}, "another version than the others: 2, and not 1"),
        ({"mode": "tag"}, "another mode than the others: tag, and not block"),
        ({"policy_digest": ""}, "it has no policy that it can use"),
        ({"at": NOW - GONE - 1}, "gone: no sign of life for 1 min 31 s"),
        ({"at": NOW - GONE - 1, "policy_digest": "x"}, "gone: no sign of life for 1 min 31 s"),
        ({"unready": "it is stopping"}, "not ready: it is stopping"),
        ({"fault": "the log cannot be written: full"}, "the log cannot be written: full"),
    ],
)
def test_one_that_differs_is_named(changed: dict[str, object], said: str) -> None:
    assert others(GOOD._replace(name="odd", **changed)) == {"gate:1": (), "gate:2": (), "odd": (said,)}  # type: ignore[arg-type]


def test_a_list_that_was_last_fetched_long_before_the_others() -> None:
    fresh = GOOD._replace(checked=NOW - 60)
    found = troubles([fresh, GOOD._replace(name="odd", checked=NOW - STALE - 3600), GOOD._replace(name="none")], NOW)
    said = "a list was last fetched 1 d 1 h ago, and elsewhere 1 min ago"
    assert found == {"gate:1": (), "odd": (said,), "none": ()}
    assert troubles([fresh, fresh._replace(name="b", checked=NOW - STALE)], NOW) == {"gate:1": (), "b": ()}


def test_of_two_that_differ_it_is_the_one_that_read_its_policy_before() -> None:
    old, new = GOOD._replace(read=NOW - 60), GOOD._replace(name="new", policy_digest="z")
    for records in ([old, new], [new, old]):
        assert troubles(records, NOW) == {"gate:1": ("another policy than the others: a, and not z",), "new": ()}


def test_one_that_is_gone_has_no_say() -> None:
    gone = [GOOD._replace(name=f"gone:{number}", at=0.0, policy_digest="z") for number in range(3)]
    assert troubles([GOOD, *gone], NOW)["gate:1"] == ()


@each_row(
    ("seconds", "said"),
    [(-3, "0 s"), (0.9, "0 s"), (60, "1 min"), (3600.5, "1 h"), (3661, "1 h 1 min"), (86400, "1 d")],
)
def test_ages_are_short(seconds: float, said: str) -> None:
    assert age(seconds) == said
