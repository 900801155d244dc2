"""The index: from a request's canonical forms to the rules that fit it.

Rules in the clear are looked up by host suffix first, so that a request whose host bears none costs no more than that;
expressions are hashed only where hashes are loaded, and whole URIs only with the algorithms that rules need.

Invariants: a look-up never changes the index; rules keep the order in which they were given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple

from hushlist.match.checks import Asked, Check
from hushlist.match.expressions import DEEPEST_HOST, DEEPEST_PATH, host_suffixes, path_prefixes
from hushlist.match.hashing import full_hash
from hushlist.match.rule import Expression, ExpressionHash, Rule
from hushlist.url.hashed import ALGORITHMS, HashedUri, HashKey, matching_strings
from hushlist.url.host import parse_address
from hushlist.url.parts import Parts


class Match(NamedTuple):
    """One rule that fits a request."""

    rule: Rule
    #: the expression, URI or address that it fits, in the clear: the request itself gives the plaintext
    expression: bytes
    #: compares as "the order in which the expressions are generated" does, the larger the more specific: octets of the
    #: host, then of the path. A check is above everything, a whole URI above every expression, and an address range
    #: below, by its prefix length.
    specificity: tuple[int, int]
    #: how the request came by this expression, where not by its own URL
    via: str | None = None

    def __str__(self) -> str:
        """For people: what fits, by which list, file and line, and the reason."""
        terms = self.rule.terms
        reason = f": {terms.reason}" if terms.reason else ""
        via = f", {self.via}" if self.via else ""
        return f"{self.text} by {terms.label} ({terms.source}:{self.rule.line}{via}){reason}"

    @property
    def text(self) -> str:
        """The expression, to be read."""
        return self.expression.decode("utf-8", "backslashreplace")

    def as_dict(self) -> dict[str, str | int | None]:
        """Plain types, as JSON and mitmproxy's metadata need them."""
        pattern, terms, line = self.rule
        return {
            "expression": self.text,
            "rule": str(pattern),
            "action": terms.action.value,
            "category": terms.category,
            "reason": terms.reason,
            "expires": None if terms.expires is None else terms.expires.isoformat(),
            "list": terms.list,
            "title": terms.title,
            "source": terms.source,
            "line": line,
            "layer": terms.layer,
            "via": self.via,
        }


_WHOLE_REQUEST = 1 << 33
_WHOLE_URI = 1 << 32
_ADDRESS_RANGE = -1

_Postings = dict[bytes, list[Rule]]


class Index:
    """Finds the rules that fit; see the module."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._clear: _Postings = {}
        self._hosts: set[bytes] = set()
        self._deepest_host = DEEPEST_HOST
        self._deepest_path = DEEPEST_PATH
        self._hashes: dict[int, _Postings] = {}
        self._uris: dict[HashKey, _Postings] = {}
        self._checks: list[tuple[Check, Rule]] = []
        self._ranges: dict[tuple[int, int], dict[int, list[Rule]]] = {}
        for rule in rules:
            self._add(rule)

    def _add(self, rule: Rule) -> None:
        match rule.pattern:
            case Expression(value):
                host, _, path = value.partition(b"/")
                self._hosts.add(host)
                # "the index records the deepest host and path among clear rules"
                self._deepest_host = max(self._deepest_host, host.count(b".") + 1)
                self._deepest_path = max(self._deepest_path, path.count(b"/"))
                self._clear.setdefault(value, []).append(rule)
            case ExpressionHash(value):
                self._hashes.setdefault(len(value), {}).setdefault(value, []).append(rule)
            case HashedUri(key, digest):
                self._uris.setdefault(key, {}).setdefault(digest, []).append(rule)
            case IPv4Network() | IPv6Network() as network:
                ranges = self._ranges.setdefault((network.version, network.prefixlen), {})
                ranges.setdefault(int(network.network_address), []).append(rule)
            case Check() as check:
                self._checks.append((check, rule))

    def find(self, parts: Parts) -> Iterator[Match]:
        """Rules in the clear, hashes of expressions and address ranges that fit a canonical URL."""
        if self._clear:
            yield from self._find_clear(parts)
        if self._hashes:
            yield from self._find_hashes(parts)
        if self._ranges:
            yield from self._find_ranges(parts)

    def _find_clear(self, parts: Parts) -> Iterator[Match]:
        assert parts.host is not None
        for host in host_suffixes(parts.host, self._deepest_host):
            if host not in self._hosts:
                continue
            for path in path_prefixes(parts.path, parts.query, self._deepest_path):
                for rule in self._clear.get(host + path, ()):
                    yield Match(rule, host + path, (len(host), len(path)))

    def _find_hashes(self, parts: Parts) -> Iterator[Match]:
        assert parts.host is not None
        paths = path_prefixes(parts.path, parts.query)
        for host in host_suffixes(parts.host):
            for path in paths:
                full = full_hash(host + path)
                for length, postings in self._hashes.items():
                    for rule in postings.get(full[:length], ()):
                        yield Match(rule, host + path, (len(host), len(path)))

    def _find_ranges(self, parts: Parts) -> Iterator[Match]:
        assert parts.host is not None
        address = parse_address(parts.host)
        if address is None:
            return
        value = int(address)
        for (version, length), postings in self._ranges.items():
            if version == address.version:
                drop = address.max_prefixlen - length
                for rule in postings.get(value >> drop << drop, ()):
                    yield Match(rule, parts.host, (_ADDRESS_RANGE, length))

    def find_uris(self, uris: Sequence[Parts]) -> Iterator[Match]:
        """Hashed URIs that fit one of the URIs that name the same resource."""
        strings: dict[tuple[str, bool, bool], dict[bytes, None]] = {}
        for key, postings in self._uris.items():
            digest = ALGORITHMS[key.algorithm]
            how = key.variant, key.query, key.fragment
            if how not in strings:  # the same for every algorithm
                strings[how] = dict.fromkeys(string for uri in uris for string in matching_strings(uri, key))
            for string in strings[how]:
                for rule in postings.get(digest(string), ()):
                    yield Match(rule, string, (_WHOLE_URI, len(string)))

    def find_checks(self, asked: Asked) -> Iterator[Match]:
        """Checks that the request fails, with what shows it."""
        for check, rule in self._checks:
            evidence = check.find(asked)
            if evidence is not None:
                yield Match(rule, evidence, (_WHOLE_REQUEST, 0))

    @property
    def has_checks(self) -> bool:
        """Whether any rule is a check."""
        return bool(self._checks)

    @property
    def has_uris(self) -> bool:
        """Whether any rule is a hashed URI."""
        return bool(self._uris)
