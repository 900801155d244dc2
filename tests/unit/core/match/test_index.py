"""The index, against a plain implementation."""

from collections.abc import Iterable, Sequence
from ipaddress import ip_network
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import given, settings

from hushlist.core.match.expressions import expressions, host_suffixes, suffixes_with_top_level
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import IndexFileError
from hushlist.core.match.rule import Action, Expression, ExpressionHash, Pattern, Rule, Terms, WholeUrl
from hushlist.core.match.rule_match import Match
from hushlist.core.match.seal import SealKey
from hushlist.core.url.hashed_uri import HashedUri
from hushlist.core.url.parts import split_generic
from support.engines import index_of, rules_of
from unit.core.match.plain_index import SEAL, STEADY, PlainIndex, RulesAndRequests, canonical, given_rules, octets_of

TERMS = Terms(Action.BLOCK, "list", "file")
#: for tests of which each example makes an index of many rules
FEW = settings(STEADY, max_examples=settings.default.max_examples // 2)


def by_pattern(matches: Iterable[Match]) -> dict[tuple[Pattern, bytes], list[Match]]:
    """Matches by rule's pattern and expression, in their order."""
    found: dict[tuple[Pattern, bytes], list[Match]] = {}
    for match in matches:
        found.setdefault((match.rule.pattern, match.expression), []).append(match)
    return found


def host_of(match: Match) -> bytes:
    return match.expression.partition(b"/")[0]


# -- answers are those of a plain search -------------------------------------------------------------------------------


@pytest.mark.slow
@FEW
@given(given_rules())
def test_finds_what_a_plain_search_finds(given: RulesAndRequests) -> None:
    index, plain = index_of(given.rules), PlainIndex(given.rules)
    for parts in (*given.requested, *given.requested):  # folders are remembered
        assert by_pattern(index.find(parts)) == by_pattern(plain.find(parts))
    assert by_pattern(index.find_uris(given.uris)) == by_pattern(plain.find_uris(given.uris))
    assert len(index) == len(plain.rules)
    assert index.has_uris is any(isinstance(rule.pattern, HashedUri) for rule in given.rules)


@pytest.mark.slow
@FEW
@given(given_rules())
def test_finds_sealed_hashes_as_a_plain_search_does(given: RulesAndRequests) -> None:
    seal, name = SEAL.sealer(), SEAL.fingerprint
    rules = [
        rule._replace(pattern=ExpressionHash(seal(rule.pattern.value)[: 4 + 7 * (at % 5)], name))
        if isinstance(rule.pattern, Expression) and at % 3
        else rule
        for at, rule in enumerate(given.rules)
    ]
    index, plain = index_of(rules), PlainIndex(rules)
    index.unseal({name: SEAL})
    for parts in (*given.requested, *given.requested):
        assert by_pattern(index.find(parts)) == by_pattern(plain.find(parts))


def test_sealed_hashes_need_their_key_and_stand_apart_from_others() -> None:
    value, other = SEAL.sealer()(b"h.example/"), SealKey(bytes(32))
    index = index_of([Rule(ExpressionHash(value, SEAL.fingerprint), TERMS, 1), Rule(ExpressionHash(value), TERMS, 2)])
    for keys in ({}, {other.fingerprint: other}):
        with pytest.raises(IndexFileError, match=f"it is sealed, and its key {SEAL.fingerprint} is not given"):
            index.unseal(keys)
    index.unseal({SEAL.fingerprint: SEAL, other.fingerprint: other})
    (match,) = index.find(canonical("http://a.h.example/x"))
    assert (str(match.rule.pattern), match.rule.line, match.text) == (f"sealed:{value.hex()}", 1, "h.example/")
    assert SEAL.octets not in octets_of(index)
    assert SEAL.octets.hex().encode() not in octets_of(index)


def test_folders_that_were_forgotten_are_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushlist.core.match.index.MOST_FOLDERS", 2)
    own = [Rule(Expression(b"h.example/%d/" % n), TERMS, 1) for n in range(5)]
    index = index_of(own)
    for _ in range(2):
        for number in range(5):
            (match,) = index.find(canonical(f"h.example/{number}/x"))
            assert match.rule == own[number]
            assert len(index._folders) <= 2
    index.find(canonical(f"h.example/{'x' * 300}/x"))
    assert all(len(folder) < 300 for _, folder in index._folders)


@FEW
@given(given_rules())
def test_what_fits_a_host_and_what_fits_its_paths_is_all_that_fits(given: RulesAndRequests) -> None:
    index = index_of(given.rules)
    for parts in given.requested:
        host = index.on_host(parts.host or b"")
        found = [*host.matches, *index.find_paths(host, parts.path, parts.query)]
        assert found == index.find(parts)
        assert len(found) == len(set(found))
        assert all(match.expression in (parts.host, host_of(match) + b"/") for match in host.matches)


@FEW
@given(given_rules())
def test_a_file_answers_as_the_same_octets_in_memory_do(given: RulesAndRequests) -> None:
    index = index_of(given.rules)
    with NamedTemporaryFile() as file:
        file.write(octets_of(index))
        file.flush()
        opened = Index.open(Path(file.name))
        opened.verify()
        for parts in given.requested:
            assert opened.find(parts) == index.find(parts)
        assert by_pattern(opened.find_uris(given.uris)) == by_pattern(index.find_uris(given.uris))


def test_terms_that_were_forgotten_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushlist.core.match.index.MOST_TERMS", 2)
    own = [Rule(Expression(b"h%d.example/" % n), Terms(Action.BLOCK, str(n), "f"), 1) for n in range(5)]
    index = index_of(own)
    for _ in range(2):
        for number in range(5):
            (match,) = index.find(canonical(f"h{number}.example"))
            assert match.rule == own[number]


def test_specificity_is_the_order_in_which_expressions_are_generated() -> None:
    parts = canonical("http://a.b.c.d.e.f.g/1/2/3/4?q")
    rules = [Rule(Expression(text), TERMS, 1) for text in expressions(parts)]
    rules.append(Rule(ip_network("0.0.0.0/0"), TERMS, 1))
    found = sorted(index_of(rules[::-1]).find(parts), key=lambda match: match.specificity, reverse=True)
    assert [match.expression for match in found] == expressions(parts)


def test_a_whole_uri_is_above_every_expression_and_an_address_range_below() -> None:
    uri = "hashed:md5=be96302a0468481aca954431cf293e05"  # http://www.thus.net
    index = index_of(rules_of(f"rules: ['{uri}', www.thus.net, 1.2.3.4, address: 1.2.3.4, address: 1.2.0.0/16]"))
    (whole,) = index.find_uris([split_generic(b"http://www.thus.net:80/")])
    (expression,) = index.find(canonical("http://www.thus.net/"))
    address, *ranges = sorted(index.find(canonical("http://1.2.3.4/")), key=lambda match: match.specificity)[::-1]
    assert whole.specificity > expression.specificity
    assert [str(match.rule.pattern) for match in (address, *ranges)] == ["1.2.3.4/", "1.2.3.4/32", "1.2.0.0/16"]


def test_rules_of_the_same_pattern_are_all_found_in_their_order_but_for_duplicates() -> None:
    rules = rules_of("rules:\n- h.example\n- HTTP://H.example:80\n- {expression: h.example, action: tag}")
    assert [match.rule.line for match in index_of(rules).find(canonical("h.example"))] == [2, 4]


def is_below_host(rule: Rule, suffixes: Sequence[bytes]) -> bool:
    """Whether a rule in the clear is for less than a host, and may fit a request to a host with these suffixes."""
    if isinstance(rule.pattern, WholeUrl):
        return canonical(rule.pattern.value).host in suffixes
    if not isinstance(rule.pattern, Expression):
        return False
    name, _, path = rule.pattern.value.partition(b"/")
    return path != b"" and name in suffixes


@FEW
@given(given_rules())
def test_one_look_tells_whether_there_are_rules_below_a_host(given: RulesAndRequests) -> None:
    index = index_of(given.rules)
    suffixes_of = suffixes_with_top_level if index.directory.has_top_level else host_suffixes
    for parts in given.requested:
        suffixes = suffixes_of(parts.host or b"", 99)
        has_rules_below = any(is_below_host(rule, suffixes) for rule in given.rules)
        assert index.on_host(parts.host or b"").has_rules_below is has_rules_below
    layers = {rule.terms.layer for rule in given.rules if isinstance(rule.pattern, HashedUri | ExpressionHash)}
    assert set(index.directory.opaque) == layers


def test_lists_are_known_by_their_titles() -> None:
    named = Terms(Action.BLOCK, "list", "named.yaml", title="Games")
    rules = [Rule(Expression(b"a.example/"), named, 1), Rule(Expression(b"b.example/"), TERMS, 1)]
    assert index_of(rules).titles() == {"named.yaml": "Games"}
    assert index_of([]).titles() == {}
