"""Many pages: by several visitors at once, on from where an earlier run ended, and further by a page's links."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hushlist.core.system.files import LONGEST_DOCUMENT, LONGEST_LIST, read_regular, replace_file, source_errors
from hushlist.tools.audit.report_codec import ReportError, decode, encode
from hushlist.tools.visit.culprits import find_culprits
from hushlist.tools.visit.visitor import PageResult, VisitOptions, Visitor, name_of

#: what is told of each page that is done: its result, how many are, of how many, and the seconds that are left
Progress = Callable[[PageResult, int, int, float], object]


class VisitJob(NamedTuple):
    """Pages, and how they are visited."""

    options: VisitOptions
    addresses: tuple[str, ...]
    workers: int = 1
    #: of each site, so many more pages that the visited ones lead to
    crawl: int = 0
    #: whether results of an earlier run with the same lists are taken
    resumes: bool = False
    #: whether the rules behind broken pages are looked for
    finds: bool = True


class VisitReport(NamedTuple):
    """The results of all pages, the most harmed first."""

    pages: tuple[PageResult, ...]
    lists: tuple[str, ...]
    browser: str
    not_frozen: str
    seconds: float


def key_of(options: VisitOptions) -> str:
    """What results depend on: the same for the same lists, policy, script and browser."""
    digest = sha256(repr((options.browser, options.actions, options.live, options.recording)).encode())
    for path in [*(path for path, _ in options.lists), *([options.policy] if options.policy else [])]:
        with source_errors(path, "visit"):
            digest.update(sha256(read_regular(path, LONGEST_LIST)).digest())
    return digest.hexdigest()[:16]


class _Pages:
    """What is still to be visited, and what is done; several threads share it."""

    def __init__(self, job: VisitJob, progress: Progress) -> None:
        self._progress = progress
        self._waiting = deque(dict.fromkeys(job.addresses))
        self._queued = set(self._waiting)
        self._more = dict.fromkeys(self._waiting, job.crawl)
        self._lock = threading.Condition()
        self._at_work = 0
        self._begun = time.monotonic()
        self._visited = 0
        self.done: list[PageResult] = []

    def next(self) -> str | None:
        """The next page, as soon as there is one; ``None`` when there will be none."""
        with self._lock:
            self._lock.wait_for(lambda: self._waiting or not self._at_work)
            if not self._waiting:
                return None
            self._at_work += 1
            return self._waiting.popleft()

    def end(self) -> None:
        """Give out no more pages."""
        with self._lock:
            self._waiting.clear()
            self._more.clear()
            self._lock.notify_all()

    def finish(self, result: PageResult | None, *, was_visited: bool = True) -> None:
        with self._lock:
            self._at_work -= 1
            self._lock.notify_all()
            if result is None:
                return
            self.done.append(result)
            self._visited += was_visited
            left = self._more.pop(result.address, 0)
            for link in result.links:
                link = link.partition("#")[0]
                if left and link not in self._queued and link.startswith(("http://", "https://")):
                    left -= 1
                    self._queued.add(link)
                    self._waiting.append(link)
            if left and self._waiting:  # a page may lead to fewer than it may
                self._more[self._waiting[-1]] = left
            total = len(self.done) + len(self._waiting) + self._at_work
            each = (time.monotonic() - self._begun) / max(1, self._visited)
            self._progress(result, len(self.done), total, each * (total - len(self.done)))


def visit_pages(job: VisitJob, progress: Progress = lambda *_: None) -> VisitReport:
    """Visit all pages, and report.

    Raises:
        SourceError: a list or the policy cannot be used.
        VisitError: no filter or browser can be started.
    """
    begun = time.monotonic()
    key, pages = key_of(job.options), _Pages(job, progress)
    workers = max(1, min(job.workers, len(job.addresses) * (1 + job.crawl)))
    not_frozen: list[str] = []

    def work(folder: Path) -> None:
        visitor: Visitor | None = None
        try:
            while (address := pages.next()) is not None:
                result = None
                try:
                    result = kept(job.options, key, address) if job.resumes else None
                    was_kept = result is not None
                    if result is None:
                        if visitor is None:
                            folder.mkdir()
                            visitor = Visitor(job.options, folder).__enter__()
                            not_frozen.append(visitor.not_frozen)
                        result = visitor.visit(address)
                        result = find_culprits(visitor, result) if job.finds else result
                        keep(job.options, key, result)
                finally:
                    pages.finish(result, was_visited=not was_kept if result is not None else False)
        finally:
            if visitor is not None:
                visitor.__exit__()

    with TemporaryDirectory(prefix="hushlist-visit-") as name, ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(work, Path(name) / str(number)) for number in range(workers)]
        try:
            errors = [error for future in running if (error := future.exception()) is not None]
        except BaseException:  # an interruption: what is done is kept, and the pages at hand are the last
            pages.end()
            raise
    if errors:
        raise errors[0]
    lists = tuple(str(path) for path, _ in job.options.lists)
    return report_of(pages.done, lists, job.options.browser, not_frozen, time.monotonic() - begun)


def report_of(
    pages: Iterable[PageResult], lists: Sequence[str], browser: str, not_frozen: Sequence[str], seconds: float
) -> VisitReport:
    """The report of results, wherever they were made."""
    ordered = tuple(sorted(pages, key=lambda page: (-page.harm, page.address)))
    return VisitReport(ordered, tuple(lists), browser, next(iter(not_frozen), ""), round(seconds, 1))


def visit_partition(
    options: VisitOptions, addresses: Sequence[str], *, resumes: bool = False
) -> tuple[PageResult, ...]:
    """The results of some pages: what each machine of a cluster does, as ``audit_partition`` for recorded requests."""
    return visit_pages(VisitJob(options, tuple(addresses), resumes=resumes)).pages


# -- results that are kept ---------------------------------------------------------------------------------------------


def _place(options: VisitOptions, key: str, address: str) -> Path:
    return options.folder / "results" / f"{name_of(address, options.actions)}-{key}.json"


def keep(options: VisitOptions, key: str, result: PageResult) -> None:
    """Write a result to the folder; one that has failed is tried again."""
    if not result.failed:
        place = _place(options, key, result.address)
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_file(place, json.dumps(encode(result)).encode())


def kept(options: VisitOptions, key: str, address: str) -> PageResult | None:
    """The result of an earlier run."""
    try:
        return decode(PageResult, json.loads(read_regular(_place(options, key, address), LONGEST_DOCUMENT)))
    except (OSError, ValueError, ReportError):
        return None
