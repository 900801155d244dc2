"""The command line: exact output, errors, exit codes."""

import argparse
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hushlist import cli
from hushlist.lists.plain import read_urls
from hushlist.lists.source import Defaults, Report
from hushlist.match.hashing import full_hash
from hushlist.policy import shipped_policy
from hushlist.policy.compile import compile_policy

PACKAGE_ROOT = Path(cli.__file__).parents[1]
NO_HOST = "it names no host"


class Run:
    """Calls ``main`` with arguments and octets on standard input; gives ``(exit code, output, errors)``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *argv: str | Path, stdin: bytes = b"") -> tuple[int, str, str]:
        self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = cli.main([str(argument) for argument in argv])
        out, err = self._capsys.readouterr()
        return code, out, err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(monkeypatch, capsys)


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own.yaml").write_text("rules: [{expression: blocked.example/ok, action: allow}]")
    (tmp_path / "ads.yaml").write_text(
        "rules:\n- {expression: blocked.example, reason: Ads, category: 'hrn://c.example/ads'}\n"
        "- {expression: tagged.example, action: tag}\n"
    )
    (tmp_path / "policy.yaml").write_text(
        "layers:\n- {name: overrides, lists: [own.yaml]}\n- {name: lists, lists: [ads.yaml]}\n"
    )
    monkeypatch.chdir(tmp_path)
    return Path("policy.yaml")


# -- canonicalize, expressions, hash ---------------------------------------------------------------------------------


def test_canonicalize_prints_one_canonical_url_a_line(run: Run) -> None:
    assert run("canonicalize", "HTTP://H.example:80/a/..", "www.google.com") == (
        0,
        "http://h.example/\nhttp://www.google.com/\n",
        "",
    )


def test_canonicalize_keeps_one_line_for_each_line_it_reads(run: Run) -> None:
    stdin = b"http://a.example\r\n\nmailto:me\nhttp://\xff/\x0b\x0c\xe2\x80\xa8x\nhttp://b/a\rb\n\tc.example"
    code, out, err = run("canonicalize", "-", stdin=stdin)
    assert out == "http://a.example/\n\n\nhttp://%FF/%0B%0C%E2%80%A8x\nhttp://b/ab\nhttp://c.example/\n"
    assert err == f"hushlist: b'': {NO_HOST}\nhushlist: b'mailto:me': {NO_HOST}\n"
    assert code == 2


def test_arguments_and_standard_input_keep_their_order(run: Run) -> None:
    assert run("canonicalize", "a", "-", "b", stdin=b"x\ny\n")[1] == "http://a/\nhttp://x/\nhttp://y/\nhttp://b/\n"


def test_standard_input_that_is_empty_gives_nothing(run: Run) -> None:
    assert run("canonicalize", "-") == (0, "", "")


def test_expressions_are_printed_one_a_line(run: Run) -> None:
    assert run("expressions", "http://a.b.c/1/2.html?param=1") == (
        0,
        "a.b.c/1/2.html?param=1\na.b.c/1/2.html\na.b.c/1/\na.b.c/\nb.c/1/2.html?param=1\nb.c/1/2.html\nb.c/1/\nb.c/\n",
        "",
    )


def test_hash_prints_expression_tab_and_sha_256(run: Run) -> None:
    lines = "".join(f"{text}\t{full_hash(text.encode()).hex()}\n" for text in ("a.example/x", "a.example/"))
    assert run("hash", "http://a.example/x") == (0, lines, "")


@pytest.mark.parametrize("command", ["expressions", "hash"])
def test_a_url_that_cannot_be_read_is_named_and_the_rest_goes_on(run: Run, command: str) -> None:
    code, out, err = run(command, "/x", "a.example")
    assert (code, err) == (2, f"hushlist: b'/x': {NO_HOST}\n")
    assert out.startswith("a.example/")


def test_an_argument_s_octets_are_taken_as_they_are(run: Run) -> None:
    assert run("canonicalize", os.fsdecode(b"http://h/\xff"))[1] == "http://h/%FF\n"


def test_the_hashed_uri_of_a_url_is_printed_on_demand(run: Run) -> None:
    assert run("hash", "--uri", "http://www.thus.net") == (
        0,
        "hashed:sha1=87ed28009f511ed7ef630180a229ba257180a481\n",
        "",
    )
    assert run("hash", "--uri", "--keep-fragment", "http://www.thus.net#end")[1] == (
        "hashed:sha1=31a79a96e0404778a3b95cb426b04b6114a604a5+frag\n"
    )
    assert run("hash", "--uri", "--algorithm", "md5", "mailto:clive@demon.net")[1] == (
        "hashed:md5=cd933f3b87ee60e58917448c9678ee32\n"
    )


# -- profiles, compare -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("safebrowsing", "http://h.example/b/c.html"),
        ("simple", "HTTP://H.example:80/a/../b//%63.html"),
        ("syntax", "http://h.example:80/b//c.html"),
        ("scheme", "http://h.example/b//c.html"),
        ("hashed-n", "http://h.example/b//c.html"),
        ("hashed-p", "http://h.example/b/c.htm"),
    ],
)
def test_canonicalize_knows_every_profile(run: Run, profile: str, expected: str) -> None:
    assert run("canonicalize", "--profile", profile, "HTTP://H.example:80/a/../b//%63.html") == (0, f"{expected}\n", "")


def test_profiles_are_listed_with_their_steps(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("canonicalize", "--list-profiles")
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        *("safebrowsing", "simple", "syntax", "scheme", "hashed-n", "hashed-p")
    ]
    assert lines[2].startswith("syntax: split_generic, map_to_uri, lowercase_scheme, ")


@pytest.mark.parametrize(
    ("argv", "code", "rung"),
    [
        (["http://h.example/a", "http://h.example/a"], 0, "simple"),
        (["http://h.example/a", "HTTP://h.example/%61"], 0, "syntax"),
        (["http://h.example", "http://h.example:80/"], 0, "scheme"),
        (["http://bücher.example/", "http://xn--bcher-kva.example/"], 0, "scheme"),
        (["http://h.example/a", "http://h.example/a/"], 1, "different"),
        (["http://h.example/a", "http://h.example/a/", "--redirect", "http://h.example/a", "/a/"], 0, "protocol"),
        (["../a", "http://h.example/a", "--base", "http://h.example/x/y"], 0, "simple"),
    ],
)
def test_compare_prints_the_lowest_rung(run: Run, argv: list[str], code: int, rung: str) -> None:
    assert run("compare", *argv) == (code, f"{rung}\n", "")


def test_compare_explains_what_each_step_changed(run: Run) -> None:
    code, out, _ = run("compare", "--explain", "http://H.example:80", "http://h.example/")
    assert code == 0
    assert out.splitlines() == [
        "scheme",
        "http://H.example:80",
        "  lowercase_host               http://h.example:80",
        "  remove_port                  http://h.example",
        "  complete_path                http://h.example/",
        "http://h.example/",
    ]


@pytest.mark.parametrize("argv", [["--base", "relative"], ["--redirect", "relative", "/a/"]])
def test_compare_names_what_is_not_absolute(run: Run, argv: list[str]) -> None:
    code, out, err = run("compare", "a", "b", *argv)
    assert (code, out) == (2, "")
    assert "b'relative'" in err or "'relative'" in err


# -- compile ---------------------------------------------------------------------------------------------------------


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
        f"none.csv: none.csv: No such file or directory\nads.yaml:2: ..: {NO_HOST}\n",
    )


@pytest.mark.parametrize("command", [["check", "a"], ["explain", "a"], ["compile"]])
def test_a_cache_that_cannot_be_written_is_named_with_the_reason(
    run: Run, policy: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    file = policy.absolute().with_name("hushlist")
    file.write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(file.parent))
    monkeypatch.setattr(sys, "platform", "linux")
    assert run(*command, "--policy", policy) == (2, "", f"{file}: cache: it cannot be used: File exists\n")


def test_a_user_without_a_home_is_told(run: Run, policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", home)
    monkeypatch.setattr(sys, "platform", "linux")
    message = "cache: folder: Could not determine home directory.\n"
    assert run("check", "--policy", policy, "a.example") == (2, "", message)


def test_without_a_terminal_there_is_no_progress(lists: Path) -> None:
    done = process("compile", "--policy", str(lists.absolute()))
    assert done.returncode == 0
    assert b"\r" not in done.stderr
    assert [line.split(b":")[0] for line in done.stderr.splitlines()] == [b"warning"] * 2


def on_a_terminal(*argv: str) -> tuple[int, str]:
    """The exit code of the command, and what it shows on a terminal as its standard error."""
    pty = pytest.importorskip("pty")
    reader, writer = pty.openpty()
    command = [sys.executable, "-c", "from hushlist.cli import run; run()", *argv]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writer, env=environment) as started:
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


# -- check -----------------------------------------------------------------------------------------------------------


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
    assert (code, err) == (2, f"hushlist: b'mailto:me': {NO_HOST}\n")


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
    assert run("check", "--policy", "none.yaml", "a") == (2, "", "none.yaml: none.yaml: No such file or directory\n")


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


# -- extract ---------------------------------------------------------------------------------------------------------

MAIL = (
    b'See "http://Games.Example/a/../Play#now", <mailto:me@h.example> and <http://h.example/in-\r\n dex.html>,\r\n'
    b"(www.h.example/caf\xe9), HTTP://games.example:80/Play.\r\n"
)


@pytest.mark.parametrize("files", [[], ["-"]])
def test_extract_prints_the_uris_of_a_text_one_a_line(run: Run, files: list[str]) -> None:
    assert run("extract", *files, stdin=MAIL) == (
        0,
        "http://Games.Example/a/../Play#now\nmailto:me@h.example\nhttp://h.example/in-dex.html\n"
        "http://h.example/index.html\nwww.h.example/caf\\xe9\nHTTP://games.example:80/Play\n",
        "",
    )


def test_extract_makes_a_list_of_expressions(run: Run, tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_bytes(MAIL)
    code, out, err = run("extract", "--expressions", mail)
    assert out == "games.example/Play\nh.example/in-dex.html\nh.example/index.html\nwww.h.example/caf%E9\n"
    assert (code, err) == (0, f"hushlist: {mail}:1: mailto:me@h.example: left out: {NO_HOST}\n")
    report = Report("urls")
    assert [str(rule.pattern) for rule in read_urls(out.encode(), Defaults(), report)] == out.splitlines()
    assert (report.errors, report.warnings) == ([], [])


@pytest.mark.parametrize(
    ("argv", "stdin", "code"),
    [
        (["extract"], b"http://h.example", 0),
        (["extract"], b"no URI: none", 1),
        (["extract"], b"", 1),
        (["extract", "--expressions"], b"mailto:me@h.example", 1),
    ],
)
def test_extract_exits_with_1_where_there_is_nothing(run: Run, argv: list[str], stdin: bytes, code: int) -> None:
    assert run(*argv, stdin=stdin)[0] == code


@pytest.mark.parametrize("order", [("none.txt", "-"), ("-", "none.txt")])
def test_extract_names_a_file_that_is_not_there_and_reads_the_rest(run: Run, order: tuple[str, str]) -> None:
    found = run("extract", *order, stdin=b"http://h.example")
    assert found == (2, "http://h.example\n", "hushlist: none.txt: No such file or directory\n")


# -- explain ---------------------------------------------------------------------------------------------------------


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
    assert err == f"hushlist: b'mailto:me': {NO_HOST}\n"
    assert out.endswith("Decision     block (there is a delimiter in the host)\n")


# -- usage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["check"], ["check", "--nonsense", "a"], ["canonicalize"]])
def test_wrong_usage_exits_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(argv)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: hushlist")


def commands() -> dict[str, argparse.ArgumentParser]:
    parser = cli._parser()
    (subparsers,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {"": parser, **subparsers.choices}


@pytest.mark.parametrize("command", list(commands()))
def test_every_command_and_option_is_explained(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([*filter(None, [command]), "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for action in commands()[command]._actions:
        if isinstance(action, argparse._SubParsersAction):
            assert {choice.dest for choice in action._choices_actions if choice.help} == set(action.choices)
            assert all(f"\n    {name}" in text for name in action.choices)
        else:
            assert action.help
            assert action.help != argparse.SUPPRESS
            names = action.option_strings or [str(action.metavar or action.dest)]
            assert all(name in text for name in names)


def test_the_commands_that_others_use_are_there() -> None:
    assert set(commands()) >= {"canonicalize", "expressions", "hash", "check", "explain", "compile"}


# -- the process -----------------------------------------------------------------------------------------------------


def process(*argv: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", "from hushlist.cli import run; run()", *argv]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT), **environment}
    return subprocess.run(command, input=stdin, capture_output=True, env=environment, check=False)


def test_the_process_exits_with_the_code() -> None:
    done = process("canonicalize", "-", stdin=b"a.example\n/x\n")
    assert (done.returncode, done.stdout) == (2, b"http://a.example/\n\n")
    assert done.stderr.replace(b"\r", b"") == f"hushlist: b'/x': {NO_HOST}\n".encode()


def test_a_closed_pipe_ends_it_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", "from hushlist.cli import run; run()", "canonicalize", "-"]
    with os.fdopen(writer, "wb") as stdout:
        done = subprocess.run(
            command,
            input=b"a.example\n" * 10_000,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)},
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, b"")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_json_whatever_the_terminal_can_show(encoding: str) -> None:
    url = "http://bücher.example/\U0001f600"
    done = process("check", "--json", "-", stdin=url.encode(), PYTHONIOENCODING=encoding)
    assert json.loads(done.stdout.decode(encoding))["url"] == url


def test_the_console_script_is_this_command() -> None:
    script = Path(sys.executable).with_name("hushlist")
    if not script.exists():
        pytest.skip("hushlist is not installed in this environment; the tests run it from the checkout")
    done = subprocess.run([script, "canonicalize", "GOOgle.com"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"http://google.com/\n")
