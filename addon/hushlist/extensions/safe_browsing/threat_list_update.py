"""Brings lists of Safe Browsing up to date: those of one server that are due, by one question.

The copy of such a list is a list of the format ``sha256``, and its state is the ``etag``. Its server proves it by a
checksum. No gate holds it back, since whatever fits is confirmed before it counts. The server is not asked before the
time that it has said, or that its failures ask for, whoever wants it; but with another API key, it is.

Spec: Safe Browsing v4, Request Frequency
"""

from __future__ import annotations

import hashlib
import random
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from hushlist.core.errors import FetchError
from hushlist.core.system.files import LONGEST_LIST, read_regular, reason_of
from hushlist.extensions.safe_browsing.prefix_list import PrefixList, checksum_of
from hushlist.extensions.safe_browsing.prefix_service import updated
from hushlist.extensions.safe_browsing.threat_lists import SafeBrowsing, ThreatList, back_off
from hushlist.extensions.subscriptions.list_fetch import LONGEST_FETCH
from hushlist.extensions.subscriptions.list_outcome import ListUpdate, Outcome
from hushlist.extensions.subscriptions.list_store import ROLLED_BACK, ListStore
from hushlist.extensions.subscriptions.subscription import SubscribedList

#: seconds between two questions for updates whose server names none, and the longest that it may name
_SHORTEST_WAIT, _LONGEST_WAIT = 60.0, 86400.0
#: seconds after the start: "at a random interval between 0 and 1 minutes"
_LONGEST_START = 60.0


def server_store(policy: Path, service: SafeBrowsing) -> ListStore:
    """What is known of a server: its failures. It has no copies."""
    return ListStore(policy, f"Safe Browsing server\n{service.account}")


def wait_at_start(lists: Iterable[SubscribedList], draw: Callable[[], float] = random.random) -> None:
    """Have lists wait that are due when a proxy starts; those of which there is no copy are fetched at once.

    ``draw`` gives a random number from 0 to 1.
    """
    moments: dict[str, float] = {}
    now = time.time()
    for subscribed in lists:
        named = subscribed.subscription.server
        if not isinstance(named, ThreatList) or subscribed.store.current() is None:
            continue
        if not subscribed.store.state().is_due(now):
            continue
        if named.service.account not in moments:  # they are asked for together
            moments[named.service.account] = now + draw() * _LONGEST_START
        with suppress(OSError), subscribed.store.locked(0):
            subscribed.store.note(next_try=moments[named.service.account])


def update_threat_lists(
    policy: Path, lists: Sequence[SubscribedList], *, only_due: bool, own_ports: Sequence[int]
) -> Iterator[ListUpdate]:
    """Update lists of one server, and say of each what became of it; with ``only_due``, of those that were due."""
    patience = 0 if only_due else LONGEST_FETCH
    server, locked = server_store(policy, _named(lists[0]).service), list[SubscribedList]()
    with ExitStack() as locks:
        try:
            locks.enter_context(server.locked(patience))
            for subscribed in lists:
                locks.enter_context(subscribed.store.locked(patience))
                locked.append(subscribed)
        except OSError as error:
            is_taken = isinstance(error, BlockingIOError)
            why = str(error) if is_taken else f"{error.filename or server.folder}: {reason_of(error)}"
            if not (is_taken and only_due):
                yield from (_failed(subscribed, why) for subscribed in lists[len(locked) :])
        if not locked:
            return
        try:
            yield from _locked_updates(server, locked, only_due=only_due, own_ports=own_ports)
        except OSError as error:  # not even that can be noted
            why = f"{error.filename or server.folder}: {reason_of(error)}"
            yield from (_failed(subscribed, why) for subscribed in locked)


def _named(subscribed: SubscribedList) -> ThreatList:
    assert isinstance(subscribed.subscription.server, ThreatList)
    return subscribed.subscription.server


def _failed(subscribed: SubscribedList, why: str) -> ListUpdate:
    return ListUpdate(subscribed.subscription.url, Outcome.FAILED, why)


def _locked_updates(
    server: ListStore, lists: Sequence[SubscribedList], *, only_due: bool, own_ports: Sequence[int]
) -> Iterator[ListUpdate]:
    """The same of lists whose locks are held."""
    now, due = time.time(), dict[ThreatList, SubscribedList]()
    failures = server.state()
    for subscribed in lists:
        state = subscribed.store.state()
        if state.is_due(now) or state.last_modified != _key_mark(subscribed):
            if failures.is_due(now):
                due[_named(subscribed)] = subscribed
                continue
            state = subscribed.store.note(
                origin=subscribed.subscription.url,
                next_try=failures.next_try,
                fault=failures.fault,
                faults=failures.faults,
                last_modified=_key_mark(subscribed),
            )
        if not only_due:
            shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(state.next_try))
            why = f"it is not asked again before {shown}{f': {state.fault}' if state.fault else ''}"
            yield ListUpdate(subscribed.subscription.url, Outcome.FAILED if state.fault else Outcome.UNCHANGED, why)
    if not due:
        return
    try:
        answers = updated({named: _known_prefixes(subscribed) for named, subscribed in due.items()}, own_ports)
    except FetchError as error:
        until = _note_failure(server, lists, failures.faults + 1, error)
        yield from (_note_fault(subscribed, str(error), time.time(), until) for subscribed in due.values())
        return
    now = time.time()  # the same for all, so that they are due together again
    refusal = next((each for each in answers.values() if isinstance(each, FetchError) and each.is_refusal), None)
    if refusal is not None:
        _note_failure(server, lists, failures.faults + 1, refusal)
    elif failures.faults:
        server.note(tried=now, next_try=0.0, fault="", faults=0)
    for named, subscribed in due.items():
        answer = answers[named]
        try:
            if not isinstance(answer, FetchError):
                yield _use(subscribed, *answer, now)
                continue
            yield _note_fault(subscribed, str(answer), now, wait=min(answer.retry_after, _LONGEST_WAIT))
        except OSError as error:
            yield _note_fault(subscribed, reason_of(error), now)


def _note_failure(server: ListStore, lists: Sequence[SubscribedList], faults: int, error: FetchError) -> float:
    """Leave a server alone; until when."""
    now = time.time()
    until = now + max(back_off(faults, random.random()), min(error.retry_after, _LONGEST_WAIT))  # noqa: S311
    url = _named(lists[0]).service.server
    server.note(origin=url, tried=now, next_try=until, fault=str(error)[:1000], faults=faults)
    return until


def _note_fault(
    subscribed: SubscribedList, why: str, now: float, until: float | None = None, wait: float = 0.0
) -> ListUpdate:
    """Leave a list alone until a moment, or as long as its own failures ask for, and its server (``wait``)."""
    faults = subscribed.store.state().faults + 1
    subscribed.store.note(
        origin=subscribed.subscription.url,
        tried=now,
        next_try=now + max(back_off(faults, random.random()), wait) if until is None else until,  # noqa: S311
        last_modified=_key_mark(subscribed),
        fault=why[:1000],
        faults=faults,
    )
    return _failed(subscribed, why)


def _use(subscribed: SubscribedList, prefixes: PrefixList, wait: float, now: float) -> ListUpdate:
    """Put a list into force as its server has it now."""
    store = subscribed.store
    state, current = store.state(), store.current()
    before = () if current is None else _prefixes_of(current.path)
    version = store.keep("".join(f"{prefix.hex()}\n" for prefix in prefixes.prefixes).encode("ascii"))
    outcome = Outcome.UNCHANGED
    if version.digest in state.rolled_back:
        store.hold_back(version, [ROLLED_BACK])
        outcome = Outcome.HELD
    elif current is None or version.digest != current.digest:
        store.use(version)
        outcome = Outcome.UPDATED
    store.note(
        origin=subscribed.subscription.url,
        checked=now,
        tried=now,
        next_try=now + min(max(wait, _SHORTEST_WAIT), _LONGEST_WAIT),
        last_modified=_key_mark(subscribed),
        etag=b64encode(prefixes.state).decode("ascii"),
        validated=version.digest,
        fault="",
        faults=0,
    )
    new, old = set(prefixes.prefixes), set(before)
    why = ROLLED_BACK if outcome is Outcome.HELD else ""
    return ListUpdate(subscribed.subscription.url, outcome, why, len(new - old), len(old - new))


def _known_prefixes(subscribed: SubscribedList) -> PrefixList:
    """A list as its copy and its state have it; empty if there is no copy that can be read."""
    store = subscribed.store
    state, current, held = store.state(), store.current(), store.held()
    if state.validated not in (current and current.digest, held and held.stem):
        return PrefixList()
    try:
        prefixes = _read(store.path(state.validated))
        return PrefixList(prefixes, b64decode(state.etag), checksum_of(prefixes))
    except (OSError, ValueError):
        return PrefixList()


def _prefixes_of(path: Path) -> tuple[bytes, ...]:
    with suppress(OSError, ValueError):
        return _read(path)
    return ()


def _read(path: Path) -> tuple[bytes, ...]:
    return tuple(map(bytes.fromhex, read_regular(path, LONGEST_LIST).decode("ascii").split()))


def _key_mark(subscribed: SubscribedList) -> str:
    """What tells an API key from another, and nobody which it is."""
    return hashlib.sha256(b"\0".join((b"API key", _named(subscribed).service.api_key.encode()))).hexdigest()[:16]
