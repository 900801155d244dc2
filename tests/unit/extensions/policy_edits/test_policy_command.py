"""``hushlist policy``: a section is printed, changed and put back, and nothing that cannot be used is written."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from hushlist import cli
from unit.rows import each_row

pytestmark = pytest.mark.usefixtures("own_folders")

POLICY = "# of the house\nschedules:\n  # bedtime\n  night: {times: '20:00-07:00'}  # it stays\n\nlayers: []\n"
LATER = "schedules:\n  night: {times: '21:00-07:00'}\n"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return path


@pytest.fixture
def run(policy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*argv: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = cli.main(["policy", *argv, "--policy", str(policy)])
        return (code, *capsys.readouterr())

    return call


@pytest.mark.slow
def test_a_section_is_changed_with_nothing_else_and_put_back(run: Run, policy: Path) -> None:
    assert run("get") == (0, "schedules\nlayers\n", "")
    assert run("get", "schedules") == (0, "\n".join(POLICY.splitlines()[1:4]) + "\n", "")
    done = "changed schedules; 'hushlist policy undo 1' goes back\n"
    assert run("set", "schedules", stdin=LATER.encode())[:2] == (0, done)
    later = f"# of the house\n{LATER}\nlayers: []\n"
    assert policy.read_text(encoding="utf-8") == later
    assert run("set", "schedules", stdin=LATER.encode()) == (0, "", "schedules was so before: nothing was changed\n")
    assert policy.read_text(encoding="utf-8") == later
    assert run("undo")[:2] == (0, "went back to what schedules was before change 1\n")
    assert policy.read_text(encoding="utf-8") == POLICY
    assert run("get", "groups") == (1, "", "the policy does not have 'groups'\n")


@pytest.mark.slow
@each_row(
    ("arguments", "stdin", "why"),
    [
        (["set", "schedules"], b"schedules: {night: {times: never}}", "times"),
        (["set", "colour"], b"colour: red", "unknown key"),
        (["set", "schedules"], b" \n", "standard input has no section: nothing was changed"),
        (["set", "schedules"], b"mode: off", "expected the key 'schedules' with its value, and nothing else"),
        (["set", "schedules"], b"schedules: {a: \xff}", "the section is not in UTF-8"),
        (["undo"], b"", "the last change of the file was not made here"),
        (["undo", "7"], b"", "there is no such change"),
    ],
)
def test_what_cannot_be_used_is_said_and_not_written(
    run: Run, policy: Path, arguments: list[str], stdin: bytes, why: str
) -> None:
    code, out, err = run(*arguments, stdin=stdin)
    assert (code, out) == (2, "")
    assert why in err
    assert policy.read_text(encoding="utf-8") == POLICY
