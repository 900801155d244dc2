"""Runs ``hushlist``: in this process, or in one of its own."""

import io
import logging
import os
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

import hushlist
from hushlist.cli import main, run

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


def copied(*argv: str | Path, stdin: int, stdout: int, stderr: int, cwd: Path | None = None, **own: str) -> int:
    """``hushlist`` in a copy of this process, with these files; gives the process's number.

    To start Python and to import everything again takes far longer than what most tests have such a process for.
    """
    number = os.fork()
    if number:
        return number
    code: object = 70
    try:
        for at, file in enumerate((stdin, stdout, stderr)):
            os.dup2(file, at)
        os.environ |= environment(**own)
        os.chdir(cwd or ".")
        for at, name in enumerate(("stdin", "stdout", "stderr")):
            first: Any = getattr(sys, f"__{name}__")
            encoding = own.get("PYTHONIOENCODING", first.encoding)
            setattr(sys, name, os.fdopen(at, "w" if at else "r", encoding=encoding, errors=first.errors))
        sys.argv = ["hushlist", *map(os.fspath, argv)]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        logging.root.handlers.clear()
        run()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:  # as Python shows it
        traceback.print_exc()
        code = 1
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def process(
    *argv: str | Path, stdin: bytes = b"", cwd: Path | None = None, **own: str
) -> subprocess.CompletedProcess[bytes]:
    """``hushlist`` in a process of its own; ``own`` are variables of its environment."""
    assert len(stdin) <= 1 << 16, "a pipe takes no more before somebody reads"
    reader, writer = os.pipe()
    os.write(writer, stdin)
    os.close(writer)
    with TemporaryFile() as out, TemporaryFile() as err:
        number = copied(*argv, stdin=reader, stdout=out.fileno(), stderr=err.fileno(), cwd=cwd, **own)
        os.close(reader)
        code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(argv, code, out.read(), err.read())


def started(*argv: str | Path) -> subprocess.CompletedProcess[bytes]:
    """``hushlist`` in a process that knows nothing of this one."""
    return subprocess.run([*COMMAND, *argv], capture_output=True, env=environment(), check=False)


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
