"""Grants: who may visit what until when, and whether one covers a request.

>>> grant = Grant(1, "host", "games.example", "192.0.2.7", 1800.0, "code", "192.0.2.7", 0.0)
>>> covered = GrantTable([grant])
>>> covered.find(["192.0.2.7"], b"www.games.example", b"http://www.games.example/", [], now=60.0) == grant
True
>>> covered.find(["192.0.2.8"], b"www.games.example", b"http://www.games.example/", [], now=60.0)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from hushlist.core.match.public_suffixes import public_suffixes
from hushlist.core.url.host import is_address, names_above
from hushlist.core.url.hrn import category_levels
from hushlist.extensions.unblock import EVERYTHING, GRANT_SCOPES, SITE

#: the means of grants by a click on a warning; they cover only warnings
WARNING = "warning"
#: when a grant ends that is for good: before the last year that a clock can show
FOR_GOOD = 253370764800.0
#: most characters; with longer targets a client could fill the disk
LONGEST_TARGET = 8192


@dataclass(frozen=True, slots=True)
class Grant:
    """A temporary unblock. Times are seconds since the epoch."""

    #: never used again
    id: int
    #: ``host``: a canonical host and those below it in the same registrable domain; ``site``:
    #: the same, and what its pages load from elsewhere; ``url``: one canonical URL with its
    #: query, exactly as it stands; ``category``: an `hrn:` name and what is subordinate to it; ``everything``: whatever
    #: rules stop
    scope: str
    #: ASCII
    target: str
    #: an address, or a name such as ``user:jo`` or ``group:kids``; ``None`` for everybody
    client: str | None
    #: when it ends; ``FOR_GOOD``: not before somebody ends it
    until: float
    #: ``code``, ``passphrase``, ``warning``, ``command line``
    how: str
    #: who made it
    by: str
    made: float

    def holds_at(self, now: float) -> bool:
        """Whether it holds at a moment; not where it would last twice as long, since the clock was set back."""
        return now < self.until and self.made - now <= self.until - self.made

    def __str__(self) -> str:
        """For people."""
        return self.told_in(UTC)

    def told_in(self, zone: tzinfo) -> str:
        """For people, by the clock of a time zone."""
        until = "for good" if self.until >= FOR_GOOD else f"until {datetime.fromtimestamp(self.until, zone):{_MINUTE}}"
        return f"unblocked {until} by {self.how} (grant {self.id})"


_MINUTE = "%Y-%m-%d %H:%M %Z"
_ByClient = dict[tuple[str | None, bool], list[Grant]]


class GrantTable:
    """Grants in a form that quickly finds the one that covers a request; immutable."""

    def __init__(self, grants: Iterable[Grant]) -> None:
        # scope -> target -> client, and whether it is for warnings -> the grants
        self._by_scope: dict[str, dict[bytes, _ByClient]] = {scope: {} for scope in GRANT_SCOPES}
        for grant in grants:
            targets = self._by_scope.setdefault(grant.scope, {})
            clients = targets.setdefault(grant.target.encode("ascii", "replace"), {})
            clients.setdefault((grant.client, grant.how == WARNING), []).append(grant)
        # A client may send a host with hundreds of labels; no grant has so many.
        hosts = (host for scope in ("host", SITE) for host in self._by_scope[scope])
        self._deepest = max((host.count(b".") + 1 for host in hosts), default=0)
        self._any = any(self._by_scope.values())

    def find(
        self,
        clients: Iterable[str],
        host: bytes,
        url: bytes,
        categories: Iterable[str],
        now: float,
        *,
        is_warning: bool = False,
        since: float = -math.inf,
    ) -> Grant | None:
        """The grant that covers a request by host, URL or category and lasts longest, or is the older one of two.

        See ``Overrides.covering``.
        """
        if not self._any:
            return None
        keys = [(name, how) for name in (None, *clients) for how in ((False, True) if is_warning else (False,))]
        by_key = (by_client.get(key, ()) for by_client in self._fitting(host, url, categories) for key in keys)
        valid = (grant for grants in by_key for grant in grants if grant.holds_at(now) and grant.made > since)
        return max(valid, key=lambda grant: (grant.until, -grant.id), default=None)

    def _fitting(self, host: bytes, url: bytes, categories: Iterable[str]) -> Iterator[_ByClient]:
        for hosts in filter(None, (self._by_scope["host"], self._by_scope[SITE])):
            yield from self._of_host(hosts, host)
        urls = self._by_scope["url"]
        if url in urls:
            yield urls[url]
        by_category = self._by_scope["category"]
        if by_category:
            for category in categories:
                for level in category_levels(category):
                    if level in by_category:
                        yield by_category[level]
        yield from self._by_scope.get(EVERYTHING, {}).values()

    def _of_host(self, hosts: Mapping[bytes, _ByClient], host: bytes) -> Iterator[_ByClient]:
        for name in names_above(host, self._deepest):
            if name in hosts and covers_host(name, host):
                yield hosts[name]

    @property
    def has_sites(self) -> bool:
        """Whether there is a grant of a site with what its pages load."""
        return bool(self._by_scope[SITE])

    def site(self, clients: Iterable[str], host: bytes, now: float) -> Grant | None:
        """The grant by which a client has a host with what its pages load."""
        hosts = self._by_scope[SITE]
        if not hosts:
            return None
        keys = [(name, False) for name in (None, *clients)]
        by_key = (by_client.get(key, ()) for by_client in self._of_host(hosts, host) for key in keys)
        return next((grant for grants in by_key for grant in grants if grant.holds_at(now)), None)


def covers_host(target: bytes, host: bytes) -> bool:
    """Whether a grant for one canonical host covers another: itself, or one below it in the same registrable domain.

    >>> [covers_host(target, b"www.shop.co.uk") for target in (b"www.shop.co.uk", b"shop.co.uk", b"co.uk", b"uk")]
    [True, True, False, False]

    An administrator may name ``co.uk`` or ``github.io``, below which anybody can have a site: that grant covers only
    the name itself. Nothing is below an address.
    """
    if host == target or not host.endswith(b"." + target) or is_address(host) or is_address(target):
        return host == target
    return len(target) >= len(public_suffixes().registrable_domain(host))


def narrowness_of_grant(scope: str, target: str) -> str | None:
    """Why a grant for a canonical target covers less than may be meant, for people.

    >>> narrowness_of_grant("host", "co.uk"), narrowness_of_grant("host", "shop.co.uk")
    ('co.uk is a public suffix: nothing below it is unblocked', None)
    """
    suffixes, expression = public_suffixes(), f"{target}/".encode("ascii")
    if scope in ("host", SITE) and (suffixes.section_of(expression) or expression in suffixes.wildcards):
        return f"{target} is a public suffix: nothing below it is unblocked"
    return None


def fits(scope: str, target: str | None, wanted: Mapping[str, str]) -> bool:
    """Whether a grant of a scope and target would cover ``wanted``, which has a target for each scope.

    ``None`` stands for any target that a grant can have.
    """
    if scope not in wanted:
        return False
    if target is None:
        return is_target(wanted[scope])
    whole = wanted[scope].encode("ascii", "replace")
    limit = target.encode("ascii", "replace")
    if scope in ("host", SITE):
        return covers_host(limit, whole)
    return limit in category_levels(wanted[scope]) if scope == "category" else limit == whole


def check_target(scope: str, target: str | None) -> None:
    """``ValueError`` if a scope is unknown, or a grant cannot have the target."""
    if scope not in (*GRANT_SCOPES, EVERYTHING):
        raise ValueError(f"{scope!r}: the scope is one of {', '.join(GRANT_SCOPES)}")
    if target is not None and not is_target(target):
        raise ValueError(f"{target[:80]!r}: a target is 1 to {LONGEST_TARGET} characters of ASCII")


def is_target(target: str) -> bool:
    """Whether a grant can have a target: it is not empty, not too long, and in ASCII."""
    return 0 < len(target) <= LONGEST_TARGET and target.isascii()
