"""Changes the package in one place at a time, and counts how many of the changes a test sees.

    python tests/mutation/run.py                                     300 changes, at random
    python tests/mutation/run.py --number 60 --seed 7 --only addon/hushlist/proxy/connections/tunnels.py
    python tests/mutation/run.py --number 0 --only addon/hushlist/tools/squid/helper.py     every change of a file
    python tests/mutation/run.py --only addon/hushlist/core/url --tests tests/unit/core/url   and what some tests see

A comparison is turned, a condition negated, a constant changed, a statement dropped (``mutants.py``). First the unit
tests of the changed module are run, then those of its room, then all others but those of whole programs; each only if
it calls the function that was changed, which a run of all tests has shown before (kept in ``.mutation_cache``). The
first failure ends it. Tests that measure time are left out. What no test saw is printed, with file and line; the exit
code is 1 if less was seen than ``--at-least`` says. ``equivalent.txt`` names changes that no test can see, with the
reason.

The changes are made in copies of the tree, one for each of ``--jobs``. A process that has imported what the tests need
of other packages forks for each change, so that one costs little more than its tests. mutmut was considered: it changes
no constants of modules and classes, and takes no sample by lines.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutation.mutants import Mutant, mutants_of
from mutation.plugin import Chosen, Recorder

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "addon/hushlist"
#: folders of tests, but for those of whole programs
_TESTS = ("tests/unit", "tests/conformance", PACKAGE)
#: tests of the source's looks, which would see a change that no caller sees
_OF_THE_SOURCE = ("tests/unit/test_addon_readme.py", "tests/unit/test_imports.py")
#: modules whose tests see what the doors of extensions say, without a call to them
_OF_DOORS = ("hushlist.core.extension", "hushlist.core.lists.list_formats", "hushlist.core.policy.keys")
#: of a constant of a module that so many others import at most, their tests are run, too
_FEW_IMPORTERS = 5
_EQUIVALENT = Path(__file__).with_name("equivalent.txt")
_CACHE = ROOT / ".mutation_cache"
_PYTEST = ["-q", "-n0", "-p", "no:cacheprovider", "--no-header", "--timeout=0", "-m", "not thorough"]
_PYTEST += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is there already
#: a change may make tests this many times slower, and as many seconds on top, before it counts as seen
_SLOWER, _PATIENCE = 5.0, 20.0
#: exit codes of pytest: all passed, or no test was chosen; some failed
_PASSED, _FAILED = (0, 5), 1
#: tests that may fail without a change, as those may that go by the time, on a busy machine
_MOST_FAILED = 5
#: the run without a change is cut into so many parts, of at most so many seconds
_GROUPS, _LONGEST_GROUP = 8, 3600.0
_OURS = {str(ROOT / name) for name in ("", "addon", "tests", "tests/mutation")}


class KnownTest(NamedTuple):
    """What is known of a test: how long it takes, and the functions of the package that it calls: file, first line."""

    id: str
    seconds: float
    calls: frozenset[tuple[str, int]]

    @property
    def file(self) -> str:
        return self.id.partition("::")[0]


def main(argv: list[str] | None = None) -> int:
    """Run it. The exit code is 0 if enough was seen, 1 if not, 2 if the tests fail without any change."""
    options = _options(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what runs is ended, too
    mutants = _sample(options)
    if not mutants:
        print("nothing to change")
        return 2
    with TemporaryDirectory(prefix="hushlist-mutation-") as folder:
        copies = _copies(Path(folder), options.jobs)
        processes = _Processes(copies)
        try:
            _import_other_packages(copies[0])
            survivors = _try_all(mutants, _baseline(processes, Path(folder), options.tests), processes)
        except ChildProcessError as error:
            print(error)
            return 2
        finally:
            processes.end()
    share = 100 * (1 - len(survivors) / len(mutants))
    print(f"\n{len(mutants) - len(survivors)} of {len(mutants)} changes were seen: {share:.1f} %")
    return 0 if share >= options.at_least else 1


def _options(argv: list[str] | None) -> Namespace:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--number", type=int, default=300, help="changes to try; 0: every one (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="which changes (default: %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="PATH", help="files or folders to change; PATH:NAME: a function")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="files or folders of tests, in place of all")
    parser.add_argument("--jobs", type=int, default=2, help="changes at a time (default: %(default)s)")
    parser.add_argument("--at-least", type=float, default=90, help="percent to be seen (default: %(default)s)")
    return parser.parse_args(argv)


# which changes


def _sample(options: Namespace) -> list[Mutant]:
    """Changes at random: every line that has one is as likely as every other."""
    equivalent = _equivalent()
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for file in sorted((ROOT / PACKAGE).rglob("*.py")):
        path = str(file.relative_to(ROOT / PACKAGE))
        for mutant in mutants_of(path, file.read_bytes()):
            if _is_chosen(mutant, options.only) and mutant.key not in equivalent:
                by_line.setdefault((path, mutant.line), []).append(mutant)
    if not options.number:
        return [mutant for mutants in by_line.values() for mutant in mutants]
    chance = random.Random(options.seed)
    lines = chance.sample(sorted(by_line), min(options.number, len(by_line)))
    return [chance.choice(by_line[line]) for line in sorted(lines)]


def _is_chosen(mutant: Mutant, only: list[str] | None) -> bool:
    if only is None:
        return True
    for path, _, name in (place.removeprefix(f"{PACKAGE}/").partition(":") for place in only):
        if _is_in(mutant.path, [path]) and (not name or f".{mutant.place}.".find(f".{name}.") >= 0):
            return True
    return False


def _equivalent() -> set[str]:
    """The first lines of the entries; the reasons are indented below them."""
    lines = _EQUIVALENT.read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith((" ", "#"))}


# copies of the tree, and processes in them


def _copies(folder: Path, number: int) -> list[Path]:
    ignored = shutil.ignore_patterns(".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info")
    copies = [folder / str(each) for each in range(number)]
    for copy in copies:
        shutil.copytree(ROOT, copy, ignore=ignored)
        # A change may come within a second, and leave the length as it is: only a digest of the source tells.
        compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "addon"]
        subprocess.run(compiling, cwd=copy, check=True)
    return copies


class _Running(NamedTuple):
    task: Any
    copy: Path
    deadline: float


class _Processes:
    """Processes, at most one in each copy of the tree."""

    def __init__(self, copies: list[Path]) -> None:
        self.free = list(copies)
        self.running: dict[int, _Running] = {}

    def start(self, copy: Path, task: Any, work: Callable[[], int], seconds: float) -> None:
        """Do something, whose result is an exit code, in a process of its own; ``task`` is what ``wait`` gives."""
        self.free.remove(copy)
        self.running[_fork(copy, work)] = _Running(task, copy, time.monotonic() + seconds)

    def wait(self) -> tuple[Any, Path, int]:
        """Wait for a process that ends or is out of time, which counts as a failure: its task, copy and exit code."""
        while True:
            for pid, (task, copy, deadline) in self.running.items():
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended or time.monotonic() > deadline:
                    self._end(pid, is_there=not ended)
                    return task, copy, os.waitstatus_to_exitcode(status) if ended else 1
            time.sleep(0.01)

    def end(self) -> None:
        """End all that runs."""
        for pid in list(self.running):
            self._end(pid, is_there=True)

    def _end(self, pid: int, *, is_there: bool) -> None:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # also what it left running
        if is_there:
            os.waitpid(pid, 0)
        self.free.append(self.running.pop(pid).copy)


def _fork(copy: Path, work: Callable[[], int]) -> int:
    """Do something in a process of its own, in a copy of the tree; the process's id."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(copy / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(copy)
        os.environ["PYTHONPATH"] = str(copy / "addon")  # for the programs that tests start
        os.environ.setdefault("HUSHLIST_SHARED", str(ROOT.parent / "shared"))
        sys.path[:] = [str(copy / "addon"), str(copy / "tests"), *(path for path in sys.path if path not in _OURS)]
        code = work()
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _pytest(arguments: Iterable[str], plugin: object) -> int:
    ignored = [f"--ignore={path}" for path in _OF_THE_SOURCE]
    return int(pytest.main([*_PYTEST, *ignored, "--basetemp=basetemp", *arguments], plugins=[plugin]))


def _import_other_packages(copy: Path) -> None:
    """Import once what every process would import."""
    modules = copy / "modules.json"

    def work() -> int:
        for name in ("hushlist.cli", "hushlist.proxy.addon", "hypothesis", "jsonschema", "mitmproxy.test.taddons"):
            import_module(name)
        modules.write_text(json.dumps(list(sys.modules)))
        return 0

    if os.waitpid(_fork(copy, work), 0)[1]:
        raise ChildProcessError((copy / "log.txt").read_text())
    for name in json.loads(modules.read_text()):
        if name.partition(".")[0] not in ("hushlist", "__main__", "__mp_main__"):
            with suppress(ImportError):  # some are only names in sys.modules
                import_module(name)


# which tests call what


def _baseline(processes: _Processes, folder: Path, only: list[str] | None) -> dict[str, list[KnownTest]]:
    """Every test of the folders, or those of some files, by file.

    What a file of tests calls is known until it changes, or a module that it calls.

    Raises:
            ChildProcessError: more than a few tests fail.
    """
    files, digests = _test_files(), _digests()
    cache = _CACHE / f"{_digest_of_the_rest(files)}.json"
    known: dict[str, Any] = json.loads(cache.read_text()) if cache.exists() else {}
    known = {path: entry for path, entry in known.items() if entry["digests"].items() <= digests.items()}
    new = [path for path in files if path not in known and _is_in(path, only)]
    groups = [new[start::_GROUPS] for start in range(_GROUPS) if new[start::_GROUPS]]
    print(f"{len(new)} files of tests are run without a change", flush=True)

    failed: list[str] = []

    def take(group: int, copy: Path, code: int) -> None:
        if code not in (*_PASSED, _FAILED):
            raise ChildProcessError((copy / "log.txt").read_text())
        result = json.loads((folder / f"{group}.json").read_text())
        known.update({path: {"digests": {path: digests[path]}, "tests": []} for path in groups[group]})
        for test in result["tests"]:
            entry = known[test[0].partition("::")[0]]
            entry["tests"].append(test)
            entry["digests"].update({called: digests[called] for called in (f"{PACKAGE}/{at}" for at, _ in test[2])})
        failed.extend(result["failed"])
        if len(failed) > _MOST_FAILED:
            raise ChildProcessError((copy / "log.txt").read_text())

    for group, paths in enumerate(groups):
        if not processes.free:
            take(*processes.wait())
        copy = processes.free[0]
        recorder = Recorder(copy / PACKAGE, folder / f"{group}.json")
        processes.start(copy, group, partial(_pytest, paths, recorder), _LONGEST_GROUP)
    while processes.running:
        take(*processes.wait())
    for name in failed:
        print(f"fails without a change, and is left out: {name}")
    _CACHE.mkdir(exist_ok=True)
    (_CACHE / ".gitignore").write_text("*\n")
    in_doubt = {name.partition("::")[0] for name in failed}
    cache.write_text(json.dumps({path: entry for path, entry in known.items() if path not in in_doubt}))
    return {
        path: [KnownTest(name, seconds, frozenset(map(tuple, calls))) for name, seconds, calls in entry["tests"]]
        for path, entry in known.items()
        if _is_in(path, only)
    }


def _is_in(path: str, only: list[str] | None) -> bool:
    return only is None or any(path == own or path.startswith(f"{own.rstrip('/')}/") for own in only)


def _test_files() -> list[str]:
    tests = [path for folder in _TESTS for path in sorted((ROOT / folder).rglob("test_*.py"))]
    examples = [path for path in sorted((ROOT / PACKAGE).rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]
    paths = [str(path.relative_to(ROOT)) for path in [*tests, *examples]]
    return [path for path in paths if path not in _OF_THE_SOURCE]


def _digests() -> dict[str, str]:
    """A digest of each module and file of tests."""
    paths = [path for folder in _TESTS for path in (ROOT / folder).rglob("*.py")]
    return {str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def _digest_of_the_rest(files: Iterable[str]) -> str:
    """A digest of what tests share, and of what the package reads."""
    digest = hashlib.sha256(sys.version.encode())
    for path in (path for folder in ("addon", "rules", "tests") for path in sorted((ROOT / folder).rglob("*"))):
        name = str(path.relative_to(ROOT))
        is_known = name.startswith((f"{PACKAGE}/", "tests/mutation/")) and path.suffix == ".py"
        if path.suffix in (".py", ".yaml", ".json", ".html") and not is_known and name not in files:
            digest.update(f"{name}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


# whether a test sees a change


def _try_all(mutants: list[Mutant], tests: Mapping[str, list[KnownTest]], processes: _Processes) -> list[Mutant]:
    """Try the changes, several at a time; those that no test saw, printed as they are found."""
    waiting, survivors = list(reversed(mutants)), []

    def run(mutant: Mutant, stages: list[list[KnownTest]], copy: Path) -> None:
        seconds: dict[str, float] = {}
        for test in stages[0]:
            seconds[test.file] = seconds.get(test.file, 0) + test.seconds
        files = sorted(seconds, key=seconds.__getitem__)
        work = partial(_pytest, ["-x", *files], Chosen({test.id for test in stages[0]}))
        processes.start(copy, (mutant, stages[1:]), work, _PATIENCE + _SLOWER * sum(seconds.values()))

    while waiting or processes.running:
        while waiting and processes.free:
            mutant, copy = waiting.pop(), processes.free[0]
            source = (ROOT / PACKAGE / mutant.path).read_bytes()
            (copy / PACKAGE / mutant.path).write_bytes(mutant.apply(source))
            run(mutant, _stages(mutant, tests), copy)
        (mutant, stages), copy, code = processes.wait()
        if code in _PASSED and stages:
            run(mutant, stages, copy)
            continue
        shutil.copyfile(ROOT / PACKAGE / mutant.path, copy / PACKAGE / mutant.path)
        if code in _PASSED:
            survivors.append(mutant)
            print(f"{PACKAGE}/{mutant.path}:{mutant.line}: {mutant.place}: {mutant.change}", flush=True)
    return survivors


def _stages(mutant: Mutant, tests: Mapping[str, list[KnownTest]]) -> list[list[KnownTest]]:
    """The tests that could see a change: those of its module, those of its room, and all others."""
    path = PurePosixPath(mutant.path)
    changed = range(mutant.lines[0], mutant.lines[1] + 1)
    module = ".".join(("hushlist", *path.with_suffix("").parts))
    if path.name == "__init__.py":
        names = {module.removesuffix(".__init__"), *_OF_DOORS}
    else:
        names = {module, *_importers(module)} if mutant.lines[0] == 1 else {module}
    of_module, of_room, others = [], [], []
    for file, found in tests.items():
        calling = [test for test in found if any(at == mutant.path and line in changed for at, line in test.calls)]
        if mutant.lines[0] == 1:
            text = (ROOT / file).read_text(encoding="utf-8")
            calling = found if any(name in text for name in names) else calling  # some may go by a constant alone
        if file in (f"tests/unit/{path.parent}/test_{path.name}", f"{PACKAGE}/{path}"):
            of_module += found
        elif file.startswith(f"tests/unit/{path.parent}/"):
            of_room += found if calling else []
        else:
            others += calling
    return [stage for stage in (of_module, of_room, others) if stage] or [[]]


@cache
def _importers(module: str) -> list[str]:
    """The modules of the package that import this one, if they are few: their tests may go by its constants."""
    folder, _, name = module.rpartition(".")
    inside = rf"(?:\([^)]*\b{name}\b|[^(\n]*\b{name}\b)"
    says_so = re.compile(rf"^from (?:{re.escape(module)} import|{re.escape(folder)} import {inside})", re.MULTILINE)
    files = [file for file in (ROOT / PACKAGE).rglob("*.py") if says_so.search(file.read_text(encoding="utf-8"))]
    if len(files) > _FEW_IMPORTERS:
        return []
    return [".".join(file.relative_to(ROOT / "addon").with_suffix("").parts) for file in files]


if __name__ == "__main__":
    sys.exit(main())
