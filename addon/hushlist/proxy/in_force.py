"""What is in force: the policy with its rules, the log, the store of overrides, and the watch over the files.

At the start, there is no good state to keep, and a policy that cannot be used is an error, unless it says itself that
requests shall pass then. From then on, whatever is wrong with a change is reported, and what is in force stays so.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import monotonic, time
from typing import NamedTuple

from hushlist.engine import Engine
from hushlist.errors import SourceError
from hushlist.journal.journal import Journal
from hushlist.journal.record import record_of
from hushlist.lists.source import Report
from hushlist.match.learned import Learned
from hushlist.match.rule import Action
from hushlist.policy.background import Background
from hushlist.policy.decision import Decision
from hushlist.policy.failure import Cause, OnFailure
from hushlist.policy.groups import Client, Settings
from hushlist.policy.log import Settings as LogSettings
from hushlist.policy.overrides import Overrides
from hushlist.policy.policy import Fingerprint, Policy, PolicyError, read_policy
from hushlist.policy.report import CompileReport
from hushlist.policy.store import StoreError, default_path
from hushlist.policy.tokens import Tokens
from hushlist.proxy.failing import Failing
from hushlist.proxy.figures import Figures
from hushlist.proxy.reload import INTERVAL, UNREAD, watch
from hushlist.proxy.template import Template, load_template
from hushlist.url.request import Request

logger = logging.getLogger(__name__)

#: what holds while there is no policy
_EVERYBODY = Settings()
_NO_POLICY = "the filter has no policy that it can use"
_REFUSED = "no policy that can be used: every request is refused"
_UNFILTERED = "NOTHING IS FILTERED: no policy that can be used, and every request passes, as its on-failure says"
#: seconds from one time to the next that what is wrong is said, and that what may be a fault of the machine is tried
RETRY = 60.0


class Reading(NamedTuple):
    """One time that the policy and its lists were read."""

    #: seconds since 1970, and how many it took
    moment: float
    duration: float
    #: what was wrong, so that it is not used
    problem: str | None


class InForce:
    """What decides at the moment; the parts of the addon look here, each time anew."""

    def __init__(self) -> None:
        #: ``None`` while no policy can be used; ``decide`` says what is done then
        self.engine: Engine | None = None
        #: of temporary unblocks; ``None`` where the store cannot be used
        self.overrides: Overrides | None = None
        #: of the store of overrides, made when that is opened: no page waits for a disk
        self.tokens: Tokens | None = None
        #: where decisions are logged, if they are
        self.journal: Journal | None = None
        #: the administrator's own block page
        self.template: Template | None = None
        self.learned = Learned()
        #: what is done where the filter fails
        self.failing = Failing()
        self.figures = Figures()
        #: the last time that the policy was read, and how often that went well and did not
        self.reading: Reading | None = None
        self.readings = {True: 0, False: 0}
        #: what is wrong with the last change, which is not used
        self.problem: str | None = None
        self._no_overrides: str | None = None
        #: why there is no engine, while there is none
        self._missing = Cause.START
        #: whether reading the same files again may end otherwise
        self._may_pass = False
        self._path: Path | None = None
        #: what to watch: the files of the policy in force, or of the one that could not be used
        self._files: dict[Path, Fingerprint] = {}
        self._background = Background()
        self._watcher: asyncio.Task[None] | None = None
        self._guard: asyncio.Task[None] | None = None
        self._is_running = False

    def settings(self, client: Client) -> Settings:
        """What holds for a client's group."""
        return _EVERYBODY if self.engine is None else self.engine.settings(client)

    @property
    def asks_media(self) -> bool:
        """Whether the media types that a request names may decide."""
        return self.engine is not None and self.engine.asks_media

    def decide(self, request: Request, client: Client) -> Decision:
        """The decision for a request; without a policy, none passes, unless a policy said so."""
        return self._without(request) if self.engine is None else self.engine.decide(request, client=client)

    def decide_host(self, request: Request, client: Client) -> Decision:
        """The decision for a connection, of which no more is known than where it goes."""
        return self._without(request) if self.engine is None else self.engine.decide_host(request, client=client)

    def _without(self, request: Request) -> Decision:
        passes = self.failing.passes(self._missing)
        return Decision(Action.PASS if passes else Action.BLOCK, request.url, fault=_NO_POLICY)

    # -- the policy ----------------------------------------------------------------------------------------------

    def load(self, path: Path) -> None:
        """Use a policy: at the start, before any request is served; later, when it is there.

        At the start, one that cannot be used may say itself that requests shall pass: then they do, with a warning.

        Raises:
            PolicyError: the policy cannot be used; once the proxy runs, its lists are not looked at yet.
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
            if self._is_running or self.engine is not None or not self.failing.on_failure.passes(Cause.START):
                raise
            logger.warning("hushlist: %s:\n%s", _UNFILTERED, error)  # an error would end mitmdump at its start
            return
        self._path = path
        self._restart_watcher()

    def reload(self) -> None:
        """Read everything again."""
        self._files = dict.fromkeys(self._files, UNREAD)
        self._restart_watcher()

    def _read(self, background: Background, path: Path) -> Engine:
        moment, start = time(), monotonic()
        try:
            policy, index = background.compile(path)
            try:
                _load_template(policy)
            except SourceError as error:
                raise PolicyError(error.problems, policy.files) from None
        except PolicyError as error:
            self.problem, self._may_pass = str(error), error.may_pass
            self._was_read(Reading(moment, monotonic() - start, self.problem))
            if self.engine is None:
                self.failing.on_failure = _on_failure(path)
            raise
        self._was_read(Reading(moment, monotonic() - start, None))
        return Engine(policy, index, self.learned, self.overrides)

    def _was_read(self, reading: Reading) -> None:
        self.reading = reading
        self.readings[reading.problem is None] += 1

    def _use(self, engine: Engine) -> None:
        template = _load_template(engine.policy)
        before = None if self.engine is None else self.engine.policy.log
        self.engine, self._files, self.template, self.problem = engine, engine.policy.files, template, None
        self.failing.on_failure, self._may_pass = engine.policy.on_failure, False
        if engine.policy.log != before:
            self._open_journal(engine.policy.log)
        for problem in CompileReport.of(engine.index).warnings:
            logger.warning("hushlist: %s", problem)
        files = len(engine.policy.files)
        logger.info("hushlist: %d rules of %d files, by %s", len(engine.index), files, engine.policy.source)

    def _open_journal(self, settings: LogSettings | None) -> None:
        """Write the log as the policy says; a log that cannot be written is reported, and stops nothing."""
        if self.journal is not None:
            self.journal.close()
        self.journal = None
        if settings is not None:
            try:
                self.journal = Journal(settings)
            except RuntimeError as error:
                logger.warning("hushlist: there is no log: %s", error)  # an error would end mitmdump at its start

    def _open_overrides(self) -> None:
        """Use the store of temporary unblocks; where that cannot be, what is blocked stays so, and no more."""
        try:
            with ExitStack() as undo:
                overrides = undo.enter_context(Overrides(default_path(), time))
                self.tokens = overrides.tokens()
                undo.pop_all()
        except (StoreError, RuntimeError) as error:
            # no error: at the start, mitmdump would end with it
            self._no_overrides = str(error)
            logger.warning("hushlist: nothing can be unblocked for a while: %s", error)
        else:
            self.overrides, self._no_overrides = overrides, None

    def record(
        self,
        decision: Decision,
        client: Client,
        method: str,
        *,
        would_block: bool,
        duration: int,
        is_live: bool = True,
    ) -> str | None:
        """Count a decision, which took so many ns, and write it into the log; its reference there.

        ``None``: there is no log, or it is a recording that was decided.
        """
        journal = self.journal if is_live else None
        moment = time()
        reference = None if journal is None else journal.reference(moment)
        record = record_of(
            decision,
            reference=reference or "",
            moment=moment,
            client=client.address,
            user=client.user,
            group=decision.group,
            method=method,
            would_block=would_block,
            grant=None if decision.grant is None else str(decision.grant.id),
            duration=duration // 1000,
        )
        self.figures.note(record, duration)
        if journal is not None:
            journal.write(record)
        return reference

    # -- life ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """From now on, in the event loop, the files are watched."""
        self._is_running = True
        self._restart_watcher()

    async def _keep_watch(self) -> None:
        """Look after what nobody asks for: the index that is in use, and files that are to be tried again."""
        last = monotonic()
        while True:
            await asyncio.sleep(INTERVAL)
            engine = self.engine
            if engine is not None and not engine.index.is_as_opened:
                self._give_up(engine)
            if monotonic() - last < RETRY:
                continue
            last = monotonic()
            if self.engine is None:
                unfiltered = self.failing.on_failure.passes(self._missing)
                logger.warning("hushlist: %s:\n%s", _UNFILTERED if unfiltered else _REFUSED, self.problem)
            if self._may_pass:
                self.reload()

    def _give_up(self, engine: Engine) -> None:
        """Use an index no longer that somebody has written to: a rule that is not found any more would be a hole."""
        self.engine, self._missing = None, Cause.INDEX
        self.problem = f"{engine.index.source}: somebody has changed it while it was in use; it is compiled anew"
        logger.error("hushlist: %s", self.problem)
        self.reload()

    def close(self) -> None:
        """Leave nothing running, and nothing unwritten."""
        self.figures.close()
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
        self._background = Background()
        watching = watch(partial(self._read, self._background, self._path), self._files, self._use)
        loop = asyncio.get_running_loop()
        self._watcher = loop.create_task(watching, name="hushlist: watch rules")
        if self._guard is None:
            self._guard = loop.create_task(self._keep_watch(), name="hushlist: guard")

    @property
    def store_fault(self) -> str | None:
        """Why nothing can be unblocked, if so."""
        return self._no_overrides if self.overrides is None else self.overrides.fault

    def status(self, mode: str) -> str:
        """What is in force, for people; ``mode`` is the option's."""
        if self.engine is None:
            done = _UNFILTERED if self.failing.on_failure.passes(self._missing) else _REFUSED
            return "\n".join(filter(None, (done, self.failing.status(), self.problem)))
        policy, index = self.engine.policy, self.engine.index
        groups = ", ".join(group.name for group in policy.all_groups)
        status = (
            f"policy {policy.source}: {len(index):,} rules of {len(policy.files)} files; groups: {groups}; "
            f"mode {mode}; index {index.source}"
        )
        passed = {entry for group in policy.all_groups for entry in group.settings.pass_through.entries}
        status += f"; {len(passed)} hosts and networks are passed through" if passed else ""
        status += "" if self.store_fault is None else f"; nothing can be unblocked: {self.store_fault}"
        failures = self.failing.status()
        status += f"; {failures}" if failures else ""
        return status if self.problem is None else f"{status}; the last change is not used:\n{self.problem}"


def _load_template(policy: Policy) -> Template | None:
    """The administrator's own block page.

    Raises:
        SourceError: it cannot be used.
    """
    return None if policy.block_page is None else load_template(policy.block_page)


def _on_failure(path: Path) -> OnFailure:
    """What a policy that cannot be used says of failures, as far as it can be read."""
    policy = read_policy(path, Report(str(path)))
    return OnFailure() if policy is None else policy.on_failure


def _read_policy(path: Path) -> dict[Path, Fingerprint]:
    """The files of a policy.

    Raises:
        PolicyError: with the problems of the policy file itself.
    """
    report = Report(str(path))
    policy = read_policy(path, report)
    if policy is None or report.errors:
        raise PolicyError(report.errors, {})
    return policy.files
