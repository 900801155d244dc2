"""Digests by which patterns are compared."""

from __future__ import annotations

from ipaddress import ip_network

from hushlist.core.compile.list_chunks import digest_of
from hushlist.core.match.checks import CHECKS, Check
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.rule import Anything, Expression, ExpressionHash, Pattern
from hushlist.core.url.hashed_uri import HashKey, hash_uri

PATTERNS: list[Pattern] = [
    Expression(b"h.example/"),
    ExpressionHash(full_hash(b"h.example/")[:4]),
    ip_network("192.0.2.0/24"),
    ip_network("192.0.2.0/25"),
    ip_network("2001:db8::/32"),
    hash_uri("http://h.example/", HashKey("sha1", "n", query=True, fragment=False)),
    hash_uri("http://h.example/", HashKey("sha1", "p", query=True, fragment=False)),
    *map(Check, CHECKS),
    Anything(),
]


def test_each_pattern_has_a_digest_of_its_own() -> None:
    digests = [*map(digest_of, PATTERNS)]
    assert len(set(digests)) == len(digests)
    assert {len(digest) for digest in digests} == {32}
    assert digests == [*map(digest_of, PATTERNS)]


def test_an_expression_and_its_hash_are_one_pattern() -> None:
    digest = full_hash(b"h.example/")
    assert digest_of(Expression(b"h.example/")) == digest_of(ExpressionHash(digest)) == digest
