"""Clients that refuse the proxy's certificate: apps that pin one. They are reported, with the line that would help; or
added to what is passed through, where the policy says so.

Anybody can refuse a certificate: so a host is added only where the client has accepted one before, and has refused this
host's at least twice; and never one that is blocked, nor one with rules that only who sees paths can apply.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections import OrderedDict
from datetime import UTC, datetime
from pathlib import Path

from mitmproxy import tls

from hushlist.errors import UrlError
from hushlist.policy.decision import STOPPING
from hushlist.policy.groups import Client
from hushlist.policy.pass_through import ADD
from hushlist.proxy.files import replace
from hushlist.proxy.in_force import InForce
from hushlist.proxy.tunnels import Tunnels
from hushlist.proxy.wire import client_of_connection, request_of_connection
from hushlist.url.host import is_address, is_plain_name
from hushlist.url.parts import to_bytes
from hushlist.url.request import canonical_host

logger = logging.getLogger(__name__)

#: how many clients and hosts are remembered
_MOST = 4096
#: hosts that are added until the proxy is started again: nobody fills a disk
_MOST_ADDED = 100
#: refusals of one host by one client, after which it is added
_ENOUGH = 2
#: what mitmproxy says where a client does not take the certificate, in the words of OpenSSL's alerts
_REFUSAL = re.compile(
    r"unknown ca|bad certificate|certificate unknown|unsupported certificate|certificate (?:expired|revoked)"
)


class _Counts(OrderedDict[tuple[str, ...], int]):
    """How often something was seen; what was not seen for long is forgotten."""

    def count(self, *key: str) -> int:
        self[key] = number = self.get(key, 0) + 1
        self.move_to_end(key)
        if len(self) > _MOST:
            self.popitem(last=False)
        return number


class Distrust:
    """Notices handshakes that fail."""

    def __init__(self, in_force: InForce, tunnels: Tunnels) -> None:
        self._in_force, self._tunnels = in_force, tunnels
        #: clients that have accepted a certificate of the proxy's
        self._trusting = _Counts()
        self._refusals = _Counts()
        #: group and host
        self._reported = _Counts()
        self._added = 0
        self._writing = threading.Lock()

    def established(self, data: tls.TlsData) -> None:
        """A client has accepted a certificate."""
        if data.context.server.address is not None:
            self._trusting.count(_who(client_of_connection(data.context.client)))

    async def failed(self, data: tls.TlsData, mode: str) -> None:
        """A handshake with a client has failed; where the client has refused the certificate, see to it."""
        address = data.context.server.address
        if mode == "off" or address is None or not _REFUSAL.search(data.conn.error or ""):
            return
        try:
            client = client_of_connection(data.context.client)
            names = (data.conn.sni,) if data.conn.sni else ()
            request = request_of_connection(b"https", address, names, data.context.client.proxy_mode)
            judged = self._tunnels.judge(request, client, mode)
            if judged is not None and judged.decision.action in STOPPING:
                self._tunnels.record(judged)  # there will be no request that could be
                return
            host = canonical_host(to_bytes(data.conn.sni or address[0]))
            if is_plain_name(host) or is_address(host):
                await self._see_to(host.decode("ascii"), client)
        except UrlError:
            return
        except Exception:
            logger.exception("hushlist: a client that refuses a certificate was not seen to")

    async def _see_to(self, host: str, client: Client) -> None:
        engine = self._in_force.engine
        if engine is None:
            return
        group, settings = engine.view(client).group.name, engine.settings(client)
        passed = settings.pass_through
        number = self._refusals.count(_who(client), host)
        place = passed.place or engine.policy.source
        if passed.on_failure == ADD and passed.file is not None:
            if number < _ENOUGH or _trust_key(client) not in self._trusting:
                return
            if engine.has_paths(host.encode(), client):
                self._report(group, host, f"it is not added to {passed.file}, since there are rules for its paths")
            elif self._added >= _MOST_ADDED:
                self._report(group, host, f"it is not added to {passed.file}, since {_MOST_ADDED} others were")
            elif self._reported.count(group, host) == 1:
                self._added += 1
                await asyncio.to_thread(self._add, passed.file, host, client)
                logger.warning(
                    "hushlist: %s refuses the certificate for %s: added to %s", client.address, host, passed.file
                )
            return
        self._report(group, host, f"to pass it through undecrypted, add to pass-through in {place}:  - ={host}")

    def _report(self, group: str, host: str, what: str) -> None:
        if self._reported.count(group, host) == 1:
            logger.warning("hushlist: a client in group %s refuses the certificate for %s; %s", group, host, what)

    def _add(self, path: Path, host: str, client: Client) -> None:
        """Add a host to a file, which stays as private as it was."""
        note = f"={host}  # {datetime.now(UTC):%Y-%m-%d %H:%M} UTC: {_who(client)} refuses the certificate\n"
        with self._writing:
            before = path.read_bytes()
            start = b"" if not before or before.endswith(b"\n") else b"\n"
            replace(path.resolve(), before + start + note.encode("ascii", "backslashreplace"))


def _who(client: Client) -> str:
    return client.names[0]


def _trust_key(client: Client) -> tuple[str, ...]:
    return (_who(client),)
