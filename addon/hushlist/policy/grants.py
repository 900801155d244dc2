"""Grants: who may go where until when, and whether one covers a request.

>>> grant = Grant(1, "host", "games.example", "192.0.2.7", 1800.0, "code", "192.0.2.7", 0.0)
>>> covered = Covered([grant])
>>> covered.find(["192.0.2.7"], b"www.games.example", b"http://www.games.example/", [], now=60.0) == grant
True
>>> covered.find(["192.0.2.8"], b"www.games.example", b"http://www.games.example/", [], now=60.0)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from hushlist.errors import UrlError
from hushlist.lists.patterns import parse_expression
from hushlist.url.host import is_address
from hushlist.url.hrn import parse_hrn
from hushlist.url.request import canonical_url

SCOPES = ("host", "url", "category")
#: how grants are made by a click on a warning; they cover nothing but warnings
WARNING = "warning"
#: characters; a longer target would let a client fill the disk
LONGEST_TARGET = 8192


@dataclass(frozen=True, slots=True)
class Grant:
    """A temporary unblock. Times are seconds since the epoch."""

    #: never used again for another
    id: int
    #: ``host``: a canonical host and those below it; ``url``: one canonical URL with its query, exactly as it stands;
    #: ``category``: an `hrn:` name and what is subordinate to it
    scope: str
    #: ASCII
    target: str
    #: an address, or a name such as ``user:jo``; ``None`` for everybody
    client: str | None
    #: the first moment at which it covers nothing any more
    until: float
    #: ``code``, ``passphrase``, ``warning``, ``command line``
    how: str
    #: who made it
    by: str
    made: float

    def __str__(self) -> str:
        """For people."""
        until = datetime.fromtimestamp(self.until, UTC)
        return f"unblocked until {until:%Y-%m-%d %H:%M} UTC by {self.how} (grant {self.id})"


_ByClient = dict[tuple[str | None, bool], Grant]


class Covered:
    """Grants that can be asked at once whether one covers a request; immutable."""

    def __init__(self, grants: Iterable[Grant]) -> None:
        # scope -> target -> client, and whether it is for warnings -> the grant that lasts longest: once that is over,
        # so are the others
        self._found: dict[str, dict[bytes, _ByClient]] = {scope: {} for scope in SCOPES}
        for grant in grants:
            targets = self._found.setdefault(grant.scope, {})
            clients = targets.setdefault(grant.target.encode("ascii", "replace"), {})
            key = grant.client, grant.how == WARNING
            clients[key] = longest(clients.get(key), grant)
        # A client's host may have hundreds of labels; no grant has.
        self._deepest = max((host.count(b".") + 1 for host in self._found["host"]), default=0)
        self._any = any(self._found.values())

    def find(
        self,
        clients: Iterable[str],
        host: bytes,
        url: bytes,
        categories: Iterable[str],
        now: float,
        *,
        is_warning: bool = False,
    ) -> Grant | None:
        """The grant that covers a request by host, URL or category and lasts longest; ``Overrides.covering``."""
        if not self._any:
            return None
        found: Grant | None = None
        keys = [(name, how) for name in (None, *clients) for how in ((False, True) if is_warning else (False,))]
        for by_client in self._fitting(host, url, categories):
            for key in keys:
                grant = by_client.get(key)
                if grant is not None and grant.until > now:
                    found = longest(found, grant)
        return found

    def _fitting(self, host: bytes, url: bytes, categories: Iterable[str]) -> Iterator[_ByClient]:
        hosts = self._found["host"]
        if hosts:
            for name in _hosts_above(host, self._deepest):
                if name in hosts:
                    yield hosts[name]
        urls = self._found["url"]
        if url in urls:
            yield urls[url]
        by_category = self._found["category"]
        if by_category:
            for category in categories:
                for level in category_levels(category):
                    if level in by_category:
                        yield by_category[level]


def longest(one: Grant | None, other: Grant) -> Grant:
    """The grant that lasts longer; the older of two that last as long."""
    if one is None or (other.until, -other.id) > (one.until, -one.id):
        return other
    return one


def _hosts_above(host: bytes, labels: int) -> Iterator[bytes]:
    """A host and those that it is below, up to so many labels each; nothing is below an address or a top-level label.

    Whoever unblocks ``com``, which somebody who is asked for a host may name, unblocks that and not all that is below.
    """
    if is_address(host):
        yield host
        return
    dot = len(host)
    while labels and dot >= 0:
        dot = host.rfind(b".", 0, dot)
        name = host[dot + 1 :]
        # "9.192.0.2.7" is a name, and not one below 192.0.2.7
        if name == host or (b"." in name and not is_address(name)):
            yield name
        labels -= 1


@lru_cache(1024)
def category_levels(category: str) -> tuple[bytes, ...]:
    """A category and its superordinates.

    >>> category_levels("hrn://c.example/web/games")
    (b'hrn://c.example/web/games', b'hrn://c.example/web', b'hrn://c.example')
    """
    try:
        name = parse_hrn(category)
    except UrlError:
        return ()
    return tuple(str(level).encode("ascii") for level in (name, *name.superordinates()))


def fits(scope: str, target: str, wanted: Mapping[str, str]) -> bool:
    """Whether a grant of a scope and target would cover what is wanted, a target for each scope that there is."""
    if scope not in wanted:
        return False
    asked = wanted[scope].encode("ascii", "replace")
    own = target.encode("ascii", "replace")
    if scope == "host":
        return own in _hosts_above(asked, len(asked))
    return own in category_levels(wanted[scope]) if scope == "category" else own == asked


_WEB_URL = re.compile(r"\s*https?://", re.IGNORECASE)


def canonical_target(scope: str, text: str) -> str:
    """The target of a scope that a person wrote, canonicalized as live traffic is.

    >>> canonical_target("host", "HTTPS://Games.Example:443"), canonical_target("url", "http://h.example/a/../b?q#f")
    ('games.example', 'http://h.example/b?q')

    Raises:
        UrlError: it is none.
    """
    if scope == "host":
        host, _, path = str(parse_expression(text)).partition("/")
        if path:
            raise UrlError(text, f"a host has no path; a page is unblocked by the scope url, the host by {host!r}")
        return host
    if scope == "url":
        if not _WEB_URL.match(text):
            raise UrlError(text, "a URL begins with http:// or https:// here; it is unblocked exactly as it stands")
        return canonical_url(os.fsencode(text)).decode("ascii")
    return str(parse_hrn(text))


def check_target(scope: str, target: str | None) -> None:
    """Refuse what no grant can have.

    Raises:
        ValueError: the scope is unknown, or the target is empty, too long or not in ASCII.
    """
    if scope not in SCOPES:
        raise ValueError(f"{scope!r}: the scope is one of {', '.join(SCOPES)}")
    if target is not None and not (target and target.isascii() and len(target) <= LONGEST_TARGET):
        raise ValueError(f"{target[:80]!r}: a target is 1 to {LONGEST_TARGET} characters of ASCII")
