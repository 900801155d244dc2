"""The database is asked where there is one, and left alone where it is of another version."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from hushlist.extensions.journal.log_database import LogFilters, find_records, newest_records, top_values
from hushlist.extensions.journal.log_files import CURRENT, DATABASE
from unit.extensions.journal.test_log_database import keep


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
