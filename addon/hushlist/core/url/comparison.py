"""The rungs of the comparison ladder in their order; and permanent redirects, by which two URLs are one resource.

"If they observe that an IRI such as http://example.com/data redirects to an IRI differing only in the trailing slash
http://example.com/data/ they will likely regard the two as equivalent in the future." The two may also differ in
anything that a lower rung makes equal, such as an escape or a default port. Redirects to another host count for
nothing.

``RedirectMemory`` keeps the redirects that were seen. It is bounded in size and time, so that no origin can fill the
memory or be believed for ever. Each origin has its own redirects, so that none can speak for another.

Spec: RFC 3986, 6; draft-ietf-iri-comparison-00
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from hushlist.core.system.memory import LatestEntries
from hushlist.core.url.iri import SCHEME, SIMPLE, SYNTAX
from hushlist.core.url.parts import Profile
from hushlist.core.url.rfc3986 import resolve

#: The rungs that need nothing but the two texts, the lowest first.
LADDER: tuple[Profile, ...] = (SIMPLE, SYNTAX, SCHEME)


# -- the rung "protocol": RFC 3986, 6.2.4; draft-ietf-iri-comparison-00, 4.4 -------------------------------------------

#: 301 Moved Permanently, 308 Permanent Redirect; other redirects may change
PERMANENT = (301, 308)


def slash_twin(path: bytes) -> bytes | None:
    """The path with its trailing slash added or removed; the root has no twin.

    >>> slash_twin(b"/data"), slash_twin(b"/data/"), slash_twin(b"/")
    (b'/data/', b'/data', None)
    """
    if path == b"/" or not path:
        return None
    return path[:-1] if path.endswith(b"/") else path + b"/"


def is_slash_redirect(source: bytes | str, location: bytes | str) -> bool:
    """Whether a redirect changes nothing but a trailing slash; ``location`` may be relative.

    >>> is_slash_redirect("http://h.example/data?x", "/data/?x"), is_slash_redirect("http://h.example/a", "/b/")
    (True, False)

    Raises ``UrlError`` if the source is not absolute.
    """
    start, target = (SCHEME.apply(SCHEME.parse(url)) for url in (source, resolve(location, source)))
    path = slash_twin(start.path)
    return path is not None and start._replace(path=path, fragment=None) == target._replace(fragment=None)


#: scheme, canonical host, port
Origin = tuple[bytes, bytes, int]

#: redirects; a new one replaces the oldest
MOST = 4096
#: octets of a path
LONGEST_PATH = 2048
#: seconds for which a redirect is believed
LIFETIME = 24 * 60 * 60.0


class RedirectMemory:
    """Remembers redirects; a look-up costs one dictionary look-up."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until: LatestEntries[tuple[Origin, bytes], float] = LatestEntries(MOST)

    def __len__(self) -> int:
        return len(self._until)

    def learn(self, origin: Origin, path: bytes) -> None:
        """Remember that the origin redirects between this canonical path and its twin."""
        if len(path) > LONGEST_PATH:
            return
        self._until[origin, path.rstrip(b"/")] = self._clock() + LIFETIME

    def knows(self, origin: Origin, path: bytes) -> bool:
        """Whether the origin has recently redirected between this canonical path and its twin."""
        key = origin, path.rstrip(b"/")
        if self._until and (until := self._until.get(key)) is not None:
            if self._clock() < until:
                return True
            self._until.pop(key, None)  # another thread may have done so
        return False

    def forget(self) -> None:
        self._until.clear()
