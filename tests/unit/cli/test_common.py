"""What commands share: progress on a terminal."""

from __future__ import annotations

import argparse
import io
import os
import sys

import pytest

from hushlist import cli
from hushlist.cli.common import BAD, complain, parse_number, shown_progress
from unit.rows import each_row


class Terminal(io.StringIO):
    """Standard error, as far as it is looked at."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (80, ["read      [" + "#" * 15 + " " * 15 + "]  50%", "merged    [" + "#" * 30 + "] 100%"]),
        (12, ["read      [", "merged    ["]),
        (0, ["read      [" + "#" * 15 + " " * 15 + "]  50%", "merged    [" + "#" * 30 + "] 100%"]),
        (1, ["read      [" + "#" * 15 + " " * 15 + "]  50%", "merged    [" + "#" * 30 + "] 100%"]),
    ],
)
def test_progress_is_one_line_that_is_removed_at_the_end(
    monkeypatch: pytest.MonkeyPatch, columns: int, shown: list[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((columns, 24)))
    with shown_progress() as show:
        assert show is not None
        show("read", 1, 2)
        show("merged", 7, 0)
    blank = "\r" + " " * len(shown[0]) + "\r"
    assert sys.stderr.getvalue() == "".join(f"\r{line}" for line in shown) + blank  # type: ignore[attr-defined]


def test_progress_is_never_above_the_whole_and_covers_a_longer_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((0, 0)))
    with shown_progress() as show:
        assert show is not None
        show("a long name", 3, 2)
        show("short", 0, 2)
    lines = sys.stderr.getvalue().split("\r")  # type: ignore[attr-defined]
    assert lines[1].endswith("] 100%")
    assert lines[2].rstrip().endswith("]   0%")
    assert len({len(line) for line in lines[1:4]}) == 1


def test_without_a_terminal_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with shown_progress() as show:
        assert show is None


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("007", 7), ("999999999", 999_999_999)])
def test_a_number_is_read(text: str, number: int) -> None:
    assert parse_number(text) == number


@each_row("text", ["0", "-1", "1.5", "", "1000000000", "٣", "²"])
def test_what_is_no_number_from_1_on_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no number from 1 on"):
        parse_number(text)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyboardInterrupt(), ""),
        (BrokenPipeError(), ""),
        (OSError("broken by the test"), "hushlist: broken by the test\n"),
    ],
)
def test_whatever_ends_a_command_has_an_exit_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: BaseException, said: str
) -> None:
    def fail() -> int:
        raise error

    led: list[int] = []
    monkeypatch.setattr(cli, "main", fail)
    monkeypatch.setattr(os, "dup2", lambda _, to: led.append(to))  # what is still to be flushed goes nowhere
    with pytest.raises(SystemExit) as caught:
        cli.run()
    assert caught.value.code == (141 if isinstance(error, BrokenPipeError) else 2)
    assert capfd.readouterr().err == said
    assert len(led) == isinstance(error, OSError)


def test_a_defect_prints_a_traceback_and_does_not_end_as_a_block_does(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "main", lambda: {}["nothing"])
    with pytest.raises(SystemExit) as caught:
        cli.run()
    assert caught.value.code == 70
    assert capfd.readouterr().err.endswith("KeyError: 'nothing'\n")


def test_a_command_s_exit_code_is_the_process_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "main", lambda: 1)
    with pytest.raises(SystemExit) as caught:
        cli.run()
    assert caught.value.code == 1


def test_of_a_file_without_a_permission_it_says_who_needs_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert complain(PermissionError(13, "Permission denied", "lists/ads.yaml")) == BAD
    shown = capsys.readouterr().err
    assert shown.startswith("hushlist: lists/ads.yaml: Permission denied: ")
    assert shown.endswith(" has to be able to use it, and to enter the folders above it\n")
