"""The gate: a list that has changed is compared with its last good copy before it holds, and held back if it is worse.

    a changed list -> what ``list_comparison`` finds, and ``logged_visits`` -> the reasons to hold it back
                   -> its copy is compiled in its place

``list_store`` keeps the copies, and what is held back. A list without a copy has nothing to be compared with.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count, product, takewhile
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.compile.list_chunks import ChunkedList, chunk_list, list_workers
from hushlist.core.compile.worker_processes import Progress
from hushlist.core.errors import Problem, number_of
from hushlist.core.extension import extensions_named, load
from hushlist.core.lists.format_detection import detect_format
from hushlist.core.lists.list_formats import FOLDERS, FORMATS, UNTOLD, format_named
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.match.index import Index
from hushlist.core.policy.policy_file import ListFile, Policy, PolicyError
from hushlist.core.policy.usable_keys import KeyTable
from hushlist.core.system.files import Fingerprint, fingerprint, open_regular
from hushlist.extensions.subscriptions.gate_limits import GateLimits
from hushlist.extensions.subscriptions.line_differences import shorten
from hushlist.extensions.subscriptions.list_comparison import BroadKinds, ListChange, compare_lists
from hushlist.extensions.subscriptions.list_store import ROLLED_BACK, ListStore, Version, forget_others, store_of_file

if TYPE_CHECKING:
    from hushlist.extensions.subscriptions.logged_visits import LoggedRequest

#: a list with fewer rules may be somebody's own: half of them is soon rewritten by hand
_FEW = 100
#: with fewer than these, so is all of it; in YAML, where no message is a list, of any with fewer than ``_FEW``
_VERY_FEW = 10
#: octets from which on the lines that differ are looked at first
_LONG = 1 << 16
#: lists whose copies are written at once
_AT_ONCE = 8


@dataclass(slots=True)
class Gate:
    policy: Policy
    cache: IndexCache
    #: what the result depends on besides the lists and their limits
    code: str
    #: compiles a policy in memory, without a gate
    compile: Callable[[Policy], Index]
    jobs: int | None
    progress: Progress | None
    #: whether anything can be written
    keeps: bool = True
    #: lists that are held back: why, for people
    held: dict[Path, str] = field(default_factory=dict)
    #: what changes when another copy comes into force, as it was when the copies were looked at
    pointers: dict[Path, Fingerprint] = field(default_factory=dict)
    #: the good copies of lists that have changed, by what was read
    _copies: dict[tuple[ListFile, Version], ChunkedList] = field(default_factory=dict)

    def hold_back(
        self, lists: Sequence[ChunkedList], popular: tuple[bytes, ...], drafts: IndexCache
    ) -> list[ChunkedList]:
        """The lists, with their good copies in the place of those held back; temporary files are among the ``drafts``.

        Raises:
            PolicyError: a list has changed, and its copy cannot be read; or a file of a folder is gone.
            OSError: the cache cannot be written to.
        """
        self.held, self.pointers = {}, self.cache.pointers(self.policy)
        if problems := list(self._gone()):
            raise PolicyError(problems, {**self.policy.files, **{Path(problem.source): None for problem in problems}})
        return self._weighed([self._passed(chunked, popular, drafts) for chunked in lists], popular)

    def _gone(self) -> Iterator[Problem]:
        """The files that are gone out of a folder that is a list; others would be missed by the policy's reader."""
        files = {file.path: file.gate for layer in self.policy.layers for file in layer.lists}
        names = {name for files in FOLDERS.values() for name in files}
        folders = {path.parent for path, gate in files.items() if path.stem in names and not gate.is_off}
        for folder, name in product(sorted(folders), names):
            parts = takewhile(self._copy_of, (folder / f"{name}.{number}" for number in count(1)))
            for path in (folder / name, folder / f"{name}.0", *parts):
                if path not in files and not path.exists() and self._copy_of(path):
                    why = "it is gone, and its rules are in force; to do without them, put an empty file in its place"
                    yield Problem(str(path), 0, "list", why)

    def copy_of(self, file: ListFile, digest: str) -> Path | None:
        """A whole copy of a list as it was, by the digest of its content."""
        store = self._store_of(file.path)
        # what is fetched is a copy, and the others are beside it
        path = file.path.with_name(store.path(digest).name) if file.url else store.path(digest)
        with suppress(OSError), open_regular(path) as octets:
            if hashlib.file_digest(octets, "sha256").hexdigest() == digest:
                return path
        return None

    def _store_of(self, path: Path) -> ListStore:
        return store_of_file(Path(self.policy.source), path, self.cache.folder)

    def _copy_of(self, path: Path) -> Version | None:
        return self._store_of(path).current()

    def _passed(self, chunked: ChunkedList, popular: tuple[bytes, ...], drafts: IndexCache) -> ChunkedList:
        if chunked.file.gate.is_off or chunked.file.url:  # what is fetched has passed already
            return chunked
        store = self._store_of(chunked.file.path)
        current, state = store.current(), store.state()
        if current is None or current.digest == chunked.digest:
            return chunked
        good = self._good(chunked.file, current)
        judged = self._key(chunked, current, popular)
        is_list = False
        if not chunked.digest:
            reasons = _unreadable(chunked.report, chunked.file.gate)
        elif chunked.digest in state.rolled_back:
            reasons, is_list = (ROLLED_BACK,), True
            if state.held != chunked.digest:
                self._keep_back(chunked, reasons, judged, is_list=True)
        elif state.held == chunked.digest and state.judged in ("", judged):
            reasons, is_list = state.reasons, store.held() is not None
        else:
            with drafts.writing() as name:
                reasons, is_list = judge(good, chunked, popular, Path(name), self.jobs, self.progress)
            if is_list and state.accepted == chunked.digest:
                reasons = ()
            if reasons:
                self._keep_back(chunked, reasons, judged, is_list=is_list)
        if not reasons:
            return replace(chunked, report=ProblemReport(str(chunked.file.path))) if chunked.digest else chunked
        self.held[chunked.file.path] = _why_held(self.policy.source, chunked.file.path, reasons, is_list=is_list)
        return good

    def _keep_back(self, chunked: ChunkedList, reasons: tuple[str, ...], judged: str, *, is_list: bool) -> None:
        if self.keeps:
            store = self._store_of(chunked.file.path)
            with store.locked():
                if is_list:
                    store.hold_back(store.keep(chunked.file.path), reasons)
                store.note(held=chunked.digest, reasons=reasons, judged=judged)

    def _weighed(self, lists: list[ChunkedList], popular: tuple[bytes, ...]) -> list[ChunkedList]:
        """The lists, with the good copies of those that change too much of the last week's requests."""
        changed = {}
        for at, chunked in enumerate(lists):
            if chunked.file.url or chunked.file.copy or not chunked.digest or chunked.file.gate.requests is None:
                continue
            store = self._store_of(chunked.file.path)
            current = store.current()
            if current is not None and chunked.digest not in (current.digest, store.state().accepted):
                changed[at] = current, self._good(chunked.file, current)
        if not changed:
            return lists
        from hushlist.extensions.subscriptions.logged_visits import (
            logged_requests,  # most policies start faster without it
        )

        requests = logged_requests(self.policy.of("log"))
        good_files = [chunked.file for chunked in lists] + [good.file for _, good in changed.values()]
        before = with_copies(self.policy, good_files)
        for at, (current, good) in changed.items():
            chunked = lists[at]
            if why := weigh(before, chunked.file, requests, self.compile):
                self._keep_back(chunked, why, self._key(chunked, current, popular), is_list=True)
                self.held[chunked.file.path] = _why_held(self.policy.source, chunked.file.path, why, is_list=True)
                lists[at] = good
        return lists

    def _good(self, file: ListFile, current: Version) -> ChunkedList:
        """The good copy of a list, under the name of its file."""
        if (file, current) in self._copies:
            return self._copies[file, current]
        form = file.format
        if file.detected is not None or form is UNTOLD:
            with suppress(OSError):
                foreign = KeyTable(extensions_named(self.policy.extensions)).foreign()
                name = detect_format(current.path, foreign=foreign).form
                form = form if name is None else format_named(name)
        copy = chunk_list(file._replace(format=form, copy=current.path))
        if copy.digest != current.digest:
            why = f"it has changed, and its last good copy is damaged: remove {current.path} to use it as it is"
            raise PolicyError([Problem(str(file.path), 0, "list", why)], {**self.policy.files, **self.pointers})
        self._copies[file, current] = copy
        return copy

    def _key(self, chunked: ChunkedList, current: Version, popular: tuple[bytes, ...]) -> str:
        file = chunked.file
        domains = hashlib.sha256(b"\n".join(popular)).hexdigest()
        by = (file.format.reader, file.defaults, file.gate, domains)
        return hashlib.sha256(json.dumps((chunked.digest, current.digest, self.code, by)).encode()).hexdigest()

    def use(self, lists: Sequence[ChunkedList]) -> None:
        """Keep copies of the lists that are in force from now on.

        Raises:
            PolicyError: one has changed meanwhile.
            OSError: they cannot be written.
        """
        if not self.keeps:
            return
        stores = [subscribed.store for subscribed in self.policy.subscribed]
        changed: dict[Path, tuple[ListStore, ChunkedList]] = {}
        for chunked in lists:
            file = chunked.file
            if file.url:
                continue
            store = self._store_of(file.path)
            if file.gate.is_off:
                rmtree(store.folder, ignore_errors=True)  # a copy would get old
                continue
            stores.append(store)
            if file.path in self.held or not chunked.digest:
                continue
            current = store.current()
            if current is not None and current.digest == chunked.digest:
                if store.state().held:
                    with store.locked():
                        store.note(held="", reasons=())
                continue
            changed[store.folder] = store, chunked
        with ThreadPoolExecutor(_AT_ONCE) as threads:  # each waits for the disk
            list(threads.map(lambda pair: self._use(*pair), changed.values()))
        forget_others(Path(self.policy.source), stores, self.cache.folder)

    def _use(self, store: ListStore, chunked: ChunkedList) -> None:
        """Keep a copy of a list, and put it into force."""
        with store.locked():
            version = store.keep(chunked.file.path)
            if version.digest != chunked.digest:
                problem = Problem(str(chunked.file.path), 0, chunked.file.path.name, "it changed while it was read")
                raise PolicyError([problem], self.policy.files)
            store.use(version)
            self.pointers[store.pointer] = fingerprint(store.pointer)


def judge(
    good: ChunkedList,
    new: ChunkedList,
    popular: tuple[bytes, ...],
    folder: Path,
    jobs: int | None,
    progress: Progress | None,
) -> tuple[tuple[str, ...], bool]:
    """The reasons to hold a list back, and whether it can be read at all; ``good`` is its copy that is in force."""
    limits, is_known = new.file.gate, good.digest and good.file.defaults == new.file.defaults
    if is_known and good.file.format is new.file.format and new.file.format.is_by_line and new.length > _LONG:
        short = shorten(good, new, folder, _most_lost(limits))
        if short is not None:
            was, now = (chunk_list(new.file._replace(copy=path)) for path in short)
            strict = limits._replace(is_own=True)
            if _compared(was, now, popular, strict, folder, 1, None) == () and now.report.bad <= was.report.bad:
                return (), True
    why = _compared(good, new, popular, limits, folder, jobs, progress)
    return (_unreadable(new.report, limits), False) if why is None else ((*why, *_gone(good.file, new.file)), True)


def _gone(good: ListFile, new: ListFile) -> Iterator[str]:
    """What a list that is fetched has no more, such as a service, which a policy may name."""
    if new.format.members and new.url and new.gate.loses is not None:
        names = load(new.format.members)
        if gone := sorted(names(good.read_from.read_bytes()) - names(new.read_from.read_bytes())):
            yield f"it has no {' and no '.join(gone)} any more"


def _most_lost(limits: GateLimits) -> int:
    return 100 if limits.loses is None else limits.loses


def _compared(
    good: ChunkedList,
    new: ChunkedList,
    popular: tuple[bytes, ...],
    limits: GateLimits,
    folder: Path,
    jobs: int | None,
    progress: Progress | None,
) -> tuple[str, ...] | None:
    """The reasons to hold a list back; ``None`` if it cannot be read."""
    kinds = BroadKinds(limits.suffixes, popular if limits.popular else ())
    with list_workers([good, new], jobs, progress) as workers:
        change = compare_lists(good, new, kinds, _most_lost(limits), folder, workers)
    is_written = new.file.format is FORMATS["yaml"]
    bad = good.report.bad, new.report.bad
    return None if change is None else tuple(reasons(change, limits, bad, is_written=is_written))


def weigh(
    before: Policy, new: ListFile, requests: Sequence[LoggedRequest], compile_lists: Callable[[Policy], Index]
) -> tuple[str, ...]:
    """The reasons to hold a list back, which a policy has in another version: too many requests are decided otherwise.

    What cannot be compiled is not weighed: that is told elsewhere.
    """
    from hushlist.extensions.subscriptions.logged_visits import (  # most policies start faster without it
        FEWEST,
        changed_requests,
    )

    if new.gate.requests is None or len(requests) < FEWEST:
        return ()
    after = with_copies(before, [new])
    try:
        change = changed_requests((before, compile_lists(before)), (after, compile_lists(after)), requests)
    except PolicyError:
        return ()
    return tuple(change.reasons(new.gate.requests))


def with_copies(policy: Policy, files: Iterable[ListFile]) -> Policy:
    """A policy that reads some of its lists as they are given."""
    copies = {file.path: file for file in files}

    def read_so(file: ListFile) -> ListFile:
        copy = copies.get(file.path, file)
        return file._replace(format=copy.format, copy=copy.copy)

    layers = (layer._replace(lists=tuple(map(read_so, layer.lists))) for layer in policy.layers)
    return policy._replace(layers=tuple(layers))


def _unreadable(report: ProblemReport, limits: GateLimits) -> tuple[str, ...]:
    first = report.errors[0]
    where = f"{Path(first.source).name}:{first.line}: " if first.line else ""
    return (f"it cannot be read: {where}{first.what}: {first.why}",) if limits.format else ()


def reasons(change: ListChange, limits: GateLimits, bad: tuple[int, int], *, is_written: bool) -> Iterator[str]:
    """Why a list is held back; ``bad`` are the entries that are none of its format, before and now.

    ``is_written``: it is in the format in which people write rules of their own.
    """
    old, new, lost, broad, opened, before, now = change
    is_useless = limits.format and old > 0 and not new and not is_written
    if is_useless:
        yield f"nothing in it can be used, and it had {number_of(old, 'rule', 'rules')}"
    elif limits.format and bad[1] > new and bad[0] <= old:
        yield f"it is no list of its format: {bad[1]:,} of {bad[1] + new:,} entries cannot be read"
    counts = limits.is_own or old >= _FEW or (lost == old >= _VERY_FEW and not is_written)
    if limits.rolling:
        if limits.loses is not None and not is_useless and counts and (old - new) * 100 > limits.loses * old:
            yield f"it has {number_of(new, 'rule', 'rules')}, and had {old:,}: fewer by more than {limits.loses} %"
    elif limits.loses is not None and not is_useless and counts and (lost + opened) * 100 > limits.loses * old:
        more = f", and {number_of(opened, 'new one takes', 'new ones take')} others back" if opened else ""
        yield f"it loses {lost:,} of {number_of(old, 'rule', 'rules')}{more}, more than {limits.loses} %"
    if broad:
        line, what, why = broad[0]
        more = f", and {number_of(len(broad) - 1, 'other', 'others')}" if len(broad) > 1 else ""
        yield f"a new rule covers too much: line {line}: {what}: {why}{more}"
    if limits.requests is not None:
        yield from now.reasons(before, limits.requests)


def _why_held(policy: str, file: Path, reasons: Sequence[str], *, is_list: bool) -> str:
    command = shlex.join(("hushlist", "update", "--policy", policy, "--accept", str(file)))
    how = f"; to use it as it is: {command}" if is_list else ""
    return f"held back: {'; '.join(reasons)}; its last good copy stays in force{how}"
