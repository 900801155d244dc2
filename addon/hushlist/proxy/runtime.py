"""The current state: the policy with its rules, the log, and the store of overrides; and judging by it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, tzinfo
from pathlib import Path
from threading import Lock, Thread
from time import perf_counter_ns, time
from typing import TYPE_CHECKING, NamedTuple

from hushlist.core.decide.decision import Decision, Judgement
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import Lines, logger_of, number_of, printable
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import Client, Group, GroupSettings
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.proxy_settings import FailureCause, LoggedClients, LogSettings
from hushlist.core.url.comparison import RedirectMemory
from hushlist.core.url.http_head import Keeps
from hushlist.core.url.request import Request
from hushlist.extensions.dashboard import admin_store
from hushlist.extensions.databases.kept_files import DatabaseKind, rescue, set_aside
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.fleet import proxy_records
from hushlist.extensions.fleet.proxy_records import ProxyRecord
from hushlist.extensions.journal.log_record import LogRecord
from hushlist.extensions.journal.log_writer import LogWriter
from hushlist.extensions.journal.masked_clients import shown_by
from hushlist.extensions.notify.notifier import Notifier
from hushlist.extensions.quotas.quota_meter import QuotaMeter, QuotaUse
from hushlist.extensions.quotas.use_minutes import UseMinutes
from hushlist.extensions.safe_browsing.confirmations import LONGEST_WAIT, Confirmations
from hushlist.extensions.safe_browsing.prefix_service import search_hashes
from hushlist.extensions.subscriptions.list_store import ListState
from hushlist.extensions.unblock import default_path
from hushlist.extensions.unblock.credentials import Tokens
from hushlist.extensions.unblock.overrides import UNBLOCKS, Overrides
from hushlist.proxy.failure_policy import FailurePolicy
from hushlist.proxy.page.template import Template
from hushlist.proxy.statistics import Statistics

if TYPE_CHECKING:
    from hushlist.proxy.parts import Parts

logger = logger_of(__name__)

#: seconds that the reading of a policy waits for what its database has: what administrators have blocked is there
_FIRST = 2.0
#: what applies while there is no policy
_EVERYBODY = Group("", (), GroupSettings())
_NO_POLICY = "the filter has no policy that it can use"
_REFUSED = "no policy that can be used: every request is refused"
UNFILTERED = "NOTHING IS FILTERED: no policy that can be used, and every request passes, as its on-failure says"


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
        #: what the policy's extensions do in this proxy; handed in by the addon
        self.parts: Parts | None = None
        #: how many policies were taken into use, or given up
        self.policies = 0
        #: temporary unblocks; ``None`` if the store cannot be used
        self.overrides: Overrides | None = None
        self._tokens: Tokens | None = None
        #: the log of decisions, if there is one
        self.journal: LogWriter | None = None
        #: tells people by the policy's channels
        self.notifier = Notifier()
        #: the administrator's own block page
        self.template: Template | None = None
        #: counts what quotas limit; ``None`` until a policy has one
        self.quotas: QuotaMeter | None = None
        self._minutes: UseMinutes | None = None
        #: seconds since the epoch, for quotas
        self.clock: Callable[[], float] = time
        self.redirect_memory = RedirectMemory()
        #: what to do if the filter fails
        self.failure_policy = FailurePolicy()
        self.statistics = Statistics()
        #: the last reading of the policy, and how many readings succeeded and failed
        self.reading: LoadedPolicy | None = None
        self.readings = {True: 0, False: 0}
        #: the problem of the last change, which is not used
        self.problem: str | None = None
        #: what is known of the lists that are fetched, by their URLs
        self.list_states: dict[str, ListState] = {}
        #: why the script with the filter could not be loaded again, in words that name no file
        self.script_fault: str | None = None
        #: whether the package on the disk is another than the one that runs
        self.has_other_code = False
        #: whether the authority, which devices trust, is another one than before
        self.has_other_authority = False
        #: whether the program ends
        self.is_stopping = False
        #: what the proxies that share a store last said of themselves, this one among them
        self.fleet: tuple[ProxyRecord, ...] = ()
        #: what servers of Safe Browsing have said; its questions do not go through the proxy itself
        self.own_ports: tuple[int, ...] = ()
        self.confirmations = Confirmations(lambda service, asked: search_hashes(service, asked, self.own_ports))
        self._no_overrides: str | None = None
        #: damaged files that wait for a person
        self.set_aside: tuple[Path, ...] = ()
        #: a store that was opened for a policy that is not used yet, and perhaps never will be
        self._opened: Overrides | None = None
        self._opening = Lock()
        #: why there is no engine, if so
        self._missing = FailureCause.START

    # -- requests ------------------------------------------------------------------------------------------------

    def settings(self, client: Client) -> GroupSettings:
        """The settings of a client's group, with the effective mode."""
        return self._group(client).settings.under(self.mode)

    def _group(self, client: Client) -> Group:
        return _EVERYBODY if self.engine is None else self.engine.group(client)

    @property
    def zone(self) -> tzinfo:
        """The time zone of the policy, in which times are shown."""
        return UTC if self.engine is None else self.engine.policy.zone

    @property
    def names_clients(self) -> bool:
        """Whether messages may name clients: there is no log, or it keeps them."""
        log = None if self.engine is None else self.engine.policy.of("log")
        return log is None or log.clients is LoggedClients.KEEP

    @property
    def asks_media(self) -> bool:
        """Whether the media types that a request names can change a decision."""
        return self.engine is not None and self.engine.asks_media

    @property
    def keeps(self) -> Keeps:
        """Whether fields that servers believe go on to a host; ``None`` if they do to none."""
        return None if self.engine is None else self.engine.keeps

    def judge(
        self,
        request: Request,
        client: Client,
        *,
        is_connection: bool = False,
        is_lookup: bool = False,
        goes_on: bool = False,
        is_settled: bool = False,
    ) -> Judgement | None:
        """Decide a request; ``None`` while the filter is off for its client.

        ``is_connection``: only hosts and port are known. ``is_lookup``: a name is looked up, which no quota is about.
        ``goes_on``: it was let through before, so that no quota can warn of its end. ``is_settled``: what it needs was
        asked; before, no quota warns either, since that is done once.
        Without a policy, nothing passes, unless a policy said so.
        """
        engine, group = self.engine, self._group(client)
        settings = group.settings.under(self.mode)
        if settings.mode == "off":
            return None
        start = perf_counter_ns()
        if engine is None:
            passes = self.failure_policy.passes(self._missing)
            decision = Decision(Action.PASS if passes else Action.BLOCK, request.url, fault=_NO_POLICY)
        else:
            decide = engine.decide_host if is_connection else engine.decide
            decision = decide(request, client=client, group=group, is_settled=is_settled)
        judgement = Judgement(request, client, settings, decision, perf_counter_ns() - start)
        if settings.of("quotas") and self.quotas is not None and not is_lookup:
            may_warn = not goes_on and (is_settled or not decision.unconfirmed)
            return self.quotas.limited(judgement, self.overrides, may_warn=may_warn)
        return judgement

    @property
    def use_minutes(self) -> UseMinutes | None:
        """What the quotas have counted; ``None`` until a policy has one."""
        return self._minutes

    async def confirmed(
        self, judgement: Judgement | None, *, is_connection: bool = False, is_lookup: bool = False
    ) -> Judgement | None:
        """The judgement, made anew if somebody has to be asked first; it waits for that, and only for so long.

        If the server gives no answer, it is as the policy says for that; what is beyond the client's share is blocked.
        """
        if judgement is None or not judgement.decision.unconfirmed:
            return judgement
        asked = self.confirmations.ask_soon(judgement.decision.unconfirmed, judgement.client.address)
        if asked:
            await asyncio.wait(list(map(asyncio.wrap_future, asked)), timeout=LONGEST_WAIT)
        how = {"is_connection": is_connection, "is_lookup": is_lookup}
        return self.judge(judgement.request, judgement.client, **how, is_settled=True)

    def quota_uses(self, client: Client) -> list[QuotaUse]:
        """What a client has used of the quotas of its group, and what is left."""
        group = self._group(client)
        return [] if self.quotas is None else self.quotas.uses(group.settings.of("quotas"), client, group.name)

    def record(self, judgement: Judgement, method: str, *, is_live: bool = True, is_counted: bool = True) -> Judgement:
        """Count a decision, and log it; returns it with its canonical URL, and its reference in the log.

        There is no reference without a log, or if the decision is about a recording. ``is_counted`` is false for the
        form of a block page, which nobody browsed to: it is only logged.
        """
        decision, client = judgement.decision, judgement.client
        journal = self.journal if is_live else None
        moment = time()
        reference = None if journal is None else journal.reference(moment)
        record = LogRecord(  # by place: with names, it takes twice as long
            reference or "",
            moment,
            decision,
            client.address,
            client.user,
            decision.group,
            method,
            judgement.would_block,
            None if decision.grant is None else str(decision.grant.id),
            judgement.duration // 1000,
            judgement.request,
        )
        if is_counted:
            self.statistics.note(record, judgement.duration)
        if journal is not None:
            journal.write(record)
        return judgement.recorded(reference)

    def record_connection(self, judgement: Judgement) -> Judgement:
        """The same for a connection without a request that could be logged; a stopped one is reported."""
        if judgement.stops:
            url = judgement.decision.url.decode("ascii", "backslashreplace")
            client = judgement.client.address if self.names_clients else "a client"
            logger.info("hushlist: no connection for %s to %s: %s", client, url, judgement.decision)
        return self.record(judgement, "CONNECT")

    # -- state ---------------------------------------------------------------------------------------------------

    def use(self, engine: Engine, template: Template | None) -> None:
        """Use a policy that was read; its log is opened if its settings have changed.

        What may fail comes first: then the policy before stays in use as a whole.
        """
        before = None if self.engine is None else self.engine.policy.of("log")
        if self.parts is not None:
            self.parts.use(engine.policy.extensions)
        self.open_quotas(engine.policy)
        self.notifier.use(engine.policy.of("notify"))
        self.engine, self.template, self.problem = engine, template, None
        self.policies += 1
        self.failure_policy.on_failure = engine.policy.on_failure
        if engine.policy.of("log") != before:
            self._open_journal(engine.policy.of("log"))

    def give_up(self, problem: str) -> None:
        """Stop using an index that was written to: a rule that is lost there would let requests pass."""
        self.engine, self._missing, self.problem = None, FailureCause.INDEX, problem
        self.policies += 1

    def was_read(self, reading: LoadedPolicy) -> None:
        self.reading = reading
        self.readings[reading.problem is None] += 1

    def _open_journal(self, settings: LogSettings | None) -> None:
        """Write the log as the policy says; a log that cannot be written is reported, and requests go on."""
        before, self.journal = self.journal, None
        if before is not None:
            _close_soon(before)
        if settings is not None:
            try:
                self.journal = LogWriter(settings)
            except RuntimeError as error:
                logger.warning("hushlist: there is no log: %s", error)  # an error would end mitmdump at its start

    @property
    def tokens(self) -> Tokens | None:
        """Tokens for the forms; ``None`` while their key is not known, since no page waits for a store."""
        if self._tokens is None and self.overrides is not None:
            self._tokens = self.overrides.known_tokens()
        return self._tokens

    def open_overrides(self, database: PostgresAddress | None) -> Overrides | None:
        """The store of temporary unblocks of a policy that is read: a database, or this machine's file.

        It waits for it, and changes nothing in use: ``use_overrides`` does. Without a store, blocked sites stay
        blocked, and all else works.
        """
        with self._opening:
            for known in (self.overrides, self._opened):
                if known is not None and database == _database_of(known):
                    return known
            try:
                if database is None:
                    self._rescue()
                with ExitStack() as undo:
                    overrides = undo.enter_context(Overrides(database or default_path(), time))
                    overrides.wait(_FIRST)
                    if database is None:  # whatever of it cannot be read is told at once
                        overrides.key(), overrides.blocks(), overrides.active(time())
                    undo.pop_all()
            except (StoreError, RuntimeError) as error:
                # a warning, since an error would end mitmdump at its start
                if str(error) != self._no_overrides:
                    more = "" if self.overrides else ", and no administrator's block holds"
                    logger.warning("hushlist: nothing can be unblocked for a while%s: %s", more, error)
                self._no_overrides = str(error)
                return self.overrides
            before, self._opened = self._opened, overrides
        if before is not None:
            before.close()
        return overrides

    def _rescue(self) -> None:
        """Set damaged files of this machine aside; what cannot be set aside is told by opening it."""
        for path, kind in kept_files():
            with suppress(OSError, sqlite3.Error):
                told = rescue(path, kind)
                if told is not None:
                    logger.warning("hushlist: %s", told)
        self.look_aside()

    def look_aside(self) -> None:
        """See which damaged files wait for a person."""
        folders = {path.parent for path, _ in kept_files()}
        if self.journal is not None:
            folders.add(self.journal.folder)
        self.set_aside = tuple(set_aside(folders))

    def use_overrides(self, overrides: Overrides | None) -> None:
        """Use a store that was opened, in the place of any other."""
        before = self.overrides
        if overrides is None or overrides is before:
            return
        self.overrides, self._tokens, self._no_overrides = overrides, None, None
        self._opened = None if self._opened is overrides else self._opened
        if before is not None:
            _close_soon(before)

    def note_shown(self, overrides: Overrides | None, policy: Policy) -> None:
        """Note in a store what its commands may show; waits for it, and raises nothing: it is noted again soon."""
        if overrides is not None:
            with suppress(StoreError):
                overrides.note_shown(*shown_by(policy))

    def open_quotas(self, policy: Policy) -> None:
        """Count from the first policy on that has quotas, going on from what its store has; may wait for that.

        Without a store, it counts from nothing, with a warning.
        """
        before, place = self._minutes, policy.of("store") or self._minutes_path()
        if before is None and not any(group.settings.of("quotas") for group in policy.all_groups):
            return
        if before is not None and before.place == place:
            return
        minutes = UseMinutes(place, lambda: self.clock())
        minutes.start()
        self._minutes, self.quotas = minutes, QuotaMeter(minutes, lambda: self.clock())
        if before is not None:
            _close_soon(before)

    @staticmethod
    def _minutes_path() -> Path | None:
        with suppress(RuntimeError):
            return default_path()
        return None

    def close(self) -> None:
        """Stop all threads, and write all data."""
        self.statistics.close()
        self.confirmations.close()
        if self._minutes is not None:
            self._minutes.close()
            self.quotas = self._minutes = None
        self.notifier.close()
        if self.journal is not None:
            self.journal.close()
            self.journal = None
        for overrides in (self.overrides, self._opened):
            if overrides is not None:
                overrides.close()
        self.overrides = self._opened = None

    @property
    def journal_fault(self) -> str | None:
        """Why decisions are not logged although the policy says so, if so."""
        if self.journal is not None:
            return self.journal.fault
        wants = self.engine is not None and self.engine.policy.of("log") is not None
        return "it cannot be started: see the messages of the proxy" if wants else None

    @property
    def store_fault(self) -> str | None:
        """Why nothing can be unblocked, if so."""
        fault = self._no_overrides if self.overrides is None else self.overrides.fault
        return fault or (None if self._minutes is None else self._minutes.fault)

    def without_policy(self) -> str:
        """What becomes of requests while no policy can be used, for people."""
        return UNFILTERED if self.failure_policy.on_failure.passes(self._missing) else _REFUSED

    def status(self) -> str:
        """A summary of the current state, for people."""
        if self.engine is None:
            told = (self.without_policy(), self.failure_policy.status(), self.problem and str(Lines(self.problem)))
            return "\n".join(filter(None, told))
        policy, index = self.engine.policy, self.engine.index
        groups = ", ".join(group.name for group in policy.all_groups)
        files = number_of(policy.number_of_files, "file", "files")
        status = (
            f"policy {policy.source}: {number_of(len(index), 'rule', 'rules')} of {files}; groups: {groups}; "
            f"mode {self.mode}; index {index.source}"
        )
        passed = {entry for group in policy.all_groups for entry in group.settings.pass_through.entries}
        status += (
            f"; passed through: {number_of(len(passed), 'host or network', 'hosts and networks')}" if passed else ""
        )
        key_fault = None if self.journal is None else self.journal.key_fault
        status += "" if key_fault is None else f"; pseudonyms hold until the next start only: {key_fault}"
        figures = None if self.journal is None else self.journal.figures
        status += "" if figures is None else f"; log: {figures}"
        status += "" if self.store_fault is None else f"; nothing can be unblocked: {self.store_fault}"
        status += "".join(f"; a damaged file was set aside: {path}" for path in self.set_aside)
        failures = self.failure_policy.status()
        status += f"; {failures}" if failures else ""
        faults = dict.fromkeys(filter(None, (own.fault(self.confirmations) for own in policy.confirmers.values())))
        status += "".join(f"; nothing is confirmed by {fault}" for fault in faults)
        status = "\n".join((printable(status), *map(str, policy.held_back)))
        return status if self.problem is None else f"{status}; the last change is not used:\n{Lines(self.problem)}"


def kept_files() -> list[tuple[Path, DatabaseKind]]:
    """The files of this machine that have to stay, and what becomes of each when it is damaged.

    Raises:
        RuntimeError: the user has no home.
    """
    places = (default_path(), admin_store.default_path(), proxy_records.default_path())
    return list(zip(places, (UNBLOCKS, admin_store.ADMINISTRATION, proxy_records.FLEET), strict=True))


def _database_of(overrides: Overrides) -> PostgresAddress | None:
    """Where a store is; ``None`` if it is this machine's file."""
    return overrides.place if isinstance(overrides.place, PostgresAddress) else None


def _close_soon(store: Overrides | UseMinutes | LogWriter) -> None:
    """Close a store, or a log, in a thread: it may wait for its database, or for the disk."""
    with suppress(RuntimeError):  # the machine has no thread left: it stays open
        Thread(target=store.close, name="hushlist: close a store", daemon=True).start()
