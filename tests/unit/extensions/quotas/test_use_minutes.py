"""Minutes of use: counted once, kept over a restart, added up by several proxies, and bounded."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import SqlConnection, StoreError
from hushlist.extensions.quotas import use_minutes
from hushlist.extensions.quotas.use_minutes import KEPT, LONGEST_EXTENSION, UseMinutes
from hushlist.extensions.unblock.overrides import Overrides
from postgres import GROUP, IN_FILE, Server
from support.waiting import wait_until

GAMES = "hrn://c.example/fun/games"
DAY = 1440
#: the present, in minutes
NOW = 30_000_000


@pytest.fixture
def file(place: Path) -> Path:
    """The file, in tests that are ``IN_FILE``."""
    place.parent.mkdir()
    return place


Made = Callable[..., UseMinutes]


@pytest.fixture
def made(place: Path | PostgresAddress) -> Iterator[Made]:
    every: list[UseMinutes] = []

    def make(at: Path | PostgresAddress | None = place, now: int = NOW) -> UseMinutes:
        every.append(UseMinutes(at, lambda: 60.0 * now))
        return every[-1]

    yield make
    for one in every:
        one.close()


def used(minutes: UseMinutes, client: str = "user:jo") -> int:
    return minutes.used(client, GAMES, NOW - DAY, NOW + DAY)


@given(st.lists(st.integers(0, 50)), st.integers(0, 50), st.integers(0, 50))
def test_each_minute_counts_once_whatever_the_clock_does(noted: list[int], first: int, end: int) -> None:
    minutes = UseMinutes(None, lambda: 0.0)
    for minute in noted:
        minutes.note("user:jo", GAMES, minute)
    first, end = sorted((first, end))
    assert minutes.used("user:jo", GAMES, first, end) == len({own for own in noted if first <= own < end})


def test_clients_and_categories_are_counted_apart(made: Made) -> None:
    minutes = made(None)
    minutes.note("user:jo", GAMES, NOW)
    assert [used(minutes), used(minutes, "192.0.2.7"), minutes.used("user:jo", "hrn://c.example", 0, NOW + 1)] == [
        1,
        0,
        0,
    ]


def test_a_restart_keeps_the_count(made: Made) -> None:
    before, after = made(), made()
    before.start()
    before.note("user:jo", GAMES, NOW)
    before.close()
    after.start()
    wait_until(lambda: used(after) == 1)  # of a database, it hears soon


def test_two_proxies_add_up_and_count_a_minute_of_both_once(made: Made) -> None:
    one, other = made(), made()
    for minutes, noted in ((one, (1, 2)), (other, (2, 3))):
        for minute in noted:
            minutes.note("user:jo", GAMES, NOW + minute)
    for minutes in (one, other, one):
        minutes.exchange()
    assert [used(one), used(other)] == [3, 3]


@IN_FILE
def test_a_file_that_was_removed_is_made_again(made: Made, file: Path) -> None:
    minutes = made()
    minutes.note("user:jo", GAMES, NOW)
    minutes.exchange()
    file.unlink()
    minutes.note("user:jo", GAMES, NOW + 1)
    minutes.exchange()
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT minute FROM use_minutes").fetchall() == [(NOW + 1,)]
    assert used(minutes) == 2


@GROUP
@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_while_the_database_is_away_each_proxy_counts_and_then_each_minute_counts_once(
    made: Made, place: PostgresAddress, postgres: Server
) -> None:
    name = place.url.rpartition("/")[2]
    one, two, later = made(), made(), made()
    one.note("user:jo", GAMES, NOW - 2)
    one.exchange()
    two.exchange()
    try:
        postgres.execute(
            f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
        )
        for minute in (NOW - 1, NOW):
            one.note("user:jo", GAMES, minute)
        two.note("user:jo", GAMES, NOW)
        for proxy in (one, two, later):
            with pytest.raises(StoreError):
                proxy.exchange()
        assert [used(one), used(two), used(later)] == [3, 2, 0]
    finally:
        postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    for proxy in (one, two, later, one, two):
        wait_until(lambda: exchanges(proxy))  # noqa: B023  it is waited for here
    assert [used(one), used(two), used(later)] == [3, 3, 3]


def exchanges(minutes: UseMinutes) -> bool:
    """Whether it can: after a failed connection, none is tried for a second."""
    try:
        minutes.exchange()
    except StoreError:
        return False
    return True


@IN_FILE
def test_what_cannot_be_written_is_kept_and_written_later(made: Made, file: Path) -> None:
    file.write_bytes(b"x" * 4096)
    minutes = made()
    minutes.start()
    assert minutes.fault is not None
    minutes.note("user:jo", GAMES, NOW)
    with pytest.raises(StoreError):
        minutes.exchange()
    file.unlink()
    minutes.exchange()
    restarted = made()
    restarted.exchange()
    assert [used(minutes), used(restarted)] == [1, 1]


@IN_FILE
def test_without_a_folder_it_counts_in_memory(made: Made) -> None:
    minutes = made(None)
    minutes.start()
    minutes.note("user:jo", GAMES, NOW)
    assert (used(minutes), minutes.fault) == (1, "overrides.sqlite: there is no folder for it")


@IN_FILE
def test_old_minutes_are_forgotten(made: Made, file: Path) -> None:
    minutes = made()
    for minute in (NOW - KEPT - 1, NOW - KEPT, NOW):
        minutes.note("user:jo", GAMES, minute)
        minutes.note("user:mia", GAMES, NOW - KEPT - 1)
    minutes.exchange()
    minutes.exchange()
    assert minutes.used("user:jo", GAMES, 0, NOW + 1) == 2
    assert minutes.used("user:mia", GAMES, 0, NOW + 1) == 0
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT count(*) FROM use_minutes").fetchone() == (2,)


@IN_FILE
def test_addresses_that_somebody_makes_up_cannot_push_out_users_and_groups(
    made: Made, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(use_minutes, "MOST_COUNTERS", 10)
    monkeypatch.setattr(use_minutes, "MOST_ROWS", 10)
    minutes = made()
    for name in ("user:jo", "group:kids"):
        minutes.note(name, GAMES, NOW)
    for number in range(100):
        minutes.note(f"2001:db8::{number:x}", GAMES, NOW + number)
    minutes.exchange()
    minutes.exchange()
    restarted = made()
    restarted.exchange()
    for one in (minutes, restarted):
        assert [used(one), used(one, "group:kids"), used(one, "2001:db8::63"), used(one, "2001:db8::1")] == [1, 1, 1, 0]
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT count(*) FROM use_minutes").fetchone()[0] <= 12


@IN_FILE
def test_users_that_somebody_makes_up_need_bounded_room(
    made: Made, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(use_minutes, "MOST_COUNTERS", 10)
    monkeypatch.setattr(use_minutes, "MOST_ROWS", 10)
    minutes = made()
    minutes.note("group:kids", GAMES, NOW)
    for number in range(100):
        minutes.note(f"user:{number}", GAMES, NOW + number)
    minutes.exchange()
    minutes.exchange()
    assert [used(minutes, "group:kids"), used(minutes, "user:99"), used(minutes, "user:1")] == [1, 1, 0]
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT count(*) FROM use_minutes").fetchone()[0] == 11


@pytest.mark.parametrize(
    ("client", "category", "minutes"),
    [
        (None, GAMES, 30),
        ("user:jo", GAMES, 30),
        ("user:jo", "hrn://c.example/fun", 30),
        ("user:mia", GAMES, 0),
        ("user:jo", f"{GAMES}/online", 0),
        ("user:jo", "hrn://c.example/fun/game", 0),
    ],
)
def test_an_extension_is_for_a_client_a_category_and_the_present(
    made: Made, client: str | None, category: str, minutes: int
) -> None:
    one, other = made(), made()
    one.exchange()
    other.extend(category, 30, client=client, by="a parent")
    one.exchange()
    names = ("192.0.2.7", "user:jo")
    assert one.extended(names, GAMES, NOW - DAY, NOW + 1) == minutes
    assert one.extended(names, GAMES, NOW + 1, NOW + DAY) == one.extended(names, GAMES, NOW - DAY, NOW) == 0


@pytest.mark.parametrize("number", [0, -1, LONGEST_EXTENSION + 1])
def test_no_extension_has_no_minutes_or_more_than_a_week(made: Made, number: int) -> None:
    with pytest.raises(ValueError, match="expected 1 to 10080"):
        made().extend(GAMES, number, by="a parent")


def test_an_extension_is_in_the_history(made: Made, place: Path | PostgresAddress) -> None:
    made().extend(GAMES, 30, client="user:jo", by="a parent")
    with Overrides(place, lambda: 60.0 * NOW) as overrides:
        (event,) = overrides.history(100)
    assert (event.what, event.client, event.target, event.how, event.by) == (
        *("extended", "user:jo", GAMES),
        *("30 more minutes", "a parent"),
    )


def test_an_extension_holds_at_once_and_is_taken_back_once(made: Made, place: Path | PostgresAddress) -> None:
    one, other = made(), made()
    first = one.extend(GAMES, 30, by="a parent")
    assert one.extend(GAMES, 30, by="a parent") == first
    one.extend(GAMES, 5, client="user:jo", by="a parent")
    assert one.extended(["user:jo"], GAMES, 0, NOW + 1) == 65
    assert one.shorten(first, by="max")
    assert one.extended(["user:jo"], GAMES, 0, NOW + 1) == 35
    other.exchange()
    assert other.extended(["user:jo"], GAMES, 0, NOW + 1) == 35
    assert other.shorten(first, by="max")
    assert not one.shorten(first, by="max")
    one.exchange()
    assert one.extended(["user:jo"], GAMES, 0, NOW + 1) == 5
    with Overrides(place, lambda: 60.0 * NOW) as overrides:
        assert [(event.what, event.by) for event in overrides.history(100)[:2]] == [("taken back", "max")] * 2


def test_the_thread_reads_what_another_wrote(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use_minutes, "LOOKING", 0.01)
    one, other = made(), made()
    one.start()
    other.extend(GAMES, 30, by="a parent")
    wait_until(lambda: one.extended((), GAMES, 0, NOW + 1) == 30)


def test_the_thread_writes_once_in_a_while(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use_minutes, "LOOKING", 0.01)
    monkeypatch.setattr(use_minutes, "WRITING", 0.0)
    one, other = made(), made()
    one.start()
    one.note("user:jo", GAMES, NOW)
    while not used(other):
        other.exchange()
    assert used(other) == 1


@IN_FILE
def test_the_thread_tries_a_file_that_cannot_be_used_once_in_a_while(
    made: Made, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(use_minutes, "LOOKING", 0.01)
    file.write_bytes(b"x" * 4096)
    minutes, tries = made(), list[None]()
    exchange = minutes.exchange
    monkeypatch.setattr(minutes, "exchange", lambda: (tries.append(None), exchange()))
    looks = list[float]()
    monkeypatch.setattr(use_minutes, "monotonic", lambda: looks.append(monotonic()) or looks[-1])
    minutes.start()
    wait_until(lambda: len(looks) >= 9)
    assert len(tries) <= 2


@pytest.mark.parametrize("is_first", [True, False])
def test_what_is_added_while_minutes_are_exchanged_counts_once(
    made: Made, monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    """The other step comes between the end of a transaction and what is done with it."""
    minutes = made()
    steps = [minutes.exchange, lambda: minutes.extend(GAMES, 30, by="x")]
    first, second = steps if is_first else steps[::-1]
    minutes.exchange()
    store, others = minutes._opened(), [second]
    writing = store.writing

    @contextmanager
    def written() -> Iterator[SqlConnection]:
        with writing() as database:
            yield database
        if others:
            others.pop()()

    monkeypatch.setattr(store, "writing", written)
    first()
    assert minutes.extended(["user:jo"], GAMES, NOW - DAY, NOW + DAY) == 30


@IN_FILE
def test_what_is_read_is_no_change_any_more(made: Made, file: Path) -> None:
    own, other = made(), made()
    own.exchange()
    other.note("user:jo", GAMES, NOW)
    other.exchange()
    own.exchange()
    assert own.used("user:jo", GAMES, 0, NOW + 1) == 1
    assert not own._is_changed()
