"""What is written is read again as the same rules, with the same terms."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.match.rule import Action, ExpressionHash
from hushlist.core.url.hashed_uri import parse_hashed_uri
from hushlist.tools.publish.hidden_list import HashKind, HiddenList, HiddenRule, HiddenTerms
from hushlist.tools.publish.list_writer import ListHead, as_plain, as_yaml, plain_rules
from unit.rows import each_row

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
CATEGORIES = st.sampled_from([None, "hrn://c.example/a", "hrn://c.example/b"])
TERMS = st.builds(
    HiddenTerms,
    st.sampled_from([Action.ALLOW, Action.BLOCK, Action.WARN, Action.TAG]),
    CATEGORIES,
    st.none() | TEXTS,
    st.none() | st.dates(date(2000, 1, 1)),
    st.just(()),
).map(
    lambda terms: (
        terms._replace(values=(("with", "needs"),)) if terms.action is Action.ALLOW and terms.reason else terms
    )
)

HASHES = st.binary(min_size=32, max_size=32).map(ExpressionHash)
URIS = st.binary(min_size=16, max_size=16).map(lambda digest: parse_hashed_uri(f"hashed:md5={digest.hex()}+query"))


@given(st.lists(st.builds(HiddenRule, HASHES | URIS, TERMS, st.none(), st.just("f"), st.just(1))), st.none() | TEXTS)
def test_yaml_is_read_again_with_all_terms(rules: list[HiddenRule], title: str | None) -> None:
    report = ProblemReport("hidden.yaml")
    text = as_yaml(HiddenList(HashKind.SHA256, rules), ListHead(title))
    assert text.isascii()
    found = list(FORMATS["yaml"].read(text.encode(), ListDefaults(), report))
    assert (report.errors, report.warnings) == ([], [])
    kept = ("action", "category", "reason", "expires", "values")
    assert [(rule.pattern, *(getattr(rule.terms, name) for name in kept)) for rule in found] == [
        (rule.pattern, *rule.terms) for rule in rules
    ]
    assert {rule.terms.title for rule in found} <= {title}


@each_row("digits", ["12345678", "1e234567", "00000000", "0x".ljust(8, "0").replace("x", "0")])
def test_digits_alone_are_read_as_a_hash(digits: str) -> None:
    rule = HiddenRule(ExpressionHash(bytes.fromhex(digits)), HiddenTerms(Action.BLOCK), None, "f", 1)
    text = as_yaml(HiddenList(HashKind.PREFIX, [rule]), ListHead())
    (found,) = FORMATS["yaml"].read(text.encode(), ListDefaults(), ProblemReport("f"))
    assert found.pattern == rule.pattern


def test_a_given_category_takes_the_place_of_the_rules_own() -> None:
    rules = [
        HiddenRule(ExpressionHash(bytes(31) + bytes([at])), HiddenTerms(Action.BLOCK, category), None, "f", at)
        for at, category in enumerate((None, "hrn://c.example/a"))
    ]
    text = as_yaml(HiddenList(HashKind.SHA256, rules), ListHead(category="hrn://own.example/x"))
    assert text.count("category") == 1
    assert text.startswith('category: "hrn://own.example/x"\nrules:\n')


def test_an_empty_list_is_one() -> None:
    assert as_yaml(HiddenList(HashKind.SHA256), ListHead()) == "rules: []\n"


def test_a_reason_is_quoted_whatever_is_in_it() -> None:
    terms = HiddenTerms(Action.BLOCK, None, 'why, "so": #1}')
    text = as_yaml(
        HiddenList(HashKind.SHA256, [HiddenRule(ExpressionHash(bytes(32)), terms, None, "f", 1)]), ListHead()
    )
    assert 'reason: "why, \\"so\\": #1}"' in text
    (rule,) = FORMATS["yaml"].read(text.encode(), ListDefaults(), ProblemReport("f"))
    assert rule.terms.reason == terms.reason


def test_a_plain_list_has_what_is_blocked_without_an_end() -> None:
    def rule(number: int, terms: HiddenTerms, plaintext: bytes | None = None) -> HiddenRule:
        return HiddenRule(ExpressionHash(bytes([number]) * 4), terms, plaintext, "f", number)

    block = HiddenTerms(Action.BLOCK)
    rules = [
        rule(1, block),
        rule(2, HiddenTerms(Action.ALLOW), b"a.example/"),
        rule(3, block._replace(expires=date(2030, 1, 1))),
        rule(4, block._replace(reason="why")),
    ]
    hidden = HiddenList(HashKind.PREFIX, rules)
    hidden.rules, problems = plain_rules(hidden)
    text = as_plain(hidden, ListHead("A\ntitle", "hrn://c.example/a"))
    assert text == '# title: "A\\ntitle"\n# category: "hrn://c.example/a"\n01010101\n04040404\n'
    assert [(problem.line, problem.what) for problem in problems] == [(2, "a.example/"), (3, "sha256:03030303")]
    report = ProblemReport("f")
    assert len(list(FORMATS["sha256"].read(text.encode(), ListDefaults(), report))) == 2
    assert report.warnings == []


@pytest.mark.slow
@pytest.mark.timeout(30)  # a second; a hundred times that, if each rule looked at all others
def test_a_long_list_takes_a_time_that_is_linear() -> None:
    terms = HiddenTerms(Action.BLOCK)
    rules = [HiddenRule(ExpressionHash(at.to_bytes(32)), terms, None, "f", at) for at in range(100_000)]
    kept, problems = plain_rules(HiddenList(HashKind.SHA256, rules))
    assert (len(kept), problems) == (100_000, [])
    assert len(as_yaml(HiddenList(HashKind.SHA256, rules), ListHead()).splitlines()) == 100_001
