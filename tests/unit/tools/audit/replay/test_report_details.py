"""Rules that never fired, explanations, and what decided."""

from __future__ import annotations

import gzip
from hashlib import sha256
from pathlib import Path

import pytest

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.engine import Engine
from hushlist.core.match.expressions import full_hash
from hushlist.core.url.hashed_uri import HashedUri, HashKey
from hushlist.tools.audit.replay import report_details
from hushlist.tools.audit.replay.audit_report import AuditReport, ListFacts, ReplayOptions, UnusedRule
from hushlist.tools.audit.replay.partition import tallied_report
from hushlist.tools.audit.replay.report_details import add_details, digest_policy, explain_record
from hushlist.tools.audit.report_codec import encode
from hushlist.tools.audit.sources.recorded_request import RecordedRequest, ResourceType
from unit.rows import each_row
from unit.tools.audit.samples import AT_NOW, NOW, RECORDS, tally_of, write_policy


def report_of(engine: Engine, records: list[RecordedRequest], unused: int = 10) -> AuditReport:
    policy = digest_policy(Path(engine.policy.source), engine.policy)
    report = tallied_report(tally_of(engine, [*records]), policy, ReplayOptions(NOW), None, 0.0, 1)
    return add_details(report, engine, AT_NOW, unused)


def facts(engine: Engine, records: list[RecordedRequest], unused: int = 10) -> dict[str, ListFacts]:
    return {Path(own.key.source).name: own.facts for own in report_of(engine, records, unused).lists}


def test_the_first_rules_that_never_fired_are_named_with_their_lines(engine: Engine) -> None:
    assert facts(engine, RECORDS) == {
        "own.yaml": ListFacts(None, 1, 1),
        "ads.yaml": ListFacts(None, 6, 5, (UnusedRule(7, "- never.example"),)),
        "more.domains": ListFacts(None, 3, 2, (UnusedRule(3, "unused.example"),)),
    }


def test_of_many_the_first_are_named(tmp_path: Path) -> None:
    names = [f"h{number}.example" for number in range(5000)]
    engine = load_engine(write_policy(tmp_path, **{"more.domains": "\n".join(names)}))
    state = facts(engine, [RecordedRequest(b"http://h1.example/")], unused=3)["more.domains"]
    assert (state.rules, state.fired) == (5000, 1)
    assert state.unused_first == (UnusedRule(1, "h0.example"), UnusedRule(3, "h2.example"), UnusedRule(4, "h3.example"))


def test_rules_of_every_kind_are_known_again(tmp_path: Path) -> None:
    uri = HashedUri(HashKey("sha1", "n", False, True), bytes.fromhex("87ed28009f511ed7ef630180a229ba257180a481"))
    digest = full_hash(b"hash.example/").hex()
    rules = [f"sha256: '{digest}'", f"sha256: '{digest[:10]}'", "address: 10.0.0.0/8", f"'{uri}'", "clear.example"]
    rules += [f"{{expression: 'http://clear.example/{page}', match: syntax}}" for page in ("%7Ex", "y")]
    text = "rules:\n" + "".join(f"- {rule}\n" for rule in rules)
    policy = "layers:\n- {name: lists, lists: [ads.yaml]}\n"
    engine = load_engine(write_policy(tmp_path, policy, **{"ads.yaml": text}))
    urls = [b"http://hash.example/", b"http://10.1.2.3/", b"http://clear.example/", b"http://clear.example/~x"]
    state = facts(engine, [RecordedRequest(url) for url in urls])["ads.yaml"]
    assert (state.rules, state.fired) == (7, 5)
    assert [own.line for own in state.unused_first] == [5, 8]


def test_a_line_with_several_rules_has_fired_where_one_has(tmp_path: Path) -> None:
    policy = "layers:\n- {name: lists, lists: [urls]}\n"
    engine = load_engine(write_policy(tmp_path, policy, urls="h.example/en\nother.example/en\n"))
    for path in (b"/en", b"/en/x"):  # the page, and the folder of that name
        state = facts(engine, [RecordedRequest(b"http://h.example" + path)])["urls"]
        assert (state.rules, state.fired) == (4, 2)
        assert [own.line for own in state.unused_first] == [2]


@pytest.mark.parametrize("name", ["l.adblock", "l.adblock.gz"])
def test_filters_are_named_as_they_are_written_and_have_fired(tmp_path: Path, name: str) -> None:
    text = b"! a comment\n||ads.example^$third-party\n||never.example^$script\n||host.example^\n"
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    engine = load_engine(write_policy(tmp_path, f"layers: [{{name: l, lists: [{{file: {name}, format: adblock}}]}}]"))
    urls = (b"http://ads.example/x.js", b"http://host.example/")
    records = [RecordedRequest(url, "s", 1, ResourceType.SCRIPT, b"http://h.example/") for url in urls]
    assert facts(engine, records)[name] == ListFacts(None, 3, 2, (UnusedRule(3, "||never.example^$script"),))
    made = report_of(engine, records)
    shown = {use.key.line: use.shown for use in made.rules}
    assert shown == {2: "||ads.example^$third-party", 4: "||host.example^"}


def test_an_explanation_has_the_decision_and_every_step_to_it(engine: Engine, tmp_path: Path) -> None:
    found = explain_record(engine, RecordedRequest(b"http://me:secret@www.both.example/%61?#f"), AT_NOW)
    decision = found.decision
    assert decision.winner
    assert (decision.action, decision.url) == ("block", b"http://www.both.example/a?")
    assert (decision.winner.rule.terms.source, decision.winner.rule.line) == (str(tmp_path / "ads.yaml"), 4)
    assert [own.text for own in decision.matches] == ["both.example/", "both.example/"]
    (form,) = found.forms
    expressions = {own.expression: own.sha256 for own in form.expressions}
    assert expressions["both.example/"] == full_hash(b"both.example/").hex()
    assert "secret" not in repr(found)
    assert encode(found) == {**decision.as_dict(), "forms": [encode(form)]}


def test_an_explanation_of_what_cannot_be_read_says_why(engine: Engine) -> None:
    decision, forms = explain_record(engine, RecordedRequest(b"http:///"), AT_NOW)
    assert (decision.action, decision.fault, forms) == ("block", "it names no host", ())


def test_a_policy_s_digest_changes_with_each_of_its_files(tmp_path: Path) -> None:
    path = write_policy(tmp_path)
    before = digest_policy(path, load_engine(path).policy)
    assert {own.source: own.digest for own in before.lists} == {
        str(tmp_path / name): sha256((tmp_path / name).read_bytes()).hexdigest()
        for name in ("own.yaml", "ads.yaml", "more.domains")
    }
    write_policy(tmp_path, **{"more.domains": "other.example\n"})
    assert digest_policy(path, load_engine(path).policy).digest != before.digest


@each_row(
    ("rule", "digests"),
    [
        ("sha256:00ff", [bytes([0, 255])]),
        ("sealed:00ff", [bytes([0, 255])]),
        ("hashed:p:x-sha256=00ff+host", [bytes([0, 255])]),
        ("http://h.example/a (match: string)", [full_hash(b"http://h.example/a")]),
        ("h.example/a", [full_hash(b"h.example/a"), full_hash(b"h.example/a/")]),
        ("h.example/a/", [full_hash(b"h.example/a/"), full_hash(b"h.example/a")]),
        ("sha256", [full_hash(b"sha256"), full_hash(b"sha256/")]),
    ],
)
def test_a_rule_has_the_keys_that_the_index_has_of_it(rule: str, digests: list[bytes]) -> None:
    assert [*report_details._digests_of(rule)] == digests
