"""The current state: the policy with its rules, the log, the store of overrides, and the watch over the files.

If the policy cannot be used at the start, that is an error, unless the policy itself lets requests pass then. Later, a
broken change is reported, and the last good state stays in use.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter_ns, time
from typing import NamedTuple
from urllib.parse import clear_cache  # type: ignore[attr-defined]

from hushlist.compiling.background_compiler import BackgroundCompiler
from hushlist.compiling.compile_report import CompileReport
from hushlist.decide.decision import Decision, Judgement
from hushlist.decide.engine import Engine
from hushlist.errors import Lines, SourceError, logger_of, printable
from hushlist.journal.log_record import LogRecord
from hushlist.journal.log_writer import LogWriter
from hushlist.lists.list_formats import FORMATS
from hushlist.lists.list_source import ProblemReport
from hushlist.match.index import Index
from hushlist.match.rule import Action
from hushlist.policy.groups import Client, Group, GroupSettings
from hushlist.policy.policy_file import Fingerprint, Policy, PolicyError, read_policy
from hushlist.policy.proxy_settings import FailureCause, LogSettings, OnFailure
from hushlist.proxy.failure_policy import FailurePolicy
from hushlist.proxy.page.template import Template, load_template
from hushlist.proxy.policy_watch import INTERVAL, UNREAD, watch
from hushlist.proxy.statistics import Statistics
from hushlist.unblock.credentials import Tokens
from hushlist.unblock.overrides import Overrides
from hushlist.unblock.store import StoreError, default_path
from hushlist.url.redirects import RedirectMemory
from hushlist.url.request import Request

logger = logger_of(__name__)

#: what applies while there is no policy
_EVERYBODY = Group("", (), GroupSettings())
_NO_POLICY = "the filter has no policy that it can use"
_REFUSED = "no policy that can be used: every request is refused"
_UNFILTERED = "NOTHING IS FILTERED: no policy that can be used, and every request passes, as its on-failure says"
#: seconds between two reports of a problem, and between two tries to recover from a fault of the machine
RETRY = 60.0


class LoadedPolicy(NamedTuple):
    """The result of one reading of the policy and its lists."""

    #: when, in seconds since 1970, and how many seconds it took
    moment: float
    duration: float
    #: why it is not used, if it has errors
    problem: str | None


class Runtime:
    """The engine, log and stores in use; the addon's parts look here each time and keep no copy."""

    def __init__(self) -> None:
        #: mitmproxy's option; a group's mode may do less
        self.mode = "block"
        #: ``None`` while no policy can be used; then ``judge`` uses the failure action
        self.engine: Engine | None = None
        #: temporary unblocks; ``None`` if the store cannot be used
        self.overrides: Overrides | None = None
        #: tokens for the forms, loaded with the store, so that no page waits for a disk
        self.tokens: Tokens | None = None
        #: the log of decisions, if there is one
        self.journal: LogWriter | None = None
        #: the administrator's own block page
        self.template: Template | None = None
        self.redirect_memory = RedirectMemory()
        #: what to do if the filter fails
        self.failure_policy = FailurePolicy()
        self.statistics = Statistics()
        #: the last reading of the policy, and how many readings succeeded and failed
        self.reading: LoadedPolicy | None = None
        self.readings = {True: 0, False: 0}
        #: the problem of the last change, which is not used
        self.problem: str | None = None
        #: how many rules each file had when last in use
        self._rules: dict[str, int] = {}
        self._no_overrides: str | None = None
        #: why there is no engine, if so
        self._missing = FailureCause.START
        #: whether reading the same files again may succeed
        self._may_pass = False
        self._path: Path | None = None
        #: files to watch: the files of the policy in use, or of the broken one
        self._files: dict[Path, Fingerprint] = {}
        self._background = BackgroundCompiler()
        self._watcher: asyncio.Task[None] | None = None
        self._guard: asyncio.Task[None] | None = None
        self._is_running = False

    # -- requests ------------------------------------------------------------------------------------------------

    def settings(self, client: Client) -> GroupSettings:
        """The settings of a client's group, with the effective mode."""
        return self._group(client).settings.under(self.mode)

    def _group(self, client: Client) -> Group:
        return _EVERYBODY if self.engine is None else self.engine.group(client)

    @property
    def asks_media(self) -> bool:
        """Whether the media types that a request names can change a decision."""
        return self.engine is not None and self.engine.asks_media

    def judge(self, request: Request, client: Client, *, is_connection: bool = False) -> Judgement | None:
        """Decide a request; ``None`` while the filter is off for its client.

        ``is_connection``: only hosts and port are known. Without a policy, nothing passes, unless a policy said so.
        """
        engine, group = self.engine, self._group(client)
        settings = group.settings.under(self.mode)
        if settings.mode == "off":
            return None
        start = perf_counter_ns()
        if engine is None:
            decision = self._without(request)
        else:
            decide = engine.decide_host if is_connection else engine.decide
            decision = decide(request, client=client, group=group)
        return Judgement(request, client, settings, decision, perf_counter_ns() - start)

    def _without(self, request: Request) -> Decision:
        passes = self.failure_policy.passes(self._missing)
        return Decision(Action.PASS if passes else Action.BLOCK, request.url, fault=_NO_POLICY)

    def record(self, judgement: Judgement, method: str, *, is_live: bool = True) -> Judgement:
        """Count a decision, and log it; returns it with its canonical URL, and its reference in the log.

        There is no reference without a log, or if the decision is about a recording.
        """
        decision, client = judgement.decision, judgement.client
        journal = self.journal if is_live else None
        moment = time()
        reference = None if journal is None else journal.reference(moment)
        record = LogRecord(
            decision=decision,
            reference=reference or "",
            moment=moment,
            client=client.address,
            user=client.user,
            group=decision.group,
            method=method,
            would_block=judgement.would_block,
            grant=None if decision.grant is None else str(decision.grant.id),
            duration=judgement.duration // 1000,
        )
        self.statistics.note(record, judgement.duration)
        if journal is not None:
            journal.write(record)
        # computed once for all that is told of it; not in the record, since a URL may be long
        told = decision if decision.action is Action.PASS else decision._replace(canonical=decision.url)
        return judgement._replace(decision=told, reference=reference)

    def record_connection(self, judgement: Judgement) -> Judgement:
        """The same for a connection without a request that could be logged; a stopped one is reported."""
        if judgement.stops:
            url = judgement.decision.url.decode("ascii", "backslashreplace")
            logger.info("hushlist: no connection for %s to %s: %s", judgement.client.address, url, judgement.decision)
        return self.record(judgement, "CONNECT")

    # -- the policy ----------------------------------------------------------------------------------------------

    def load(self, path: Path) -> None:
        """Use a policy: at the start, before any request is served; later, as soon as it is compiled.

        At the start, a policy that cannot be used may itself let requests pass: then they do, with a warning.

        Raises:
                PolicyError: the policy cannot be used; while the proxy runs, its lists are checked later.
        """
        if self.overrides is None:
            self._open_overrides()
        try:
            if self._is_running:
                self._files = dict.fromkeys(_read_policy(path), UNREAD)
            else:
                self._use(self._read(self._background, path))
        except PolicyError as error:
            self._path = self._path or path
            self._files = self._files or error.files
            if (
                self._is_running
                or self.engine is not None
                or not self.failure_policy.on_failure.passes(FailureCause.START)
            ):
                raise
            logger.warning("hushlist: %s:\n%s", _UNFILTERED, Lines(error))  # an error would end mitmdump at its start
            return
        self._path = path
        self._restart_watcher()

    def reload(self) -> None:
        """Read everything again."""
        self._files = dict.fromkeys(self._files, UNREAD)
        self._restart_watcher()

    def _read(self, background: BackgroundCompiler, path: Path) -> Engine:
        moment, start = time(), monotonic()
        try:
            policy, index = background.compile(path)
            self._check(policy, index)
        except PolicyError as error:
            self.problem, self._may_pass = str(error), error.may_pass
            self._was_read(LoadedPolicy(moment, monotonic() - start, self.problem))
            if self.engine is None:
                self.failure_policy.on_failure = _on_failure(path)
            raise
        self._was_read(LoadedPolicy(moment, monotonic() - start, None))
        return Engine(policy, index, self.redirect_memory, self.overrides)

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

    def _was_read(self, reading: LoadedPolicy) -> None:
        self.reading = reading
        self.readings[reading.problem is None] += 1

    def _use(self, engine: Engine) -> None:
        template = _load_template(engine.policy)
        before = None if self.engine is None else self.engine.policy.log
        self.engine, self._files, self.template, self.problem = engine, engine.policy.files, template, None
        self.failure_policy.on_failure, self._may_pass = engine.policy.on_failure, False
        if engine.policy.log != before:
            self._open_journal(engine.policy.log)
        report = CompileReport.of(engine.index)
        self._rules = report.rules
        for problem in report.warnings:
            logger.warning("hushlist: %s", problem)
        files = len(engine.policy.files)
        logger.info("hushlist: %d rules of %d files, by %s", len(engine.index), files, engine.policy.source)

    def _open_journal(self, settings: LogSettings | None) -> None:
        """Write the log as the policy says; a log that cannot be written is reported, and requests go on."""
        if self.journal is not None:
            self.journal.close()
        self.journal = None
        if settings is not None:
            try:
                self.journal = LogWriter(settings)
            except RuntimeError as error:
                logger.warning("hushlist: there is no log: %s", error)  # an error would end mitmdump at its start

    def _open_overrides(self) -> None:
        """Use the store of temporary unblocks; without it, blocked sites stay blocked, and all else works."""
        try:
            with ExitStack() as undo:
                overrides = undo.enter_context(Overrides(default_path(), time))
                self.tokens = overrides.tokens()
                undo.pop_all()
        except (StoreError, RuntimeError) as error:
            # a warning, since an error would end mitmdump at its start
            self._no_overrides = str(error)
            logger.warning("hushlist: nothing can be unblocked for a while: %s", error)
        else:
            self.overrides, self._no_overrides = overrides, None

    # -- life ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Begin to watch the files; called in the event loop."""
        self._is_running = True
        self._restart_watcher()

    async def _keep_watch(self) -> None:
        """Check regularly the index in use, and files that are to be tried again."""
        last = monotonic()
        while True:
            await asyncio.sleep(INTERVAL)
            clear_cache()  # the last 128 URLs that mitmproxy has parsed, of any length
            engine = self.engine
            if engine is not None and not engine.index.is_as_opened:
                self._give_up(engine)
            if monotonic() - last < RETRY:
                continue
            last = monotonic()
            if self.engine is None:
                unfiltered = self.failure_policy.on_failure.passes(self._missing)
                logger.warning("hushlist: %s:\n%s", _UNFILTERED if unfiltered else _REFUSED, Lines(self.problem))
            if self._may_pass:
                self.reload()

    def _give_up(self, engine: Engine) -> None:
        """Stop using an index that was written to: a rule that is lost there would let requests pass."""
        self.engine, self._missing = None, FailureCause.INDEX
        problem = f"{engine.index.source}: somebody has changed it while it was in use; it is compiled anew"
        self.problem = printable(problem)
        logger.error("hushlist: %s", self.problem)
        self.reload()

    def close(self) -> None:
        """Stop all threads, and write all data."""
        self.statistics.close()
        self._stop_watching()
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None
        self._open_journal(None)
        if self.overrides is not None:
            self.overrides.close()
            self.overrides = None

    def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
        self._background.stop()

    def _restart_watcher(self) -> None:
        if not self._is_running or self._path is None:
            return
        self._stop_watching()
        self._background = BackgroundCompiler()
        watching = watch(partial(self._read, self._background, self._path), self._files, self._use)
        loop = asyncio.get_running_loop()
        self._watcher = loop.create_task(watching, name="hushlist: watch rules")
        if self._guard is None:
            self._guard = loop.create_task(self._keep_watch(), name="hushlist: guard")

    @property
    def store_fault(self) -> str | None:
        """Why nothing can be unblocked, if so."""
        return self._no_overrides if self.overrides is None else self.overrides.fault

    def status(self) -> str:
        """A summary of the current state, for people."""
        if self.engine is None:
            done = _UNFILTERED if self.failure_policy.on_failure.passes(self._missing) else _REFUSED
            return "\n".join(
                filter(None, (done, self.failure_policy.status(), self.problem and str(Lines(self.problem))))
            )
        policy, index = self.engine.policy, self.engine.index
        groups = ", ".join(group.name for group in policy.all_groups)
        status = (
            f"policy {policy.source}: {len(index):,} rules of {len(policy.files)} files; groups: {groups}; "
            f"mode {self.mode}; index {index.source}"
        )
        passed = {entry for group in policy.all_groups for entry in group.settings.pass_through.entries}
        status += f"; {len(passed)} hosts and networks are passed through" if passed else ""
        status += "" if self.store_fault is None else f"; nothing can be unblocked: {self.store_fault}"
        failures = self.failure_policy.status()
        status += f"; {failures}" if failures else ""
        status = printable(status)
        return status if self.problem is None else f"{status}; the last change is not used:\n{Lines(self.problem)}"


def _load_template(policy: Policy) -> Template | None:
    """The administrator's own block page.

    Raises:
        SourceError: it cannot be used.
    """
    return None if policy.block_page is None else load_template(policy.block_page)


def _on_failure(path: Path) -> OnFailure:
    """The failure action of a policy that cannot be used, as far as it can be read."""
    policy = read_policy(path, ProblemReport(str(path)))
    return OnFailure() if policy is None else policy.on_failure


def _read_policy(path: Path) -> dict[Path, Fingerprint]:
    """The files of a policy.

    Raises:
            PolicyError: the policy file itself has problems.
    """
    report = ProblemReport(str(path))
    policy = read_policy(path, report)
    if policy is None or report.errors:
        raise PolicyError(report.errors, {})
    return policy.files
