"""Many pages, with a visitor that has no browser; the search for rules; the report."""

from __future__ import annotations

import json
import threading
import xml.etree.ElementTree
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from hushlist.tools.visit import visit_job
from hushlist.tools.visit.culprits import MOST_TRIES, find_culprits
from hushlist.tools.visit.filter_process import VisitError
from hushlist.tools.visit.page_verdict import Verdict
from hushlist.tools.visit.signals import RuleUse, Saved, Signal
from hushlist.tools.visit.visit_job import VisitJob, report_of, visit_pages
from hushlist.tools.visit.visit_page import html_page
from hushlist.tools.visit.visit_text import as_json, junit, page_text, report_text
from hushlist.tools.visit.visitor import PageResult, VisitOptions

HOSTILE = "https://a.example/?</script><img src=x onerror=alert(1)>"
BROKEN = (Signal("words", 0.9, ("river",)),)


def rule(line: int) -> RuleUse:
    return RuleUse("/list.txt", line, f"||h{line}.example^", f"h{line}.example/", ("https://x.example/",))


class Policies:
    """Those of a visitor: a policy is the lines of its exceptions."""

    def with_lists(self, exceptions: Any = ()) -> Any:
        return frozenset(each.line for each in exceptions)

    def exception_for(self, one: RuleUse) -> str:
        return f"@@{one.text}"


class FakeVisitor:
    """Knows what breaks its page: the lines of rules, and those that only fire once others have exceptions."""

    not_frozen = ""
    policies = Policies()
    opened: list[str]

    def __init__(self, options: VisitOptions | None = None, folder: Path | None = None) -> None:
        self.breaks: set[int] = set()
        self.later: dict[int, int] = {}
        self.tries = 0

    def __enter__(self) -> FakeVisitor:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def visit(self, address: str) -> PageResult:
        FakeVisitor.opened.append(address)
        if "gone" in address:
            return PageResult(address, Verdict.SUSPECT, failed="it is not in the recording")
        links = tuple(f"https://a.example/{n}#top" for n in range(5))
        return PageResult(address, Verdict.FINE, links=links)

    def visit_by(self, address: str, policy: Any) -> tuple[tuple[RuleUse, ...], tuple[Signal, ...]]:
        self.tries += 1
        fired = tuple(rule(then) for first, then in self.later.items() if first in policy)
        return fired, () if self.breaks <= policy else BROKEN

    def use_the_lists(self) -> None:
        pass


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VisitOptions:
    FakeVisitor.opened = []
    monkeypatch.setattr(visit_job, "Visitor", FakeVisitor)
    path = tmp_path / "list.txt"
    path.write_text("||ads.example^\n")
    return VisitOptions(((path, "adblock"),), folder=tmp_path / "visit")


# -- jobs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 3])
def test_a_crawl_visits_so_many_more_pages_each_once(options: VisitOptions, workers: int) -> None:
    report = visit_pages(VisitJob(options, ("https://a.example/0", "https://b.example/"), workers, crawl=2))
    assert len(report.pages) == len({page.address for page in report.pages}) == 6
    assert not any("#" in page.address for page in report.pages)


def test_a_run_goes_on_where_it_ended(options: VisitOptions) -> None:
    job = VisitJob(options, ("https://a.example/", "https://gone.example/"), resumes=True)
    first = visit_pages(job)
    told: list[tuple[int, int]] = []
    second = visit_pages(job, lambda result, done, total, left: told.append((done, total)))
    assert second.pages == first.pages
    assert FakeVisitor.opened.count("https://a.example/") == 1
    assert FakeVisitor.opened.count("https://gone.example/") == 2, "what failed is tried again"
    assert told == [(1, 2), (2, 2)]


def test_another_list_makes_results_anew(options: VisitOptions) -> None:
    job = VisitJob(options, ("https://a.example/",), resumes=True)
    visit_pages(job)
    options.lists[0][0].write_text("||other.example^\n")
    visit_pages(job)
    assert len(FakeVisitor.opened) == 2


def test_a_browser_that_cannot_be_started_ends_the_job(options: VisitOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise VisitError("there is no Chromium")

    monkeypatch.setattr(FakeVisitor, "__enter__", fail)
    with pytest.raises(VisitError, match="Chromium"):
        visit_pages(VisitJob(options, ("https://a.example/", "https://b.example/")))


def test_an_interruption_ends_it_after_the_page_at_hand(options: VisitOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the terminal does it: the main thread waits for the threads that visit."""

    def interrupted(future: Future[None], timeout: float | None = None) -> None:
        opened.wait(10)
        raise KeyboardInterrupt

    def end(pages: visit_job._Pages) -> None:
        give_out_no_more(pages)
        ended.set()

    def visit(visitor: FakeVisitor, address: str) -> PageResult:
        opened.set()
        ended.wait(10)
        return once(visitor, address)

    opened, ended, once = threading.Event(), threading.Event(), FakeVisitor.visit
    give_out_no_more = visit_job._Pages.end
    monkeypatch.setattr(visit_job._Pages, "end", end)
    monkeypatch.setattr(Future, "exception", interrupted)
    monkeypatch.setattr(FakeVisitor, "visit", visit)
    addresses = tuple(f"https://a{number}.example/" for number in range(5))
    with pytest.raises(KeyboardInterrupt):
        visit_pages(VisitJob(options, addresses, crawl=5))
    assert FakeVisitor.opened == [addresses[0]]


# -- rules -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("breaks", "later", "tries"), [({5}, {}, 12), ({2, 11}, {}, 18), ({3, 40}, {3: 40}, 18), ({1}, {}, 12)]
)
def test_the_fewest_rules_are_found(breaks: set[int], later: dict[int, int], tries: int) -> None:
    visitor = FakeVisitor()
    visitor.breaks, visitor.later = breaks, later
    result = PageResult("https://a.example/", Verdict.BROKEN, BROKEN, rules=tuple(map(rule, range(16))))
    found = find_culprits(visitor, result)  # type: ignore[arg-type]
    assert {one.line for one in found.culprits} == breaks
    assert [*found.exceptions] == [f"@@{one.text}" for one in found.culprits]
    assert found.tries == visitor.tries <= tries


@pytest.mark.parametrize(("rules", "why"), [(0, "no rule alone"), (4, "no rule alone"), (200, "visits")])
def test_it_is_said_where_no_rule_is_found(rules: int, why: str) -> None:
    visitor = FakeVisitor()
    visitor.breaks = {*range(0, 200, 2)} if rules == 200 else {-1}
    result = PageResult("https://a.example/", Verdict.BROKEN, BROKEN, rules=tuple(map(rule, range(rules))))
    found = find_culprits(visitor, result)  # type: ignore[arg-type]
    assert not found.exceptions
    assert why in found.unmended
    assert visitor.tries <= MOST_TRIES


def test_only_broken_pages_are_searched() -> None:
    result = PageResult("https://a.example/", Verdict.SUSPECT)
    assert find_culprits(FakeVisitor(), result) is result  # type: ignore[arg-type]


# -- reports -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def result() -> PageResult:
    saved = Saved((10, 6), (2000, 1000), (2.0, 1.0), (3, 1), (1, 0), (2, 0))
    own = rule(2)._replace(text=HOSTILE)
    return PageResult(
        *(HOSTILE, Verdict.BROKEN, BROKEN, saved, (own,), (1, 2), ("a.jpeg", "b.jpeg")),
        culprits=(own,),
        exceptions=(f"@@{HOSTILE}",),
        tries=4,
    )


def test_nothing_of_a_page_becomes_markup(result: PageResult, tmp_path: Path) -> None:
    for name in result.pictures:
        (tmp_path / name).write_bytes(b"RIFF")
    fine = PageResult("https://b.example/", Verdict.FINE)
    page = html_page(report_of([fine, result], ["list.txt"], "chromium", ["time"], 3.0), tmp_path)
    assert "<img src=x" not in page
    assert page.count("<script>") == 1
    assert page.index("a.example") < page.index("b.example"), "the most harmed first"
    assert page.count("data:image/jpeg;base64,UklGRg==") == 2


def test_pictures_that_are_gone_are_left_out(result: PageResult, tmp_path: Path) -> None:
    assert "data:image" not in html_page(report_of([result], ["list.txt"], "chromium", [], 3.0), tmp_path)


def test_junit_has_a_case_for_each_page(result: PageResult) -> None:
    failed = PageResult("https://c.example/", Verdict.SUSPECT, failed="no answer")
    fine = PageResult("https://b.example/", Verdict.FINE)
    root = xml.etree.ElementTree.fromstring(junit(report_of([fine, failed, result], [], "", [], 1.0), Verdict.BROKEN))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")
    assert {case.get("name") for case in root} == {HOSTILE, "https://b.example/", "https://c.example/"}


def test_json_and_text_tell_what_to_paste(result: PageResult) -> None:
    told = json.loads(json.dumps(as_json(report_of([result], ["list.txt"], "chromium", [], 3.0))))
    assert told["pages"] == {"fine": 0, "suspect": 0, "broken": 1, "failed": 0}
    assert told["results"][0]["exceptions"] == [f"@@{HOSTILE}"]
    assert f"        exception: @@{HOSTILE}" in [*page_text(result)]


def test_the_figures_in_all_are_told() -> None:
    saved = Saved((10, 4), (2000, 3000), seconds=(0, 0), third_parties=(4, 1), cookies=(0, 0), trackers=(2, 0))
    fine = PageResult("https://b.example/", Verdict.FINE, saved=saved, missing=(2, 3))
    assert [
        *report_text(report_of([fine, PageResult("https://c.example/", Verdict.BROKEN)], [], "", ["clock"], 3.2))
    ] == [
        "2 pages in 3 s: 1 fine, 0 suspect, 1 broken",
        "requests: 10 -> 4 (60% less)",
        "octets: 2,000 -> 3,000 (50% more)",
        "other sites: 4 -> 1 (75% less)",
        "trackers: 2 -> 0 (100% less)",
        "not in the recordings: 2 requests without the list, 3 with it",
        "not frozen: clock",
    ]
