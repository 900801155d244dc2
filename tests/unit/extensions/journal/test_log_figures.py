"""How large the log is, how fast it grows, and what of its settings ends it first; and that tidying goes in steps."""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hushlist.extensions.journal import log_database
from hushlist.extensions.journal.log_database import Database
from hushlist.extensions.journal.log_entry import entry_of_fields, fields_of
from hushlist.extensions.journal.log_figures import LogFigures, read_figures
from hushlist.extensions.journal.log_files import CURRENT, DATABASE, LineFiles
from hushlist.extensions.journal.log_keys import LogSettings
from hushlist.extensions.journal.log_record import Privacy
from hushlist.extensions.journal.log_writer import LogWriter
from unit.extensions.journal.samples import EVE, fill, record

DAY = 86400.0


def written(folder: Path, settings: LogSettings, number: int, days: float) -> LogFigures:
    """What is told of a log with so many records, of so many days."""
    moments = [EVE + days * DAY * place / number for place in range(number)]
    fields = [fields_of(record(number=place, moment=moment), Privacy()) for place, moment in enumerate(moments)]
    entries = [entry_of_fields(own) for own in fields]
    lines, database, end = LineFiles(folder, settings), Database(folder, settings), EVE + days * DAY
    for start in range(0, number, 50):
        lines.append(entries[start : start + 50], moments[start])
    database.append(entries, end)
    while not database.tidy(end):
        pass
    database.close()
    assert database.figures is not None
    found = read_figures(folder, settings, end)
    assert found is not None
    assert replace(found, octets=0) == replace(database.figures, octets=0)
    return database.figures


_SMALL = {"size": 64 << 10, "files": 1}


@pytest.mark.parametrize(
    ("days", "settings", "told"),
    [
        pytest.param(10, {"rows": 2000}, ("rows", 20), id="at this pace, rows last for 20 days"),
        pytest.param(10, {"rows": 2000, "days": 15}, ("days", None), id="days are over before"),
        pytest.param(0.5, {"rows": 500}, ("rows", 0.25), id="rows were removed already"),
        pytest.param(0.5, {}, ("", None), id="it is too new to say"),
        pytest.param(10, _SMALL, ("files", 4), id="at this pace, files last for some days"),
    ],
)
def test_it_is_told_what_ends_first(
    tmp_path: Path, days: float, settings: dict[str, int], told: tuple[str, float | None]
) -> None:
    figures = written(tmp_path, LogSettings(**settings), 1000, days)  # type: ignore[arg-type]
    assert (figures.ends, figures.ends_early) == (told[0], told[1] is not None)
    assert figures.keeps == (None if told[1] is None else pytest.approx(told[1], rel=0.15))
    assert figures.a_day == (100 if days == 10 else settings.get("rows", 1000))
    on_disk = sum(path.stat().st_size for path in tmp_path.iterdir() if path.name.startswith("decisions."))
    assert figures.octets >= on_disk > 100_000


def test_without_rows_the_files_tell(tmp_path: Path) -> None:
    aside = tmp_path / "decisions-20261201T000000-000.jsonl"
    aside.write_bytes(b"{}\n")
    os.utime(aside, (EVE - 3 * DAY,) * 2)
    database = Database(tmp_path, LogSettings(rows=0, files=1))
    assert database.tidy(EVE)
    assert database.figures == LogFigures(3, None, EVE - 3 * DAY, "files", 3.0, 30)


def test_of_no_log_or_a_damaged_one_nothing_is_told(tmp_path: Path) -> None:
    assert read_figures(tmp_path, LogSettings(), EVE) is None
    (tmp_path / CURRENT).touch()
    assert read_figures(tmp_path, LogSettings(), EVE) is not None
    (tmp_path / DATABASE).write_bytes(b"no database" * 1000)
    assert read_figures(tmp_path, LogSettings(), EVE) is None


@pytest.mark.parametrize("settings", [LogSettings(rows=7), LogSettings(days=3)])
def test_old_rows_are_removed_in_steps(tmp_path: Path, settings: LogSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Database(tmp_path, LogSettings(days=3650))
    entries = [fields_of(record(number=number, moment=EVE + number), Privacy()) for number in range(55)]
    before.append([entry_of_fields(fields) for fields in entries], EVE)
    before.close()
    monkeypatch.setattr(log_database, "MOST_REMOVED", 10)
    database, left = Database(tmp_path, settings), []
    moment = EVE if settings.days > 3 else EVE + 3 * DAY + 48
    for _ in range(10):
        is_done = database.tidy(moment)
        with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
            left.append(connection.execute("SELECT count(*) FROM decisions").fetchone()[0])
        if is_done:
            break
    database.close()
    assert left == [45, 35, 25, 15, 7]


def test_what_ends_first_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = LogSettings(folder=tmp_path, rows=20)
    with caplog.at_level(logging.INFO):
        journal = LogWriter(settings, state=tmp_path, clock=lambda: EVE + 3600)
        for start in range(0, 60, 5):
            fill(journal, *(record(number=start + place) for place in range(5)))
        journal.close()
    (told,) = [one for one in caplog.records if "'rows' keeps" in one.getMessage()]
    assert told.levelno == logging.WARNING
    assert journal.figures is not None
    assert journal.figures.ends == "rows"
