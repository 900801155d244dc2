"""PostgreSQL: no password is shown, changes are heard of, lost connections open again, and schemas have versions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Event
from typing import cast

import pytest

import hushlist
from e2e.proxy import CHECKOUT
from hushlist.core.routes import Role
from hushlist.extensions.dashboard.admin_store import ADMINISTRATION, AdminStore
from hushlist.extensions.databases import postgres as module
from hushlist.extensions.databases.kept_files import DatabaseKind
from hushlist.extensions.databases.postgres import ChangeListener, PostgresStore, migrate
from hushlist.extensions.databases.postgres_address import PostgresAddress, parse_postgres_address
from hushlist.extensions.databases.sql import SqlConnection, StoreError
from hushlist.extensions.databases.store import SqliteStore
from hushlist.extensions.fleet.proxy_records import FLEET, ProxyRecord, ProxyRecords
from hushlist.extensions.journal.log_keys import LoggedRequests, LogSettings
from hushlist.extensions.journal.log_writer import LogWriter
from hushlist.extensions.quotas.use_minutes import UseMinutes
from hushlist.extensions.unblock.access_requests import AccessRequest
from hushlist.extensions.unblock.credentials import CodeError
from hushlist.extensions.unblock.overrides import UNBLOCKS, Overrides
from hushlist.extensions.unblock.wrong_tries import LockedError
from postgres import GROUP, PASSWORD, Server
from support.waiting import wait_until
from unit.extensions.journal.samples import record
from unit.rows import each_row

PUPIL = "192.0.2.7"


# -- addresses ---------------------------------------------------------------------------------------------------------


@each_row(
    ("url", "shown"),
    [
        ("postgresql://db.example/filter", "postgresql://db.example/filter"),
        ("postgres://jo@db.example:5433", "postgresql://jo@db.example:5433"),
        ("postgresql://jo:secret@db.example/filter", "postgresql://jo@db.example/filter"),
        ("postgresql://jo:s%2Fcret@[2001:db8::1]:5432/filter", "postgresql://jo@[2001:db8::1]:5432/filter"),
        ("postgresql://:secret@db.example", "postgresql://db.example"),
        ("postgresql://jo:sec?ret@db.example/x", "postgresql://jo@db.example/x"),
        ("postgresql:///filter?host=/run/postgresql", "postgresql:///filter?host=/run/postgresql"),
        ("postgresql:///?service=school&password=secret", "postgresql://?service=school"),
        ("postgresql://%2Frun%2Fpg/filter", "postgresql://%2Frun%2Fpg/filter"),
        (
            "postgresql://a.example:1,b.example/filter?target_session_attrs=read-write&sslpassword=secret",
            "postgresql://a.example:1,b.example/filter?target_session_attrs=read-write",
        ),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    address = parse_postgres_address(url)
    assert (str(address), address.url) == (shown, url)
    assert "secret" not in repr(address)


@each_row(
    "url",
    [
        *("", "secret", "mysql://jo:secret@db.example", "postgresql:jo:secret@db.example"),
        # libpq would take the rest of these passwords for a host or a port, and name it
        *("postgresql://jo:sec@ret@db.example/x", "postgresql://jo:sec/ret@db.example/x", "postgresql://h:secret/x"),
        *(
            "postgresql://jo:secret%@db.example",
            "postgresql://jo:secret@db.example/x\n",
            "postgresql://h/x?password=%zz",
        ),
    ],
)
def test_what_is_no_address_is_not_quoted(url: str) -> None:
    with pytest.raises(ValueError, match="expected postgresql://USER@HOST/DATABASE") as raised:
        parse_postgres_address(url)
    assert "ret" not in str(raised.value)


@pytest.mark.slow
def test_without_the_driver_the_error_names_the_extra(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from hushlist.extensions.databases.postgres_address import parse_postgres_address\n"
        "from hushlist.extensions.unblock.overrides import UNBLOCKS, Overrides\n"
        "try:\n Overrides(parse_postgres_address('postgresql://jo:secret@127.0.0.1:1/x'), lambda: 0.0).active(0.0)\n"
        "except Exception as error: print(error)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(hushlist.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    told = "postgresql://jo@127.0.0.1:1/x: PostgreSQL needs the extra 'fleet': pip install 'hushlist[fleet]' ("
    assert done.stdout.startswith(told)
    assert "secret" not in done.stdout


# -- connections -------------------------------------------------------------------------------------------------------


@GROUP
@pytest.mark.parametrize(
    "spoil", ["postgresql://{0}:{1}@127.0.0.1:{2}/none", "postgresql://{0}:wrong{1}@127.0.0.1:{2}/{3}"]
)
def test_what_the_server_refuses_is_said_without_the_password(
    postgres: Server, database: PostgresAddress, spoil: str
) -> None:
    login = ("hushlist", "s3cr%2Bt%2F%25", postgres.port, database.url.rpartition("/")[2])
    address = parse_postgres_address(spoil.format(*login))
    with pytest.raises(StoreError) as raised, Overrides(address, time.time) as overrides:
        overrides.active(0.0)
    assert "postgresql://hushlist@127.0.0.1" in str(raised.value)
    assert PASSWORD not in str(raised.value)
    assert "s3cr" not in str(raised.value)


@GROUP
def test_a_socket_a_service_file_and_a_password_file_work(
    tmp_path: Path, postgres: Server, database: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = database.url.rpartition("/")[2]
    passwords, services = tmp_path / "pgpass", tmp_path / "services"
    passwords.write_text(f"*:{postgres.port}:*:*:{PASSWORD}\n")
    passwords.chmod(0o600)
    services.write_text(f"[school]\nhost=127.0.0.1\nport={postgres.port}\nuser=hushlist\ndbname={name}\n")
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    for url in (
        f"postgresql://hushlist@/{name}?host={postgres.folder}&port={postgres.port}",
        "postgresql:///?service=school",
        f"postgresql://hushlist@127.0.0.1:1,127.0.0.1:{postgres.port}/{name}?target_session_attrs=read-write",
    ):
        with Overrides(parse_postgres_address(url), time.time) as overrides:
            assert overrides.active(0.0) == []


@GROUP
def test_a_server_that_was_restarted_is_asked_again_without_an_error(
    postgres: Server, database: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Overrides(database, time.time) as overrides, ThreadPoolExecutor(1) as thread:
        made = overrides.grant("host", "a.example", 60, how="x", by="x")
        for is_asked_meanwhile in (False, True, True):
            postgres.stop("fast")
            asking = thread.submit(overrides.active, 0.0) if is_asked_meanwhile else None
            postgres.start()
            assert overrides.active(0.0) == [made]
            assert asking is None or asking.result() == [made]
        postgres.stop()
        monkeypatch.setattr(module, "CONNECT", 0.5)
        with pytest.raises(StoreError):
            overrides.active(0.0)
        postgres.start()
        wait_until(lambda: is_answered(overrides))


def is_answered(overrides: Overrides) -> bool:
    try:
        overrides.active(0.0)
    except StoreError:
        return False
    return True


@contextmanager
def silent() -> Iterator[int]:
    """The port of a server that accepts connections, and says nothing."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


@pytest.mark.slow
def test_a_server_that_says_nothing_is_given_up() -> None:
    with (
        silent() as port,
        pytest.raises(StoreError),
        closing(
            PostgresStore(parse_postgres_address(f"postgresql://127.0.0.1:{port}/x?connect_timeout=2"), "unblock")
        ) as opened,
    ):
        opened.version()


@GROUP
def test_an_answer_that_does_not_come_is_given_up(database: PostgresAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(PostgresStore(database, "unblock")) as opened:
        opened.version()
        monkeypatch.setattr(module, "ANSWER", 0.2)
        with pytest.raises(StoreError, match=r"not done after 0\.2 seconds"), opened.asking() as connection:
            connection.execute("SELECT pg_sleep(600)")
        monkeypatch.undo()
        opened.version()


@GROUP
def test_who_writes_on_a_slow_line_keeps_others_out_for_so_long_only(
    database: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        closing(PostgresStore(database, "unblock")) as opened,
        closing(PostgresStore(database, "unblock")) as other,
    ):
        other.version()
        opened.version()
        monkeypatch.setattr(module, "ANSWER", 1.0)
        begun = time.monotonic()

        def write() -> None:
            with opened.writing() as writing:
                for _ in range(20):  # none of which takes long
                    writing.execute("SELECT pg_sleep(0.2)")

        with pytest.raises(StoreError, match="it was not done after 1 seconds"):
            write()
        assert time.monotonic() - begun < 3
        monkeypatch.undo()
        with other.writing() as connection:
            connection.execute("SELECT 1")
        with opened.asking() as connection:
            connection.execute("SELECT pg_sleep(1.1)")


@GROUP
def test_who_waits_for_an_answer_is_let_go_at_the_end(database: PostgresAddress) -> None:
    opened = PostgresStore(database, "unblock")

    def ask() -> None:
        with opened.asking() as connection:
            connection.execute("SELECT pg_sleep(600)")

    with ThreadPoolExecutor(1) as threads:
        opened.version()
        waiting = threads.submit(ask)
        wait_until(opened._lock.locked)
        start = time.monotonic()
        opened.close()
        with pytest.raises(StoreError, match="it gave no answer"):
            waiting.result()
        assert time.monotonic() - start < module.ANSWER / 2
    opened.version()
    opened.close()


@GROUP
def test_writers_exclude_each_other_and_a_failed_one_leaves_nothing(database: PostgresAddress) -> None:
    stores = [PostgresStore(database, "unblock") for _ in range(4)]
    assert not any(isinstance(store, SqliteStore) for store in stores)

    def add(number: int) -> None:
        with stores[number % 4].writing() as connection:
            (most,) = connection.execute("SELECT coalesce(max(at), 0) FROM tries").fetchone()
            connection.execute("INSERT INTO tries (at, client) VALUES (?, 'x')", (most + 1,))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(40)))
    with pytest.raises(ZeroDivisionError), stores[0].writing() as connection:
        fail(connection)
    with stores[0].reading() as connection:
        assert connection.execute("SELECT count(*), max(at) FROM tries").fetchone() == (40, 40.0)
    for store in stores:
        store.close()


@GROUP
def test_who_waited_for_a_writer_sees_what_it_wrote_whatever_the_server_s_isolation(
    postgres: Server, database: PostgresAddress
) -> None:
    """Otherwise tries that are made at once are not counted together."""
    name = database.url.rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")

    def number() -> object:
        with closing(PostgresStore(database, "unblock")) as other, other.writing() as connection:
            return connection.execute("SELECT count(*) FROM tries").fetchone()

    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with closing(PostgresStore(database, "unblock")) as one, ThreadPoolExecutor(1) as threads:
        with one.writing() as connection:
            connection.execute("INSERT INTO tries (at, client) VALUES (1, 'x')")
            found = threads.submit(number)
            wait_until(lambda: postgres.execute(waiting))
        assert found.result() == (1,)


def fail(connection: SqlConnection) -> None:
    connection.execute("INSERT INTO tries (at, client) VALUES (1000, 'x')")
    raise ZeroDivisionError


# -- agreement ---------------------------------------------------------------------------------------------------------


@GROUP
def test_a_change_is_known_elsewhere_within_a_second(database: PostgresAddress) -> None:
    """Of many, the median: one may be late on a machine that is busy with others."""
    with Overrides(database, time.time) as one, Overrides(database, time.time) as other:

        def covers() -> bool:
            found = other.covering([PUPIL], b"h.example", b"http://h.example/", [], time.time())
            return found is not None

        covers()
        took = []
        for _ in range(9):
            made = one.grant("host", "h.example", 60, client=PUPIL, how="x", by="x")
            begun = time.monotonic()
            wait_until(covers)
            took.append(time.monotonic() - begun)
            one.revoke(made.id, by="x")
            wait_until(lambda: not covers())
        assert sorted(took)[4] < 1.0, took


@GROUP
def test_a_grant_of_one_s_own_is_known_at_once(database: PostgresAddress) -> None:
    with Overrides(database, time.time) as own:
        for number in range(20):
            host = f"h{number}.example"
            made = own.grant("host", host, 60, client=PUPIL, how="x", by="x")
            assert own.covering([PUPIL], host.encode(), f"http://{host}/".encode(), [], time.time()) == made


@GROUP
def test_what_is_known_goes_on_while_the_server_is_away_and_ends_at_its_time(
    postgres: Server, database: PostgresAddress
) -> None:
    now = time.time()
    with Overrides(database, lambda: now) as own, Overrides(database, lambda: now) as other:
        made = own.grant("host", "h.example", 60, client=PUPIL, how="x", by="x")

        def covering(when: float) -> object:
            return other.covering([PUPIL], b"h.example", b"http://h.example/", [], when)

        moments = (now + at % 50 for at in count())  # it looks again only when time passes
        wait_until(lambda: covering(next(moments)) == made)
        wait_until(lambda: other.known_tokens() is not None)
        postgres.stop()
        try:
            wait_until(lambda: covering(next(moments)) and other.fault)
            assert covering(now + 59) == made
            assert covering(now + 61) is None
            assert other.known_tokens() is not None
            with pytest.raises(StoreError):
                other.grant("host", "more.example", 60, how="x", by="x")
        finally:
            postgres.start()
        wait_until(lambda: covering(next(moments)) and other.fault is None)


@GROUP
def test_what_is_asked_first_fails_until_a_server_is_there(postgres: Server, database: PostgresAddress) -> None:
    """A proxy starts while the database is away: it waits for nothing, and knows it when it comes."""
    with Overrides(database, time.time) as own:
        own.grant("host", "h.example", 60, how="x", by="x")
    postgres.stop()
    try:
        late = Overrides(database, time.time)
        assert late.covering([PUPIL], b"h.example", b"http://h.example/", [], time.time()) is None
        assert late.known_tokens() is None
        now = count()
        wait_until(lambda: late.covering([PUPIL], b"h", b"http://h/", [], next(now)) or late.fault)
    finally:
        postgres.start()
    wait_until(lambda: late.known_tokens())
    wait_until(lambda: late.covering([PUPIL], b"h.example", b"http://h.example/", [], time.time()))
    late.close()


@GROUP
def test_a_listener_that_was_cut_off_hears_again(postgres: Server, database: PostgresAddress) -> None:
    name = database.url.rpartition("/")[2]

    def number(connection: SqlConnection) -> int:
        return int(connection.execute("SELECT count(*) FROM grants").fetchone()[0])

    listener = ChangeListener(database, "unblock")
    found = listener.follow(number, -1)
    listener.start()
    wait_until(lambda: found.answer == 0)
    postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    with Overrides(database, time.time) as own:
        own.grant("host", "h.example", 60, how="x", by="x")
    wait_until(lambda: found.answer == 1)
    listener.close()


def test_nobody_waits_for_a_reading_on_a_dead_connection_and_it_replaces_nothing_newer() -> None:
    listener = ChangeListener(parse_postgres_address("postgresql://jo@127.0.0.1:1/x"), "unblock")
    has_begun, goes_on = Event(), Event()

    def ask(connection: object) -> str:
        if connection == "dead":
            has_begun.set()
            assert goes_on.wait(60)
        return f"by {connection}"

    found = listener.follow(ask, "nothing")
    with ThreadPoolExecutor(2) as threads:
        dead = threads.submit(listener.read, cast(SqlConnection, "dead"))
        assert has_begun.wait(60)
        try:
            threads.submit(listener.read, cast(SqlConnection, "alive")).result(10)
            assert found.answer == "by alive"
        finally:
            goes_on.set()
        dead.result(60)
    assert found.answer == "by alive"


# -- the schema --------------------------------------------------------------------------------------------------------


@GROUP
def test_a_schema_of_another_version_is_left_alone(postgres: Server, database: PostgresAddress) -> None:
    name = database.url.rpartition("/")[2]
    assert migrate(database) == (1, 1)
    for change, why in (
        (
            "UPDATE hushlist.versions SET number = 2",
            "version 2, and this Hushlist knows 1 at most: use a newer",
        ),
        ("DELETE FROM hushlist.versions", "it has no tables of Hushlist: 'hushlist store migrate' makes them"),
        ("DROP SCHEMA hushlist CASCADE", "it has no tables of Hushlist: 'hushlist store migrate' makes them"),
    ):
        postgres.execute(change, name=name)
        with pytest.raises(StoreError, match=why), Overrides(database, time.time) as overrides:
            overrides.active(0.0)
        if "2" in change:
            with pytest.raises(StoreError, match=why):
                migrate(database)
    assert migrate(database) == (0, 1)


@GROUP
def test_an_older_schema_is_to_be_migrated(database: PostgresAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCHEMA_VERSION", 2)
    with pytest.raises(StoreError, match="version 1, and this Hushlist needs 2: 'hushlist store migrate' changes it"):
        Overrides(database, time.time).active(0.0)


@GROUP
def test_migrations_at_once_are_one(postgres: Server) -> None:
    name = "migrated_at_once"
    postgres.execute(f"CREATE DATABASE {name}")
    with ThreadPoolExecutor(4) as threads:
        results = [*threads.map(lambda _: migrate(postgres.address(name)), range(4))]
    assert sorted(results) == [(0, 1), (1, 1), (1, 1), (1, 1)]


@GROUP
def test_the_last_file_is_the_version_that_is_known(postgres: Server) -> None:
    folder = Path(module.__file__).parent / "migrations"
    assert sorted(path.name for path in folder.iterdir()) == [f"{n}.sql" for n in range(1, module.SCHEMA_VERSION + 1)]


@GROUP
@pytest.mark.parametrize("kind", [UNBLOCKS, ADMINISTRATION, FLEET])
def test_tables_have_the_columns_of_sqlite_s(
    tmp_path: Path, postgres: Server, database: PostgresAddress, kind: DatabaseKind
) -> None:
    with closing(SqliteStore(tmp_path / "x.sqlite", kind)) as store, store.reading() as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        in_sqlite = {
            table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            for table in tables
            if not table.startswith("sqlite_")
        }
    query = (
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = '{}' AND table_name = '{}' ORDER BY ordinal_position"
    )
    name = database.url.rpartition("/")[2]
    for table, columns in in_sqlite.items():
        schema = "hushlist_admin" if kind is ADMINISTRATION and table in ("tries", "locks") else "hushlist"
        found = [row[0] for row in postgres.execute(query.format(schema, table), name=name)]
        assert [column for column in found if column != "rowid"] == columns


# -- a user of the proxies' own ----------------------------------------------------------------------------------------

_GRANTS = re.findall(r"^GRANT .*;$", (CHECKOUT / "rules" / "fleet.md").read_text(encoding="utf-8"), re.MULTILINE)


@GROUP
def test_the_documented_rights_are_enough_for_all_that_proxies_do(postgres: Server, tmp_path: Path) -> None:
    """Of a user that owns no table; another one has migrated."""
    with postgres.database() as name:
        owner = postgres.address(name)
        login = f"postgresql://proxies:secret@{postgres.at}:{postgres.port}/{name}"
        place = parse_postgres_address(login)
        assert len(_GRANTS) == 3
        postgres.execute("CREATE ROLE proxies LOGIN PASSWORD 'secret'")
        try:
            postgres.execute(*_GRANTS, name=name)
            _use_all(place, tmp_path)
            with closing(PostgresStore(owner, "unblock")) as opened, opened.asking() as connection:
                (number,) = connection.execute("SELECT count(*) FROM decisions").fetchone()
                assert number == 1
        finally:
            postgres.execute("DROP OWNED BY proxies CASCADE", name=name)
            postgres.execute("DROP ROLE proxies")


def _use_all(place: PostgresAddress, folder: Path) -> None:
    """Write to each table, as proxies do."""
    with Overrides(place, time.time) as overrides:
        code = overrides.make_code("host", 60.0)
        wanted = {"host": "games.example"}
        overrides.redeem(code, PUPIL, wanted)
        for _ in range(20):  # until the client is locked
            with suppress(CodeError, LockedError):
                overrides.redeem("wrong", PUPIL, wanted)
        assert overrides.attempt("192.0.2.8", "passphrase", lambda: True, wanted)
        overrides.end_block(overrides.block("host", "bad.example", None, by="x").id, by="x")
        overrides.revoke(overrides.active(time.time())[0].id, by="x")
        tokens = overrides.tokens()
        tokens.check(tokens.make("a", "b", "c"), "a", "b", "c")
        asked = AccessRequest(0, PUPIL, PUPIL, "pupils", "games.example", "http://games.example/", None, "x", 0.0, 0.0)
        overrides.approve(overrides.ask(asked).id, "host", 60.0, by="x")
        overrides.begin_week("2026-11-23")
    minutes = UseMinutes(place, time.time)
    minutes.note(PUPIL, "hrn://c.example/games", int(time.time() // 60))
    minutes.exchange()
    minutes.shorten(minutes.extend("hrn://c.example/games", 5, by="x"), by="x")
    minutes.close()
    with AdminStore(place, time.time) as admins:
        token = admins.make_bearer("a program", Role.VIEW, 60.0, by="x")
        account = admins.bearer(token, PUPIL)
        assert account is not None
        admins.record(account, "test", {}, begun=admins.begin(account, "test", {}))
        assert not admins.try_sign_in("eve", PUPIL, "", lambda: False, is_near=False)
        admins.know_device("eve", PUPIL, "")
        assert admins.revoke_bearer("a program")
    with closing(ProxyRecords(place, time.time)) as proxies:
        proxies.beat(ProxyRecord("one:8080", time.time()))
        assert [one.name for one in proxies.all()] == ["one:8080"]
        proxies.leave("one:8080", time.time())
    journal = LogWriter(LogSettings(to=place, what=LoggedRequests.ALL, folder=folder), state=folder)
    journal.write(record(moment=time.time()))
    assert journal.flush(60), journal.fault
    assert journal.close(60)
