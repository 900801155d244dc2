"""What each setting of ``decrypt`` would decrypt of recorded https, and what would be decided otherwise without it.

A connection is relayed if the policy passes its host through, or if ``decrypt: where-needed`` needs no look inside.
Records do not tell connections: one is counted for each host, as HTTP/2 has it, on each page of each client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from hushlist.core.decide.decision import STOPPING
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import UrlError
from hushlist.core.policy.groups import Client
from hushlist.core.policy.pass_through import ALL, NEVER, WHERE_NEEDED
from hushlist.core.url.request import Request, canonical_host
from hushlist.tools.audit.sources.recorded_request import digest

#: names that are counted exactly; with more, a number has a standard error of 3 %
MOST_DISTINCT = 1 << 10
_HASHES = 1 << 63


class TlsUse(StrEnum):
    """What becomes of a connection where the policy says ``decrypt: where-needed``."""

    PASSED = "passed"
    RELAYED = "relayed"
    #: it is decrypted to show that its host is stopped
    PAGE = "page"
    #: it is decrypted since something inside could change what is done
    INSIDE = "inside"


#: what each setting decrypts
_DECRYPTED = {
    ALL: (TlsUse.RELAYED, TlsUse.PAGE, TlsUse.INSIDE),
    WHERE_NEEDED: (TlsUse.PAGE, TlsUse.INSIDE),
    NEVER: (),
}


#: the names of a connection, and its port
TlsKey: TypeAlias = "tuple[tuple[bytes, ...], int]"


class TlsHost(NamedTuple):
    """The connections to a host, or by several names."""

    #: canonical, where they can be read
    names: tuple[bytes, ...]
    port: int
    use: TlsUse
    #: whether the names alone have it stopped
    is_stopped: bool


def tls_host(engine: Engine, key: TlsKey, now: datetime | None, client: Client) -> TlsHost:
    """What becomes of a client's connections to a host."""
    hosts, port = key
    request = Request(b"https", hosts, port, b"/")
    is_stopped = engine.decide_host(request, now, client).action in STOPPING
    use = TlsUse.PAGE if is_stopped else TlsUse.INSIDE
    try:
        hosts = tuple(map(canonical_host, hosts))
        if is_stopped:
            pass
        elif all(engine.group(client).settings.pass_through.covers_at(host, port) for host in hosts):
            use = TlsUse.PASSED
        elif engine.why_decrypt(request, now, client) is None:
            use = TlsUse.RELAYED
    except UrlError:
        pass
    return TlsHost(hosts, port, use, is_stopped)


class Distinct(NamedTuple):
    """How many different names there are, and the smallest of their hashes."""

    number: int
    hashes: tuple[int, ...]

    @property
    def names(self) -> DistinctNames:
        return DistinctNames(frozenset(self.hashes))


@dataclass(slots=True)
class DistinctNames:
    """Counts different names, in bounded memory; merges in any order.

    Spec: Bar-Yossef et al., Counting Distinct Elements in a Data Stream (RANDOM 2002), 2: the k smallest hashes

    >>> names = DistinctNames()
    >>> names.add([b"a", b"b", b"a", b"c"])
    >>> names.add([b"d"])
    >>> names.result().number
    4
    """

    _hashes: frozenset[int] = frozenset()

    def add(self, names: Iterable[bytes]) -> None:
        """Count names; many at once take the least time."""
        self._keep(self._hashes.union(digest(name) >> 1 for name in names))

    def merge(self, other: DistinctNames) -> None:
        """Count another's names, too."""
        self._keep(self._hashes | other._hashes)

    def _keep(self, hashes: frozenset[int]) -> None:
        self._hashes = hashes if len(hashes) <= MOST_DISTINCT else frozenset(sorted(hashes)[:MOST_DISTINCT])

    def result(self) -> Distinct:
        hashes = tuple(sorted(self._hashes))
        is_exact = len(hashes) < MOST_DISTINCT
        return Distinct(len(hashes) if is_exact else round((MOST_DISTINCT - 1) * _HASHES / hashes[-1]), hashes)


class TlsCounts(NamedTuple):
    """The https of one use."""

    requests: int
    #: those that would be stopped, or would not, if the connection's names alone decided
    otherwise: int
    hosts: Distinct
    connections: Distinct


class SettingCounts(NamedTuple):
    """What a setting of ``decrypt`` decrypts."""

    hosts: int
    connections: int
    requests: int
    #: requests with which something else would be done than if everything were decrypted
    otherwise: int


def by_setting(counts: Mapping[str, TlsCounts]) -> dict[str, SettingCounts]:
    """What each setting decrypts; under ``https``, all that there is; under ``page``, what shows that it is stopped."""
    uses = {"https": tuple(TlsUse), **_DECRYPTED, TlsUse.PAGE.value: (TlsUse.PAGE,)}
    return {name: _sum(counts, some) for name, some in uses.items()} if counts else {}


def _sum(counts: Mapping[str, TlsCounts], uses: tuple[TlsUse, ...]) -> SettingCounts:
    hosts, connections = DistinctNames(), DistinctNames()
    numbers = Counter[str]()
    for use, tls in counts.items():
        if use in uses:
            hosts.merge(tls.hosts.names)
            connections.merge(tls.connections.names)
            numbers["requests"] += tls.requests
        else:
            numbers["otherwise"] += tls.otherwise
    distinct = hosts.result().number, connections.result().number
    return SettingCounts(*distinct, numbers["requests"], numbers["otherwise"])
