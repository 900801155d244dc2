"""Questions: SQLite and the lines give the same answers; following loses nothing."""

from __future__ import annotations

import gc
import gzip
import sqlite3
import sys
from contextlib import closing
from io import BufferedReader
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushlist.core.url.hrn import parse_hrn
from hushlist.extensions.databases.kept_files import set_aside
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.journal import log_files
from hushlist.extensions.journal.log_database import (
    COUNTED,
    Database,
    LogFilters,
    counts_over_time,
    find_records,
    follow,
    has_log,
    named,
    newest_records,
    top_values,
)
from hushlist.extensions.journal.log_entry import entry_of_fields
from hushlist.extensions.journal.log_files import CURRENT, DATABASE, LineFiles
from hushlist.extensions.journal.log_keys import LogSettings
from hushlist.extensions.journal.log_record import LogFields, host_of_record, lost_record
from unit.extensions.journal.samples import EVE
from unit.rows import each_row

_NAMES = st.sampled_from(["a", "A", "b", "%", "_", "ab", "hrn://c.example/a"])
_HOSTS = ["h.example", "www.h.example", "xh.example", "[::1]", "%", "example", ""]
_URLS = st.sampled_from(
    [f"{scheme}://{host}{rest}" for scheme in ("http", "x") for host in _HOSTS for rest in ("/", ":81/x")]
)
_CATEGORIES = ["hrn://c.example", "hrn://c.example/a", "hrn://c.example/a/b", "hrn://c.example/ab", "hrn://d.example/a"]
_FILES = st.fixed_dictionaries(
    {}, optional={"name": _NAMES, "media_type": _NAMES, "kinds": st.lists(_NAMES, max_size=2)}
)
_TIMES = [f"2026-12-{day:02}T00:00:00.000Z" for day in range(1, 5)]
_RECORDS = st.fixed_dictionaries(
    {"reference": _NAMES, "time": st.sampled_from(_TIMES), "action": st.sampled_from(["block", "allow", "lost"])},
    optional={
        "client": _NAMES,
        "user": _NAMES | st.just("\ud800"),
        "category": st.sampled_from(_CATEGORIES),
        "list": _NAMES,
        "title": _NAMES,
        "rule": _NAMES,
        "url": _URLS | st.just("none"),
        "file": _FILES,
    },
)
#: what records have of files
_SEEN: list[object] = [
    {"name": "a.exe", "media_type": "image/png"},
    {"media_type": "image/png", "kinds": ["script", "program"]},
    {"size": 3},
]
_FILTERS = st.builds(
    LogFilters,
    st.lists(st.sampled_from(["block", "allow"]), max_size=2),
    st.lists(_NAMES, max_size=2),
    st.lists(_NAMES, max_size=2),
    st.none() | st.sampled_from(_CATEGORIES).map(parse_hrn),
    st.none() | _NAMES,
    st.none() | st.sampled_from(_HOSTS[:-1]),
    st.none() | st.sampled_from(_TIMES),
    st.none() | st.sampled_from(_TIMES),
    file=st.none() | st.just("") | _NAMES,
)


def keep(folder: Path, records: list[LogFields]) -> None:
    entries = [entry_of_fields(fields) for fields in records]
    LineFiles(folder, LogSettings(size=1000, files=1000, days=3650)).append(entries, EVE)
    database = Database(folder, LogSettings())
    database.append(entries, EVE)
    database.close()


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(_RECORDS, max_size=15), _FILTERS, st.integers(1, 6))
def test_sqlite_and_the_lines_answer_alike(
    tmp_path_factory: pytest.TempPathFactory, records: list[LogFields], filters: LogFilters, number: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    keep(folder, records)

    def answers() -> list[object]:
        return [newest_records(folder, filters, number), *(top_values(folder, by, filters, number) for by in COUNTED)]

    by_sqlite = answers()
    (folder / DATABASE).unlink()
    assert answers() == by_sqlite


@each_row(
    ("filters", "name", "values", "fit"),
    [
        (LogFilters(), "action", ["", None, "lost"], ["", None, "lost"]),
        (LogFilters(reference="ab"), "reference", ["ab", "a", "abc", "AB", None], ["ab"]),
        (LogFilters(["block"]), "action", ["block", "blocks", "BLOCK", None], ["block"]),
        (LogFilters(clients=["a", "\ud800"]), "client", ["a", "\ud800", "A", "ab", None], ["a", "\ud800"]),
        (LogFilters(users=["%"]), "user", ["%", "x", None], ["%"]),
        (LogFilters(category=parse_hrn("hrn://c.example/a")), "category", _CATEGORIES, _CATEGORIES[1:3]),
        (LogFilters(list_name="l"), "list", ["l", "list", None], ["l"]),
        (LogFilters(list_name="l"), "title", ["l", "list", None], ["l"]),
        (
            LogFilters(host="h.example"),
            "url",
            [f"http://{host}/" for host in _HOSTS],
            ["http://h.example/", "http://www.h.example/"],
        ),
        (LogFilters(host="h.example"), "url", ["http://.h.example:1/", "x"], ["http://.h.example:1/"]),
        (LogFilters(since=_TIMES[1]), "time", [*_TIMES, None], _TIMES[1:]),
        (LogFilters(until=_TIMES[1]), "time", [*_TIMES, None], _TIMES[:1]),
        (LogFilters(file="A.ex"), "file", [*_SEEN, None], _SEEN[:1]),
        (LogFilters(file="Image/"), "file", [*_SEEN, None], _SEEN[:2]),
        (LogFilters(file="script pro"), "file", [*_SEEN, None], _SEEN[1:2]),
        (LogFilters(file="%"), "file", [*_SEEN, None], []),
        (LogFilters(file=""), "file", [*_SEEN, "no file", None], _SEEN),
        (LogFilters(["block"], until="3"), "time", ["1", "3"], []),
    ],
)
def test_what_fits_a_filter(filters: LogFilters, name: str, values: list[object], fit: list[object]) -> None:
    records: list[LogFields] = [{} if value is None else {name: value} for value in values]
    assert [fields.get(name) for fields, _ in filters.fitting(records)] == fit


def test_files_are_counted_by_what_they_are_by_their_media_types_and_their_names(tmp_path: Path) -> None:
    keep(tmp_path, [*({"file": file} for file in (*_SEEN, _SEEN[0])), {"action": "block"}])
    for _ in range(2):
        counts = {by: top_values(tmp_path, by, LogFilters(), 9) for by in ("file", "media_type", "file_name")}
        assert counts == {
            "file": [("image/png", 2), ("", 1), ("script program", 1)],
            "media_type": [("image/png", 3)],
            "file_name": [("a.exe", 2)],
        }
        (tmp_path / DATABASE).unlink(missing_ok=True)
    assert named("file", "") == ("(none)", None)


@each_row(("url", "host"), [("http://h:80/", "h"), ("http://[::1]:8/", "[::1]"), ("x", None), ("http:///x", None)])
def test_a_record_s_host_is_its_url_s(url: str, host: str | None) -> None:
    assert host_of_record({"url": url}) == host


@pytest.mark.parametrize("is_packed", [False, True])
def test_files_that_were_set_aside_are_read(tmp_path: Path, is_packed: bool) -> None:
    files = LineFiles(tmp_path, LogSettings(size=300, files=100, days=3650, gzip=is_packed))
    records = [lost_record(f"{number:010}", EVE + number, number) for number in range(20)]
    for fields in records:
        files.append([entry_of_fields(fields)], EVE)
    assert newest_records(tmp_path, LogFilters(), 1000) == records
    assert newest_records(tmp_path, LogFilters(), 7) == records[-7:]
    assert find_records(tmp_path, "0000000003") == [records[3]]


def test_what_a_record_does_not_have_is_null_in_sqlite(tmp_path: Path) -> None:
    keep(tmp_path, [{"reference": "0", "client": ""}])
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        (row,) = database.execute('SELECT reference, client, "user", rule, host, file, media_type FROM decisions')
    assert row == ("0", "", None, None, None, None, None)


def test_what_is_no_record_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / CURRENT).write_bytes(
        b'{"reference": "1"}\n\xff\n[1]\n{"half\n\n' + b"[" * 9999 + b'\n{"reference": "2"}\n'
        b'{"duration": NaN}\n{"duration": -Infinity}\n{"duration": 1e999}\n'
    )
    assert [fields["reference"] for fields in newest_records(tmp_path, LogFilters(), 9)] == ["1", "2"]


def test_a_database_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    keep(tmp_path, [{"reference": "1", "list": "l"}])
    (tmp_path / DATABASE).write_bytes(b"x" * 5000)
    assert newest_records(tmp_path, LogFilters(), 1) == find_records(tmp_path, "1") == [{"reference": "1", "list": "l"}]
    assert top_values(tmp_path, "list", LogFilters(), 1) == [("l", 1)]


def test_rows_that_are_no_text_are_passed_over(tmp_path: Path) -> None:
    keep(tmp_path, [{"reference": "1", "list": "l"}])
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database, database:
        database.execute("INSERT INTO decisions (reference, list, record) VALUES ('1', x'ff', NULL), ('1', 'l', x'7b')")
    assert newest_records(tmp_path, LogFilters(), 3) == find_records(tmp_path, "1") == [{"reference": "1", "list": "l"}]
    assert top_values(tmp_path, "list", LogFilters(), 3) == [("l", 2)]


@pytest.mark.parametrize(("days", "rows", "stays"), [(6, 10, True), (8, 10, False), (0, 0, False)])
def test_a_broken_database_is_kept_as_long_as_its_records_would_be(
    tmp_path: Path, days: int, rows: int, stays: bool
) -> None:
    broken = tmp_path / f"{DATABASE}.damaged-20261128T090000.000000Z"
    broken.touch()
    Database(tmp_path, LogSettings(days=7, rows=rows)).tidy(broken.stat().st_mtime + days * 86400)
    assert broken.exists() is stays


def test_a_file_that_is_damaged_within_is_noticed_before_the_first_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keep(tmp_path, [{"reference": str(number)} for number in range(500)])
    path = tmp_path / DATABASE
    octets = bytearray(path.read_bytes())
    octets[3 * 4096 : 3 * 4096 + 64] = b"\xa5" * 64
    path.write_bytes(octets)
    keep(tmp_path, [{"reference": "new"}])
    assert newest_records(tmp_path, LogFilters(), 1000) == [{"reference": "new"}]
    (aside,) = set_aside([tmp_path])
    assert aside.read_bytes() == octets
    assert f"{path} is damaged (" in caplog.text


def test_a_reference_that_sqlite_does_not_have_is_looked_for_in_the_lines(tmp_path: Path) -> None:
    keep(tmp_path, [{"reference": "1"}])
    LineFiles(tmp_path, LogSettings()).append([['{"reference": "2"}\n']], EVE)
    assert find_records(tmp_path, "2") == [{"reference": "2"}]


def test_a_folder_without_a_log_has_none(tmp_path: Path) -> None:
    assert not has_log(tmp_path)
    assert newest_records(tmp_path, LogFilters(), 1) == []


def test_following_begins_now_and_goes_through_files_that_are_set_aside(tmp_path: Path) -> None:
    files = LineFiles(tmp_path, LogSettings(size=60, days=3650))
    files.append([['{"reference": "before"}\n']], EVE)
    follower = follow(tmp_path)
    assert next(follower) == []
    numbers = []
    for number in range(10):
        files.append([[f'{{"reference": {number}}}\n']], EVE)
        if number % 3 == 0:
            numbers += [fields["reference"] for fields in next(follower)]
    assert numbers == list(range(10))


def test_following_waits_for_a_file_and_for_the_end_of_a_line(tmp_path: Path) -> None:
    follower = follow(tmp_path)
    assert next(follower) == []
    with (tmp_path / CURRENT).open("wb", buffering=0) as file:
        file.write(b'{"reference":')
        assert next(follower) == []
        file.write(b' "1"}\n')
        assert next(follower) == [{"reference": "1"}]


@pytest.mark.skipif(sys.platform != "linux", reason="open files are listed in /proc")
def test_nothing_stays_open(tmp_path: Path) -> None:
    (tmp_path / CURRENT).touch()
    gc.collect()  # what earlier tests left
    before = set(Path("/proc/self/fd").iterdir())
    LineFiles(tmp_path, LogSettings()).tidy(EVE)
    follower = follow(tmp_path)
    assert next(follower) == next(follower) == []
    follower.close()
    assert set(Path("/proc/self/fd").iterdir()) <= before


def test_following_waits_for_a_folder_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / CURRENT).write_bytes(b'{"reference": "before"}\n')
    follower = follow(tmp_path)
    assert next(follower) == []
    with (tmp_path / CURRENT).open("ab") as file:
        file.write(b'{"reference": "1"}\n')
    (tmp_path / CURRENT).unlink()
    assert next(follower) == [{"reference": "1"}]
    assert next(follower) == []
    (tmp_path / CURRENT).write_bytes(b'{"reference": "2"}\n')
    assert next(follower) == [{"reference": "2"}]
    follower.close()


def test_a_compressed_file_that_is_damaged_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "decisions-20261224T000000-000.jsonl.gz").write_bytes(gzip.compress(b'{"reference": "1"}\n')[:-9])
    with pytest.raises(OSError, match=r"000\.jsonl\.gz"):
        newest_records(tmp_path, LogFilters(), 1)


def test_records_are_counted_by_the_minute_and_lost_ones_are_none(tmp_path: Path) -> None:
    assert counts_over_time(tmp_path, "") is None
    times = ["2026-12-01T00:00:59.999Z", "2026-12-01T00:01:00.000Z", "2026-12-01T00:01:30.000Z"]
    records: list[LogFields] = [{"reference": "a", "time": time, "action": "block"} for time in times]
    records += [{"reference": "b", "time": times[2], "action": "pass"}, {"time": times[2], "action": "lost"}]
    keep(tmp_path, records)
    wanted = [("2026-12-01T00:00 block", 1), ("2026-12-01T00:01 block", 2), ("2026-12-01T00:01 pass", 1)]
    assert counts_over_time(tmp_path, "") == wanted
    assert counts_over_time(tmp_path, times[1]) == wanted[1:]


def test_a_file_that_another_process_has_begun_in_place_of_a_broken_one_stays(tmp_path: Path) -> None:
    one, other = Database(tmp_path, LogSettings()), Database(tmp_path, LogSettings())
    fields = lost_record("0", EVE, 1)
    one.append([entry_of_fields(fields)], EVE)

    def set_aside() -> None:
        (tmp_path / DATABASE).rename(tmp_path / "aside")
        other.append([entry_of_fields(fields)], EVE)
        raise sqlite3.DatabaseError("malformed")

    with pytest.raises(StoreError, match="malformed"), one._connected():
        set_aside()
    assert [path.name for path in tmp_path.glob(f"{DATABASE}.damaged-*")] == []
    other.close()
    assert len(newest_records(tmp_path, LogFilters(), 9)) == 1


def test_what_is_set_aside_while_it_is_read_is_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, open_file = LineFiles(tmp_path, LogSettings(rows=0)), log_files.open_regular
    for number in (1, 2):
        fields = lost_record(str(number), EVE, number)
        lines.append([entry_of_fields(fields)], EVE)
    begun = tmp_path / CURRENT

    def open_late(path: Path) -> BufferedReader:
        if begun.exists():
            begun.rename(tmp_path / "decisions-20261224T000000-000.jsonl")
        return open_file(path)

    monkeypatch.setattr(log_files, "open_regular", open_late)
    assert [own["lost"] for own in newest_records(tmp_path, LogFilters(), 9)] == [1, 2]


def test_the_database_is_asked_and_not_the_lines(tmp_path: Path) -> None:
    records = [{"reference": "1", "list": "l"}]
    keep(tmp_path, records)
    (tmp_path / CURRENT).unlink()
    assert newest_records(tmp_path, LogFilters(), 9) == find_records(tmp_path, "1") == records
    assert top_values(tmp_path, "list", LogFilters(), 9) == [("l", 1)]


def test_where_the_database_is_of_another_version_the_lines_are_asked(tmp_path: Path) -> None:
    line = '{"reference": "1", "list": "of the lines"}'
    (tmp_path / CURRENT).write_text(f"{line}\n")
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        database.execute("CREATE TABLE decisions (number INTEGER PRIMARY KEY, reference, list, record)")
        changed = line.replace("the lines", "another version")
        database.execute("INSERT INTO decisions VALUES (1, '1', 'of another version', ?)", [changed])
        database.execute("PRAGMA user_version = 99")
        database.commit()
    expected = [{"reference": "1", "list": "of the lines"}]
    assert newest_records(tmp_path, LogFilters(), 9) == find_records(tmp_path, "1") == expected
    assert top_values(tmp_path, "list", LogFilters(), 9) == [("of the lines", 1)]
