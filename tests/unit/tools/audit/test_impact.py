"""What changes about requests, and why; and that a plain loop of two engines finds the same."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.decision import STOPPING
from hushlist.core.decide.engine import Engine
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.policy.groups import NOBODY, Client
from hushlist.tools.audit.diff_job import side_of_list
from hushlist.tools.audit.impact import (
    CauseImpact,
    EffectImpact,
    Impact,
    ImpactCounter,
    ImpactEffect,
    ImpactReport,
    impact_text,
    report_impact,
)
from hushlist.tools.audit.replay.auditor import ReplayMoment
from hushlist.tools.audit.sources.recorded_request import BrokenRecord, RecordedRequest
from unit.rows import each_row
from unit.tools.audit.samples import AT_NOW, NOW


def engine(folder: Path, name: str, text: str) -> Engine:
    """Of a list alone."""
    path = folder / f"{name}.yaml"
    path.write_text(text)
    compiled = compile_policy(
        side_of_list(path, "yaml", ListDefaults()).policy, cache=IndexCache(folder / "cache"), jobs=1
    )
    return Engine(compiled.policy, compiled.index)


def impact(folder: Path, old: str, new: str, *urls: str) -> Impact:
    comparer = ImpactCounter(engine(folder, "old", old), engine(folder, "new", new), AT_NOW)
    return comparer.add([RecordedRequest(url.encode(), "s", number) for number, url in enumerate(urls, 1)], "s", "urls")


URL = "http://www.a.example/x"
BLOCK = "rules: [a.example]"
REASON = "rules: [{expression: a.example, reason: why}]"
WARN = "rules: [{expression: a.example, action: warn}]"
TAG = "rules: [{expression: a.example, action: tag}]"
ALLOW = "rules: [{expression: a.example, action: allow}]"
HOST = "rules: [www.a.example]"
NONE = "rules: []"


@each_row(
    ("old", "new", "effect", "change"),
    [
        (NONE, BLOCK, ImpactEffect.BLOCKED, "added"),
        (TAG, BLOCK, ImpactEffect.BLOCKED, "changed"),
        (NONE, WARN, ImpactEffect.WARNED, "added"),
        (BLOCK, NONE, ImpactEffect.PASSED, "removed"),
        (WARN, NONE, ImpactEffect.PASSED, "removed"),
        (BLOCK, ALLOW, ImpactEffect.PASSED, "changed"),
        (WARN, BLOCK, ImpactEffect.HARDER, "changed"),
        (BLOCK, WARN, ImpactEffect.SOFTER, "changed"),
        (NONE, ALLOW, ImpactEffect.OTHER_RULE, "added"),
        (BLOCK, REASON, ImpactEffect.OTHER_RULE, "changed"),
        (HOST, BLOCK, ImpactEffect.OTHER_RULE, "added"),
        (NONE, TAG, ImpactEffect.TAGS, "added"),
        (TAG, NONE, ImpactEffect.TAGS, "removed"),
    ],
)
def test_every_effect_has_its_cause(tmp_path: Path, old: str, new: str, effect: ImpactEffect, change: str) -> None:
    found = impact(tmp_path, old, new, URL, URL, "http://other.example/")
    assert found.effects == {effect: 2}
    assert found.effects.keys() <= {
        *("newly blocked", "newly warned of", "newly passed", "blocked instead of warned of"),
        *("warned of instead of blocked", "another rule decides", "tags only"),
    }
    ((own, cause),) = found.causes
    assert (own, cause.kind) == (effect, change)
    assert (cause.new is None) is (change == "removed")
    assert found.requests == 3
    assert found.changed == (0 if effect in (ImpactEffect.OTHER_RULE, ImpactEffect.TAGS) else 2)
    assert found.sites[effect].result().counts == (("a.example", 2),)
    assert [record.request for record in found.effect_examples[effect]] == [URL.encode()] * 2


def test_a_rule_elsewhere_in_a_list_changes_nothing(tmp_path: Path) -> None:
    assert impact(tmp_path, BLOCK, "rules:\n- z.example\n- a.example\n", URL).effects == {}


def test_the_rule_that_stops_no_longer_is_named_though_another_decides_now(tmp_path: Path) -> None:
    old, new = "rules: [www.a.example, {expression: a.example, action: allow}]", ALLOW
    ((effect, cause),) = impact(tmp_path, old, new, URL).causes
    assert effect is ImpactEffect.PASSED
    assert (cause.kind, cause.old and cause.old.rule, cause.new) == ("removed", "www.a.example/", None)


def test_a_policy_that_is_another_is_a_cause(tmp_path: Path) -> None:
    (tmp_path / "l.yaml").write_text("rules: [{expression: a.example, category: 'hrn://c.example/x'}]")
    policies = []
    for name, more in (("old", ""), ("new", "categories: {'hrn://c.example/x': pass}\n")):
        (tmp_path / name).write_text(f"layers: [{{name: l, lists: [l.yaml]}}]\n{more}")
        policies.append(load_engine(tmp_path / name))
    found = ImpactCounter(*policies, AT_NOW).add([RecordedRequest(URL.encode())], "s", "urls")
    assert found.effects == {ImpactEffect.PASSED: 1}
    assert [cause.kind for _, cause in found.causes] == [None]


def test_requests_are_decided_for_whom_and_when_they_were_recorded(tmp_path: Path) -> None:
    expired = "rules: [{expression: a.example, expires: 2026-01-01}]"
    engines = engine(tmp_path, "old", NONE), engine(tmp_path, "new", expired)
    records = [RecordedRequest(URL.encode(), "s", 1, time=float(seconds)) for seconds in (0, NOW.timestamp())]
    found = ImpactCounter(*engines, ReplayMoment(NOW, Client(), as_recorded=True)).add(records, "s", "urls")
    assert found.effects == {ImpactEffect.BLOCKED: 1}
    assert ImpactCounter(*engines, ReplayMoment(NOW, NOBODY)).add(records, "s", "urls").effects == {}


def test_requests_are_decided_for_the_page_that_was_recorded(tmp_path: Path) -> None:
    policies = []
    for name, text in (("old", "||a.example^$third-party"), ("new", "||a.example^$~third-party")):
        (tmp_path / f"{name}.adblock").write_text(text)
        (tmp_path / name).write_text(f"layers: [{{name: l, lists: [{name}.adblock]}}]")
        policies.append(load_engine(tmp_path / name))
    pages = (b"https://a.example/", b"https://news.example/", b"https://shop.example/", None)
    records = [RecordedRequest(URL.encode(), "s", number, page=page) for number, page in enumerate(pages)]
    found = ImpactCounter(*policies, AT_NOW).add(records, "s", "urls")
    assert found.effects == {ImpactEffect.BLOCKED: 1, ImpactEffect.PASSED: 2}


def test_what_is_no_request_counts_apart(tmp_path: Path) -> None:
    comparer = ImpactCounter(engine(tmp_path, "old", NONE), engine(tmp_path, "new", BLOCK), AT_NOW)
    found = comparer.add(
        [RecordedRequest(b"data:,x"), BrokenRecord("s", 2, "why"), RecordedRequest(URL.encode())], "s", "urls"
    )
    count = found.sources["s"]
    assert (count.records, count.skipped, count.broken) == (1, 1, 1)
    assert [str(broken) for broken in found.broken] == ["s:2: why"]


_RULES = st.lists(
    st.tuples(
        st.sampled_from(["a.example", "b.a.example", "b.a.example/x/", "a.example/x/y?q", "c.example"]),
        st.sampled_from(["block", "warn", "tag", "allow"]),
    ),
    max_size=6,
).map(lambda rules: f"rules: [{', '.join(f'{{expression: {own!r}, action: {action}}}' for own, action in rules)}]")
_URLS = st.lists(
    st.sampled_from(["a.example/", "b.a.example/x/y?q", "a.example/x/y?q", "c.example/x/", "d.example/", "/"]),
    max_size=8,
)


@settings(deadline=None)
@given(_RULES, _RULES, _URLS, st.integers(0, 8))
def test_a_plain_loop_finds_the_same_in_whatever_pieces(old: str, new: str, urls: list[str], cut: int) -> None:
    with TemporaryDirectory() as name:
        engines = engine(Path(name), "old", old), engine(Path(name), "new", new)
        records = [RecordedRequest(f"http://{url}".encode(), "s", number) for number, url in enumerate(urls, 1)]
        whole = ImpactCounter(*engines, AT_NOW).add(records, "s", "urls")
        merged = ImpactCounter(*engines, AT_NOW).add(records[cut:], "s", "urls")
        merged.merge(ImpactCounter(*engines, AT_NOW).add(records[:cut], "s", "urls"))
        done: Counter[tuple[object, object]] = Counter()
        for record in records:
            actions = [own.decide_url(record.url, NOW).action for own in engines]
            done[tuple(action if action in STOPPING else None for action in actions)] += 1  # type: ignore[index]
    changed = sum(number for (before, after), number in done.items() if before is not after)
    assert whole.changed == changed
    assert whole.effects[ImpactEffect.BLOCKED] == done[None, "block"]
    assert whole.effects[ImpactEffect.PASSED] == done["block", None] + done["warn", None]
    assert whole.causes.total() == whole.effects.total() == sum(own.total() for own in _counters(whole))
    assert whole == merged


def _counters(found: Impact) -> list[Counter[str]]:
    return [Counter(dict(own.result().counts)) for own in found.sites.values()]


def test_of_several_rules_that_came_or_went_the_one_that_decides_is_named(tmp_path: Path) -> None:
    both = "rules: [{expression: www.a.example, action: tag}, a.example, {expression: example, action: tag}]"
    for old, new, kind in ((NONE, both, "added"), (both, NONE, "removed")):
        ((_, cause),) = impact(tmp_path, old, new, URL).causes
        changed = cause.new or cause.old
        assert changed is not None
        assert (cause.kind, changed.rule) == (kind, "a.example/")


def test_the_report_for_a_person_names_effects_sites_and_rules(tmp_path: Path) -> None:
    old, new = engine(tmp_path, "old", NONE), engine(tmp_path, "new", BLOCK)
    found = ImpactCounter(old, new, AT_NOW).add(
        [RecordedRequest(b"http://%d.a.example/" % number, "s", number) for number in range(1, 4)]
        + [BrokenRecord("s", number, "why") for number in range(4, 16)]
        + [RecordedRequest(b"http://other.example/", "s", 16)],
        "s",
        "urls",
    )
    assert [*impact_text(report_impact(found, old, new, AT_NOW, 1))] == [
        "Another thing is done with 3 of 4 requests (75.00%)",
        "  records that are broken: 12",
        *(f"    s:{number}: why" for number in range(4, 14)),
        "    and 2 more",
        "",
        "newly blocked: 3 (75.00%)",
        "  sites: a.example 3",
        f"  3 by + {tmp_path / 'new.yaml'}:1: a.example/",
        "      http://2.a.example/ (s:2)",
        "        old: pass: no rule fits",
        f"        new: block: a.example/ by new ({tmp_path / 'new.yaml'}:1)",
    ]


def test_of_many_sites_and_rules_the_first_are_named(tmp_path: Path) -> None:
    old = engine(tmp_path, "old", "rules: [{expression: c.example, action: warn}]")
    new = engine(tmp_path, "new", "rules: [a.example, b.example, c.example]")
    urls = [b"http://a.example/", b"http://a.example/", b"http://b.example/", b"http://c.example/"]
    found = ImpactCounter(old, new, AT_NOW).add(map(RecordedRequest, urls), "s", "urls")
    text = [*impact_text(report_impact(found, old, new, AT_NOW, 1))]
    assert "  sites: a.example 2 and 1 more" in text
    assert "  and by 1 more" in text
    assert f"  1 by ~ {tmp_path / 'new.yaml'}:1: c.example/, where {tmp_path / 'old.yaml'}:1 had c.example/" in text


def test_the_policy_itself_may_be_the_cause(tmp_path: Path) -> None:
    report = CauseImpact(1, "policy", None, None, None)
    effect = EffectImpact(ImpactEffect.PASSED, 1, (("", 1),), 1, [report], 1, [])
    text = [*impact_text(ImpactReport(0, 0, {}, [], [effect]))]
    assert text == [
        "Another thing is done with 0 of 0 requests",
        "",
        f"{ImpactEffect.PASSED}: 1",
        "  sites: (none) 1",
        "  1 by the policy itself: no rule has changed that fits",
    ]
