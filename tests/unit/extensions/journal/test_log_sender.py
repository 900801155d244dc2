"""The log in PostgreSQL: it answers as SQLite does; what waits arrives once, whatever happens to either side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hushlist
from hushlist.extensions.databases.postgres_address import PostgresAddress, parse_postgres_address
from hushlist.extensions.journal import log_sender, log_writer
from hushlist.extensions.journal.log_database import (
    COUNTED,
    LogFilters,
    counts_over_time,
    find_records,
    follow,
    has_log,
    newest_records,
    sampled_records,
    top_values,
)
from hushlist.extensions.journal.log_entry import entry_of_fields
from hushlist.extensions.journal.log_keys import LoggedRequests, LogSettings
from hushlist.extensions.journal.log_record import LogFields, to_line
from hushlist.extensions.journal.log_sender import SPOOL, DatabaseSender, Spool
from hushlist.extensions.journal.log_writer import LogWriter
from postgres import GROUP, Server
from support.clock import Clock
from support.waiting import wait_until
from unit.extensions.journal.samples import EVE, record
from unit.extensions.journal.test_log_database import _FILTERS, _RECORDS, keep

pytestmark = GROUP
#: a port at which nothing listens for long
AWAY = "postgresql://127.0.0.1:1/none"


def records(number: int, day: str = "2026-12-24") -> list[LogFields]:
    return [
        {"reference": f"{at:010}", "time": f"{day}T00:00:00.{at % 1000:03}Z", "action": "block", "list": "ads"}
        for at in range(number)
    ]


def sender(address: PostgresAddress, folder: Path, now: float = EVE, **more: int) -> DatabaseSender:
    return DatabaseSender(address, folder, LogSettings(to=address, **more), Clock(now))  # type: ignore[arg-type]


def send(address: PostgresAddress, folder: Path, found: list[LogFields], now: float = EVE) -> None:
    """Send records, and wait until the database has them."""
    own = sender(address, folder, now)
    if found:
        own.spool.append([entry_of_fields(fields) for fields in found], EVE)
    wait_until(lambda: own.is_done)
    own.close(60)


def references(address: PostgresAddress) -> list[object]:
    return [fields["reference"] for fields in newest_records(address, LogFilters(), 1_000_000)]


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_RECORDS, min_size=1, max_size=15), _FILTERS, st.integers(1, 6))
@pytest.mark.thorough
def test_postgresql_and_sqlite_answer_alike(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: Server,
    database: PostgresAddress,
    records: list[LogFields],
    filters: LogFilters,
    number: int,
) -> None:
    folder = tmp_path_factory.mktemp("log")
    keep(folder, records)
    postgres.execute("TRUNCATE hushlist.decisions RESTART IDENTITY", name=database.url.rpartition("/")[2])
    send(database, folder, records)
    for place in (folder, database):
        assert has_log(place)
    answers = [
        [
            newest_records(place, filters, number),
            *(top_values(place, by, filters, number) for by in COUNTED),
            counts_over_time(place, "2026-12-02"),
            find_records(place, str(records[0]["reference"])),
            sampled_records(place, "2026-12-02", 1000),
        ]
        for place in (folder, database)
    ]
    assert answers[0] == answers[1]


def test_what_was_written_while_the_database_was_away_arrives_once_and_in_order(
    tmp_path: Path, postgres: Server, database: PostgresAddress
) -> None:
    own = sender(database, tmp_path)
    found = records(2500)
    try:
        postgres.stop()
        for start in range(0, 2500, 100):
            own.spool.append([entry_of_fields(fields) for fields in found[start : start + 100]], EVE)
        wait_until(lambda: own.fault)
        assert str(database) in (own.fault or "")
        assert "s3cr" not in (own.fault or "")
    finally:
        postgres.start()
    wait_until(lambda: own.is_done)
    assert references(database) == [fields["reference"] for fields in found]
    assert own.fault is None
    assert [*(tmp_path / SPOOL).iterdir()] == []
    own.close(60)


_KILLED = """
import os, sys
from pathlib import Path
from hushlist.extensions.journal.log_entry import entry_of_fields
from hushlist.extensions.journal.log_sender import DatabaseSender
from hushlist.extensions.journal.log_keys import LogSettings
from hushlist.extensions.databases.postgres_address import parse_postgres_address
address = parse_postgres_address(sys.argv[1])
own = DatabaseSender(address, Path(sys.argv[2]), LogSettings(to=address), lambda: 1_798_151_400.0)
for number in range(100):
    fields = {"reference": f"{number:010}", "time": "2026-12-24T00:00:00.000Z", "action": "block"}
    own.spool.append([entry_of_fields(fields)], 1_798_151_400.0)
os._exit(9)
"""


def test_what_a_killed_process_left_is_sent_by_the_next_and_nothing_twice(
    tmp_path: Path, database: PostgresAddress
) -> None:
    """It is killed at some moment between the first record and the last that is sent."""
    environment = {**os.environ, "PYTHONPATH": str(Path(hushlist.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", _KILLED, database.url, tmp_path], env=environment, check=False)
    assert done.returncode == 9
    own = sender(database, tmp_path)
    wait_until(lambda: len(references(database)) >= 100)
    own.close(60)
    assert sorted(map(str, references(database))) == [f"{number:010}" for number in range(100)]
    assert [*(tmp_path / SPOOL).iterdir()] == []


def test_what_is_sent_twice_is_there_once(tmp_path: Path, database: PostgresAddress) -> None:
    """As after an answer that was lost: the database has it, and the sender does not know."""
    (tmp_path / SPOOL).mkdir()
    lines = b"".join(b"%032x %s" % (at, to_line(fields)) for at, fields in enumerate(records(10)))
    for name in ("1.spool", "2.spool"):
        odd = b'%032x {"time": "2026-W48-2"}\n%032x []\n' % (97, 98)  # days that no partition has
        (tmp_path / SPOOL / name).write_bytes(odd + lines + b"half a line")
    own = sender(database, tmp_path)
    wait_until(lambda: not [*(tmp_path / SPOOL).iterdir()], 20)  # at once, and not when it looks the next time
    own.close(60)
    assert len(references(database)) == 10


@pytest.mark.parametrize("has_sent", [False, True], ids=["locked", "sent and removed"])
def test_a_file_that_another_process_takes_before_it_is_locked_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_sent: bool
) -> None:
    """Otherwise what is appended is lost, and what comes later is never sent."""
    options = LogSettings(to=parse_postgres_address(AWAY))
    own, other = Spool(tmp_path, options, int), Spool(tmp_path, options, int)

    def open_slowly(path: Path, flags: int, mode: int) -> int:
        monkeypatch.undo()
        descriptor = os.open(path, flags, mode)
        (taken,) = other.sealed(everything=True)
        if has_sent:
            other.remove(taken)
        return descriptor

    monkeypatch.setattr(os, "open", open_slowly)
    for fields in records(2):
        own.append([entry_of_fields(fields)], EVE)
    (path,) = own.sealed(everything=False)
    assert path.read_bytes().count(b"reference") == 2
    assert path not in other.sealed(everything=True)
    own.remove(path)


def test_a_file_of_another_user_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = LogSettings(to=parse_postgres_address(AWAY))
    own, other = Spool(tmp_path, options, int), Spool(tmp_path, options, int)
    for spool in (other, own):
        spool.append([["{}\n"]], EVE)
    monkeypatch.setattr(log_sender, "lock_file", _of_another_user)
    assert len(own.sealed(everything=True)) == 1


def _of_another_user(path: Path, _: int) -> int:
    raise PermissionError(13, "Permission denied", str(path))


def test_a_file_that_somebody_removes_holds_up_no_other(
    tmp_path: Path, postgres: Server, database: PostgresAddress
) -> None:
    own = sender(database, tmp_path)
    first, *others = records(3)
    try:
        postgres.stop()
        own.spool.append([entry_of_fields(first)], EVE)
        wait_until(lambda: own.fault)
        (path,) = own.spool.sealed(everything=False)
        own.spool.append([entry_of_fields(others[0])], EVE)
        path.unlink()
    finally:
        postgres.start()
    own.spool.append([entry_of_fields(others[1])], EVE)
    wait_until(lambda: own.is_done)
    own.close(60)
    assert references(database) == [fields["reference"] for fields in others]


def test_the_spool_is_bounded_and_says_so(tmp_path: Path) -> None:
    own = sender(parse_postgres_address(AWAY), tmp_path, size=1 << 16, files=2)
    entries = [entry_of_fields(fields) for fields in records(100)]
    refused = False
    for _ in range(100):
        try:
            own.spool.append(entries, EVE)
        except OSError as error:
            refused = "131072 octets wait for the database already" in str(error)
    assert refused
    assert 100_000 < sum(path.stat().st_size for path in (tmp_path / SPOOL).iterdir()) <= 1 << 17
    own.close(60)
    assert [*(tmp_path / SPOOL).iterdir()]


def test_what_fits_neither_on_the_disk_nor_into_memory_is_counted_in_the_database(
    tmp_path: Path, postgres: Server, database: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "MOST_WAITING", 50)
    name = database.url.rpartition("/")[2]
    settings = LogSettings(to=database, what=LoggedRequests.ALL, size=1 << 16, files=1, folder=tmp_path)
    journal = LogWriter(settings, state=tmp_path, clock=Clock(EVE))
    try:
        postgres.execute(
            f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
        )
        for number in range(1000):
            journal.write(record(number=number))
            if number % 40 == 0:
                journal.flush(0.1)
        assert journal.waiting <= 2 * 50
        assert sum(path.stat().st_size for path in (tmp_path / SPOOL).iterdir()) <= 1 << 16
        assert "octets wait for the database already" in (journal.fault or "")
    finally:
        postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    assert journal.flush(60)
    assert journal.close(60)
    found = newest_records(database, LogFilters(), 10_000)
    lost = sum(int(str(one["lost"])) for one in found if one["action"] == "lost")
    written = [one["reference"] for one in found if one["action"] != "lost"]
    assert lost > 0
    assert (lost + len(written), len(set(written))) == (1000, len(written))


@pytest.mark.parametrize(("ahead", "oldest"), [(0, 30), (-5, 35), (4000, 30)])
def test_a_partition_is_a_day_and_old_days_are_dropped(
    tmp_path: Path, postgres: Server, database: PostgresAddress, ahead: int, oldest: int
) -> None:
    """By this machine's clock, or by the database's where this one is ahead."""
    name, now = database.url.rpartition("/")[2], datetime.now(UTC)
    partitions = "SELECT relname FROM pg_class WHERE relname ~ '^decisions_[0-9]{8}$' ORDER BY 1"
    days = [now - timedelta(days=days) for days in (oldest + 1, oldest, 0, -1)]
    for found in (*(records(3, f"{day:%Y-%m-%d}") for day in days), []):
        send(database, tmp_path, found, (now + timedelta(days=ahead)).timestamp())  # a process tidies after its start
    kept = [(f"decisions_{day:%Y%m%d}",) for day in days[1:]]
    wait_until(lambda: postgres.execute(partitions, name=name) == kept)
    assert len(references(database)) == 9


def test_following_loses_nothing(tmp_path: Path, database: PostgresAddress) -> None:
    send(database, tmp_path, records(3))
    follower = follow(database)
    assert next(follower) == []
    send(database, tmp_path, records(2, "2026-12-25"))
    assert [str(fields["time"])[:10] for fields in next(follower)] == ["2026-12-25"] * 2
    assert next(follower) == []


def test_a_log_that_cannot_be_asked_is_named(tmp_path: Path, database: PostgresAddress) -> None:
    assert not has_log(database)
    with pytest.raises(OSError, match=r"postgresql://127.0.0.1:1/none: .*refused"):
        newest_records(parse_postgres_address(AWAY), LogFilters(), 1)


def test_a_record_is_what_it_was(tmp_path: Path, database: PostgresAddress) -> None:
    found: LogFields = {"reference": "0", "time": "2026-12-24T00:00:00.000Z", "user": "a\0b\ud800", "action": "block"}
    send(database, tmp_path, [found])
    assert newest_records(database, LogFilters(), 1) == [json.loads(json.dumps(found))]
