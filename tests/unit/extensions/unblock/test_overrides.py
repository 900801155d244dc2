"""The store of temporary unblocks: grants, codes, tries, the record; what guessers and floods get of it."""

from __future__ import annotations

import multiprocessing
import sqlite3
import stat
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.errors import UrlError
from hushlist.core.lists.patterns import canonical_target
from hushlist.extensions.databases import store
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.unblock import grant_rows
from hushlist.extensions.unblock import overrides as module
from hushlist.extensions.unblock.credentials import CodeError, CodeFault
from hushlist.extensions.unblock.grants import LONGEST_TARGET, WARNING, Grant, GrantTable
from hushlist.extensions.unblock.overrides import FRESHNESS, LONGEST_UNBLOCK, Overrides
from hushlist.extensions.unblock.wrong_tries import DAY, FIRST_LOCK, HOUR, MINUTE, LockedError, locks
from postgres import IN_FILE
from support.clock import Clock
from unit.hostile import seconds
from unit.rows import each_row

PUPIL, OTHER = "192.0.2.7", "192.0.2.8"
WANTED = {"host": "www.games.example", "url": "http://www.games.example/a?q", "category": "hrn://c.example/web/games"}
WRONG = "0000-0000-0000"


@pytest.fixture
def other(place: Path | PostgresAddress, clock: Clock, overrides: Overrides) -> Iterator[Overrides]:
    """Another process, as far as SQLite and PostgreSQL can tell."""
    with Overrides(place, clock) as opened:
        yield opened


def covering(overrides: Overrides, now: float, *names: str) -> Grant | None:
    """What covers a request of a client for WANTED, once what was told of is read."""
    catch_up(overrides)
    url = WANTED["url"].encode()
    return overrides.covering(names or [PUPIL], WANTED["host"].encode(), url, [WANTED["category"]], now)


def catch_up(overrides: Overrides) -> None:
    """Do what the thread does when it hears of a change, so that no test waits for it."""
    own = overrides._store
    if isinstance(own, store.PostgresStore):
        with own.asking() as database:
            own._listener.read(database)


def grant(overrides: Overrides, target: str = "games.example", seconds: float = 1800, **more: str | None) -> Grant:
    scope = more.pop("scope", "host") or ""
    return overrides.grant(scope, target, seconds, **{"how": "command line", "by": "root", **more})  # type: ignore[arg-type]


def locked_until(overrides: Overrides, client: str, now: float) -> float | None:
    """Until when a client is locked; ``None`` if it is not."""
    with overrides._store.reading() as database:
        found = locks(database, now)
    until = max(found.get(module._name(client), now), found.get(None, now))
    return until if until > now else None


# -- what is covered ---------------------------------------------------------------------------------------------------


#: scope and target of a grant; host, URL and categories of a request; whether the grant covers that
COVERED: list[tuple[str, str, str, str, list[str], bool]] = [
    ("host", "games.example", "games.example", "http://games.example/", [], True),
    ("host", "games.example", "a.b.games.example", "http://a.b.games.example/", [], True),
    ("host", "games.example", "notgames.example", "http://notgames.example/", [], False),
    ("host", "www.games.example", "games.example", "http://games.example/", [], False),
    ("host", "games.example", "games.example.evil.example", "http://h/games.example", [], False),
    ("host", "192.0.2.1", "192.0.2.1", "http://192.0.2.1/", [], True),
    # "never a bare top-level label": whoever unblocks com does not unblock all below it
    ("host", "example", "example", "http://example/", [], True),
    ("host", "example", "games.example", "http://games.example/", [], False),
    # nor a public suffix, be it a registry's or a company's, in the list, by a wildcard or by an exception
    ("host", "co.uk", "co.uk", "http://co.uk/", [], True),
    ("host", "co.uk", "games.co.uk", "http://games.co.uk/", [], False),
    ("host", "co.uk", "www.games.co.uk", "http://www.games.co.uk/", [], False),
    ("host", "games.co.uk", "www.games.co.uk", "http://www.games.co.uk/", [], True),
    ("host", "github.io", "games.github.io", "http://games.github.io/", [], False),
    ("host", "games.github.io", "www.games.github.io", "http://www.games.github.io/", [], True),
    ("host", "b.kawasaki.jp", "a.b.kawasaki.jp", "http://a.b.kawasaki.jp/", [], False),
    ("host", "city.kawasaki.jp", "www.city.kawasaki.jp", "http://www.city.kawasaki.jp/", [], True),
    ("host", "xn--55qx5d.cn", "games.xn--55qx5d.cn", "http://games.xn--55qx5d.cn/", [], False),
    # nor what is above one
    ("host", "kawasaki.jp", "a.b.kawasaki.jp", "http://a.b.kawasaki.jp/", [], False),
    ("host", "amazonaws.com", "games.s3.amazonaws.com", "http://games.s3.amazonaws.com/", [], False),
    ("host", "amazonaws.com", "www.amazonaws.com", "http://www.amazonaws.com/", [], True),
    # nothing is below an address: with five numbers, this is a name
    ("host", "192.0.2.1", "9.192.0.2.1", "http://9.192.0.2.1/", [], False),
    ("host", "0.2.1", "192.0.2.1", "http://192.0.2.1/", [], False),
    ("host", "[2001:db8::1]", "[2001:db8::1]", "http://[2001:db8::1]/", [], True),
    ("url", "http://h.example/a?q", "h.example", "http://h.example/a?q", [], True),
    ("url", "http://h.example/a?q", "h.example", "http://h.example/a?r", [], False),
    ("url", "http://h.example/a", "h.example", "http://h.example/a?", [], False),
    ("url", "http://h.example/a", "h.example", "https://h.example/a", [], False),
    ("url", "http://h.example/a", "h.example", "http://h.example/a/b", [], False),
    ("category", "hrn://c.example/web", "h", "http://h/", ["hrn://c.example/web"], True),
    ("category", "hrn://c.example/web", "h", "http://h/", ["hrn://x.example", "hrn://c.example/web/a/b"], True),
    ("category", "hrn://c.example/web", "h", "http://h/", ["hrn://c.example/website"], False),
    ("category", "hrn://c.example/web", "h", "http://h/", ["hrn://c.example"], False),
    ("category", "hrn://c.example", "h", "http://h/", ["hrn://www.c.example/web"], False),
    ("category", "hrn://c.example", "h", "http://h/", ["", "no name"], False),
]


def test_a_grant_covers_its_target_and_what_is_below_it(overrides: Overrides, clock: Clock) -> None:
    wrong = []
    for scope, target, host, url, categories, expected in COVERED:
        made = grant(overrides, target, scope=scope)
        found = overrides.covering([PUPIL], host.encode(), url.encode(), categories, clock.now)
        if found != (made if expected else None):
            wrong.append((scope, target, host, url, categories, found))
        overrides.revoke(made.id, by="root")
    assert wrong == []


@pytest.mark.parametrize(
    ("client", "names", "expected"),
    [
        (None, [], True),
        (None, [PUPIL], True),
        (PUPIL, [PUPIL, "user:jo"], True),
        ("user:jo", [PUPIL, "user:jo"], True),
        ("user:jo", [PUPIL, "user:joe"], False),
        (PUPIL, ["192.0.2.70"], False),
        (PUPIL, [], False),
        ("", [PUPIL], False),
    ],
)
def test_a_grant_is_for_its_client(
    overrides: Overrides, clock: Clock, client: str | None, names: list[str], expected: bool
) -> None:
    made = grant(overrides, client=client)
    found = overrides.covering(names, b"games.example", b"http://games.example/", [], clock.now)
    assert found == (made if expected else None)


def test_a_grant_ends_at_its_time_without_a_look_at_the_file(overrides: Overrides, clock: Clock) -> None:
    made = grant(overrides, seconds=0.2)
    assert covering(overrides, clock.now) == made
    assert covering(overrides, made.until - 0.001) == made
    assert covering(overrides, made.until) is None
    assert overrides.active(made.until) == []


def test_the_grant_that_lasts_longest_is_given(overrides: Overrides, clock: Clock) -> None:
    grant(overrides, seconds=60)
    long = grant(overrides, "www.games.example", 120)
    grant(overrides, "hrn://c.example", 90, scope="category")
    assert covering(overrides, clock.now) == long


def test_a_click_on_a_warning_covers_nothing_but_warnings_and_hides_no_other_grant(
    overrides: Overrides, clock: Clock
) -> None:
    def grant_over(*, is_warning: bool) -> Grant | None:
        args = [PUPIL], b"games.example", b"http://games.example/", [], clock.now
        return overrides.covering(*args, is_warning=is_warning)  # type: ignore[arg-type]

    click = grant(overrides, seconds=3600, how="warning", client=PUPIL)
    assert (grant_over(is_warning=False), grant_over(is_warning=True)) == (None, click)
    code = grant(overrides, seconds=600, how="code", client=PUPIL)
    assert (grant_over(is_warning=False), grant_over(is_warning=True)) == (code, click)
    later = grant(overrides, seconds=4000, how="warning", client=PUPIL)
    assert (grant_over(is_warning=False), grant_over(is_warning=True)) == (code, later)


def test_a_client_with_a_long_or_odd_name_has_what_it_was_granted(overrides: Overrides, clock: Clock) -> None:
    for name in ("user:" + "x" * 400, "user:\udcff"):
        made = grant(overrides, client=name)
        assert covering(overrides, clock.now, name) == made


@pytest.mark.parametrize("first", ["warning", "passphrase"])
def test_a_click_on_a_warning_neither_hides_nor_ends_an_unblock_that_is_shorter(
    overrides: Overrides, clock: Clock, first: str
) -> None:
    made = {}
    for how in (first, "warning", "passphrase"):
        made[how] = grant(overrides, "www.games.example", 900 if how == "passphrase" else 3600, client=PUPIL, how=how)
    asked = ([PUPIL], b"www.games.example", b"http://www.games.example/", [], clock.now)
    assert overrides.covering(*asked) == made["passphrase"]
    assert overrides.covering(*asked, is_warning=True) == made["warning"]


@pytest.mark.parametrize("suffix", ["co.uk", "pages.dev", "vercel.app", "netlify.app"])
def test_a_code_at_a_public_suffix_is_none_for_what_is_below_it(
    overrides: Overrides, clock: Clock, suffix: str
) -> None:
    code = overrides.make_code("host", 60, suffix)
    with pytest.raises(CodeError) as raised:
        overrides.redeem(code, PUPIL, {"host": f"games.{suffix}"})
    assert raised.value.fault is CodeFault.UNFIT
    made = overrides.redeem(overrides.make_code("host", 60), PUPIL, {"host": suffix})
    assert overrides.covering([PUPIL], suffix.encode(), b"", [], clock.now) == made
    assert overrides.covering([PUPIL], f"games.{suffix}".encode(), b"", [], clock.now) is None


def test_a_name_of_many_labels_is_looked_up_in_time(overrides: Overrides, clock: Clock) -> None:
    grant(overrides, "a.example")
    host = b"a." * 126 + b"example"
    assert seconds(lambda: [overrides.covering([PUPIL], host, b"", [], clock.now) for _ in range(100)]) < 1


@given(st.binary(max_size=60), st.binary(max_size=60), st.text(max_size=40))
def test_whatever_a_client_asks_for_is_never_an_error(host: bytes, url: bytes, category: str) -> None:
    made = [Grant(n, scope, "a.example", None, 9.0, "", "", 0.0) for n, scope in enumerate(("host", "url", "category"))]
    assert GrantTable(made).find([category], host, url, [category], 1.0) is None


@each_row(
    ("scope", "text", "expected"),
    [
        ("host", "Games.Example", "games.example"),
        ("host", "https://me@games.example.:443/", "games.example"),
        ("host", "bücher.example", "xn--bcher-kva.example"),
        ("host", "0x7f.1", "127.0.0.1"),
        ("host", "<URL:http://games.example/>", "games.example"),
        ("url", '"http://h.example/a?q"', "http://h.example/a?q"),
        ("host", "[::FFFF:1.2.3.4]", "1.2.3.4"),
        ("url", "HTTP://H.example:80/a/../%62?q#f", "http://h.example/b?q"),
        ("url", "https://h.example", "https://h.example/"),
        ("category", "HRN://C.example/%77eb", "hrn://c.example/web"),
        ("host", "https://games.example/a?b#c", "games.example"),
        ("host", "games.example/?q", "games.example"),
    ],
)
def test_a_target_is_canonicalized_as_live_traffic_is(scope: str, text: str, expected: str) -> None:
    assert canonical_target(scope, text) == expected


@each_row(
    ("scope", "text", "reason"),
    [
        ("host", "*.games.example", "wildcard"),
        ("host", "", "names no host"),
        ("host", "<games.example", "stands on one side alone"),
        ("url", "%68ttp://h.example/", "no scheme has an escape"),
        ("host", "a b", "white space"),
        ("url", "h.example/a", "begins with http"),
        ("url", "ftp://h.example/", "begins with http"),
        ("url", "http:///a", "names no host"),
        ("category", "gamez", "did you mean 'games'?"),
        ("host", "hrn://x.example/y", "give the scope category"),
        ("url", "hrn:x", "give the scope category"),
        *((scope, f"http://{host}/", "'\\['") for scope in ("host", "url") for host in ("[zz]", "[::1]x", "a[b", "[]")),
        *(
            (scope, url, "its port is no number")
            for scope in ("host", "url")
            for url in ("http://[::1]:x", "http://h:x/")
        ),
        *(("host", text, "'\\['") for text in ("[", "http://[::")),
        ("host", "h.example:99999", "its port is no number"),
    ],
)
def test_what_a_person_cannot_mean_is_refused(scope: str, text: str, reason: str) -> None:
    with pytest.raises(UrlError, match=reason):
        canonical_target(scope, text)


@pytest.mark.parametrize(
    ("scope", "target", "seconds"),
    [
        ("path", "/a", 60),
        ("host", "", 60),
        ("host", "bücher.example", 60),
        ("url", "http://h/" + "a" * LONGEST_TARGET, 60),
        ("host", "a.example", 0),
        ("host", "a.example", -1),
        ("host", "a.example", float("nan")),
        ("host", "a.example", float("inf")),
        ("host", "a.example", LONGEST_UNBLOCK + 1),
    ],
)
def test_a_grant_or_code_that_cannot_be_is_refused(
    overrides: Overrides, clock: Clock, scope: str, target: str, seconds: float
) -> None:
    with pytest.raises(ValueError):
        grant(overrides, target, seconds, scope=scope)
    with pytest.raises(ValueError):
        overrides.make_code(scope, seconds, target)
    assert (overrides.active(clock.now), overrides.history(100)) == ([], [])


# -- listing, revoking, sharing ----------------------------------------------------------------------------------------


def test_active_lists_the_newest_first_and_revoking_ends_one_at_once(overrides: Overrides, clock: Clock) -> None:
    one, two = grant(overrides), grant(overrides, "hrn://c.example", 60, scope="category", client=PUPIL)
    assert overrides.active(clock.now) == [two, one]
    assert covering(overrides, clock.now) == one
    assert overrides.revoke(one.id, by="admin")
    assert covering(overrides, clock.now) == two
    assert not overrides.revoke(one.id, by="admin")
    assert not overrides.revoke(10**30, by="admin")
    assert [(event.what, event.id, event.by) for event in overrides.history(100)] == [
        ("revoked", one.id, "admin"),
        ("granted", two.id, "root"),
        ("granted", one.id, "root"),
    ]


def test_a_longer_grant_of_the_same_takes_the_shorter_one_s_place_and_its_number_is_new(
    overrides: Overrides, clock: Clock
) -> None:
    one = grant(overrides, seconds=60)
    two = grant(overrides, seconds=90)
    assert overrides.active(clock.now) == [two]
    overrides.revoke(two.id, by="admin")
    assert grant(overrides).id > two.id > one.id


def test_workers_see_each_other_s_grants_at_once(place: Path | PostgresAddress, clock: Clock) -> None:
    if not isinstance(place, Path):
        pytest.skip("a database tells all who listen")
    with Overrides(place, clock, is_shared=True) as one, Overrides(place, clock, is_shared=True) as other:
        for _ in range(3):
            assert covering(one, clock.now) is None
            made = grant(other)
            assert covering(one, clock.now) == made
            other.revoke(made.id, by="admin")
        assert covering(one, clock.now) is None


def test_a_change_counts_for_the_next_request_though_another_thread_is_looking_at_it(
    overrides: Overrides, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert covering(overrides, clock.now) is None
    made, began, look = grant(overrides), Event(), overrides._grants.look
    catch_up(overrides)

    def slowly() -> object:
        began.set()
        time.sleep(0.1)
        return look()

    monkeypatch.setattr(overrides._grants, "look", slowly)
    with ThreadPoolExecutor(1) as threads:
        status = threads.submit(lambda: overrides.fault)
        assert began.wait(10)
        assert covering(overrides, clock.now) == made
        assert status.result() is None


def test_another_process_s_changes_are_seen_within_a_quarter_of_a_second(
    overrides: Overrides, other: Overrides, clock: Clock
) -> None:
    assert covering(overrides, clock.now) is None
    made = grant(other)
    assert covering(overrides, clock.now) is None
    assert covering(overrides, clock.now + FRESHNESS) == made
    other.revoke(made.id, by="admin")
    assert covering(overrides, clock.now + FRESHNESS) == made
    assert covering(overrides, clock.now + 2 * FRESHNESS) is None


@pytest.mark.parametrize(("seconds", "back", "holds"), [(1800, 1800, True), (1800, 1801, False), (None, 10**9, True)])
def test_a_clock_that_is_set_back_lets_a_grant_last_twice_as_long_at_most(
    overrides: Overrides, clock: Clock, seconds: float | None, back: float, holds: bool
) -> None:
    made = overrides.grant("host", "games.example", seconds, how="command line", by="root")
    clock.now -= back
    assert (covering(overrides, clock.now) == made) is holds


def test_a_week_begins_once_and_also_after_a_clock_was_far_ahead(overrides: Overrides) -> None:
    days = ["2026-12-14", "2026-12-21", "2026-12-21", "2026-12-14", "2099-01-05", "2026-12-28", "2026-12-28"]
    assert [overrides.begin_week(day) for day in days] == [False, True, False, False, True, True, False]


def test_a_clock_that_is_set_back_delays_no_look(overrides: Overrides, other: Overrides, clock: Clock) -> None:
    assert covering(overrides, clock.now) is None
    made = grant(other)
    assert covering(overrides, clock.now - 1000) == made


@IN_FILE
def test_nothing_waits_for_a_writer(overrides: Overrides, path: Path, clock: Clock) -> None:
    made = grant(overrides)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    writer.execute("DELETE FROM grants")
    assert covering(overrides, clock.now + 1) == made
    writer.execute("COMMIT")
    assert covering(overrides, clock.now + 3) is None
    writer.close()


@IN_FILE
@pytest.mark.parametrize("pattern", ["*", "*.sqlite"])
def test_removing_the_file_revokes_everything_and_the_next_grant_makes_it_anew(
    overrides: Overrides, path: Path, clock: Clock, pattern: str
) -> None:
    grant(overrides)
    assert covering(overrides, clock.now)
    for file in path.parent.glob(pattern):
        file.unlink()
    assert covering(overrides, clock.now + 1) is None
    assert overrides.fault is None
    made = grant(overrides)
    assert covering(overrides, clock.now + 1) == made


# -- the file ----------------------------------------------------------------------------------------------------------


@IN_FILE
def test_file_and_folder_are_their_owner_s_alone(overrides: Overrides, path: Path) -> None:
    grant(overrides)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    files = list(path.parent.iterdir())
    assert len(files) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def newer(path: Path) -> None:
    Overrides(path, Clock()).close()
    _execute(path, "PRAGMA user_version = 2")


def foreign(path: Path) -> None:
    _execute(path, "CREATE TABLE t (a)")


def _execute(path: Path, statement: str) -> None:
    database = sqlite3.connect(path)
    database.execute(statement)
    database.commit()
    database.close()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.write_bytes(b"no database " * 1000), "file is not a database"),
        (lambda path: path.mkdir(), "unable to open database file"),
        (newer, "its version is 2, and this Hushlist knows 1 only"),
        (foreign, "a database of another program"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(
    tmp_path: Path, clock: Clock, spoil: Callable[[Path], object], reason: str
) -> None:
    path = tmp_path / "overrides.sqlite"
    spoil(path)
    with pytest.raises(StoreError) as raised:
        Overrides(path, clock)
    assert (raised.value.path, raised.value.reason) == (path, reason)
    assert str(raised.value) == f"{path}: {reason}"


def test_a_place_where_no_file_can_be_is_named_with_the_reason(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "file").write_bytes(b"")
    for name in ("file/overrides.sqlite", "file/folder/overrides.sqlite", "a\0b"):
        with pytest.raises(StoreError):
            Overrides(tmp_path / name, clock)


@IN_FILE
def test_a_file_that_is_replaced_by_a_broken_one_covers_nothing_and_says_so(
    overrides: Overrides, path: Path, clock: Clock
) -> None:
    grant(overrides)
    assert covering(overrides, clock.now)
    for file in path.parent.iterdir():
        file.unlink()
    path.write_bytes(b"no database " * 1000)
    assert covering(overrides, clock.now + 1) is None
    assert overrides.fault == f"{path}: file is not a database"
    with pytest.raises(StoreError, match="not a database"):
        grant(overrides)
    for file in path.parent.iterdir():
        file.unlink()
    assert covering(overrides, clock.now + 2) is None
    assert overrides.fault is None


@IN_FILE
@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("grants", "SET until = 'x'"),
        ("grants", "SET target = x'ff'"),
        ("grants", "SET client = x'00'"),
        ("admin_blocks", "SET until = 'never'"),
        ("admin_blocks", "SET made = x'00'"),
        ("admin_blocks", "RENAME COLUMN reason TO why"),
    ],
)
def test_rows_that_no_hushlist_writes_fail_no_decision_and_are_told(
    overrides: Overrides, path: Path, clock: Clock, table: str, change: str
) -> None:
    grant(overrides)
    block = overrides.block("host", "blocked.example", None, by="root")
    assert overrides.blocks_at(clock.now).blocks == (block,)
    _execute(path, f"{'ALTER TABLE' if change.startswith('RENAME') else 'UPDATE'} {table} {change}")
    assert (covering(overrides, clock.now + 1) is None) == (table == "grants")
    assert overrides.blocks_at(clock.now + 1).blocks == (block,)
    assert str(overrides.fault).startswith(f"{path}: ")


@IN_FILE
def test_a_database_that_may_only_be_read_covers_and_uses_up_no_code(
    overrides: Overrides, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, code, tokens = grant(overrides), overrides.make_code("host", 60), overrides.tokens()
    with overrides._store.reading() as database:
        database.execute("PRAGMA query_only = ON")
    assert covering(overrides, clock.now + 1) == made
    for write in (
        lambda: grant(overrides),
        lambda: overrides.revoke(made.id, by="admin"),
        lambda: overrides.redeem(code, PUPIL, WANTED),
        lambda: overrides.attempt(PUPIL, "passphrase", lambda: True, WANTED),
        lambda: tokens.check(tokens.make(PUPIL, "u", "p"), PUPIL, "u", "p"),
    ):
        with pytest.raises(StoreError, match="readonly"):
            write()
    with overrides._store.reading() as database:
        database.execute("PRAGMA query_only = OFF")
    assert overrides.redeem(code, PUPIL, WANTED)


# -- codes -------------------------------------------------------------------------------------------------------------


def guess(overrides: Overrides, client: str = PUPIL, code: str = WRONG) -> CodeFault:
    with pytest.raises(CodeError) as raised:
        overrides.redeem(code, client, WANTED)
    return raised.value.fault


@pytest.mark.parametrize("scope", WANTED)
def test_a_code_becomes_one_grant_for_what_was_blocked(overrides: Overrides, clock: Clock, scope: str) -> None:
    code = overrides.make_code(scope, 1800, by="root")
    clock.now += 3600
    made = overrides.redeem(code, PUPIL, WANTED)
    assert made == Grant(made.id, scope, WANTED[scope], PUPIL, clock.now + 1800, "code", PUPIL, clock.now)
    assert covering(overrides, clock.now) == made
    assert covering(overrides, clock.now, OTHER) is None
    assert guess(overrides, code=code) is CodeFault.USED
    assert guess(overrides, OTHER, code) is CodeFault.USED


def test_a_code_is_easy_to_type_and_hard_to_guess(overrides: Overrides) -> None:
    codes = {overrides.make_code("host", 60) for _ in range(30)}
    assert len(codes) == 30
    for code in codes:
        groups = code.split("-")
        assert [len(group) for group in groups] == [4, 4, 4]
        assert set("".join(groups)) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")


def test_a_code_is_read_as_people_type_it(overrides: Overrides) -> None:
    code = overrides.make_code("host", 60)
    typed = f" {code.replace('-', ' ').lower().replace('0', 'o').replace('1', 'l')}\n"
    assert overrides.redeem(typed, PUPIL, WANTED)


@IN_FILE
def test_a_code_is_nowhere_in_the_file(overrides: Overrides, path: Path) -> None:
    code = overrides.make_code("host", 60)
    octets = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"code made" in octets
    for spelling in (code, code.replace("-", ""), code.lower()):
        assert spelling.encode() not in octets


def test_a_code_is_too_old_at_its_time(overrides: Overrides, clock: Clock) -> None:
    code = overrides.make_code("host", 60, valid_for=100)
    clock.now += 100
    assert guess(overrides, code=code) is CodeFault.EXPIRED


def test_a_code_for_somebody_is_nobody_else_s(overrides: Overrides) -> None:
    code = overrides.make_code("host", 60, client="user:jo")
    assert guess(overrides, code=code) is CodeFault.CLIENT
    assert overrides.redeem(code, PUPIL, WANTED, ["user:jo"]).client == "user:jo"


@pytest.mark.parametrize(
    ("scope", "target", "fits"),
    [
        ("host", "games.example", True),
        ("host", "other.example", False),
        ("host", "a.www.games.example", False),
        ("url", "http://www.games.example/a?q", True),
        ("url", "http://www.games.example/a", False),
        ("category", "hrn://c.example/web", True),
        ("category", "hrn://c.example/web/games/a", False),
    ],
)
def test_a_code_for_a_target_unblocks_that_and_stays_good_where_it_does_not_fit(
    overrides: Overrides, scope: str, target: str, fits: bool
) -> None:
    code = overrides.make_code(scope, 60, target)
    if fits:
        assert overrides.redeem(code, PUPIL, WANTED).target == target
    else:
        assert guess(overrides, code=code) is CodeFault.UNFIT
        assert guess(overrides, code=code) is CodeFault.UNFIT


@pytest.mark.parametrize("wanted", [{"host": "h.example"}, {"category": ""}, {"category": "x" * 10_000}, {}])
def test_a_code_for_a_category_does_not_help_where_there_is_none(overrides: Overrides, wanted: dict[str, str]) -> None:
    code = overrides.make_code("category", 60)
    with pytest.raises(CodeError) as raised:
        overrides.redeem(code, PUPIL, wanted)
    assert raised.value.fault is CodeFault.UNFIT
    assert overrides.redeem(code, PUPIL, WANTED)


@IN_FILE  # what is asked is the same
def test_no_text_is_a_code_by_accident(overrides: Overrides, clock: Clock) -> None:
    overrides.make_code("host", 60)

    @given(st.text(max_size=120) | st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ-", min_size=12, max_size=14))
    def guess_anything(text: str) -> None:
        clock.now += 3 * DAY
        assert guess(overrides, code=text) is CodeFault.WRONG

    guess_anything()


def test_a_withdrawn_code_is_worthless(overrides: Overrides) -> None:
    code = overrides.make_code("host", 60)
    assert overrides.withdraw_code(code.lower(), by="admin")
    assert not overrides.withdraw_code(code, by="admin")
    assert guess(overrides, code=code) is CodeFault.WRONG
    used = overrides.make_code("host", 60)
    overrides.redeem(used, PUPIL, WANTED)
    assert not overrides.withdraw_code(used, by="admin")
    assert not overrides.withdraw_code("x", by="admin")


def at_once(work: Callable[[int], str]) -> list[str]:
    """What four copies of this process, which has no store open, make of a work at once."""
    context = multiprocessing.get_context("fork")
    start, made = context.Barrier(4), context.SimpleQueue()

    def run(number: int) -> None:
        start.wait()
        made.put(work(number))

    running = [context.Process(target=run, args=(number,)) for number in range(4)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0] * 4
    return [made.get() for _ in running]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are never copied here")
def test_a_code_is_used_once_by_several_processes(place: Path | PostgresAddress) -> None:
    def redeem(number: int) -> str:
        used = []
        with Overrides(place, time.time) as overrides:
            for code in codes:  # each client has four tries before a lock
                with suppress(CodeError):
                    overrides.redeem(code, f"client {number}", {"host": "h.example"})
                    used.append(code)
        return " ".join(used)

    with Overrides(place, time.time) as overrides:
        codes = [overrides.make_code("host", 60) for _ in range(4)]
    used = " ".join(at_once(redeem)).split()
    assert sorted(used) == sorted(codes)
    with Overrides(place, time.time) as overrides:
        assert sum(event.what == "granted" for event in overrides.history(100)) == len(codes)


@pytest.mark.slow
@IN_FILE
@pytest.mark.skipif(sys.platform != "linux", reason="processes are never copied here")
def test_processes_that_make_the_file_at_once_have_one_key(path: Path) -> None:
    def key(_: int) -> str:
        with Overrides(path, time.time) as overrides:
            return overrides.key().hex()

    keys = at_once(key)
    assert len(set(keys)) == 1
    assert len(bytes.fromhex(keys[0])) == 32


# -- guessing ----------------------------------------------------------------------------------------------------------


def test_five_wrong_tries_lock_a_client_and_each_lock_is_twice_as_long(overrides: Overrides, clock: Clock) -> None:
    right = overrides.make_code("host", 60, valid_for=30 * DAY)
    expected = FIRST_LOCK
    for _ in range(10):
        for _ in range(5):
            assert locked_until(overrides, PUPIL, clock.now) is None
            guess(overrides)
        assert locked_until(overrides, PUPIL, clock.now) == clock.now + expected
        assert locked_until(overrides, OTHER, clock.now) is None
        with pytest.raises(LockedError) as raised:
            overrides.redeem(right, PUPIL, WANTED)
        assert raised.value.until == clock.now + expected
        clock.now += expected
        expected = min(2 * expected, DAY)
    assert expected == DAY
    assert overrides.redeem(right, PUPIL, WANTED)


def test_tries_that_are_long_ago_do_not_count(overrides: Overrides, clock: Clock) -> None:
    for _ in range(20):
        guess(overrides)
        clock.now += 15 * MINUTE / 4
        assert locked_until(overrides, PUPIL, clock.now) is None


def test_a_lock_is_forgotten_a_day_after_its_end(overrides: Overrides, clock: Clock) -> None:
    for _ in range(2):
        for _ in range(5):
            guess(overrides)
        assert locked_until(overrides, PUPIL, clock.now) == clock.now + FIRST_LOCK
        clock.now += FIRST_LOCK + DAY


def test_a_right_try_starts_again(overrides: Overrides, clock: Clock) -> None:
    for _ in range(4):
        guess(overrides)
    overrides.redeem(overrides.make_code("host", 60), PUPIL, WANTED)
    for _ in range(4):
        guess(overrides)
    assert overrides.attempt(PUPIL, "passphrase", lambda: True, WANTED)
    for _ in range(4):
        guess(overrides)
    assert locked_until(overrides, PUPIL, clock.now) is None


def test_a_code_that_does_not_fit_neither_counts_nor_starts_again(overrides: Overrides, clock: Clock) -> None:
    unfit = overrides.make_code("host", 60, "other.example")
    for _ in range(4):
        guess(overrides)
    for _ in range(10):
        assert guess(overrides, code=unfit) is CodeFault.UNFIT
    guess(overrides)
    assert locked_until(overrides, PUPIL, clock.now) == clock.now + FIRST_LOCK


@pytest.fixture
def few_tries(monkeypatch: pytest.MonkeyPatch) -> int:
    """So few may be wrong of all: a hundred take long with PostgreSQL."""
    monkeypatch.setattr("hushlist.extensions.unblock.wrong_tries.MOST_TRIES_OF_ALL", 20)
    return 20


def test_many_addresses_do_not_help(overrides: Overrides, clock: Clock, few_tries: int) -> None:
    right = overrides.make_code("host", 60)
    for number in range(few_tries):
        assert not overrides.attempt(f"2001:db8::{number:x}", "passphrase", lambda: False, WANTED)
    for client in (PUPIL, "2001:db8::0"):
        assert locked_until(overrides, client, clock.now) == clock.now + HOUR
        with pytest.raises(LockedError):
            overrides.attempt(client, "passphrase", lambda: True, WANTED)
    assert overrides.redeem(right, PUPIL, WANTED)  # a code cannot be guessed
    clock.now += HOUR
    assert overrides.attempt(PUPIL, "passphrase", lambda: True, WANTED)


def test_wrong_codes_keep_nobody_else_out(
    overrides: Overrides, clock: Clock, few_tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2 * few_tries):
        guess(overrides, f"2001:db8::{number:x}")
    assert locked_until(overrides, PUPIL, clock.now) is None
    assert overrides.attempt(PUPIL, "passphrase", lambda: True, WANTED)
    monkeypatch.setattr("hushlist.extensions.unblock.wrong_tries.MOST_ROWS", 2 * few_tries)
    for _ in range(10):
        guess(overrides)  # no row is added
    assert locked_until(overrides, PUPIL, clock.now) is None


def test_knowing_one_passphrase_buys_no_more_guesses_than_all_have(overrides: Overrides, few_tries: int) -> None:
    for _ in range(few_tries):
        assert not overrides.attempt(PUPIL, "passphrase", lambda: False, WANTED)
        if locked_until(overrides, PUPIL, overrides._clock()) is None:
            assert overrides.attempt(PUPIL, "passphrase", lambda: True, WANTED)
    with pytest.raises(LockedError):
        overrides.attempt(PUPIL, "passphrase", lambda: False, WANTED)


def test_tries_at_once_are_not_looked_at_beyond_the_limit(overrides: Overrides) -> None:
    looked = []

    def verify() -> bool:
        looked.append(1)
        time.sleep(0.05)
        return False

    def attempt(_: int) -> str:
        try:
            return str(overrides.attempt(PUPIL, "passphrase", verify, WANTED))
        except LockedError:
            return "locked"

    with ThreadPoolExecutor(20) as threads:
        results = list(threads.map(attempt, range(20)))
    assert sorted(results) == ["False"] * 5 + ["locked"] * 15
    assert len(looked) == 5
    assert [event.what for event in overrides.history(100)].count("locked") == 1


def test_a_verification_that_fails_counts_as_wrong(overrides: Overrides, clock: Clock) -> None:
    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            overrides.attempt(PUPIL, "passphrase", lambda: bool(1 / 0), WANTED)
    assert locked_until(overrides, PUPIL, clock.now)


def test_a_clock_that_was_wrong_and_is_set_back_locks_nobody_for_years(
    overrides: Overrides, clock: Clock, few_tries: int
) -> None:
    clock.now += 1000 * DAY
    for number in range(few_tries):
        guess(overrides, f"client {number % 4}")
    clock.now -= 1000 * DAY
    assert locked_until(overrides, "client 1", clock.now) is None
    assert guess(overrides, "client 1") is CodeFault.WRONG


def test_clients_are_told_apart_whatever_their_names_are(overrides: Overrides, clock: Clock) -> None:
    names = ["", "\udc80", "\udc81", "x" * 301, "x" * 302, "\0", "ü"]
    for number, name in enumerate(names):
        for _ in range(5):
            guess(overrides, name)
        assert all(locked_until(overrides, name, clock.now) is None for name in names[number + 1 :])


# -- floods ------------------------------------------------------------------------------------------------------------


def rows(overrides: Overrides, table: str) -> int:
    with overrides._store.reading() as database:
        (count,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


def test_rows_of_guessers_do_not_grow(overrides: Overrides, clock: Clock, few_tries: int) -> None:
    for _ in range(3):
        for number in range(few_tries):
            overrides.attempt(f"client {number // 5}", "passphrase", lambda: False, WANTED)
        assert rows(overrides, "tries") == few_tries
        assert rows(overrides, "locks") == few_tries // 5
        clock.now += 2 * DAY


def test_a_client_s_grants_are_bounded_and_those_that_last_longest_stay(
    overrides: Overrides, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grant_rows, "MOST_GRANTS_OF_CLIENT", 20)
    long = grant(overrides, seconds=3600, client=PUPIL)
    for number in range(25):
        grant(overrides, f"http://h.example/{number}", 60, scope="url", client=PUPIL, how="warning")
    active = overrides.active(clock.now)
    assert len(active) == 20
    assert active[-1] == long
    clock.now += 60
    grant(overrides, client=OTHER)
    assert rows(overrides, "grants") == 2


def test_grants_of_all_clients_are_bounded_and_an_administrator_s_for_everybody_still_fit(
    overrides: Overrides, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grant_rows, "MOST_GRANTS", 3)
    code = overrides.make_code("host", 60)
    for number in range(3):
        grant(overrides, client=f"client {number}")
    with pytest.raises(StoreError, match="it is full: there are 3 grants"):
        overrides.redeem(code, PUPIL, WANTED)
    assert grant(overrides)
    clock.now += 1800
    assert overrides.redeem(code, PUPIL, WANTED)


def test_clicks_on_warnings_keep_nobody_out_however_many_addresses_make_them(
    overrides: Overrides, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grant_rows, "MOST_GRANTS", 3)
    granted = grant(overrides, client=OTHER)
    for number in range(5):
        clock.now += 1
        grant(overrides, seconds=3600, client=f"client {number}", how=WARNING)
    assert [one.client for one in overrides.active(clock.now)] == ["client 4", "client 3", OTHER]
    assert overrides.redeem(overrides.make_code("host", 60), PUPIL, WANTED)
    assert [one.client for one in overrides.active(clock.now)] == [PUPIL, "client 4", OTHER]
    assert granted in overrides.active(clock.now)


def test_events_are_bounded_and_one_client_does_not_wash_out_the_others(
    overrides: Overrides, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hushlist.extensions.unblock.grant_events.MOST_EVENTS", 20)
    monkeypatch.setattr("hushlist.extensions.unblock.grant_events.MOST_EVENTS_OF_CLIENT", 10)
    other = [grant(overrides, client=OTHER).id for _ in range(5)]
    for _ in range(50):
        grant(overrides, client=PUPIL)
    clients = [event.client for event in overrides.history(100)]
    assert clients == [PUPIL] * 10 + [OTHER] * 5
    assert [event.id for event in overrides.history(100)[-5:]] == other[::-1]
    for number in range(30):
        grant(overrides, client=f"client {number}")
    assert len(overrides.history(100)) == 20
    assert len(overrides.history(3)) == 3


def test_a_long_target_is_cut_in_the_record(overrides: Overrides) -> None:
    with pytest.raises(CodeError):
        overrides.redeem(WRONG, PUPIL, {"url": "http://h/" + "é" * 70_000})
    (event,) = overrides.history(100)
    assert event.target
    assert len(event.target) == 500


def test_every_use_is_recorded(overrides: Overrides, clock: Clock) -> None:
    code = overrides.make_code("host", 60, by="root")
    made = overrides.redeem(code, PUPIL, WANTED)
    guess(overrides, OTHER, code)
    overrides.attempt(OTHER, "passphrase", lambda: False, WANTED)
    for _ in range(3):
        guess(overrides, OTHER)
    happened = [
        (event.what, event.client, event.scope, event.target, event.how, event.id) for event in overrides.history(100)
    ]
    url = WANTED["url"]
    wrong = ("refused", OTHER, "url", url, "code: there is no such code", None)
    assert happened == [
        ("locked", OTHER, None, None, "too many wrong tries", None),
        wrong,
        wrong,
        wrong,
        ("refused", OTHER, "url", url, "passphrase", None),
        ("refused", OTHER, "url", url, "code: the code was used before", None),
        ("granted", PUPIL, "host", "www.games.example", "code", made.id),
        ("code made", None, "host", None, "code", None),
    ]
    assert {event.at for event in overrides.history(100)} == {clock.now}


@pytest.mark.parametrize(("busy", "is_error"), [(0, False), (3, False), (None, True)])
def test_a_file_that_another_process_makes_at_the_moment_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, busy: int | None, is_error: bool
) -> None:
    asked: list[str] = []

    class Connection:
        def execute(self, statement: str) -> None:
            asked.append(statement)
            if busy is None or len(asked) <= busy:
                error = sqlite3.OperationalError("broken by the test")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL if busy is None else sqlite3.SQLITE_BUSY | 1 << 8
                raise error

    monkeypatch.setattr(store.time, "sleep", lambda _: None)
    with pytest.raises(sqlite3.OperationalError, match="broken") if is_error else nullcontext():
        store._write_ahead(Connection())  # type: ignore[arg-type]
    assert asked == ["PRAGMA journal_mode = WAL"] * (1 if busy is None else busy + 1)
