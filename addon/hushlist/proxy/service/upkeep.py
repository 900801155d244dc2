"""Has mitmproxy read and make anew what it keeps for as long as it runs: that may be years.

It makes a host's certificate when that is first asked for, valid for a year at most, and keeps the last hundred. Where
few hosts are asked for, or the clock was wrong when one was made, browsers would refuse it. And its dates told every
client to the second when somebody had first asked for that host. So each is made anew each day, and all that are made
on one day have the same dates. mitmproxy reads once which authorities sign the certificates of origins, and which name
servers the system has: none, if it starts before the network. The end of its own authority, which every device has to
trust, is told in time.
"""

from __future__ import annotations

import asyncio
import datetime as datetime_module
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mitmproxy import certs, ctx
from mitmproxy.net import tls

from hushlist.core.errors import logger_of
from hushlist.core.extension import Notice
from hushlist.core.system.authority_file import is_other_authority, known_authority
from hushlist.core.system.files import cache_folder, state_folder
from hushlist.core.system.memory import give_back
from hushlist.proxy.connections.kept_certificates import KEPT, kept_file
from hushlist.proxy.languages import DEFAULT_LANGUAGE, live_texts, moment_text
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: seconds between two looks
INTERVAL = 60.0
#: days before the authority's end on which that is told, since every device needs the new one
NOTICES = (90, 60, 30, 14, 7, 3, 2, 1, 0)


class _ByDay(datetime):
    """The clock by which mitmproxy dates certificates: where it asks for no time zone, it is midnight."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        if tz is not None:
            return datetime.now(tz)
        return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)


class _Dates(SimpleNamespace):
    """Python's module of dates, by which mitmproxy dates the certificates that it makes, by the day."""


#: as in ``bounded_http``
REPLACED = ((certs, "datetime", _Dates(**{**vars(datetime_module), "__doc__": _Dates.__doc__, "datetime": _ByDay})),)


def forget_certificates(store: Any) -> None:
    """Have mitmproxy's store make the certificates of hosts anew; those that an administrator gives are in no queue."""
    made = {id(entry) for entry in store.expire_queue}
    store.expire_queue = []
    store.certs = {key: entry for key, entry in store.certs.items() if id(entry) not in made}


def renew_revocations(store: Any) -> None:
    """Have mitmproxy's store say anew that nothing is revoked: mitmproxy 12 says so for a week from its start."""
    make = getattr(certs, "dummy_crl", None)
    if make is not None:
        store.default_crl = make(store.default_privatekey, store.default_ca._cert)


def look_for_name_servers(resolver: Any) -> None:
    """Have mitmproxy's resolver ask the system's name servers of today, if it has asked any."""
    if resolver.name_servers.cache_info().currsize:
        before = resolver.name_servers()
        resolver.name_servers.cache_clear()
        if resolver.name_servers() != before:
            resolver.resolver.cache_clear()


class Upkeep:
    """Looks after mitmproxy for as long as the proxy runs."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._task: asyncio.Task[None] | None = None
        #: of ``NOTICES``, the last that people got
        self._last_step: int | None = None
        #: when that was last renewed which is each day
        self._day: date | None = None
        self._fault = ""
        #: the certificate of mitmproxy's authority
        self._authority: bytes | None = None

    def run(self) -> None:
        """Begin; called in the event loop."""
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="hushlist: upkeep")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._keep_certificates()

    async def _watch(self) -> None:
        while True:
            self.look(datetime.now(UTC))
            await asyncio.to_thread(self._keep_up)
            give_back()
            await asyncio.sleep(INTERVAL)

    def _keep_up(self) -> None:
        """Look after what is on the disk; raises nothing."""
        self._keep_certificates()
        engine = self._runtime.engine
        for keep_up in self._runtime.parts.keep_up:
            keep_up(None if engine is None else engine.policy)
        with suppress(RuntimeError, OSError):  # the user has no home, or the folder for state cannot be used
            self._compare_authority(state_folder())

    def _keep_certificates(self) -> None:
        """Have the certificates that were made today outlast a restart; raises nothing."""
        if self._authority is not None:
            with suppress(RuntimeError):  # the user has no home
                KEPT.exchange(kept_file(cache_folder(), Path(ctx.options.confdir).expanduser()))

    def _compare_authority(self, state: Path) -> None:
        """Tell if the authority is another one than at the last start; ``OSError`` if it cannot be compared."""
        if self._authority is None:
            return
        folder = Path(ctx.options.confdir).expanduser()
        path = known_authority(state, folder)
        is_other = is_other_authority(path, self._authority)
        if is_other and not self._runtime.has_other_authority:
            text = (
                "hushlist: the authority in %s is another one than before, and devices do not trust it: put the one "
                "before back from a copy, or install the new one on every device, and then remove %s"
            )
            logger.warning(text, folder, path)
        self._runtime.has_other_authority = is_other

    def look(self, now: datetime) -> None:
        """Renew what is due; raises nothing."""
        try:
            certificates, resolver = map(ctx.master.addons.get, ("tlsconfig", "dnsresolver"))
            store, is_new_day = getattr(certificates, "certstore", None), now.date() != self._day
            if store is not None:
                self._tell(store.default_ca.notafter, now)
                KEPT.use(store.default_privatekey, store.default_ca._cert)
                is_first, self._authority = self._authority is None, store.default_ca.to_pem()
                if is_first:
                    self._keep_certificates()  # before a client needs one
                if is_new_day:
                    forget_certificates(store)
                    renew_revocations(store)
            if resolver is not None:
                look_for_name_servers(resolver)
            if is_new_day:
                tls.create_proxy_server_context.cache_clear()
                self._day = now.date()
        except Exception as error:  # another mitmproxy may keep them in another way
            if str(error) != self._fault:
                logger.exception("hushlist: something that mitmproxy keeps cannot be renewed")
            self._fault = str(error)

    def _tell(self, end: datetime, now: datetime) -> None:
        """Tell of the authority's end when it is near, and again when it is nearer."""
        step = min((days for days in NOTICES if end - now <= timedelta(days=days)), default=None)
        if step is not None and step != self._last_step:
            engine = self._runtime.engine
            texts = live_texts()[DEFAULT_LANGUAGE if engine is None else engine.policy.of("language")]
            folder = ctx.options.confdir
            logger.warning("hushlist: the authority in %s ends on %s: see hushlist doctor", folder, f"{end:%Y-%m-%d}")
            title = texts["authority_ends"].format(day=moment_text(end, texts, ""))
            details: dict[str, object] = {"authority": {"ends": end.isoformat()}}
            self._runtime.notify(Notice(title, texts["authority_renew"].format(folder=folder), details))
        self._last_step = step
