"""Reads the policy before any request, and again when a file has changed and is then unchanged for a moment.

It is also read again by command, and after a fault of its index or of the machine. Then a thread checks and reads the
files, never the event loop; another process compiles. The result is used only if no file changed meanwhile, so that no
decision uses half a list. If the policy cannot be used at the start, that is an error, unless the policy
itself lets requests pass then. Later, a broken change is reported, and the last good state stays in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic, time
from urllib.parse import clear_cache  # type: ignore[attr-defined]

from hushlist.compiling.background_compiler import BackgroundCompiler
from hushlist.compiling.compile_report import CompileReport
from hushlist.decide.engine import Engine
from hushlist.errors import Lines, SourceError, logger_of, printable
from hushlist.lists.list_formats import FORMATS
from hushlist.lists.list_source import ProblemReport
from hushlist.match.index import Index
from hushlist.policy.policy_file import Fingerprint, Policy, PolicyError, fingerprint, read_policy
from hushlist.policy.proxy_settings import FailureCause, OnFailure
from hushlist.proxy.page.template import Template, load_template
from hushlist.proxy.runtime import UNFILTERED, LoadedPolicy, Runtime

logger = logger_of(__name__)

#: seconds between two checks of the files; a change has to be seen twice
INTERVAL = 0.5
#: checks after which files that keep changing are read nevertheless
PATIENCE = 10
#: seconds between two reports of a problem, and between two tries to recover from a fault of the machine
RETRY = 60.0

_Files = dict[Path, Fingerprint]
#: stands for a file that has still to be read
UNREAD: Fingerprint = (-1, -1, -1)


def fingerprints_of(files: _Files) -> _Files:
    """The current fingerprints of files."""
    return {path: fingerprint(path) for path in files}


async def watch(read: Callable[[], Engine], files: _Files, swap: Callable[[Engine], None]) -> None:
    """Read a new engine, and pass it to ``swap``, whenever the files have changed; runs until it is cancelled.

    A change that cannot be read is logged, and tried again after the next change.
    """
    last_seen = files
    restless = 0
    while True:
        await asyncio.sleep(INTERVAL)
        seen = await asyncio.to_thread(fingerprints_of, files)
        restless = 0 if seen == last_seen else restless + 1
        last_seen = seen
        if seen == files or 0 < restless < PATIENCE:
            continue
        last_seen = files = seen
        try:
            engine = await asyncio.to_thread(read)
            if await asyncio.to_thread(fingerprints_of, engine.policy.files) == engine.policy.files:
                swap(engine)
                last_seen = files = engine.policy.files
            else:  # changed while it was read: that counts as another change
                files = dict.fromkeys(engine.policy.files, UNREAD)
        except PolicyError as error:
            # the problems have file and line; a traceback would add nothing
            logger.error("hushlist: the change is not used, the last good rules stay:\n%s", Lines(error))  # noqa: TRY400
            last_seen = files = {**seen, **error.files}
        except Exception:
            logger.exception("hushlist: the change is not used, the last good rules stay")


class PolicyWatch:
    """Reads the policy for a runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._path: Path | None = None
        #: files to watch: the files of the policy in use, or of the broken one
        self._files: _Files = {}
        #: how many rules each file had when last in use
        self._rules: dict[str, int] = {}
        #: whether reading the same files again may succeed
        self._may_pass = False
        self._background = BackgroundCompiler()
        self._watcher: asyncio.Task[None] | None = None
        self._guard: asyncio.Task[None] | None = None
        self._is_running = False

    def load(self, path: Path) -> None:
        """Use a policy: at the start, before any request is served; later, as soon as it is compiled.

        At the start, a policy that cannot be used may itself let requests pass: then they do, with a warning.

        Raises:
            PolicyError: the policy cannot be used; while the proxy runs, its lists are checked later.
        """
        self._runtime.open_overrides()
        try:
            if self._is_running:
                self._files = dict.fromkeys(_files_of(path), UNREAD)
            else:
                self._use(self._read(self._background, path))
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
        self._files = dict.fromkeys(self._files, UNREAD)
        self._restart()

    def run(self) -> None:
        """Begin to watch the files; called in the event loop."""
        self._is_running = True
        self._restart()

    def close(self) -> None:
        """Stop watching."""
        for task in (self._watcher, self._guard):
            if task is not None:
                task.cancel()
        self._watcher = self._guard = None
        self._background.stop()

    def _restart(self) -> None:
        if not self._is_running or self._path is None:
            return
        if self._watcher is not None:
            self._watcher.cancel()
        self._background.stop()
        self._background = BackgroundCompiler()
        watching = watch(partial(self._read, self._background, self._path), self._files, self._use)
        loop = asyncio.get_running_loop()
        self._watcher = loop.create_task(watching, name="hushlist: watch rules")
        if self._guard is None:
            self._guard = loop.create_task(self._keep_watch(), name="hushlist: guard")

    async def _keep_watch(self) -> None:
        """Check regularly the index in use, and files that are to be tried again."""
        last = monotonic()
        while True:
            await asyncio.sleep(INTERVAL)
            clear_cache()  # the last 128 URLs that mitmproxy has parsed, of any length
            engine = self._runtime.engine
            if engine is not None and not engine.index.is_as_opened:
                what = f"{engine.index.source}: somebody has changed it while it was in use; it is compiled anew"
                problem = printable(what)
                self._runtime.give_up(problem)
                logger.error("hushlist: %s", problem)
                self.reload()
            if monotonic() - last < RETRY:
                continue
            last = monotonic()
            if self._runtime.engine is None:
                logger.warning("hushlist: %s:\n%s", self._runtime.without_policy(), Lines(self._runtime.problem))
            if self._may_pass:
                self.reload()

    # -- reading; in a thread, while the proxy runs ------------------------------------------------------------------

    def _read(self, background: BackgroundCompiler, path: Path) -> Engine:
        runtime, moment, start = self._runtime, time(), monotonic()
        try:
            policy, index = background.compile(path)
            self._check(policy, index)
        except PolicyError as error:
            runtime.problem, self._may_pass = str(error), error.may_pass
            runtime.was_read(LoadedPolicy(moment, monotonic() - start, runtime.problem))
            if runtime.engine is None:
                known = read_policy(path, ProblemReport(str(path)))
                runtime.failure_policy.on_failure = OnFailure() if known is None else known.on_failure
            raise
        runtime.was_read(LoadedPolicy(moment, monotonic() - start, None))
        return Engine(policy, index, runtime.redirect_memory, runtime.overrides)

    def _check(self, policy: Policy, index: Index) -> None:
        """Make sure that a compiled policy can be used.

        Raises:
            PolicyError: its template has mistakes, or a list lost all its rules.
        """
        try:
            _load_template(policy)
        except SourceError as error:
            raise PolicyError(error.problems, policy.files) from None
        # "rules: []" in a YAML list says that no rules are meant.
        files = (file for layer in policy.layers for file in layer.lists)
        written = {str(file.path) for file in files if file.format is FORMATS["yaml"]}
        before = {source: number for source, number in self._rules.items() if source not in written}
        if problems := list(CompileReport.of(index).emptied(before)):
            raise PolicyError(problems, policy.files)

    def _use(self, engine: Engine) -> None:
        self._runtime.use(engine, _load_template(engine.policy))
        self._files, self._may_pass = engine.policy.files, False
        report = CompileReport.of(engine.index)
        self._rules = report.rules
        for problem in report.warnings:
            logger.warning("hushlist: %s", problem)
        files = len(engine.policy.files)
        logger.info("hushlist: %d rules of %d files, by %s", len(engine.index), files, engine.policy.source)


def _load_template(policy: Policy) -> Template | None:
    """The administrator's own block page.

    Raises:
        SourceError: it cannot be used.
    """
    return None if policy.block_page is None else load_template(policy.block_page)


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
