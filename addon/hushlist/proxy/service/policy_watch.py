"""Reads the policy before any request, and again when a file has changed and is then unchanged for a moment.

It is also read again by command, and after a fault of its index or of the machine. Then a thread checks and reads the
files, never the event loop; another process compiles. The result is used only if no file changed meanwhile, so that no
decision uses half a list. If the policy cannot be used at the start, that is an error, unless the policy
itself lets requests pass then. Later, a broken change is reported, and the last good state stays in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from time import monotonic, time
from typing import NamedTuple
from urllib.parse import clear_cache  # type: ignore[attr-defined]

from hushlist.core.compile.background_compiler import BackgroundCompiler
from hushlist.core.compile.compile_report import CompileReport, policy_warnings
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import Lines, Problem, SourceError, logger_of, number_of, printable
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.match.index import Index
from hushlist.core.policy.policy_file import Policy, PolicyError
from hushlist.core.policy.policy_reader import read_policy
from hushlist.core.policy.proxy_settings import FailureCause, OnFailure
from hushlist.core.system.files import Fingerprint, fingerprints
from hushlist.core.system.package_code import OTHER_CODE, CodeOnDisk
from hushlist.proxy.page.template import Template, load_template
from hushlist.proxy.runtime import UNFILTERED, LoadedPolicy, Runtime

logger = logger_of(__name__)

#: seconds between two checks of the files; a change has to be seen twice
INTERVAL = 0.2
#: checks after which files that keep changing are read nevertheless
PATIENCE = 25
#: seconds between two looks of the extensions
DUE_INTERVAL = 5.0
#: seconds between two reports of a problem, and between two tries to recover from a fault of the machine
RETRY = 60.0

_Files = Mapping[Path, Fingerprint]
#: stands for a file that has still to be read
UNREAD: Fingerprint = (-1, -1, -1, -1)


class PolicyUpdate(NamedTuple):
    """All that a new reading of the policy and its lists gives."""

    engine: Engine
    #: the administrator's own block page
    template: Template | None
    #: what is wrong with it, although it can be used
    warnings: Sequence[Problem]


async def _in_thread(wait: Callable[[Event], None]) -> None:
    """Call a function that waits, in a thread of its own; the event is set when nobody waits for it any longer.

    A new thread and a wake-up of the event loop at each check would cost more than the check.
    """
    while True:
        is_over, thread = Event(), ThreadPoolExecutor(1, "hushlist: watch")
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, wait, is_over)
        except RuntimeError:  # the machine has no thread left now
            await asyncio.sleep(INTERVAL)
        finally:
            is_over.set()
            thread.shutdown(wait=False)


class _Changes:
    """Looks for changed files that are then unchanged for a moment, or that never stop changing."""

    def __init__(self, files: _Files, prepare: Callable[[], object]) -> None:
        """``prepare`` is called as soon as a change is seen."""
        #: as they were last read, and as they were last seen
        self.read = self.seen = files
        self._restless, self._prepare = 0, prepare

    def wait(self, is_over: Event) -> None:
        """Return once there is something to read, or at the end."""
        while not is_over.wait(INTERVAL):
            before, self.seen = self.seen, fingerprints(self.read)
            self._restless = 0 if self.seen == before else self._restless + 1
            if self.seen == self.read:
                continue
            if not 0 < self._restless < PATIENCE:
                return
            self._prepare()


async def watch(
    read: Callable[[], PolicyUpdate],
    files: _Files,
    swap: Callable[[PolicyUpdate], None],
    prepare: Callable[[], object],
) -> None:
    """Read a new engine and block page, and pass them to ``swap``, whenever the files have changed; never ends.

    A change that cannot be read is logged, and tried again after the next change. ``prepare`` is called as soon as a
    change is seen.
    """
    changes = _Changes(files, prepare)
    while True:
        await _in_thread(changes.wait)
        changes.read = changes.seen
        try:
            update = await asyncio.to_thread(read)
            files = update.engine.policy.watched
            if await asyncio.to_thread(fingerprints, files) == files:
                swap(update)
                changes.read = changes.seen = files
            else:  # changed while it was read: that counts as another change
                changes.read = dict.fromkeys(files, UNREAD)
        except PolicyError as error:
            # the problems have file and line; a traceback would add nothing
            logger.error("hushlist: the change is not used, the last good rules stay:\n%s", Lines(error))  # noqa: TRY400
            changes.read = changes.seen = {**changes.seen, **error.files}
        except Exception:
            logger.exception("hushlist: the change is not used, the last good rules stay")


class PolicyWatch:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._path: Path | None = None
        #: files to watch: the files of the policy in use, or of the broken one
        self._files: _Files = {}
        #: whether reading the same files again may succeed
        self._may_pass = False
        #: looks for the package of this process, where its policy could not be read for want of that
        self._code: CodeOnDisk | None = None
        #: the warnings about the policy in use
        self._warnings: frozenset[tuple[str, ...]] = frozenset()
        #: the ports on which the proxy listens
        self._own_ports: tuple[int, ...] = ()
        self._background = BackgroundCompiler()
        self._watcher: asyncio.Task[None] | None = None
        self._guard: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._is_running = False

    def load(self, path: Path, own_ports: Iterable[int] = ()) -> None:
        """Use a policy: at the start, before any request is served; later, as soon as it is compiled.

        At the start, a policy that cannot be used may itself let requests pass: then they do, with a warning.

        Raises:
            PolicyError: the policy cannot be used; while the proxy runs, its lists are checked later.
        """
        self._own_ports = self._runtime.own_ports = tuple(own_ports)
        try:
            if self._is_running:
                self._files = dict.fromkeys(_files_of(path), UNREAD)
            else:
                self._background = BackgroundCompiler(self._own_ports)
                self._use(self._read_settled(path))
        except PolicyError as error:
            self._path = self._path or path
            self._files = self._files or error.files
            if (
                self._is_running
                or self._runtime.engine is not None
                or not self._runtime.failure_policy.on_failure.passes(FailureCause.START)
            ):
                raise
            logger.warning("hushlist: %s:\n%s", UNFILTERED, Lines(error))  # an error would end mitmdump at its start
            return
        self._path = path
        self._restart()

    def reload(self) -> None:
        """Read everything again."""
        self._may_pass, self._code = False, None  # until that fails: what takes longer would never end
        self._files = dict.fromkeys(self._files, UNREAD)
        self._restart()

    def run(self) -> None:
        """Begin to watch the files; called in the event loop."""
        self._is_running = True
        self._restart()

    def close(self) -> None:
        for task in (self._watcher, self._guard, self._looking):
            if task is not None:
                task.cancel()
        self._background.stop()

    def _restart(self) -> None:
        if not self._is_running or self._path is None:
            return
        if self._watcher is not None:
            self._watcher.cancel()
        self._background.stop()
        self._background = BackgroundCompiler(self._own_ports)
        how = self._background, self._path
        watching = watch(partial(self._read, *how), self._files, self._use, partial(self._prepare, *how))
        loop = asyncio.get_running_loop()
        self._watcher = loop.create_task(watching, name="hushlist: watch rules")
        if self._guard is None:
            self._guard = loop.create_task(self._keep_watch(), name="hushlist: guard")
            self._looking = loop.create_task(_in_thread(self._look), name="hushlist: look")

    async def _keep_watch(self) -> None:
        """Check regularly the index in use, and files that are to be tried again."""
        last = monotonic()
        while True:
            await _in_thread(partial(self._wait_for_fault, last + RETRY))
            self._look_at_index()
            if self._has_code_again():
                self.reload()
            if monotonic() - last < RETRY:
                continue
            last = monotonic()
            if self._runtime.engine is None:
                logger.warning("hushlist: %s:\n%s", self._runtime.without_policy(), Lines(self._runtime.problem))
            if self._may_pass or await asyncio.to_thread(self._can_more):
                self.reload()

    def _look_at_index(self) -> None:
        """Compile an index anew that was changed in use. Who waits keeps no engine: another one may replace it."""
        engine = self._runtime.engine
        if engine is not None and not engine.index.is_as_opened:
            what = f"{engine.index.source}: somebody has changed it while it was in use; it is compiled anew"
            problem = printable(what)
            self._runtime.give_up(problem)
            logger.error("hushlist: %s", problem)
            self.reload()

    def _has_code_again(self) -> bool:
        """Whether the policy could not be read as the package was replaced, and can be, as it is back."""
        return self._code is not None and self._code.is_loaded()

    def _can_more(self) -> bool:
        """Whether an extension can do more for the policy in use than when that was read; its engine has to know it."""
        engine = self._runtime.engine
        return engine is not None and any(can_more(engine.policy) for can_more in self._runtime.parts.can_more)

    def _look(self, is_over: Event) -> None:
        """Let extensions look after what they have, until the end."""
        while not is_over.wait(DUE_INTERVAL):
            if (engine := self._runtime.engine) is not None:
                for watch in self._runtime.parts.watch:
                    try:
                        watch(engine.policy)
                    except Exception:  # the others go on
                        logger.exception("hushlist: an extension failed, and is tried again")

    def _wait_for_fault(self, latest: float, is_over: Event) -> None:
        """Return once the index in use was changed, or the package is back; or at a moment, or at the end."""
        while not is_over.wait(INTERVAL):
            clear_cache()  # the last 128 URLs that mitmproxy has parsed, of any length
            engine = self._runtime.engine
            has_changed = engine is not None and not engine.index.is_as_opened
            if monotonic() >= latest or has_changed or self._has_code_again():
                return

    # -- reading; in a thread, while the proxy runs ------------------------------------------------------------------

    def _in_use(self) -> Index | None:
        engine = self._runtime.engine
        return None if engine is None else engine.index

    def _prepare(self, background: BackgroundCompiler, path: Path) -> None:
        background.prepare(path, before=self._in_use())

    def _read(self, background: BackgroundCompiler, path: Path) -> PolicyUpdate:
        runtime, moment, start = self._runtime, time(), monotonic()
        try:
            policy, index = background.compile(path, before=self._in_use(), is_start=not self._is_running)
            template, warnings = _check(policy, index)
            engine = Engine(policy, index, runtime.redirect_memory, *runtime.parts.prepare(policy))
        except PolicyError as error:
            if background.is_stopped:  # another reading has begun, which says what is wrong
                raise
            runtime.problem, self._may_pass = str(error), error.may_pass
            self._code = CodeOnDisk() if OTHER_CODE in runtime.problem else None
            runtime.was_read(LoadedPolicy(moment, monotonic() - start, runtime.problem))
            if runtime.engine is None:
                faulty = read_policy(path, ProblemReport(str(path)))
                runtime.failure_policy.on_failure = OnFailure() if faulty is None else faulty.on_failure
            raise
        except Exception as error:  # of ours, or of an extension
            runtime.problem, self._may_pass = printable(f"{path}: {type(error).__name__}: {error}"), True
            runtime.was_read(LoadedPolicy(moment, monotonic() - start, runtime.problem))
            raise
        runtime.was_read(LoadedPolicy(moment, monotonic() - start, None))
        return PolicyUpdate(engine, template, warnings)

    def _read_settled(self, path: Path) -> PolicyUpdate:
        """Read a policy; once more if its files were written meanwhile, since an error would end the start."""
        try:
            return self._read(self._background, path)
        except PolicyError as error:
            if fingerprints(error.files) == error.files:
                raise
        return self._read(self._background, path)

    def _use(self, update: PolicyUpdate) -> None:
        engine, self._may_pass = update.engine, True
        self._runtime.use(engine, update.template)
        self._files, self._may_pass = engine.policy.watched, False
        of_parts = [problem for problems in self._runtime.parts.problems for problem in problems(engine.policy)]
        again = self._warn([*of_parts, *update.warnings])
        rules = number_of(len(engine.index), "rule", "rules")
        files = number_of(engine.policy.number_of_files, "file", "files")
        more = f"; {number_of(again, 'warning', 'warnings')} as before" if again else ""
        logger.info("hushlist: %s of %s, by %s%s", rules, files, engine.policy.source, more)

    def _warn(self, problems: Sequence[Problem]) -> int:
        """Tell of what was not so with the policy before, on whatever line it is; returns how much was so already."""
        before, self._warnings = self._warnings, frozenset(map(_without_line, problems))
        fresh = [problem for problem in problems if _without_line(problem) not in before]
        for problem in fresh:
            logger.warning("hushlist: %s", problem)
        return len(problems) - len(fresh)


def _without_line(problem: Problem) -> tuple[str, ...]:
    return problem.source, problem.what, problem.why


def _check(policy: Policy, index: Index) -> tuple[Template | None, list[Problem]]:
    """Make sure that a compiled policy can be used; returns the administrator's own block page, and the warnings.

    Raises:
        PolicyError: its template has mistakes.
    """
    try:
        template = None if policy.block_page is None else load_template(policy.block_page)
    except SourceError as error:
        raise PolicyError(error.problems, policy.files) from None
    of_policy = policy_warnings(policy, index)
    return template, [*of_policy, *policy.held_back, *CompileReport.of(index).warnings]


def _files_of(path: Path) -> _Files:
    """The files of a policy.

    Raises:
        PolicyError: the policy file itself has problems.
    """
    report = ProblemReport(str(path))
    policy = read_policy(path, report)
    if policy is None or report.errors:
        raise PolicyError(report.errors, {})
    return policy.files
