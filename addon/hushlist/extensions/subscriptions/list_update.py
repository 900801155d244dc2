"""Brings the lists of a policy that are fetched up to date; whatever goes wrong, the last good copy stays in force.

    fetched -> the digest or the signature that the policy asks for -> doubts? -> in force, or held back

One process at a time updates a list; others that share the cache use its copy. A fault is tried again later: after a
quarter of an hour, then twice that, and so on up to what ``every`` says; as late as ``Retry-After`` asks, at least.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from io import BufferedWriter, BytesIO
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.compile.list_chunks import ChunkedList, chunk_list, load_chunk
from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.errors import FetchError, SourceError, printable
from hushlist.core.extension import extensions_named
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.popular_domains import read_popular_file
from hushlist.core.match.index import Index
from hushlist.core.policy.policy_file import Policy, list_files
from hushlist.core.policy.policy_reader import read_policy
from hushlist.core.system.files import LONGEST_LIST, open_regular, reason_of, sha256_of
from hushlist.extensions.subscriptions.gate import judge, weigh
from hushlist.extensions.subscriptions.line_differences import count_changes
from hushlist.extensions.subscriptions.list_fetch import LONGEST_FETCH, Fetched, fetch
from hushlist.extensions.subscriptions.list_outcome import ListUpdate, Outcome
from hushlist.extensions.subscriptions.list_store import ROLLED_BACK, ListState, Version, forget_others, store_of_file
from hushlist.extensions.subscriptions.logged_visits import logged_requests
from hushlist.extensions.subscriptions.minisign import LONGEST_ARMOR, SignatureError, verify
from hushlist.extensions.subscriptions.subscription import SubscribedList

#: seconds: how old a copy becomes where neither policy nor list says; the first pause after a fault
A_DAY, _PAUSE = 86400.0, 15 * 60.0
#: what a list may say of its own age
_LEAST, _MOST = 3600.0, 14 * A_DAY
_EXPIRES = re.compile(rb"^[!#][ \t]*Expires:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_SPAN = re.compile(rb"([0-9]{1,4})[ \t]*(d|h|$)", re.IGNORECASE)
_HEAD = 1 << 12
#: lists that are fetched at once
_AT_ONCE = 4
_TIMESTAMP = re.compile(r"timestamp:([0-9]{1,12})\b")

#: seconds between two reports of how much of a list is fetched
_PROGRESS_PERIOD = 5.0
#: compiling a policy takes much memory
_WEIGHING = Lock()

#: what, how much is done, and of how much
Progress = Callable[[str, int, int], object]


class _Basis(NamedTuple):
    """What new versions are judged by, besides the copies in force: the policy, and its popular domains."""

    policy: Policy | None
    popular: tuple[bytes, ...]


def _basis_of(path: Path) -> _Basis:
    policy = read_policy(path, ProblemReport(str(path)))
    popular = None if policy is None else policy.popular
    return _Basis(policy, read_popular_file(popular, ProblemReport(str(popular))))  # if not, it cannot be used anyway


def _forget_others(policy: Path) -> None:
    """Remove the copies of lists that the policy no longer names, be they of URLs or of files."""
    report = ProblemReport(str(policy))
    parsed = read_policy(policy, report)
    if parsed is not None and not report.errors:
        files = (store_of_file(policy, file.path) for layer in parsed.layers for file in layer.lists)
        servers = (
            subscribed.subscription.server.store(policy)
            for subscribed in parsed.subscribed
            if subscribed.subscription.server
        )
        named = (subscribed.store for subscribed in parsed.subscribed)
        forget_others(policy, [*named, *servers, *files])


def subscribed_lists(policy: Path) -> tuple[SubscribedList, ...]:
    """The lists of a policy that are fetched, each once; none if it cannot be read."""
    parsed = read_policy(policy, ProblemReport(str(policy)))
    return tuple({subscribed.store.folder: subscribed for subscribed in (parsed.subscribed if parsed else ())}.values())


def fetch_due(policy: Path, own_ports: Iterable[int]) -> Iterator[tuple[bool, str]]:
    """Update the lists that are due; for each, whether it went well, and what became of it."""
    for update in update_lists(policy, subscribed_lists(policy), only_due=True, own_ports=own_ports):
        yield update.is_good, str(update)


def fetch_missing(policy: Path, own_ports: Iterable[int], *, is_start: bool, planned: Policy | None = None) -> bool:
    """Fetch the lists that a policy cannot do without, and of which there is no copy; says so on standard error.

    ``is_start``: even if that failed a moment ago. ``planned``: what is to be in the policy's file. Returns whether it
    has them all now.
    """
    lists = subscribed_lists(policy) if planned is None else planned.subscribed
    servers = {
        subscribed.subscription.server.account: subscribed.subscription.server
        for subscribed in lists
        if subscribed.subscription.server
    }
    for server in servers.values() if is_start else ():
        server.wait_at_start(lists)
    missing = [
        subscribed
        for subscribed in lists
        if not subscribed.subscription.is_optional and subscribed.store.current() is None
    ]
    lock, shown = Lock(), dict[str, float]()

    def show(url: str, done: int, total: int) -> None:
        with lock:
            if time.monotonic() - shown.setdefault(url, 0.0) < _PROGRESS_PERIOD:
                return
            shown[url] = time.monotonic()
            of = f" of {total:,}" if total else ""
            print(printable(f"hushlist: fetching {url}: {done:,}{of} octets"), file=sys.stderr, flush=True)

    how: dict[str, Any] = {"only_due": not is_start, "progress": show, "forgets": planned is None}
    for update in update_lists(policy, missing, own_ports=own_ports, **how) if missing else ():
        print(printable(f"hushlist: {update}"), file=sys.stderr, flush=True)
    return all(subscribed.store.current() is not None for subscribed in missing)


def update_lists(
    policy: Path,
    lists: Sequence[SubscribedList],
    *,
    only_due: bool = False,
    own_ports: Iterable[int] = (),
    progress: Progress | None = None,
    forgets: bool = True,
) -> Iterator[ListUpdate]:
    """Update lists, some at once, and say of each what became of it; with ``only_due``, of those that are due.

    ``forgets``: remove the copies of lists that the policy no longer names.
    """
    ports = tuple(own_ports)
    chosen = [subscribed for subscribed in lists if not only_due or subscribed.store.state().is_due(time.time())]
    basis = _basis_of(policy) if chosen else _Basis(None, ())

    def update(group: Sequence[SubscribedList]) -> list[ListUpdate]:
        if (server := group[0].subscription.server) is not None:
            return list(server.update(policy, group, only_due=only_due, own_ports=ports))
        return list(_update(group[0], only_due=only_due, own_ports=ports, progress=progress, basis=basis))

    with ThreadPoolExecutor(_AT_ONCE, "hushlist: fetch") as threads:
        updates = threads.map(update, _together(chosen))
        yield from (update for results in updates for update in results)
    if forgets:
        _forget_others(policy)


def _together(lists: Iterable[SubscribedList]) -> list[list[SubscribedList]]:
    """Lists by the server that has them; every other list by itself."""
    groups: dict[str | Path, list[SubscribedList]] = {}
    for subscribed in lists:
        server = subscribed.subscription.server
        groups.setdefault(subscribed.store.folder if server is None else server.account, []).append(subscribed)
    return list(groups.values())


def _update(
    subscribed: SubscribedList,
    *,
    only_due: bool,
    own_ports: Sequence[int],
    progress: Progress | None,
    basis: _Basis,
) -> Iterator[ListUpdate]:
    store, url = subscribed.store, subscribed.subscription.url
    failed = partial(ListUpdate, url, Outcome.FAILED)
    try:
        with store.locked(0 if only_due else LONGEST_FETCH):
            if only_due and not store.state().is_due(time.time()):
                return  # another process has just updated it
            try:
                yield _locked_update(subscribed, own_ports, progress, basis)
            except (FetchError, OSError) as error:
                why = reason_of(error) if isinstance(error, OSError) else str(error)
                state, now = store.state(), time.time()
                pause = min(_PAUSE * 2.0 ** min(state.faults, 20), _period(subscribed, b"")) * random.uniform(0.8, 1.2)  # noqa: S311
                wait = max(pause, getattr(error, "retry_after", 0.0))
                store.note(origin=url, tried=now, next_try=now + wait, fault=why[:1000], faults=state.faults + 1)
                yield failed(why)
    except BlockingIOError as error:
        if not only_due:
            yield failed(str(error))
    except OSError as error:  # not even that can be noted
        yield failed(f"{error.filename or store.folder}: {reason_of(error)}")


def _locked_update(
    subscribed: SubscribedList, own_ports: Sequence[int], progress: Progress | None, basis: _Basis
) -> ListUpdate:
    """Fetch a list whose lock is held, and use it unless something is wrong with it."""
    store, subscription = subscribed.store, subscribed.subscription
    state, current, held = store.state(), store.current(), store.held()
    in_force = current.digest if current else ""
    is_known = state.validated in (in_force, held and held.stem) and store.has(state.validated)
    ask = partial(fetch, own_ports=own_ports)
    with store.draft() as draft:
        fetched = ask(
            subscription.url,
            draft,
            longest=FORMATS[subscribed.form].longest if subscribed.form in FORMATS else LONGEST_LIST,
            etag=state.etag if is_known else "",
            last_modified=state.last_modified if is_known else "",
            show=(lambda *_: None) if progress is None else partial(progress, subscription.url),
        )
        draft.flush()
        if fetched.is_same:
            digest = state.validated
            signed = state.signed if digest == in_force else state.held_signed
            fetched = replace(fetched, etag=state.etag, last_modified=state.last_modified)
        else:
            digest, signed = _prove(subscribed, Path(draft.name), in_force, state.signed, ask)
        outcome, why, change = _judged(subscribed, draft, digest, current, state, basis)
    now = time.time()
    head = _head(store.path(digest))
    period = _period(subscribed, head)
    store.note(
        origin=subscription.url,
        checked=now,
        tried=now,
        next_try=now + period * random.uniform(1.0, 1.1),  # noqa: S311  not all ask at the same moment
        etag=fetched.etag,
        last_modified=fetched.last_modified,
        validated=digest,
        fault="",
        faults=0,
        **{"held_signed" if outcome is Outcome.HELD else "signed": signed},
    )
    return ListUpdate(subscription.url, outcome, why or _odd_hint(subscribed, head), *change)


def _judged(
    subscribed: SubscribedList,
    draft: BufferedWriter,
    digest: str,
    current: Version | None,
    state: ListState,
    basis: _Basis,
) -> tuple[Outcome, str, tuple[int, int]]:
    """What becomes of a list with this digest, which the draft has if it is another: it is used, or held back."""
    store, same = subscribed.store, (0, 0)
    if current is not None and digest == current.digest:
        if ROLLED_BACK not in state.reasons:  # the publisher has taken back what was held back
            store.note(held="", reasons=())
        if not store.has(digest):  # its copy is damaged
            store.keep(draft)
        return Outcome.UNCHANGED, "", same
    kept = store.path(digest)
    source = kept if store.has(digest) else draft
    if digest in state.rolled_back:
        if digest != state.held or source is draft:
            store.hold_back(store.keep(source), [ROLLED_BACK])
        return Outcome.HELD, ROLLED_BACK, same
    doubts, is_list = _doubts(subscribed, kept if source is kept else Path(draft.name), current, basis)
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


def _period(subscribed: SubscribedList, head: bytes) -> float:
    """Seconds until a list is asked for again: as the policy says, or its own head, or a day.

    Spec: https://help.adblockplus.org/hc/en-us/articles/360062733293: "! Expires: 12 hours", "5 days" or "5"
    """
    if subscribed.subscription.every is not None:
        return subscribed.subscription.every
    hint = _EXPIRES.search(head)
    span = None if hint is None else _SPAN.match(hint[1])
    if span is None:
        return A_DAY
    return min(max(int(span[1]) * (3600.0 if span[2].lower() == b"h" else A_DAY), _LEAST), _MOST)


def _odd_hint(subscribed: SubscribedList, head: bytes) -> str:
    """What a list's head says of its age that cannot be read, for people."""
    hint = None if subscribed.subscription.every is not None else _EXPIRES.search(head)
    if hint is None or _SPAN.match(hint[1]):
        return ""
    text = hint[1][:40].decode("utf-8", "replace")
    return f"its head says 'Expires: {text}', which is no time such as '4 days': it is asked for once a day"


# -- what proves a list ------------------------------------------------------------------------------------------------


def _prove(
    subscribed: SubscribedList, path: Path, in_force: str, signed: int, ask: Callable[..., Fetched]
) -> tuple[str, int]:
    """The digest of what was fetched, and the time of its signature, 0 if it has none.

    ``in_force`` and ``signed`` are those of the list in force. ``FetchError`` if it is not what the policy asks for, or
    its signature cannot be fetched.
    """
    subscription = subscribed.subscription
    digest = sha256_of(path)
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


def _doubts(
    subscribed: SubscribedList, path: Path, current: Version | None, basis: _Basis
) -> tuple[tuple[str, ...], bool]:
    """Why a list is held back, and whether it can be read at all."""
    try:
        new, old = _chunked(subscribed, path), None if current is None else _chunked(subscribed, current.path)
    except SourceError as error:
        return (error.problems[0].why,), False
    if old is not None and not old.report.errors:
        with IndexCache().writing() as name:
            reasons, is_list = judge(old, new, basis.popular, Path(name), 1, None)
        if (
            is_list
            and not reasons
            and basis.policy is not None
            and (requests := logged_requests(basis.policy.of("log")))
        ):
            with _WEIGHING:
                reasons = weigh(basis.policy, new.file._replace(path=old.file.path, copy=path), requests, _compiled)
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


def _chunked(subscribed: SubscribedList, path: Path) -> ChunkedList:
    (file,) = list_files(path, subscribed.form, subscribed.defaults, foreign=extensions_named(subscribed.foreign))
    return chunk_list(file._replace(url=subscribed.subscription.url, values={"gate": subscribed.gate}))
