"""``hushlist compile``, ``check``, ``explain`` and ``helper``: exact output, errors, exit codes, progress."""

import json
import os
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from hushlist.cli import common
from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.match.expressions import full_hash
from hushlist.core.policy import shipped_policy
from hushlist.extensions.quotas.use_minutes import UseMinutes
from hushlist.extensions.unblock import default_path
from hushlist.extensions.unblock.overrides import Overrides
from unit.cli.running import NO_HOST, Run, copied, into_a_closed_pipe, process
from unit.rows import each_row
from unit.tools.squid.test_helper import ADS, EXTRAS, RULES

# -- check -------------------------------------------------------------------------------------------------------------


def test_check_says_what_is_done_and_why(run: Run, policy: Path) -> None:
    urls = ("http://x.blocked.example/", "http://blocked.example/ok", "tagged.example", "other.example")
    assert run("check", "--policy", policy, *urls) == (
        1,
        "block  http://x.blocked.example/  blocked.example/ by ads (ads.yaml:2): Ads\n"
        "allow  http://blocked.example/ok  blocked.example/ok by own (own.yaml:1)\n"
        "tag    tagged.example  tagged.example/ by ads (ads.yaml:3)\n"
        "pass   other.example\n",
        "",
    )


@each_row(
    ("urls", "code"),
    [
        (["other.example"], 0),
        (["tagged.example"], 0),
        (["blocked.example/ok"], 0),
        (["blocked.example"], 1),
        (["blocked.example", "other.example"], 1),
        (["/x"], 2),
        ([""], 2),
        (["blocked.example", "/x"], 2),
        (["/x", "blocked.example"], 2),
    ],
)
def test_check_exits_with_what_it_found(run: Run, policy: Path, urls: list[str], code: int) -> None:
    assert run("check", "--policy", policy, *urls)[0] == code


_ADBLOCK = "||ads.example^$third-party\n/banner.$image\n@@/banner.$image,domain=fine.example\n"


@each_row(
    ("options", "url", "action", "assumed"),
    [
        ((), "https://ads.example/", "pass", ""),
        (("--page", "https://news.example/x"), "https://ads.example/", "block", "for news.example, third party"),
        (("--page", "www.ads.example"), "https://ads.example/", "pass", ""),
        (("--page", "news.example", "--type", "document"), "https://ads.example/", "pass", ""),
        ((), "https://x.example/banner.1", "pass", ""),
        ((), "https://x.example/banner.png", "block", "image for an unknown page"),
        (("--type", "image"), "https://x.example/banner.1", "block", "image for an unknown page"),
        (("--type", "script"), "https://x.example/banner.png", "pass", ""),
        (
            ("--type", "image", "--page", "fine.example"),
            "https://x.example/banner.1",
            "allow",
            "image for fine.example",
        ),
    ],
)
@each_row("command", ["check", "explain"])
def test_a_page_and_a_type_are_asked_for(
    run: Run, tmp_path: Path, command: str, options: tuple[str, ...], url: str, action: str, assumed: str
) -> None:
    (tmp_path / "l.adblock").write_text(_ADBLOCK)
    (tmp_path / "policy.yaml").write_text("layers: [{name: l, lists: [l.adblock]}]")
    _, out, _ = run(command, "--policy", tmp_path / "policy.yaml", *options, url)
    assert (f"Decision     {action}" if command == "explain" else f"{action:<5}  {url}") in out
    assert assumed in out
    assert ("l.adblock:" in out) is (action != "pass")


@pytest.mark.parametrize(("how", "action"), [("pass", "pass"), ("block", "block")])
def test_an_unknown_context_is_decided_by_the_policy(run: Run, tmp_path: Path, how: str, action: str) -> None:
    (tmp_path / "l.adblock").write_text("||ads.example^$third-party\n/ad.$domain=a.example\n@@/ad.$domain=b.example")
    (tmp_path / "policy.yaml").write_text(f"unknown-context: {how}\nlayers: [{{name: l, lists: [l.adblock]}}]")
    for url in ("https://ads.example/", "https://x.example/ad.png"):
        assert run("check", "--policy", tmp_path / "policy.yaml", url)[1].startswith(action)
    for url in ("https://ads.example/", "https://x.example/ad.png"):  # it is known, and no filter is for it
        asked = ("check", "--policy", tmp_path / "policy.yaml", "--page", "www.ads.example", url)
        assert run(*asked)[1].startswith("pass")


def test_check_prints_a_json_object_a_line(run: Run, policy: Path) -> None:
    stdin = "https://blocked.example/ok\n\nhttp://bücher.example/\nmailto:me\n".encode()
    code, out, err = run("check", "--policy", policy, "--json", "-", stdin=stdin)
    first, second, third = map(json.loads, out.splitlines())
    assert (first["url"], first["action"]) == ("https://blocked.example/ok", "allow")
    assert [(match["expression"], match["list"], match["source"]) for match in first["matches"]] == [
        ("blocked.example/ok", "own", "own.yaml"),
        ("blocked.example/", "ads", "ads.yaml"),
    ]
    assert [(match["line"], match["action"], match["category"]) for match in first["matches"]] == [
        (1, "allow", None),
        (2, "block", "hrn://c.example/ads"),
    ]
    assert (second["url"], second["action"], second["matches"]) == ("http://bücher.example/", "pass", [])
    assert (third["url"], third["action"], third["fault"]) == ("mailto:me", "block", NO_HOST)
    assert (code, err) == (2, f"hushlist: 'mailto:me': {NO_HOST}\n")


def test_a_policy_that_cannot_be_used_is_reported_whole(run: Run, policy: Path) -> None:
    Path("ads.yaml").write_text("rules: ['..', {sha256: x}]")
    Path("own.yaml").unlink()
    assert run("check", "--policy", policy, "a.example") == (
        2,
        "",
        "policy.yaml:2: own.yaml: there is no such file\nads.yaml:1: ..: it names no host\n"
        "ads.yaml:1: x: expected pairs of hexadecimal digits\n",
    )


def test_a_policy_that_is_not_there_is_bad_input(run: Run) -> None:
    assert run("check", "--policy", "none.yaml", "a") == (2, "", "none.yaml: No such file or directory\n")


def test_compiling_writes_every_problem_into_a_file(run: Run, tmp_path: Path) -> None:
    lines = "".join(f"##.ad{number}\n" for number in range(3))
    (tmp_path / "a.adblock").write_text(f"{lines}@@||a.example^$removeparam=x\n||a.example^\n||...^\n")
    (tmp_path / "b.hosts").write_text("0.0.0.0 b.example\nb.example\n")
    (tmp_path / "p.yaml").write_text("layers: [{name: l, lists: [a.adblock, b.hosts]}]")
    table = tmp_path / "problems.tsv"
    for _ in range(2):  # the second time, the index is in the cache
        assert run("compile", "--policy", tmp_path / "p.yaml", "--problems", table)[0] == 0
        rows = [line.split("\t") for line in table.read_text().splitlines()]
        assert rows[0] == ["file", "line", "kind", "reason", "entry"]
        assert [(Path(row[0]).name, *row[1:3], row[4]) for row in rows[1:]] == [
            *(("a.adblock", f"{number + 1}", "unsupported", f"##.ad{number}") for number in range(3)),
            ("a.adblock", "4", "exception", "@@||a.example^$removeparam=x"),
            ("a.adblock", "6", "unreadable", "..."),
            ("b.hosts", "2", "unreadable", "b.example"),
        ]
        table.unlink()
    code, _, told = run("compile", "--policy", tmp_path / "p.yaml", "--problems", tmp_path)
    assert code == 2
    assert "problems" in told


def test_warnings_are_on_standard_error(run: Run, policy: Path) -> None:
    Path("own.yaml").write_text("rules: ['hashed:sha9=0']")
    assert run("check", "--policy", policy, "other.example") == (
        0,
        "pass   other.example\n",
        "warning: own.yaml:1: hashed:sha9=0: skipped: unknown algorithm 'sha9' (known: md5, sha1, x-sha256)\n",
    )


def test_without_a_policy_the_shipped_one_decides_and_is_named_aside(run: Run) -> None:
    code, out, err = run("check", "other.example")
    assert (code, out) == (0, "pass   other.example\n")
    assert err.splitlines()[-1] == f"decided by {shipped_policy()}; --policy FILE names another policy"


# -- explain -----------------------------------------------------------------------------------------------------------


def test_explain_shows_every_step(run: Run, policy: Path) -> None:
    code, out, err = run("explain", "--policy", policy, " http://X.blocked.example/a/../%2541#f")
    assert (code, err) == (0, "")
    hashes = {text: full_hash(text.encode()).hex() for text in ("x.blocked.example/A", "blocked.example/")}
    for line in (
        "URL           http://X.blocked.example/a/../%2541#f",
        "  strip_spaces           http://X.blocked.example/a/../%2541#f",
        "  remove_fragment        http://X.blocked.example/a/../%2541",
        "  unescape_repeatedly    http://X.blocked.example/a/../A",
        "  resolve_dot_segments   http://x.blocked.example/A",
        "Canonical    http://x.blocked.example/A",
        *(f"  {digest}  {text}" for text, digest in hashes.items()),
        "  layer lists: block blocked.example/ by ads (ads.yaml:2): Ads [hrn://c.example/ads]  <- decides",
        "    rule as written: blocked.example/",
        "Layer        overrides: 1 rule, 0 fit",
        "Layer        lists: 2 rules, 1 fit  <- decides",
        "Decision     block",
    ):
        assert line in out.splitlines()
    parts = [part.partition(" ")[0].partition("\n")[0] for part in out.split("\n\n")]
    assert parts == ["URL", "Canonical", "Canonical", "Matches"]


def test_explain_marks_the_one_match_that_decides(run: Run, policy: Path) -> None:
    Path("ads.yaml").write_text("rules: [blocked.example, x.blocked.example]")
    policy.write_text("layers: [{name: lists, lists: [ads.yaml]}]\n")
    _, out, _ = run("explain", "--policy", policy, "http://x.blocked.example/")
    assert [line for line in out.splitlines() if line.startswith("  layer")] == [
        "  layer lists: block x.blocked.example/ by ads (ads.yaml:1)  <- decides",
        "  layer lists: block blocked.example/ by ads (ads.yaml:1)",
    ]


def test_explain_says_what_is_left_of_a_quota(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    games = "hrn://c.example/games"
    (tmp_path / "games.yaml").write_text(f"category: {games}\naction: tag\nrules: [game.example]\n")
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"layers: [{{name: games, lists: [games.yaml]}}]\nquotas: {{{games}: 2}}\n")
    moment = datetime.now(UTC).replace(hour=12, minute=0)
    asked = ("explain", "--policy", policy, "--user", "jo", "--at", moment.isoformat(), "game.example")

    def explained() -> list[str]:
        return [line for line in run(*asked)[1].splitlines() if line.startswith("Quota ")]

    until = f"until {moment + timedelta(days=1):%Y-%m-%d} 00:00 UTC ({policy}:2)"
    assert explained() == [f"Quota        {games}: 2 of 2 minutes a day left, {until}"]
    assert not default_path().exists()
    with closing(UseMinutes(default_path(), time.time)) as minutes:
        for earlier in (1, 2):
            minutes.note("user:jo", games, int(moment.timestamp() // 60) - earlier)
        minutes.exchange()
    assert explained() == [f"Quota        {games}: 0 of 2 minutes a day left, so that it is blocked, {until}"]
    assert run("check", *asked[1:])[0] == 0


def test_explain_counts_the_rules_of_each_layer_checks_among_them(run: Run, policy: Path) -> None:
    Path("ads.yaml").write_text("rules: [blocked.example, blocked.example, 'hashed:sha9=0']")
    Path("more.hosts").write_text("0.0.0.0 blocked.example\n")
    policy.write_text(
        "layers:\n- {name: empty}\n- {name: own, checks: {user-information: tag}}\n"
        "- {name: lists, checks: {user-information: tag}, lists: [ads.yaml, more.hosts]}\n"
    )
    _, out, _ = run("explain", "--policy", policy, "http://me:secret@blocked.example/")
    assert [line for line in out.splitlines() if line.startswith("Layer")] == [
        "Layer        empty: 0 rules, 0 fit",
        "Layer        own: 1 rule, 1 fit",
        "Layer        lists: 3 rules, 3 fit  <- decides",
    ]


def test_explain_names_what_cannot_be_read(run: Run, policy: Path) -> None:
    code, out, err = run("explain", "--policy", policy, "mailto:me", "a%2fb.example")
    assert code in (0, 2)
    assert err == f"hushlist: 'mailto:me': {NO_HOST}\n"
    assert out.endswith("Decision     block (there is a delimiter in the host)\n")


@each_row("url", ["http://me:secret@blocked.example/", "http:/\\me:secret@x.example/",
                                 "me:secret@x.example", "http://me:se\tcret@x.example/", "http://me:secret@x.example:99999/",
                                 "http://me%3Asecret%40x.example/", "http://me:secret@a%2fb.example/"])  # fmt: skip
def test_what_stands_before_the_host_is_a_password_and_not_shown(run: Run, policy: Path, url: str) -> None:
    Path("ads.adblock").write_text("||blocked.example/$~image\n/x/*$script\n")
    policy.write_text("layers:\n- {name: lists, checks: {user-information: tag}, lists: [ads.adblock]}\n")
    for command in (["check"], ["check", "--json"], ["explain"]):
        _, out, err = run(*command, "--policy", policy, url)
        assert "cret" not in out + err


# -- both --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_json_whatever_the_terminal_can_show(encoding: str) -> None:
    url = "http://bücher.example/\U0001f600"
    done = process("check", "--json", "-", stdin=url.encode(), PYTHONIOENCODING=encoding)
    assert json.loads(done.stdout.decode(encoding))["url"] == url


@pytest.fixture
def spoiled_cache(policy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the place of the cache's folder."""
    file = policy.absolute().with_name("hushlist")
    file.write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(file.parent))
    monkeypatch.setattr(sys, "platform", "linux")
    return file


def test_compile_has_nothing_to_do_without_a_cache(run: Run, policy: Path, spoiled_cache: Path) -> None:
    message = f"{spoiled_cache}: cache: it cannot be used: {spoiled_cache} is no folder\n"
    assert run("compile", "--policy", policy) == (2, "", message)


@pytest.mark.parametrize("command", ["check", "explain"])
def test_decisions_need_no_cache_and_warn(run: Run, policy: Path, spoiled_cache: Path, command: str) -> None:
    code, out, err = run(command, "--policy", policy, "a.example")
    assert (code, bool(out)) == (0, True)
    why = f"it cannot be used, and every start compiles anew: {spoiled_cache}: {spoiled_cache} is no folder"
    assert f"warning: {policy}: cache: {why}\n" in err


def test_a_user_without_a_home_is_told(run: Run, policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", home)
    monkeypatch.setattr(sys, "platform", "linux")
    message = "cache: folder: Could not determine home directory.\n"
    assert run("compile", "--policy", policy) == (2, "", message)
    assert message not in run("check", "--policy", policy, "a.example")[2]


# -- another moment, another person ------------------------------------------------------------------------------------

SCHOOL = """
timezone: Europe/Berlin
schedules:
  lessons: {days: mon-fri, times: 08:00-13:00}
categories: {'hrn://c.example/ads': warn}
groups:
- name: staff
  users: [teacher]
  layers: [overrides]
- name: pupils
  clients: [10.0.0.0/24]
  ports: [8080]
  default: {action: block, during: lessons}
layers:
- {name: overrides, lists: [own.yaml]}
- {name: lists, lists: [ads.yaml]}
"""
PUPIL = ("--client", "10.0.0.7", "--port", "8080")


@each_row(
    ("who", "at", "actions", "code"),
    [
        ((), "2026-12-21T09:00", ["pass", "warn"], 1),
        (PUPIL, "2026-12-21T08:00", ["block", "warn"], 1),
        (PUPIL, "2026-12-21T07:59:59.999999", ["pass", "warn"], 1),
        (PUPIL, "2026-12-21T07:00+00:00", ["block", "warn"], 1),
        (PUPIL, "2026-12-20T09:00", ["pass", "warn"], 1),
        (PUPIL[:2], "2026-12-21T09:00", ["pass", "warn"], 1),
        ((*PUPIL, "--user", "teacher"), "2026-12-21T09:00", ["pass", "pass"], 0),
    ],
)
def test_check_answers_for_another_moment_and_person(
    run: Run, policy: Path, who: tuple[str, ...], at: str, actions: list[str], code: int
) -> None:
    policy.write_text(SCHOOL)
    got, out, err = run("check", "--policy", policy, "--at", at, *who, "other.example", "blocked.example")
    assert ([line.split()[0] for line in out.splitlines()], got, err) == (actions, code, "")


def test_explain_shows_the_group_until_when_and_the_layers_to_the_one_that_decided(run: Run, policy: Path) -> None:
    policy.write_text(SCHOOL)

    def explained(*argv: str) -> list[str]:
        code, out, _ = run("explain", "--policy", policy, "--at", "2026-12-21T09:00", *argv)
        assert code == 0
        return out[out.index("Group") :].splitlines()

    assert explained(*PUPIL, "blocked.example/ok") == [
        "Group        pupils, until 2026-12-21 13:00 CET",
        "Layer        overrides: 1 rule, 1 fit  <- decides",
        "Decision     allow",
    ]
    assert explained(*PUPIL, "other.example") == [
        "Group        pupils, until 2026-12-21 13:00 CET",
        "Layer        overrides: 1 rule, 0 fit",
        "Layer        lists: 2 rules, 0 fit",
        "Layer        default: what no layer decides  <- decides",
        "Decision     block",
    ]
    assert explained("blocked.example") == [
        "Group        default",
        "Layer        overrides: 1 rule, 0 fit",
        "Layer        lists: 2 rules, 1 fit  <- decides",
        "Decision     warn",
    ]
    assert explained("--user", "teacher", "blocked.example") == [
        "Group        staff",
        "Layer        overrides: 1 rule, 0 fit",
        "Decision     pass",
    ]


def test_what_a_group_only_tries_out_passes(run: Run, policy: Path) -> None:
    policy.write_text(policy.read_text() + "groups: [{name: pilot, clients: [10.0.0.1], mode: tag}]\n")
    code, out, _ = run("check", "--policy", policy, "--client", "10.0.0.1", "blocked.example")
    assert (code, out.endswith("(it passes: mode tag)\n")) == (0, True)
    code, out, _ = run("check", "--json", "--policy", policy, "--client", "10.0.0.1", "blocked.example")
    assert (code, json.loads(out)["mode"], json.loads(out)["action"]) == (0, "tag", "block")
    _, out, _ = run("explain", "--policy", policy, "--client", "10.0.0.1", "blocked.example")
    assert "Group        pilot, mode tag" in out.splitlines()


# -- compile -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def lists(policy: Path) -> Path:
    """The policy with entries of every fate, and a cache that nobody else uses."""
    Path("ads.yaml").write_text("rules:\n- blocked.example\n- blocked.example\n- x.blocked.example\n- co.uk\n")
    Path("own.yaml").write_text("rules: ['hashed:sha9=0']")
    return policy


def table_of(out: str) -> dict[str, list[str]]:
    """The rows of the table that is printed."""
    rows = [line.split(maxsplit=4) for line in out.splitlines()[1:4]]
    return {name: numbers for *numbers, name in rows}


def test_compile_reports_what_became_of_every_list(run: Run, lists: Path) -> None:
    code, out, err = run("compile", "--policy", lists)
    assert code == 0
    assert out.splitlines()[0].split() == ["read", "kept", "duplicates", "refused"]
    assert table_of(out) == {
        "own.yaml": ["1", "0", "0", "1"],
        "ads.yaml": ["4", "3", "1", "0"],
        "2 files": ["5", "3", "1", "1"],
    }
    assert err == (
        "warning: own.yaml:1: hashed:sha9=0: skipped: unknown algorithm 'sha9' (known: md5, sha1, x-sha256)\n"
        "warning: ads.yaml:5: co.uk/: it is a public suffix (as com is): the rule covers every site below it\n"
    )


def test_compile_reports_the_same_when_the_cache_has_it(run: Run, lists: Path) -> None:
    assert run("compile", "--policy", lists) == run("compile", "--policy", lists)


def test_compile_prints_json(run: Run, lists: Path) -> None:
    code, out, err = run("compile", "--json", "--policy", lists)
    compiled = compile_policy(lists)
    assert code == 0
    index = compiled.index
    about = {"index": index.source, "octets": index.octets, "hot_octets": index.hot_octets, "rules": 3}
    assert json.loads(out) == {**about, "held_back": {}, **compiled.report.to_plain()}
    assert [(own["source"], own["kept"]) for own in json.loads(out)["lists"]] == [("own.yaml", 0), ("ads.yaml", 3)]
    assert [warning["line"] for warning in json.loads(out)["warnings"]] == [1, 5]
    assert len(err.splitlines()) == 2


def test_a_list_that_is_held_back_is_said_and_its_good_copy_decides(run: Run, tmp_path: Path) -> None:
    policy, ads = tmp_path / "policy.yaml", tmp_path / "ads.txt"
    policy.write_text("layers: [{name: lists, lists: [{file: ads.txt, format: domains}]}]")
    ads.write_text("blocked.example\n")
    assert run("compile", "--policy", policy)[0] == 0
    ads.write_text("Too many requests\n")
    why = (
        "held back: nothing in it can be used, and it had 1 rule; its last good copy stays in force; "
        f"to use it as it is: hushlist update --policy {policy} --accept {ads}"
    )
    code, out, err = run("compile", "--json", "--policy", policy)
    assert (code, err) == (1, f"warning: {ads}: list: {why}\n")
    assert json.loads(out)["held_back"] == {str(ads): why}
    assert run("check", "--policy", policy, "http://blocked.example/")[1:] == (
        f"block  http://blocked.example/  blocked.example/ by ads ({ads}:1)\n",
        f"warning: {ads}: list: {why}\n",
    )


def test_a_time_alone_is_one_of_today_by_the_policys_clock(run: Run, policy: Path) -> None:
    text = policy.read_text()
    today = datetime.now(ZoneInfo("Pacific/Kiritimati")).date()
    policy.write_text(
        f"timezone: Pacific/Kiritimati\nschedules: {{now: {{dates: [{today}], times: '20:00-20:30'}}}}\n"
        f"{text.replace('name: lists,', 'name: lists, during: now,')}"
    )
    for at, action in (("19:59", "pass"), ("20:15", "block"), ("20:29:59", "block"), ("20:30", "pass")):
        out = run("check", "--policy", policy, "--at", at, "blocked.example")[1]
        assert out.startswith(action), at


@pytest.mark.parametrize("command", ["check", "explain"])
def test_a_temporary_unblock_is_told(run: Run, policy: Path, command: str) -> None:
    policy.write_text("timezone: Asia/Tokyo\n" + policy.read_text())
    with Overrides(default_path(), time.time) as overrides:
        grant = overrides.grant("host", "blocked.example", 1800, how="command line", by="jo")
    until = f"{datetime.fromtimestamp(grant.until, ZoneInfo('Asia/Tokyo')):%Y-%m-%d %H:%M} JST"
    code, out, _ = run(command, "--policy", policy, "blocked.example")
    assert code == 0
    assert f"unblocked until {until} by command line (grant 1)" in out
    later = f"{datetime.fromtimestamp(grant.until + 60, ZoneInfo('Asia/Tokyo')):%Y-%m-%dT%H:%M}"
    assert "unblocked" not in run(command, "--policy", policy, "--at", later, "blocked.example")[1]
    assert "unblocked" not in run(command, "--policy", policy, "--at", "2026-01-01T10:00", "blocked.example")[1]


def test_a_store_that_cannot_be_read_is_warned_of(run: Run, policy: Path) -> None:
    default_path().parent.mkdir(parents=True)
    default_path().write_bytes(b"no database " * 1000)
    code, _, err = run("check", "--policy", policy, "blocked.example")
    assert (code, err) == (
        1,
        f"warning: temporary unblocks are not looked at: {default_path()}: file is not a database\n",
    )


def test_asking_makes_no_store(run: Run, policy: Path) -> None:
    run("check", "--policy", policy, "blocked.example")
    assert not default_path().exists()


@pytest.mark.parametrize("command", ["check", "explain"])
def test_a_host_that_is_not_decrypted_is_told_as_such(run: Run, policy: Path, command: str) -> None:
    policy.write_text(policy.read_text() + "pass-through: [bank.example]\n")
    told = "its https is not decrypted, and decided by host and address alone: pass-through in policy.yaml:4"
    assert told in run(command, "--policy", policy, "https://www.bank.example/login")[1]
    assert told not in run(command, "--policy", policy, "https://other.example/")[1]


@pytest.mark.parametrize("command", ["check", "explain"])
def test_what_is_decrypted_where_that_is_needed_is_told_as_such(run: Run, policy: Path, command: str) -> None:
    before, told = policy.read_text(), "its https is not decrypted, and decided by host and address alone: decrypt: "
    Path("own.yaml").write_text("rules: [path.example/x]")
    policy.write_text(before + "decrypt: where-needed\n")
    assert told + "where-needed" in run(command, "--policy", policy, "https://other.example/")[1]
    needed = run(command, "--policy", policy, "https://path.example/")[1]
    assert told not in needed
    assert ("\nDecrypted    there are rules for paths on path.example\n" in needed) is (command == "explain")
    policy.write_text(
        policy.read_text().replace("name: overrides,", "name: overrides, checks: {well-known-port: block},")
    )
    assert told + "where-needed" in run(command, "--policy", policy, "https://other.example/")[1]
    policy.write_text(before + "decrypt: never\n")
    assert told + "never" in run(command, "--policy", policy, "https://path.example/")[1]


def test_what_has_connections_decrypted_is_named_where_that_is_asked(run: Run, policy: Path) -> None:
    paths = "rules: [path.example/x, other.example]"
    Path("paths.yaml").write_text(paths)
    Path("hashes.yaml").write_text(f"rules: [path.example/x, {{sha256: {'00' * 32}}}, {{sha256: {'11' * 32}}}]")
    Path("hosts.yaml").write_text(f"covers: hosts\nrules: [a.example, {{sha256: {'00' * 32}}}]")
    layer = "{name: all, checks: {encoded-nul: block, rare-ipv4: block}, lists: [paths.yaml, hashes.yaml, hosts.yaml]}"
    policy.write_text(f"layers: [{layer}]\n")
    assert "decrypt" not in run("compile", "--policy", policy)[1]
    policy.write_text(f"layers: [{layer}]\ndecrypt: where-needed\n")
    everything = "everything is decrypted where its layer is asked"
    assert run("compile", "--policy", policy)[1].splitlines()[-3:] == [
        "decrypt: paths.yaml: 1 rule for less than a host: these hosts are decrypted",
        f"decrypt: hashes.yaml: 2 rules may be of paths on any host: {everything}",
        f"decrypt: the check encoded-nul in layer all needs the requests: {everything}",
    ]


@pytest.mark.parametrize("command", ["check", "explain"])
def test_a_rule_that_needs_a_fragment_is_told_as_such(run: Run, policy: Path, command: str) -> None:
    Path("own.yaml").write_text("rules: ['hashed:sha1=31a79a96e0404778a3b95cb426b04b6114a604a5+frag']")
    told = "its rule needs the fragment, which live traffic does not have"
    assert told in run(command, "--policy", policy, "http://www.thus.net#end")[1]
    assert told not in run(command, "--policy", policy, "http://blocked.example/")[1]


def test_explain_says_which_policy_it_asked(run: Run, policy: Path) -> None:
    assert "\nPolicy       policy.yaml\n" in run("explain", "--policy", policy, "other.example")[1]
    shipped = f"\nPolicy       {shipped_policy()} (--policy names another)\n"
    assert shipped in run("explain", "other.example")[1]


def test_compile_warns_of_rules_that_cover_popular_domains(run: Run, policy: Path) -> None:
    Path("popular.csv").write_text("1,other.example\n2,www.blocked.example\n")
    assert run("compile", "--policy", policy, "--popular", "popular.csv")[::2] == (
        0,
        "warning: ads.yaml:2: blocked.example/: it covers www.blocked.example, number 2 of the popular domains\n",
    )


def test_compile_takes_the_shipped_policy_where_none_is_given(run: Run) -> None:
    code, out, _ = run("compile")
    assert code == 0
    assert str(shipped_policy().parent) in out


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_compile_names_all_that_cannot_be_used(run: Run, policy: Path, options: list[str]) -> None:
    Path("ads.yaml").write_text("rules:\n- '..'\n")
    assert run("compile", "--policy", policy, "--popular", "none.csv", *options) == (
        2,
        "",
        f"none.csv: No such file or directory\nads.yaml:2: ..: {NO_HOST}\n",
    )


@pytest.mark.slow
def test_without_a_terminal_there_is_no_progress(lists: Path) -> None:
    done = process("compile", "--policy", str(lists.absolute()))
    assert done.returncode == 0
    assert b"\r" not in done.stderr
    assert [line.split(b":")[0] for line in done.stderr.splitlines()] == [b"warning"] * 2


def on_a_terminal(*argv: str, output: bool = False) -> tuple[int, str]:
    """The exit code of the command, and what it shows on a terminal as its standard error, and perhaps as output."""
    pty = pytest.importorskip("pty")
    reader, writer = pty.openpty()
    with Path(os.devnull).open("r+b") as nothing:
        out = writer if output else nothing.fileno()
        started = copied(*argv, stdin=nothing.fileno(), stdout=out, stderr=writer, TERM=os.environ.get("TERM", "xterm"))
    os.close(writer)
    shown = b""
    try:
        while octets := os.read(reader, 1 << 16):
            shown += octets
    except OSError:  # Linux: the other end is closed
        pass
    os.close(reader)
    return os.waitstatus_to_exitcode(os.waitpid(started, 0)[1]), shown.decode().replace("\r\n", "\n")


@pytest.mark.slow
def test_on_a_terminal_there_is_progress_which_is_removed_at_the_end(lists: Path) -> None:
    code, shown = on_a_terminal("compile", "--policy", str(lists.absolute()))
    assert code == 0
    steps = shown.split("\r")
    assert [step for step in steps if step.endswith("100%")] == [
        f"{what:<9} [{'#' * 30}] 100%" for what in ("read", "sorted")
    ]
    *_, last, removed, warnings = steps
    assert removed == " " * len(removed)
    assert len(removed) >= len(last)
    assert [line.partition(" ")[0] for line in warnings.splitlines()] == ["\x1b[33mwarning:\x1b[0m"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_who_wants_no_colors_gets_none(lists: Path, monkeypatch: pytest.MonkeyPatch, variable: dict[str, str]) -> None:
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    code, shown = on_a_terminal("compile", "--policy", str(lists.absolute()))
    assert (code, "\x1b" in shown) == (0, False)
    assert shown.count("warning: ") == 2


@pytest.mark.slow
def test_a_terminal_shows_at_once_what_is_stopped_and_what_passes(policy: Path) -> None:
    urls = ("blocked.example", "other.example", "tagged.example", "/x")
    code, shown = on_a_terminal("check", "--policy", str(policy.absolute()), *urls, output=True)
    assert code == 2
    assert [line.partition("example")[0] for line in shown.splitlines()[:3]] == [
        "\x1b[31mblock\x1b[0m  blocked.",
        "\x1b[32mpass\x1b[0m   other.",
        "tag    tagged.",
    ]
    assert f"\x1b[31mhushlist:\x1b[0m '/x': {NO_HOST}" in shown


def test_on_a_terminal_a_result_begins_its_line(policy: Path) -> None:
    code, shown = on_a_terminal("lint", str(policy.with_name("ads.yaml").absolute()), output=True)
    assert code == 0
    assert [line.rpartition("\r")[2] for line in shown.split("\n")] == ["2 rules in 1 file: nothing found", ""]


def test_what_is_printed_while_progress_is_shown_begins_its_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("os.get_terminal_size", lambda _: os.terminal_size((80, 24)))
    monkeypatch.setattr("sys.stderr.fileno", lambda: 2)
    monkeypatch.setenv("NO_COLOR", "1")
    with common.shown_progress() as show:
        assert show is not None
        show("read", 1, 2)
        common.print_line("a finding")
        common.print_line("another")
        show("read", 2, 2)
        common.print_json({})
        show("read", 2, 2)
        common.complain("an error")
    out, err = capsys.readouterr()
    assert out == "a finding\nanother\n{}\n"
    bar = f"\rread      [{'#' * 15:<30}]  50%"
    removed = "\r" + " " * (len(bar) - 1) + "\r"
    full = f"\rread      [{'#' * 30}] 100%"
    assert err == f"{bar}{removed}{full}{removed}{full}{removed}hushlist: an error\n"


@pytest.mark.slow
def test_on_a_terminal_errors_do_not_stand_behind_the_progress(policy: Path) -> None:
    Path("ads.yaml").write_text("rules: ['..']")
    code, shown = on_a_terminal("compile", "--policy", str(policy.absolute()))
    assert code == 2
    *_, last, removed, error = shown.split("\r")
    assert last.startswith("read ")
    assert removed == " " * len(removed)
    assert len(removed) >= len(last)
    assert error == f"{policy.absolute().with_name('ads.yaml')}:1: ..: {NO_HOST}\n"


# -- helper ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def squid_policy(tmp_path: Path) -> Path:
    (tmp_path / "first.yaml").write_text(RULES)
    (tmp_path / "policy.yaml").write_text("layers:\n- {name: lists, lists: [first.yaml]}\n")
    return tmp_path / "policy.yaml"


def ask(*argv: str | Path, stdin: bytes = b"", cwd: Path | None = None) -> tuple[int, bytes, str]:
    """Run ``hushlist helper``; gives (exit code, output, errors)."""
    done = process("helper", *argv, stdin=stdin, cwd=cwd)
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.mark.slow
def test_the_command_answers_until_its_input_ends(squid_policy: Path) -> None:
    stdin = b"0 http://blocked.example/ -\n1 http://other.example/ -\nother.example:443 -"
    assert ask("--acl", "--policy", squid_policy.name, stdin=stdin, cwd=squid_policy.parent) == (
        0,
        b"0 " + ADS + b"\n1 ERR\nERR\n",
        "",
    )


@pytest.mark.slow
def test_the_command_redirects(squid_policy: Path) -> None:
    stdin = b"0 http://blocked.example/" + EXTRAS + b"\n"
    argv = ("--redirect", "http://page.example/?%r", "--policy", squid_policy.name)
    assert ask(*argv, stdin=stdin, cwd=squid_policy.parent) == (
        0,
        b'0 OK status=302 url="http://page.example/?Ads" tag="hrn://c.example/ads" '
        b'log="blocked.example/ by first (first.yaml:3): Ads"\n',
        "",
    )


@pytest.mark.slow
def test_nothing_to_answer_is_no_fault() -> None:
    assert ask("--acl") == (0, b"", "")


@pytest.mark.slow
def test_a_policy_that_cannot_be_used_is_reported_before_anything_is_answered(squid_policy: Path) -> None:
    (squid_policy.parent / "first.yaml").write_text("rules: ['..']")
    assert ask("--acl", "--policy", squid_policy.name, stdin=b"x\n", cwd=squid_policy.parent) == (
        2,
        b"",
        "first.yaml:1: ..: it names no host\n",
    )


@pytest.mark.slow
def test_a_page_that_is_blocked_itself_is_warned_of(squid_policy: Path) -> None:
    code, out, err = ask(
        "--redirect", "http://blocked.example/?%u", "--policy", squid_policy.name, cwd=squid_policy.parent
    )
    assert (code, out) == (0, b"")
    assert err == (
        "hushlist: warning: the page to redirect to is blocked itself: blocked.example/ by first (first.yaml:3): Ads\n"
    )


@pytest.mark.slow
def test_a_closed_pipe_ends_the_helper_quietly(squid_policy: Path) -> None:
    done = into_a_closed_pipe("helper", "--acl", "--policy", squid_policy)
    assert (done.returncode, done.stderr) == (0, b"")
