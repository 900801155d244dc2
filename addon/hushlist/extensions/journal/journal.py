"""The decision log in a proxy: opened as the policy says, and again when that changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from hushlist.core.errors import logger_of
from hushlist.core.policy.group_table import device_names
from hushlist.core.policy.policy_file import Policy
from hushlist.extensions.journal.log_keys import LoggedClients, LogSettings
from hushlist.extensions.journal.log_record import Privacy, hiding_of
from hushlist.extensions.journal.masked_clients import privacy_of
from hushlist.proxy.parts import Metric, Part
from hushlist.proxy.runtime import Runtime

if TYPE_CHECKING:
    from hushlist.extensions.journal.log_writer import LogWriter

logger = logger_of(__name__)


class Journal(Part):
    """Has the log, if there is one."""

    log: LogWriter | None = None

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        self._settings: LogSettings | None = None

    def follow(self, policy: Policy) -> None:
        """Write the log as the policy says; a log that cannot be written is reported, and requests go on."""
        settings: LogSettings | None = policy.of("log")
        if settings != self._settings:
            self._open(settings)
        if self.log is not None:
            self.log.device_of, self.log.hides = device_names(policy), hiding_of(policy)

    def _open(self, settings: LogSettings | None) -> None:
        before, self.log, self._settings = self.log, None, settings
        self.hides_clients = settings is not None and settings.clients is not LoggedClients.KEEP
        if before is not None:
            with suppress(RuntimeError):  # the machine has no thread left: it stays open
                Thread(target=before.close, name="hushlist: close a log", daemon=True).start()
        if settings is not None:
            from hushlist.extensions.journal.log_writer import LogWriter  # a proxy without a log does not need it

            try:
                self.log = LogWriter(settings)
            except RuntimeError as error:
                logger.warning("hushlist: there is no log: %s", error)  # an error would end mitmdump at its start

    def close(self) -> None:
        """Write what waits."""
        if self.log is not None:
            self.log.close()
            self.log = None

    @property
    def fault(self) -> str | None:
        """Why decisions are not logged although the policy says so, if so."""
        if self.log is not None:
            return self.log.fault
        return None if self._settings is None else "it cannot be started: see the messages of the proxy"

    def values(self) -> Iterator[LogWriter | None]:
        """The log."""
        yield self.log

    def states(self) -> Iterator[str]:
        """What ends the log first."""
        if self.log is not None and self.log.key_fault is not None:
            yield f"pseudonyms hold until the next start only: {self.log.key_fault}"
        if self.log is not None and self.log.figures is not None:
            yield f"log: {self.log.figures}"

    def faults(self) -> Iterator[str]:
        """That it cannot be written."""
        if self.fault is not None:
            yield f"the log cannot be written: {self.fault}"

    def warnings(self) -> Iterator[str]:
        """That the log cannot be written, without the names of files; and that the key of pseudonyms is lost."""
        if self.fault is not None:
            yield "the log cannot be written; records wait"
        if self.log is not None and self.log.key_fault is not None:
            yield "the key of pseudonyms cannot be read: put it back from a copy, or remove it for new names"

    def metrics(self) -> Iterator[Metric]:
        """What waits, and whether it cannot be written."""
        waiting = 0 if self.log is None else self.log.waiting
        yield Metric("log_waiting", "Records that are still to be written into the log.", [((), waiting)])
        yield Metric("log_failing", "Whether the log cannot be written.", [((), self.fault is not None)])

    def kept_files(self) -> Iterator[tuple[Path, None]]:
        """The log's database, which looks after itself."""
        if self.log is not None:
            from hushlist.extensions.journal.log_files import DATABASE

            yield self.log.folder / DATABASE, None


def log_of(runtime: Runtime) -> LogWriter | None:
    """The log of a proxy, if there is one."""
    journal = runtime.part(Journal)
    return None if journal is None else journal.log


def privacy_in(runtime: Runtime) -> Privacy:
    """What may be shown of clients; may read the disk."""
    return privacy_of(runtime.engine, log_of(runtime))
