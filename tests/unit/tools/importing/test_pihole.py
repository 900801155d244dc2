"""Pi-hole: its database, its Teleporter archive, groups, exact domains and regular expressions."""

import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hushlist.core.errors import SourceError
from hushlist.core.system.files import LONGEST_WHOLE
from hushlist.tools.importing import pihole
from hushlist.tools.importing.pihole import domains_of_regex, read_pihole
from unit.rows import each_row
from unit.tools.importing.deciding import Written

#: of Pi-hole's own schema, as far as an import reads it
SCHEMA = """
CREATE TABLE "group" (id INTEGER PRIMARY KEY, enabled BOOLEAN, name TEXT UNIQUE, description TEXT);
CREATE TABLE domainlist (id INTEGER PRIMARY KEY, type INTEGER, domain TEXT, enabled BOOLEAN, comment TEXT);
CREATE TABLE adlist (id INTEGER PRIMARY KEY, type INTEGER, address TEXT, enabled BOOLEAN, comment TEXT);
CREATE TABLE client (id INTEGER PRIMARY KEY, ip TEXT, comment TEXT);
CREATE TABLE adlist_by_group (adlist_id INTEGER, group_id INTEGER);
CREATE TABLE domainlist_by_group (domainlist_id INTEGER, group_id INTEGER);
CREATE TABLE client_by_group (client_id INTEGER, group_id INTEGER);
"""
ROWS = {
    "group": [(0, 1, "Default", ""), (1, 1, "Kids", ""), (2, 0, "Off", "")],
    "domainlist": [
        (1, 0, "good.example", 1, "needed"),
        (2, 1, "Bad.example", 1, None),
        (3, 2, r"(\.|^)open\.example$", 1, None),
        (4, 3, r"(^|\.)(ads|stats)\.example$", 1, "no\nline"),
        (5, 3, r"^ad[sx]?[0-9]*\.", 1, None),
        (6, 1, "off.example", 0, None),
        (7, 1, "kids.example", 1, None),
        (8, 1, "nobody.example", 1, None),
        (9, 3, r"^exact\.example$", 1, None),
        (10, 3, r"^x\.example$;querytype=A", 1, None),
        (11, 0, "kids-only.ads.example", 1, None),
        (12, 3, r"^kid[0-9]*\.", 1, None),
    ],
    "adlist": [
        (1, 0, "https://lists.example/hosts;x", 1, "Steven"),
        (2, 0, "https://off.example/hosts", 0, None),
        (3, 1, "https://allow.example/good", 1, None),
        (4, 0, "https://user:secret@lists.example/x", 1, None),
        (5, 0, "http://lists.example/plain", 1, None),
        (6, 0, "https://lists.example/kids", 1, None),
    ],
    "client": [(1, "10.0.0.0/8", None), (2, "10.0.0.7", None), (3, "aa:bb:cc:dd:ee:ff", None), (4, "10.0.0.9", None)],
    "adlist_by_group": [(1, 0), (1, 1), (2, 0), (3, 0), (4, 0), (4, 1), (5, 0), (6, 1)],
    "domainlist_by_group": [
        *((number, 0) for number in (1, 2, 3, 4, 5, 6, 9, 10)),
        *((number, 1) for number in (4, 7, 11, 12)),
        (8, 2),
    ],
    "client_by_group": [(1, 0), (2, 0), (2, 1), (3, 0), (4, 2)],
}


def database(path: Path) -> Path:
    made = sqlite3.connect(path)
    made.executescript(SCHEMA)
    for table, rows in ROWS.items():
        made.executemany(f'INSERT INTO "{table}" VALUES ({",".join("?" * len(rows[0]))})', rows)
    made.commit()
    made.close()
    return path


def made_by(path: Path, script: str) -> Path:
    """A database after statements, which are the last."""
    with closing(sqlite3.connect(path)) as made:
        made.executescript(script)
    return path


def of_version_6(folder: Path) -> Path:
    path = folder / "pi-hole_teleporter.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(database(folder / "made.db"), "etc/pihole/gravity.db")
        archive.writestr("etc/pihole/pihole.toml", '[dns]\nhosts = ["192.0.2.1 nas"]\n[dns.blocking]\nactive = true\n')
        archive.writestr("../../etc/passwd", "no")
    return path


MAKERS = {"gravity.db": lambda folder: database(folder / "gravity.db"), "zip": of_version_6}


@pytest.fixture(scope="module", params=list(MAKERS))
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder: Path = tmp_path_factory.mktemp("pihole")
    make: Callable[[Path], Path] = MAKERS[request.param]
    return Written(read_pihole(make(folder)), folder / "out")


@each_row(
    ("url", "client", "action"),
    [
        ("good.example", "", "allow"),
        ("bad.example", "", "block"),
        ("below.open.example", "", "allow"),
        ("x.ads.example", "", "block"),
        ("stats.example", "", "block"),
        ("ads5.example", "", "block"),
        ("exact.example", "", "block"),
        ("off.example", "", "pass"),
        ("kids.example", "", "pass"),
        ("nobody.example", "", "pass"),
        # a network has the default group; one client in it, that of the kids besides; another, one that is disabled
        ("bad.example", "10.1.1.1", "block"),
        ("kids.example", "10.1.1.1", "pass"),
        ("kid5.example", "10.1.1.1", "pass"),
        ("kid5.example", "10.0.0.7", "block"),
        ("kids.example", "10.0.0.7", "block"),
        ("bad.example", "10.0.0.7", "block"),
        ("kids-only.ads.example", "10.0.0.7", "allow"),
        ("kids-only.ads.example", "10.1.1.1", "block"),
        ("bad.example", "10.0.0.9", "pass"),
    ],
)
def test_decisions_are_those_of_pihole(written: Written, url: str, client: str, action: str) -> None:
    assert written(url, client) == action


@each_row(
    "words",
    [
        ("domainlist:1:", "good.example", "allows hosts below it, too, that no list names"),
        ("domainlist:2:", "Bad.example", "blocks hosts below it, too"),
        ("domainlist:10:", "querytype", "left out"),
        ("client:3:", "aa:bb:cc:dd:ee:ff", "left out"),
        ("adlist:4:", "https://lists.example/x", "left out: a name and a password in an address would be shown"),
        ("adlist:5:", "http://lists.example/plain", "left out: over http, anybody on the way can change it"),
    ],
)
def test_what_is_left_out_is_named_with_its_record(written: Written, words: tuple[str, ...]) -> None:
    assert written.messages_with(*words)


def test_what_is_the_same_is_not_named(written: Written) -> None:
    assert not [line for number in (3, 4, 6) for line in written.messages_with(f"domainlist:{number}:")]
    assert not written.messages_with("off.example")


def test_lists_whose_addresses_begin_alike_are_fetched_each(tmp_path: Path) -> None:
    begin = f"https://lists.example/{'a' * 80}"
    script = f"INSERT INTO adlist VALUES (8, 0, '{begin}/one', 1, NULL), (9, 0, '{begin}/two', 1, NULL);"
    script += "INSERT INTO adlist_by_group VALUES (8, 0), (9, 0);"
    text = read_pihole(made_by(database(tmp_path / "gravity.db"), script)).text()
    for name in ("one", "two"):
        assert f'url: "{begin}/{name}"' in text


def test_a_subscribed_list_is_fetched_from_now_on(written: Written) -> None:
    text = (written.folder / "policy.yaml").read_text()
    assert '- {url: "https://lists.example/hosts;x", format: adblock-dns, title: Steven, action: block}' in text
    assert "optional" not in text
    assert "secret" not in text
    assert 'layers: [overrides, {name: "allowed of Default + Kids", during: always}, ' in text
    assert len(written.messages_with("adlist:4:")) == 1
    listed = {"hosts;x": "0.0.0.0 listed.example\n0.0.0.0 ad.good.example\n", "good": "0.0.0.0 bad.good.example\n"}
    listed["kids"] = "0.0.0.0 game.example\n"
    written.fetched(**listed)
    try:
        assert (written("listed.example"), written("listed.example", "10.0.0.7")) == ("block", "block")
        assert (written("game.example"), written("game.example", "10.0.0.7")) == ("pass", "block")
        # an exact domain that is allowed does not pass what a list names below it
        assert (written("good.example"), written("ad.good.example")) == ("allow", "block")
        assert written("bad.good.example") == "allow"
    finally:
        written.fetched()


def test_addresses_that_are_given_to_names_are_left_out(tmp_path: Path) -> None:
    told = [str(problem) for problem in read_pihole(of_version_6(tmp_path)).warnings]
    assert any("pihole.toml: dns.hosts: left out" in line for line in told)


def test_a_comment_of_other_octets_than_utf_8_costs_no_record(tmp_path: Path) -> None:
    script = "UPDATE domainlist SET comment = CAST(X'626164FF' AS TEXT) WHERE domain = 'Bad.example'"
    path = made_by(database(tmp_path / "gravity.db"), script)
    assert read_pihole(path).write(tmp_path / "made") == []
    written = b"".join(file.read_bytes() for file in (tmp_path / "made").rglob("*") if file.is_file())
    assert "bad\N{REPLACEMENT CHARACTER}".encode() in written


def test_blocking_that_is_off_stays_off(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(database(tmp_path / "made.db"), "etc/pihole/gravity.db")
        archive.writestr("etc/pihole/pihole.toml", "[dns.blocking]\nactive = false\n")
    assert read_pihole(tmp_path / "x.zip").everybody.settings == {"mode": "off"}


@each_row(
    ("regex", "domains"),
    [
        (r"(\.|^)a\.example$", (["a.example"], False)),
        (r"(^|\.)a\.example$", (["a.example"], False)),
        (r"^(.+\.)?a\.example$", (["a.example"], False)),
        (r"^(.*\.)?A-b\.example$", (["a-b.example"], False)),
        (r"(\.|^)(?:a|b\.c)\.(x|y)$", (["a.x", "a.y", "b.c.x", "b.c.y"], False)),
        (r"^a\.example$", (["a.example"], True)),
        (r"a\.example$", ([], False)),
        (r"\.a\.example$", ([], False)),
        (r"(\.|^)a.example$", ([], False)),
        (r"(\.|^)a\.example", ([], False)),
        (r"(\.|^)a+\.example$", ([], False)),
        ("(\\.|^)" + "(a|b|c|d)" * 5 + "$", ([], False)),
    ],
)
def test_a_regular_expression_is_taken_over_where_it_means_domains(regex: str, domains: tuple[list[str], bool]) -> None:
    assert domains_of_regex(regex) == domains


def test_a_regular_expression_means_so_many_domains_at_most() -> None:
    assert len(domains_of_regex("^" + "(a|b)" * 8 + r"\.example$")[0]) == 256
    words = [f"{first}{second}" for first in "abcdefghijklmnopq" for second in "abcdefghijklmnopq"][:257]
    assert domains_of_regex(f"^({'|'.join(words[:256])})$")[0] == words[:256]
    assert domains_of_regex(f"^({'|'.join(words)})$") == ([], False)


# -- hostile files -----------------------------------------------------------------------------------------------------


def bad(path: Path) -> str:
    with pytest.raises(SourceError) as caught:
        read_pihole(path)
    told = str(caught.value)
    assert told.startswith(f"{path}: ")  # of no line
    return told


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        (b"", "expected gravity.db, or a Teleporter archive"),
        (b"\x1f\x8b\x08" + bytes(100), "expected gravity.db, or a Teleporter archive of version 6"),
        (b"SQLite format 3\0" + bytes(200), "it cannot be read"),
        (b"PK\3\4" + bytes(100), "it cannot be read"),
    ],
)
def test_a_broken_file_is_an_error(tmp_path: Path, octets: bytes, why: str) -> None:
    (tmp_path / "file").write_bytes(octets)
    assert why in bad(tmp_path / "file")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "no lists, domains or groups"),
        ("[" * 100_000, "cannot be read"),
        ("dns = 1", "are tables"),
        ("x", "read"),
    ],
)
def test_an_archive_without_tables_is_an_error(tmp_path: Path, text: str | None, why: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("../etc/pihole/pihole.toml" if text is None else "etc/pihole/pihole.toml", text or "")
    assert why in bad(tmp_path / "x.zip")


@pytest.mark.slow
def test_what_grows_when_it_is_unpacked_is_an_error(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("etc/pihole/gravity.db", bytes(LONGEST_WHOLE + 1))
    assert "longer than" in bad(tmp_path / "bomb.zip")


@pytest.mark.parametrize(
    "query",
    [
        "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id FROM n",
        "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id FROM n WHERE id < 0",
    ],
)
def test_a_view_without_an_end_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    monkeypatch.setattr(pihole, "MOST_STEPS", 5000)
    assert "it cannot be read" in bad(made_by(tmp_path / "x.db", f'CREATE VIEW "group" AS {query};'))


def test_a_database_may_not_run_functions(tmp_path: Path) -> None:
    script = 'CREATE VIEW "group" AS SELECT hex(randomblob(9)) AS name;'
    assert "not authorized" in bad(made_by(tmp_path / "x.db", script))


def test_a_database_may_not_take_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pihole, "MOST_STEPS", 10)
    tables, sum_of_all = (join.join(f"domainlist{own}" for own in range(9)) for join in (", ", ".id + "))
    tables = tables.replace("domainlist", "domainlist AS domainlist")
    script = f'DROP TABLE "group"; CREATE VIEW "group" AS SELECT 1 FROM {tables} WHERE {sum_of_all}.id < 0;'
    assert bad(made_by(database(tmp_path / "x.db"), script)).endswith("it cannot be read: interrupted")


def test_so_much_of_a_database_is_read_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row for table in ROWS.values() for row in table]
    octets = 256 * len(rows) + sum(len(value) for row in rows for value in row if isinstance(value, str))
    path = database(tmp_path / "x.db")
    monkeypatch.setattr(pihole, "LONGEST_WHOLE", octets)
    assert read_pihole(path)
    monkeypatch.setattr(pihole, "LONGEST_WHOLE", octets - 1)
    assert "longer than" in bad(path)


def test_a_text_in_a_database_has_a_mebioctet_at_most(tmp_path: Path) -> None:
    for length in (1 << 20, (1 << 20) + 1):
        script = f"UPDATE domainlist SET comment = '{'x' * length}' WHERE id = 1"
        path = made_by(database(tmp_path / f"{length}.db"), script)
    assert read_pihole(tmp_path / f"{1 << 20}.db")
    assert "too big" in bad(path)
