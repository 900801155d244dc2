"""Lines in mitmproxy's log that say what to write so that something works: each once in a while, and only so many."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from hushlist.core.errors import logger_of
from hushlist.core.system.memory import LatestEntries

logger = logger_of(__name__)

#: seconds until the same is said again
AGAIN = 3600.0
#: lines a minute: a client may ask for what it likes
MOST_A_MINUTE = 20
_MINUTE = 60.0
MOST_KNOWN = 4096


class Hints:
    """Only the event loop uses it."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._said: LatestEntries[tuple[object, ...], float] = LatestEntries(MOST_KNOWN)
        self._minute, self._lines = -_MINUTE, 0

    def say(self, key: tuple[object, ...], message: str) -> None:
        """Log a message, unless it was said a short while ago, or too many were."""
        now = self._clock()
        if key in self._said and now - self._said[key] < AGAIN:
            return
        if now - self._minute >= _MINUTE:
            self._minute, self._lines = now, 0
        self._lines += 1
        if self._lines > MOST_A_MINUTE:
            if self._lines == MOST_A_MINUTE + 1:
                logger.warning("hushlist: more lines of this kind are left out for a minute")
            return
        self._said[key] = now
        logger.warning("hushlist: %s", message)
