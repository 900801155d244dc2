"""The writer: it never delays, never raises, loses nothing silently, and what it writes is private and bounded."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

import hushlist
from hushlist.core.system.files import locked
from hushlist.extensions.databases.kept_files import set_aside
from hushlist.extensions.journal import log_files as folder_module
from hushlist.extensions.journal import log_writer as module
from hushlist.extensions.journal.log_database import Database, find_records
from hushlist.extensions.journal.log_entry import LogEntry, entry_of_fields, fields_of, line_of
from hushlist.extensions.journal.log_files import CURRENT, DATABASE, LOCK, LineFiles, older_files, read_newest_first
from hushlist.extensions.journal.log_identifiers import keep_key
from hushlist.extensions.journal.log_keys import LoggedClients, LoggedQueries, LoggedRequests, LogSettings
from hushlist.extensions.journal.log_record import Privacy
from hushlist.extensions.journal.log_writer import LogWriter
from support.waiting import wait_until
from unit.extensions.journal.samples import EVE, fill, lines_of, record

DAY = 24 * 60 * 60


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again at once."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(module, "GATHER", 0.005)
    monkeypatch.setattr(folder_module, "PATIENCE", 0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def journal(folder: Path) -> Iterator[LogWriter]:
    journal = LogWriter(LogSettings(), state=folder, clock=lambda: EVE)
    yield journal
    journal.close()


def rows_of(folder: Path) -> list[str]:
    """References in SQLite."""
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        return [row for (row,) in connection.execute("SELECT reference FROM decisions ORDER BY number")]


def references_of(folder: Path) -> list[object]:
    return [fields["reference"] for fields in lines_of(folder)]


def number_of_requests(folder: Path) -> int:
    """How many SQLite has counted."""
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        ((number,),) = connection.execute("SELECT sum(number) FROM counts")
    return int(number)


# -- what is written ---------------------------------------------------------------------------------------------------


def test_requests_are_counted_less_often_than_records_are_written(
    folder: Path, journal: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COUNT", 0.2)
    fill(journal, record())
    journal.write(record(number=1))
    wait_until(lambda: number_of_requests(folder) == 2)  # no other record comes
    monkeypatch.setattr(module, "COUNT", 3600.0)
    fill(journal, record(number=2))
    journal.write(record(number=3))
    wait_until(lambda: len(rows_of(folder)) == 4)
    assert number_of_requests(folder) == 3
    assert journal.close()
    assert number_of_requests(folder) == 4


def test_records_are_lines_and_rows(folder: Path, journal: LogWriter) -> None:
    records = [record(number=number) for number in range(600)]
    fill(journal, *records)
    assert lines_of(folder) == [fields_of(one, Privacy()) for one in records]
    assert rows_of(folder) == [one.reference for one in records]


def test_folder_and_files_are_private(folder: Path, journal: LogWriter) -> None:
    before = os.umask(0)
    try:
        fill(journal, record())
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert {CURRENT, DATABASE} <= set(modes)
    assert set(modes.values()) == {0o600}


def test_the_settings_say_what_is_written(tmp_path: Path) -> None:
    settings = LogSettings(
        LoggedRequests.BLOCKED, LoggedQueries.DROP, LoggedClients.PSEUDONYM, tmp_path / "log", rows=0
    )
    journal = LogWriter(settings, state=tmp_path / "state")
    fill(journal, record("http://ads.example/?q"), record("http://tagged.example/"))
    assert journal.close()
    (fields,) = lines_of(tmp_path / "log")
    assert fields["url"] == "http://ads.example/"
    assert str(fields["client"]).startswith("client-")
    assert len(keep_key(tmp_path / "state")) == 32
    assert not (tmp_path / "log" / DATABASE).exists()


def test_without_rows_an_old_database_is_removed(folder: Path, journal: LogWriter) -> None:
    fill(journal, record())
    journal.close()
    after = LogWriter(LogSettings(rows=0), state=folder)
    fill(after, record())
    after.close()
    assert not list(folder.glob(f"{DATABASE}*"))


def test_where_no_key_can_be_kept_no_address_is_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "state").write_text("a file in the folder's place")
    journal = LogWriter(LogSettings(clients=LoggedClients.PSEUDONYM, folder=tmp_path / "log"), state=tmp_path / "state")
    fill(journal, record(), record())
    journal.close()
    (name,) = {fields["client"] for fields in lines_of(tmp_path / "log")}
    assert str(name).startswith("client-")
    assert "pseudonyms hold until the next start only" in caplog.text


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_full_disk_is_waited_out(
    folder: Path, journal: LogWriter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(journal, record())
    write = os.write

    def fail(descriptor: int, octets: bytes) -> int:
        if threading.current_thread().name == "hushlist: log":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, octets)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        journal.write(record(number=1))
        assert not journal.flush(1)
        assert rows_of(folder)[-1] == record(number=1).reference
        assert caplog.text.count("cannot be written") == 1
        assert "No space left on device" in (journal.fault or "")
        assert journal.waiting == 1
    assert journal.flush(30)
    assert (journal.fault, journal.waiting) == (None, 0)
    assert references_of(folder) == [record(number=number).reference for number in (0, 1)]
    assert caplog.text.count("can be written again") == 1


def test_half_a_write_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = LineFiles(tmp_path, LogSettings())
    files.append([['{"a": 1}\n']], EVE)
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, octets: write(descriptor, octets[:5]))
        with pytest.raises(OSError, match="No space left"):
            files.append([['{"b": 2}\n']], EVE)
    files.append([['{"c": 3}\n']], EVE)
    assert lines_of(tmp_path) == [{"a": 1}, {"c": 3}]


def test_a_line_that_broke_off_does_not_spoil_the_next(tmp_path: Path) -> None:
    (tmp_path / CURRENT).write_bytes(b'{"a": 1}\n{"half')
    LineFiles(tmp_path, LogSettings()).append([['{"b": 2}\n']], EVE)
    assert (tmp_path / CURRENT).read_bytes() == b'{"a": 1}\n{"half\n{"b": 2}\n'


@pytest.mark.parametrize("what", ["vanishes", "is replaced by a file"])
def test_a_folder_that_is_gone_is_made_again(folder: Path, journal: LogWriter, what: str) -> None:
    fill(journal, record())
    shutil.rmtree(folder)
    if what != "vanishes":
        folder.write_text("")
        journal.write(record(number=1))
        assert not journal.flush(0.1)
        folder.unlink()
        assert journal.flush(30)
    else:
        fill(journal, record(number=1))
    assert references_of(folder) == rows_of(folder) == [record(number=1).reference]


@pytest.mark.slow
def test_a_locked_database_keeps_nobody_waiting(
    folder: Path, journal: LogWriter, caplog: pytest.LogCaptureFixture
) -> None:
    fill(journal, record())
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        taken = []
        for number in range(1, 4):
            start = time.perf_counter()
            journal.write(record(number=number))
            taken.append(time.perf_counter() - start)
        assert min(taken) < 0.1  # the fastest counts: others share the machine
        expected = [record(number=number).reference for number in range(4)]
        while references_of(folder) != expected or "database is locked" not in caplog.text:
            assert not journal.flush(0.1)
        other.execute("ROLLBACK")
    assert journal.flush(30)
    assert rows_of(folder) == references_of(folder)
    assert caplog.text.count("database is locked") == 1


def test_a_damaged_database_is_put_aside(folder: Path, journal: LogWriter) -> None:
    folder.mkdir()
    (folder / "damaged").write_bytes(b"no database" * 1000)
    (folder / "damaged").rename(folder / DATABASE)  # at once: the thread would take an empty file for a new database
    journal.write(record())
    assert journal.flush(30)
    assert rows_of(folder) == [record().reference]
    (aside,) = set_aside([folder])
    assert aside.read_bytes().startswith(b"no database")


@pytest.mark.slow
def test_a_database_of_another_version_is_left_alone(folder: Path, journal: LogWriter) -> None:
    folder.mkdir()
    with closing(sqlite3.connect(folder / DATABASE)) as other:
        other.execute("PRAGMA user_version = 99")
    journal.write(record())
    assert not journal.flush(1)
    assert references_of(folder) == [record().reference]
    assert find_records(folder, record().reference)[0]["action"] == "block"


def test_a_lock_that_somebody_keeps_is_waited_out(folder: Path, journal: LogWriter) -> None:
    fill(journal, record())
    with locked(folder / LOCK, 1):
        journal.write(record(number=1))
        assert not journal.flush(0.2)
    assert journal.flush(30)
    assert len(lines_of(folder)) == 2


def test_what_does_not_fit_into_memory_is_counted_in_the_log(
    folder: Path, journal: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 10)
    fill(journal, record())
    with locked(folder / LOCK, 1):
        for number in range(1, 200):
            journal.write(record(number=number))
        journal.flush(0.2)
    assert journal.flush(30)
    fields = lines_of(folder)
    lost = sum(int(str(one["lost"])) for one in fields if one["action"] == "lost")
    assert lost > 0
    assert lost + sum(one["action"] == "block" for one in fields) == 200
    assert f"{fields[-1]['lost']} records could not be written" == fields[-1]["reason"]


def test_long_urls_fill_the_memory_sooner(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OCTETS", 100_000)
    monkeypatch.setattr(module, "GATHER", 10)  # until flush hurries it
    journal = LogWriter(LogSettings(), state=folder)
    for number in range(10):
        journal.write(record("http://ads.example/" + "x" * 60_000, number))
    assert journal.flush(30)
    assert journal.close()
    assert (lines_of(folder)[-1]["action"], lines_of(folder)[-1]["lost"]) == ("lost", 8)


def test_a_record_that_cannot_be_written_is_counted(folder: Path, journal: LogWriter) -> None:
    fill(journal, record()._replace(moment=float("inf")), record())
    assert [fields["action"] for fields in lines_of(folder)] == ["block", "lost"]


# -- the end -----------------------------------------------------------------------------------------------------------


def test_close_writes_what_waits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER", 5)
    journal = LogWriter(LogSettings(), state=folder)
    journal.write(record())
    assert journal.close()
    assert references_of(folder) == rows_of(folder) == [record().reference]
    journal.write(record())  # too late, and no error


def test_close_takes_no_longer_than_it_may_and_says_what_is_lost(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = LogWriter(LogSettings(), state=folder)
    fill(journal, record())
    with locked(folder / LOCK, 1):
        journal.write(record())
        start = time.perf_counter()
        assert not journal.close(0.1)
    assert time.perf_counter() - start < 1.9  # without a word, it is 2 s
    assert "the log could not be written until the end: 1 record lost" in caplog.text


# -- rotation ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_full_file_is_set_aside_and_the_oldest_are_removed(tmp_path: Path, is_packed: bool) -> None:
    files = LineFiles(tmp_path, LogSettings(size=100, files=3, days=3650, gzip=is_packed))
    for number in range(20):
        files.append([[f'{{"number": {number:<38}}}\n']], EVE + number)
    older = older_files(tmp_path)
    assert [path.suffix for path in older] == [".gz" if is_packed else ".jsonl"] * 3
    texts = [gzip.decompress(path.read_bytes()) if is_packed else path.read_bytes() for path in older]
    numbers = [json.loads(line)["number"] for text in texts for line in text.splitlines()]
    assert numbers == [*range(20 - len(numbers) - len(lines_of(tmp_path)), 20 - len(lines_of(tmp_path)))]
    assert {stat.S_IMODE(path.stat().st_mode) for path in older} == {0o600}


def test_a_file_is_set_aside_by_age_and_removed_in_time(tmp_path: Path) -> None:
    files = LineFiles(tmp_path, LogSettings(files=14, days=30))
    files.append([entry_of_fields(fields_of(record(), Privacy()))], EVE)
    files.append([entry_of_fields(fields_of(record(), Privacy()))], EVE + 2 * DAY)
    os.utime(tmp_path / CURRENT, (EVE + 2 * DAY,) * 2)
    assert len(lines_of(tmp_path)) == 2
    files.append([entry_of_fields(fields_of(record(moment=EVE + 4 * DAY), Privacy()))], EVE + 4 * DAY)
    (aside,) = older_files(tmp_path)
    assert len(aside.read_bytes().splitlines()) == 2
    os.utime(tmp_path / CURRENT, (EVE + 4 * DAY,) * 2)
    files.tidy(EVE + 31 * DAY)
    assert (aside in older_files(tmp_path), len(older_files(tmp_path))) == (True, 2)
    files.tidy(EVE + 33 * DAY)
    assert (aside in older_files(tmp_path), len(older_files(tmp_path))) == (False, 1)
    files.tidy(EVE + 35 * DAY)
    assert older_files(tmp_path) == []
    assert not (tmp_path / CURRENT).exists()


def test_a_file_that_cannot_be_removed_keeps_no_record_from_being_written(tmp_path: Path) -> None:
    (tmp_path / "decisions-20200101T000000-000.jsonl").mkdir()
    files = LineFiles(tmp_path, LogSettings(size=64 << 10))
    for _ in range(2):
        files.append([['{"a": "' + "a" * (40 << 10) + '"}\n']], EVE)
    assert (tmp_path / CURRENT).stat().st_size < 64 << 10
    with pytest.raises(OSError, match="decisions-20200101T000000-000"):
        files.tidy(EVE + 40 * DAY)


def test_rows_are_removed_by_number_and_age(tmp_path: Path) -> None:
    database = Database(tmp_path, LogSettings(rows=10, days=30))
    entries = [fields_of(record(number=number), Privacy()) for number in range(30)]
    database.append([entry_of_fields(fields) for fields in entries], EVE)
    database.tidy(EVE)
    assert rows_of(tmp_path) == [record(number=number).reference for number in range(20, 30)]
    database.tidy(EVE + 30 * DAY + 25)
    assert rows_of(tmp_path) == [record(number=number).reference for number in range(25, 30)]
    database.close()


def test_a_name_that_is_there_is_never_replaced(tmp_path: Path) -> None:
    files = LineFiles(tmp_path, LogSettings(size=10, days=3650))
    for _ in range(5):
        files.append([['{"a": 12345}\n']], EVE)
    assert len(older_files(tmp_path)) == 4


# -- several processes -------------------------------------------------------------------------------------------------

_WRITER = """
import sys, time
from pathlib import Path
from hushlist.extensions.journal.log_writer import LogWriter
from hushlist.extensions.journal.log_keys import LogSettings
from unit.extensions.journal.samples import record
journal = LogWriter(LogSettings(size=65536, files=1000, gzip=True), state=Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(600):
    journal.write(record("http://ads.example/" + "x" * (number % 400), int(sys.argv[2]) + number, moment=time.time()))
    if number % 50 == 0:
        time.sleep(0.01)
sys.exit(not journal.close(30))
"""


@pytest.mark.slow
def test_processes_share_the_files_without_losing_or_tearing_a_line(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(Path(hushlist.__file__).parents[1]), str(Path(__file__).parents[3])])
    environment = {**os.environ, "PYTHONPATH": paths}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path), str(start)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="ascii",
        )
        for start in (0, 10_000)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.communicate("go\n", timeout=60)
    assert [writer.returncode for writer in writers] == [0, 0]
    older = older_files(tmp_path)
    assert len(older) > 3
    texts = [*(gzip.decompress(path.read_bytes()) for path in older), (tmp_path / CURRENT).read_bytes()]
    lines = [json.loads(line) for text in texts for line in text.split(b"\n")[:-1]]
    assert all(text.endswith(b"\n") for text in texts)
    wanted = {record(number=start + number).reference for start in (0, 10_000) for number in range(600)}
    assert {line["reference"] for line in lines} == set(rows_of(tmp_path)) == wanted
    assert len(lines) == len(wanted)
    assert all(datetime.fromisoformat(line["time"]) for line in lines)


# -- one outlet --------------------------------------------------------------------------------------------------------


class Sink:
    """Takes records, or fails."""

    name = "sink"

    def __init__(self) -> None:
        self.is_broken = False
        self.tries = 0
        self.batches: list[list[bytes]] = []
        self.tidied: list[float] = []
        #: tidyings after which more is left
        self.steps = 0

    def append(self, entries: list[LogEntry], _moment: float) -> None:
        self.tries += 1
        if self.is_broken:
            raise OSError("broken by the test")
        self.batches.append([line_of(entry) for entry in entries])

    def tidy(self, moment: float) -> bool:
        self.tidied.append(moment)
        return len(self.tidied) > self.steps


def outlet_of(sink: Sink) -> module._Outlet:
    return module._Outlet(sink, lambda number: [f"lost: {number}"])  # type: ignore[arg-type]


def test_what_failed_is_tried_again_after_a_pause_that_doubles_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 1.0)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 5.0)
    sink = Sink()
    outlet = outlet_of(sink)
    outlet.take([["1"]], 0)
    sink.is_broken, now = True, 100.0
    for pause in (1.0, 2.0, 4.0, 5.0, 5.0):
        outlet.push(now, EVE, at_once=False)
        tries = sink.tries
        assert outlet.due_in(now) == pause
        outlet.push(now + pause - 0.25, EVE, at_once=False)
        assert sink.tries == tries
        now += pause
    assert outlet.fault == "sink: broken by the test"
    assert caplog.text.count("cannot be written, and is tried again") == 1
    sink.is_broken = False
    outlet.push(now - 0.25, EVE, at_once=True)  # the last time, before the end
    assert (sink.batches, outlet.fault, outlet.is_done) == ([[b"1"]], None, True)
    assert caplog.text.count("can be written again") == 1
    outlet.push(now, EVE, at_once=False)
    assert caplog.text.count("can be written again") == 1


def test_what_takes_several_steps_goes_on_after_the_records_that_wait() -> None:
    sink = Sink()
    sink.steps = 2
    outlet = outlet_of(sink)
    for now in (0.0, 1.0, 2.0, 3.0):
        assert outlet.due_in(now) == (3599.0 if now == 3.0 else 0.0)
        outlet.push(now, EVE + now, at_once=False)
    assert sink.tidied == [EVE, EVE + 1, EVE + 2]


def test_old_files_are_looked_for_once_an_hour() -> None:
    sink = Sink()
    outlet = outlet_of(sink)
    for now in (0.0, 1.0, 3599.0, 3600.0, 3601.0, 7200.0):
        outlet.push(now, EVE + now, at_once=False)
    assert sink.tidied == [EVE, EVE + 3600, EVE + 7200]
    assert outlet.due_in(7201.0) == 3599


def test_records_are_written_in_batches_and_what_was_lost_is_told_in_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 600)
    sink = Sink()
    outlet = outlet_of(sink)
    outlet.take([[str(number)] for number in range(603)], 2)
    assert (len(outlet), outlet.is_done) == (600, False)
    outlet.push(0.0, EVE, at_once=False)
    assert [len(batch) for batch in sink.batches] == [256, 256, 89]
    assert sink.batches[-1][-1] == b"lost: 5"
    assert (len(outlet), outlet.is_done) == (0, True)


def test_records_wait_up_to_a_number_of_octets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OCTETS", 10)
    sink = Sink()
    outlet = outlet_of(sink)
    for _ in range(2):  # written octets make room
        outlet.take([["12345"]] * 3, 0)
        assert len(outlet) == 2
        outlet.push(0.0, EVE, at_once=False)
    assert [len(batch) for batch in sink.batches] == [3, 3]


# -- compression -------------------------------------------------------------------------------------------------------


def test_what_cannot_be_compressed_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "broken by the test")

    files = LineFiles(tmp_path, LogSettings(size=10, files=9, days=3650, gzip=True))
    monkeypatch.setattr(shutil, "copyfileobj", fail)
    for number in range(2):
        files.append([[f'{{"reference": {number}}}\n']], EVE)
    assert [path.suffix for path in older_files(tmp_path)] == [".jsonl"]
    assert [*tmp_path.glob("*.part")] == []


def test_a_file_that_is_compressed_while_others_are_read_is_read(tmp_path: Path) -> None:
    files = LineFiles(tmp_path, LogSettings(size=10, files=9, days=3650))
    for number in range(2):
        files.append([[f'{{"reference": {number}}}\n']], EVE)
    read = read_newest_first(tmp_path)
    assert next(read) == [b'{"reference": 1}']
    (older,) = older_files(tmp_path)
    older.with_name(f"{older.name}.gz").write_bytes(gzip.compress(older.read_bytes()))
    older.unlink()
    assert [*read] == [[b'{"reference": 0}']]


def test_what_a_process_left_half_compressed_is_removed(tmp_path: Path) -> None:
    (tmp_path / "decisions-20261224T000000-000.jsonl.part").touch()
    (tmp_path / "decisions-20261224T000000-001.jsonl").touch()
    LineFiles(tmp_path, LogSettings()).tidy(0)
    assert [path.name for path in tmp_path.glob("decisions-*")] == ["decisions-20261224T000000-001.jsonl"]


# -- the end -----------------------------------------------------------------------------------------------------------


def test_an_end_just_as_the_thread_wakes_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[threading.Event]()

    class Closing(threading.Event):
        """All is set just after somebody was told that this is not."""

        def is_set(self) -> bool:
            before = super().is_set()
            for event in made:
                event.set()
            return before

    def make() -> threading.Event:
        made.append(Closing() if len(made) == 2 else Event())
        return made[-1]

    Event = threading.Event  # noqa: N806
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Event", make)
        journal = LogWriter(LogSettings(), state=tmp_path, clock=lambda: EVE)
    journal._thread.join(10)
    assert not journal._thread.is_alive()
