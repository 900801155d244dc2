"""What an allowed page needs passes, and nothing else does: by the addon, request by request."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import http

from hushlist.core.decide import known_hosts
from hushlist.core.lists.yaml_rules import read_yaml
from hushlist.extensions.needs import page_needs
from hushlist.extensions.needs.page_needs import MOST_PAGES, PageNeeds
from hushlist.extensions.unblock.unblock_handler import overrides_of
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.runtime import Runtime
from support.flows import flow_of
from support.mitmproxied import mitmproxied
from support.policies import read_whole, write_policy
from support.readings import read_list
from unit.rows import each_row

LISTS = {
    "block.yaml": "rules: [ads.example/, {address: 203.0.113.0/24}, mixed.example/bad/]\n",
    "allow.yaml": "rules: [{expression: exam.example/, action: allow}]\n",
    "plain.yaml": "rules: [{expression: plain.example/, action: allow}]\n",
}
POLICY = """default: block
layers:
- {{name: blocked, lists: [block.yaml]}}
- {{name: exam, lists: [allow.yaml], with: {way}}}
- {{name: plain, lists: [plain.yaml]}}
"""
PAGE = "https://exam.example/"


@pytest.fixture
def proxy(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Hushlist]:
    addon = Hushlist()
    way = getattr(request, "param", "needs")
    with mitmproxied(addon, write_policy(tmp_path, POLICY.format(way=way), LISTS)):
        yield addon


def is_passed(proxy: Hushlist, url: str, page: str = "", kind: str = "", content: str = "", **more: Any) -> bool:
    """Whether a request passes; its answer has a media type."""
    headers = {"Referer": page, "Sec_Fetch_Dest": kind}
    user = more.pop("user", None)
    flow = flow_of(url, **{name: value for name, value in headers.items() if value}, **more)
    if user is not None:
        flow.metadata["proxyauth"] = (user, "")

    assert proxy.requestheaders(flow) is None  # it waits for nobody
    if flow.response is not None:
        return False
    flow.response = http.Response.make(200, b"", {"Content-Type": content} if content else {})
    proxy.responseheaders(flow)
    return True


def load(proxy: Hushlist, page: str = PAGE, **more: Any) -> None:
    assert is_passed(proxy, page, kind="document", content="text/html; charset=utf-8", **more)


def test_what_a_page_needs_passes_once_it_was_sent(proxy: Hushlist) -> None:
    assert not is_passed(proxy, "https://cdn.example/a.js", PAGE, "script")
    load(proxy)
    assert is_passed(proxy, "https://cdn.example/a.js", PAGE, "script")
    assert is_passed(proxy, "http://cdn.example/a.js", PAGE)  # plain http has no Sec-Fetch
    assert is_passed(proxy, "https://api.example/x", kind="empty", Origin="https://exam.example")
    part = proxy.runtime.part(PageNeeds)
    assert part is not None


@pytest.mark.slow
@each_row(
    ("url", "more"),
    [
        ("https://cdn.example/", {"kind": "document"}),
        ("https://cdn.example/", {"kind": "iframe"}),
        ("https://cdn.example/", {"kind": "object"}),
        ("http://cdn.example/", {"Accept": "text/html,*/*"}),
        ("https://ads.example/a.js", {"kind": "script"}),
        ("https://203.0.113.9/a.js", {"kind": "script"}),
        ("https://mixed.example/bad/a.js", {"kind": "script"}),
        ("https://mixed.example/x/../bad/a.js", {"kind": "script"}),
        ("https://cdn.example/a.js", {"kind": "script", "client": "10.0.0.9"}),
        ("https://cdn.example/a.js", {"kind": "script", "page": ""}),
        ("https://cdn.example/a.js", {"kind": "script", "page": "https://plain.example/"}),
        ("https://cdn.example/a.js", {"kind": "script", "page": "https://other.example/"}),
        ("https://translate.google.com/translate?u=https://ads.example/", {"kind": "empty"}),
        ("https://cdn.example/a.js", {"kind": "script", "Host": "ads.example"}),
    ],
)
def test_nothing_else_passes(tmp_path_factory: pytest.TempPathFactory, url: str, more: dict[str, Any]) -> None:
    addon = Hushlist()
    with mitmproxied(addon, write_policy(tmp_path_factory.mktemp("needs"), POLICY.format(way="needs"), LISTS)):
        load(addon)
        load(addon, "https://plain.example/")
        assert not is_passed(addon, url, **{"page": PAGE, **more})


@pytest.mark.parametrize("proxy", ["needs-and-frames"], indirect=True)
def test_frames_pass_by_choice_and_documents_never(proxy: Hushlist) -> None:
    load(proxy)
    assert is_passed(proxy, "https://frame.example/", PAGE, "iframe", content="text/html")
    assert is_passed(proxy, "https://cdn.example/a.js", "https://frame.example/", "script")
    assert not is_passed(proxy, "https://frame.example/", PAGE, "document")


def test_one_rule_may_say_it_for_itself(tmp_path: Path) -> None:
    rules = "{expression: %s.example/, action: allow%s}"
    texts = ", ".join(
        rules % each for each in (("exam", ", with: needs"), ("plain", ""), ("wide", ", with: needs-and-frames"))
    )
    schedule = "default: {action: block, during: always}\nschedules: {always: {days: mon-sun}}\n"
    policy = f"{schedule}layers: [{{name: a, lists: [a.yaml]}}]\n"
    addon = Hushlist()
    with mitmproxied(addon, write_policy(tmp_path, policy, {"a.yaml": f"rules: [{texts}]\n"})):
        for name, kind, passes in (
            ("plain", "script", False),
            ("exam", "script", True),
            ("exam", "iframe", False),
            ("wide", "iframe", True),
        ):
            page = f"https://{name}.example/"
            load(addon, page)
            assert is_passed(addon, "https://cdn.example/a", page, kind) is passes


@each_row(
    ("who", "group", "passes"),
    [
        ({"user": "ann"}, "teachers", True),
        ({"user": "bea"}, "teachers", False),  # who has not got the page
        ({"user": "jo"}, "default", False),
        ({}, "default", False),
    ],
)
def test_a_page_needs_something_for_whom_its_rule_is_and_while_it_is(
    tmp_path_factory: pytest.TempPathFactory, who: dict[str, str], group: str, passes: bool
) -> None:
    policy = """default: block
schedules: {lessons: {days: mon-fri, times: 08:00-13:00}}
timezone: UTC
layers: [{name: a, lists: [a.yaml]}]
groups: [{name: teachers, users: [ann, bea]}]
"""
    rule = "{expression: exam.example/, action: allow, with: needs, for: [teachers], during: lessons}"
    addon, script = Hushlist(), "https://cdn.example/a.js"
    with (
        pytest.MonkeyPatch.context() as patch,
        mitmproxied(addon, write_policy(tmp_path_factory.mktemp(group), policy, {"a.yaml": f"rules: [{rule}]\n"})),
    ):

        class Moment(datetime):
            hour_now = 9

            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Moment:
                return cls(2026, 3, 2, cls.hour_now, tzinfo=tz)

        patch.setattr(known_hosts, "datetime", Moment)
        load(addon, user="ann")
        assert is_passed(addon, script, PAGE, "script", **who) is passes
        Moment.hour_now = 14
        assert not is_passed(addon, script, PAGE, "script", **who)


def test_a_style_sheet_loads_its_fonts_and_no_chain_goes_on_for_ever(proxy: Hushlist) -> None:
    load(proxy)
    before = PAGE
    for number, passes in enumerate((True, True, True, False)):
        url = f"https://c{number}.example/"
        assert is_passed(proxy, f"{url}x.css", before, "style", content="text/css") is passes
        before = url


def test_a_page_is_forgotten_in_time_and_by_another_policy(proxy: Hushlist, monkeypatch: pytest.MonkeyPatch) -> None:
    load(proxy)
    monkeypatch.setattr(page_needs, "LIFE", -1.0)
    assert not is_passed(proxy, "https://cdn.example/a.js", PAGE, "script")
    monkeypatch.setattr(page_needs, "LIFE", 600.0)
    assert is_passed(proxy, "https://cdn.example/a.js", PAGE, "script")
    part, engine = proxy.runtime.part(PageNeeds), proxy.runtime.engine
    assert part is not None
    assert engine is not None
    part.follow(engine.policy)
    assert not is_passed(proxy, "https://cdn.example/a.js", PAGE, "script")


def test_a_client_fills_no_memory(proxy: Hushlist) -> None:
    load(proxy)
    for number in range(MOST_PAGES):
        load(proxy, f"https://h{number}.exam.example/")
    assert not is_passed(proxy, "https://cdn.example/a.js", PAGE, "script")
    assert is_passed(proxy, "https://cdn.example/a.js", f"https://h{MOST_PAGES - 1}.exam.example/", "script")


def test_an_answer_that_is_no_page_needs_nothing(proxy: Hushlist) -> None:
    assert is_passed(proxy, PAGE, content="application/json")
    assert not is_passed(proxy, "https://cdn.example/a.js", PAGE, "script")


def test_the_decision_names_the_page_and_its_rule(proxy: Hushlist) -> None:
    load(proxy)
    flow = flow_of("https://cdn.example/a.js", Referer=PAGE, Sec_Fetch_Dest="script")
    assert proxy.requestheaders(flow) is None
    assert "needed by exam.example" in str(flow.metadata)
    assert "allow.yaml" in str(flow.metadata)


def test_the_key_is_checked(tmp_path: Path) -> None:
    _, errors = read_whole(tmp_path, "layers:\n- name: a\n  with: everything\n")
    assert errors == ["3: with: everything: expected one of needs, needs-and-frames"]
    rules = "rules: [{expression: a.example, action: warn, with: needs}, {expression: a.example, with: 7}]\n"
    _, errors, _ = read_list(read_yaml, rules, source="a.yaml")
    assert errors == [
        "a.yaml:1: with: only a rule that allows has pages that load something",
        "a.yaml:1: with: 7: expected one of needs, needs-and-frames",
    ]


SITE_POLICY = """
layers:
- {name: blocked, lists: [block.yaml]}
- {name: checks, checks: {well-known-port: block}}
"""
SHOP = "https://shop.example/"


@pytest.mark.slow
@each_row(
    ("url", "more", "passes"),
    [
        ("https://ads.example/a.js", {"kind": "script"}, True),
        ("http://ads.example/a.js", {}, True),
        ("https://mixed.example/bad/a.png", {"kind": "image"}, True),
        ("https://ads.example/", {"kind": "document"}, False),
        ("https://ads.example/", {"kind": "iframe"}, False),
        ("https://ads.example/a.js", {"kind": "script", "page": ""}, False),
        ("https://ads.example/a.js", {"kind": "script", "page": "https://other.example/"}, False),
        ("https://ads.example/a.js", {"kind": "script", "client": "10.0.0.9"}, False),
        ("https://ads.example:22/a.js", {"kind": "script"}, False),
        ("https://closed.example/a.js", {"kind": "script"}, False),
    ],
)
def test_a_site_is_unblocked_with_what_it_loads(
    tmp_path_factory: pytest.TempPathFactory, url: str, more: dict[str, Any], passes: bool
) -> None:
    addon = Hushlist()
    with mitmproxied(addon, write_policy(tmp_path_factory.mktemp("site"), SITE_POLICY, LISTS)):
        overrides = overrides_of(addon.runtime)
        assert overrides is not None
        overrides.block("host", "closed.example", 60.0, by="jo")
        load(addon, SHOP)
        asking = {"page": SHOP, **more}
        assert not is_passed(addon, url, **asking)  # the site was not blocked, and is not unblocked
        grant = overrides.grant("site", "shop.example", 60.0, client="127.0.0.1", how="code", by="jo")
        load(addon, SHOP)
        assert is_passed(addon, url, **asking) is passes
        overrides.revoke(grant.id, by="jo")
        assert not is_passed(addon, url, **asking)


def test_a_policy_without_unblocking_goes_by_no_grant_and_one_with_it_does_at_once(tmp_path: Path) -> None:
    runtime = Runtime()
    for extensions, is_there in ((("built-in",), True), (("needs",), False), (("needs", "unblock"), True)):
        runtime.parts.follow(read_whole(tmp_path, "layers: [{name: own}]")[0]._replace(extensions=extensions))
        needs = runtime.part(PageNeeds)
        assert needs is not None
        assert (needs._unblocks is not None) is is_there
    runtime.close()
