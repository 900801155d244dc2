"""From matches to a decision."""

import json
from itertools import permutations

from hypothesis import given

from hushlist.core.decide.decision import Decision, decide, original_url, strictest
from hushlist.core.match.rule import Action
from hushlist.core.url.request import Request, canonical_url
from hushlist.core.url.safebrowsing import SAFEBROWSING
from support.engines import index_of, rules_of
from unit.hostile import octets
from unit.rows import each_row

URL = b"http://www.h.example/a/b?q"


def decision_of(*layers: str) -> Decision:
    """The decision for URL by layers, each the YAML of a list's rules."""
    parts = SAFEBROWSING.apply(SAFEBROWSING.parse(URL))
    named = {f"layer {number}": rules for number, rules in enumerate(layers, 1)}
    rules = [rule for name, text in named.items() for rule in rules_of(f"rules: [{text}]", f"{name}.yaml", name)]
    return decide(list(named), index_of(rules).find(parts)).of(URL)


def rule(expression: str, action: str) -> str:
    return f"{{expression: '{expression}', action: {action}}}"


@each_row(
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


DECISIONS = [
    Decision(Action.BLOCK, b"blocked"),
    Decision(Action.WARN, b"warned"),
    Decision(Action.ALLOW, b"allowed"),
    Decision(Action.TAG, b"tagged"),
    Decision(Action.PASS, b"passed"),
]


@each_row("count", [1, 2, 3, 4, 5])
def test_of_several_names_the_strictest_decides(count: int) -> None:
    for chosen in permutations(range(5), count):
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
        "title": None,
        "until": None,
    }
    plain = decision.as_dict()
    assert json.loads(json.dumps(plain)) == plain
    shown = {"action": "tag", "canonical": URL.decode(), "fault": None, "group": decision.group, "grant": None}
    assert plain == {**shown, "winner": match, "matches": [match]}
    assert type(plain["action"]) is str


# -- the original form -------------------------------------------------------------------------------------------------

LITERAL = b"192.0.2.7"


@each_row(
    ("request_", "original"),
    [
        (Request(b"http", (b"h.example",), 80, b"/a?b"), None),
        (Request(b"http", (b"h.example",), 8080, b"/"), b"http://h.example:8080/"),
        (Request(b"https", (b"H.Example",), 443, b"/%7Ex/../y"), b"https://H.Example/%7Ex/../y"),
        (Request(b"http", (b"h.example",), 80, b"/\xc3\xa9"), b"http://h.example/\xc3\xa9"),
        (Request(b"http", (b"::1",), 81, b"/"), b"http://[::1]:81/"),
        (Request(b"http", (b"me:pw@H.example",), 80, b"/"), None),
        (
            Request(b"http", (b"h.example",), 81, b"/?u=http://me:p@w@i.example/"),
            b"http://h.example:81/?u=http://i.example/",
        ),
        (Request(b"http", (b"h.example",), 81, b"/?u=http%3A%2F%2Fme:pw%40i.example/"), None),
        (Request(b"http", (b"h.example",), 81, b"/?u=http:%2%35%32F/me:pw@i.example/"), None),
        # in letters that the canonical URL has not
        (Request(b"http", (b"h.example",), 81, b"/?u=http:/\t/me:pw@i.example/"), None),
        (Request(b"http", (b"h.example",), 81, b"/?u=http:%2F%2Fme:%23pw%40i.example/"), None),
        (Request(b"http", (b"h.example",), 81, b"/?u=http://me:p%2523w@i.example/&v=//me:#pw@i.example"), None),
        # a host that ends at an escape
        (Request(b"http", (b"me%3Apw%EF%BC%A0h.example",), 80, b"/"), None),
        (Request(b"http", (b"%68.example",), 80, b"/"), b"http://%68.example/"),
        # of several names, the client's, and not the address that the proxy was to connect to
        (Request(b"http", (LITERAL, b"H.example"), 80, b"/", destination=LITERAL), b"http://H.example/"),
        (Request(b"http", (LITERAL,), 80, b"/", destination=LITERAL), None),
        (Request(b"http", (), 80, b"/"), None),
    ],
)
def test_the_original_form_is_kept_where_it_differs_without_user_information(
    request_: Request, original: bytes | None
) -> None:
    decision = Decision(Action.BLOCK, request=request_)
    if request_.destination is not None:
        decision = decision._replace(canonical=canonical_url(Request(b"http", request_.hosts[-1:], 80, b"/")).lower())
    assert original_url(decision, request_) == original


@given(octets(), octets(), octets())
def test_the_original_form_shows_no_user_information_whatever_is_escaped(
    before: bytes, within: bytes, behind: bytes
) -> None:
    for at in (b"@", b"%40", b"%2540", b"%%340", b"%4%30", b"%%32%35%34%%330"):
        for slashes in (b"//", b"%2F%2f", b"/%252F"):
            user = slashes + b"s3cr3t" + within.translate(None, b"/?#\\%") + at
            request = Request(b"http", (b"h.example",), 81, b"/" + before.rstrip(b"%25") + user + behind)
            assert b"s3cr3t" not in (original_url(Decision(Action.BLOCK, request=request), request) or b"")
