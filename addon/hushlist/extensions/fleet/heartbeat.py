"""Says to the other proxies of the user that this one runs, and with what; and knows what they say.

The event loop gathers, and a thread writes and reads: no request waits for the disk. Where that fails, everything else
goes on.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, time

from mitmproxy import ctx

from hushlist import __version__
from hushlist.core.errors import logger_of
from hushlist.core.system.memory import resident_octets
from hushlist.core.system.package_code import OTHER_CODE
from hushlist.extensions.databases.kept_files import DatabaseKind
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.fleet.proxy_records import (
    BEAT,
    FLEET,
    GONE,
    SHOWN,
    ProxyRecord,
    ProxyRecords,
    default_path,
    troubles,
)
from hushlist.extensions.subscriptions.list_watch import states_in
from hushlist.proxy.parts import Metric, Part
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service.health import why_unready

logger = logger_of(__name__)

#: seconds between two looks whether something about this proxy has changed, and between two looks at the others
_LOOK, _READ = 1.0, 5.0
#: seconds that the end waits for a store
PATIENCE = 2.0
_LONGEST_FAULT = 300
_DIGEST, _PORT = re.compile("[0-9a-f]{64}"), re.compile("[0-9]{1,5}")


class Heartbeat(Part):
    """Writes this proxy's record, and reads those of all."""

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        #: what the proxies that share a store last said of themselves, this one among them
        self.records: tuple[ProxyRecord, ...] = ()
        self._store: ProxyRecords | None = None
        self._place: Path | PostgresAddress | None = None
        self._task: asyncio.Task[None] | None = None
        self._name = ""
        self._last: ProxyRecord | None = None
        self._beaten = self._looked = -BEAT
        self._lock, self._is_closed = Lock(), False
        self._leaving: Thread | None = None
        self._latest = 0.0
        #: why nothing is known of other proxies, if so
        self.fault: str | None = None

    def running(self) -> None:
        """Begin; called in the event loop, when mitmproxy listens."""
        siblings = self._runtime.siblings
        self._name = _own_name() + ("" if siblings is None else f"/{siblings.number}")
        self._task = asyncio.get_running_loop().create_task(self._keep(), name="hushlist: fleet")

    def leave(self) -> None:
        """Stop, and begin to take the record away, in a thread: a database may give no answer."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._leaving = Thread(target=self._leave, name="hushlist: leave the fleet", daemon=True)
            self._leaving.start()
            self._latest = monotonic() + PATIENCE

    def close(self) -> None:
        """Wait a moment until the record is away."""
        self.leave()
        if self._leaving is not None:
            self._leaving.join(max(0.0, self._latest - monotonic()))

    async def _keep(self) -> None:
        while True:
            try:
                record = self._record()
                if _without_figures(record) != _without_figures(self._last) or monotonic() - self._beaten >= BEAT:
                    await asyncio.to_thread(self._beat, record)
                    self._last, self._beaten, self._looked = record, monotonic(), -_READ
                if monotonic() - self._looked >= _READ:
                    self.records = await asyncio.to_thread(self._look)
                    self._looked = monotonic()
            except Exception as error:  # after any error, it goes on
                if self.fault is None:
                    logger.warning("hushlist: other proxies hear nothing of this one: %s", error)
                self.fault = str(error)
            else:
                self.fault = None
            await asyncio.sleep(_LOOK if self.fault is None else _READ)

    def kept_files(self) -> Iterator[tuple[Path, DatabaseKind]]:
        """The file of the store."""
        yield default_path(), FLEET

    def metrics(self) -> Iterator[Metric]:
        """The proxies that share the store, and what is wrong with each."""
        info = [
            ((record.name, record.version, record.policy_digest[:SHOWN], record.index_digest[:SHOWN]), 1)
            for record in self.records
        ]
        text = "A proxy that shares the store: its version, and digests of its policy and index."
        yield Metric("fleet_proxy_info", text, info, ("proxy", "version", "policy", "index"))
        text, seen = "When a proxy that shares the store last gave a sign of life.", self.records
        yield Metric(
            "fleet_proxy_seen_timestamp_seconds", text, [((record.name,), record.at) for record in seen], ("proxy",)
        )
        text = "Whether a proxy that shares the store is gone, not ready, or differs from the others."
        wrong = troubles(self.records, time()).items()
        yield Metric("fleet_proxy_troubled", text, [((name,), bool(why)) for name, why in wrong], ("proxy",))

    def neighbours(self) -> Iterator[int]:
        """Where other proxies of this machine listen."""
        now, started = time(), self._runtime.statistics.started
        for record in self.records:
            is_here = record.name.partition(":")[0] == socket.gethostname()
            if is_here and record.started != started and now - record.at <= GONE:
                yield from map(int, filter(_PORT.fullmatch, record.ports.split()))

    # -- in a thread -----------------------------------------------------------------------------------------------

    def _beat(self, record: ProxyRecord) -> None:
        with self._lock:
            if not self._is_closed:
                self._opened().beat(record)

    def _leave(self) -> None:
        if self._lock.acquire(timeout=PATIENCE / 2):  # a thread may still write
            try:
                self._let_go()
            finally:
                self._lock.release()
        elif (records := self._store) is not None:
            records.close()  # then it ends

    def _look(self) -> tuple[ProxyRecord, ...]:
        with self._lock:
            return () if self._is_closed else tuple(self._opened().all())

    def _opened(self) -> ProxyRecords:
        engine = self._runtime.engine
        place = (None if engine is None else engine.policy.of("store")) or default_path()
        if self._store is None or place != self._place:
            self._let_go()
            self._store, self._place = ProxyRecords(place, time), place
        return self._store

    def _let_go(self) -> None:
        if self._store is not None:
            if self.fault is None:
                with suppress(StoreError):
                    self._store.leave(self._name, 0.0 if self._last is None else self._last.at)
            self._store.close()
            self._store = None

    # -- in the event loop -----------------------------------------------------------------------------------------

    def _record(self) -> ProxyRecord:
        runtime, engine, now = self._runtime, self._runtime.engine, time()
        requests = runtime.statistics.total
        states = states_in(runtime).values()
        index = "" if engine is None else Path(engine.index.source).stem
        before = self._last
        rate = (requests - before.requests) / max(1.0, now - before.at) if before is not None else 0.0
        return ProxyRecord(
            self._name,
            now,
            started=runtime.statistics.started,
            version=__version__,
            policy_digest="" if engine is None else engine.policy.digest,
            index_digest=index if _DIGEST.fullmatch(index) else "",
            mode=runtime.mode,
            rules=0 if engine is None else len(engine.index),
            read=0.0 if runtime.reading is None else runtime.reading.moment,
            checked=min((state.checked for state in states), default=0.0),
            requests=requests,
            rate=rate,
            memory=resident_octets() or 0,
            ports=" ".join(map(str, _own_ports())),
            unready=why_unready(runtime),
            fault=_fault_of(runtime)[:_LONGEST_FAULT],
        )


def _fault_of(runtime: Runtime) -> str:
    faults = (
        runtime.problem and f"the last change is not used: {runtime.problem}",
        runtime.script_fault,
        OTHER_CODE if runtime.has_other_code else None,
        *runtime.parts.messages("faults"),
        runtime.failure_policy.status(),
    )
    return next(filter(None, faults), "")


def _without_figures(record: ProxyRecord | None) -> ProxyRecord | None:
    """A record without what changes all the time."""
    return None if record is None else record._replace(at=0.0, checked=0.0, requests=0, rate=0.0, memory=0)


def _own_ports() -> list[int]:
    """Each port on which mitmproxy listens, once."""
    server = ctx.master.addons.get("proxyserver")
    return [] if server is None else list(dict.fromkeys(address[1] for address in server.listen_addrs()))


def _own_name() -> str:
    """The machine's name, and the first port on which mitmproxy listens."""
    ports = _own_ports()
    return f"{socket.gethostname()}:{ports[0]}" if ports else socket.gethostname()


def fleet_of(runtime: Runtime) -> tuple[ProxyRecord, ...]:
    """What the proxies that share a store last said of themselves."""
    heartbeat = runtime.part(Heartbeat)
    return () if heartbeat is None else heartbeat.records
