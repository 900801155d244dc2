"""What a version of a list that is held back would change is compared in another process, once."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from hushlist.core.routes import ActionError
from hushlist.extensions.subscriptions import held_changes
from hushlist.extensions.subscriptions.held_changes import SHOWN, HeldChange, HeldChanges, compare


def version(folder: Path, name: str, *lines: str) -> Path:
    path = folder / f"{name}.list"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def commands_begun(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of the processes that were begun."""
    begun, run = list[list[str]](), subprocess.run

    def noted(command: list[str], **how: Any) -> Any:
        begun.append(command)
        return run(command, **how)

    monkeypatch.setattr(subprocess, "run", noted)
    return begun


@pytest.mark.slow
def test_two_versions_are_compared_elsewhere_and_once(tmp_path: Path, commands_begun: list[list[str]]) -> None:
    old, new = (
        version(tmp_path, "a", "a.example", "# was", "b.example"),
        version(tmp_path, "b", "b.example", "é.example"),
    )
    changes = HeldChanges()
    for _ in range(3):
        assert changes.between(old, new) == HeldChange(1, 1, ["é.example"], ["a.example"])
    assert [command[-2:] for command in commands_begun] == [[str(new), str(old)]]
    assert changes.between(None, new).added == 2
    assert len(commands_begun) == 2


def test_of_many_lines_the_first_are_shown_in_whatever_parts_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_changes, "AT_ONCE", 1000)
    names = [f"n{number:04}.example" for number in range(2000)]
    found = compare(version(tmp_path, "a", *names[:500]), version(tmp_path, "b", *names[300:], "!", ""))
    assert found == HeldChange(1500, 300, names[500 : 500 + SHOWN], names[:SHOWN])


def test_what_takes_too_long_is_ended_and_not_begun_again(
    tmp_path: Path, commands_begun: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_changes, "PATIENCE", 0.001)
    old, new, changes = version(tmp_path, "a", "a"), version(tmp_path, "b", "b"), HeldChanges()
    for _ in range(2):
        with pytest.raises(ActionError, match=r"more than 0\.001 seconds; 'hushlist diff' can"):
            changes.between(old, new)
    assert len(commands_begun) == 1


def test_another_comparison_is_not_begun_meanwhile(tmp_path: Path, commands_begun: list[list[str]]) -> None:
    changes = HeldChanges()
    with changes._turn, pytest.raises(ActionError, match="try again"):
        changes.between(None, version(tmp_path, "a", "a"))
    assert commands_begun == []


def test_what_is_not_there_or_too_long_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ActionError, match="cannot be compared here"):
        HeldChanges().between(None, tmp_path / "a.list")
    monkeypatch.setattr(held_changes, "LONGEST_WHOLE", 1)
    with pytest.raises(ActionError, match="cannot be compared here"):
        HeldChanges().between(None, version(tmp_path, "b", "b"))
