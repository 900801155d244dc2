"""The store of alerts: counted together, told once within the time, again until somebody has seen it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.policy.schedule import read_schedules
from hushlist.core.routes import MissingError
from hushlist.extensions.alerts import alert_book
from hushlist.extensions.alerts.alert_book import LEARNING, AlertBook, AlertRow, Hit
from hushlist.extensions.alerts.alert_keys import Alert, Conditions, Escalation
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.unblock.overrides import Overrides
from hushlist.extensions.unblock.taps import TapError, TapFault
from support.clock import Clock

MINUTE, HOUR = 60.0, 3600.0
ALERT = Alert("games", Conditions(search=True))


class Household:
    """A store, and what people are told of it."""

    def __init__(self, place: Path | PostgresAddress, clock: Clock) -> None:
        self.place, self.clock = place, clock
        self.book = AlertBook(place, clock)

    def hit(self, *alerts: Alert, whom: str = "user:jo", number: int = 1, **about: str) -> None:
        self.book.note({(alert.name, whom): Hit(number, about) for alert in alerts}, alerts)

    def due_rows(self, *alerts: Alert) -> list[tuple[str, int, int]]:
        """Who, how often, and how many notices there were before."""
        found = self.book.take_due(alerts, datetime.fromtimestamp(self.clock.now, UTC))
        return [(row.whom, row.number, row.times) for row, _ in found]

    def row(self) -> AlertRow:
        return self.book.rows()[0]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def home(place: Path | PostgresAddress, clock: Clock) -> Iterator[Household]:
    home = Household(place, clock)
    yield home
    home.book.close()


def test_a_thousand_hits_are_one_notice_within_the_time(home: Household, clock: Clock) -> None:
    home.hit(ALERT, number=1000)
    assert home.due_rows(ALERT) == [("user:jo", 1000, 0)]
    for _ in range(9):
        clock.now += MINUTE
        home.hit(ALERT)
        assert home.due_rows(ALERT) == []
    clock.now += MINUTE
    home.hit(ALERT)
    assert home.due_rows(ALERT) == [("user:jo", 1010, 1)]
    clock.now += HOUR
    assert home.due_rows(ALERT) == []


def test_it_has_to_happen_so_often_within_the_time_by_the_same_person(home: Household, clock: Clock) -> None:
    often = Alert("often", Conditions(search=True), times=3, within=600.0)
    for _ in range(10):
        home.hit(often)
        home.hit(often, whom="user:mo")
        clock.now += 301
        assert home.due_rows(often) == []
    home.hit(often, number=2)
    assert home.due_rows(often) == [("user:jo", 3, 0)]


def test_two_proxies_count_together_and_one_of_them_tells(home: Household, clock: Clock) -> None:
    twice, other = Alert("twice", Conditions(search=True), times=2), Household(home.place, clock)
    home.hit(twice)
    other.hit(twice)
    assert sorted([home.due_rows(twice), other.due_rows(twice)]) == [[], [("user:jo", 2, 0)]]
    other.book.close()


def test_an_alert_is_told_again_until_somebody_has_seen_it_also_after_a_restart(home: Household, clock: Clock) -> None:
    again = Alert("again", Conditions(search=True), escalate=Escalation(15 * MINUTE, ("both",), times=2))
    home.hit(again)
    assert home.due_rows(again) == [("user:jo", 1, 0)]
    clock.now += 15 * MINUTE - 1
    assert home.due_rows(again) == []
    home.book.close()
    home.book = AlertBook(home.place, clock)
    clock.now += 1
    assert home.due_rows(again) == [("user:jo", 1, 1)]
    clock.now += 15 * MINUTE
    assert home.due_rows(again) == [("user:jo", 1, 2)]
    clock.now += HOUR
    assert home.due_rows(again) == []
    home.hit(again)  # it goes on, and nobody has seen it
    assert home.due_rows(again) == [("user:jo", 2, 3)]


def test_who_has_seen_it_ends_the_notices_and_a_new_time_begins_a_new_alert(home: Household, clock: Clock) -> None:
    again = Alert("again", Conditions(search=True), escalate=Escalation(MINUTE))
    home.hit(again)
    home.due_rows(again)
    assert home.book.seen(home.row().id, by="anna").seen is None
    assert (home.row().seen, home.row().seen_by) == (clock.now, "anna")
    clock.now += 2 * MINUTE
    home.hit(again)
    assert home.due_rows(again) == []  # it is within the time
    with pytest.raises(MissingError, match="anna has seen it before"):
        home.book.seen(home.row().id, by="ben")
    with pytest.raises(MissingError, match="no such alert"):
        home.book.seen(1 << 70, by="ben")
    clock.now += HOUR
    home.hit(again)
    assert home.due_rows(again) == [("user:jo", 1, 0)]
    assert len(home.book.rows()) == 2


def test_quiet_hours_hold_a_notice_back_and_lose_none(home: Household, clock: Clock) -> None:
    node = read_document(b"nights: {times: 21:00-06:00}", ProblemReport("p"))
    assert node is not None
    quiet = Alert("quiet", Conditions(search=True), quiet=read_schedules(node, UTC, ProblemReport("p"))["nights"])
    loud = Alert("loud", Conditions(search=True))
    clock.now = datetime(2026, 12, 24, 22, 0, tzinfo=UTC).timestamp()
    home.hit(quiet, loud)
    assert home.due_rows(quiet, loud) == [("user:jo", 1, 0)]
    clock.now += 7 * HOUR
    home.hit(quiet)
    assert home.due_rows(quiet, loud) == []
    clock.now += HOUR
    assert home.due_rows(quiet, loud) == [("user:jo", 2, 0)]


def test_what_the_policy_no_longer_has_is_not_told(home: Household, clock: Clock) -> None:
    home.hit(ALERT)
    assert home.due_rows() == []
    assert home.due_rows(ALERT) == []


def test_a_state_is_told_once(home: Household, clock: Clock) -> None:
    for _ in range(3):
        home.book.note({("games", "ads.txt"): Hit(1, {"why": "it lost half"}, is_state=True)}, [ALERT])
        clock.now += HOUR
    assert home.due_rows(ALERT) == [("ads.txt", 1, 0)]
    home.book.seen(home.row().id, by="anna")
    home.book.note({("games", "ads.txt"): Hit(1, {"why": "it lost half"}, is_state=True)}, [ALERT])
    assert home.due_rows(ALERT) == []
    home.book.note({("games", "ads.txt"): Hit(1, {"why": "it lost all"}, is_state=True)}, [ALERT])
    assert home.due_rows(ALERT) == [("ads.txt", 1, 0)]


def test_a_clock_that_was_set_back_stops_no_alert(home: Household, clock: Clock) -> None:
    home.hit(ALERT)
    home.due_rows(ALERT)
    clock.now -= 10 * HOUR
    home.hit(ALERT)
    assert home.due_rows(ALERT) == [("user:jo", 2, 1)]


def test_devices_of_the_first_day_are_learned_and_later_ones_are_new_once(home: Household, clock: Clock) -> None:
    assert home.book.new_devices(["a", "b"]) == set()
    clock.now += LEARNING
    assert home.book.new_devices(["c"]) == set()
    clock.now += 1
    assert home.book.new_devices(["a", "d"]) == {"d"}
    assert home.book.new_devices(["d"]) == set()


def test_what_is_kept_is_bounded(home: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOST_ALERTS", "MOST_COUNTERS", "MOST_DEVICES"):
        monkeypatch.setattr(alert_book, name, 5)
    home.book.note({("games", str(number)): Hit(1) for number in range(50)}, [ALERT])
    home.book.new_devices(map(str, range(50)))
    with home.book._store.reading() as database:
        for table in ("alerts", "alert_hits", "alert_devices"):
            assert database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 5, table


def test_a_tap_says_seen_once_for_who_got_it_and_the_history_says_what_came_of_it(
    home: Household, clock: Clock
) -> None:
    home.hit(ALERT)
    number = home.row().id
    tokens = [home.book.taps_of(number, name)["seen"] for name in ("phone", "mail", "late")]
    assert len({*tokens}) == 3
    assert home.book.tapped(tokens[0], acts=False).seen is None  # a scanner of mail follows the link
    assert home.row().seen is None
    home.book.tapped(tokens[0], acts=True)
    assert home.row().seen_by == "notice:phone"
    faults = []
    for token in (tokens[0], tokens[1], "x" * 43):
        with pytest.raises(TapError) as caught:
            home.book.tapped(token, acts=True)
        faults.append(caught.value.fault)
    clock.now += 8 * 86400
    with pytest.raises(TapError) as caught:
        home.book.tapped(tokens[2], acts=True)
    assert [*faults, caught.value.fault] == [TapFault.USED, TapFault.ANSWERED, TapFault.UNKNOWN, TapFault.OLD]
    with Overrides(home.place, clock) as overrides:
        history = [(event.what, event.how, event.by) for event in reversed(overrides.history(9))]
        with pytest.raises(TapError, match="no such tap"):
            overrides.tapped(tokens[0], acts=True)  # it is about no request
    assert history == [
        ("seen", f"alert {number}: games", "notice:phone"),
        ("refused", f"alert {number}: it was tapped before", "notice:phone"),
        ("refused", f"alert {number}: somebody has answered before", "notice:mail"),
        ("refused", f"alert {number}: it is too old", "notice:late"),
    ]
    with home.book._store.reading() as database:
        stored = database.execute("SELECT hash, subject, choice FROM taps").fetchall()
    assert {bytes(row[0]) for row in stored} == {sha256(token.encode()).digest() for token in tokens}
