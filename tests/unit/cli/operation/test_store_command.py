"""``hushlist store``, and the commands that take the address of a database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushlist.extensions.databases.postgres_address import PostgresAddress
from postgres import GROUP, PASSWORD, Server
from unit.cli.running import Run, process
from unit.extensions.journal.test_log_sender import records, send


def policy_with(folder: Path, text: str) -> str:
    path = folder / "policy.yaml"
    path.write_text(f"{text}\nlayers: []\n")
    return str(path)


def test_a_policy_without_a_database_is_told_of(run: Run, tmp_path: Path) -> None:
    path = policy_with(tmp_path, "log: on")
    code, out, err = run("store", "migrate", "--policy", path)
    assert (code, out) == (2, "")
    assert err == f"hushlist: {path}: it names no database: see 'store' and 'to' of 'log'\n"


def test_a_database_that_cannot_be_asked_is_named_without_its_password(run: Run, tmp_path: Path) -> None:
    path = policy_with(tmp_path, "store: postgresql://jo:s3cret@127.0.0.1:1/x")
    code, out, err = run("store", "migrate", "--policy", path)
    assert (code, out) == (2, "")
    assert err.startswith("hushlist: postgresql://jo@127.0.0.1:1/x: connection")
    assert "s3cret" not in err


@pytest.mark.parametrize("key", ["store: {}", "log: {{to: {}}}"])
def test_an_address_with_a_mistake_is_not_quoted(run: Run, tmp_path: Path, key: str) -> None:
    path = policy_with(tmp_path, key.format("'postgresql://jo:s3@cret@db.example/x'"))
    for command in (["store", "migrate"], ["compile"]):
        code, out, err = run(*command, "--policy", path)
        assert (code, out) == (2, "")
        assert f"{path}:1: " in err
        assert "a password file" in err or "leave the password to PGPASSFILE" in err
        assert "cret" not in err.replace("secret", "")


@GROUP
def test_the_tables_are_made_once(run: Run, tmp_path: Path, postgres: Server) -> None:
    postgres.execute("CREATE DATABASE by_command")
    url = postgres.address("by_command").url
    path = policy_with(tmp_path, f"store: '{url}'\nlog: {{to: '{url}'}}")
    shown = f"postgresql://hushlist@127.0.0.1:{postgres.port}/by_command"
    assert run("store", "migrate", "--policy", path) == (0, f"{shown}: version 1; it was none\n", "")
    assert run("store", "migrate", "--policy", path) == (0, f"{shown}: version 1; as before\n", "")


@GROUP
@pytest.mark.parametrize("by", ["--store", "--policy"])
def test_unblocks_and_tokens_of_a_database_are_shown_and_changed(
    run: Run, tmp_path: Path, database: PostgresAddress, by: str
) -> None:
    store = [by, database.url if by == "--store" else policy_with(tmp_path, f"store: '{database.url}'")]
    said = [
        run("override", "grant", "--for", "30m", "h.example", *store),
        run("override", "list", *store),
        run("override", "code", "--for", "30m", *store),
        run("override", "extend", "--by", "30m", "hrn://c.example/games", *store),
        run("override", "revoke", "1", *store),
        run("override", "history", *store),
        run("override", "requests", *store),
        run("admin", "token", "make", "a", "--role", "view", *store),
        run("admin", "token", "list", *store),
    ]
    assert [code for code, _, _ in said] == [0] * len(said)
    assert run("fleet", "status", *store) == (1, "", f"no proxy has said anything in {database}\n")
    assert said[1][1].startswith("1  host h.example  for everybody")
    assert [line.split("  ")[1] for line in said[5][1].splitlines()] == [
        "revoked 1",
        "extended",
        "code made",
        "granted 1",
    ]
    assert f"in the store {database}" in said[0][2]
    assert not [text for _, out, err in said for text in (out, err) if PASSWORD in text or "s3cr" in text]


@GROUP
@pytest.mark.parametrize("by", ["--folder", "--policy"])
def test_the_log_in_a_database_answers_by_the_same_options(
    run: Run, tmp_path: Path, database: PostgresAddress, by: str
) -> None:
    folder = [by, database.url if by == "--folder" else policy_with(tmp_path, f"log: {{to: '{database.url}'}}")]
    code, out, err = run("log", "tail", *folder)
    assert (code, out) == (2, "")
    assert f"{database}: there is no log." in err
    send(database, tmp_path, records(20))
    code, out, _ = run("log", "tail", "-n", "3", "--json", *folder)
    assert [json.loads(line)["reference"][-2:] for line in out.splitlines()] == ["17", "18", "19"]
    assert run("log", "top", "--by", "list", "--since", "2026-12-24", *folder) == (0, "20  ads\n", "")
    assert run("log", "show", "0000000007", *folder)[1].startswith("Reference    0000000007\n")
    code, out, err = run("log", "tail", "--action", "warn", *folder)
    assert (code, out) == (1, "")
    assert "s3cr" not in err


@pytest.mark.parametrize("command", [["override", "list", "--store"], ["log", "tail", "--folder"]])
def test_a_wrong_address_on_the_command_line_is_not_quoted(command: list[str]) -> None:
    done = process(*command, "postgresql://jo:s3@cret@db.example/x")
    assert done.returncode == 2
    assert b"leave the password to PGPASSFILE" in done.stderr
    assert b"cret" not in done.stderr
