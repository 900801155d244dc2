"""The current state: the policy with its rules, and the parts of its extensions; and judging by it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, tzinfo
from time import perf_counter_ns, time
from typing import NamedTuple, TypeVar

from hushlist.core.decide.decision import Decision, Judgement, LogRecord
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import Lines, logger_of, number_of, printable
from hushlist.core.extension import Notice
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import MODES, Client, Group, GroupSettings
from hushlist.core.policy.proxy_settings import FailureCause
from hushlist.core.url.comparison import RedirectMemory
from hushlist.core.url.http_head import Keeps
from hushlist.core.url.request import Request
from hushlist.proxy.failure_policy import FailurePolicy
from hushlist.proxy.flow_request import SelfConnections
from hushlist.proxy.page.template import Template
from hushlist.proxy.parts import Part, Parts
from hushlist.proxy.service.siblings import siblings
from hushlist.proxy.statistics import Statistics

logger = logger_of(__name__)

_Part = TypeVar("_Part", bound=Part)

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
    """The engine in use and the parts of its extensions; who needs them looks here each time and keeps no copy."""

    def __init__(self, loops: SelfConnections | None = None) -> None:
        """``loops``: the proxy's connections to itself."""
        #: mitmproxy's option; a group's mode may do less
        self.mode = "block"
        #: ``None`` while no policy can be used; then ``judge`` uses the failure action
        self.engine: Engine | None = None
        #: how many policies were taken into use, or given up
        self.policies = 0
        #: the administrator's own block page
        self.template: Template | None = None
        #: seconds since the epoch, for what is counted by the day
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
        #: why the script with the filter could not be loaded again, in words that name no file
        self.script_fault: str | None = None
        #: whether the package on the disk is another than the one that runs
        self.has_other_code = False
        #: whether the authority, which devices trust, is another one than before
        self.has_other_authority = False
        #: whether the program ends
        self.is_stopping = False
        #: the proxies that serve the same ports, as this one's parent has started them
        self.siblings = siblings()
        #: the ports on which the proxy listens: what it asks itself does not go there
        self.own_ports: tuple[int, ...] = ()
        #: why there is no engine, if so
        self._missing = FailureCause.START
        #: whether the media types that a request names can change a decision
        self.asks_media = False
        #: whether it counts where names lead
        self.asks_leads = False
        #: whether fields that servers believe go on to a host; ``None`` if they do to none
        self.keeps: Keeps = None
        #: what the policy's extensions do in this proxy
        self.parts = Parts(self, SelfConnections() if loops is None else loops)

    def part(self, kind: type[_Part]) -> _Part | None:
        """The part of one class; ``None`` if its extension is not in use."""
        return self.parts.of(kind)

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
        return not self.parts.hides_clients

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

        ``is_connection``: only hosts and port are known. ``is_lookup``: a name is looked up, and nothing is used yet.
        ``goes_on``: it was let through before, so that no page can warn of its end. ``is_settled``: what it needs was
        asked; before, no page warns either, since that is done once.
        Without a policy, nothing passes, unless a policy said so.
        """
        engine = self.engine
        group = _EVERYBODY if engine is None else engine.group(client)
        settings = group.settings if self.mode == MODES[0] else group.settings.under(self.mode)
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
        for judged in () if is_lookup else self.parts.judged:
            judgement = judged(judgement, may_warn=not goes_on and (is_settled or not decision.unconfirmed))
        return judgement

    async def confirmed(
        self,
        judgement: Judgement | None,
        *,
        is_connection: bool = False,
        is_lookup: bool = False,
        goes_on: bool = False,
    ) -> Judgement | None:
        """The judgement, made anew if somebody has to be asked first; it waits for that, and only for so long.

        First, where its names lead is looked up, unless the client itself does (``is_lookup``), or it is known from
        when it was let through (``goes_on``).

        If the server gives no answer, it is as the policy says for that; what is beyond the client's share is blocked.
        If another policy comes into use meanwhile, all is done anew by that.
        """
        how = {"is_connection": is_connection, "is_lookup": is_lookup}
        while judgement is not None:
            policies, waiting = self.policies, judgement
            judgement = await self._confirmed(waiting, how, knows_leads=is_lookup or goes_on)
            if policies == self.policies:
                return judgement
            judgement = self.judge(waiting.request, waiting.client, **how, goes_on=goes_on)
        return None

    async def _confirmed(self, judgement: Judgement, how: dict[str, bool], *, knows_leads: bool) -> Judgement | None:
        if self.asks_leads and not (knows_leads or judgement.stops):
            request = judgement.request
            for look_up in self.parts.look_up:
                request = await look_up(request, judgement.client)
            if request is not judgement.request:
                again = self.judge(request, judgement.client, is_connection=how["is_connection"])
                if again is None:
                    return None
                judgement = again
        if not judgement.decision.unconfirmed:
            return judgement
        if self.engine is not None and (confirmations := self.engine.confirmations) is not None:
            answers = confirmations.ask_soon(judgement.decision.unconfirmed, judgement.client.address)
            if answers:
                await asyncio.wait(list(map(asyncio.wrap_future, answers)), timeout=confirmations.longest_wait)
        return self.judge(judgement.request, judgement.client, **how, is_settled=True)

    def record(self, judgement: Judgement, method: str, *, is_live: bool = True) -> Judgement:
        """Count a decision, and log it; returns it with its canonical URL, and its reference in the log.

        There is no reference without a log, or if the decision is about a recording.
        """
        decision, client = judgement.decision, judgement.client
        log = self.parts.log if is_live else None
        moment = time()
        reference = None if log is None else log.reference(moment)
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
        self.statistics.note(record, judgement.duration)
        if log is not None:
            log.write(record)
        for noted in self.parts.noted if is_live else ():
            noted(record)
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
        """Use a policy that was read.

        What may fail comes first: then the policy before stays in use as a whole.
        """
        self.parts.follow(engine.policy)
        self.engine, self.template, self.problem = engine, template, None
        self.asks_media, self.asks_leads, self.keeps = engine.asks_media, engine.asks_leads, engine.keeps
        self.policies += 1
        self.failure_policy.on_failure = engine.policy.on_failure

    def give_up(self, problem: str) -> None:
        """Stop using an index that was written to: a rule that is lost there would let requests pass."""
        self.engine, self._missing, self.problem = None, FailureCause.INDEX, problem
        self.asks_media, self.asks_leads, self.keeps = False, False, None
        self.policies += 1

    def was_read(self, reading: LoadedPolicy) -> None:
        self.reading = reading
        self.readings[reading.problem is None] += 1

    def notify(self, notice: Notice) -> None:
        """Tell people who are away, by whatever the policy has for that; waits for nothing."""
        for send in self.parts.send:
            send(notice)

    def close(self) -> None:
        """Stop all threads, and write all data."""
        self.statistics.close()
        for close in self.parts.close:
            close()

    def without_policy(self) -> str:
        """What becomes of requests while no policy can be used, for people."""
        return UNFILTERED if self.failure_policy.on_failure.passes(self._missing) else _REFUSED

    def status(self) -> str:
        """A summary of the current state, for people."""
        if self.engine is None:
            lines = (self.without_policy(), self.failure_policy.status(), self.problem and str(Lines(self.problem)))
            return "\n".join(filter(None, lines))
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
        failures = self.failure_policy.status()
        more = filter(None, (*self.parts.messages("states"), *self.parts.messages("faults"), failures))
        status += "".join(f"; {words}" for words in more)
        status = "\n".join((printable(status), *map(str, policy.held_back)))
        return status if self.problem is None else f"{status}; the last change is not used:\n{Lines(self.problem)}"
