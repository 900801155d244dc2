"""The lists of a proxy that are fetched: brought up to date while it runs, and what became of that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from logging import INFO, WARNING
from pathlib import Path
from time import monotonic, time

from hushlist.core.compile.background_compiler import BackgroundCompiler
from hushlist.core.errors import Lines, logger_of
from hushlist.core.policy.policy_file import Policy, PolicyError
from hushlist.extensions.subscriptions.list_store import ListState
from hushlist.proxy.parts import Metric, Part
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: seconds until what could not even be noted is tried again
RETRY = 60.0


class ListWatch(Part):
    """Has lists fetched that are due, by another process; a new version is then a change like any other."""

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        #: what is known of the lists, by their URLs; and of those of the policy that was read last
        self.states_by_url: Mapping[str, ListState] = {}
        self._prepared: Mapping[str, ListState] = {}
        self._updater = BackgroundCompiler()
        self._is_over, self._not_before = False, 0.0

    def prepare(self, policy: Policy) -> None:
        """See what is known of the policy's lists."""
        self._prepared = _states_of(policy)

    def follow(self, policy: Policy) -> None:
        """Go by the policy's lists."""
        self.states_by_url = self._prepared

    def watch(self, policy: Policy) -> None:
        """Update the lists that are due."""
        self.states_by_url = _states_of(policy)
        if not self._is_due() or monotonic() < self._not_before:
            return
        self._updater = BackgroundCompiler(self._runtime.own_ports)
        if self._is_over:
            return
        try:
            for is_good, text in self._updater.update(Path(policy.source)):
                logger.log(INFO if is_good else WARNING, "hushlist: %s", text)
        except PolicyError as error:
            if not self._is_over:
                logger.error("hushlist: no list could be fetched:\n%s", Lines(error))  # noqa: TRY400
        except Exception:
            logger.exception("hushlist: no list could be fetched")
        self.states_by_url = _states_of(policy)
        if self._is_due():  # the disk may be full, so that nothing says when to try again
            self._not_before = monotonic() + RETRY

    def _is_due(self) -> bool:
        now = time()
        return any(state.is_due(now) for state in self.states_by_url.values())

    def leave(self) -> None:
        """End the process that fetches."""
        self._is_over = True
        self._updater.stop()

    def why_unready(self) -> str:
        """Which list is too old."""
        engine = self._runtime.engine
        for subscribed in () if engine is None else engine.policy.subscribed:
            most, state = subscribed.subscription.max_age, self.states_by_url.get(subscribed.subscription.url)
            if most is not None and state is not None and time() - state.checked > most:
                return f"the list in line {subscribed.subscription.line} of the policy is older than its max-age"
        return ""

    def metrics(self) -> Iterator[Metric]:
        """When lists were asked for with success, and whether that fails."""
        states = self.states_by_url.items()
        text = "When the source of a list that is fetched was last asked with success."
        checked = [((url,), state.checked) for url, state in states]
        yield Metric("list_checked_timestamp_seconds", text, checked, ("file",))
        failing = [((url,), state.faults > 0) for url, state in states]
        yield Metric("list_failing", "Whether the last try to fetch a list failed.", failing, ("file",))

    def warnings(self) -> Iterator[str]:
        """Which lists cannot be updated."""
        engine = self._runtime.engine
        for subscribed in () if engine is None else engine.policy.subscribed:
            state = self.states_by_url.get(subscribed.subscription.url)
            if state is not None and state.faults:
                yield f"the list in line {subscribed.subscription.line} of the policy cannot be updated"


def _states_of(policy: Policy) -> dict[str, ListState]:
    return {subscribed.subscription.url: subscribed.store.state() for subscribed in policy.subscribed}


def states_in(runtime: Runtime) -> Mapping[str, ListState]:
    """What is known of a proxy's lists that are fetched, by their URLs."""
    watch = runtime.part(ListWatch)
    return {} if watch is None else watch.states_by_url
