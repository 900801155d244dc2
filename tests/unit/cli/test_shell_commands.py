"""Completion, tried in the shells themselves, and manual pages, tried by what formats them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from hushlist import __version__
from unit.cli.running import Run
from unit.cli.test_main import commands
from unit.rows import each_row

#: what was typed -> what the last word may become
TYPED = [
    (["che"], {"check"}),
    (["log", "t"], {"tail", "top"}),
    (["log", "top", "--by", "c"], {"category", "client"}),
    (["log", "top", "--b"], {"--by"}),
    (["completion", "z"], {"zsh"}),
    (["override", "grant", "--scope", "c"], {"category"}),
    (["check", "--at", "20:15", "log", "--po"], {"--policy", "--port"}),
    (["--v"], {"--version"}),
]
needs = {
    name: pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed")
    for name in ("bash", "zsh", "fish", "groff", "mandoc")
}


def said_by(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.split("\n")


def script_of(run: Run, shell: str, folder: Path) -> Path:
    code, out, err = run("completion", shell)
    assert (code, err) == (0, "")
    (folder / shell).write_text(out)
    return folder / shell


@pytest.mark.slow
@needs["bash"]
@each_row(("words", "expected"), TYPED)
def test_bash_completes(run: Run, tmp_path: Path, words: list[str], expected: set[str]) -> None:
    script = script_of(run, "bash", tmp_path)
    ask = 'source "$0"; COMP_WORDS=(hushlist "$@"); COMP_CWORD=$#; _hushlist; printf "%s\\n" "${COMPREPLY[@]}"'
    assert {*said_by("bash", "-c", ask, str(script), *words)} - {""} == expected


@needs["bash"]
def test_bash_completes_files_where_a_file_is_due(run: Run, tmp_path: Path) -> None:
    script = script_of(run, "bash", tmp_path)
    ask = 'source "$0"; COMP_WORDS=(hushlist "$@" ""); COMP_CWORD=3; _hushlist; echo "${#COMPREPLY[@]}"'
    for words in (("check", "--policy"), ("init", "-o"), ("init", "--output")):
        assert said_by("bash", "-c", ask, str(script), *words) == ["0", ""]
    assert script.read_text().endswith("complete -o default -F _hushlist hushlist\n")


@needs["zsh"]
def test_zsh_reads_its_script(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZDOTDIR", str(tmp_path))  # where compinit keeps what it found
    script = script_of(run, "zsh", tmp_path)
    ask = f"source {script} && whence -w _hushlist && print $_comps[hushlist]"
    assert said_by("zsh", "-f", "-c", ask) == ["_hushlist: function", "_bash_complete -o default -F _hushlist", ""]


@needs["fish"]
@each_row(("words", "expected"), TYPED)
def test_fish_completes(run: Run, tmp_path: Path, words: list[str], expected: set[str]) -> None:
    script = script_of(run, "fish", tmp_path)
    found = said_by("fish", "--no-config", "-c", f"source {script}; complete -C 'hushlist {' '.join(words)}'")
    assert {line.partition("\t")[0] for line in found} - {""} == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_knows_every_command_and_long_option(run: Run, shell: str) -> None:
    words = {*re.findall(r"[\w-]+", run("completion", shell)[1])}
    for name, parser in commands().items():
        options = {option for action in parser._actions for option in action.option_strings if option.startswith("--")}
        assert {*filter(None, [name])} <= words
        assert {option if shell != "fish" else option[2:] for option in options} <= words


def test_every_line_for_fish_is_one_command(run: Run) -> None:
    lines = run("completion", "fish")[1].splitlines()
    takes = {line.partition(" -l ")[2].partition(" -d ")[0] for line in lines}
    assert {"json", "policy -r"} <= takes
    for line in lines:
        assert re.match(r"complete -c hushlist (-f )?-n ('[^']+'|true) -", line)
        assert shlex.split(line)[-2] == "-d"


def test_there_is_a_page_for_each_command(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1798151400")
    code, out, err = run("man", tmp_path / "man" / "man1")
    assert (code, err) == (0, "")
    pages = {path.name: path.read_text() for path in (tmp_path / "man" / "man1").iterdir()}
    assert {str(tmp_path / "man" / "man1" / name) for name in pages} == {*out.split()}
    assert {"-".join(filter(None, ("hushlist", name))) + ".1" for name in commands()} < {*pages}
    assert {"hushlist-log-tail.1", "hushlist-override-grant.1"} < {*pages}
    title, *lines = pages["hushlist-check.1"].splitlines()
    assert title == f'.TH HUSHLIST\\-CHECK 1 2026-12-24 "Hushlist {__version__}" "Hushlist"'
    place = lines.index("\\fB\\-\\-policy\\fR \\fIFILE\\fR")
    assert lines[place - 1 : place + 2] == [
        ".TP",
        lines[place],
        "the policy file (default: that of the first start, or the shipped)",
    ]
    assert "\\fB\\-\\-json\\fR" in lines  # without a value
    notes = pages["hushlist.1"].splitlines()
    assert notes[notes.index(".SH NOTES") + 1].startswith("Exit codes: 0 good; ")
    assert "%(default)s" not in "".join(pages.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["groff", "-man", "-Tutf8", "-ww", "-z"], marks=[needs["groff"], pytest.mark.thorough]),
        pytest.param(["mandoc", "-Tlint", "-W", "warning"], marks=needs["mandoc"]),
    ],
)
def test_no_page_has_a_fault(run: Run, tmp_path: Path, command: list[str]) -> None:
    pages = run("man", tmp_path)[1].split()
    for page in pages:
        assert said_by(*command, page) == [""]


def test_a_folder_that_cannot_be_written_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = run("man", tmp_path / "file")
    assert (code, err) == (2, f"{tmp_path / 'file' / 'hushlist.1'}: man: File exists\n")
