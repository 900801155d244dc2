"""Requests for access: merged, bounded, answered once, and seen by every process that shares the store."""

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hushlist.core.errors import one_line
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.databases.store import open_store
from hushlist.extensions.unblock import access_requests
from hushlist.extensions.unblock.access_requests import (
    KEPT,
    LONGEST_REASON,
    MOST_KEPT,
    MOST_OF_CLIENT,
    MOST_WAITING,
    MOST_WAITING_OF_CLIENT,
    PATIENCE,
    REST,
    AccessRequest,
    AskedTooOftenError,
    RequestState,
    UnansweredError,
)
from hushlist.extensions.unblock.grant_rows import MOST_GRANTS
from hushlist.extensions.unblock.overrides import UNBLOCKS, Overrides
from hushlist.extensions.unblock.taps import TapError, TapFault
from postgres import IN_FILE
from support.clock import Clock
from unit.rows import each_row

PUPIL = "192.0.2.7"
GAMES = "hrn://c.example/games"


def wanted(host: str = "games.example", client: str = PUPIL, **more: str | None) -> AccessRequest:
    values = {"url": f"http://{host}/", "category": GAMES, "reason": "", **more}
    return AccessRequest(0, client, client, "pupils", host, asked=0.0, until=0.0, **values)  # type: ignore[arg-type]


def test_a_state_of_another_version_hides_no_other_request(overrides: Overrides, place: Path | PostgresAddress) -> None:
    for host in ("a.example", "b.example"):
        overrides.ask(wanted(host))
    store = open_store(place, UNBLOCKS, "unblock")
    with store.writing() as database:
        database.execute("UPDATE access_requests SET state = 'forwarded' WHERE host = 'a.example'")
    store.close()
    assert [(one.host, one.state) for one in overrides.requests(waiting=False)] == [
        ("b.example", RequestState.WAITING),
        ("a.example", RequestState.EXPIRED),
    ]


def test_a_request_is_stored_and_seen_by_another_process(
    overrides: Overrides, place: Path | PostgresAddress, clock: Clock
) -> None:
    filed = overrides.ask(wanted(reason="for\nmaths"))
    assert (filed.id, filed.reason, filed.asked, filed.until) == (1, "for maths", clock(), clock() + PATIENCE)
    with Overrides(place, clock) as other:
        assert other.requests() == [filed]
        while other.last_request(PUPIL, "games.example") != filed:  # a thread has to read it from a database
            time.sleep(0.01)
    assert overrides.history(100)[0].what == "asked"


def test_a_tap_answers_once_in_either_store(overrides: Overrides, clock: Clock) -> None:
    for host in ("a.example", "b.example"):
        overrides.ask(wanted(host))
    taps = [overrides.taps_of(number, "phone") for number in (1, 2)]
    assert overrides.tapped(taps[0]["30"], acts=False)[1].host == "a.example"
    assert overrides.tapped(taps[0]["30"], acts=True)[0] == "30"
    assert [(one.target, one.by) for one in overrides.active(clock())] == [("a.example", "notice:phone")]
    overrides.tapped(taps[1]["decline"], acts=True)
    faults = []
    for token in (taps[0]["30"], taps[0]["120"], "x" * 43):
        with pytest.raises(TapError) as caught:
            overrides.tapped(token, acts=True)
        faults.append(caught.value.fault)
    assert faults == [TapFault.USED, TapFault.ANSWERED, TapFault.UNKNOWN]
    assert [event.what for event in overrides.history(2)] == ["refused", "refused"]


def test_one_that_is_repeated_is_merged_and_keeps_the_url_that_people_were_told(overrides: Overrides) -> None:
    first = overrides.ask(wanted(reason="please"))
    again = overrides.ask(wanted(url="http://games.example/b"))
    assert again == replace(first, times=2)
    assert overrides.ask(wanted(reason="really")).reason == "really"
    assert [one.times for one in overrides.requests()] == [3]
    assert [event.what for event in overrides.history(100)] == ["asked"]


@pytest.mark.parametrize(
    ("scope", "target"), [("host", "games.example"), ("url", "http://games.example/"), ("category", GAMES)]
)
def test_an_approved_request_is_a_grant_for_who_asked(overrides: Overrides, scope: str, target: str) -> None:
    overrides.ask(wanted(client="user:jo"))
    grant = overrides.approve(1, scope, 600.0, by="parent")
    assert (grant.scope, grant.target, grant.client, grant.how, grant.by) == (
        scope,
        target,
        "user:jo",
        "request",
        "parent",
    )
    (found,) = overrides.requests(waiting=False)
    assert (found.state, found.by) == (RequestState.GRANTED, "parent")
    assert (overrides.requests(), overrides.last_request("user:jo", "games.example")) == ([], None)
    assert [event.what for event in overrides.history(100)] == ["granted", "asked"]


def test_a_declined_request_rests_for_an_hour(overrides: Overrides, clock: Clock) -> None:
    overrides.ask(wanted())
    found = overrides.decline(1, "after\tdinner", by="parent")
    assert (found.state, found.word) == (RequestState.DECLINED, "after dinner")
    assert overrides.last_request(PUPIL, "games.example") == found
    assert overrides.history(100)[0].how == "request 1: after dinner"
    with pytest.raises(AskedTooOftenError):
        overrides.ask(wanted())
    overrides.ask(wanted("other.example"))
    clock.now += REST
    assert overrides.last_request(PUPIL, "games.example") is None
    assert overrides.ask(wanted()).id == 3


def test_a_request_is_answered_once_and_in_time(overrides: Overrides, clock: Clock) -> None:
    overrides.ask(wanted())
    overrides.approve(1, "host", 60.0, by="parent")
    for answer in (lambda: overrides.approve(1, "host", 60.0, by="x"), lambda: overrides.decline(1, by="x")):
        with pytest.raises(UnansweredError, match=r"1: .*it is granted by parent"):
            answer()
    for number in (9, 0, -1, 1 << 70):
        with pytest.raises(UnansweredError, match=f"{number}: there is no such request"):
            overrides.decline(number, by="x")
    overrides.ask(wanted("other.example"))
    clock.now += PATIENCE
    with pytest.raises(UnansweredError, match=r"2: .*it is expired"):
        overrides.approve(2, "host", 60.0, by="x")
    asked = overrides.last_request(PUPIL, "other.example")
    assert asked is not None
    assert asked.state is RequestState.EXPIRED
    assert overrides.requests() == []
    assert overrides.ask(wanted("other.example")).times == 1


def test_what_cannot_be_granted_stays_waiting(overrides: Overrides) -> None:
    overrides.ask(wanted(category=None))
    with pytest.raises(UnansweredError, match="no category"):
        overrides.approve(1, "category", 60.0, by="x")
    with pytest.raises(ValueError, match="scope"):
        overrides.approve(1, "all", 60.0, by="x")
    with pytest.raises(ValueError, match="seconds"):
        overrides.approve(1, "host", 0.0, by="x")
    assert len(overrides.requests()) == 1
    assert overrides.active(0.0) == []


@IN_FILE
def test_a_full_store_grants_nothing_and_the_request_stays(overrides: Overrides, path: Path, clock: Clock) -> None:
    overrides.ask(wanted())
    values = [("host", "a.example", f"c{n}", clock() + 60, "code", "x", clock()) for n in range(MOST_GRANTS)]
    with closing(sqlite3.connect(path)) as database, database:
        database.executemany("INSERT INTO grants VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", values)
    with pytest.raises(StoreError, match="it is full"):
        overrides.approve(1, "host", 60.0, by="x")
    assert len(overrides.requests()) == 1


@pytest.mark.parametrize("target", ["", "é.example", "h" * 9000])
def test_what_no_grant_can_be_for_cannot_be_asked_for(overrides: Overrides, target: str) -> None:
    with pytest.raises(ValueError, match="a target is"):
        overrides.ask(wanted(target))
    assert overrides.requests() == []


def test_a_client_has_few_requests_that_wait_and_few_a_day(overrides: Overrides, clock: Clock) -> None:
    for number in range(MOST_OF_CLIENT):
        overrides.ask(wanted(f"h{number}.example"))
        if number % MOST_WAITING_OF_CLIENT == MOST_WAITING_OF_CLIENT - 1:
            with pytest.raises(AskedTooOftenError):
                overrides.ask(wanted("more.example"))
            for one in overrides.requests():
                overrides.approve(one.id, "host", 60.0, by="parent")
    with pytest.raises(AskedTooOftenError):
        overrides.ask(wanted("more.example"))
    overrides.ask(wanted("more.example", "192.0.2.8"))
    clock.now += PATIENCE
    overrides.ask(wanted("more.example"))


def test_many_clients_cannot_fill_the_store(
    overrides: Overrides, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_requests, "MOST_WAITING", 40)
    for number in range(40):
        overrides.ask(wanted(client=f"192.0.2.{number}"))
    with pytest.raises(AskedTooOftenError):
        overrides.ask(wanted(client="198.51.100.1"))
    monkeypatch.setattr(access_requests, "MOST_KEPT", 30)
    clock.now += PATIENCE
    overrides.ask(wanted(client="198.51.100.1"))
    assert len(overrides.requests(waiting=False)) == 30
    assert MOST_KEPT > MOST_WAITING
    clock.now += KEPT
    overrides.ask(wanted(client="198.51.100.2"))
    assert len(overrides.requests(waiting=False)) == 1


def test_a_clock_that_was_set_back_leaves_no_request_that_waits_for_ever(overrides: Overrides, clock: Clock) -> None:
    overrides.ask(wanted())
    clock.now -= 30 * 86400
    assert overrides.requests() == []
    assert overrides.ask(wanted()).id == 2
    assert len(overrides.requests(waiting=False)) == 1


def test_a_clock_that_was_set_back_leaves_nobody_declined_for_ever(overrides: Overrides, clock: Clock) -> None:
    overrides.decline(overrides.ask(wanted()).id, by="jo")
    clock.now -= REST - 1
    assert overrides.last_request(PUPIL, "games.example") is not None
    clock.now -= 1
    assert overrides.last_request(PUPIL, "games.example") is None


@IN_FILE
def test_a_store_of_an_older_hushlist_gets_the_table(path: Path, clock: Clock) -> None:
    with Overrides(path, clock) as made:
        made.grant("host", "a.example", 60.0, how="x", by="x")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE access_requests")
        database.execute("CREATE TABLE another (a)")
        database.execute("CREATE INDEX further ON another (a)")
    with Overrides(path, clock) as opened:
        assert len(opened.active(clock())) == 1
        assert opened.ask(wanted()).id == 1


@each_row(
    ("text", "line"),
    [
        ("", ""),
        ("  for\r\n\tmaths  ", "for maths"),
        ("\x1b[2J\u202e<b>\x00", "[2J <b>"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("\ud800", ""),
        ("x" * 5000, "x" * LONGEST_REASON),
        (" " * 5000 + "x", ""),
    ],
)
def test_what_a_person_writes_is_one_bounded_line(text: str, line: str) -> None:
    assert one_line(text) == line


@IN_FILE
def test_asking_what_became_of_it_neither_waits_nor_raises(overrides: Overrides, path: Path, clock: Clock) -> None:
    overrides.ask(wanted())
    assert overrides.last_request(PUPIL, "games.example")
    clock.now += 1.0
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    path.with_name("first").touch()  # else the new file might be the same by its number
    path.write_bytes(b"no database" * 1000)
    assert overrides.last_request(PUPIL, "games.example") is None
