"""Which rules a broader rule covers."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from random import Random

import pytest

from hushlist.core.decide.decision import decide
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.rule import Action, Expression, ExpressionHash, Rule, Terms
from hushlist.core.match.rule_match import Match
from hushlist.core.match.sorted_runs import Stored, unspill
from hushlist.core.url.parts import Parts
from hushlist.tools.audit import shadowed
from hushlist.tools.audit.shadowed import Candidates, Shadowed, find_shadowed, store_candidates
from support.engines import index_of, rules_of
from unit.core.match.plain_index import PlainIndex, canonical, without_duplicates
from unit.rows import each_row


def candidates_of(rules: Iterable[Rule], layer: str, folder: Path | None = None) -> list[Candidates]:
    stored, of_layer = list[Stored](), [rule for rule in rules if rule.terms.layer == layer]
    assert [*store_candidates(of_layer, stored, folder)] == of_layer
    return [*chain.from_iterable(map(unspill, stored))]


def covers(rules: Sequence[Rule], layer: str = "") -> list[tuple[str, str]]:
    """``(what is covered, by what)``."""
    found: Iterable[tuple[Shadowed, Match]] = find_shadowed(index_of(rules), layer, candidates_of(rules, layer))
    return [(expression.decode(), match.text) for (expression, _, _), match in found]


HASH = full_hash(b"h.example/").hex()


@each_row(
    ("rules", "expected"),
    [
        # a host below a host, a path below a host, a page in a folder, a query of a page
        ("h.example, www.h.example", [("www.h.example/", "h.example/")]),
        ("h.example, a.b.c.d.e.f.g.h.example", [("a.b.c.d.e.f.g.h.example/", "h.example/")]),
        ("h.example, h.example/a", [("h.example/a", "h.example/")]),
        ("h.example, www.h.example/a/b?q", [("www.h.example/a/b?q", "h.example/")]),
        ("h.example/a/, h.example/a/b", [("h.example/a/b", "h.example/a/")]),
        ("h.example/a/, h.example/a/b/", [("h.example/a/b/", "h.example/a/")]),
        ("h.example/a/, h.example/a/1/2/3/4/5/6", [("h.example/a/1/2/3/4/5/6", "h.example/a/")]),
        ("h.example/a, h.example/a?q", [("h.example/a?q", "h.example/a")]),
        ("h.example/a/, h.example/a/?q", [("h.example/a/?q", "h.example/a/")]),
        ("h.example, 'h.example/?q'", [("h.example/?q", "h.example/")]),
        ("h.example/a/, www.h.example/a/b", [("www.h.example/a/b", "h.example/a/")]),
        ("1.2.3.4, 1.2.3.4/a", [("1.2.3.4/a", "1.2.3.4/")]),
        # the next broader one is told
        ("h.example, h.example/a/, h.example/a/b", [("h.example/a/", "h.example/"), ("h.example/a/b", "h.example/a/")]),
        # what is not below
        ("www.h.example, h.example", [("www.h.example/", "h.example/")]),
        ("h.example, otherh.example", []),
        ("h.example/a, h.example/a/b", []),
        ("h.example/a, h.example/ab", []),
        ("h.example/a/, h.example/a", []),
        ("h.example/a?q, h.example/a?r", []),
        ("h.example/a?q, h.example/a", [("h.example/a?q", "h.example/a")]),
        ("h.example/a/, www.h.example", []),
        ("www.h.example/, h.example/a", []),
        ("1.2.3.4, 9.1.2.3.4.example", []),
        ("2.3.4, 1.2.3.4", []),
        # rules for top-level names are not looked at
        ("example, h.example, www.i.example", []),
        # the same expression is no cover of itself
        ("h.example, h.example", []),
        ("h.example/a, h.example/a", []),
        ("h.example, {expression: h.example, reason: other}", []),
        # rules that are not in the clear
        (f"{{sha256: {HASH}}}, www.h.example, h.example/a", []),
        (f"{{sha256: {HASH[:8]}}}, www.h.example", []),
        ("{address: 1.0.0.0/8}, 1.2.3.4, 1.2.3.4/a", [("1.2.3.4/a", "1.2.3.4/")]),
        # other actions
        ("{expression: h.example, action: allow}, www.h.example", []),
        ("{expression: h.example, action: tag}, www.h.example", []),
        ("h.example, {expression: www.h.example, action: tag}", []),
        ("{expression: h.example, action: tag}, {expression: www.h.example, action: tag}", []),
        ("h.example, {expression: www.h.example, action: allow}, a.www.h.example", []),
        (
            "h.example, {expression: www.h.example, action: tag}, a.www.h.example",
            [("a.www.h.example/", "h.example/")],
        ),
        (
            "{expression: h.example, action: allow}, {expression: h.example/a, action: allow}",
            [("h.example/a", "h.example/")],
        ),
        # rules that will expire
        ("{expression: h.example, expires: 2026-12-31}, www.h.example", []),
        ("h.example, {expression: www.h.example, expires: 2026-12-31}", [("www.h.example/", "h.example/")]),
        ("h.example, {expression: www.h.example, action: allow, expires: 2026-12-31}, a.www.h.example", []),
        # in between, a rule that does something else for some of what the narrower one fits
        ("h.example, {expression: h.example/a, action: allow}, www.h.example", []),
        ("h.example, {expression: h.example/a/b, action: allow}, www.h.example/a/", []),
        ("h.example, {expression: www.h.example/a, action: allow}, a.www.h.example", []),
        (
            "h.example, {expression: h.example/a/b, action: allow}, h.example/a/",
            [("h.example/a/", "h.example/")],
        ),
        (
            "h.example, {expression: example/a, action: allow}, www.h.example",
            [("www.h.example/", "h.example/")],
        ),
        (
            f"h.example/, {{sha256: {full_hash(b'h.example/a/').hex()}, action: allow}}, h.example/a/b",
            [],
        ),
        (
            f"h.example/, {{sha256: {full_hash(b'h.example/a/').hex()}, action: allow}}, www.h.example",
            [],
        ),
        # at the same expression, an allowance keeps what would be blocked without it
        (
            "{expression: h.example, action: allow}, {expression: h.example/a, action: allow}, h.example/a",
            [],
        ),
        (
            "{expression: h.example, action: allow}, {expression: www.h.example, action: allow}, www.h.example",
            [],
        ),
        (
            f"{{expression: h.example, action: allow}}, {{expression: h.example/a, action: allow}},"
            f"{{sha256: {full_hash(b'h.example/a').hex()[:8]}}}",
            [],
        ),
    ],
)  # fmt: skip
def test_which_rule_covers_which(rules: str, expected: list[tuple[str, str]]) -> None:
    assert covers(rules_of(f"rules: [{rules}]")) == expected


def test_a_rule_of_another_layer_covers_nothing() -> None:
    rules = [*rules_of("rules: [h.example]", layer="first"), *rules_of("rules: [www.h.example]", layer="second")]
    assert covers(rules, "first") == covers(rules, "second") == []


HOSTS = (b"b.c", b"a.b.c", b"x.a.b.c")
PATHS = (b"/", b"/p/", b"/p/q", b"/p/q?r", b"/p/q/r/s/t/u")
QUERIES = [
    canonical(b"http://" + host + path) for host in (*HOSTS, b"y.x.a.b.c") for path in (*PATHS, b"/p/z", b"/z?q")
]
NOW = datetime(2026, 12, 31, tzinfo=UTC)
LATER = datetime(2027, 1, 1, tzinfo=UTC)


def actions(rules: Sequence[Rule], asked: Sequence[Parts] = QUERIES) -> list[Action]:
    """What is done with each request, on each day, but for tags."""
    plain = PlainIndex(rules)
    found = [(plain.find(parts), now) for parts in asked for now in (NOW, LATER)]
    holding = ([match for match in own if match.rule.terms.holds_at(now)] for own, now in found)
    layers = ("first", "second")
    return [
        action if action is not Action.TAG else Action.PASS
        for action in (decide(layers, own).action for own in holding)
    ]


#: enough for the test to fail when one of the conditions is left out
ROUNDS = 40


def some_rules(dice: Random, final: Sequence[Action]) -> list[Rule]:
    """Rules of few words, so that many are below each other."""
    rules = []
    for line in range(1, 9):
        text = dice.choice(HOSTS) + dice.choice(PATHS)
        pattern = Expression(text) if dice.random() < 0.8 else ExpressionHash(full_hash(text))
        expires = NOW.date() if dice.random() < 0.1 else None
        action, layer = dice.choice((*final, *final, Action.TAG)), dice.choice(("first", *("second",) * 4))
        rules.append(Rule(pattern, Terms(action, "list", "file", expires=expires, layer=layer), line))
    return without_duplicates(rules)


@pytest.mark.slow
@pytest.mark.parametrize(
    "final", [(Action.BLOCK,), (Action.BLOCK, Action.ALLOW), (Action.BLOCK, Action.BLOCK, Action.BLOCK, Action.ALLOW)]
)
def test_without_a_covered_rule_every_request_is_decided_as_before(final: tuple[Action, ...]) -> None:
    dice, told = Random(1), 0
    for _ in range(ROUNDS):
        rules = some_rules(dice, final)
        before = actions(rules)
        for layer in ("first", "second"):
            for (_, line, _), _ in find_shadowed(index_of(rules), layer, candidates_of(rules, layer)):
                told += 1
                assert actions([rule for rule in rules if rule.line != line]) == before
    assert told > ROUNDS // 5, "hardly any rule was covered"


# -- beside a search that is slow and obvious --------------------------------------------------------------------------


TERMS = Terms(Action.BLOCK, "list", "file")


def test_candidates_in_several_batches_are_compared_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["h.example", "h.example/a", *(f"a{number}.h.example" for number in range(9))]
    names += [f"h.example/a/{number}/?q" for number in range(9)]
    rules = [Rule(Expression(f"{name}/".replace("//", "/").encode()), TERMS, 1) for name in names]
    found = covers(rules)
    assert len(found) == 19
    monkeypatch.setattr(shadowed, "MOST_OCTETS", 100)
    assert covers(rules) == found


def test_many_candidates_are_put_into_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = rules_of(
        "rules: [example, h.example, www.h.example, h.example/x, {address: 10.0.0.0/8}, {sha256: '01020304'},"
        " {expression: a.h.example, category: ads}, b.h.example, {expression: c.h.example, action: allow}]"
    )
    hosts = [[b"www.h.example/", b"h.example/x"], [b"a.h.example/"], [b"b.h.example/"], [b"c.h.example/"]]
    assert [candidates.expressions for candidates in candidates_of(rules, "")] == hosts
    assert [candidates.category for candidates in candidates_of(rules, "")] == [
        None,
        "hrn://hushlist.example/web/ads",
        None,
        None,
    ]
    monkeypatch.setattr(shadowed, "MOST_IN_MEMORY", 2)
    assert [candidates.expressions for candidates in candidates_of(rules, "", tmp_path)] == hosts
    assert len([*tmp_path.iterdir()]) == 3
