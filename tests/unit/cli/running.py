"""Runs ``hushlist``: in this process, or in one of its own."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hushlist
from hushlist.cli import main

PACKAGE_ROOT = Path(hushlist.__file__).parents[1]
#: the command line in a process of its own, in the environment that ``environment`` gives
COMMAND = [sys.executable, "-m", "hushlist"]
#: why "/x" is no URL
NO_HOST = "it names no host"


class Run:
    """Calls ``main`` with arguments and octets on standard input; gives ``(exit code, output, errors)``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *argv: str | Path, stdin: bytes = b"") -> tuple[int, str, str]:
        self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([str(argument) for argument in argv])
        out, err = self._capsys.readouterr()
        return code, out, err


def environment(**own: str) -> dict[str, str]:
    """What a process needs to run this checkout, on a terminal wide enough for every message."""
    return {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT), "COLUMNS": "200", **own}


def process(
    *argv: str | Path, stdin: bytes = b"", cwd: Path | None = None, **own: str
) -> subprocess.CompletedProcess[bytes]:
    """``hushlist`` in a process of its own; ``own`` are variables of its environment."""
    return subprocess.run(
        [*COMMAND, *argv], input=stdin, capture_output=True, env=environment(**own), check=False, cwd=cwd
    )


def into_a_closed_pipe(*argv: str | Path) -> subprocess.CompletedProcess[bytes]:
    """The same with much to read, while nobody reads its output."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stdout:
        return subprocess.run(
            [*COMMAND, *argv],
            input=b"a.example\n" * 10_000,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
