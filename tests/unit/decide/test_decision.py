"""From matches to a decision."""

import json
from itertools import permutations

import pytest

from hushlist.decide.decision import Decision, decide, strictest
from hushlist.match.index_writer import index_of
from hushlist.match.rule import Action
from hushlist.url.safebrowsing import SAFEBROWSING
from unit.hostile import rules_of

URL = b"http://www.h.example/a/b?q"


def decision_of(*layers: str) -> Decision:
    """The decision for URL by layers, each the YAML of a list's rules."""
    parts = SAFEBROWSING.apply(SAFEBROWSING.parse(URL))
    named = {f"layer {number}": rules for number, rules in enumerate(layers, 1)}
    rules = [rule for name, text in named.items() for rule in rules_of(f"rules: [{text}]", f"{name}.yaml", name)]
    return decide(list(named), index_of(rules).find(parts)).of(URL)


def rule(expression: str, action: str) -> str:
    return f"{{expression: '{expression}', action: {action}}}"


@pytest.mark.parametrize(
    ("layers", "action", "winner"),
    [
        ([""], Action.PASS, None),
        ([rule("other.example", "block")], Action.PASS, None),
        ([rule("h.example", "block")], Action.BLOCK, "h.example/"),
        ([rule("h.example", "tag")], Action.TAG, "h.example/"),
        # "within a layer the most specific matching expression wins"
        ([rule("h.example", "block") + "," + rule("h.example/a/", "allow")], Action.ALLOW, "h.example/a/"),
        ([rule("h.example", "allow") + "," + rule("h.example/a/", "block")], Action.BLOCK, "h.example/a/"),
        ([rule("www.h.example", "allow") + "," + rule("h.example/a/b?q", "block")], Action.ALLOW, "www.h.example/"),
        (
            [rule("www.h.example/a/b", "block") + "," + rule("www.h.example/a/", "allow")],
            Action.BLOCK,
            "www.h.example/a/b",
        ),
        # "at the same expression allow beats block"
        ([rule("h.example", "block") + "," + rule("h.example", "allow")], Action.ALLOW, "h.example/"),
        ([rule("h.example", "allow") + "," + rule("h.example", "block")], Action.ALLOW, "h.example/"),
        # and block beats warn, in whatever order
        ([rule("h.example", "warn") + "," + rule("h.example", "block")], Action.BLOCK, "h.example/"),
        ([rule("h.example", "block") + "," + rule("h.example", "warn")], Action.BLOCK, "h.example/"),
        ([rule("h.example", "warn") + "," + rule("h.example", "allow")], Action.ALLOW, "h.example/"),
        ([rule("h.example", "block") + "," + rule("h.example/a/", "warn")], Action.WARN, "h.example/a/"),
        # "the first layer in which a rule with a final action matches decides"
        ([rule("h.example", "allow"), rule("www.h.example/a/b?q", "block")], Action.ALLOW, "h.example/"),
        ([rule("h.example", "block"), rule("www.h.example/a/b?q", "allow")], Action.BLOCK, "h.example/"),
        ([rule("h.example", "tag"), rule("h.example", "block")], Action.BLOCK, "h.example/"),
        (["", rule("h.example", "block")], Action.BLOCK, "h.example/"),
        # a tag is not final, however specific
        ([rule("www.h.example/a/b?q", "tag") + "," + rule("h.example", "block")], Action.BLOCK, "h.example/"),
        ([rule("h.example", "tag") + "," + rule("www.h.example", "tag")], Action.TAG, "www.h.example/"),
    ],
)
def test_layers_then_specificity_then_allow(layers: list[str], action: Action, winner: str | None) -> None:
    decision = decision_of(*layers)
    assert decision.action is action
    assert (decision.winner and decision.winner.text) == winner
    assert decision.winner is None or decision.winner in decision.matches


def test_tags_of_every_match_in_every_layer_are_collected() -> None:
    tag = rule("h.example", "tag")
    decision = decision_of(tag, f"{tag},{rule('h.example', 'allow')}", f"{rule('www.h.example', 'tag')},{tag}")
    assert decision.action is Action.ALLOW
    assert [(found.rule.terms.layer, found.text) for found in decision.tags] == [
        ("layer 1", "h.example/"),
        ("layer 2", "h.example/"),
        ("layer 3", "www.h.example/"),
        ("layer 3", "h.example/"),
    ]


def test_matches_are_in_the_order_of_layers_the_most_specific_first() -> None:
    both = f"{rule('h.example', 'block')},{rule('www.h.example/a/', 'tag')}"
    found = [(match.rule.terms.layer, match.text) for match in decision_of(both, both).matches]
    assert found == [(layer, text) for layer in ("layer 1", "layer 2") for text in ("www.h.example/a/", "h.example/")]


DECISIONS = [
    Decision(Action.BLOCK, b"blocked"),
    Decision(Action.WARN, b"warned"),
    Decision(Action.ALLOW, b"allowed"),
    Decision(Action.TAG, b"tagged"),
    Decision(Action.PASS, b"passed"),
]


@pytest.mark.parametrize("order", list(permutations(range(5))))
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_of_several_names_the_strictest_decides(order: tuple[int, ...], count: int) -> None:
    chosen = order[:count]
    assert strictest([DECISIONS[number] for number in chosen]) == DECISIONS[min(chosen)]


def test_the_strictest_has_the_matches_of_all_once_and_its_own_reasons() -> None:
    blocked = decision_of(rule("h.example", "block"))
    tagged = decision_of(rule("h.example/a/", "tag"))
    decision = strictest([tagged, blocked, tagged, Decision(Action.PASS, b"x", fault="y")])
    assert (decision.action, decision.winner, decision.fault) == (Action.BLOCK, blocked.winner, None)
    assert decision.matches == tagged.matches + blocked.matches
    assert decision.tags == tagged.matches


def test_a_decision_tells_why() -> None:
    (found,) = decision_of("{expression: h.example, reason: It is bad}").matches
    assert str(found) == "h.example/ by layer 1 (layer 1.yaml:1): It is bad"
    assert str(decision_of("{expression: h.example, reason: It is bad}")) == str(found)
    assert str(decision_of("h.example")) == "h.example/ by layer 1 (layer 1.yaml:1)"
    assert str(decision_of("")) == ""
    assert str(Decision(Action.BLOCK, b"", fault="it names no host")) == "it names no host"


def test_a_decision_is_plain_data_for_others() -> None:
    decision = decision_of(
        "{expression: h.example, reason: why, category: 'hrn://c.example/x', expires: 2026-12-31, action: tag}"
    )
    match = {
        "expression": "h.example/",
        "rule": "h.example/",
        "action": "tag",
        "category": "hrn://c.example/x",
        "reason": "why",
        "expires": "2026-12-31",
        "list": "layer 1",
        "source": "layer 1.yaml",
        "line": 1,
        "layer": "layer 1",
        "via": None,
    }
    plain = decision.as_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert (plain["action"], plain["canonical"], plain["fault"]) == ("tag", URL.decode(), None)
    assert plain["matches"] == [plain["winner"]]
    assert match.items() <= plain["winner"].items()  # type: ignore[attr-defined]
    assert type(plain["action"]) is str


def test_octets_that_are_no_text_are_shown_escaped() -> None:
    ((found,),) = [decision_of("h.example").matches]
    odd = found._replace(expression=b"h/\xff\x00")
    assert odd.text == "h/\\xff\x00"
    assert Decision(Action.PASS, b"\xff").as_dict()["canonical"] == "\\xff"
