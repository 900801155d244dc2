"""Every console block of the documentation is executed, and prints what it says."""

from __future__ import annotations

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

from e2e.proxy import Proxy
from hushlist.lists.source import Defaults, Report
from hushlist.lists.yaml_rules import read_yaml
from hushlist.policy.compile import compile_policy

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = r"^```{}\n(.*?)^```$"
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def blocks(page: str, language: str) -> list[str]:
    """A page's code blocks in one language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found: list[str] = re.findall(_BLOCK.format(language), text, re.DOTALL | re.MULTILINE)
    return found


def environment(**more: str) -> dict[str, str]:
    """As if the virtual environment were active."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **more}


def run(command: list[str]) -> str:
    """What a command prints, which may have a here-string for its input."""
    stdin = f"{command.pop()}\n" if "<<<" in command else None
    command = [word for word in command if word != "<<<"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, encoding="utf-8", input=stdin)
    assert done.stderr == ""
    return done.stdout.replace(f"{ROOT}{os.sep}", "")


README: list[tuple[str, str]] = [pair for block in blocks("README.md", "console") for pair in _COMMAND.findall(block)]


@pytest.mark.parametrize(("command", "expected"), [pair for pair in README if pair[0].startswith("hushlist ")])
def test_a_command_of_the_readme_prints_what_it_says(command: str, expected: str) -> None:
    assert run(shlex.split(command)) == expected


@pytest.mark.parametrize(("command", "expected"), [pair for pair in README if pair[0].startswith("curl ")])
def test_a_request_of_the_readme_is_answered_as_it_says(
    command: str, expected: str, start: Callable[..., Proxy]
) -> None:
    proxy = start(policy=ROOT / "rules" / "policy.yaml")
    words = [word.replace("127.0.0.1:8080", f"127.0.0.1:{proxy.port}") for word in shlex.split(command)]
    assert run(words) == expected.rstrip("\n")


def test_the_console_blocks_of_the_readme_are_all_run_above() -> None:
    assert {command.split()[0] for command, _ in README} == {"hushlist", "curl"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which the README's other commands find what they name; mitmdump listens on a port of loopback."""
    (tmp_path / "addon").symlink_to(ROOT / "addon")
    shutil.copytree(ROOT / "rules", tmp_path / "my-rules")
    with (tmp_path / "recorded.flow").open("wb") as file:
        flow = tflow(resp=True)
        flow.request.url = "http://secret.example/"
        FlowWriter(file).add(flow)
    settings = tmp_path / ".mitmproxy"
    settings.mkdir()
    (settings / "config.yaml").write_text("listen_host: 127.0.0.1\nlisten_port: 0\n", encoding="utf-8")
    return tmp_path


def test_the_shell_commands_of_the_readme_run(folder: Path) -> None:
    setup, tests, own_rules, annotate = blocks("README.md", "sh")
    assert "mitmdump" in setup  # .ci/run executes these two as they stand, on a fresh clone
    assert "pytest" in tests
    surroundings = environment(HOME=str(folder))
    with subprocess.Popen(
        shlex.split(own_rules), cwd=folder, env=surroundings, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout
        assert any("by my-rules/policy.yaml" in line for line in process.stdout)
        process.terminate()
    subprocess.run(shlex.split(annotate), cwd=folder, env=surroundings, check=True, stdout=subprocess.DEVNULL)
    with (folder / "annotated.flow").open("rb") as file:
        (flow,) = FlowReader(file).stream()
    assert flow.metadata["hushlist"]["action"] == "block"
    assert flow.comment.startswith("hushlist: block secret.example/ by Example hashes")


def test_the_examples_of_the_reference_are_good_rules() -> None:
    *_, rules = blocks("rules/README.md", "yaml")
    report = Report("rules/README.md")
    assert len(list(read_yaml(rules.encode(), Defaults(), report))) == 6
    assert (report.errors, report.warnings) == ([], [])


@pytest.mark.parametrize(("place", "layers"), [(0, ["overrides", "lists"]), (1, ["checks"])])
def test_the_policies_of_the_reference_are_good(tmp_path: Path, place: int, layers: list[str]) -> None:
    policy = blocks("rules/README.md", "yaml")[place]
    shutil.copytree(ROOT / "rules", tmp_path, dirs_exist_ok=True)
    (tmp_path / "policy.yaml").write_text(policy, encoding="utf-8")
    assert [layer.name for layer in compile_policy(tmp_path / "policy.yaml").policy.layers] == layers
