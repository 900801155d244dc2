"""Compiling, and fetching lists, in a separate process of the lowest priority, while the proxy goes on deciding.

    python -m hushlist.core.compile.background_compiler WORK POLICY [--index INDEX] [PORT...]

is that process. It prints one JSON object. The work is one of

    compile     fetch what has no copy yet and is due, then compile: the index file in the cache, or the problems; the
                files that were read, with their fingerprints; and what is held back
    start       the same, and whatever has no copy is due
    update      fetch what is due: what became of each list, for people

It waits for a word on its standard input before it looks at a list: so it can be started before there is work for it.
The index is that which is in use: of a list of which few lines have changed, only these are read. Other programs that
look at a policy in such a process have ``serve`` answer for them. The ports are those of this machine on which the
proxy listens. The modules that extensions name as ``lists`` fetch:
``fetch_missing(policy, ports, is_start)`` says whether the policy has now all lists that it needs, and
``fetch_due(policy, ports)`` gives for each list whether it went well, and what became of it.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Any

from hushlist.core.errors import INCOMPLETE, Problem
from hushlist.core.extension import extensions_named, load
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import IndexFileError
from hushlist.core.policy.policy_file import Policy, PolicyError
from hushlist.core.policy.policy_reader import read_policy
from hushlist.core.system.files import Fingerprint, fingerprint
from hushlist.core.system.package_code import (
    OTHER_CODE,
    VARIABLE,
    is_as_loaded,
    is_other_code,
    loaded_digest,
    path_to_package,
)
from hushlist.core.system.platform import number_of_cores

#: what is before the index that is in use
_INDEX = "--index"
#: what a process waits for
_GO = b"go"
#: files may change between compiling and checking them; after so many tries, it is an error
_TRIES = 5
#: seconds that compiling may take; ten million rules take minutes
_LONGEST = 3600.0
#: how much a process gives way to others, which is the most there is
_NICENESS = 19
#: all that a process says which cannot work with the package on the disk: why
OTHER = "other code"


class BackgroundCompiler:
    """Compiles one policy after the other, each in a new process."""

    def __init__(self, own_ports: Iterable[int] = (), program: str = __name__) -> None:
        self._ports, self._program = tuple(own_ports), program
        self._process: subprocess.Popen[bytes] | None = None
        #: a process that waits for the work of a command
        self._ready: tuple[list[str], subprocess.Popen[bytes]] | None = None
        #: whether its process was ended, or will not be begun
        self.is_stopped = False

    def compile(self, path: Path, *, before: Index | None = None, is_start: bool = False) -> tuple[Policy, Index]:
        """A policy and its index; ``before`` is the one in use. It waits for the process: call it in a thread.

        At the start, lists without a copy are fetched even if that failed a moment ago.

        Raises:
            PolicyError: with every problem of every file.
        """
        for _ in range(_TRIES):
            answer = self.ask("start" if is_start else "compile", path, _GO, before=before)
            files = _fingerprints(answer["files"])
            if "problems" in answer:
                problems = [Problem(*problem) for problem in answer["problems"]]
                raise PolicyError(problems, files, may_pass=answer["may_pass"])
            report = ProblemReport(str(path))
            policy = read_policy(path, report)
            try:
                if policy is not None and not report.errors and policy.files == files:
                    held = {Path(name): why for name, why in answer["held"]}
                    with suppress(IndexFileError):  # another process has removed it
                        index = Index.open(Path(answer["index"]))
                        return policy._replace(held=held, pointers=_fingerprints(answer["pointers"])), index
            finally:
                if answer["temporary"] is not None:
                    rmtree(answer["temporary"], ignore_errors=True)
        problem = Problem(str(path), 0, path.name, "it changes again and again while it is read")
        raise PolicyError([problem], {path: fingerprint(path)})

    def prepare(self, path: Path, *, before: Index | None = None) -> None:
        """Start the process of the ``compile`` that comes next: that takes as long as to compile a small change."""
        if self._ready is None:
            command = self._command("compile", path, before)
            with suppress(OSError, ValueError):  # "compile" says what is wrong
                self._ready = command, _start(command)
        if self.is_stopped:  # perhaps while the process started
            self.stop()

    def update(self, path: Path) -> list[tuple[bool, str]]:
        """Fetch the lists of a policy that are due; for each, whether that went well, and what came of it.

        Raises:
            PolicyError: the process failed.
        """
        return [(bool(is_good), str(text)) for is_good, text in self.ask("update", path, _GO)["updates"]]

    def stop(self) -> None:
        """End the process for good. Calls of ``compile``, present or later, fail at once."""
        self.is_stopped = True
        process, ready, self._ready = self._process, self._ready, None
        if process is not None:
            process.kill()
        if ready is not None:
            _end(ready[1])

    def _command(self, work: str, path: Path, before: Index | None) -> list[str]:
        # "-P": do not import code from the folder where the proxy was started.
        command = [sys.executable or "", "-P", "-m", self._program, work, str(path)]
        command += [] if before is None else [_INDEX, before.source]
        return [*command, *map(str, self._ports)]

    def ask(
        self, work: str, path: Path, data: bytes = b"", *, before: Index | None = None, patience: float = _LONGEST
    ) -> dict[str, Any]:
        """What the program answers, which reads ``data``; ``PolicyError`` if it fails, or takes too many seconds."""
        command = self._command(work, path, before)
        ready, self._ready = self._ready, None
        if ready is not None and (ready[0] != command or ready[1].poll() is not None):
            _end(ready[1])
            ready = None
        try:
            with _start(command) if ready is None else ready[1] as process:
                self._process = process
                if self.is_stopped:  # while the process started
                    process.kill()
                try:
                    answer, _ = process.communicate(data, timeout=patience)
                except subprocess.TimeoutExpired as error:
                    process.kill()
                    why = f"the process that compiles was not done after {patience:g} seconds, and was ended"
                    raise _of_machine(path, why) from error
        except (OSError, ValueError) as error:  # ValueError: no file can have that name
            why = f"no other process can be started: {getattr(error, 'strerror', None) or error}"
            raise _of_machine(path, why) from error
        finally:
            self._process = None
        with suppress(ValueError, TypeError):
            said: dict[str, Any] = dict(json.loads(answer))
            if OTHER not in said:
                return said
            raise _of_machine(path, said[OTHER])
        # where its own modules cannot be loaded, it says nothing
        why = f"the process that compiles ended with code {process.returncode}" if is_as_loaded() else OTHER_CODE
        raise _of_machine(path, why)


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **path_to_package(), VARIABLE: loaded_digest()}
    process = subprocess.Popen(  # noqa: S603  our own module
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    if sys.platform != "win32":  # not by the process itself: requests would wait while it loads its modules
        with suppress(OSError):  # it may have ended
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    with process:
        process.kill()


def _of_machine(path: Path, why: str) -> PolicyError:
    """An error of the machine, not of the policy."""
    return PolicyError([Problem(str(path), 0, "compile", why)], {path: fingerprint(path)}, may_pass=True)


def serve(answer: Callable[[str, Path, Path | None, tuple[int, ...]], Mapping[str, object]]) -> None:
    """Print the answer of a program of ``BackgroundCompiler``, of its work, the policy, the index and the ports."""
    with suppress(BrokenPipeError):  # the proxy was ended meanwhile
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Control-C is for the proxy: end without a traceback
        work, path, *more = sys.argv[1:]
        before = Path(more[1]) if more[:1] == [_INDEX] else None
        ports = tuple(map(int, more if before is None else more[2:]))
        try:  # what other code would say, the proxy might read in another way
            is_other = is_other_code(os.environ)
            print(json.dumps({OTHER: OTHER_CODE} if is_other else answer(work, Path(path), before, ports)))
        except ImportError as error:  # of what is loaded when it is needed
            print(json.dumps({OTHER: INCOMPLETE.format(error) if is_as_loaded() else OTHER_CODE}))
        sys.stdout.flush()
        gc.freeze()  # an exit looks through everything for garbage, and who has asked waits for it


def _answer(work: str, path: Path, before: Path | None, ports: tuple[int, ...]) -> Mapping[str, object]:
    # the proxy, which starts this, does without
    from hushlist.core.compile.policy_compiler import compile_policy
    from hushlist.core.compile.worker_processes import BETWEEN_COLLECTIONS

    gc.set_threshold(BETWEEN_COLLECTIONS)
    _load_all(path)
    if not sys.stdin.buffer.read():  # who has started this has ended
        return {}
    policy = read_policy(path, ProblemReport(str(path)))
    # most policies start faster without it
    fetchers = [] if policy is None or not policy.subscribed else fetchers_of(policy)
    if work == "update":
        return {"updates": [update for fetcher in fetchers for update in fetcher.fetch_due(path, ports)]}
    has = [fetcher.fetch_missing(path, ports, is_start=work == "start") for fetcher in fetchers]
    try:
        # while the proxy works, a core stays free: otherwise requests wait for this process, however low its priority
        jobs = None if work == "start" else max(1, number_of_cores() - 1)
        compiled = compile_policy(path, jobs=jobs, before=before)
    except PolicyError as error:
        return {
            "problems": [*error.problems],
            "files": _files(error.files),
            "may_pass": error.may_pass or not all(has),
        }
    return {
        "index": compiled.index.source,
        "files": _files(compiled.policy.files),
        "pointers": _files(compiled.policy.pointers),
        "held": [(str(path), why) for path, why in compiled.policy.held.items()],
        "temporary": None if compiled.temporary is None else str(compiled.temporary),
    }


def _load_all(path: Path) -> None:
    """Load what compiling needs, by the policy as it is now."""
    from hushlist.core.match.public_suffixes import public_suffixes

    policy = read_policy(path, ProblemReport(str(path)))
    for extension in () if policy is None else extensions_named(policy.extensions):
        if extension.gate:
            load(extension.gate)
    public_suffixes()


def fetchers_of(policy: Policy) -> list[Any]:
    """What brings a policy's lists to this machine."""
    return [load(extension.lists) for extension in extensions_named(policy.extensions) if extension.lists]


def _files(files: Mapping[Path, Fingerprint]) -> list[tuple[str, Fingerprint]]:
    return [(str(path), seen) for path, seen in files.items()]


def _fingerprints(plain: Iterable[tuple[str, Any]]) -> dict[Path, Fingerprint]:
    """The reverse of ``_files``, from JSON."""
    return {Path(name): None if seen is None else tuple(seen) for name, seen in plain}


def main() -> None:
    serve(_answer)


if __name__ == "__main__":
    main()
