"""What holds for all tests."""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from compileall import compile_file
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import assertstate_key, rewrite
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadGroupScheduling

from hushlist.extensions.databases.postgres_address import PostgresAddress
from postgres import GROUP, Server, running
from support.clock import Clock

# Always the same examples, here and in CI, so more of them would find nothing new; ``HYPOTHESIS_PROFILE`` names another
# profile.
settings.register_profile(
    "same",
    max_examples=24,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],  # busy machines
)
# fresh examples, more of them
settings.register_profile("nightly", max_examples=1_000, deadline=None, derandomize=False)
# with ``--timeout=0``: for hours in which nobody waits
settings.register_profile("long", max_examples=50_000, deadline=None, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# Hundreds of programs that tests start import the package. Where Python may not keep bytecode, each would compile it.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# No test goes by the policy that who runs it has made by the first start.
os.environ["XDG_CONFIG_HOME"] = os.devnull

# A shell has what it starts in the background ignore SIGINT, by which tests end the programs that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What compiles in the background would wait until no other test needs a core.
_STARTUP = str(Path(__file__).with_name("startup"))
if _STARTUP not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), _STARTUP)))

#: what of Linux is in memory: there, hundreds of tests do not wait until a disk has what is to outlast a failure
_IN_MEMORY = Path("/dev/shm")
#: octets that it needs to have free
_ENOUGH = 4 << 30

if (
    "TMPDIR" not in os.environ
    and os.access(_IN_MEMORY, os.W_OK)
    and shutil.disk_usage(_IN_MEMORY).free > _ENOUGH
    and not os.statvfs(_IN_MEMORY).f_flag & os.ST_NOEXEC
):
    os.environ["TMPDIR"] = tempfile.tempdir = str(_IN_MEMORY)

_TESTS = Path(__file__).parent
_PACKAGE = _TESTS.with_name("addon")
#: folders whose tests start proxies, servers and browsers
_SLOW = {"e2e", "evasion", "faults"}
#: processes that share the tests: three for each of two cores, since most wait for programs that they have started
_WORKERS = 6
#: new objects between two runs of the garbage collector
_BETWEEN_COLLECTIONS = 20_000
_NUMBERS = count()
#: reports that nothing is made of
_UNTOLD = {("passed", "setup"), ("passed", "teardown")}
#: of a parameter, what a test is named by; the name goes into the environment, and to a second run of what failed
_LONGEST_NAME = 200


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups next
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what starts other programs or is thorough, so that ``-m "not slow"`` leaves it out.

    Where processes share the work, tests of programs go among the others: while they wait, those need a core. Those
    that share a program of their file or class are a group, so that it is started once; groups, which take long, begin
    first.
    """
    kinds: dict[bool, list[pytest.Item]] = {True: [], False: []}
    is_windows = os.name != "posix" or config.pluginmanager.hasplugin("support.as_windows")
    for item in items:
        if is_windows and item.get_closest_marker("posix"):
            item.add_marker(pytest.mark.skip("owners, permissions and signals as POSIX has them"))
        kinds[starts_programs := not _SLOW.isdisjoint(item.path.parts)].append(item)
        if starts_programs or item.get_closest_marker("thorough") or GROUP.mark in item.iter_markers():
            item.add_marker("slow")
        if starts_programs and not _is_grouped(item) and _shares_a_fixture(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    if hasattr(config, "workerinput"):
        kinds[True].sort(key=_is_grouped, reverse=True)
        places = {item: place / len(some) for some in kinds.values() for place, item in enumerate(some)}
        items.sort(key=places.__getitem__)


def _is_grouped(item: pytest.Item) -> bool:
    return item.get_closest_marker("xdist_group") is not None


def _shares_a_fixture(item: pytest.Item) -> bool:
    """Whether a fixture of its file is made for all of a file or a class."""
    file = item.nodeid.partition("::")[0]
    fixtures = getattr(item, "_fixtureinfo", None)
    return fixtures is not None and any(
        each[-1].scope in ("module", "class") and each[-1].baseid.startswith(file)
        for each in fixtures.name2fixturedefs.values()
    )


def _is_quick(config: pytest.Config) -> bool:
    """Whether ``-m`` leaves out all that is slow."""
    expression: str = config.option.markexpr
    return " or " not in expression and "not slow" in expression.split(" and ")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What a quick run would leave out test by test need not be imported."""
    return True if collection_path.parent == _TESTS and collection_path.name in _SLOW and _is_quick(config) else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A worker takes seconds to import all tests: where none waits, there are no more of them than cores."""
    return min(_WORKERS, max(2, os.cpu_count() or 1)) if _is_quick(config) else _WORKERS


class _Scheduling(LoadGroupScheduling):
    """A process that asks for work gets a group or, of what starts no programs, a whole file.

    So a file's fixtures are made once; and of thousands of tests that each are asked for alone, the one that gives them
    out would go through all that it gave before, for each.
    """

    def _split_scope(self, nodeid: str) -> str:
        scope, path = super()._split_scope(nodeid), nodeid.partition("::")[0]
        return path if scope == nodeid and not _SLOW.intersection(path.split("/")) else scope

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        """How many are to come; what has ended is forgotten, as it would be counted again at each of 100,000 events."""
        pending = {scope: unit for scope, unit in workload.items() if not all(unit.values())}
        if len(pending) < len(workload):
            workload.clear()
            workload.update(pending)
        return super()._pending_of(workload)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Compile what a checkout has, once and on all cores: else each worker would, all at the same time."""
    if not hasattr(os, "fork"):  # Windows
        return
    fork = multiprocessing.get_context("fork")
    files = sorted(path for folder in (_TESTS, _PACKAGE) for path in folder.rglob("*.py"))
    cores = os.cpu_count() or 1
    compiling = [fork.Process(target=_compile, args=(files[core::cores], config)) for core in range(cores)]
    for process in compiling:
        process.start()
    for process in compiling:
        process.join()


def _compile(files: list[Path], config: pytest.Config) -> None:
    """Compile to where Python and, for tests, pytest look; what fails here is told where it is imported."""
    for file in files:
        with suppress(SyntaxError, OSError):
            if not file.name.startswith(("test_", "conftest")):
                compile_file(str(file), quiet=2)
            elif not rewrite._read_pyc(
                file, compiled := rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"
            ):
                rewrite.try_makedirs(compiled.parent)
                stat, code = rewrite._rewrite_test(file, config)
                rewrite._write_pyc(config.stash[assertstate_key], code, stat, compiled)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Scheduling | None:
    return _Scheduling(config, log) if config.getoption("dist") == "loadgroup" else None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have a worker tell once of a test that passes: five messages take longer than most tests do.

    Only ``--durations`` and ``--junit-xml`` ask for all.
    """
    if session.config.option.durations is not None or session.config.option.xmlpath:
        return
    for worker in session.config.pluginmanager.get_plugins():
        if send := getattr(worker, "sendevent", None):
            worker.sendevent = partial(_send_what_counts, send)


def _send_what_counts(send: Callable[..., None], name: str, **more: Any) -> None:
    report = more.get("data", {}) if name == "testreport" else {}
    if name not in ("logstart", "logfinish") and (report.get("outcome"), report.get("when")) not in _UNTOLD:
        send(name, **more)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a test by the beginning of a long parameter: Linux starts no program with a word of over 128 KiB."""
    if isinstance(val, (str, bytes)) and len(val) > _LONGEST_NAME:
        return f"{val[:_LONGEST_NAME]!a}...{len(val)}"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Only the package has examples, in some modules: what has none, as tests, need not be searched for them."""
    found = yield
    if any(isinstance(one, DoctestModule) for one in found):
        has_examples = not file_path.is_relative_to(_TESTS) and b">>> " in file_path.read_bytes()
        found = [one for one in found if has_examples or not isinstance(one, DoctestModule)]
    return found


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests are made, and stay: the garbage collector need not go through them again and again.

    Where it runs later, what parses or compiles takes up to a third less: Hypothesis measures each of its runs, too.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(_BETWEEN_COLLECTIONS)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_folders_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home, a cache folder and a state folder of the tests' own, which the programs that they start use, too.

    An authority in the user's own would be checked at each start of the addon, which takes longer than all else of it.
    """
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Folders of a file's own: who compiles a policy goes through all lists in the cache; orders stay in the store."""
    folder = tmp_path_factory.mktemp(f"folders_{next(_NUMBERS)}", numbered=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As pytest's, which goes through all folders of thousands of tests to find a number for the next."""
    return tmp_path_factory.mktemp(re.sub(r"\W", "_", f"{next(_NUMBERS)}_{request.node.name}")[:30], numbered=False)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL, started when a test first needs it; such tests have the mark ``GROUP`` of ``postgres``."""
    with running() as server:
        yield server


@pytest.fixture
def database(postgres: Server) -> Iterator[PostgresAddress]:
    """The address of a database with our tables, which are empty."""
    with postgres.database() as name:
        yield postgres.address(name)


@pytest.fixture
def clock() -> Clock:
    """The clock of a test."""
    return Clock()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=GROUP)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | PostgresAddress:
    """Where a store can be: a file, and a database."""
    if request.param == "sqlite":
        return tmp_path / "state" / "store.sqlite"
    found: PostgresAddress = request.getfixturevalue("database")
    return found
