"""Every argument that names a file to be read: what is no regular file, or too long, ends with a message."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hushlist import cli
from hushlist.cli.common import LONGEST_LINE
from hushlist.system.files import LONGEST_LIST
from unit.cli.running import Run

#: command, and the argument -> how it is called; "{}" is what is tried
CALLS: dict[tuple[str, str], tuple[str, ...]] = {
    ("extract", "files"): ("extract", "{}"),
    ("compile", "policy"): ("compile", "--policy", "{}"),
    ("compile", "popular"): ("compile", "--policy", "policy.yaml", "--popular", "{}"),
    ("lint", "lists"): ("lint", "--format", "domains", "{}"),
    ("lint", "popular"): ("lint", "good.hosts", "--popular", "{}"),
    ("leak", "list"): ("leak", "--format", "domains", "{}", "--dictionary", "good.hosts"),
    ("leak", "dictionary"): ("leak", "good.hosts", "--dictionary", "{}"),
    ("diff", "old"): ("diff", "--format", "domains", "{}", "good.hosts"),
    ("diff", "new"): ("diff", "--format", "domains", "good.hosts", "{}"),
    ("diff", "policy"): ("diff", "--policy", "{}", "good.hosts", "good.hosts"),
    ("diff", "against"): ("diff", "good.hosts", "good.hosts", "--against", "{}"),
    ("diff", "popular"): ("diff", "good.hosts", "good.hosts", "--popular", "{}"),
    ("check", "policy"): ("check", "--policy", "{}", "a.example"),
    ("explain", "policy"): ("explain", "--policy", "{}", "a.example"),
    ("audit", "sources"): ("audit", "--policy", "policy.yaml", "{}"),
    ("audit", "policy"): ("audit", "--policy", "{}", "good.hosts"),
    ("audit", "popular"): ("audit", "--policy", "policy.yaml", "--popular", "{}", "good.hosts"),
    ("audit", "merge"): ("audit", "--policy", "policy.yaml", "--merge", "{}"),
    ("helper", "policy"): ("helper", "--policy", "{}", "--acl"),
}
#: what is written, is a folder, or is a database that SQLite opens
OTHERS = {
    ("leak", "out"),
    ("audit", "html"),
    *((command, "folder") for command in ("log tail", "log top", "log show")),
    *((f"override {name}", "store") for name in ("grant", "code", "list", "revoke", "history")),
}
LONG = {("extract", "files"), ("compile", "popular"), ("lint", "lists"), ("diff", "old"), ("audit", "merge")}


def arguments_of(parser: argparse.ArgumentParser, command: str = "") -> Iterator[tuple[str, argparse.Action]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, own in action.choices.items():
                yield from arguments_of(own, f"{command} {name}".strip())
        else:
            yield command, action


def names_file(action: argparse.Action) -> bool:
    return action.type is Path or action.metavar in ("FILE", "SOURCE", "FOLDER", "LIST")


def test_every_argument_that_names_a_file_is_tried() -> None:
    found = {(command, action.dest) for command, action in arguments_of(cli.make_parser()) if names_file(action)}
    found -= {(command, "list") for command in ("log tail", "log top")}  # "LIST" is a name there
    assert found | {("audit", "merge")} == CALLS.keys() | OTHERS


@pytest.fixture
def folder(policy: Path) -> Path:
    (policy.parent / "good.hosts").write_text("0.0.0.0 a.example\n")
    os.mkfifo(policy.parent / "pipe")
    return policy.parent


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["pipe", "/dev/zero"])
@pytest.mark.parametrize("call", CALLS.values(), ids=" ".join)
def test_a_pipe_and_a_device_end_with_a_message(run: Run, call: tuple[str, ...], name: str) -> None:
    code, out, err = run(*(word.format(name) for word in call))
    assert code == 2
    assert "it is no regular file" in out + err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("call", [CALLS[own] for own in sorted(LONG)], ids=" ".join)
def test_a_file_that_is_too_long_ends_with_a_message(run: Run, call: tuple[str, ...]) -> None:
    with Path("long").open("wb") as file:
        file.truncate(LONGEST_LIST + 1)
    code, _, err = run(*(word.format("long") for word in call))
    assert code == 2
    assert "it is longer than " in err


def test_a_line_of_standard_input_that_is_too_long_ends_with_a_message(run: Run) -> None:
    code, out, err = run("canonicalize", "-", stdin=b"a.example\n" + b"a" * LONGEST_LINE + b"bc\nb.example\n")
    assert (code, out) == (2, "http://a.example/\n")
    assert err.endswith("the line is longer than 1,048,576 octets, the most that are read\n")
