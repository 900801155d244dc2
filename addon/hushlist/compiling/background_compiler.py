"""Compiling in a separate process of the lowest priority, while the proxy goes on deciding.

    python -m hushlist.compiling.background_compiler POLICY

is that process. It prints one JSON object: the index file in the cache, or the problems; and the files that it read,
with their fingerprints.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from shutil import rmtree
from typing import Any

from hushlist.compiling.policy_compiler import compile_policy
from hushlist.errors import Problem
from hushlist.lists.list_source import ProblemReport
from hushlist.match.index import Index
from hushlist.match.index_file import IndexFileError
from hushlist.policy.policy_file import Fingerprint, Policy, PolicyError, fingerprint, read_policy

#: files may change between compiling and checking them; after so many tries, it is an error
_TRIES = 5
#: seconds that compiling may take; ten million rules take minutes
_LONGEST = 3600.0


class BackgroundCompiler:
    """Compiles one policy after the other, each in a new process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def compile(self, path: Path) -> tuple[Policy, Index]:
        """A policy and its index. It waits for the process: call it in a thread.

        Raises:
            PolicyError: with every problem of every file.
        """
        for _ in range(_TRIES):
            answer = self._ask(path)
            files = {Path(name): None if seen is None else tuple(seen) for name, seen in answer["files"]}
            if "problems" in answer:
                problems = [Problem(*problem) for problem in answer["problems"]]
                raise PolicyError(problems, files, may_pass=answer["may_pass"])
            report = ProblemReport(str(path))
            policy = read_policy(path, report)
            try:
                if policy is not None and not report.errors and policy.files == files:
                    with suppress(IndexFileError):  # another process has removed it
                        return policy, Index.open(Path(answer["index"]))
            finally:
                if answer["temporary"] is not None:
                    rmtree(answer["temporary"], ignore_errors=True)
        problem = Problem(str(path), 0, path.name, "it changes again and again while it is read")
        raise PolicyError([problem], {path: fingerprint(path)})

    def stop(self) -> None:
        """End the process for good. Calls of ``compile``, present or later, fail at once."""
        self._is_stopped = True
        process = self._process
        if process is not None:
            process.kill()

    def _ask(self, path: Path) -> dict[str, Any]:
        # "-P": do not import code from the folder where the proxy was started.
        command = [sys.executable or "", "-P", "-m", __name__, str(path)]
        package = str(Path(__file__).parent.parent.parent)
        found = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        try:
            with subprocess.Popen(  # noqa: S603  our own module
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": found}
            ) as process:
                self._process = process
                if self._is_stopped:  # while the process started
                    process.kill()
                try:
                    answer, _ = process.communicate(timeout=_LONGEST)
                except subprocess.TimeoutExpired as error:
                    process.kill()
                    why = f"the process that compiles was not done after {_LONGEST:g} seconds, and was ended"
                    raise _of_machine(path, why) from error
        except (OSError, ValueError) as error:  # ValueError: no file can have that name
            why = f"no other process can be started: {getattr(error, 'strerror', None) or error}"
            raise _of_machine(path, why) from error
        finally:
            self._process = None
        with suppress(ValueError, TypeError):
            return dict(json.loads(answer))
        why = f"the process that compiles ended with code {process.returncode}"
        raise _of_machine(path, why)


def _of_machine(path: Path, why: str) -> PolicyError:
    """An error of the machine, not of the policy."""
    return PolicyError([Problem(str(path), 0, "compile", why)], {path: fingerprint(path)}, may_pass=True)


def main() -> None:
    """The process: see the module."""
    if hasattr(os, "nice"):
        os.nice(19)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Control-C is for the proxy: end without a traceback
    try:
        compiled = compile_policy(Path(sys.argv[1]))
    except PolicyError as error:
        answer: dict[str, object] = {
            "problems": [astuple(problem) for problem in error.problems],
            "files": _files(error.files),
            "may_pass": error.may_pass,
        }
    else:
        answer = {
            "index": compiled.index.source,
            "files": _files(compiled.policy.files),
            "temporary": None if compiled.temporary is None else str(compiled.temporary),
        }
    print(json.dumps(answer))


def _files(files: Mapping[Path, Fingerprint]) -> list[tuple[str, Fingerprint]]:
    return [(str(path), seen) for path, seen in files.items()]


if __name__ == "__main__":
    main()
