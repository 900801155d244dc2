"""``hushlist override``: exact output, errors, exit codes."""

from __future__ import annotations

import getpass
import io
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hushlist import cli
from hushlist.cli import override_command
from hushlist.cli.override_command import parse_duration, parse_sharer, parse_whom
from hushlist.extensions.devices import known_devices
from hushlist.extensions.devices.known_devices import Network
from hushlist.extensions.quotas.use_minutes import UseMinutes
from hushlist.extensions.unblock import default_path
from hushlist.extensions.unblock.access_requests import AccessRequest
from hushlist.extensions.unblock.credentials import parse_stored, verify_passphrase
from hushlist.extensions.unblock.overrides import Overrides
from unit.rows import each_row

NOW = 1_800_000_000.0
_SAY_WHERE = override_command.say_where
Run = Callable[..., tuple[int, str, str]]


class Terminal(io.StringIO):
    """Standard input of somebody who sits there."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setattr(getpass, "getuser", lambda: "jo")
    monkeypatch.setattr(override_command, "say_where", lambda store: None)  # it has tests of its own
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*argv: str, stdin: bytes | None = b"") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", Terminal() if stdin is None else io.TextIOWrapper(io.BytesIO(stdin)))
        code = cli.main(["override", *argv])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def overrides() -> Iterator[Overrides]:
    """What a proxy of the same user has open."""
    with Overrides(default_path(), time.time) as opened:
        yield opened


def test_the_store_is_named_and_how_to_name_another(capsys: pytest.CaptureFixture[str]) -> None:
    _SAY_WHERE(Path("x"))
    assert capsys.readouterr().err == "in the store x; --store names that of another user's proxy\n"


def test_a_grant_is_made_printed_listed_and_revoked(run: Run, overrides: Overrides) -> None:
    line = "1  host games.example  for everybody  until 2027-01-15 08:30:00+00:00\n"
    assert run("grant", "--for", "30m", "https://Games.example:443/") == (0, line, "")
    assert overrides.covering(["192.0.2.7"], b"www.games.example", b"", [], NOW)
    assert run("list") == (0, line, "")
    assert run("revoke", "1") == (0, "revoked 1\n", "")
    assert overrides.covering(["192.0.2.7"], b"www.games.example", b"", [], NOW + 1) is None
    assert run("list") == (0, "", "nothing is unblocked now; 'hushlist override history' shows what was\n")
    assert run("list", "--json") == (0, "", "nothing is unblocked now; 'hushlist override history' shows what was\n")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--scope", "url", "HTTP://H.example:80/a/../b?q#f"], "url http://h.example/b?q  for everybody"),
        (["--scope", "category", "HRN://C.example/web"], "category hrn://c.example/web  for everybody"),
        (["--client", "user:jo", "h.example"], "host h.example  for user:jo"),
        (["--client", "user:\x1b[2Jjo\n", "h.example"], "host h.example  for user:\\x1b[2Jjo\\n"),
        (["--client", "::ffff:192.0.2.7", "h.example"], "host h.example  for 192.0.2.7"),
        (["--client", "FD00:0::1", "h.example"], "host h.example  for fd00::1"),
    ],
)
def test_a_target_is_canonicalized_and_a_client_shown_harmlessly(run: Run, arguments: list[str], expected: str) -> None:
    assert run("grant", "--for", "1h30m", *arguments) == (0, f"1  {expected}  until 2027-01-15 09:30:00+00:00\n", "")


@pytest.mark.parametrize("target", ["co.uk", "GitHub.io.", "com", "kawasaki.jp", "pages.dev"])
def test_a_public_suffix_is_unblocked_alone_with_a_warning(run: Run, overrides: Overrides, target: str) -> None:
    host = target.lower().rstrip(".")
    warning = f"warning: {host} is a public suffix: nothing below it is unblocked\n"
    code, out, err = run("grant", "--for", "30m", target)
    assert (code, err) == (0, warning)
    assert out.startswith(f"1  host {host}  for everybody  until ")
    assert overrides.covering(["192.0.2.7"], host.encode(), b"", [], NOW)
    assert overrides.covering(["192.0.2.7"], b"games." + host.encode(), b"", [], NOW) is None
    assert run("code", "--for", "30m", target)[2] == warning


@pytest.mark.parametrize(
    "arguments", [["192.0.2.1"], ["[2001:db8::1]"], ["shop.co.uk"], ["--scope", "url", "http://uk/"]]
)
def test_of_what_is_no_public_suffix_nothing_is_said(run: Run, arguments: list[str]) -> None:
    assert run("grant", "--for", "30m", *arguments)[2] == ""


def test_blocks_of_administrators_are_listed_and_ended(run: Run, overrides: Overrides) -> None:
    overrides.block("host", "a.test", None, client="group:kids", by="anna")
    overrides.grant("host", "b.test", None, how="administrator", by="anna")
    code, out, _ = run("list")
    assert (code, out) == (
        0,
        "1  host b.test  for everybody  for good\nblock:1  host a.test  for group:kids  for good\n",
    )
    kinds = [json.loads(line).get("kind") for line in run("list", "--json")[1].splitlines()]
    assert kinds == [None, "block"]
    assert run("revoke", "block:1") == (0, "revoked block:1\n", "")
    assert run("revoke", "block:1")[0] == run("revoke", "block:")[0] == run("revoke", f"block:{'9' * 50}")[0] == 2
    assert overrides.blocks() == []


def test_a_block_of_more_than_a_site_is_listed_with_a_warning(run: Run, overrides: Overrides) -> None:
    for target in ("github.io", "a.test"):
        overrides.block("host", target, None, by="anna")
    overrides.block("url", "uk/", None, by="anna")
    overrides.block("url", "uk/x", None, by="anna")
    _, out, err = run("list")
    assert len(out.splitlines()) == 4
    assert sorted(err.splitlines()) == [
        "warning: block:1: it is a public suffix (as github.io is): the rule covers every site below it",
        "warning: block:3: it is a top-level domain: the rule covers every site below it",
    ]


def test_the_list_is_json_on_demand(run: Run) -> None:
    run("grant", "--for", "60s", "--client", "192.0.2.7", "h.example")
    code, out, _ = run("list", "--json")
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        {
            "id": 1,
            "scope": "host",
            "target": "h.example",
            "client": "192.0.2.7",
            "until": NOW + 60,
            "how": "command line",
            "by": "jo",
            "made": NOW,
        }
    ]


@pytest.mark.parametrize("command", ["grant", "code"])
@pytest.mark.parametrize("scope", ["host", "url", "category"])
def test_without_a_target_both_make_a_code_for_what_its_user_finds_blocked(
    run: Run, overrides: Overrides, command: str, scope: str
) -> None:
    code, out, err = run(command, "--for", "30m", "--scope", scope)
    assert (code, err) == (0, "")
    assert re.fullmatch(r"([0-9A-Z]{4}-){2}[0-9A-Z]{4}\n", out)
    wanted = {"host": "h.example", "url": "http://h.example/", "category": "hrn://c.example"}
    made = overrides.redeem(out, "192.0.2.7", wanted)
    assert (made.scope, made.target, made.client, made.until) == (scope, wanted[scope], "192.0.2.7", NOW + 1800)


def test_a_code_may_be_for_a_target_and_a_client_and_a_time(
    run: Run, overrides: Overrides, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_code = ("code", "--for", "30m", "--valid-for", "1h", "--client", "user:jo", "Games.example")
    code = run(*run_code)[1]
    made = overrides.redeem(code, "192.0.2.7", {"host": "www.games.example"}, ["user:jo"])
    assert (made.target, made.client) == ("games.example", "user:jo")
    late = run(*run_code)[1]
    monkeypatch.setattr(time, "time", lambda: NOW + 3600)
    with Overrides(default_path(), time.time) as later, pytest.raises(Exception, match="too old"):
        later.redeem(late, "192.0.2.7", {"host": "www.games.example"}, ["user:jo"])


def test_a_code_that_was_not_used_can_be_revoked(run: Run) -> None:
    code = run("code", "--for", "30m")[1].strip()
    assert run("revoke", code.lower()) == (0, f"revoked {code.lower()}\n", "")
    message = f"hushlist: {code!r}: there is no such grant, and no such code that was not used\n"
    assert run("revoke", code) == (2, "", message)


def test_what_cannot_be_revoked_is_named_and_the_rest_goes_on(run: Run) -> None:
    run("grant", "--for", "30m", "h.example")
    code, out, err = run("revoke", "7", "x", "9" * 50, "²", "1")
    assert (code, out, err.count("there is no such grant")) == (2, "revoked 1\n", 4)
    assert run("list")[1] == ""


def test_history_shows_what_happened(run: Run, overrides: Overrides) -> None:
    run("grant", "--for", "30m", "h.example")
    run("code", "--for", "30m", "--scope", "category", "--client", "user:jo")
    overrides.attempt("192.0.2.7", "passphrase", lambda: False, {"url": "http://h.example/"})
    run("revoke", "1")
    moment = "2027-01-15 08:00:00+00:00"
    lines = [
        f"{moment}  revoked 1  host h.example  for everybody  (command line; jo)",
        f"{moment}  refused  url http://h.example/  for 192.0.2.7  (passphrase; 192.0.2.7)",
        f"{moment}  code made  category of its choice  for user:jo  (code; jo)",
        f"{moment}  granted 1  host h.example  for everybody  (command line; jo)",
    ]
    assert run("history") == (0, "\n".join(lines) + "\n", "")
    assert run("history", "--limit", "1") == (0, lines[0] + "\n", "")


def test_a_history_without_events_says_so(run: Run) -> None:
    assert run("history") == (0, "", "nothing was unblocked so far\n")


@each_row(
    ("log", "device", "user"),
    [
        ("", "Mia's tablet (192.0.2.7)", "Anna's laptop (user:anna)"),
        ("log: {clients: drop}", "somebody", "somebody"),
    ],
)
def test_a_device_has_its_name_where_the_log_keeps_clients(
    run: Run, overrides: Overrides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, device: str, user: str
) -> None:
    monkeypatch.setattr(known_devices, "seen_now", lambda _: Network(is_seen=True))
    devices = "devices: [{name: Mia's tablet, addresses: [192.0.2.7]}, {name: Anna's laptop, user: anna}]"
    (tmp_path / "policy.yaml").write_text(f"{log}\n{devices}\nlayers: []\n")
    policy = ("--policy", str(tmp_path / "policy.yaml"))
    for whom, shown in (("192.0.2.7", device), ("user:anna", user), ("group:kids", "group:kids")):
        overrides.block("host", "a.test", None, client=whom, by="anna")
        assert run("list", *policy)[1].splitlines()[-1].startswith("block:")
        assert f"  for {shown}  " in run("list", *policy)[1]
        assert f"  for {shown}  " in run("history", *policy)[1]
        for order in ("internet-off", "filter-off"):
            assert f"  for {shown}  " in run(order, "--for", "30m", "--client", whom, *policy)[1]
        assert run("list", *policy)[1].count(f"  everything *  for {shown}  ") >= 2
    asked = AccessRequest(0, "192.0.2.7", "192.0.2.7", "kids", "h.example", "http://h.example/", None, "", 0.0, 0.0)
    overrides.ask(asked)
    assert f"  {device} asks for " in run("requests", *policy)[1]


def test_times_are_those_of_the_policy(run: Run, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("timezone: Asia/Tokyo\nlayers: []\n")
    until = "until 2027-01-15 17:30:00+09:00\n"
    assert run("grant", "--for", "30m", "h.example", "--policy", str(policy))[1].endswith(until)
    assert run("list", "--policy", str(policy))[1].endswith(until)
    assert run("history", "--policy", str(policy))[1].startswith("2027-01-15 17:00:00+09:00  granted 1")
    policy.write_text("timezone: Tokyo\n")
    assert run("list", "--policy", str(policy))[0] == 2


def test_a_pasted_address_is_that_of_its_host_with_a_word(run: Run) -> None:
    code, out, err = run("grant", "--for", "30m", "https://h.example/a")
    assert (code, out.split()[1:3]) == (0, ["host", "h.example"])
    assert err == "warning: it is for all of h.example: the page alone is for the scope url\n"


@each_row(
    ("arguments", "reason"),
    [
        (["--scope", "url", "h.example/a"], "begins with http"),
        (["--scope", "category", "gamez"], "did you mean 'games'?"),
        ([""], "names no host"),
        (["--scope", "url", "http://h.example/" + "a" * 9000], "a target is 1 to 8192"),
    ],
)
@each_row("command", ["grant", "code"])
def test_what_is_no_target_is_refused(run: Run, command: str, arguments: list[str], reason: str) -> None:
    code, out, err = run(command, "--for", "30m", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("hushlist: ")
    assert reason in err
    assert run("list")[1] == run("history")[1] == ""


@each_row(
    ("text", "seconds"), [("30m", 1800), ("2h", 7200), ("1d", 86400), ("1h30m", 5400), ("1d2h3m4s", 93784), ("90s", 90)]
)
def test_a_time_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


def test_a_client_is_an_address_a_person_or_for_a_quota_a_group() -> None:
    assert [parse_whom("user:jo"), parse_sharer("user:jo"), parse_sharer("group:kids")] == [
        *("user:jo", "user:jo", "group:kids"),
    ]
    assert parse_whom("::ffff:10.0.0.7") == parse_sharer("::ffff:10.0.0.7") == "10.0.0.7"


def test_a_store_that_cannot_be_used_is_named(run: Run, tmp_path: Path) -> None:
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"no database " * 1000)
    for command in (["list"], ["history"], ["revoke", "1"], ["grant", "--for", "1m", "h"], ["code", "--for", "1m"]):
        code, out, err = run(*command, "--store", str(broken))
        assert (code, out, err) == (2, "", f"hushlist: {broken}: file is not a database\n")


def test_another_store_may_be_named(run: Run, tmp_path: Path) -> None:
    run("grant", "--for", "30m", "h.example", "--store", str(tmp_path / "own.sqlite"))
    assert run("list")[1] == ""
    assert run("list", "--store", str(tmp_path / "own.sqlite"))[1].startswith("1  host h.example")


# -- passphrase --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\nmore\n"])
def test_a_passphrase_is_read_once_from_a_pipe(run: Run, end: bytes) -> None:
    code, out, err = run("passphrase", stdin="größtes pferd".encode() + end)
    assert (code, err) == (0, "")
    assert verify_passphrase("größtes pferd", out.strip())
    assert "pferd" not in out


def test_a_passphrase_is_read_twice_from_a_terminal_unseen(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["correct horse", "correct horse", "correct horse", "correct house"])
    prompts: list[str] = []

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        return next(typed)

    monkeypatch.setattr(getpass, "getpass", ask)
    code, out, _ = run("passphrase", stdin=None)
    assert code == 0
    assert prompts == ["Passphrase: ", "Once more: "]
    assert parse_stored(out.strip())
    assert run("passphrase", stdin=None) == (2, "", "hushlist: the two are not the same\n")


@pytest.mark.parametrize(
    ("stdin", "reason"),
    [
        (b"", "needs 8 characters"),
        (b"short\n", "needs 8 characters"),
        (b"x" * 1025, "1 to 1024"),
        (b"\xff" * 8, "not in UTF-8"),
    ],
)
def test_a_passphrase_that_is_none_is_refused(run: Run, stdin: bytes, reason: str) -> None:
    code, out, err = run("passphrase", stdin=stdin)
    assert (code, out) == (2, "")
    assert reason in err


def test_a_user_without_a_name_is_named_by_the_way(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(getpass, "getuser", fail)
    assert run("grant", "--for", "1h", "games.example")[0] == 0
    assert "command line" in run("history")[1]


@pytest.mark.parametrize(
    ("arguments", "whom", "client"),
    [
        ((), "everybody", None),
        (("--client", "user:jo"), "user:jo", "user:jo"),
        (("--client", "group:kids"), "group:kids", "group:kids"),
        (("--client", "2001:DB8::7"), "2001:db8::7", "2001:db8::7"),
    ],
)
def test_a_quota_is_extended(
    run: Run, overrides: Overrides, arguments: tuple[str, ...], whom: str, client: str
) -> None:
    line = f"30 more minutes of hrn://c.example/games  for {whom}\n"
    assert run("extend", "--by", "29m1s", *arguments, "HRN://C.example/games") == (0, line, "")
    with closing(UseMinutes(default_path(), time.time)) as minutes:
        minutes.exchange()
        assert minutes.extended((client or "192.0.2.7",), "hrn://c.example/games", 0, int(NOW)) == 30
        assert minutes.extended(("192.0.2.8",), "hrn://c.example/games", 0, int(NOW)) == (0 if client else 30)
    (event,) = overrides.history(100)
    assert (event.what, event.client, event.how, event.by) == ("extended", client, "30 more minutes", "jo")
    said = f"extended  category hrn://c.example/games  for {whom}  (30 more minutes; jo)"
    assert run("history")[1].endswith(f"  {said}\n")


@each_row(
    ("arguments", "whom"),
    [([], "everybody"), (["--client", "group:kids"], "group:kids"), (["--client", "192.0.2.7"], "192.0.2.7")],
)
def test_internet_and_filter_are_turned_off_for_a_while(
    run: Run, overrides: Overrides, arguments: list[str], whom: str
) -> None:
    code, line, err = run("internet-off", "--for", "1h", *arguments)
    (block,) = overrides.blocks()
    assert (code, line, err) == (
        0,
        f"block:{block.id}  everything *  for {whom}  until 2027-01-15 09:00:00+00:00\n",
        "",
    )
    assert line in run("list")[1]
    assert run("revoke", f"block:{block.id}") == (0, f"revoked block:{block.id}\n", "")
    code, line, _ = run("filter-off", "--for", "30m", *arguments)
    (grant,) = overrides.active(NOW)
    assert (code, line) == (0, f"{grant.id}  everything *  for {whom}  until 2027-01-15 08:30:00+00:00\n")
    assert run("revoke", str(grant.id))[0] == 0


def test_times_are_those_of_the_policy_of_the_first_start(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "hushlist").mkdir()
    (tmp_path / "hushlist" / "policy.yaml").write_text("timezone: Asia/Kolkata\nlayers: []\n")
    assert run("internet-off", "--for", "1h")[1].endswith("  until 2027-01-15 14:30:00+05:30\n")


@each_row(
    ("schedules", "end"),
    [
        ("", "2027-01-16 06:00:00+05:30"),  # it is 13:30 there
        (
            "schedules: {bedtime: {times: 21:00-07:15}}\ndefault: {action: block, during: bedtime, otherwise: pass}\n",
            "2027-01-16 07:15:00+05:30",
        ),
        (
            "schedules: {lessons: {times: 08:00-13:00}}\ndefault: {action: block, during: lessons, otherwise: pass}\n",
            "2027-01-16 06:00:00+05:30",
        ),
    ],
)
def test_internet_and_filter_are_off_until_the_night_ends(run: Run, tmp_path: Path, schedules: str, end: str) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"timezone: Asia/Kolkata\nlayers: []\n{schedules}")
    for off in ("internet-off", "filter-off"):
        assert run(off, "--until", "morning", "--policy", str(policy))[1].endswith(f"  until {end}\n")


def ask(overrides: Overrides, host: str = "games.example", **more: str) -> None:
    """What a block page does for a person."""
    asked = {"client": "user:jo", "reason": "", **more}
    overrides.ask(
        AccessRequest(0, asked["client"], "192.0.2.7", None, host, f"http://{host}/a", None, asked["reason"], 0.0, 0.0)
    )


def test_requests_are_listed_granted_and_declined(run: Run, overrides: Overrides) -> None:
    none = "nobody waits for an answer; people can ask where the policy says 'unblock: {ask: on}'\n"
    assert run("requests") == (0, "", none)
    ask(overrides, reason="maths\x1b[2J")
    ask(overrides, "other.example")
    ask(overrides, "other.example")
    first = "1  2027-01-15 08:00:00+00:00  user:jo asks for http://games.example/a: maths [2J"
    second = "2  2027-01-15 08:00:00+00:00  user:jo asks for http://other.example/a (2 times)"
    assert run("requests") == (0, f"{second}\n{first}\n", "")
    assert run("approve", "1") == (0, "1  host games.example  for user:jo  until 2027-01-15 09:00:00+00:00\n", "")
    assert run("decline", "2", "--reason", "after\ndinner") == (0, "declined 2\n", "")
    assert run("requests") == (0, "", none)
    assert run("requests", "--all") == (0, f"{second}  declined by jo\n{first}  granted by jo\n", "")
    (code, out, err) = run("requests", "--all", "--json")
    assert (code, err, [json.loads(line)["word"] for line in out.splitlines()]) == (0, "", ["after dinner", None])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["approve", "1", "--scope", "url", "--for", "30m"], "1  url http://games.example/a  for user:jo  until"),
        (["approve", "1", "--for", "2h"], "1  host games.example  for user:jo  until 2027-01-15 10:00:00+00:00"),
    ],
)
def test_a_request_is_granted_as_it_is_said(run: Run, overrides: Overrides, arguments: list[str], told: str) -> None:
    ask(overrides)
    code, out, err = run(*arguments)
    assert (code, out.startswith(told), err) == (0, True, "")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["approve", "9"], "9: there is no such request"),
        (["decline", "9"], "9: there is no such request"),
        (["approve", "1", "--scope", "category"], "1: the rule that blocks it has no category"),
        (["extend", "--by", "8d", "hrn://c.example"], "11520 minutes: expected 1 to 10080"),
        (["extend", "--by", "1m", "gamez"], "games"),
    ],
)
def test_what_cannot_be_done_is_told(run: Run, overrides: Overrides, arguments: list[str], error: str) -> None:
    ask(overrides)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert error in err
    assert len(overrides.requests()) == 1
