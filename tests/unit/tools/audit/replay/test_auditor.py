"""What a record counts for."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.engine import Engine
from hushlist.core.match.public_suffixes import public_suffixes
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import NOBODY, Client
from hushlist.core.url.request import Request
from hushlist.tools.audit.replay.audit_report import recorded, shown_record
from hushlist.tools.audit.replay.auditor import Auditor, ReplayMoment
from hushlist.tools.audit.replay.report_details import explain_record
from hushlist.tools.audit.replay.tally import MOST_EXAMPLES, POPULAR, Hits, ListKey, RuleKey, SourceCount
from hushlist.tools.audit.sites import host_of_url, page_name
from hushlist.tools.audit.sources.recorded_request import (
    HIDDEN,
    BrokenRecord,
    RecordedRequest,
    ResourceType,
    SkippedRecord,
)
from unit.tools.audit.samples import AT_NOW, NOW, RECORDS, tally_of, write_policy


def key(folder: Path, name: str) -> ListKey:
    return ListKey(Path(name).stem, str(folder / name))


def test_every_record_counts_for_its_decision_kind_and_site(engine: Engine) -> None:
    tally = tally_of(engine, [*RECORDS])
    assert tally.actions == {"pass": 2, "allow": 1, "tag": 1, "block": 10}
    assert tally.kinds == Counter(record.kind.value for record in RECORDS)
    assert tally.records == len(RECORDS)
    assert tally.stopped_kinds == {"script": 4, "style": 1, "document": 1, "frame": 1, "image": 1, "unknown": 2}
    assert tally.faults == {"it names no host": 1}
    assert dict(tally.sites.result().counts) == {
        "page.example": 4, "ads.example": 3, "both.example": 2, "more.example": 2, "clean.example": 1,
        "tagged.example": 1,
    }  # fmt: skip
    assert dict(tally.stopped_sites.result().counts) == {
        "page.example": 3,
        "ads.example": 2,
        "both.example": 2,
        "more.example": 2,
    }


def test_lists_categories_and_rules_are_told_apart_by_what_they_do(engine: Engine, tmp_path: Path) -> None:
    tally = tally_of(engine, [*RECORDS])
    ads, more, own = (key(tmp_path, name) for name in ("ads.yaml", "more.domains", "own.yaml"))
    assert tally.hits_of(ListKey) == {
        own: Hits(fits=1, decided=1),
        ads: Hits(fits=9, decided=8, stopped=7, alone=5, breaks=3),
        more: Hits(fits=4, decided=2, stopped=2, alone=4 - 2),
    }
    assert tally.overlaps == {(ads, more): 2}
    assert tally.hits["hrn://c.example/ads"] == tally.hits[ads]
    assert tally.hits[RuleKey(*ads, 3, "ads.example/")] == Hits(fits=3, decided=2, stopped=2, alone=2)
    assert tally.hits[RuleKey(*ads, 4, "both.example/")] == Hits(fits=2, decided=2, stopped=2, breaks=1)
    assert tally.hits[RuleKey(*more, 1, "both.example/")] == Hits(fits=2)
    assert {rule.rule for rule in tally.rule_categories} == {
        "ads.example/", "both.example/", "page.example/own.js", "page.example/own.css", "tagged.example/",
    }  # fmt: skip


def test_a_document_and_a_page_s_own_scripts_and_styles_break_it_when_they_are_stopped(engine: Engine) -> None:
    tally = tally_of(engine, [*RECORDS])
    assert tally.breaks == {"document": 1, "script": 1, "style": 1}
    assert dict(tally.broken_sites.result().counts) == {"page.example": 2, "both.example": 1}
    assert [record.number for record in tally.break_examples["script"]] == [2]


@pytest.mark.parametrize(
    ("url", "kind", "page", "role"),
    [
        (b"https://js.stripe.com/v3/", ResourceType.SCRIPT, b"https://me@shop.example/cart?id=1", "payment"),
        (b"https://m.stripe.com/v3/", ResourceType.SCRIPT, b"https://shop.example/cart", None),  # not in the table
        (b"https://www.youtube.com/embed/1", ResourceType.FRAME, b"https://shop.example/cart", "player"),
        (b"https://www.youtube.com/embed/1", ResourceType.FRAME, b"https://www.youtube.com/", None),  # its own page
        (b"https://www.youtube.com/", ResourceType.DOCUMENT, b"https://shop.example/cart", None),  # a link was followed
        (b"https://www.youtube.com/embed/1", ResourceType.FRAME, None, None),  # nobody can tell
        (b"https://www.google.com/maps/embed", ResourceType.FRAME, b"https://shop.example/cart", None),  # it passes
    ],
)
def test_what_is_stopped_of_other_sites_counts_by_its_role_and_list(
    tmp_path: Path, url: bytes, kind: ResourceType, page: bytes | None, role: str | None
) -> None:
    engine = load_engine(write_policy(tmp_path, **{"more.domains": "stripe.com\nyoutube.com\n"}))
    tally = tally_of(engine, [RecordedRequest(url, "s", number, kind, page) for number in (1, 2)])
    of_list = role and (role, key(tmp_path, "more.domains"))
    assert tally.parties == ({of_list: 2} if of_list else {})
    assert {name: dict(own.result().counts) for name, own in tally.party_pages.items()} == (
        {of_list: {page_name(page or b""): 2}} if of_list else {}
    )
    assert [record.number for record in tally.other_examples[of_list]] == ([1, 2] if of_list else [])


def test_popular_domains_count_what_is_stopped_at_or_below_them(engine: Engine) -> None:
    popular = {b"www.page.example": 3, b"page.example": 2, b"more.example": 1, b"clean.example": 4}
    tally = tally_of(engine, [*RECORDS], popular=popular)
    assert tally.popular == {"page.example": 3, "more.example": 2}
    assert tally.hits[next(rule for rule in tally.hits_of(RuleKey) if rule.rule == "more.example/")].popular == 2
    assert len(tally.break_examples[POPULAR]) == 5


@pytest.mark.parametrize("url", [b"data:text/css,x", b"BLOB:http://h.example/1", b"chrome://new-tab", b"about:blank"])
def test_what_no_proxy_is_asked_for_is_skipped(engine: Engine, url: bytes) -> None:
    tally = tally_of(engine, [RecordedRequest(url), SkippedRecord("s", 2), BrokenRecord("s", 3, "why")])
    assert tally.sources == {"s": SourceCount("s", "urls", records=0, broken=1, skipped=2)}
    assert tally.records == 0


def test_a_host_that_is_called_as_a_local_scheme_is_asked_for(engine: Engine) -> None:
    assert tally_of(engine, [RecordedRequest(b"http://data:80/"), RecordedRequest(b"localhost:80/")]).records == 2


def test_examples_tell_no_user_information(engine: Engine) -> None:
    tally = tally_of(engine, [*RECORDS])
    shown = [record.url for key in tally.hits for record in tally.examples_of(key)[key]]
    assert b"secret" not in b"".join(shown)
    assert b"http://***@more.example/" in shown


def test_the_slowest_decisions_are_kept_once_for_each_url(engine: Engine) -> None:
    tally = tally_of(engine, [*RECORDS, *RECORDS])
    assert len(tally.slowest) == len({record.request for record in RECORDS})
    assert [own.microseconds for own in tally.slowest] == sorted(
        (own.microseconds for own in tally.slowest), reverse=True
    )


def test_a_request_by_several_names_is_decided_by_all(engine: Engine) -> None:
    request = Request(b"http", (b"clean.example", b"ads.example"), 80, b"/")
    tally = tally_of(engine, [RecordedRequest(request)])
    assert tally.actions == {"block": 1}
    assert dict(tally.stopped_sites.result().counts) == {"ads.example": 1}


SCHEDULED = """
timezone: UTC
schedules: {night: {times: '20:00-06:00'}}
layers:
- {name: own, lists: [own.yaml]}
- {name: lists, lists: [ads.yaml, {file: more.domains, format: domains}], during: night}
groups:
- {name: guests, clients: [10.0.0.0/8], layers: [own]}
"""


def test_a_record_counts_as_of_its_own_time_and_client_only_where_that_is_asked_for(tmp_path: Path) -> None:
    engine = load_engine(write_policy(tmp_path, SCHEDULED))
    night = datetime(2026, 11, 21, 23, tzinfo=UTC).timestamp()
    records = [
        RecordedRequest(b"http://ads.example/", "s", 1, time=night),
        RecordedRequest(b"http://ads.example/", "s", 2, time=night, client=Client("10.1.1.1")),
        RecordedRequest(b"http://ads.example/", "s", 3),
    ]
    assert tally_of(engine, [*records]).actions == {"pass": 3}
    assert tally_of(engine, [*records], ReplayMoment(NOW, NOBODY, as_recorded=True)).actions == {"block": 1, "pass": 2}
    later = ReplayMoment(NOW.replace(hour=23), Client("10.2.2.2"), as_recorded=True)
    assert tally_of(engine, [*records], later).actions == {"pass": 3}


@pytest.mark.parametrize("most", ["_MOST_URLS", "_MOST_HOSTS", "_MOST_EFFECTS", "_MOST_CASES"])
def test_what_is_forgotten_is_counted_all_the_same(engine: Engine, most: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"hushlist.tools.audit.replay.auditor.{most}", 2)
    found = Auditor(engine, AT_NOW).add([*RECORDS, *RECORDS], "s", "urls")
    plain = tally_of(engine, [*RECORDS, *RECORDS])
    found.slowest = plain.slowest = []
    assert found == plain


HOSTS = (
    b"a.page.example", b"A.page.example", b"ads.example", b"ads.example.", b"1.2.3.4", b"0x1", b"[::1]", b"a..b",
    b"a_b.example:80", b"more.example:99999", b"x" * 300, b"h%2e.example",
)  # fmt: skip
URLS = [
    b"".join(parts)
    for parts in product(
        (b"http://", b"https://", b"HTTP:", b"//", b"http://u@"),
        HOSTS,
        (b"", b"/", b"/a/../b", b"\\\\x", b"?q", b"#f", b"/;p/%41", b":1", b"\t/"),
    )
]


def test_every_request_counts_for_the_site_of_its_canonical_url(engine: Engine) -> None:
    tally = tally_of(engine, [RecordedRequest(url) for url in URLS])
    hosts = [host_of_url(engine.decide_url(url, NOW).url) for url in URLS]
    sites = Counter(public_suffixes().registrable_domain(host).decode() for host in hosts if host is not None)
    assert dict(tally.sites.result().counts) == sites


def test_examples_are_the_fitting_requests_with_the_smallest_hashes(engine: Engine, tmp_path: Path) -> None:
    records = [RecordedRequest(b"http://%d.ads.example/" % number, "s", number) for number in range(3 * MOST_EXAMPLES)]
    tally = tally_of(engine, [*records])
    by_hash = sorted(records, key=lambda record: record.ranked[0])
    ads = key(tmp_path, "ads.yaml")
    assert tally.other_examples[ads] == by_hash[:MOST_EXAMPLES]
    assert tally.rule_examples[RuleKey(*ads, 3, "ads.example/")] == by_hash[:1]


@pytest.mark.parametrize(
    ("url", "host"), [(b"http://H.example:8/x", b"h.example"), (b"//[::1]/", b"[::1]"), (b"/", None)]
)
def test_a_url_s_host_is_canonical(url: bytes, host: bytes | None) -> None:
    assert host_of_url(url) == host


def test_a_request_is_decided_for_the_page_and_type_that_were_recorded(tmp_path: Path) -> None:
    (tmp_path / "l.adblock").write_text("||ads.example^$third-party\n/banner.$image,domain=news.example\n")
    (tmp_path / "policy.yaml").write_text("layers: [{name: l, lists: [l.adblock]}]")
    engine = load_engine(tmp_path / "policy.yaml")
    ads, banner = b"https://ads.example/x", b"https://cdn.example/banner.1"
    news, own = b"https://www.news.example/", b"https://www.ads.example/"
    image, script = ResourceType.IMAGE, ResourceType.SCRIPT
    records = [
        *(RecordedRequest(ads, kind=script, page=page) for page in (news, own, None)),
        *(RecordedRequest(banner, kind=kind, page=news) for kind in (image, script)),
        *(RecordedRequest(banner, kind=image, page=page) for page in (own, None)),
        RecordedRequest(ads, kind=ResourceType.DOCUMENT, page=news),
    ]
    records = [record._replace(number=number) for number, record in enumerate(records)]
    tally = tally_of(engine, records)
    assert tally.actions == {"block": 2, "pass": 6}
    assert tally.stopped_kinds == {"script": 1, "image": 1}
    for record, is_blocked in ((records[0], True), (records[1], False), (records[3], True), (records[4], False)):
        explained = explain_record(engine, recorded(shown_record(record)), AT_NOW)
        assert (explained.decision.action is Action.BLOCK) is is_blocked


@pytest.mark.parametrize("userinfo", [None, b"", b"me:pw"])
def test_what_a_report_shows_is_the_record_but_for_who_signed_in(userinfo: bytes | None) -> None:
    asked = Request(b"https", (b"a.example", b"b.example"), 8443, b"/x?y", b"z", userinfo, "odd")
    page, client = b"https://news.example/", Client("10.0.0.7", "jo", 8080)
    place = "s", 7, ResourceType.SCRIPT, page, 1e9, client, "POST", 204
    shown = recorded(shown_record(RecordedRequest(b"https://a.example/", *place)._replace(request=asked)))
    assert shown == RecordedRequest(b"https://a.example/", *place)._replace(
        request=asked._replace(userinfo=None if userinfo is None else HIDDEN, context=shown.context)
    )


def test_a_recorded_flow_is_decided_by_its_headers(tmp_path: Path) -> None:
    (tmp_path / "l.adblock").write_text("||ads.example^$third-party\n")
    (tmp_path / "policy.yaml").write_text("layers: [{name: l, lists: [l.adblock]}]")
    sites = (b"cross-site", b"same-site")
    requests = [Request(b"https", (b"ads.example",), 443, b"/", fields=((b"Sec-Fetch-Site", site),)) for site in sites]
    tally = tally_of(load_engine(tmp_path / "policy.yaml"), [RecordedRequest(asked) for asked in requests])
    assert tally.actions == {"block": 1, "pass": 1}


FILES = """
files:
- {content: program, reason: No programs}
- {listed: true}
- {endings: exe, for: upload}
heads: [{status: 404, block: true}]
layers: [{name: own, lists: [{file: bad.txt, format: file-hashes}, own.yaml]}]
"""


def test_recorded_answers_and_uploads_are_judged_by_rules_for_files_hashes_and_heads(tmp_path: Path) -> None:
    bad = "ab" * 32
    path = write_policy(tmp_path, FILES, **{"bad.txt": bad})
    seen = [
        ({"status": "200", "content": "program", "hash": "00" * 32},),
        ({"status": "200", "content": "text", "hash": f"{'00' * 16},{bad}"},),
        ({"status": "404", "content": "text", "hash": "00" * 32},),
        (
            {"status": "200", "content": "text", "hash": "00" * 32},
            {"for": "upload", "content": "text", "name": "a.exe"},
        ),
        ({"status": "200", "content": "text", "hash": "00" * 32}, {"for": "upload", "content": "text"}),
        ({"for": "download", "status": "200"},),
        (),
    ]
    records = [RecordedRequest(b"http://h.example/%d" % at, seen=each) for at, each in enumerate(seen)]
    engine = load_engine(path)
    tally = tally_of(engine, [*records])
    assert tally.actions == {"block": 4, "pass": 3}
    rules = [(rule.line, rule.rule) for rule, hits in tally.hits_of(RuleKey).items() if hits.stopped]
    assert rules == [
        (3, "file: content program"),
        (1, f"sha256.files.invalid/{bad}"),
        (6, "head of an answer"),
        (5, "file: ending exe"),
    ]
    assert tally.doubts == {f"{path}:{line} depends on the file itself (--file)": 1 for line in (3, 4)}
    shown = recorded(shown_record(records[0]))
    assert explain_record(engine, shown, AT_NOW).decision.action is Action.BLOCK


HEADS = """
heads:
- {remove: [Set-Cookie]}
- {for: request, sites: h.example, set: {User-Agent: a}}
- {types: text/html, add: {X-A: b}}
- {status: 404, block: true}
layers: []
"""


def test_requests_of_which_rules_change_a_head_are_counted_once_each(tmp_path: Path) -> None:
    path = write_policy(tmp_path, HEADS)
    html = {"for": "download", "status": "200", "media-type": "text/html", "fields": "date"}
    seen = [
        (html | {"fields": "date,set-cookie"}, {"for": "upload", "media-type": "text/html"}),
        (html,),
        ({"for": "download", "status": "200", "fields": "set_cookie"},),
        ({"for": "download", "status": "404", "fields": "set-cookie"},),
        (),
    ]
    hosts = [b"h.example", b"other.example", b"h.example", b"h.example", b"h.example"]
    records = [RecordedRequest(b"http://%b/" % host, seen=each) for host, each in zip(hosts, seen, strict=True)]
    tally = tally_of(load_engine(path), [*records])
    assert tally.actions == {"block": 1, "pass": 4}
    unsure = "depends on the answer's media type (--media-type)"
    assert tally.changes == {
        f"{path}:3 answer, remove set-cookie": 2,
        f"{path}:4 request, set User-Agent: a": 2,
        f"{path}:5 answer, add X-A: b": 2,
        f"{path}:5 answer, add X-A: b {unsure}": 1,
    }
