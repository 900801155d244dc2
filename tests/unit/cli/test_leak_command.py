"""``hushlist leak``: exact output, files, errors, exit codes."""

import json
import os
import stat
from pathlib import Path

import pytest

from hushlist.core.match.expressions import full_hash
from unit.cli.running import Run, process

VERDICT = "Half of the list or more can be read by whoever has such a dictionary: its hashes keep no secret.\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    hashes = [full_hash(b"h%d.example/" % number).hex() for number in range(30)]
    (tmp_path / "l.yaml").write_text("rules:\n" + "".join(f"- sha256: {own}\n" for own in hashes))
    (tmp_path / "words.txt").write_text("".join(f"h{number}.example\n" for number in range(25)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_figures_a_verdict_and_the_first_rules_are_printed(run: Run) -> None:
    code, out, err = run("leak", "l.yaml", "--jobs", "1", "--dictionary", "words.txt")
    lines = out.splitlines(keepends=True)
    assert (code, err) == (1, "")
    assert lines[:4] == [
        "hashes  recovered         by chance  likelihood  kind\n",
        "    30         25  83.3%          0     < 1e-06  sha256, 32 octets\n",
        "25 entries of the dictionary gave 50 guesses, in a time too short to measure.\n",
        VERDICT,
    ]
    assert lines[4:] == [
        *(f"l.yaml:{number + 2}: h{number}.example/\n" for number in range(20)),
        "5 more; --show prints them, --out FILE writes them\n",
    ]


def test_lines_that_are_no_rules_are_told(run: Run, folder: Path) -> None:
    (folder / "l.domains").write_text("h1.example\nno host\n")
    code, _, err = run("leak", "l.domains", "--format", "domains", "--jobs", "1", "--dictionary", "words.txt")
    assert (code, err) == (0, "warning: l.domains:2: no host: left out: there is white space in it\n")


def test_show_prints_all(run: Run) -> None:
    _, out, _ = run("leak", "l.yaml", "--show", "--jobs", "1", "--dictionary", "words.txt")
    assert out.endswith("l.yaml:26: h24.example/\n")


def test_out_writes_all_into_a_new_private_file(run: Run) -> None:
    arguments = ("leak", "l.yaml", "--out", "found", "--jobs", "1", "--dictionary", "words.txt")
    code, out, _ = run(*arguments)
    assert (code, out.endswith(VERDICT)) == (1, True)
    assert Path("found").read_text().splitlines() == [
        f"l.yaml:{number + 2}: h{number}.example/" for number in range(25)
    ]
    if os.name == "posix":
        assert stat.S_IMODE(Path("found").stat().st_mode) == 0o600
    assert run(*arguments)[::2] == (2, "found: out: File exists\n")


def test_json_has_the_figures_and_on_demand_the_rules(run: Run) -> None:
    arguments = ("leak", "l.yaml", "--json", "--jobs", "1", "--dictionary", "words.txt")
    plain = json.loads(run(*arguments)[1])
    (row,), seconds, estimated = plain["kinds"], plain["seconds"], plain["estimates"]
    assert plain == {
        "source": "l.yaml",
        "hashes": 30,
        "recovered": 25,
        "share": 25 / 30,
        "kinds": [row],
        "clear": 0,
        "entries": 25,
        "tried": 50,
        "seconds": seconds,
        "per_second": 50 / seconds,
        "jobs": 1,
        "estimates": estimated,
        "verdict": plain["verdict"],
    }
    assert all(one.keys() == {"dictionary", "seconds"} for one in estimated)
    assert row.keys() - {"kind", "bits", "hashes", "tried"} == {
        *("recovered", "expected_by_chance", "likelihood_of_chance"),
    }
    assert row["bits"] == 256
    rules = json.loads(run(*arguments, "--show")[1])["rules"]
    assert rules[0] == {"line": 2, "plaintext": "h0.example/", "table": "sha256, 32 octets"}


def test_nothing_recovered_is_good(run: Run) -> None:
    Path("words.txt").write_text("other.example\n")
    code, out, _ = run("leak", "l.yaml", "--jobs", "1", "--dictionary", "words.txt")
    assert code == 0
    assert "    30          0  0.0%          0           -  sha256, 32 octets\n" in out
    assert out.splitlines()[-1].startswith("Nothing fell to this dictionary.")


def test_rules_in_the_clear_are_counted(run: Run) -> None:
    Path("l.yaml").write_text("rules: [a.example, b.example]")
    code, out, _ = run("leak", "l.yaml", "--jobs", "1", "--dictionary", "words.txt")
    assert code == 0
    assert out.startswith("2 rules in the clear hide nothing, and were not tried.\n")
    assert out.endswith("There is no hash in this list: it hides nothing.\n")


def test_a_dictionary_may_come_by_standard_input() -> None:
    done = process("leak", "l.yaml", "--json", "--dictionary", "-", stdin=b"https://www.h3.example/login\n")
    assert json.loads(done.stdout)["recovered"] == 1
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["none.yaml", "--dictionary", "words.txt"], "none.yaml: list: there is no such file\n"),
        (["l.yaml", "--dictionary", "words.txt", "none.txt"], "none.txt: dictionary: No such file or directory\n"),
        (
            ["no-list", "--dictionary", "words.txt"],
            "no-list: list: neither its name nor its content tells its format: ",
        ),
    ],
)
def test_what_cannot_be_read_is_bad_input(run: Run, arguments: list[str], error: str) -> None:
    Path("no-list").write_text("what is this?\n")
    code, out, err = run("leak", *arguments, "--jobs", "1")
    assert (code, out) == (2, "")
    assert err.startswith(error)
