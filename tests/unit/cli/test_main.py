"""The command line as a whole: usage, help, the process, and what is imported."""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hushlist import __version__, cli
from unit.cli.running import COMMAND, NO_HOST, environment, into_a_closed_pipe, process
from unit.rows import each_row

# -- usage -------------------------------------------------------------------------------------------------------------


_NO_TIME, _NO_NUMBER = "{!r} is no time such as 2026-12-24T22:30", "{!r} is no number from 1 on"
_NO_ADDRESS = "{!r} is no address such as 192.168.1.7"


@each_row(
    ("command", "texts", "error"),
    [
        ("{}", ["nonsense", "check", "canonicalize"], ""),
        ("check --nonsense {}", ["a"], ""),
        ("check a --at={}", ["yesterday", "9999-12-31T23:59-14:00", "24:00", "8:00", "20:15x", "noon"], _NO_TIME),
        ("check a --port={}", ["http", "²"], _NO_NUMBER),
        ("check a --port={}", ["65536"], "{!r} is no port up to 65535"),
        ("check a --client={}", ["mueller"], _NO_ADDRESS),
        (
            "check a --page={}",
            ["", "about:blank", "not a page", "https://", "data:text/html,x"],
            "{!r} names no page: ",
        ),
        ("leak a --dictionary b --jobs={}", ["0", "x"], _NO_NUMBER),
        ("leak a --dictionary b --jobs={}", ["1000"], "{!r} is more than 256"),
        (
            "diff a b --max-removed={}",
            ["x", "-1", "nan", "inf%", ""],
            "{!r} is neither a number nor a share such as 0.5%",
        ),
        ("prefixes a --length={}", ["3", "33", "x"], "{!r} is no length from 4 to 32"),
        ("conformance --command={}", ["a 'b"], "is no command: a quote is open"),
        (
            "serve-lists --list={}",
            ["ads.domains", "=MALWARE", "a=", "a=malware"],
            "{!r} is no NAME=TYPE with a type of ",
        ),
        ("helper {}", ["--policy=a"], "one of the arguments --acl --redirect is required"),
        ("helper --acl --redirect={}", ["http://h/"], "argument --redirect: not allowed with argument --acl"),
        ("helper --redirect={}", ["http://h/%n"], "{!r}: %n is none of %u, %o, %a, %i, %t, %r, %l, %%"),
        ("helper --redirect={}", ["/page"], "{!r}: expected http:// or https://, a host, and what"),
        ("log tail -n {}", ["0"], _NO_NUMBER),
        ("log tail --since={}", ["yesterday", "999999w"], f"{_NO_TIME}, 2h or 3d"),
        ("log tail --category={}", ["adz"], "did you mean 'ads'?"),
        ("log tail --host={}", ["a/b"], "there is a delimiter in the host"),
        ("log tail --action={}", ["nothing"], "invalid choice"),
        ("log top --by={}", ["url"], "invalid choice"),
        ("log {}", ["show"], "REF"),
        ("log show {}", ["123"], "{!r} is no reference number"),
        (
            "override grant a --for={}",
            ["", "30", "m", "0m", "-5m", "1.5h", "30m1h", "30 m", "367d", "٣٠m", "9" * 30 + "d"],
            "expected a time such as 30m",
        ),
        (
            "override grant a --for=1h --client={}",
            ["jo", "", "user:", "10.0.0", "h.example"],
            f"{_NO_ADDRESS}; a user is written user:NAME",
        ),
        ("override {} --for=25h", ["internet-off", "filter-off"], "a day at most"),
        ("override approve {}", ["9" * 20], _NO_NUMBER),
        ("diff a b {}", ["--odd", "c"], "hushlist diff: error: unrecognized arguments: {}"),
        ("log tail {}", ["--odd"], "hushlist log tail: error: unrecognized arguments: {}"),
        ("admin token make --role=view {}", ["a\nb", ""], "expected 1 to 100 characters"),
        ("admin token make a --role={}", ["odd"], "invalid Role value"),
        ("admin token make {}", ["a"], "--role"),
    ],
)
def test_wrong_usage_exits_with_2(
    command: str, texts: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in texts:
        with pytest.raises(SystemExit) as caught:
            cli.main([word.format(text) for word in command.split()])
        out, err = capsys.readouterr()
        assert (caught.value.code, out) == (2, "")
        assert err.startswith("usage: hushlist")
        assert error.format(text) in err


def commands() -> dict[str, argparse.ArgumentParser]:
    parser = cli.make_parser()
    (subparsers,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {"": parser, **subparsers.choices}


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser, and all below it."""
    yield parser
    for action in parser._actions:
        for below in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
            yield from parsers(below)


@each_row("parser", parsers(cli.make_parser()))
def test_every_command_and_option_is_explained(parser: argparse.ArgumentParser) -> None:
    text = parser.format_help()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            assert {choice.dest for choice in action._choices_actions if choice.help} == set(action.choices)
            assert all(f"\n    {name}" in text for name in action.choices)
        else:
            assert action.help
            assert action.help != argparse.SUPPRESS
            names = action.option_strings or [str(action.metavar or action.dest)]
            assert all(name in text for name in names)


def test_every_option_is_called_as_in_scripts_that_use_it() -> None:
    """Who changes a name on purpose changes the file, too: other people's scripts have it."""
    found = [
        " ".join((parser.prog, *(name for action in parser._actions for name in action.option_strings)))
        for parser in parsers(cli.make_parser())
    ]
    published = Path(__file__).with_name("options.txt").read_text("utf-8")
    assert sorted(line.replace(" -h --help", "") for line in found) == sorted(published.splitlines())


def test_what_the_help_calls_a_default_is_one() -> None:
    told = {
        f"{parser.prog} {action.option_strings[-1]}": (action, found[1])
        for parser in parsers(cli.make_parser())
        for action in parser._actions
        if (found := re.search(r"\(default: ([^%),]+)", action.help or "")) and action.default not in (None, [])
    }
    defaults = {
        option: (action.type or str)(text)  # type: ignore[operator]
        for option, (action, text) in told.items()
        if text != "one a core"
    }
    assert defaults == {option: told[option][0].default for option in defaults}
    assert {"hushlist serve-lists --listen", "hushlist override grant --valid-for"} <= defaults.keys()


def test_the_help_has_groups_with_what_people_need_first_on_top(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    headings = re.findall(r"\n\n  (\w.*):\n    (\w+)", text)
    assert headings == [
        ("ask a policy", "check"),
        ("while the filter runs", "log"),
        ("test lists", "lint"),
        ("publish lists", "hide"),
        ("look at URLs", "canonicalize"),
        ("set up a shell", "completion"),
    ]
    assert text.index("ask a policy:") < text.index("\noptions:")


@each_row(("argv", "named"), [((), "override"), (("override",), "passphrase"), (("log",), "tail")])
def test_without_a_command_it_says_which_there_are(
    argv: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert named in err
    assert err.endswith(f"{' '.join(('hushlist', *argv))}: say which COMMAND\n")


# -- the process -------------------------------------------------------------------------------------------------------


def test_the_process_exits_with_the_code() -> None:
    done = process("canonicalize", "-", stdin=b"a.example\n/x\n")
    assert (done.returncode, done.stdout) == (2, b"http://a.example/\n\n")
    assert done.stderr.replace(b"\r", b"") == f"hushlist: '/x': {NO_HOST}\n".encode()


@pytest.mark.slow
def test_a_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    place = tmp_path / "decisions.jsonl"
    place.write_text('{"time": "2026-01-01T00:00:00+00:00", "action": "block", "url": "http://a.example/"}\n' * 200)
    for command in (["canonicalize", "-"], ["log", "tail", "-n", "999", "--folder", tmp_path], ["man", tmp_path / "m"]):
        done = into_a_closed_pipe(*command)
        assert (done.returncode, done.stderr) == (141, b"")
    assert {f"hushlist-{name}.1" for name in commands() if name} <= {path.name for path in (tmp_path / "m").iterdir()}


def test_a_module_that_is_not_there_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "hushlist.core.lists.yaml_rules", None)  # half-way through "pip install -U"
    assert cli.main(["lint", "rules/clear.yaml"]) == 2
    said = "hushlist: the package on the disk is not complete, or is being replaced: "
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
def test_a_full_disk_under_the_output_is_said() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "canonicalize", "a.example"], stdout=full, stderr=subprocess.PIPE, env=environment(), check=False
        )
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"No space left" in done.stderr


@pytest.mark.slow
def test_the_console_script_is_this_command() -> None:
    script = Path(sys.executable).with_name("hushlist")
    if not script.exists():
        pytest.skip("hushlist is not installed in this environment; the tests run it from the checkout")
    done = subprocess.run([script, "canonicalize", "GOOgle.com"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"http://google.com/\n")


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"hushlist {__version__}\n")


_LOADED = """
import sys
from hushlist.cli import main
assert main(["canonicalize", "GOOgle.com"]) == 0
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.slow
def test_canonicalizing_imports_neither_database_nor_proxy_nor_policies() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, check=True, env=environment(), text=True
    )
    out, modules = done.stdout.splitlines()
    assert out == "http://google.com/"
    assert "idna" in modules.split()
    assert not {"sqlite3", "mitmproxy", "yaml"} & set(modules.split())


_STARTED = """
import sys
from hushlist.core.compile import stat_cache
stat_cache.SETTLED = -(10**19)  # else it is not recorded that no file has changed, as all are new
from hushlist.cli import main
main(sys.argv[1:])
print(*sorted(sys.modules), file=sys.stderr)
"""
#: what takes long to import, and a policy of which no file has changed does not need
_NOT_TO_START = {
    *("asyncio", "concurrent", "csv", "email", "http", "jsonschema", "logging", "mitmproxy", "multiprocessing"),
    *("pickle", "publicsuffixlist", "random", "secrets", "socket", "sqlite3", "ssl", "subprocess", "tempfile"),
    *("zipfile", "hushlist.core.compile.policy_compiler", "hushlist.proxy", "hushlist.tools.audit"),
    "hushlist.extensions.adblock.network_filter",
}


@pytest.mark.slow
@pytest.mark.parametrize("asked", [("check", "http://a.example/"), ("helper", "--acl")])
def test_what_asks_a_policy_imports_only_what_that_takes(asked: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.domains").write_text("a.example\n")
    policy = tmp_path / "policy.yaml"
    policy.write_text("layers: [{name: lists, lists: [{file: a.domains, format: domains}]}]")
    command = [sys.executable, "-c", _STARTED, *asked, "--policy", str(policy)]
    folders = {"XDG_CACHE_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    for _ in range(2):  # the first compiles
        done = subprocess.run(
            command, capture_output=True, check=True, stdin=subprocess.DEVNULL, env=environment() | folders, text=True
        )
    modules = done.stderr.split()
    assert "hushlist.core.decide.engine" in modules
    assert not _NOT_TO_START.intersection(modules)


def test_each_command_is_known_by_a_parser_of_its_own() -> None:
    for command in set(commands()) - {""}:
        parser = cli.make_parser(command)
        (subparsers,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        assert command in subparsers.choices
        assert len(subparsers.choices) < len(commands()) - 1
