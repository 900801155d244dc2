"""Every argument that names a file to be read: what is no regular file, or too long, ends with a message."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hushlist import cli
from hushlist.cli.common import LONGEST_LINE
from hushlist.core.system.files import LONGEST_LIST
from hushlist.extensions.subscriptions.minisign import SecretKey
from unit.cli.running import Run
from unit.rows import each_row

#: command that reads a policy -> what else it needs
OF_POLICY = {
    **dict.fromkeys(("compile", "doctor", "update", "lists", "summary", "store migrate", "log tail", "log top"), ""),
    **dict.fromkeys(("alerts list", "reports list", "notify test", "policy get", "policy undo", "fleet status"), ""),
    **dict.fromkeys(("override list", "override history", "override requests", "admin token list"), ""),
    **dict.fromkeys(("alerts seen", "reports show", "reports settle"), "1"),
    **dict.fromkeys(("override approve", "override decline", "override revoke"), "1"),
    **dict.fromkeys(("override filter-off", "override internet-off", "override code"), "--for 1m"),
    "override grant": "--for 1m a.example",
    "override extend": "--by 1m hrn://c.example/games",
    "admin token make": "a --role view",
    "admin token revoke": "a",
    "log show": "0000000000",
    "serve-lists": "--listen 127.0.0.1:0",
    "service install": "--dry-run",
    "visit": "http://a.example/ --list good.hosts",
}
#: command, and the argument -> how it is called; "{}" is what is tried
CALLS: dict[tuple[str, str], tuple[str, ...]] = {
    **{(name, "policy"): (*name.split(), *more.split(), "--policy", "{}") for name, more in OF_POLICY.items()},
    ("extract", "files"): ("extract", "{}"),
    ("compile", "popular"): ("compile", "--policy", "policy.yaml", "--popular", "{}"),
    ("lint", "lists"): ("lint", "--format", "domains", "{}"),
    ("lint", "popular"): ("lint", "good.hosts", "--popular", "{}"),
    ("lint", "key_file"): ("lint", "good.hosts", "--key-file", "{}"),
    ("lint", "seal"): ("lint", "good.hosts", "--seal", "{}"),
    ("lint", "state"): ("lint", "good.hosts", "--alive", "--resolver", "127.0.0.1:9", "--state", "{}"),
    ("leak", "seal"): ("leak", "good.hosts", "--dictionary", "good.hosts", "--seal", "{}"),
    ("diff", "seal"): ("diff", "good.hosts", "good.hosts", "--seal", "{}"),
    ("hide", "seal"): ("hide", "good.hosts", "--seal", "{}"),
    ("audit", "lists"): ("audit", "--list", "{}", "good.hosts"),
    ("audit", "key_file"): ("audit", "--policy", "policy.yaml", "good.urls", "--key-file", "{}"),
    ("explain", "key_file"): ("explain", "--policy", "policy.yaml", "--key-file", "{}", "a.example"),
    ("leak", "list"): ("leak", "--format", "domains", "{}", "--dictionary", "good.hosts"),
    ("leak", "dictionary"): ("leak", "good.hosts", "--dictionary", "{}"),
    ("diff", "old"): ("diff", "--format", "domains", "{}", "good.hosts"),
    ("diff", "new"): ("diff", "--format", "domains", "good.hosts", "{}"),
    ("diff", "policy"): ("diff", "--policy", "{}", "good.hosts", "good.hosts"),
    ("diff", "against"): ("diff", "good.hosts", "good.hosts", "--against", "{}"),
    ("diff", "popular"): ("diff", "good.hosts", "good.hosts", "--popular", "{}"),
    ("check", "policy"): ("check", "--policy", "{}", "a.example"),
    ("check", "fact file"): ("check", "--policy", "policy.yaml", "--file", "{}", "a.example"),
    ("explain", "fact file"): ("explain", "--policy", "policy.yaml", "--file", "{}", "a.example"),
    ("explain", "policy"): ("explain", "--policy", "{}", "a.example"),
    ("audit", "sources"): ("audit", "--policy", "policy.yaml", "{}"),
    ("audit", "policy"): ("audit", "--policy", "{}", "good.hosts"),
    ("audit", "popular"): ("audit", "--policy", "policy.yaml", "--popular", "{}", "good.hosts"),
    ("audit", "merge"): ("audit", "--policy", "policy.yaml", "--merge", "{}"),
    ("convert", "list"): ("convert", "--from", "domains", "--format", "hosts", "{}", "-"),
    ("hide", "lists"): ("hide", "--format", "domains", "{}"),
    ("hide", "popular"): ("hide", "good.hosts", "--popular", "{}"),
    ("hide", "dictionary"): ("hide", "good.hosts", "--dictionary", "{}"),
    ("publish", "plan"): ("publish", "out", "--plan", "{}"),
    ("learn", "source"): ("learn", "--from", "{}", "http://a.example/"),
    ("visit", "lists"): ("visit", "http://a.example/", "--list", "{}"),
    ("visit", "actions"): ("visit", "http://a.example/", "--list", "good.hosts", "--actions", "{}"),
    ("visit", "recording"): ("visit", "http://a.example/", "--list", "good.hosts", "--recording", "{}"),
    ("backup", "policy"): ("backup", "--policy", "{}", "new"),
    ("restore", "file"): ("restore", "{}"),
    ("sign", "files"): ("sign", "{}", "--key", "secret.key"),
    ("sign", "key"): ("sign", "good.hosts", "--key", "{}"),
    ("verify", "files"): ("verify", "{}", "--key", "secret.key.pub"),
    ("verify", "signature"): ("verify", "good.hosts", "--key", "secret.key.pub", "--signature", "{}"),
    ("import", "file"): ("import", "squidguard", "{}"),
    ("serve-lists", "client_keys"): ("serve-lists", "--policy", "policy.yaml", "--client-keys", "{}"),
    ("serve-lists", "certificate"): (
        *("serve-lists", "--policy", "policy.yaml", "--key", "good.hosts"),
        *("--certificate", "{}"),
    ),
    ("serve-lists", "key"): ("serve-lists", "--policy", "policy.yaml", "--certificate", "good.hosts", "--key", "{}"),
    ("helper", "policy"): ("helper", "--policy", "{}", "--acl"),
}
#: what is written, is a folder, or is a database that SQLite opens
OTHERS = {
    ("compile", "problems"),
    ("leak", "out"),
    ("convert", "output"),
    ("hide", "output"),
    ("publish", "folder"),
    ("hide", "key_file"),
    ("keypair", "secret"),
    ("keypair", "public"),
    ("sealkey", "key"),
    ("import", "output"),
    ("init", "output"),
    ("man", "folder"),
    ("doctor", "confdir"),
    ("audit", "html"),
    *((command, "folder") for command in ("log tail", "log top", "log show")),
    *(
        (f"override {name}", "store")
        for name in (
            *("grant", "code", "extend", "list", "revoke", "history", "requests", "approve", "decline"),
            *("filter-off", "internet-off"),
        )
    ),
    *((f"admin token {name}", "store") for name in ("make", "list", "revoke")),
    ("fleet status", "store"),
    *((command, "store") for command in ("alerts list", "alerts seen")),
    *((f"reports {command}", "store") for command in ("list", "show", "settle")),
    *(("visit", name) for name in ("folder", "html", "junit")),
    *(("backup", "file"), ("restore", "policy"), ("service install", "root"), ("policy set", "policy")),
    *((command, "confdir") for command in ("backup", "restore", "service install")),
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
    found -= {("log tail", "list"), ("log top", "list"), ("update", "lists")}  # "LIST" is a name there
    assert found | {("audit", "merge")} == CALLS.keys() | OTHERS


@pytest.fixture
def folder(policy: Path) -> Path:
    (policy.parent / "good.hosts").write_text("0.0.0.0 a.example\n")
    secret = SecretKey.generate()
    (policy.parent / "secret.key").write_text(secret.text(None))
    (policy.parent / "secret.key.pub").write_text(secret.public.text)
    os.mkfifo(policy.parent / "pipe")
    return policy.parent


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@each_row("name", ["pipe", "/dev/zero"])
@each_row("call", CALLS.values())
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


@each_row("call", ["override list", "override history", "override revoke 1", "override approve 1", "fleet status",
                   "admin token list", "alerts list", "reports list"])  # fmt: skip
def test_a_store_that_is_not_there_is_named_and_not_made(run: Run, tmp_path: Path, call: str) -> None:
    missing = tmp_path / "folder" / "own.sqlite"
    assert run(*call.split(), "--store", missing) == (2, "", f"hushlist: {missing}: there is no such file\n")
    assert not missing.parent.exists()


def test_a_line_of_standard_input_that_is_too_long_ends_with_a_message(run: Run) -> None:
    code, out, err = run("canonicalize", "-", stdin=b"a.example\n" + b"a" * LONGEST_LINE + b"bc\nb.example\n")
    assert (code, out) == (2, "http://a.example/\n")
    assert err.endswith("the line is longer than 1,048,576 octets, the most that are read\n")
