"""The visit of pages: two browsers behind two filters, from one recording, and what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Self

from hushlist.core.system.files import replace_file
from hushlist.tools.visit.browser import BROWSERS, Browser
from hushlist.tools.visit.filter_process import FilterProcess, VisitError
from hushlist.tools.visit.page_actions import Action
from hushlist.tools.visit.page_verdict import Verdict, harm, verdict
from hushlist.tools.visit.signals import RuleUse, Saved, Signal, Visit, compare, rules_behind, saved, site_of
from hushlist.tools.visit.visit_policy import VisitPolicies

#: seconds for each part of a visit
PATIENCE = 20.0


class VisitOptions(NamedTuple):
    """What a visit is done with."""

    #: the lists, with their formats where these are given
    lists: tuple[tuple[Path, str | None], ...]
    policy: Path | None = None
    browser: str = "chromium"
    actions: tuple[Action, ...] = ()
    #: where recordings and results are kept
    folder: Path = Path("visit")
    #: one recording of all pages, which is played and never made
    recording: Path | None = None
    #: whether each visit goes to the net
    live: bool = False
    patience: float = PATIENCE


@dataclass(frozen=True, slots=True)
class PageResult:
    """What was seen of one page."""

    address: str
    verdict: Verdict
    signals: tuple[Signal, ...] = ()
    saved: Saved | None = None
    #: the rules that stopped something, and what
    rules: tuple[RuleUse, ...] = ()
    #: requests that the recording does not have: without the list, and with it
    missing: tuple[int, int] = (0, 0)
    #: pictures of both, as files in the folder
    pictures: tuple[str, str] = ("", "")
    #: what was not done as the script of actions says, and why the page could not be visited
    faults: tuple[str, ...] = ()
    failed: str = ""
    #: the fewest rules without which it is not broken, and the lines by which they make an exception
    culprits: tuple[RuleUse, ...] = ()
    exceptions: tuple[str, ...] = ()
    #: how often the page was opened to find them, and why there are none
    tries: int = 0
    unmended: str = ""
    #: where it leads on its own site
    links: tuple[str, ...] = ()

    @property
    def harm(self) -> float:
        return harm(self.signals)


class _Side:
    """A filter, and the browser behind it."""

    def __init__(self, filter_process: FilterProcess, browser: Browser) -> None:
        self.filter, self.browser = filter_process, browser

    def visit(self, address: str, actions: Sequence[Action], recording: Path | None) -> tuple[Visit, bytes]:
        if recording is not None:
            self.filter.play(recording)
        else:
            self.filter.record(None)
        seen = self.browser.visit(address, actions)
        picture: bytes = seen.pop("picture")
        return Visit(address, seen, self.filter.requests()), picture


class Visitor:
    """Two filters with their browsers, and a third that records; they run until the block ends."""

    def __init__(self, options: VisitOptions, folder: Path) -> None:
        """``folder`` takes what is of use only while it runs."""
        self.options = options
        self._folder, self._stack = folder, ExitStack()
        self.policies = VisitPolicies(_made(folder / "policies"), options.lists, options.policy)
        self._recorder: _Side | None = None
        self._pool = ThreadPoolExecutor(2)

    def __enter__(self) -> Self:
        try:
            started = [
                self._pool.submit(self._start, "without", self.policies.without()),
                self._pool.submit(self._start, "with", self.policies.with_lists()),
            ]
            _ = [future.exception() for future in started]  # both have ended before either is used, or given up
            self._without, self._with = (future.result() for future in started)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        self._stack.close()

    def _start(self, name: str, policy: Path | None) -> _Side:
        folder = _made(self._folder / name)
        plays = not self.options.live and policy is not None
        process = self._stack.enter_context(FilterProcess(folder, policy, plays=plays))
        kind = BROWSERS[self.options.browser]
        browser = self._stack.enter_context(kind(process.port, _made(folder / "profile"), self.options.patience))
        return _Side(process, browser)

    @property
    def not_frozen(self) -> str:
        """What of a page is not the same each time."""
        answers = "what sites answer: each visit goes to the net" if self.options.live else ""
        return "; ".join(filter(None, (answers, self._without.browser.not_frozen)))

    def recording_of(self, address: str) -> Path | None:
        """The recording of a page, which is made now if there is none; ``None`` where nothing is recorded."""
        if self.options.live or self.options.recording is not None:
            return self.options.recording
        folder = _made(self.options.folder / "recordings")
        path = folder / f"{name_of(address, self.options.actions)}.flow"
        if not path.exists():
            self._recorder = self._recorder or self._start("recorder", None)
            part = path.with_suffix(".part")
            part.unlink(missing_ok=True)
            self._recorder.filter.record(part)
            try:
                seen = self._recorder.browser.visit(address, self.options.actions)
                requests = self._recorder.filter.requests()
            finally:
                self._recorder.filter.record(None)
            if not _has_come(requests):
                raise VisitError(f"the page does not come: {_why(requests, seen['faults'])}")
            part.replace(path)
        return path

    def visit(self, address: str) -> PageResult:
        """Open a page with the list and without, and compare."""
        try:
            return self._visit(address)
        except VisitError as error:
            return PageResult(address, Verdict.SUSPECT, failed=str(error))

    def _visit_both(self, address: str) -> list[tuple[Visit, bytes]]:
        recording = self.recording_of(address)
        sides = (self._without, self._with)
        visits = [self._pool.submit(side.visit, address, self.options.actions, recording) for side in sides]
        return [visit.result() for visit in visits]

    def _visit(self, address: str) -> PageResult:
        (was, was_picture), (now, now_picture) = self._visit_both(address)
        if not _has_come(was.requests):
            why = _why(was.requests, was.seen["faults"]) if self.options.live else "it is not in the recording"
            raise VisitError(f"the page does not come without the list either: {why}")
        signals = compare(was, now)
        pictures = _made(self.options.folder / "pictures")
        names = []
        for name, picture in (("without", was_picture), ("with", now_picture)):
            ending = "jpeg" if picture[:2] == b"\xff\xd8" else "png"
            file = pictures / f"{name_of(address, self.options.actions)}-{name}.{ending}"
            replace_file(file, picture)
            names.append(f"pictures/{file.name}")
        return PageResult(
            address,
            verdict(signals),
            signals,
            saved(was, now),
            tuple(map(self.policies.as_written, rules_behind(now))),
            (_missing(was), _missing(now)),
            (names[0], names[1]),
            tuple(dict.fromkeys([*was.seen["faults"]])),
            links=tuple(link for link in dict.fromkeys(was.seen["links"]) if site_of(link) == site_of(address)),
        )

    def visit_by(self, address: str, policy: Path) -> tuple[tuple[RuleUse, ...], tuple[Signal, ...]]:
        """The rules that fire on a page by another policy with the lists, and what differs from none."""
        self._with.filter.use_policy(policy)
        (was, _), (now, _) = self._visit_both(address)
        return tuple(map(self.policies.as_written, rules_behind(now))), compare(was, now)

    def use_the_lists(self) -> None:
        """Go back to the lists as they are."""
        self._with.filter.use_policy(self.policies.with_lists())


def _has_come(requests: Sequence[Mapping[str, Any]]) -> bool:
    """Whether there was any answer of a site."""
    return any(request["status"] and not request["missing"] and not request["error"] for request in requests)


def _why(requests: Sequence[Mapping[str, Any]], faults: Sequence[str]) -> str:
    return (
        next((error for request in requests if (error := request["error"])), None)
        or "; ".join(faults)
        or "nothing was asked for"
    )


def _missing(visit: Visit) -> int:
    """How many addresses the recording does not have; a browser asks for a picture of the site by itself."""
    missing = {request["url"] for request in visit.requests if request["missing"]}
    return sum(not address.endswith("/favicon.ico") for address in missing)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def name_of(address: str, actions: Sequence[Action] = ()) -> str:
    """What the files of a page are called."""
    host = "".join(sign if sign.isalnum() else "-" for sign in address.partition("://")[2])[:60].strip("-")
    return f"{host}-{sha256(repr((address, tuple(actions))).encode()).hexdigest()[:10]}"
