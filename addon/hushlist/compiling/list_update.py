"""Brings the lists of a policy that are fetched up to date; whatever goes wrong, the last good copy stays in force.

    fetched -> the digest or the signature that the policy asks for -> doubts? -> in force, or held back

One process at a time updates a list; others that share the cache use its copy. A fault is tried again later: after a
quarter of an hour, then twice that, and so on up to what ``every`` says; as late as ``Retry-After`` asks, at least.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from io import BufferedWriter, BytesIO
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from hushlist.compiling.gate import judge, weigh
from hushlist.compiling.index_cache import IndexCache
from hushlist.compiling.line_changes import count_changes
from hushlist.compiling.list_fetch import LONGEST_FETCH, Fetched, FetchError, fetch
from hushlist.compiling.logged_visits import logged_requests
from hushlist.compiling.policy_compiler import compile_policy
from hushlist.compiling.prefix_service import updated
from hushlist.errors import SourceError
from hushlist.jobs.list_chunks import ChunkedList, chunk_list, load_chunk
from hushlist.lists.list_formats import FORMATS
from hushlist.lists.list_source import ProblemReport
from hushlist.lists.plain_lists import read_popular_file
from hushlist.match.index import Index
from hushlist.minisign import LONGEST_ARMOR, SignatureError, verify
from hushlist.policy.policy_file import ListError, Policy, list_files, read_policy
from hushlist.policy.safe_browsing import ThreatList, back_off
from hushlist.policy.subscription import SubscribedList
from hushlist.safebrowsing import prefix_list
from hushlist.system.files import LONGEST_LIST, open_regular, read_regular, reason_of
from hushlist.system.list_store import ROLLED_BACK, ListState, ListStore, Version, forget_others

#: seconds: how old a copy becomes where neither policy nor list says; the first pause after a fault
A_DAY, _PAUSE = 86400.0, 15 * 60.0
#: seconds between two questions for updates of Safe Browsing whose server names none
_SHORTEST_WAIT = 60.0
#: what a list may say of its own age
_LEAST, _MOST = 3600.0, 14 * A_DAY
_EXPIRES = re.compile(rb"^[!#][ \t]*Expires:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_SPAN = re.compile(rb"([0-9]{1,4})[ \t]*(d|h|$)", re.IGNORECASE)
_HEAD = 1 << 12
#: lists that are fetched at once
_AT_ONCE = 4
_TIMESTAMP = re.compile(r"timestamp:([0-9]{1,12})\b")

#: compiling a policy takes much memory
_WEIGHING = Lock()

#: what, how much is done, and of how much
Progress = Callable[[str, int, int], object]


class Outcome(StrEnum):
    """What became of a list."""

    UNCHANGED = "unchanged"
    UPDATED = "updated"
    HELD = "held back"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ListUpdate:
    """What became of one list: by how many lines it grew and shrank if it was updated, and else why not."""

    url: str
    outcome: Outcome
    why: str = ""
    added: int = 0
    removed: int = 0

    @property
    def is_good(self) -> bool:
        """Whether nobody has to look at it."""
        return self.outcome in (Outcome.UNCHANGED, Outcome.UPDATED)

    def __str__(self) -> str:
        change = f" +{self.added:,} -{self.removed:,} lines" if self.outcome is Outcome.UPDATED else ""
        return f"{self.url}: {self.outcome}{change}{f': {self.why}' if self.why else ''}"


def subscribed_lists(policy: Path) -> tuple[SubscribedList, ...]:
    """The lists of a policy that are fetched, each once; none if it cannot be read."""
    known = read_policy(policy, ProblemReport(str(policy)))
    return tuple({own.store.folder: own for own in (known.subscribed if known else ())}.values())


class _Known(NamedTuple):
    """What new versions are judged by, besides the copies in force: the policy, and its popular domains."""

    policy: Policy | None
    popular: tuple[bytes, ...]


def _known(path: Path) -> _Known:
    policy = read_policy(path, ProblemReport(str(path)))
    if policy is not None and policy.popular is not None:
        with suppress(SourceError):  # without them, the policy cannot be used
            return _Known(policy, read_popular_file(policy.popular, ProblemReport(str(policy.popular))))
    return _Known(policy, ())


def _forget_others(policy: Path) -> None:
    """Remove the copies of lists that the policy no longer names, be they of URLs or of files."""
    report = ProblemReport(str(policy))
    known = read_policy(policy, report)
    if known is not None and not report.errors:
        files = {os.path.abspath(file.path) for layer in known.layers for file in layer.lists}  # noqa: PTH100
        forget_others(policy, [*(own.store for own in known.subscribed), *(ListStore(policy, name) for name in files)])


def update_lists(
    policy: Path,
    lists: Sequence[SubscribedList],
    *,
    only_due: bool = False,
    own_ports: Iterable[int] = (),
    progress: Progress | None = None,
) -> Iterator[ListUpdate]:
    """Update lists, some at once, and say of each what became of it; with ``only_due``, of those that are due."""
    ports = tuple(own_ports)
    chosen = [own for own in lists if not only_due or own.store.state().is_due(time.time())]
    known = _known(policy) if chosen else _Known(None, ())
    update = partial(_update, only_due=only_due, own_ports=ports, progress=progress, known=known)
    with ThreadPoolExecutor(_AT_ONCE, "hushlist: fetch") as threads:
        yield from (update for update in threads.map(update, chosen) if update is not None)
    _forget_others(policy)


def _update(
    own: SubscribedList,
    *,
    only_due: bool,
    own_ports: Sequence[int],
    progress: Progress | None,
    known: _Known,
) -> ListUpdate | None:
    store, url = own.store, own.subscription.url
    failed = partial(ListUpdate, url, Outcome.FAILED)
    try:
        with store.locked(0 if only_due else LONGEST_FETCH):
            if only_due and not store.state().is_due(time.time()):
                return None  # another process has just updated it
            try:
                if own.subscription.prefixes is not None:
                    return _locked_prefix_update(own, own.subscription.prefixes, own_ports)
                return _locked_update(own, own_ports, progress, known)
            except (FetchError, OSError) as error:
                why = reason_of(error) if isinstance(error, OSError) else str(error)
                state, now, mark = store.state(), time.time(), {}
                pause = min(_PAUSE * 2.0 ** min(state.faults, 20), _period(own, b"")) * random.uniform(0.8, 1.2)  # noqa: S311
                if own.subscription.prefixes is not None:
                    pause = back_off(state.faults + 1, random.random())  # noqa: S311
                    mark["last_modified"] = _key_mark(own.subscription.prefixes)
                wait = max(pause, getattr(error, "retry_after", 0.0))
                store.note(
                    origin=url, tried=now, next_try=now + wait, fault=why[:1000], faults=state.faults + 1, **mark
                )
                return failed(why)
    except BlockingIOError as error:
        return None if only_due else failed(str(error))
    except OSError as error:  # not even that can be noted
        return failed(f"{error.filename or store.folder}: {reason_of(error)}")


def _locked_update(
    own: SubscribedList, own_ports: Sequence[int], progress: Progress | None, known: _Known
) -> ListUpdate:
    """Fetch a list whose lock is held, and use it unless something is wrong with it."""
    store, subscription = own.store, own.subscription
    state, current, held = store.state(), store.current(), store.held()
    in_force = current.digest if current else ""
    is_known = state.validated in (in_force, held and held.stem) and store.has(state.validated)
    ask = partial(fetch, own_ports=own_ports)
    with store.draft() as draft:
        found = ask(
            subscription.url,
            draft,
            longest=FORMATS[own.form].longest if own.form in FORMATS else LONGEST_LIST,
            etag=state.etag if is_known else "",
            last_modified=state.last_modified if is_known else "",
            show=_shower(subscription.url, progress),
        )
        draft.flush()
        if found.is_same:
            digest, signed = state.validated, state.signed
            found = replace(found, etag=state.etag, last_modified=state.last_modified)
        else:
            digest, signed = _prove(own, Path(draft.name), in_force, state.signed, ask)
        outcome, why, change = _judged(own, draft, digest, current, state, known)
    now = time.time()
    head = _head(store.path(digest))
    period = _period(own, head)
    store.note(
        origin=subscription.url,
        checked=now,
        tried=now,
        next_try=now + period * random.uniform(1.0, 1.1),  # noqa: S311  not all ask at the same moment
        etag=found.etag,
        last_modified=found.last_modified,
        validated=digest,
        signed=state.signed if outcome is Outcome.HELD else signed,
        fault="",
        faults=0,
    )
    return ListUpdate(subscription.url, outcome, why or _odd_hint(own, head), *change)


def _locked_prefix_update(own: SubscribedList, named: ThreatList, own_ports: Sequence[int]) -> ListUpdate:
    """The same of a list of Safe Browsing: its copy is a list of the format ``sha256``, and its state the ``etag``.

    Its server proves it by a checksum. No gate holds it back, since whatever fits is confirmed before it counts. The
    server is not asked before the time that it has said, or that its failures ask for, whoever wants it; but with
    another API key, it is.
    """
    store, now = own.store, time.time()
    state, current = store.state(), store.current()
    failed = partial(ListUpdate, own.subscription.url)
    if not state.is_due(now) and state.last_modified == _key_mark(named):
        until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(state.next_try))
        why = f"it is not asked again before {until}{f': {state.fault}' if state.fault else ''}"
        return failed(Outcome.FAILED if state.fault else Outcome.UNCHANGED, why)
    held = store.held()
    base = store.path(state.validated) if state.validated in (current and current.digest, held and held.stem) else None
    known = _known_prefixes(base, state)
    found, wait = updated(named, known, own_ports)
    before = _known_prefixes(current.path, state).prefixes if current is not None else ()
    version = store.keep(_sha256_lines(found.prefixes))
    outcome = Outcome.UNCHANGED
    if version.digest == state.held and ROLLED_BACK in state.reasons:
        outcome = Outcome.HELD
    elif current is None or version.digest != current.digest:
        store.use(version)
        outcome = Outcome.UPDATED
    now = time.time()
    store.note(
        origin=own.subscription.url,
        checked=now,
        tried=now,
        next_try=now + min(max(wait, _SHORTEST_WAIT), A_DAY),
        last_modified=_key_mark(named),
        etag=b64encode(found.state).decode("ascii"),
        validated=version.digest,
        fault="",
        faults=0,
    )
    new, old = set(found.prefixes), set(before)
    why = ROLLED_BACK if outcome is Outcome.HELD else ""
    return ListUpdate(own.subscription.url, outcome, why, len(new - old), len(old - new))


def _known_prefixes(path: Path | None, state: ListState) -> prefix_list.PrefixList:
    """A list as a copy and its state have it; without prefixes if there is no copy that can be read."""
    try:
        lines = b"" if path is None else read_regular(path, LONGEST_LIST)
        prefixes = tuple(map(bytes.fromhex, lines.decode("ascii").split()))
        token = b64decode(state.etag)
    except (OSError, ValueError):
        return prefix_list.PrefixList()
    return prefix_list.PrefixList(prefixes, token if path else b"", prefix_list.checksum_of(prefixes))


def _key_mark(named: ThreatList) -> str:
    """What tells an API key from another, and nobody which it is."""
    return hashlib.sha256(b"\0".join((b"API key", named.service.api_key.encode()))).hexdigest()[:16]


def _sha256_lines(prefixes: Sequence[bytes]) -> bytes:
    return "".join(f"{prefix.hex()}\n" for prefix in prefixes).encode("ascii")


def _judged(
    own: SubscribedList,
    draft: BufferedWriter,
    digest: str,
    current: Version | None,
    state: ListState,
    known: _Known,
) -> tuple[Outcome, str, tuple[int, int]]:
    """What becomes of a list with this digest, which the draft has if it is another: it is used, or held back."""
    store, same = own.store, (0, 0)
    if current is not None and digest == current.digest:
        if ROLLED_BACK not in state.reasons:  # the publisher has taken back what was held back
            store.note(held="", reasons=())
        if not store.has(digest):  # its copy is damaged
            store.keep(draft)
        return Outcome.UNCHANGED, "", same
    if digest == state.held and ROLLED_BACK in state.reasons:
        return Outcome.HELD, ROLLED_BACK, same
    kept = store.path(digest)
    source = kept if store.has(digest) else draft
    doubts, is_list = _doubts(own, kept if source is kept else Path(draft.name), current, known)
    if is_list and digest == state.accepted:
        doubts = ()
    if doubts and is_list:
        store.hold_back(store.keep(source), doubts)
    elif doubts:  # which nobody can accept
        store.note(held=digest, reasons=doubts)
    if doubts:
        return Outcome.HELD, "; ".join(doubts), same
    version = store.keep(source)
    change = count_changes(current.path if current else None, version.path)
    store.use(version)
    return Outcome.UPDATED, "", change


def _head(path: Path) -> bytes:
    """How a version begins; nothing if it was not kept."""
    try:
        with open_regular(path) as file:
            return file.read(_HEAD)
    except OSError:
        return b""


def _period(own: SubscribedList, head: bytes) -> float:
    """Seconds until a list is asked for again: as the policy says, or its own head, or a day.

    Spec: https://help.adblockplus.org/hc/en-us/articles/360062733293: "! Expires: 12 hours", "5 days" or "5"
    """
    if own.subscription.every is not None:
        return own.subscription.every
    hint = _EXPIRES.search(head)
    span = None if hint is None else _SPAN.match(hint[1])
    if span is None:
        return A_DAY
    return min(max(int(span[1]) * (3600.0 if span[2].lower() == b"h" else A_DAY), _LEAST), _MOST)


def _odd_hint(own: SubscribedList, head: bytes) -> str:
    """What a list's head says of its age that cannot be read, for people."""
    hint = None if own.subscription.every is not None else _EXPIRES.search(head)
    if hint is None or _SPAN.match(hint[1]):
        return ""
    text = hint[1][:40].decode("utf-8", "replace")
    return f"its head says 'Expires: {text}', which is no time such as '4 days': it is asked for once a day"


def _shower(url: str, progress: Progress | None) -> Callable[[int, int], object]:
    return (lambda done, total: None) if progress is None else partial(progress, url)


# -- what proves a list ------------------------------------------------------------------------------------------------


def _prove(own: SubscribedList, path: Path, in_force: str, signed: int, ask: Callable[..., Fetched]) -> tuple[str, int]:
    """The digest of what was fetched, and the time of its signature, 0 if it has none.

    ``in_force`` and ``signed`` are those of the list in force.

    Raises:
        FetchError: it is not what the policy asks for, or its signature cannot be fetched.
    """
    subscription = own.subscription
    with open_regular(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if subscription.sha256 not in (None, digest):
        raise FetchError(f"its SHA-256 is {digest}, not the one that the policy names")
    if subscription.key is None:
        return digest, 0
    signature = BytesIO()
    try:
        ask(subscription.signature, signature, longest=LONGEST_ARMOR)
    except FetchError as error:
        raise FetchError(f"its signature {subscription.signature}: {error}", error.retry_after) from error
    try:
        with open_regular(path) as file:
            comment = verify(file, signature.getvalue(), subscription.key)
    except SignatureError as error:
        raise FetchError(f"its signature {subscription.signature}: {error}") from error
    match = _TIMESTAMP.search(comment)
    moment = int(match[1]) if match else 0
    # whoever is on the way could serve what was signed long ago
    if moment < signed and digest != in_force:
        raise FetchError(f"its signature {subscription.signature} is older than that of the last good version")
    return digest, max(moment, signed)


# -- what is doubtful about it -----------------------------------------------------------------------------------------


def _doubts(own: SubscribedList, path: Path, current: Version | None, known: _Known) -> tuple[tuple[str, ...], bool]:
    """Why a list is held back, and whether it can be read at all."""
    try:
        new, old = _chunked(own, path), None if current is None else _chunked(own, current.path)
    except ListError as error:
        return (str(error),), False
    if old is not None and not old.report.errors:
        with IndexCache().writing() as name:
            reasons, is_list = judge(old, new, known.popular, Path(name), 1, None)
        if is_list and not reasons and known.policy is not None and (requests := logged_requests(known.policy.log)):
            with _WEIGHING:
                reasons = weigh(known.policy, replace(new.file, path=old.file.path, copy=path), requests, _compiled)
        if reasons and is_list:
            return reasons, True
    else:
        has_rules = new.file.format is FORMATS["yaml"]
        for number, chunk in enumerate(new.chunks):
            loaded = load_chunk(number, new.file, chunk)
            for _ in loaded.rule_blocks:
                has_rules = True
            new.report.merge(loaded.report)
        if not has_rules and not new.report.errors:
            return ("nothing in it can be used: is it a list of its format?",), True
    if errors := new.report.errors:
        return (f"it cannot be read: {f'line {errors[0].line}: ' * bool(errors[0].line)}{errors[0].why}",), False
    return (), True


def _compiled(policy: Policy) -> Index:
    return compile_policy(policy, jobs=1).let_go().index


def _chunked(own: SubscribedList, path: Path) -> ChunkedList:
    (file,) = list_files(path, own.form, own.defaults)
    return chunk_list(replace(file, url=own.subscription.url, gate=own.gate))
