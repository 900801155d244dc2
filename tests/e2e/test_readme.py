"""Every console block of the documentation is executed, and prints what it says; every block of YAML is loaded."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mitmproxy.io import FlowReader, FlowWriter
from mitmproxy.test.tflow import tflow

from documentation import (
    COMMANDS,
    PAGES,
    REFERENCE,
    ROOT,
    RULES,
    TUTORIAL,
    blocks,
    is_list,
    joined,
    whole,
    without_times,
)
from e2e.proxy import Proxy
from hushlist.cli import main
from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.lists.yaml_rules import read_yaml
from hushlist.core.match.seal import SealKey
from hushlist.core.policy.policy_file import PolicyError
from hushlist.extensions.dashboard.rule_commands import RuleCommands
from hushlist.proxy.commands import Commands
from hushlist.proxy.page.template import load_template

_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def environment(**more: str) -> dict[str, str]:
    """As if the virtual environment were active."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **more}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What a command of ours prints in a folder. One that reads, from a here-string, or starts others is a process."""

    def run(line: str, folder: Path = ROOT) -> str:
        command, _, text = line.partition(" <<< ")
        program, *arguments = shlex.split(command)
        if text or "--command" in arguments:
            stdin = "".join(f"{one}\n" for one in shlex.split(text))
            shown = {"cwd": folder, "env": environment(), "capture_output": True, "encoding": "utf-8"}
            done = subprocess.run([program, *arguments], input=stdin, **shown)
            out, err = done.stdout, done.stderr
        else:
            monkeypatch.chdir(folder)
            main(arguments)
            out, err = capsys.readouterr()
        assert err == ""
        return out.replace(f"{folder}{os.sep}", "")

    return run


def _commands(*pages: str) -> list[tuple[str, str]]:
    """The commands of the console blocks of pages, and what they print."""
    return [pair for page in pages for block in blocks(page, "console") for pair in _COMMAND.findall(block)]


SHOWN = _commands("README.md", COMMANDS)
#: run in the folder of a policy of one's own, not in the checkout
_IN_A_FOLDER = "--policy policy.yaml"


@pytest.mark.parametrize(
    ("command", "expected"), [pair for pair in SHOWN if pair[0].startswith("hushlist ") and _IN_A_FOLDER not in pair[0]]
)
def test_a_command_of_the_readme_prints_what_it_says(command: str, expected: str, run: Callable[..., str]) -> None:
    assert without_times(run(command)) == without_times(expected)


@pytest.mark.parametrize(("command", "expected"), [pair for pair in SHOWN if pair[0].startswith("curl ")])
def test_a_request_of_the_readme_is_answered_as_it_says(
    command: str, expected: str, start: Callable[..., Proxy]
) -> None:
    proxy = start(policy=ROOT / "rules" / "policy.yaml")
    words = [word.replace("127.0.0.1:8080", f"127.0.0.1:{proxy.port}") for word in shlex.split(command)]
    assert subprocess.check_output(words, encoding="utf-8") == expected.rstrip("\n")


def test_the_console_blocks_are_all_run() -> None:
    assert {command.split()[0] for command, _ in SHOWN} == {"hushlist", "curl"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which a command of the reference finds what it names; test_guides.py has those of the README."""
    (tmp_path / "addon").symlink_to(ROOT / "addon")
    with (tmp_path / "recorded.flow").open("wb") as file:
        flow = tflow(resp=True)
        flow.request.url = "http://secret.example/"
        FlowWriter(file).add(flow)
    return tmp_path


def test_the_first_blocks_are_those_that_ci_runs_and_a_recording_is_annotated(folder: Path) -> None:
    setup, tests, _ = blocks("README.md", "sh")
    (annotate,) = blocks(COMMANDS, "sh")
    assert "mitmdump" in setup  # .ci/run executes these two as they stand, on a fresh clone
    assert "pytest" in tests
    surroundings = environment(HOME=str(folder))
    subprocess.run(shlex.split(annotate), cwd=folder, env=surroundings, check=True, stdout=subprocess.DEVNULL)
    with (folder / "annotated.flow").open("rb") as file:
        (flow,) = FlowReader(file).stream()
    assert flow.metadata["hushlist"]["action"] == "block"
    assert flow.comment.startswith("hushlist: block secret.example/ by Example hashes")


def test_the_commands_of_mitmproxy_in_the_reference_are_those_that_there_are() -> None:
    named = set(re.findall(r"`(hushlist\.[a-z]+)", joined(COMMANDS)))
    functions = [*vars(Commands).values(), *vars(RuleCommands).values()]
    there_are = {function.command_name for function in functions if hasattr(function, "command_name")}
    assert named == there_are


# -- the reference -----------------------------------------------------------------------------------------------------


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A copy of the folder ``rules``, with the other files that the reference's examples name."""
    shutil.copytree(RULES, tmp_path, dirs_exist_ok=True)
    shutil.copy(ROOT / "addon" / "hushlist" / "proxy" / "page" / "block_page.html", tmp_path / "page.html")
    (tmp_path / "games.txt").write_text("games.example\n", encoding="utf-8")
    (tmp_path / "ads.hosts").write_text("0.0.0.0 ads.example\n", encoding="utf-8")
    (tmp_path / "self-harm.searches").write_text("kill+myself\nsuicide\n", encoding="utf-8")
    (tmp_path / "fine.searches").write_text("suicide squad\n", encoding="utf-8")
    key = SealKey(bytes(32))
    (tmp_path / "hidden.key").write_text(key.text, encoding="utf-8")
    (tmp_path / "hidden.key").chmod(0o600)
    hidden = f"seal: {key.fingerprint}\nrules: [sealed: {key.sealer()(b'hidden.example/').hex()}]\n"
    (tmp_path / "hidden.yaml").write_text(hidden, encoding="utf-8")
    return tmp_path


YAML = [block for page in PAGES for block in blocks(page, "yaml")]


@pytest.mark.parametrize("block", [block for block in YAML if is_list(block)])
def test_every_list_of_the_documentation_is_good(block: str) -> None:
    report = ProblemReport("list.yaml")
    assert list(read_yaml(block.encode(), ListDefaults(), report))
    assert (report.errors, report.warnings) == ([], [])


@pytest.mark.parametrize("block", [block for block in YAML if not is_list(block)])
def test_every_policy_of_the_documentation_is_good_and_so_is_every_part_of_one(rules: Path, block: str) -> None:
    (rules / "policy.yaml").write_text(whole(block), encoding="utf-8")
    for name in ("lists.key", "telegram-token", "matrix-token", "home-assistant-token"):
        (rules / name).write_text("secret")
        (rules / name).chmod(0o600)
    try:
        compiled = compile_policy(rules / "policy.yaml")
    except PolicyError as error:
        assert "url: " in block
        assert all("there is no copy of it yet" in problem.why for problem in error.problems)  # noqa: PT017
        return
    assert compiled.report.warnings == []
    if compiled.policy.block_page is not None:
        load_template(compiled.policy.block_page)


def test_the_documentation_has_both() -> None:
    assert {is_list(block) for block in YAML} == {True, False}


WHOLE = [block for page in REFERENCE for block in blocks(page, "yaml") if "block-page:" in block]


def test_the_whole_policy_has_every_key_of_a_policy_and_of_its_parts() -> None:
    (block,) = WHOLE
    schema = json.loads((RULES / "policy.schema.json").read_text(encoding="utf-8"))
    parts = ("layer", "group", "entry")
    keys = {*schema["properties"], *(key for part in parts for key in schema["$defs"][part]["properties"])}
    for key in ("log", "unblock", "pass-through", "live"):
        keys |= set(schema["$defs"][key]["anyOf"][1]["properties"])
    assert {key for key in keys if not re.search(rf"\b{key}:", block)} == set()


REFERENCE_COMMANDS = _commands(*REFERENCE) + [pair for pair in _commands(COMMANDS) if _IN_A_FOLDER in pair[0]]


@pytest.mark.parametrize(("command", "expected"), REFERENCE_COMMANDS)
def test_the_whole_policy_decides_as_the_reference_says(
    rules: Path, command: str, expected: str, run: Callable[..., str]
) -> None:
    (rules / "policy.yaml").write_text(WHOLE[0], encoding="utf-8")
    assert run(command, rules) == expected


@pytest.mark.parametrize(("command", "expected"), _commands(TUTORIAL))
def test_the_policy_of_the_tutorial_decides_as_it_says(
    tmp_path: Path, command: str, expected: str, run: Callable[..., str]
) -> None:
    own = tmp_path / "my-rules"
    own.mkdir()
    for name, block in zip(("policy.yaml", "overrides.yaml"), blocks(TUTORIAL, "yaml"), strict=True):
        (own / name).write_text(block, encoding="utf-8")
    assert run(command, tmp_path) == expected


_INHERITED = re.compile(r"^\| `(hrn:[^`]*)` \| `(\w+)` \|", re.MULTILINE)


def test_categories_are_inherited_as_the_reference_says(tmp_path: Path) -> None:
    (part,) = (block for block in YAML if "social/video/education" in block)
    expected = dict(_INHERITED.findall(joined(*REFERENCE)))
    lines = (f"- {{expression: {number}.example, category: '{name}'}}\n" for number, name in enumerate(expected))
    (tmp_path / "list.yaml").write_text(f"rules:\n{''.join(lines)}", encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(f"{part}layers: [{{name: lists, lists: [list.yaml]}}]\n", encoding="utf-8")
    engine = load_engine(tmp_path / "policy.yaml")
    found = {name: engine.decide_url(b"http://%d.example/" % number).action for number, name in enumerate(expected)}
    assert len(found) == 7
    assert found == expected
