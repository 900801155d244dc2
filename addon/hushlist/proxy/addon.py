"""The addon: options, hooks, and what is done with a decision.

Every hook decides on purpose what happens when it fails: the request is refused. mitmproxy itself would log the
exception and let the flow pass.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from time import perf_counter_ns, time
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from mitmproxy import connection, ctx, dns, exceptions, http
from mitmproxy.proxy.mode_specs import RegularMode, Socks5Mode, UpstreamMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.engine import Engine
from hushlist.errors import SourceError, UrlError
from hushlist.journal.journal import Journal
from hushlist.journal.record import record_of
from hushlist.lists.source import Report
from hushlist.match.learned import Learned
from hushlist.match.rule import Action
from hushlist.policy import shipped_policy
from hushlist.policy.background import Background
from hushlist.policy.decision import STOPPING, Decision
from hushlist.policy.groups import MODES, Client, Settings
from hushlist.policy.log import Settings as LogSettings
from hushlist.policy.overrides import Overrides
from hushlist.policy.policy import Fingerprint, Policy, PolicyError, read_policy
from hushlist.policy.report import CompileReport
from hushlist.policy.safe_search import rewrite
from hushlist.policy.store import StoreError, default_path
from hushlist.proxy import answer, notes
from hushlist.proxy.commands import Commands
from hushlist.proxy.explanation import Verdict
from hushlist.proxy.refusing import is_open, refuse
from hushlist.proxy.reload import UNREAD, watch
from hushlist.proxy.template import Template, load_template
from hushlist.proxy.unblock import Stopped, Unblocker
from hushlist.proxy.wire import Seen, client_of_flow, request_of_flow, seen_of_flow
from hushlist.url.parts import to_bytes
from hushlist.url.protocol import PERMANENT
from hushlist.url.request import Request, canonical_host

if TYPE_CHECKING:
    from mitmproxy.addonmanager import Loader

logger = logging.getLogger(__name__)

#: what holds while there is no policy
EVERYBODY = Settings()
#: lazy: no connection is made to an origin before its request is decided. No raw TCP: in a tunnel that carries HTTP, a
#: line's end in front of the request would be enough for mitmproxy to take it for another protocol, and pass it unseen.
_REQUIRED: dict[str, object] = {"connection_strategy": "lazy", "rawtcp": False}
#: modes in which a client asks for a tunnel by itself, and can ask for one to any port
_TUNNELLING = (RegularMode, Socks5Mode, UpstreamMode)


class Hushlist:
    """What a script puts into ``addons``."""

    name = "hushlist"

    def __init__(self) -> None:
        #: ``None`` until a policy could be loaded; until then every request is refused
        self.engine: Engine | None = None
        #: mitmproxy's: addons that come with this one
        self._unblocker = Unblocker(self)
        self.addons = [Commands(self), self._unblocker]
        #: of temporary unblocks; ``None`` where the store cannot be used
        self.overrides: Overrides | None = None
        self._no_overrides: str | None = None
        self._journal: Journal | None = None
        self._template: Template | None = None
        #: what to watch: the files of the policy in force, or of the one that could not be used
        self._files: dict[Path, Fingerprint] = {}
        #: what is wrong with the last change, which is not used
        self._problem: str | None = None
        self._learned = Learned()
        self._background = Background()
        #: what was decided of each flow: all that its request was made of, and the request
        self._decided: WeakKeyDictionary[http.HTTPFlow, tuple[Seen, Request]] = WeakKeyDictionary()
        #: the option; mitmproxy copies the value of one each time that it is asked for it
        self._mode = "block"
        #: of each client's connection: the host to connect to in place of another
        self._led: WeakKeyDictionary[connection.Client, dict[str, str]] = WeakKeyDictionary()
        self._watcher: asyncio.Task[None] | None = None
        self._is_running = False
        self._options_before: dict[str, object] = {}

    # -- options -------------------------------------------------------------------------------------------------

    def load(self, loader: Loader) -> None:
        """mitmproxy's hook: declare the options."""
        loader.add_option(
            "hushlist_policy",
            str,
            "",
            "The policy file (YAML) that names layers and lists. Empty: the one that is shipped with Hushlist. "
            "It is read again when it or one of its lists changes.",
        )
        loader.add_option(
            "hushlist_mode",
            str,
            "block",
            "block: what the policy blocks is answered with a block page. "
            "tag: it passes, and is marked as what would be blocked. off: nothing is decided.",
            choices=MODES,
        )
        loader.add_option(
            "hushlist_learn",
            bool,
            True,
            "Learn from permanent redirects of an origin for which of its paths a trailing slash makes no difference, "
            "so that a rule for one fits the other. It is forgotten after a day, and when this is turned off.",
        )

    def configure(self, updated: set[str]) -> None:
        """mitmproxy's hook: validate the options; state is swapped only after everything succeeded.

        At the start there is no good state to keep: the error is logged, which ends mitmdump, and where it does not
        end, every request is refused.

        Raises:
            OptionsError: an option cannot be used; the message has every problem with file and line.
        """
        try:
            self._configure(updated)
        except exceptions.OptionsError as error:
            if self._is_running:
                raise
            # the problems say where; the traceback that mitmproxy prints would say nothing more
            logger.error("hushlist: %s", error)  # noqa: TRY400
        finally:
            # Where the error is raised, mitmproxy takes the options back, and calls again.
            self._mode = ctx.options.hushlist_mode

    def _configure(self, updated: set[str]) -> None:
        if updated & {"hushlist_mode", *_REQUIRED}:
            self._require_options()
        if ctx.options.hushlist_mode not in MODES:
            raise exceptions.OptionsError(
                f"hushlist_mode cannot be {ctx.options.hushlist_mode!r}, only one of {', '.join(MODES)}"
            )
        is_first_needed = "hushlist_mode" in updated and ctx.options.hushlist_mode != "off" and self.engine is None
        if "hushlist_policy" in updated or is_first_needed:
            self._load()
        if "hushlist_learn" in updated and not ctx.options.hushlist_learn:
            self._learned.forget()

    def _load(self) -> None:
        """Use the policy that the options name: at the start, before any request is served; later, when it is there.

        Raises:
            OptionsError: the policy cannot be used; once the proxy runs, its lists are not looked at yet.
        """
        path = self._policy_path()
        if self.overrides is None:
            self._open_overrides()
        try:
            if self._is_running:
                self._files = dict.fromkeys(_read_policy(path), UNREAD)
            else:
                self._use(self._read_engine(self._background, path))
        except PolicyError as error:
            self._files = self._files or error.files
            # not "from error": mitmproxy prints the chain, and the problems say where
            raise exceptions.OptionsError(f"hushlist_policy cannot be used:\n{error}") from None
        self._restart_watcher()

    def _read_engine(self, background: Background, path: Path) -> Engine:
        try:
            policy, index = background.compile(path)
            try:
                _load_template(policy)
            except SourceError as error:
                raise PolicyError(error.problems, policy.files) from None
        except PolicyError as error:
            self._problem = str(error)
            raise
        return Engine(policy, index, self._learned, self.overrides)

    def _policy_path(self) -> Path:
        given = ctx.options.hushlist_policy
        try:
            return Path(given).expanduser() if given else shipped_policy()
        except RuntimeError as error:
            raise exceptions.OptionsError(f"hushlist_policy cannot be {given!r}: {error}") from error

    def _use(self, engine: Engine) -> None:
        template = _load_template(engine.policy)
        before = None if self.engine is None else self.engine.policy.log
        self.engine, self._files, self._template, self._problem = engine, engine.policy.files, template, None
        if engine.policy.log != before:
            self._open_journal(engine.policy.log)
        for problem in CompileReport.of(engine.index).warnings:
            logger.warning("hushlist: %s", problem)
        files = len(engine.policy.files)
        logger.info("hushlist: %d rules of %d files, by %s", len(engine.index), files, engine.policy.source)

    def _open_journal(self, settings: LogSettings | None) -> None:
        """Write the log as the policy says; a log that cannot be written is reported, and stops nothing."""
        if self._journal is not None:
            self._journal.close()
        self._journal = None
        if settings is not None:
            try:
                self._journal = Journal(settings)
            except RuntimeError as error:
                logger.warning("hushlist: there is no log: %s", error)  # an error would end mitmdump at its start

    def _open_overrides(self) -> None:
        """Use the store of temporary unblocks; where that cannot be, what is blocked stays so, and no more."""
        try:
            with ExitStack() as undo:
                overrides = undo.enter_context(Overrides(default_path(), time))
                self._unblocker.tokens = overrides.tokens()
                undo.pop_all()
        except (StoreError, RuntimeError) as error:
            # no error: at the start, mitmdump would end with it
            self._no_overrides = str(error)
            logger.warning("hushlist: nothing can be unblocked for a while: %s", error)
        else:
            self.overrides, self._no_overrides = overrides, None

    def _require_options(self) -> None:
        """While the filter is on, mitmproxy has to run as ``_REQUIRED`` says; then, as it was before."""
        if ctx.options.hushlist_mode == "off":
            before, self._options_before = self._options_before, {}
            ctx.options.update(**before)
            return
        other = {name: getattr(ctx.options, name) for name in _REQUIRED}
        other = {name: value for name, value in other.items() if value != _REQUIRED[name]}
        if other:
            self._options_before |= other
            ctx.options.update(**{name: _REQUIRED[name] for name in other})

    # -- life ----------------------------------------------------------------------------------------------------

    def running(self) -> None:
        """mitmproxy's hook: from now on the files are watched."""
        self._is_running = True
        # What is there now stays to the end: without this, the collector would look at it again and again, which costs
        # a request more than its decision.
        gc.collect()
        gc.freeze()
        self._restart_watcher()

    def done(self) -> None:
        """mitmproxy's hook: leave nothing running, and nothing unwritten."""
        self._stop_watching()
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
        if not self._is_running:
            return
        self._stop_watching()
        self._background = Background()
        read = partial(self._read_engine, self._background, self._policy_path())
        watching = watch(read, self._files, self._use)
        self._watcher = asyncio.get_running_loop().create_task(watching, name="hushlist: watch rules")

    def reload(self) -> None:
        """Read everything again."""
        self._files = dict.fromkeys(self._files, UNREAD)
        self._restart_watcher()

    def status(self) -> str:
        """What is in force, for people."""
        if self.engine is None:
            return "no policy that can be used: every request is refused"
        policy, index = self.engine.policy, self.engine.index
        groups = ", ".join(group.name for group in policy.all_groups)
        status = (
            f"policy {policy.source}: {len(index):,} rules of {len(policy.files)} files; groups: {groups}; "
            f"mode {self._mode}; index {index.source}"
        )
        fault = self._no_overrides if self.overrides is None else self.overrides.fault
        status += "" if fault is None else f"; nothing can be unblocked: {fault}"
        return status if self._problem is None else f"{status}; the last change is not used:\n{self._problem}"

    # -- requests ------------------------------------------------------------------------------------------------

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """mitmproxy's hook: decide before any of the body, which may be streamed, goes on."""
        self._filter(flow, again=True)

    def request(self, flow: http.HTTPFlow) -> None:
        """mitmproxy's hook: decide again where another addon has changed the request since."""
        self._filter(flow, again=False)

    def _filter(self, flow: http.HTTPFlow, *, again: bool) -> None:
        """Decide and act; a request that was decided before only if ``again``, as a replay has to be."""
        mode = self._mode
        if mode == "off":
            return
        try:
            seen, before = seen_of_flow(flow), None if again else self._decided.get(flow)
            if before is not None and before[0] == seen:
                return
            request = request_of_flow(flow)
            if before is not None and before[1] == request:
                return
            client = client_of_flow(flow)
            settings = EVERYBODY if self.engine is None else self.engine.settings(client)
            if settings.mode == "off":
                return
            mode = settings.mode if mode == "block" else mode
            start = perf_counter_ns()
            decision = self._decide(request, client)
            duration = (perf_counter_ns() - start) // 1000
            self._decided[flow] = seen, request
            stops = decision.action in STOPPING
            would_block = stops and mode == "tag"
            reference = self._record(flow, decision, client, would_block=would_block, duration=duration)
            notes.annotate(flow, decision, would_block=would_block)
            if (stops and not would_block) or self._unblocker.is_sealed(flow.request):
                stopped = Stopped(decision, client, settings.unblocking, reference)
                if refuse(flow, lambda _: self.answer(flow, stopped)):
                    self._unblocker.remember(flow, stopped)
            elif settings.safe_search and mode != "tag" and is_open(flow):
                self._search_safely(flow, request, settings)
        except Exception:
            logger.exception("hushlist: the filter failed, the request is refused")
            refuse(flow, answer.failure)

    def _decide(self, request: Request, client: Client) -> Decision:
        if self.engine is None:
            return Decision(Action.BLOCK, request.url, fault="the filter has no policy that it can use")
        return self.engine.decide(request, client=client)

    def answer(self, flow: http.HTTPFlow, stopped: Stopped, message: str | None = None) -> http.Response:
        """The answer in place of the origin's."""
        decision = stopped.decision
        is_failure = self.engine is None or decision.action not in STOPPING
        kind = Verdict.WARNED if decision.action is Action.WARN else Verdict.BLOCKED
        until = None if decision.winner is None else decision.winner.until
        if until is not None and self.engine is not None:
            until = until.astimezone(self.engine.policy.zone)
        explanation = answer.explain(
            decision, kind=Verdict.FAILED if is_failure else kind, until=until, reference=stopped.reference
        )
        return answer.answer(flow.request, explanation, self._unblocker.offer(stopped, message), self._template)

    def _record(
        self, flow: http.HTTPFlow, decision: Decision, client: Client, *, would_block: bool, duration: int
    ) -> str | None:
        """Write a decision into the log; its reference, or ``None``: there is no log, or the flow is a recording."""
        if self._journal is None or not flow.live:
            return None
        moment = time()
        reference = self._journal.reference(moment)
        self._journal.write(
            record_of(
                decision,
                reference=reference,
                moment=moment,
                client=client.address,
                user=client.user,
                group=decision.group,
                method=flow.request.method,
                would_block=would_block,
                grant=None if decision.grant is None else str(decision.grant.id),
                duration=duration,
            )
        )
        return reference

    def _search_safely(self, flow: http.HTTPFlow, request: Request, settings: Settings) -> None:
        """Ask a search engine for safe results, where the policy says so and the client does not.

        Whatever host the client says that it asks, one behind it may be led by any of them.
        """
        data = flow.request.data
        changes = []
        for host in dict.fromkeys(request.hosts):
            with suppress(UrlError):
                change = rewrite(canonical_host(host), data.path, settings.safe_search)
                if change is None:
                    continue
                for name, value in change.headers:
                    flow.request.headers[name.decode("ascii")] = value.decode("ascii")
                data.path = data.path if change.target is None else change.target
                if change.host is not None:
                    self._led.setdefault(flow.client_conn, {})[data.host] = change.host.decode("ascii")
                changes.append(str(change))
        if changes:
            flow.metadata[notes.SAFE_SEARCH] = "; ".join(changes)
            self._decided[flow] = seen_of_flow(flow), request

    def server_connect(self, data: ServerConnectionHookData) -> None:
        """mitmproxy's hook: connect where a service searches safely.

        Host header and TLS server name stay, as where a CNAME record leads there.
        """
        address = data.server.address
        host = self._led.get(data.client, {}).get(address[0]) if address else None
        if address and host:
            data.server.address = (host, address[1])

    def dns_request(self, flow: dns.DNSFlow) -> None:
        """mitmproxy's hook: a tunnel carries HTTP or nothing; one to port 53 or 5353 would be taken for DNS."""
        is_tunnel = isinstance(flow.client_conn.proxy_mode, _TUNNELLING)
        if is_tunnel and self._mode == "block" and flow.killable:
            flow.kill()

    def response(self, flow: http.HTTPFlow) -> None:
        """mitmproxy's hook: learn from a permanent redirect of the origin itself."""
        response = flow.response
        if response is None or response.status_code not in PERMANENT or not flow.live:
            return
        decided = self._decided.get(flow)
        if decided is None or self.engine is None or not ctx.options.hushlist_learn:
            return
        if flow.server_conn.timestamp_start is not None:
            _, request = decided
            self.engine.learn(request, to_bytes(response.headers.get("location", "")))


def _load_template(policy: Policy) -> Template | None:
    """The administrator's own block page.

    Raises:
        SourceError: it cannot be used.
    """
    return None if policy.block_page is None else load_template(policy.block_page)


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
