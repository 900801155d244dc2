"""The key ``log`` of a policy."""

from __future__ import annotations

from pathlib import Path

from hushlist.extensions.journal.log_keys import LoggedClients, LoggedQueries, LoggedRequests, LogSettings
from support.readings import read_key
from unit.rows import each_row

KEYS = "what, queries, clients, folder, size, files, days, rows, gzip, to, also"


def read(text: str) -> tuple[LogSettings | None, list[str]]:
    settings, errors = read_key("log", f"\n{text}", "/etc/hushlist/policy.yaml")
    return settings, [error.removeprefix("/etc/hushlist/") for error in errors]


def test_a_log_is_on_or_off() -> None:
    assert read("on") == (LogSettings(), [])
    assert read("off") == (None, [])
    assert read("{}") == (LogSettings(), [])


def test_every_key_is_read() -> None:
    text = (
        "what: all\nqueries: drop\nclients: pseudonym\nfolder: log\nsize: 1 MiB\nfiles: 3\ndays: 7\nrows: 0\ngzip: on\n"
    )
    expected = LogSettings(
        LoggedRequests.ALL,
        LoggedQueries.DROP,
        LoggedClients.PSEUDONYM,
        Path("/etc/hushlist/log"),
        1 << 20,
        3,
        7,
        0,
        gzip=True,
    )
    assert read(text) == (expected, [])


@each_row(
    ("text", "octets"),
    [("64 KiB", 64 << 10), ("100kB", 100_000), ("1 GiB", 1 << 30), ("1000000", 10**6), ("2MB", 2 * 10**6)],
)
def test_a_size_has_a_unit(text: str, octets: int) -> None:
    settings, errors = read(f"size: {text}")
    assert settings is not None
    assert (settings.size, errors) == (octets, [])


PLACES = "expected stdout, syslog:/PATH, syslog+udp://HOST:PORT or syslog+tcp://HOST:PORT"
SIZE = "expected a size from 64 KiB to 1 GiB such as 10 MiB (units: B, kB, KB, KiB, MB, MiB, GB, GiB)"


@each_row(
    ("text", "error"),
    [
        ("maybe", f"2: log: 'maybe': expected on, off or a mapping with {KEYS}"),
        ("[]", f"2: log: a list: expected on, off or a mapping with {KEYS}"),
        ("{wat: 1}", f"2: wat: unknown key; did you mean 'what'? (known: {KEYS})"),
        ("what: some", "2: what: some: expected one of blocked, noted, all"),
        ("queries: no", "2: queries: no: expected one of keep, without-searches, drop"),
        ("clients: hash", "2: clients: hash: expected one of keep, pseudonym, drop"),
        ("gzip: yes", "2: gzip: yes: expected one of on, off"),
        ("also: stderr", f"2: also: 'stderr': {PLACES}"),
        ("also: [stdout, [stdout]]", f"2: also: a list: {PLACES}"),
        ("also: syslog+tcp://logs.example:65536", f"2: also: 'syslog+tcp://logs.example:65536': {PLACES}"),
        ("also: [stdout, stdout]", "2: also: 'stdout': it is given twice"),
        (
            "also: ['syslog:/a', 'syslog:/b', 'syslog:/c', 'syslog:/d', stdout]",
            "2: also: 'stdout': there may be 4 at most",
        ),
        ("size: 10 MiBs", f"2: size: 10 MiBs: {SIZE}"),
        ("size: 1 KiB", f"2: size: 1 KiB: {SIZE}"),
        ("size: 9999 GiB", f"2: size: 9999 GiB: {SIZE}"),
        ("files: 0", "2: files: 0: expected a number from 1 to 1000"),
        ("days: forever", "2: days: forever: expected a number from 1 to 3650"),
        ("to: log.example", "2: to: expected postgresql://USER@HOST/DATABASE"),
        ("rows: -1", "2: rows: -1: expected a number from 0 to 10000000"),
        ("folder: ~nobody-has-this-name/x", "2: folder: ~nobody-has-this-name/x: Could not determine home directory."),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, error: str) -> None:
    assert read(text)[1] == [f"policy.yaml:{error}"]
