"""``hushlist compile``, ``check``, ``explain`` and ``helper``: exact output, errors, exit codes, progress."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hushlist.compiling.policy_compiler import compile_policy
from hushlist.match.expressions import full_hash
from hushlist.policy import shipped_policy
from unit.cli.running import COMMAND, NO_HOST, Run, environment, into_a_closed_pipe, process
from unit.test_squid import ADS, EXTRAS, RULES

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


@pytest.mark.parametrize(
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


def test_warnings_are_on_standard_error(run: Run, policy: Path) -> None:
    Path("own.yaml").write_text("rules: ['hashed:sha9=0']")
    assert run("check", "--policy", policy, "other.example") == (
        0,
        "pass   other.example\n",
        "warning: own.yaml:1: hashed:sha9=0: skipped: unknown algorithm 'sha9' (known: md5, sha1, x-sha256)\n",
    )


def test_without_a_policy_the_shipped_one_decides(run: Run) -> None:
    code, out, err = run("check", "other.example")
    assert (code, out) == (0, "pass   other.example\n")
    assert "Traceback" not in err


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
        "Layer        overrides: 1 rules, 0 fit",
        "Layer        lists: 2 rules, 1 fit  <- decides",
        "Decision     block",
    ):
        assert line in out.splitlines()


def test_explain_marks_the_one_match_that_decides(run: Run, policy: Path) -> None:
    Path("ads.yaml").write_text("rules: [blocked.example, x.blocked.example]")
    policy.write_text("layers: [{name: lists, lists: [ads.yaml]}]\n")
    _, out, _ = run("explain", "--policy", policy, "http://x.blocked.example/")
    assert [line for line in out.splitlines() if line.startswith("  layer")] == [
        "  layer lists: block x.blocked.example/ by ads (ads.yaml:1)  <- decides",
        "  layer lists: block blocked.example/ by ads (ads.yaml:1)",
    ]


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
        "Layer        own: 1 rules, 1 fit",
        "Layer        lists: 3 rules, 3 fit  <- decides",
    ]


def test_explain_names_what_cannot_be_read(run: Run, policy: Path) -> None:
    code, out, err = run("explain", "--policy", policy, "mailto:me", "a%2fb.example")
    assert code in (0, 2)
    assert err == f"hushlist: 'mailto:me': {NO_HOST}\n"
    assert out.endswith("Decision     block (there is a delimiter in the host)\n")


# -- both --------------------------------------------------------------------------------------------------------------


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
    message = f"{spoiled_cache}: cache: it cannot be used: File exists\n"
    assert run("compile", "--policy", policy) == (2, "", message)


@pytest.mark.parametrize("command", ["check", "explain"])
def test_decisions_need_no_cache_and_warn(run: Run, policy: Path, spoiled_cache: Path, command: str) -> None:
    code, out, err = run(command, "--policy", policy, "a.example")
    assert (code, bool(out)) == (0, True)
    why = f"it cannot be used, and every start compiles anew: {spoiled_cache}: File exists"
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


@pytest.mark.parametrize(
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

    def told(*argv: str) -> list[str]:
        code, out, _ = run("explain", "--policy", policy, "--at", "2026-12-21T09:00", *argv)
        assert code == 0
        return out[out.index("Group") :].splitlines()

    assert told(*PUPIL, "blocked.example/ok") == [
        "Group        pupils, until 2026-12-21 13:00 CET",
        "Layer        overrides: 1 rules, 1 fit  <- decides",
        "Decision     allow",
    ]
    assert told(*PUPIL, "other.example") == [
        "Group        pupils, until 2026-12-21 13:00 CET",
        "Layer        overrides: 1 rules, 0 fit",
        "Layer        lists: 2 rules, 0 fit",
        "Layer        default: what no layer decides  <- decides",
        "Decision     block",
    ]
    assert told("blocked.example") == [
        "Group        default",
        "Layer        overrides: 1 rules, 0 fit",
        "Layer        lists: 2 rules, 1 fit  <- decides",
        "Decision     warn",
    ]
    assert told("--user", "teacher", "blocked.example") == [
        "Group        staff",
        "Layer        overrides: 1 rules, 0 fit",
        "Decision     pass",
    ]


@pytest.mark.parametrize(
    ("option", "text", "why"),
    [
        ("--at", "yesterday", "no time such as 2026-12-24T22:30"),
        ("--at", "9999-12-31T23:59-14:00", "no time such as"),
        ("--port", "http", "no number from 1 on"),
        ("--port", "65536", "no port up to 65535"),
        ("--port", "²", "no number"),
        ("--client", "mueller", "no address such as 192.168.1.7"),
    ],
)
def test_a_moment_port_or_client_that_is_none_is_wrong_usage(
    run: Run, policy: Path, option: str, text: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run("check", "--policy", policy, option, text, "a.example")
    assert ended.value.code == 2
    assert f"argument {option}: {text!r} is {why}" in capsys.readouterr().err


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
    rows = [line.split(maxsplit=5) for line in out.splitlines()[1:4]]
    return {name: numbers for *numbers, name in rows}


def test_compile_reports_what_became_of_every_list(run: Run, lists: Path) -> None:
    code, out, err = run("compile", "--policy", lists)
    assert code == 0
    assert out.splitlines()[0].split() == ["read", "kept", "duplicates", "refused", "covered"]
    assert table_of(out) == {
        "own.yaml": ["1", "0", "0", "1", "0"],
        "ads.yaml": ["4", "3", "1", "0", "1"],
        "2 files": ["5", "3", "1", "1", "1"],
    }
    assert out.splitlines()[4] == (
        "covered in ads.yaml: line 4: x.blocked.example/: blocked.example/ by ads (ads.yaml:2)"
    )
    assert err == (
        "warning: own.yaml:1: hashed:sha9=0: skipped: unknown algorithm 'sha9' (known: md5, sha1, x-sha256)\n"
        "warning: ads.yaml:5: co.uk/: it is a public suffix (ICANN section): the rule covers every site below it\n"
    )


def test_compile_reports_the_same_when_the_cache_has_it(run: Run, lists: Path) -> None:
    assert run("compile", "--policy", lists) == run("compile", "--policy", lists)


def test_compile_prints_json(run: Run, lists: Path) -> None:
    code, out, err = run("compile", "--json", "--policy", lists)
    compiled = compile_policy(lists)
    assert code == 0
    index = compiled.index
    about = {"index": index.source, "octets": index.octets, "hot_octets": index.hot_octets, "rules": 3}
    assert json.loads(out) == {**about, **compiled.report.as_dict()}
    assert [(own["source"], own["kept"]) for own in json.loads(out)["lists"]] == [("own.yaml", 0), ("ads.yaml", 3)]
    assert [warning["line"] for warning in json.loads(out)["warnings"]] == [1, 5]
    assert len(err.splitlines()) == 2


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


def test_without_a_terminal_there_is_no_progress(lists: Path) -> None:
    done = process("compile", "--policy", str(lists.absolute()))
    assert done.returncode == 0
    assert b"\r" not in done.stderr
    assert [line.split(b":")[0] for line in done.stderr.splitlines()] == [b"warning"] * 2


def on_a_terminal(*argv: str) -> tuple[int, str]:
    """The exit code of the command, and what it shows on a terminal as its standard error."""
    pty = pytest.importorskip("pty")
    reader, writer = pty.openpty()
    command = [*COMMAND, *argv]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writer, env=environment()) as started:
        os.close(writer)
        shown = b""
        try:
            while octets := os.read(reader, 1 << 16):
                shown += octets
        except OSError:  # Linux: the other end is closed
            pass
        os.close(reader)
    return started.returncode, shown.decode().replace("\r\n", "\n")


def test_on_a_terminal_there_is_progress_which_is_removed_at_the_end(lists: Path) -> None:
    code, shown = on_a_terminal("compile", "--policy", str(lists.absolute()))
    assert code == 0
    steps = shown.split("\r")
    assert [step for step in steps if step.endswith("100%")] == [
        f"{what:<9} [{'#' * 30}] 100%" for what in ("read", "sorted", "compared")
    ]
    *_, last, removed, warnings = steps
    assert removed == " " * len(removed)
    assert len(removed) >= len(last)
    assert [line.partition(":")[0] for line in warnings.splitlines()] == ["warning"] * 2


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


def test_the_command_answers_until_its_input_ends(squid_policy: Path) -> None:
    stdin = b"0 http://blocked.example/ -\n1 http://other.example/ -\nother.example:443 -"
    assert ask("--acl", "--policy", squid_policy.name, stdin=stdin, cwd=squid_policy.parent) == (
        0,
        b"0 " + ADS + b"\n1 ERR\nERR\n",
        "",
    )


def test_the_command_redirects(squid_policy: Path) -> None:
    stdin = b"0 http://blocked.example/" + EXTRAS + b"\n"
    argv = ("--redirect", "http://page.example/?%r", "--policy", squid_policy.name)
    assert ask(*argv, stdin=stdin, cwd=squid_policy.parent) == (
        0,
        b'0 OK status=302 url="http://page.example/?Ads" tag="hrn://c.example/ads" '
        b'log="blocked.example/ by first (first.yaml:3): Ads"\n',
        "",
    )


def test_nothing_to_answer_is_no_fault() -> None:
    assert ask("--acl") == (0, b"", "")


def test_a_policy_that_cannot_be_used_is_reported_before_anything_is_answered(squid_policy: Path) -> None:
    (squid_policy.parent / "first.yaml").write_text("rules: ['..']")
    assert ask("--acl", "--policy", squid_policy.name, stdin=b"x\n", cwd=squid_policy.parent) == (
        2,
        b"",
        "first.yaml:1: ..: it names no host\n",
    )


def test_a_page_that_is_blocked_itself_is_warned_of(squid_policy: Path) -> None:
    code, out, err = ask(
        "--redirect", "http://blocked.example/?%u", "--policy", squid_policy.name, cwd=squid_policy.parent
    )
    assert (code, out) == (0, b"")
    assert err == (
        "hushlist: warning: the page to redirect to is blocked itself: blocked.example/ by first (first.yaml:3): Ads\n"
    )


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        ([], "one of the arguments --acl --redirect is required"),
        (["--acl", "--redirect", "http://h/"], "argument --redirect: not allowed with argument --acl"),
        (["--redirect", "http://h/%n"], "argument --redirect: 'http://h/%n': %n is none of %u, %a, %i, %t, %r, %l, %%"),
        (["--redirect", "/page"], "argument --redirect: '/page': expected http:// or https://, a host, and what"),
    ],
)
def test_wrong_usage_of_the_helper_exits_with_2(argv: list[str], error: str) -> None:
    code, out, err = ask(*argv)
    assert (code, out) == (2, b"")
    assert error in err


def test_a_closed_pipe_ends_the_helper_quietly(squid_policy: Path) -> None:
    done = into_a_closed_pipe("helper", "--acl", "--policy", squid_policy)
    assert (done.returncode, done.stderr) == (0, b"")
