"""What servers of Safe Browsing have said of prefixes that fit: asked once, and remembered as long as they say.

    a prefix fits -> known? -> asked: the server's full hashes -> unsafe, safe, or no answer

A decision never waits: ``Engine`` decides by what is known, and names what it would ask (``Decision.unconfirmed``). Who
can wait asks (``Confirmations.ask``, ``Confirmations.ask_soon``), and has it decided again (``Engine.settled``).

Invariants: only prefixes of local lists that fit are ever asked for; each prefix is on its way once; a server that
failed is left alone as the specification says; what is remembered is bounded, and ends when the server says.

Nobody who asks for much makes a server fail, or takes others' turn: questions go out as full as they can be and no
faster than a server takes them, with a prefix of each client in turn. What a client asks for beyond its share is not
asked at all. That is no failure of the server (``fault``), so that ``no-answer`` does not let it pass.

Spec: Safe Browsing v4, Caching, Request Frequency; v5, Local List Mode
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from threading import Condition, RLock, Thread
from typing import NamedTuple

from hushlist.core.decide.verdict import Question as OpenQuestion
from hushlist.core.errors import FetchError
from hushlist.extensions.safe_browsing.threat_lists import SafeBrowsing, back_off

#: seconds that a server has for an answer, and that a request waits for its turn and the answer
PATIENCE, LONGEST_WAIT = 3.0, 6.0
#: full hashes, and prefixes, that are remembered
MOST_HASHES, MOST_PREFIXES = 1 << 16, 1 << 15
#: prefixes of one question: "normal use" is at most 30
MOST_ASKED = 30
#: prefixes of one client that wait for their turn, and clients of which some wait: as many as have a turn in time
MOST_OF_CLIENT, MOST_CLIENTS = 60, 400
#: questions that are on their way to a server at once
_AT_ONCE = 4
#: questions to a server in a row, and then each second: our own server takes 600 a minute
_IN_A_ROW, _EACH_SECOND = 30, 5.0
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

    def why_open(self, confirmations: object) -> str:
        """What nobody has confirmed or denied, and why, for people."""
        why = confirmations.fault(self.service) if isinstance(confirmations, Confirmations) else None
        return f"sha256:{self.prefix.hex()} is not confirmed: {why or f'{self.service.server} was not asked'}"


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

    def via(self, threat: Threat, service: SafeBrowsing) -> str:
        """Who confirmed it and when, for people."""
        moment = datetime.fromtimestamp(self.since, UTC)
        return f"confirmed as {threat.kind} by {service.server} at {moment:%Y-%m-%d %H:%M:%S} UTC"


#: asks a server for the full hashes of prefixes; ``FetchError`` if it gives no answer
Search = Callable[[SafeBrowsing, Collection[bytes]], FullHashes]


class _Answer(NamedTuple):
    since: float
    lasts: float
    threats: Mapping[bytes, tuple[Threat, ...]]

    def of(self, full_hash: bytes, now: float) -> Verdict | None:
        """The verdict of a full hash.

        Spec: Safe Browsing v4, Caching: an expired positive entry means to ask, whatever the negative cache says. "The
        expiry instant itself counts as expired".
        """
        age, threats = now - self.since, self.threats.get(full_hash, ())
        lasts = min((threat.lasts for threat in threats), default=self.lasts)
        return Verdict(threats, self.since) if 0 <= age < lasts else None


class _Failure(NamedTuple):
    number: int
    why: str
    #: when it was seen, and until when the server is left alone; by the timer
    since: float
    until: float


@dataclass(slots=True, eq=False)
class _PendingPrefix:
    """A prefix that somebody waits for."""

    prefix: bytes
    #: done when it is answered, or will not be
    future: Future[None] = field(default_factory=Future)
    is_sent: bool = False


@dataclass(slots=True, eq=False)
class _Line:
    """What waits to be asked of a server, and what is on its way."""

    service: SafeBrowsing
    #: questions that may be sent at once
    allowance: float
    #: when that was so
    since: float
    #: client -> its own prefixes; the client whose turn it is comes first
    turns: dict[str, dict[bytes, _PendingPrefix]] = field(default_factory=dict)
    #: when each question was sent that is on its way; one for each thread
    sent: dict[int, float] = field(default_factory=dict)
    threads: int = 0

    def pause(self, now: float) -> float:
        """Seconds until the next question may be sent."""
        self.allowance = min(self.allowance + (now - self.since) * _EACH_SECOND, _IN_A_ROW)
        self.since = now
        return max(1.0 - self.allowance, 0.0) / _EACH_SECOND

    def next_question(self) -> list[_PendingPrefix]:
        """A prefix of each client in turn, until no other waits, or the question is full."""
        question = list[_PendingPrefix]()
        while self.turns and len(question) < MOST_ASKED:
            client = next(iter(self.turns))
            pendings = self.turns.pop(client)
            pending = pendings.pop(next(iter(pendings)))
            if pendings:
                self.turns[client] = pendings
            if not pending.is_sent:  # in another client's turn
                pending.is_sent = True
                question.append(pending)
        return question


class Confirmations:
    """What is known of full hashes; for several threads."""

    longest_wait = LONGEST_WAIT

    def __init__(
        self,
        search: Search,
        clock: Callable[[], float] = time.time,
        draw: Callable[[], float] = random.random,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """``draw`` gives a random number from 0 to 1, ``timer`` seconds that nobody puts back."""
        self._search, self._clock, self._draw, self._timer = search, clock, draw, timer
        self._lock = RLock()
        self._is_changed = Condition(self._lock)
        self._answers: dict[tuple[str, bytes], _Answer] = {}
        self._hashes = 0
        #: what somebody waits for, by service and prefix
        self._pending: dict[tuple[str, bytes], _PendingPrefix] = {}
        #: by service
        self._lines: dict[str, _Line] = {}
        #: by account
        self._failures: dict[str, _Failure] = {}
        self._is_closed = False
        #: how many questions were sent, and how many of them got no answer
        self.sent = self.unanswered = 0

    def verdict(self, question: Question) -> Verdict | None:
        """What is known of a full hash now; ``None``: nothing."""
        answer = self._answers.get((question.service.key, question.prefix))
        return None if answer is None else answer.of(question.full_hash, self._clock())

    def fault(self, service: SafeBrowsing) -> str | None:
        """Why a server does not answer now, for people; ``None`` if it does, or was not asked yet."""
        failure = self._failures.get(service.account)
        now = self._timer()
        if failure is not None and now < failure.until:
            until = datetime.fromtimestamp(self._clock() + failure.until - now, UTC)
            return f"{service.server}: {failure.why}; it is not asked again before {until:%Y-%m-%d %H:%M:%S} UTC"
        with self._lock:
            line = self._lines.get(service.key)
            if line is not None and any(sent + PATIENCE <= now for sent in line.sent.values()):
                return f"{service.server}: it was not done after {PATIENCE:g} seconds"
        return None

    # -- asking ------------------------------------------------------------------------------------------------------

    def ask(self, questions: Iterable[OpenQuestion]) -> None:
        """Ask what is not known, and wait for the answers."""
        wait(self.ask_soon(questions), LONGEST_WAIT)

    def ask_soon(self, questions: Iterable[OpenQuestion], client: str = "") -> list[Future[None]]:
        """Ask what is not known in other threads; the futures are done when it is, or will not be.

        What is beyond the share of the client, by its address, has no future: nobody asks for it.
        """
        futures = dict[Future[None], None]()
        with self._lock:
            for question in questions:
                pending = self._asked_for(question, client) if isinstance(question, Question) else None
                if pending is not None:
                    futures[pending.future] = None
            for line in self._lines.values():
                self._begin(line)
        return list(futures)

    def _asked_for(self, question: Question, client: str) -> _PendingPrefix | None:
        """What was asked, or is to be, for a question; ``None`` if it will not be."""
        service, prefix, _ = question
        pending = self._pending.get((service.key, prefix))
        if pending is not None and pending.is_sent:
            return pending
        if pending is None and (
            self._is_closed or self.verdict(question) is not None or self.fault(service) is not None
        ):
            return None
        line = self._lines.get(service.key)
        if line is None:
            line = self._lines[service.key] = _Line(service, _IN_A_ROW, self._timer())
        line.service = service  # which may have another API key than before
        if len(line.turns.get(client, ())) >= MOST_OF_CLIENT or len(line.turns.keys() | {client}) > MOST_CLIENTS:
            return pending
        if pending is None:
            pending = self._pending[service.key, prefix] = _PendingPrefix(prefix)
        line.turns.setdefault(client, {})[prefix] = pending
        return pending

    def _begin(self, line: _Line) -> None:
        """Begin a thread if something waits, and every thread of the line waits for an answer."""
        if not line.turns or not line.threads == len(line.sent) < _AT_ONCE:
            return
        line.threads += 1
        try:
            Thread(target=self._work, args=(line,), name="hushlist: confirm", daemon=True).start()
        except RuntimeError:  # the machine has no thread left
            line.threads -= 1
            self._release(line)

    def _release(self, line: _Line) -> None:
        """Have nobody wait any longer for what was not sent."""
        for pendings in line.turns.values():
            for pending in pendings.values():
                if not pending.is_sent:
                    self._end(line.service, [pending])
        line.turns.clear()

    def close(self) -> None:
        """Begin no other question."""
        with self._lock:
            self._is_closed = True
            for line in self._lines.values():
                self._release(line)
            self._is_changed.notify_all()

    def _work(self, line: _Line) -> None:
        """Send what waits, until nothing does."""
        while question := self._next(line):
            self._answer(line, question)

    def _next(self, line: _Line) -> list[_PendingPrefix]:
        """The next question, once it may be sent; nothing if there is none, and then the thread has to end."""
        with self._lock:
            while line.turns:
                if self.fault(line.service) is not None:
                    self._release(line)
                elif pause := line.pause(self._timer()):
                    self._is_changed.wait(pause)
                elif question := line.next_question():
                    line.allowance -= 1
                    self.sent += 1
                    line.sent[id(question)] = self._timer()
                    self._begin(line)
                    return question
            line.threads -= 1
            return []

    def _answer(self, line: _Line, question: list[_PendingPrefix]) -> None:
        """Ask a server, and remember what it says. Never raises."""
        service, prefixes, sent = line.service, tuple(pending.prefix for pending in question), line.sent[id(question)]
        try:
            hashes = self._search(service, prefixes)
        except FetchError as error:
            self._fail(service, error, sent)
        except Exception as error:
            self._fail(service, FetchError(f"the filter failed: {type(error).__name__}"), sent)
        else:
            self._remember(service, prefixes, hashes)
        finally:
            with self._lock:
                del line.sent[id(question)]
                self._end(service, question)

    def _end(self, service: SafeBrowsing, question: Iterable[_PendingPrefix]) -> None:
        for pending in question:
            self._pending.pop((service.key, pending.prefix), None)
            if not pending.future.done():  # in several turns
                pending.future.set_result(None)

    def _fail(self, service: SafeBrowsing, error: FetchError, sent: float) -> None:
        """Leave a server alone.

        Spec: Safe Browsing v4, Request Frequency: after "an unsuccessful HTTP response". Where there was no answer at
        all, as on a line that is broken or full, it is a sixtieth of that: what protects is back soon.
        """
        with self._lock:
            self.unanswered += 1
            before = self._failures.get(service.account)
            if before is not None and before.number and sent <= before.since:
                return  # it was on its way when another one failed: that is one failure
            number = 1 + (0 if before is None else before.number)
            pause = back_off(number, self._draw()) / (1 if error.is_refusal else 60)
            until = self._timer() + max(pause, min(error.retry_after, _LONGEST))
            self._failures[service.account] = _Failure(number, str(error), self._timer(), until)

    def _remember(self, service: SafeBrowsing, prefixes: Collection[bytes], answer: FullHashes) -> None:
        """Replace what is known of prefixes; full hashes of other prefixes are not taken."""
        now, key = self._clock(), service.key
        bounded = partial(_bounded, _LONGEST_OF_GOOGLE if service.is_google else _LONGEST)
        by_prefix: dict[bytes, dict[bytes, tuple[Threat, ...]]] = {prefix: {} for prefix in prefixes}
        sizes = {len(prefix) for prefix in prefixes}
        for full_hash, threats in answer.threats.items():
            for size in sizes:
                if full_hash[:size] in by_prefix:
                    lasting = (replace(threat, lasts=bounded(threat.lasts)) for threat in threats)
                    by_prefix[full_hash[:size]][full_hash] = tuple(lasting)
        with self._lock:
            self._failures.pop(service.account, None)
            if answer.wait > 0:
                why = f"it asks to wait for {answer.wait:g} seconds"
                until = self._timer() + min(answer.wait, _LONGEST)
                self._failures[service.account] = _Failure(0, why, self._timer(), until)
            for prefix, hashes in by_prefix.items():
                self._forget((key, prefix))
                self._answers[key, prefix] = _Answer(now, bounded(answer.lasts), hashes)
                self._hashes += len(hashes)
            while len(self._answers) > MOST_PREFIXES or self._hashes > MOST_HASHES:
                self._forget(next(iter(self._answers)))  # the oldest

    def _forget(self, place: tuple[str, bytes]) -> None:
        answer = self._answers.pop(place, None)
        self._hashes -= 0 if answer is None else len(answer.threats)


def _bounded(longest: float, seconds: float) -> float:
    return min(max(seconds, _LEAST), longest)
