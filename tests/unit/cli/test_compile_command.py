"""``hushlist compile``: exact output, errors, exit codes; and its progress on a terminal."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from hushlist.compiling.policy_compiler import compile_policy
from hushlist.policy import shipped_policy
from unit.cli.running import COMMAND, NO_HOST, Run, environment, process


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
