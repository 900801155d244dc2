"""The report as one HTML page: what is in it, what cannot get out of its data, and how large it may be."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from hushlist.core.compile.stat_cache import load_engine
from hushlist.tools.audit.replay import audit_report
from hushlist.tools.audit.replay.audit_page import page_data, report_page
from hushlist.tools.audit.replay.partition import tallied_report
from hushlist.tools.audit.replay.report_details import add_details
from hushlist.tools.audit.replay.tally import AuditTally
from hushlist.tools.audit.report_codec import encode
from hushlist.tools.audit.sources.recorded_request import BrokenRecord, RecordedRequest, ResourceType
from unit.tools.audit.samples import ADS, AT_NOW, NOW, RECORDS, tally_of, write_policy

MADE = datetime(2026, 11, 21, 13, tzinfo=UTC)
#: what would leave an element, an attribute, a comment, a script or a template, if it could
HOSTILE = "</script><script>hacked()</script><!--<script> <img src=x onerror=hacked()> \" ' $script ]]> \u2028 \udcff"
VOID = {"meta", "link", "br", "wbr"}


class Page(HTMLParser):
    """A page's elements and their attributes, and the texts of some; fails where ends do not fit to starts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self.open[-2:]:
            self.texts[tag][-1] += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    @property
    def data(self) -> Any:
        return json.loads(self.texts["script"][0])


def report_of(folder: Path, policy: str = "policy.yaml", **files: str) -> audit_report.AuditReport:
    engine = load_engine(write_policy(folder, **files))
    hostile = RecordedRequest(
        b"http://ads.example/" + HOSTILE.encode("utf-8", "surrogateescape"), HOSTILE[:9], 1, ResourceType.SCRIPT
    )
    tally = tally_of(engine, [*RECORDS, hostile, BrokenRecord(HOSTILE[:9], 2, HOSTILE)], AT_NOW, {b"more.example": 1})
    digest = audit_report.PolicyDigest(policy, "d1", (audit_report.FileDigest("ads.yaml", "d2"),))
    made = tallied_report(
        tally, digest, audit_report.ReplayOptions(NOW), audit_report.PopularDomains("top.txt", "d3", 1), 2.0, 1
    )
    return add_details(made, engine, AT_NOW)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> audit_report.AuditReport:
    return report_of(tmp_path_factory.mktemp("report"))


def test_a_page_has_the_report_s_figures(report: audit_report.AuditReport) -> None:
    page = Page(report_page(report, MADE))
    data = page.data
    for name in ("policy", "records", "actions", "kinds", "slowest"):
        assert data[name] == json.loads(json.dumps(encode(getattr(report, name)))), name
    assert data["made"] == "2026-11-21T13:00:00+00:00"
    assert [[row[2], row[6]] for row in data["rules"]] == [[own.key.rule, own.hits.stopped] for own in report.rules]
    assert [data["lists"][row[0]]["source"] for row in data["rules"]] == [own.key.source for own in report.rules]
    sites = report.sites
    assert {row[0]: row[1] for row in data["sites"]} == dict(sites.requests.counts)
    assert {row[0]: row[2] for row in data["sites"] if row[2]} == dict(sites.stopped.counts)
    assert [row[0] for row in data["sites"]][: data["sites_stopped"]] == [name for name, _ in sites.stopped.counts]
    assert data["left_out"] == {}
    assert data["records_shown"].keys() == report.records_shown.keys()


def test_a_page_has_what_is_changed_and_what_was_not_recorded(report: audit_report.AuditReport) -> None:
    data = page_data(replace(report, changes={"a": 1, "b": 2}, doubts={"c": 3}), MADE)
    assert (data["changes"], data["doubts"]) == ([["b", 2], ["a", 1]], [["c", 3]])


def test_the_heading_says_what_was_found_to_those_whose_browser_runs_no_script(
    report: audit_report.AuditReport,
) -> None:
    page = Page(report_page(report, MADE))
    assert page.texts["title"] == ["Audit of policy.yaml: 73.3% of 15 requests stopped"]
    assert "11 of 15 requests would be stopped: 73.3%" in page.texts["noscript"][0]


def test_a_page_of_nothing_can_be_made(report: audit_report.AuditReport) -> None:
    nothing = tallied_report(AuditTally(), report.policy, report.options, None, 0.0, 1)
    assert Page(report_page(nothing, MADE)).data["records"] == 0


def test_a_page_s_structure_is_that_of_a_page_for_everyone(report: audit_report.AuditReport) -> None:
    text = report_page(report, MADE)
    assert text.startswith("<!doctype html>")
    page = Page(text)
    assert page.elements[0] == ("html", {"lang": "en"})
    tags = [tag for tag, _ in page.elements]
    for once in ("title", "h1", "main", "nav", "header", "footer", "noscript"):
        assert tags.count(once) == 1, once
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    skip = next(attributes for tag, attributes in page.elements if tag == "a")
    assert (skip["class"], (skip["href"] or "")[1:] in ids) == ("skip", True)


def test_a_page_loads_nothing_and_its_policy_lets_only_its_own_script_run(report: audit_report.AuditReport) -> None:
    page = Page(report_page(report, MADE))
    for tag, attributes in page.elements:
        assert not {"src", "srcset", "style", "action"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("href") or "#").startswith(("#", "data:image/svg+xml,")), tag
    assert "url(" not in page.texts["style"][0]
    assert "@import" not in page.texts["style"][0]
    own = {
        name: b64encode(sha256(text.encode()).digest()).decode()
        for name, text in (("style", page.texts["style"][0]), ("script", page.texts["script"][1]))
    }
    policy = next(own for tag, own in page.elements if tag == "meta" and "http-equiv" in own)["content"]
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{own['style']}'; script-src 'sha256-{own['script']}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert [attributes.get("type") for tag, attributes in page.elements if tag == "script"] == [
        "application/json",
        None,
    ]


def test_the_script_makes_no_markup_of_text(report: audit_report.AuditReport) -> None:
    script = Page(report_page(report, MADE)).texts["script"][1]
    for name in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "fetch(",
        "http:",
    ):
        assert name not in script.replace("http://www.w3.org/2000/svg", "")


def test_hostile_texts_stay_data(tmp_path: Path) -> None:
    quoted = json.dumps(HOSTILE[:-2])
    ads = f"title: {quoted}\nreason: {quoted}\n{ADS}"
    plain = Page(report_page(report_of(tmp_path), MADE))
    text = report_page(report_of(tmp_path, policy=HOSTILE, **{"ads.yaml": ads}), MADE)
    page = Page(text)
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    assert page.texts["script"][1] == plain.texts["script"][1]
    assert text.count("hacked()</script>") == 0
    assert page.data["policy"]["path"] == HOSTILE
    assert HOSTILE in [own["why"] for own in page.data["broken"]["first"]]
    assert HOSTILE[:-2] in [own.get("title") for own in page.data["lists"]]
    assert any(own["url"].endswith(HOSTILE) for own in page.data["records_shown"].values())


def test_a_page_is_utf_8_whatever_octets_are_in_urls(report: audit_report.AuditReport) -> None:
    odd = audit_report.PolicyDigest("\udcff\ud800\x1b[31m\u202e.yaml", "d1")
    page = Page(report_page(replace(report, policy=odd), MADE).encode().decode())
    assert r"\udcff\ud800\x1b[31m\u202e.yaml" in page.texts["title"][0]
    assert page.data["policy"]["path"] == odd.path


@pytest.mark.xdist_group("large report page")
class TestSize:
    @pytest.fixture(scope="class")
    def large(self, report: audit_report.AuditReport) -> audit_report.AuditReport:
        """A report of 30,000 rules and twice as many sites, with long URLs."""
        rule, first = report.rules[0], report.lists[0]
        record = report.records_shown[rule.example or ""]
        long = replace(record, url=record.url + b"?" + b"x" * 5000)
        sites = report.sites.requests._replace(counts=tuple((f"{number}.example", 1) for number in range(65_536)))
        facts = first.facts._replace(unused_first=(audit_report.UnusedRule(1, "a" * 120),) * 100_000)
        return replace(
            report,
            rules=tuple(
                rule._replace(
                    key=rule.key._replace(rule=f"{number}.example/", line=number),
                    example=f"{number:032}" if number < 5_000 else rule.example,
                )
                for number in range(30_000)
            ),
            records_shown=report.records_shown | {f"{number:032}": long for number in range(5_000)},
            sites=report.sites._replace(requests=sites),
            popular_domains=(audit_report.PopularUse("a" * 250, 1, 1),) * 20_000,
            lists=(first._replace(facts=facts), *report.lists[1:]),
        )

    @pytest.fixture(scope="class")
    def shown(self, large: audit_report.AuditReport) -> dict[str, Any]:
        return page_data(large, MADE)["records_shown"]

    @pytest.mark.slow
    def test_the_scripts_read_what_the_page_has(self, large: audit_report.AuditReport) -> None:
        folder = files("hushlist.tools.audit.replay").joinpath("web")
        script = "".join(one.read_text(encoding="utf-8") for one in folder.iterdir() if one.name.endswith(".js"))
        read, data = set(re.findall(r"\breport\.(\w+)", script)), page_data(large, MADE)
        assert read == {*data}
        assert set(re.findall(r"\breport\.left_out\.(\w+)", script)) >= {*data["left_out"]} - {"records_shown"}

    @pytest.mark.slow
    def test_a_page_stays_small_and_says_what_is_left_out(self, large: audit_report.AuditReport) -> None:
        text = report_page(large, MADE)
        assert len(text) < 12 << 20
        data = Page(text).data
        kept = {name: len(data[name]) for name in ("rules", "sites", "popular_domains", "records_shown")}
        left = data["left_out"]
        assert kept["rules"] == 10_000
        assert kept["rules"] + left["rules"] == data["rules_hit"] == 30_000
        assert kept["sites"] + left["sites"] >= 65_536
        assert kept["popular_domains"] < 10_000
        assert kept["popular_domains"] + left["popular_domains"] == 20_000
        explained = sum(own.explanation is not None for own in large.records_shown.values())
        assert kept["records_shown"] + left["records_shown"] == explained
        assert len(data["lists"][0]["unused_first"]) == 20
        assert {row[10] for row in data["rules"]} <= {None, *data["records_shown"]}

    @pytest.mark.slow
    def test_long_texts_are_cut_and_say_how_long_they_were(self, shown: dict[str, Any]) -> None:
        urls = [own["url"] for own in shown.values()]
        cut = [url for url in urls if len(url) > 2000]
        assert cut
        assert all(re.fullmatch(r".{2000}… \([0-9,]+ characters\)", url) for url in cut)

    def test_what_breaks_pages_is_explained_before_all_else(
        self, large: audit_report.AuditReport, shown: dict[str, Any]
    ) -> None:
        assert {key for own in large.breaks.values() for key in own.examples} <= shown.keys()

    @pytest.mark.slow
    def test_the_matrix_has_the_lists_that_overlap_most(self, large: audit_report.AuditReport) -> None:
        overlaps = tuple(audit_report.Overlap((place, place + 1), place) for place in range(0, 100, 2))
        assert page_data(replace(large, overlaps=overlaps), MADE)["matrix"] == list(range(70, 100))
