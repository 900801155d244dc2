"""``hushlist log``: exact output, errors, exit codes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from hushlist import cli
from hushlist.cli import log_command
from hushlist.extensions.journal.log_files import CURRENT, DATABASE
from hushlist.extensions.journal.log_identifiers import base32
from hushlist.extensions.journal.log_keys import LoggedClients, LoggedRequests, LogSettings
from hushlist.extensions.journal.log_writer import LogWriter
from unit.extensions.journal.samples import fill, record
from unit.rows import each_row

Run = Callable[..., tuple[int, list[str], str]]
NO_LOG = (
    "there is no log. The proxy writes it where the policy says 'log: on'; if that names another folder, or the proxy "
    "runs as another user, --folder names it"
)
NOTHING = "{}: the log has nothing that fits; what is old is removed, and --folder names another log\n"
FIRST, SECOND, THIRD, FOURTH = (f"00000000{number:02}" for number in range(4))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*argv: str) -> tuple[int, list[str], str]:
        code = cli.main(["log", *argv])
        out, err = capsys.readouterr()
        return code, out.splitlines(), err

    return run


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(log_command, "state_folder", lambda: tmp_path / "hushlist")
    return tmp_path / "hushlist"


@pytest.fixture(params=["SQLite", "lines"])
def folder(request: pytest.FixtureRequest, empty: Path) -> Path:
    journal = LogWriter(LogSettings(LoggedRequests.ALL), state=empty)
    fill(
        journal,
        record("http://ads.example/x", 0),
        record("http://ads.example/ok", 1, client="2001:db8::1", user="pupil7"),
        record("http://www.tagged.example/", 2, would_block=True),
        record("http://pass.example/\x1b[31m", 3, user="\u202eevil\n"),
    )
    journal.close()
    if request.param == "lines":
        (empty / DATABASE).unlink()
    return empty


def test_tail_prints_aligned_columns(run: Run, folder: Path) -> None:
    who = r"\u202eevil\n 10.0.0.7"
    assert run("tail") == (
        0,
        [
            f"2026-12-24 22:30:00  {FIRST}  block        {'10.0.0.7':<{len(who)}}  "
            "http://ads.example/x  ads.example/ by Ads (first.yaml:4): No ads",
            f"2026-12-24 22:30:01  {SECOND}  allow        {'pupil7 2001:db8::1':<{len(who)}}  "
            "http://ads.example/ok  ads.example/ok by Ads (first.yaml:7)",
            f"2026-12-24 22:30:02  {THIRD}  would block  {'10.0.0.7':<{len(who)}}  "
            "http://www.tagged.example/  tagged.example/ by Ads (first.yaml:6)",
            f"2026-12-24 22:30:03  {FOURTH}  pass         {who}  http://pass.example/%1B[31m",
        ],
        "",
    )


@each_row(
    ("filters", "found"),
    [
        ("-n 2", [THIRD, FOURTH]),
        ("--action block", [FIRST]),
        ("--action would", [THIRD]),
        ("--client 10.0.0.7", [FIRST, THIRD, FOURTH]),
        ("--client 2001:DB8:0::1", [SECOND]),
        ("--user pupil7", [SECOND]),
        ("--category hrn://C.example/ads", [FIRST]),
        ("--list Ads", [FIRST, SECOND, THIRD]),
        ("--list hrn://l.example/ads -n 1", [THIRD]),
        ("--host TAGGED.example.", [THIRD]),
        ("--host <URL:tagged.example>", [THIRD]),
        ("--since 2026-12-24T22:30:01Z --until 2026-12-25T00:30:03+02:00", [SECOND, THIRD]),
        ("--until 2026-12-25 --since 2026-12-24 --action pass", [FOURTH]),
        ("--action lost", []),
        ("--client 10.0.0.8", []),
    ],
)
def test_filters_say_what_is_meant(run: Run, folder: Path, filters: str, found: list[str]) -> None:
    code, out, err = run("tail", "--json", *shlex.split(filters))
    assert [json.loads(line)["reference"] for line in out] == found
    assert (code, err) == (0, "") if found else (1, NOTHING.format(folder))


@pytest.mark.usefixtures("folder")
def test_without_a_policy_times_are_in_the_zone_of_that_of_the_first_start(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    policy = tmp_path / "config" / "hushlist" / "policy.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text("timezone: Asia/Tokyo\nlayers: [{name: own}]")
    assert [line[:19] for line in run("tail", "-n1")[1]] == ["2026-12-25 07:30:03"]


@pytest.mark.usefixtures("folder")
def test_times_are_in_the_zone_of_a_policy(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("rules: []")
    policy = tmp_path / "policy.yaml"
    policy.write_text("timezone: Asia/Tokyo\nlayers: [{name: own, lists: [own.yaml]}]")
    _, (line,), _ = run("tail", "--policy", str(policy), "-n", "1")
    assert line.startswith("2026-12-25 07:30:03 ")
    assert "Time         2026-12-25 07:30:02" in run("show", THIRD, "--policy", str(policy))[1]
    # what is asked for is in that zone, too
    assert len(run("tail", "--since", "2026-12-25T07:30:03")[1]) == 0
    assert len(run("tail", "--since", "2026-12-25T07:30:03", "--policy", str(policy))[1]) == 1


def test_how_long_ago_is_a_time_too() -> None:
    now = datetime(2026, 12, 24, 22, 30, tzinfo=UTC)
    times = [log_command.parse_past_moment(text, now) for text in ("90s", "30m", "2h", "3d", "1w", "2026-12-24")]
    assert [time[5:19] for time in times] == [
        *("12-24T22:28:30", "12-24T22:00:00", "12-24T20:30:00", "12-21T22:30:00", "12-17T22:30:00", "12-24T00:00:00")
    ]


def test_top_counts(run: Run, folder: Path) -> None:
    assert run("top") == (0, ["3  Ads (hrn://l.example/ads)  (would block 1)"], "")
    said = {"list": "hrn://l.example/ads", "title": "Ads", "would_block": 1, "count": 3}
    assert json.loads(run("top", "--json")[1][0]) == said
    assert run("top", "--by", "client") == (0, ["3  10.0.0.7  (would block 1)", "1  2001:db8::1"], "")
    assert run("top", "--by", "client", "--action", "block") == (0, ["1  10.0.0.7"], "")
    assert run("top", "--by", "host", "--action", "would") == (0, ["1  www.tagged.example"], "")
    assert run("top", "--by", "host", "--list", "Ads", "-n", "1") == (0, ["2  ads.example"], "")
    assert run("top", "--by", "action", "--json")[1][0] == '{"action": "allow", "count": 1}'
    assert run("top", "--by", "category", "--action", "pass") == (1, [], NOTHING.format(folder))


def test_show_prints_everything_about_one(run: Run, folder: Path) -> None:
    assert run("show", "oooo oooo-o2") == (
        0,
        [
            f"Reference    {THIRD}",
            "Time         2026-12-24T22:30:02.250Z",
            "Client       10.0.0.7",
            "Method       GET",
            "URL          http://www.tagged.example/",
            "Action       would block",
            "Layer        first",
            "Category     hrn://c.example/adsless",
            "List         hrn://l.example/ads",
            "Title        Ads",
            "Rule         first.yaml:6",
            "Expression   tagged.example/",
            "Tag          hrn://l.example/ads  hrn://c.example/adsless",
        ],
        "",
    )
    (line,) = run("show", "--json", FIRST)[1]
    assert json.loads(line)["reason"] == "No ads"
    assert run("show", "0000000009") == (1, [], NOTHING.format(folder))
    assert r"User         \u202eevil\n" in run("show", FOURTH)[1]


def test_a_client_is_found_by_its_address_or_its_pseudonym(run: Run, empty: Path) -> None:
    journal = LogWriter(LogSettings(clients=LoggedClients.PSEUDONYM), state=empty)
    fill(journal, record(user="pupil7"), record(client="10.0.0.8"))
    journal.close()
    (line,) = run("tail", "--json", "--client", "10.0.0.7", "--user", "pupil7")[1]
    assert run("tail", "--json", "--client", json.loads(line)["client"])[1] == [line]


def test_a_log_may_be_in_any_folder(run: Run, empty: Path, tmp_path: Path) -> None:
    (tmp_path / CURRENT).write_text('{"reference": "0000000001", "list": "own"}\n')
    assert run("top", "--folder", str(tmp_path)) == (0, ["1  own"], "")


def test_where_there_is_no_log_that_is_said(run: Run, empty: Path) -> None:
    for command in (["tail"], ["tail", "-f"], ["top"], ["show", FIRST]):
        assert run(*command) == (2, [], f"hushlist: {empty}: {NO_LOG}\n")


def test_a_log_that_cannot_be_read_is_said(run: Run, empty: Path) -> None:
    (empty / CURRENT).mkdir(parents=True)
    code, out, err = run("tail")
    assert (code, out) == (2, [])
    assert "Is a directory" in err


def test_following_prints_what_is_there_and_what_comes_once_each(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = LogWriter(LogSettings(), state=folder)
    waits = iter(range(3))

    def write_meanwhile(_: float) -> None:
        number = next(waits, None)
        if number is None:
            raise KeyboardInterrupt
        fill(journal, record("http://ads.example/new", 10 + number), record("http://tagged.example/", 20 + number))

    monkeypatch.setattr(log_command, "time", SimpleNamespace(sleep=write_meanwhile))
    assert cli.main(["log", "tail", "-f", "-n", "1", "--json", "--action", "block"]) == 0
    journal.close()
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["reference"] for line in lines] == [
        FIRST,
        *(base32(number, 10) for number in (10, 11, 12)),
    ]


def test_the_commands_of_the_reference_are_commands() -> None:
    page = (Path(__file__).parents[4] / "rules" / "commands.md").read_text(encoding="utf-8")
    section = page.partition("## The decision log")[2].partition("\n## ")[0]
    commands = re.findall(r"^hushlist (log .*?)(?: +#.*)?$", section, re.MULTILINE)
    assert {shlex.split(command)[1] for command in commands} == {"tail", "top", "show"}
    for command in commands:
        assert callable(cli.make_parser().parse_args(shlex.split(command)).command)


def test_a_key_that_is_damaged_hides_no_record(run: Run, folder: Path) -> None:
    (folder / "pseudonyms.key").write_bytes(b"short")
    assert run("tail", "--client", "10.0.0.7")[0] == 0
