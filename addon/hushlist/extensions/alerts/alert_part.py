"""Alerts in a proxy: requests append to a bounded queue, and a thread counts, and tells people.

What the queue or the store cannot take is counted, and told; no request waits or fails for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from threading import Event, Lock, Thread
from time import time
from typing import NamedTuple

from mitmproxy import http

from hushlist.core.decide.decision import LogRecord
from hushlist.core.errors import Problem, logger_of
from hushlist.core.policy.group_table import DeviceNames
from hushlist.core.policy.groups import NOBODY, Client
from hushlist.core.policy.policy_file import Policy
from hushlist.extensions.alerts.alert_book import AlertBook, Hit
from hushlist.extensions.alerts.alert_hits import about_record, alerts_of, is_for, shown_alert, told_whom, whom_of
from hushlist.extensions.alerts.alert_keys import HELD_BACK, NEW_DEVICE, Alert
from hushlist.extensions.alerts.alert_notices import SEEN, notices_of
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.journal.journal import privacy_in
from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.extensions.journal.log_record import Privacy
from hushlist.extensions.journal.masked_clients import SOMEBODY, clients_shown, device_names_shown
from hushlist.extensions.unblock import default_path
from hushlist.extensions.unblock.tap_page import TapPage
from hushlist.proxy.languages import Texts
from hushlist.proxy.parts import Metric, Part
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: decisions, and what else happens, that wait for the thread; counters that wait for a store that is away
MOST_WAITING, MOST_UNWRITTEN = 8192, 4096
#: about how many octets the decisions that wait may hold
MOST_OCTETS = 8 << 20
#: seconds between two looks at what is due, and in which more is gathered after the first
LOOKING, GATHER = 1.0, 0.2
#: clients that are known not to be new
_MOST_KNOWN = 1 << 15
#: seconds that the end waits for the store
_LEAVE = 2.0


class _Happening(NamedTuple):
    """Something that is no decision."""

    what: str
    client: Client
    #: a host, or a list
    about: str
    why: str = ""


#: an alert's name and who it was, what happened, and the group of whoever it was
_GroupHit = tuple[tuple[str, str], Hit, str | None]


class AlertPart(Part):
    """Has the queue, the thread, and the page of a tap that says "seen"."""

    targets = (SEEN.encode(),)

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        self._alerts: tuple[Alert, ...] = ()
        self._tells_devices = False
        self.book: AlertBook | None = None
        self._opening = Lock()
        self._queue: deque[LogRecord | _Happening] = deque()
        self._octets = 0
        self._wake, self._is_over = Event(), Event()
        self._thread: Thread | None = None
        #: the names of devices that are in the store
        self._devices = set[str]()
        #: what the store has not taken
        self._unwritten: dict[tuple[str, str], Hit] = {}
        self._held: dict[str, str] = {}
        #: what was lost, and how many notices were handed over
        self._lost = self._notices = 0
        self._fault: str | None = None
        self._taps = TapPage(runtime, SEEN, self._tap)

    # -- life ----------------------------------------------------------------------------------------------------

    def follow(self, policy: Policy) -> None:
        """Use the policy's alerts."""
        self._alerts = policy.of("alerts")
        self._tells_devices = any(NEW_DEVICE in alert.when.event for alert in self._alerts)
        if self._alerts and self._thread is None:
            self._thread = Thread(target=self._run, name="hushlist: alerts", daemon=True)
            self._thread.start()

    def problems(self, policy: Policy) -> Iterator[Problem]:
        """That new devices cannot be told where the log has no clients."""
        if self._tells_devices and clients_shown(self._runtime.engine) is LoggedClients.DROP:
            why = "the log keeps no clients, so that nobody is new"
            yield Problem(policy.source, 0, f"alerts: {NEW_DEVICE}", why)

    def watch(self, policy: Policy) -> None:
        """Look for lists that are held back."""
        held = {path.name: why for path, why in policy.held.items()} if policy.of("alerts") else {}
        for name, why in held.items() - self._held.items():
            self._take(_Happening(HELD_BACK, NOBODY, name, why))
        self._held = held

    def close(self) -> None:
        """Count what waits, and end."""
        self._taps.close()
        self._is_over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_LEAVE)
        if self.book is not None:
            self.book.close()
            self.book = None

    # -- requests ------------------------------------------------------------------------------------------------

    def noted(self, record: LogRecord) -> None:
        """Queue a decision that an alert may be for."""
        decision = record.decision
        if decision.matches or decision.inside or (self._tells_devices and record.client not in self._devices):
            self._take(record)

    def happened(self, what: str, client: Client, about: str) -> None:
        self._take(_Happening(what, client, about))

    def _take(self, happening: LogRecord | _Happening) -> None:
        octets = happening.octets if isinstance(happening, LogRecord) else 0
        if len(self._queue) >= MOST_WAITING or self._octets + octets > MOST_OCTETS:
            self._lost += 1
        else:
            self._octets += octets
            self._queue.append(happening)
        if not self._wake.is_set():
            self._wake.set()

    def answer(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Answer a tap at a notice."""
        return self._taps.answer(flow)

    def _tap(self, token: str, acts: bool, texts: Texts) -> tuple[str, str]:
        privacy = privacy_in(self._runtime)
        row = shown_alert(self._opened().tapped(token, acts=acts), privacy)
        whom = told_whom(row, self._device_names(privacy)) or texts["somebody"]
        about = texts["pair"].format(name=row.alert, value=whom)
        return (
            (texts["pair"].format(name=texts["alert_seen"], value=about), "") if acts else (about, texts["alert_seen"])
        )

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._wake.wait(LOOKING)
            self._is_over.wait(GATHER)
            self._wake.clear()  # before: what is set from now on is seen in the next step
            is_last = self._is_over.is_set()
            try:
                self.step(time())
                self._fault = None
            except StoreError as error:
                self._fail(str(error))
            except Exception as error:  # after any error, the thread goes on
                logger.exception("hushlist: alerts failed")
                self._fail(repr(error))

    def _fail(self, why: str) -> None:
        if self._fault is None:
            logger.warning("hushlist: alerts are not counted, and that is tried again: %s", why)
        self._fault = why

    def step(self, now: float) -> None:
        """Count what waits, and tell what is due; ``StoreError`` if the store is away, and what was counted waits."""
        waiting = [self._queue.popleft() for _ in range(len(self._queue))]
        self._octets = 0  # of those that come meanwhile, a few are not counted
        alerts, privacy = self._alerts, privacy_in(self._runtime)
        self._add(self._hits(waiting, alerts, privacy))
        if self._tells_devices and privacy.clients is not LoggedClients.DROP:
            self._look_for_devices(waiting, alerts, privacy)
        if self._unwritten:
            unwritten, self._unwritten = self._unwritten, {}
            try:
                self._opened().note(unwritten, alerts)
            except BaseException:
                self._unwritten = unwritten
                raise
        if alerts:
            self._tell(alerts, datetime.fromtimestamp(now, UTC))

    def _hits(
        self, waiting: Sequence[LogRecord | _Happening], alerts: Sequence[Alert], privacy: Privacy
    ) -> Iterator[_GroupHit]:
        for event in waiting:
            if isinstance(event, LogRecord):
                for alert in alerts_of(alerts, event):
                    whom = whom_of(event.client, event.user, privacy)
                    yield (alert.name, whom), Hit(1, about_record(event, alert, privacy)), event.group
                continue
            engine = self._runtime.engine
            group = None if engine is None else engine.group(event.client).name
            is_list = event.what == HELD_BACK
            whom = event.about if is_list else whom_of(event.client.address, event.client.user, privacy)
            about = {
                "event": event.what,
                "list" if is_list else "host": event.about,
                **({"why": event.why} if event.why else {}),
            }
            for alert in alerts:
                if event.what in alert.when.event and (is_list or is_for(alert, group, event.client.user)):
                    yield (alert.name, whom), Hit(1, about, is_list), None if is_list else group

    def _look_for_devices(
        self, waiting: Sequence[LogRecord | _Happening], alerts: Sequence[Alert], privacy: Privacy
    ) -> None:
        records = {record.client: record for record in waiting if isinstance(record, LogRecord) and record.client}
        unknown = {whom_of(client, None, privacy): client for client in records if client not in self._devices}
        if not unknown:
            return
        for name in self._opened().new_devices(sorted(unknown)):
            record = records[unknown[name]]
            about_devices = [alert for alert in alerts if NEW_DEVICE in alert.when.event]
            about_devices = [alert for alert in about_devices if is_for(alert, record.group, record.user)]
            self._add(((alert.name, name), Hit(1, {"event": NEW_DEVICE}), record.group) for alert in about_devices)
        if len(self._devices) + len(unknown) > _MOST_KNOWN:
            self._devices = set()
        self._devices |= {*filter(None, unknown.values())}

    def _add(self, hits: Iterator[_GroupHit]) -> None:
        for key, hit, group in hits:
            # those whose names the log drops are counted as one, and may be of several groups
            if group is not None and key[1] != SOMEBODY:
                hit = replace(hit, about={**hit.about, "group": group})
            before = self._unwritten.get(key)
            if before is None and len(self._unwritten) >= MOST_UNWRITTEN:
                self._lost += 1
            else:
                self._unwritten[key] = hit if before is None else replace(hit, number=before.number + hit.number)

    def _opened(self) -> AlertBook:
        """The store, which is opened when it is first needed, and when the policy names another."""
        engine = self._runtime.engine
        place = (None if engine is None else engine.policy.of("store")) or default_path()
        with self._opening:
            if self.book is None or self.book.place != place:
                before, self.book = self.book, AlertBook(place, self._runtime.clock)
                if before is not None:
                    before.close()
            return self.book

    def _tell(self, alerts: Sequence[Alert], now: datetime) -> None:
        privacy = privacy_in(self._runtime)
        due = [(shown_alert(row, privacy), alert) for row, alert in self._opened().take_due(alerts, now)]
        for notice in notices_of(self._opened(), due, self._runtime.engine, self._device_names(privacy)):
            self._runtime.notify(notice)
            self._notices += 1

    def _device_names(self, privacy: Privacy) -> DeviceNames | None:
        engine = self._runtime.engine
        return device_names_shown(None if engine is None else engine.policy, privacy)

    # -- what is said of it --------------------------------------------------------------------------------------

    def values(self) -> Iterator[AlertBook | None]:
        """The store."""
        yield self._opened() if self._alerts else self.book

    def faults(self) -> Iterator[str]:
        """That alerts are not counted."""
        if self._fault is not None:
            yield f"alerts are not counted: {self._fault}"

    def warnings(self) -> Iterator[str]:
        """That alerts are not counted, without the name of a file."""
        if self._fault is not None:
            yield "alerts are not counted"

    def metrics(self) -> Iterator[Metric]:
        """Notices, what waits and what was lost."""
        yield Metric("alert_notices_total", "Notices of alerts that were handed over.", [((), self._notices)])
        yield Metric("alert_lost_total", "What could not be counted for alerts.", [((), self._lost)])
