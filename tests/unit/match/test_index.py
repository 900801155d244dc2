"""The index, against a plain implementation."""

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.match.compiler import index_of
from hushlist.match.expressions import expressions, own_expression
from hushlist.match.hashing import full_hash
from hushlist.match.rule import Action, Expression, ExpressionHash, Pattern, Rule, Terms
from hushlist.url.host import is_address, parse_address
from hushlist.url.parts import Parts, split_generic
from hushlist.url.safebrowsing import SAFEBROWSING
from unit.hostile import rules_of


def canonical(url: bytes | str) -> Parts:
    return SAFEBROWSING.apply(SAFEBROWSING.parse(url))


def every_expression(parts: Parts) -> set[bytes]:
    """All that a rule in the clear could fit, however deep; never a bare top-level label."""
    host = parts.host or b""
    labels = host.split(b".")
    hosts = {host}
    if not is_address(host):
        hosts |= {b".".join(labels[start:]) for start in range(len(labels) - 1)}
    paths = {parts.path, parts.path + (b"?" + parts.query if parts.query else b"")}
    paths |= {parts.path[: end + 1] for end, octet in enumerate(parts.path) if octet == ord("/")}
    return {host + path for host in hosts for path in paths}


def plainly(rules: list[Rule], parts: Parts) -> set[tuple[int, bytes]]:
    """``(line of the rule, what it fits)``, rule by rule."""
    found = set()
    address = parse_address(parts.host or b"")
    for rule in rules:
        match rule.pattern:
            case Expression(value):
                found |= {(rule.line, text) for text in every_expression(parts) if text == value}
            case ExpressionHash(value):
                found |= {(rule.line, text) for text in expressions(parts) if full_hash(text).startswith(value)}
            case network:
                if address is not None and address in network:
                    found.add((rule.line, parts.host or b""))
    return found


TERMS = Terms(Action.BLOCK, "list", "file")


def hosts() -> st.SearchStrategy[bytes]:
    names = st.lists(st.sampled_from([b"a", b"b", b"1"]), min_size=1, max_size=8).map(b".".join)
    return names | st.sampled_from(
        [b"1.2.3.4", b"1.2.3.5", b"1.3.0.0", b"[::1]", b"[2001:db8::1]", b"[::ffff:1.2.3.4]"]
    )


def requests() -> st.SearchStrategy[Parts]:
    paths = st.lists(st.sampled_from([b"x/", b"y/", b"z"]), max_size=8).map(b"".join)
    queries = st.sampled_from([b"", b"?", b"?q", b"?q/r"])
    return st.builds(lambda *parts: canonical(b"http://%b/%b%b" % parts), hosts(), paths, queries)


def patterns() -> st.SearchStrategy[Pattern]:
    own = requests().map(own_expression)
    lengths = st.sampled_from([4, 5, 31, 32])
    networks = ["0.0.0.0/0", "1.2.0.0/16", "1.2.3.4/32", "1.2.3.4/31", "::/0", "::1/128", "2001:db8::/32"]
    return st.one_of(
        own.map(Expression),
        st.builds(lambda text, length: ExpressionHash(full_hash(text)[:length]), own, lengths),
        st.sampled_from(networks).map(ip_network),
    )


@given(st.lists(patterns(), max_size=12), st.lists(requests(), min_size=1, max_size=4))
def test_finds_what_a_plain_search_finds(given_patterns: list[Pattern], asked: list[Parts]) -> None:
    rules = [Rule(pattern, TERMS, line) for line, pattern in enumerate(given_patterns, 1)]
    index = index_of(rules)
    rules = list({rule.pattern: rule for rule in reversed(rules)}.values())  # a list has no rule twice
    for parts in asked:
        found = [(match.rule.line, match.expression) for match in index.find(parts)]
        assert len(found) == len(set(found))
        assert set(found) == plainly(rules, parts)


@pytest.mark.parametrize(
    ("rule", "url", "fits"),
    [
        # settled reading 16: everything below a rule in the clear, however deep
        ("h.example", "http://1.2.3.4.5.6.7.8.9.h.example/1/2/3/4/5/6/7", True),
        ("3.4.5.6.7.h.example", "http://1.2.3.4.5.6.7.h.example/", True),
        ("h.example/1/2/3/4/5/6/", "http://h.example/1/2/3/4/5/6/7/8/9?q", True),
        ("h.example/1/2", "http://h.example/1/2?q", True),
        ("h.example/1/2", "http://h.example/1/2/3", False),
        ("h.example/1/2/", "http://h.example/1/2", False),
        ("h.example/p?q", "http://h.example/p?q", True),
        ("h.example/p?q", "http://h.example/p?q&r", False),
        ("h.example/p?q", "http://h.example/p", False),
        ("h.example", "http://otherh.example/", False),
        ("h.example", "http://h.example.org/", False),
        ("example", "http://h.example/", False),  # a bare top-level label is only itself
        ("localhost", "http://localhost/", True),
        ("2.3.4", "http://1.2.3.4/", False),  # an address has no parent domain
        ("0x7f.1", "http://127.0.0.1/", True),
        # reading 18: an address range fits addresses, never names
        ("{address: 10.0.0.0/8}", "http://10.1.2.3/", True),
        ("{address: 10.0.0.0/8}", "http://0xa010203/", True),
        ("{address: 10.0.0.0/8}", "http://[::ffff:10.1.2.3]/", True),
        ("{address: 10.0.0.0/8}", "http://10.1.2.3.example/", False),
        ("{address: 10.0.0.0/8}", "http://11.0.0.0/", False),
        ("{address: 0.0.0.0/0}", "http://[::1]/", False),
        ("{address: '2001:db8::/32'}", "http://[2001:db8:1::]/", True),
        ("{address: '::/0'}", "http://1.2.3.4/", False),
        # a hash has the thirty expressions, no more
        (f"{{sha256: {full_hash(b'h.example/').hex()}}}", "http://www.h.example/x", True),
        (f"{{sha256: {full_hash(b'h.example/').hex()[:8]}}}", "http://www.h.example/x", True),
        (f"{{sha256: {full_hash(b'h.example/1/2/3/4/').hex()}}}", "http://h.example/1/2/3/4/5", False),
    ],
)
def test_what_a_rule_fits(rule: str, url: str, fits: bool) -> None:
    found = list(index_of(rules_of(f"rules: [{rule}]")).find(canonical(url)))
    assert bool(found) is fits


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


@pytest.mark.parametrize(
    ("rules", "uris", "found"),
    [
        # draft-feather-hashed-uri-03, 4.4
        ("hashed:md5=be96302a0468481aca954431cf293e05", [b"http://www.thus.net/"], [b"http://www.thus.net"]),
        ("hashed:sha1=87ed28009f511ed7ef630180a229ba257180a481", [b"http://www.thus.net"], [b"http://www.thus.net"]),
        ("hashed:md5=754a2c63a13aa2e8153d027066e31f8f", [b"http://10.20.30.40/a%62c"], [b"http://10.20.30.40/abc"]),
        (
            "hashed:sha1=31a79a96e0404778a3b95cb426b04b6114a604a5+frag",
            [b"http://www.thus.net#end"],
            [b"http://www.thus.net#end"],
        ),
        ("hashed:sha1=31a79a96e0404778a3b95cb426b04b6114a604a5+frag", [b"http://www.thus.net"], []),
        ("hashed:md5=be96302a0468481aca954431cf293e05", [b"http://www.thus.net/"] * 2, [b"http://www.thus.net"]),
        ("hashed:md5=be96302a0468481aca954431cf293e05", [b"http://www.thus.net/x"], []),
    ],
)
def test_hashed_uris_are_found(rules: str, uris: list[bytes], found: list[bytes]) -> None:
    index = index_of(rules_of(f"rules: ['{rules}']"))
    assert index.has_uris
    assert [match.expression for match in index.find_uris(list(map(split_generic, uris)))] == found


def test_an_index_without_hashed_uris_says_so() -> None:
    assert not index_of(rules_of("rules: [h.example]")).has_uris


def test_rules_of_the_same_pattern_are_all_found_in_their_order_but_for_duplicates() -> None:
    rules = rules_of("rules:\n- h.example\n- HTTP://H.example:80\n- {expression: h.example, action: tag}")
    assert [match.rule.line for match in index_of(rules).find(canonical("h.example"))] == [2, 4]
