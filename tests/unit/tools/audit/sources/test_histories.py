"""Browsers' histories, with the tables that they have."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from io import BytesIO
from pathlib import Path

import pytest

from hushlist.tools.audit.sources.browser_files import read_history, read_takeout
from hushlist.tools.audit.sources.recorded_request import BrokenRecord, RecordedRequest, ResourceType

# chromium components/history/core/browser/url_database.cc, visit_database.cc
CHROMIUM = """
CREATE TABLE urls(id INTEGER PRIMARY KEY AUTOINCREMENT, url LONGVARCHAR, title LONGVARCHAR,
    visit_count INTEGER DEFAULT 0 NOT NULL, typed_count INTEGER DEFAULT 0 NOT NULL,
    last_visit_time INTEGER NOT NULL, hidden INTEGER DEFAULT 0 NOT NULL);
CREATE TABLE visits(id INTEGER PRIMARY KEY AUTOINCREMENT, url INTEGER NOT NULL, visit_time INTEGER NOT NULL,
    from_visit INTEGER, external_referrer_url TEXT, transition INTEGER DEFAULT 0 NOT NULL, segment_id INTEGER,
    visit_duration INTEGER DEFAULT 0 NOT NULL);
INSERT INTO urls(url, last_visit_time) VALUES ('https://page.example/#frag', 0), ('https://frame.example/', 0);
INSERT INTO visits(url, visit_time, from_visit, transition) VALUES
    (1, 13439725200500000, 0, 805306369), (2, 13439725201000000, 1, 805306371), (9, 0, 0, 0), (1, 0, 0, 0);
"""
# mozilla toolkit/components/places/nsPlacesTables.h
FIREFOX = """
CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR, rev_host LONGVARCHAR,
    visit_count INTEGER DEFAULT 0, hidden INTEGER DEFAULT 0 NOT NULL, typed INTEGER DEFAULT 0 NOT NULL,
    frecency INTEGER DEFAULT -1 NOT NULL, last_visit_date INTEGER, guid TEXT, url_hash INTEGER DEFAULT 0 NOT NULL);
CREATE TABLE moz_historyvisits (id INTEGER PRIMARY KEY, from_visit INTEGER, place_id INTEGER, visit_date INTEGER,
    visit_type INTEGER, session INTEGER);
INSERT INTO moz_places(url) VALUES ('https://page.example/#frag'), ('https://frame.example/'), (NULL);
INSERT INTO moz_historyvisits(from_visit, place_id, visit_date, visit_type) VALUES
    (0, 1, 1795251600500000, 1), (1, 2, 1795251601000000, 8), (0, 3, NULL, 1), (0, 1, NULL, 7);
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "a folder?#" / "History"


def make(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


def test_chromium_s_visits_are_read(database: Path) -> None:
    make(database, CHROMIUM)
    assert [*read_history(database, "History")] == [
        RecordedRequest(b"https://page.example/#frag", "History", 1, ResourceType.DOCUMENT, None, 1795251600.5),
        RecordedRequest(
            b"https://frame.example/", "History", 2, ResourceType.FRAME, b"https://page.example/#frag", 1795251601.0
        ),
        BrokenRecord("History", 3, "the visit has no URL"),
        RecordedRequest(b"https://page.example/#frag", "History", 4, ResourceType.DOCUMENT, None, -11644473600.0),
    ]


@pytest.mark.slow
def test_a_file_without_indexes_takes_no_longer_than_its_length_allows(database: Path) -> None:
    make(
        database,
        """
        CREATE TABLE urls(id, url);
        CREATE TABLE visits(id, url, visit_time, from_visit, transition);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000) INSERT INTO urls SELECT i, i FROM n;
        INSERT INTO visits SELECT id, 20000, 0, 0, 0 FROM urls;
        """,
    )
    *_, last = read_history(database, "History")
    assert isinstance(last, BrokenRecord)
    assert last.why == "it cannot be read: interrupted"


def test_firefox_s_visits_are_read_and_one_without_a_url_is_broken(database: Path) -> None:
    make(database, FIREFOX)
    assert [*read_history(database, "places.sqlite")] == [
        RecordedRequest(b"https://page.example/#frag", "places.sqlite", 1, ResourceType.DOCUMENT, None, 1795251600.5),
        RecordedRequest(
            b"https://frame.example/",
            "places.sqlite",
            2,
            ResourceType.FRAME,
            b"https://page.example/#frag",
            1795251601.0,
        ),
        BrokenRecord("places.sqlite", 3, "the visit has no URL"),
        RecordedRequest(b"https://page.example/#frag", "places.sqlite", 4, ResourceType.OTHER),
    ]


def test_a_visit_is_one_whatever_the_tables_have_twice(database: Path) -> None:
    rows = ", ".join(["(1, 'https://page.example/')"] * 100)
    make(
        database,
        f"CREATE TABLE urls(id, url); CREATE TABLE visits(id, url, visit_time, from_visit, transition);"
        f"INSERT INTO urls VALUES {rows}; INSERT INTO visits VALUES (1, 1, 0, 1, 3), (1, 1, 0, 1, 3);",
    )
    page = b"https://page.example/"
    assert [*read_history(database, "h")] == [
        RecordedRequest(page, "h", 1, ResourceType.FRAME, page, -11644473600.0)
    ] * 2


@pytest.mark.parametrize(
    "urls", ["TABLE urls(id, url AS (hex(zeroblob(50000000))))", "VIRTUAL TABLE urls USING fts4(id, url)"]
)
def test_a_file_that_makes_texts_of_nothing_is_not_asked_for_them(database: Path, urls: str) -> None:
    make(
        database,
        f"CREATE {urls}; CREATE TABLE visits(id, url, visit_time, from_visit, transition);"
        "INSERT INTO urls(id) VALUES (1); INSERT INTO visits VALUES (1, 1, 0, 0, 1);",
    )
    why = "it has neither the tables of Chromium's history nor of Firefox's"
    assert [*read_history(database, "h")] == [BrokenRecord("h", 0, why)]


def test_what_a_running_browser_has_not_written_into_the_file_yet_is_told(database: Path) -> None:
    make(database, CHROMIUM)
    with closing(sqlite3.connect(database)) as browser:
        browser.execute("PRAGMA journal_mode = wal")
        browser.execute("INSERT INTO visits(url, visit_time) VALUES (1, 0)")
        browser.commit()
        found = [*read_history(database, "h")]
    why = "its last visits may be in History-wal, which is not read: close the browser first"
    assert [found[0], len(found)] == [BrokenRecord("h", 0, why), 5]
    assert not any(own == found[0] for own in read_history(database, "h"))


def test_nothing_is_written_beside_a_history_that_is_read(database: Path) -> None:
    make(database, CHROMIUM)
    database.chmod(0o400)
    before = database.read_bytes()
    assert len([*read_history(database, "h")]) == 4
    assert [*database.parent.iterdir()] == [database]
    assert database.read_bytes() == before


@pytest.mark.parametrize("script", ["CREATE TABLE other(id)", ""])
def test_another_database_is_broken(database: Path, script: str) -> None:
    make(database, script)
    (broken,) = read_history(database, "h")
    assert isinstance(broken, BrokenRecord)
    assert "neither the tables" in broken.why


def test_a_database_that_is_cut_off_is_broken(database: Path) -> None:
    make(database, CHROMIUM)
    database.write_bytes(database.read_bytes()[:3000])
    *_, broken = read_history(database, "h")
    assert isinstance(broken, BrokenRecord)


def test_takeout_s_visits_are_read() -> None:
    visits = [
        {"page_transition": "LINK", "url": "https://page.example/#frag", "time_usec": 1795251600500000},
        {"page_transition": "AUTO_SUBFRAME", "url": "https://frame.example/"},
        {"title": "no URL"},
        7,
    ]
    document = {"Session": [{"a": 1}], "Browser History": visits}
    assert [*read_takeout(BytesIO(json.dumps(document).encode()), "h.json")] == [
        RecordedRequest(b"https://page.example/#frag", "h.json", 1, ResourceType.DOCUMENT, None, 1795251600.5),
        RecordedRequest(b"https://frame.example/", "h.json", 2, ResourceType.FRAME),
        BrokenRecord("h.json", 3, "the visit has no URL"),
        BrokenRecord("h.json", 4, "the visit has no URL"),
    ]


def test_a_takeout_that_is_none_is_broken() -> None:
    assert [*read_takeout(BytesIO(b"{}"), "h.json")] == [BrokenRecord("h.json", 0, "there is no 'Browser History'")]


def test_a_history_with_something_else_for_numbers_is_read(database: Path) -> None:
    make(database, CHROMIUM.replace("id INTEGER PRIMARY KEY AUTOINCREMENT, url INTEGER", "id TEXT, url INTEGER"))
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE visits SET id = 'a', visit_time = 9e30")
        connection.commit()
    assert [(own.number, own.time) for own in read_history(database, "h") if isinstance(own, RecordedRequest)] == [
        (number, None) for number in (1, 2, 4)
    ]


def test_a_schema_that_is_no_text_is_broken(database: Path) -> None:
    make(database, CHROMIUM)
    database.write_bytes(database.read_bytes().replace(b"CREATE TABLE urls(id", b"CREATE TABLE \xff\xfels(id"))
    *_, broken = read_history(database, "h")
    assert isinstance(broken, BrokenRecord)
    assert broken.why.startswith("it cannot be read: ")
