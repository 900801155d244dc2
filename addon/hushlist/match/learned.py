"""What origins have told by permanent redirects: for which paths a trailing slash makes no difference.

Bounded in size and time, so that no origin can fill the memory or be believed for ever, and apart for each origin, so
that none can speak for another.

Spec: RFC 3986, 6.2.4
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

#: scheme, canonical host, port
Origin = tuple[bytes, bytes, int]

#: redirects; the one that was learned the longest ago makes room
MOST = 4096
#: octets of a path
LONGEST_PATH = 2048
#: seconds for which a redirect is believed
LIFETIME = 24 * 60 * 60.0


class Learned:
    """Remembers the redirects; a look-up costs one of a dictionary."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[tuple[Origin, bytes], float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._until)

    def learn(self, origin: Origin, path: bytes) -> None:
        """The origin redirects between this canonical path and its twin."""
        if len(path) > LONGEST_PATH:
            return
        key = _key(origin, path)
        self._until[key] = self._clock() + LIFETIME
        self._until.move_to_end(key)
        if len(self._until) > MOST:
            self._until.popitem(last=False)

    def knows(self, origin: Origin, path: bytes) -> bool:
        """Whether the origin has redirected between this canonical path and its twin, and not too long ago."""
        if not self._until:
            return False
        key = _key(origin, path)
        until = self._until.get(key)
        if until is None:
            return False
        if until <= self._clock():
            del self._until[key]
            return False
        return True

    def forget(self) -> None:
        """Forget everything."""
        self._until.clear()


def _key(origin: Origin, path: bytes) -> tuple[Origin, bytes]:
    return origin, path.rstrip(b"/")
