"""Handles clients that refuse the proxy's certificate, as apps that pin one do.

They are reported, with the line that would help; or, if the policy says so, their hosts are added to pass-through.
Anybody can refuse a certificate. So a host is added only if the client has accepted a certificate before, and refused
this host's at least twice. A blocked host is never added, nor one whose requests have to be seen: for rules or filters
about what is on it, for safe search, or since the policy always decrypts it.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path

from mitmproxy import tls

from hushlist.core.decide.decision import STOPPING
from hushlist.core.errors import UrlError, logger_of, printable
from hushlist.core.extension import REFUSED_CERTIFICATE
from hushlist.core.policy.groups import Client
from hushlist.core.policy.pass_through import ADD
from hushlist.core.system.files import LONGEST_DOCUMENT, edit_file
from hushlist.core.system.memory import LatestEntries
from hushlist.core.url.host import is_address, is_plain_name
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import canonical_host
from hushlist.proxy.flow_request import client_of_connection, request_of_connection
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: most clients and hosts in memory
_MOST = 4096
#: most hosts that are added before the proxy is started again, so that nobody can fill a disk
_MOST_ADDED = 100
#: refusals of one host by one client, after which it is added
_ENOUGH = 2
#: mitmproxy's messages for a refused certificate, with the words of OpenSSL's alerts
_REFUSAL = re.compile(
    r"unknown ca|bad certificate|certificate unknown|unsupported certificate|certificate (?:expired|revoked)"
)


class _Counter(LatestEntries[tuple[str, ...], int]):
    """How often keys were seen; keys not seen for long are dropped."""

    def count(self, *key: str) -> int:
        self[key] = number = self.get(key, 0) + 1
        return number


class CertificatePinning:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        #: clients that have accepted a certificate of the proxy
        self._trusting = _Counter(_MOST)
        self._refusals = _Counter(_MOST)
        #: by group and host
        self._reported = _Counter(_MOST)
        self._added = 0

    def established(self, data: tls.TlsData) -> None:
        """Note that a client has accepted a certificate."""
        if data.context.server.address is not None:
            self._trusting.count(_who(client_of_connection(data.context.client)))

    async def failed(self, data: tls.TlsData) -> None:
        """Handle a failed handshake with a client, if the client refused the certificate."""
        address = data.context.server.address
        if self._runtime.mode == "off" or address is None or not _REFUSAL.search(data.conn.error or ""):
            return
        try:
            client = client_of_connection(data.context.client)
            names = (data.conn.sni,) if data.conn.sni else ()
            request = request_of_connection(b"https", address, names, data.context.client.proxy_mode)
            judgement = self._runtime.judge(request, client, is_connection=True)
            judgement = await self._runtime.confirmed(judgement, is_connection=True)
            if judgement is not None and judgement.decision.action in STOPPING:
                self._runtime.record_connection(judgement)  # no request will come that could be logged
                return
            host = canonical_host(to_bytes(data.conn.sni or address[0]))
            if is_plain_name(host) or is_address(host):
                for happened in self._runtime.parts.happened:
                    happened(REFUSED_CERTIFICATE, client, host.decode("ascii"))
                await self._see_to(host.decode("ascii"), client)
        except UrlError:
            return
        except Exception:
            logger.exception("hushlist: a client that refuses a certificate was not seen to")

    async def _see_to(self, host: str, client: Client) -> None:
        engine = self._runtime.engine
        if engine is None:
            return
        group, passed = engine.group(client).name, engine.group(client).settings.pass_through
        number = self._refusals.count(_who(client), host)
        place = passed.place or engine.policy.source
        if passed.on_failure == ADD and passed.file is not None:
            if number < _ENOUGH or (_who(client),) not in self._trusting:
                return
            if (why := engine.hosts.why_inside(host.encode(), client)) is not None:
                self._report(group, host, f"it is not added to {passed.file}, since {why}")
            elif self._added >= _MOST_ADDED:
                self._report(group, host, f"it is not added to {passed.file}, since {_MOST_ADDED} others were")
            elif self._reported.count(group, host) == 1:
                self._added += 1
                await asyncio.to_thread(self._add, passed.file, host, client)
                logger.warning(
                    "hushlist: %s refuses the certificate for %s: added to %s", client.address, host, passed.file
                )
            return
        line = f"pass-through: [={host}]" if passed.place is None else f"- ={host}"
        where = f"to {place}" if passed.place is None else f"to pass-through in {place}"
        self._report(group, host, f"to pass it through undecrypted, add {where}:  {line}")

    def _report(self, group: str, host: str, what: str) -> None:
        if self._reported.count(group, host) == 1:
            logger.warning("hushlist: a client in group %s refuses the certificate for %s; %s", group, host, what)

    def _add(self, path: Path, host: str, client: Client) -> None:
        """Add a host to a file, whose permissions stay as they are."""
        who = printable(_who(client))
        note = f"={host}  # {datetime.now(UTC):%Y-%m-%d %H:%M} UTC: {who} refuses the certificate\n"
        line = note.encode("ascii", "backslashreplace")
        edit_file(path, LONGEST_DOCUMENT, lambda text: text + (b"\n" if text and text[-1:] != b"\n" else b"") + line)


def _who(client: Client) -> str:
    return client.names[0]
