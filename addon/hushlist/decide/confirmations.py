"""What servers of Safe Browsing have said of prefixes that fit: asked once, and remembered as long as they say.

    a prefix fits -> known? -> asked: the server's full hashes -> unsafe, safe, or no answer

A decision never waits: ``Engine`` decides by what is known, and names what it would ask (``Decision.unconfirmed``). Who
can wait asks (``Confirmations.ask``, ``Confirmations.ask_soon``), and has it decided again.

Invariants: only prefixes of local lists that fit are ever asked for; each question is on its way once; a server that
failed is left alone as the specification says; what is remembered is bounded, and ends when the server says.

Spec: Safe Browsing v4, Caching, Request Frequency; v5, Local List Mode
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import NamedTuple

from hushlist.errors import HushlistError
from hushlist.policy.safe_browsing import SafeBrowsing, back_off

#: seconds that a request waits for an answer
PATIENCE = 3.0
#: full hashes, and prefixes, that are remembered
MOST_HASHES, MOST_PREFIXES = 1 << 16, 1 << 15
#: prefixes of one question: "normal use" is at most 30
MOST_ASKED = 30
#: questions that are asked at once, and that wait for that
_THREADS, _MOST_WAITING = 4, 64
#: seconds: an answer holds for the requests that wait for it, whatever it says; and for no longer than the last
_LEAST, _LONGEST = 5.0, 86400.0
#: the same of Google's, whose terms forbid to call a page unsafe by what is older
_LONGEST_OF_GOOGLE = 30 * 60.0


class Question(NamedTuple):
    """Whether a server has a full hash on its lists. Only the prefix is sent."""

    service: SafeBrowsing
    prefix: bytes
    full_hash: bytes

    def as_dict(self) -> dict[str, str]:
        """Who is asked, and the prefix."""
        return {"server": self.service.server, "prefix": self.prefix.hex()}


@dataclass(frozen=True, slots=True)
class Threat:
    """Why a server says that a full hash is unsafe."""

    #: one of ``THREATS``
    kind: str
    #: seconds after the answer, after which this is not known any longer
    lasts: float
    #: whether it counts for pages and frames only
    is_frame_only: bool = False


class FullHashes(NamedTuple):
    """A server's answer."""

    #: full hash -> the threats that are enforced; a hash without any is safe
    threats: Mapping[bytes, tuple[Threat, ...]]
    #: seconds for which the prefixes have no other full hashes; 0: that is not said
    lasts: float
    #: seconds for which the server wants no other question
    wait: float = 0.0


class Verdict(NamedTuple):
    """What is known of a full hash."""

    #: none: it is safe
    threats: tuple[Threat, ...]
    #: when the server said so, in seconds of Unix time
    since: float

    def told(self, threat: Threat, service: SafeBrowsing) -> str:
        """Who confirmed it and when, for people."""
        moment = datetime.fromtimestamp(self.since, UTC)
        return f"confirmed as {threat.kind} by {service.server} at {moment:%Y-%m-%d %H:%M:%S} UTC"


class SearchError(HushlistError):
    """A server gave no answer that can be used; the message says why, without any prefix or key."""


#: asks a server for the full hashes of prefixes; ``SearchError`` if it gives no answer
Search = Callable[[SafeBrowsing, Collection[bytes]], FullHashes]


class _Known(NamedTuple):
    since: float
    lasts: float
    threats: Mapping[bytes, tuple[Threat, ...]]

    def of(self, full_hash: bytes, now: float) -> Verdict | None:
        """The verdict of a full hash.

        Spec: Safe Browsing v4, Caching: an expired positive entry means to ask, whatever the negative cache says. "The
        expiry instant itself counts as expired".
        """
        age, found = now - self.since, self.threats.get(full_hash, ())
        lasts = min((threat.lasts for threat in found), default=self.lasts)
        return Verdict(found, self.since) if 0 <= age < lasts else None


class _Failure(NamedTuple):
    number: int
    why: str
    #: seconds of Unix time
    until: float


class Confirmations:
    """What is known of full hashes; for several threads."""

    def __init__(
        self, search: Search, clock: Callable[[], float] = time.time, draw: Callable[[], float] = random.random
    ) -> None:
        """``draw`` gives a random number from 0 to 1."""
        self._search, self._clock, self._draw = search, clock, draw
        self._lock = Lock()
        self._known: dict[tuple[str, bytes], _Known] = {}
        self._hashes = 0
        #: questions on their way
        self._asked: dict[tuple[str, bytes], Future[None]] = {}
        self._failures: dict[str, _Failure] = {}
        self._threads: ThreadPoolExecutor | None = None
        #: how many questions were sent, and how many of them got no answer
        self.sent = self.unanswered = 0

    def verdict(self, question: Question) -> Verdict | None:
        """What is known of a full hash now; ``None``: nothing."""
        known = self._known.get((question.service.key, question.prefix))
        return None if known is None else known.of(question.full_hash, self._clock())

    def fault(self, service: SafeBrowsing) -> str | None:
        """Why a server is not asked now, for people; ``None`` if it is."""
        failure = self._failures.get(service.key)
        if failure is None or self._clock() >= failure.until:
            return None
        until = datetime.fromtimestamp(failure.until, UTC)
        return f"{service.server}: {failure.why}; it is not asked again before {until:%Y-%m-%d %H:%M:%S} UTC"

    # -- asking ------------------------------------------------------------------------------------------------------

    def ask(self, questions: Iterable[Question]) -> None:
        """Ask what is not known, and wait for the answers."""
        for service, prefixes, future in self._begin(questions)[0]:
            self._answer(service, prefixes, future)

    def ask_soon(self, questions: Iterable[Question]) -> list[Future[None]]:
        """Ask what is not known in other threads; the futures are done when it is, or will not be."""
        begun, others = self._begin(questions)
        for service, prefixes, future in begun:
            try:
                with self._lock:
                    self._threads = self._threads or ThreadPoolExecutor(_THREADS, "hushlist: confirm")
                self._threads.submit(self._answer, service, prefixes, future)
            except RuntimeError:  # the machine has no thread left, or the proxy ends
                self._end(service, prefixes, future)
        return [*others, *(future for *_, future in begun)]

    def close(self) -> None:
        """Begin no other question."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _begin(
        self, questions: Iterable[Question]
    ) -> tuple[list[tuple[SafeBrowsing, tuple[bytes, ...], Future[None]]], list[Future[None]]]:
        """What is to be sent now, each with what is done when it is answered; and what is on its way."""
        by_service: dict[str, tuple[SafeBrowsing, dict[bytes, None]]] = {}
        begun, others = [], dict[Future[None], None]()
        with self._lock:
            for question in questions:
                service, prefix, _ = question
                on_its_way = self._asked.get((service.key, prefix))
                if on_its_way is not None:
                    others[on_its_way] = None
                elif self.verdict(question) is None and self.fault(service) is None:
                    by_service.setdefault(service.key, (service, {}))[1][prefix] = None
            for service, wanted in by_service.values():
                if len(self._asked) < _MOST_WAITING:
                    prefixes, future = tuple(wanted)[:MOST_ASKED], Future[None]()
                    self._asked |= dict.fromkeys(((service.key, prefix) for prefix in prefixes), future)
                    begun.append((service, prefixes, future))
        return begun, list(others)

    def _answer(self, service: SafeBrowsing, prefixes: tuple[bytes, ...], future: Future[None]) -> None:
        """Ask a server, and remember what it says. Never raises."""
        self.sent += 1
        try:
            found = self._search(service, prefixes)
        except Exception as error:
            self.unanswered += 1
            why = str(error) if isinstance(error, SearchError) else f"the filter failed: {type(error).__name__}"
            self._fail(service, why)
        else:
            self._remember(service, prefixes, found)
        finally:
            self._end(service, prefixes, future)

    def _end(self, service: SafeBrowsing, prefixes: Iterable[bytes], future: Future[None]) -> None:
        with self._lock:
            for prefix in prefixes:
                self._asked.pop((service.key, prefix), None)
        future.set_result(None)

    def _fail(self, service: SafeBrowsing, why: str) -> None:
        with self._lock:
            before = self._failures.get(service.key)
            number = 1 + (0 if before is None else before.number)
            self._failures[service.key] = _Failure(number, why, self._clock() + back_off(number, self._draw()))

    def _remember(self, service: SafeBrowsing, prefixes: Iterable[bytes], found: FullHashes) -> None:
        """Replace what is known of prefixes; full hashes of other prefixes are not taken."""
        now, key = self._clock(), service.key
        bounded = partial(_bounded, _LONGEST_OF_GOOGLE if service.is_google else _LONGEST)
        with self._lock:
            self._failures.pop(key, None)
            if found.wait > 0:
                why = f"it asks to wait for {found.wait:g} seconds"
                self._failures[key] = _Failure(0, why, now + min(found.wait, _LONGEST))
            for prefix in prefixes:
                own = {
                    full_hash: tuple([replace(threat, lasts=bounded(threat.lasts)) for threat in threats])
                    for full_hash, threats in found.threats.items()
                    if full_hash.startswith(prefix)
                }
                self._forget((key, prefix))
                self._known[key, prefix] = _Known(now, bounded(found.lasts), own)
                self._hashes += len(own)
            while len(self._known) > MOST_PREFIXES or self._hashes > MOST_HASHES:
                self._forget(next(iter(self._known)))  # the oldest

    def _forget(self, place: tuple[str, bytes]) -> None:
        known = self._known.pop(place, None)
        self._hashes -= 0 if known is None else len(known.threats)


def _bounded(longest: float, seconds: float) -> float:
    return min(max(seconds, _LEAST), longest)
