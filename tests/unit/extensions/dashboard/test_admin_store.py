"""The administrators' file: sessions, tokens and the record, and how much of each it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hushlist.core.routes import Account, ActionError, Role
from hushlist.extensions.dashboard import admin_store
from hushlist.extensions.dashboard.admin_keys import AdminPerson
from hushlist.extensions.dashboard.admin_store import ADMINISTRATION, MOST_SESSIONS, SESSION, AdminStore
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.store import open_store
from postgres import IN_FILE
from support.clock import Clock

ANNA, MAX = (AdminPerson(name, f"scrypt${name}", Role.MANAGE) for name in ("anna", "max"))
ACCOUNT = Account("anna", Role.MANAGE, "192.0.2.7")


@pytest.fixture
def store(place: Path | PostgresAddress, clock: Clock) -> Iterator[AdminStore]:
    with AdminStore(place, clock) as opened:
        yield opened


def test_a_person_has_so_many_sessions_and_the_oldest_ends(store: AdminStore) -> None:
    other = store.sign_in(MAX, "", is_secure=True)
    tokens = [store.sign_in(ANNA, "", is_secure=True) for _ in range(MOST_SESSIONS + 1)]
    assert len(set(tokens)) == len(tokens)
    held = [store.account(token, [ANNA, MAX], "", is_secure=True) is not None for token in (*tokens, other)]
    assert held == [False, *[True] * (MOST_SESSIONS + 1)]


def test_sessions_that_are_over_are_removed_and_a_clock_that_was_set_back_opens_none(
    store: AdminStore, clock: Clock
) -> None:
    token = store.sign_in(ANNA, "192.0.2.7", is_secure=True)
    clock.now -= SESSION
    assert store.account(token, [ANNA], "", is_secure=True) is None
    clock.now += 2 * SESSION
    assert store.sessions() == []
    store.sign_in(MAX, "192.0.2.8", is_secure=True)
    assert [one.name for one in store.sessions()] == ["max"]
    clock.now -= SESSION  # what was removed stays so
    assert store.account(token, [ANNA], "", is_secure=True) is None


@pytest.mark.parametrize("token", ["", "x", "\udcff", "\0", "hushlist_" + "a" * 43])
def test_what_is_no_token_is_nobody_s(store: AdminStore, token: str) -> None:
    store.make_bearer("a", Role.VIEW, 60, by="me")
    assert store.bearer(token, "") is None
    assert store.account(token, [ANNA], "", is_secure=True) is None


@pytest.mark.parametrize(("back", "holds"), [(60, True), (61, False)])
def test_a_clock_that_is_set_back_lets_a_token_last_twice_as_long_at_most(
    store: AdminStore, clock: Clock, back: float, holds: bool
) -> None:
    token = store.make_bearer("a", Role.VIEW, 60, by="me")
    clock.now -= back
    assert (store.bearer(token, "") is not None) is holds


def test_tokens_end_at_their_time_and_are_so_many(
    store: AdminStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = store.make_bearer("a", Role.VIEW, 60, by="me")
    assert store.bearer(token, "192.0.2.7") == Account("token:a", Role.VIEW, "192.0.2.7")
    with pytest.raises(ActionError, match="a token has this name"):
        store.make_bearer("a", Role.VIEW, 60, by="me")
    clock.now += 60
    assert store.bearer(token, "") is None
    assert store.bearers() == []
    store.make_bearer("a", Role.VIEW, 60, by="me")
    monkeypatch.setattr(admin_store, "MOST_BEARERS", 1)
    with pytest.raises(ActionError, match="there are 1 tokens already"):
        store.make_bearer("b", Role.VIEW, 60, by="me")


def test_the_record_keeps_the_newest_and_something_is_undone_once(
    store: AdminStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_store, "MOST_RECORDED", 2)
    numbers = [store.record(ACCOUNT, what, {"n": what}, Role.VIEW, {"kind": what}) for what in ("a", "b", "c")]
    assert [one.what for one in store.recorded()] == ["c", "b"]
    assert store.recorded_action(numbers[0]) is None
    assert store.mark_undone(numbers[2], "max")
    assert not store.mark_undone(numbers[2], "max")
    found = store.recorded_action(numbers[2])
    assert found is not None
    assert (found.undone, found.undone_by, found.undo, found.role) == (clock.now, "max", {"kind": "c"}, Role.VIEW)
    store.unmark_undone(numbers[2])
    assert store.mark_undone(numbers[2], "anna")


def test_what_was_begun_has_one_row_whatever_comes_of_it(store: AdminStore, clock: Clock) -> None:
    begun, refused, broken = (store.begin(ACCOUNT, what, {"number": 7}) for what in ("end", "accept", "undo"))
    clock.now += 1
    assert store.record(ACCOUNT, "ended", {"id": 7}, Role.VIEW, {"kind": "x"}, begun) == begun
    store.strike(refused)
    assert [(one.id, one.at, one.what, one.role, one.undo) for one in store.recorded()] == [
        (broken, clock.now - 1, "began to undo", None, None),
        (begun, clock.now, "ended", Role.VIEW, {"kind": "x"}),
    ]


@pytest.mark.parametrize("text", ["x", "[]", "[" * 100_000, '{"minutes": NaN}', '{"minutes": 1e999}'])
def test_a_row_of_another_version_hides_no_other(store: AdminStore, place: Path | PostgresAddress, text: str) -> None:
    store.record(ACCOUNT, "granted", {"target": "a.example"}, Role.APPROVE, {"kind": "grant", "id": 1})
    number = store.record(ACCOUNT, "something new", {}, Role.APPROVE, {"kind": "new"})
    token = store.make_bearer("tools", Role.VIEW, 60.0, by="anna")
    other = open_store(place, ADMINISTRATION, "admin")
    with other.writing() as database:
        query = "UPDATE record SET detail = ?, undo = ?, role = 'owner' WHERE id = ?"
        database.execute(query, (text, text, number))
        database.execute("UPDATE bearers SET role = 'owner'")
    other.close()
    newest, before = store.recorded()
    assert (newest.detail, newest.undo, newest.role) == ({}, None, None)
    assert (before.detail, before.role) == ({"target": "a.example"}, Role.APPROVE)
    assert store.bearer(token, "") is None


@IN_FILE
def test_nothing_in_the_file_is_a_token(store: AdminStore, place: Path) -> None:
    tokens = [store.sign_in(ANNA, "", is_secure=True), store.make_bearer("a", Role.VIEW, 60, by="me")]
    octets = b"".join(path.read_bytes() for path in place.parent.iterdir())
    assert not [token for token in tokens if token.encode() in octets]
    assert ANNA.passphrase.encode() not in octets
