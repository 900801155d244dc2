"""Looks at the networks of this machine every few seconds, and tells of devices that were never there before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic, time

from hushlist.core.errors import logger_of
from hushlist.core.extension import Notice
from hushlist.core.policy.groups import UNNAMED
from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.files import make_private, read_regular, replace_file, state_folder
from hushlist.extensions.devices.known_devices import NETWORK, device_names, seen_now
from hushlist.extensions.devices.network_tables import Seen, is_random, leases
from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.proxy.languages import live_texts
from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: seconds between two looks; between two where somebody asks for an address that was not seen
_INTERVAL, _SOON = 5.0, 0.2
#: MACs that are remembered, and notices within an hour
_MOST, _MOST_NOTICES, _HOUR = 8192, 10, 3600.0
_LONGEST = 1 << 20


class DeviceWatch(Part):
    """Knows who has which address, where the policy names devices."""

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        self._is_over = Event()
        self._thread: Thread | None = None
        self._policy: Policy | None = None
        self._met: dict[str, float] | None = None
        #: those of DHCP servers, and when they are read again: their files may be long
        self._leases, self._next_leases = list[Seen](), 0.0
        self._noticed: list[float] = []

    def prepare(self, policy: Policy) -> None:
        """Look once, if nobody does: the first request under the policy is decided by whose device asks."""
        if self._policy is None and policy.of("devices"):
            try:
                self._see(policy)
            except Exception:  # the next look may go well
                logger.exception("hushlist: the devices on the network cannot be looked at")

    def follow(self, policy: Policy) -> None:
        """Begin to look, if the policy names devices."""
        self._policy = policy if policy.of("devices") else None
        if self._policy is not None and self._thread is None:
            NETWORK.is_seen = True  # no request waits for the first look
            self._thread = Thread(target=self._look_always, name="hushlist: devices", daemon=True)
            with suppress(RuntimeError):  # the machine has no thread left now
                self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        NETWORK.is_asked.set()

    def _look_always(self) -> None:
        while not self._is_over.is_set():
            policy = self._policy
            if policy is not None:
                try:
                    self.look_at_network(policy)
                except Exception:  # the next look may go well
                    logger.exception("hushlist: the devices on the network cannot be looked at")
            NETWORK.is_asked.wait(_INTERVAL)
            self._is_over.wait(_SOON)
            NETWORK.is_asked.clear()

    def look_at_network(self, policy: Policy) -> None:
        """See who has which address now, and tell of those who are new; may wait for the kernel."""
        self._see(policy)
        self._meet(policy)

    def _see(self, policy: Policy) -> None:
        if monotonic() >= self._next_leases:
            self._leases, self._next_leases = leases(), monotonic() + _INTERVAL
        network = seen_now(self._leases)
        if (fault := network.fault) != NETWORK.fault:
            logger.warning("hushlist: %s", f"devices: {fault}; rules for addresses hold" if fault else "devices: known")
        for address in network.doubts.keys() - NETWORK.doubts.keys():
            why = network.doubts[address]
            said = f"{address}: {why}" if _names_clients(policy) else "it is not sure who has an address"
            logger.warning("hushlist: devices: %s; rules for addresses hold", said)
        NETWORK.take(network)

    def _meet(self, policy: Policy) -> None:
        """Tell of devices that were never seen before; those of the first look of all are no news."""
        path, now = state_folder() / "devices.json", time()
        is_first = self._met is None and not path.exists()
        met = self._met = _read_met(path) if self._met is None else self._met
        seen = sorted(NETWORK.macs.items(), key=lambda entry: (":" in entry[0], entry))
        fresh = [(address, mac) for address, mac in seen if mac not in met]
        if not fresh and not is_first:
            return
        name = device_names(policy)
        for address, mac in fresh:
            if mac in met:
                continue
            met[mac] = now
            self._noticed = [moment for moment in self._noticed if moment > now - _HOUR]
            is_news = name is not None and name(address, None) == UNNAMED and not is_first
            if is_news and len(self._noticed) < _MOST_NOTICES:
                self._noticed.append(now)
                self._tell(policy, address, mac)
        self._met = dict(sorted(met.items(), key=lambda entry: entry[1])[-_MOST:])
        with suppress(OSError):  # the disk is full: it is told again after a start
            make_private(path.parent)
            replace_file(path, json.dumps(self._met).encode(), is_private=True)

    def _tell(self, policy: Policy, address: str, mac: str) -> None:
        texts = live_texts()[policy.of("language")]
        more = texts["random_mac"] if is_random(mac) else ""
        details: dict[str, object] = {"kind": "device", "random": is_random(mac)}
        who = ""
        if _names_clients(policy):
            host = NETWORK.hosts.get(address, "")
            who = f": {', '.join(filter(None, (host, address, mac)))}"
            details |= {"client": address, "mac": mac, "host": host}
        words = " ".join(filter(None, (f"{texts['new_device']}{who}.", more)))
        self._runtime.notify(Notice(texts["new_device"], words, details, client=address))

    def faults(self) -> Iterator[str]:
        """That nobody is known by a device now."""
        if self._policy is not None and NETWORK.fault is not None:
            yield NETWORK.fault


def _names_clients(policy: Policy) -> bool:
    """Whether people may read who is there: not where the log keeps no clients."""
    log = policy.of("log")
    return log is None or log.clients is LoggedClients.KEEP


def _read_met(path: Path) -> dict[str, float]:
    with suppress(OSError, ValueError, TypeError, AttributeError):
        return {str(mac): float(at) for mac, at in json.loads(read_regular(path, _LONGEST)).items()}
    return {}
