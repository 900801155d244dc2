"""The index, slow and obvious: every rule is compared with every expression. And rules and requests to compare by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st

from hushlist.core.match.expressions import expressions, full_hash
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import key_length, table_key
from hushlist.core.match.rule import RUNGS, Action, Expression, ExpressionHash, Pattern, Rule, Terms, WholeUrl
from hushlist.core.match.rule_match import Match
from hushlist.core.match.seal import SealKey
from hushlist.core.url.hashed_uri import (
    ALGORITHMS,
    VARIANTS,
    HashedUri,
    HashKey,
    hashed_string,
    is_hierarchical,
    sent_string,
)
from hushlist.core.url.host import is_address, parse_address
from hushlist.core.url.parts import Parts
from hushlist.core.url.safebrowsing import SAFEBROWSING

#: however busy the machine
STEADY = settings(deadline=None)


def canonical(url: bytes | str) -> Parts:
    return SAFEBROWSING.apply(SAFEBROWSING.parse(url))


def every_expression(parts: Parts) -> set[bytes]:
    """All that a rule in the clear could fit, however deep."""
    host = parts.host or b""
    labels = host.split(b".")
    hosts = {host}
    if not is_address(host):
        hosts |= {b".".join(labels[start:]) for start in range(len(labels))}
    paths = {parts.path, parts.path + (b"?" + parts.query if parts.query else b"")}
    paths |= {parts.path[: end + 1] for end, octet in enumerate(parts.path) if octet == ord("/")}
    return {host + path for host in hosts for path in paths}


def without_duplicates(rules: Iterable[Rule]) -> list[Rule]:
    """Of rules with the same pattern and the same terms the first."""
    first: dict[tuple[Pattern, Terms], Rule] = {}
    for rule in rules:
        first.setdefault((rule.pattern, rule.terms), rule)
    return list(first.values())


def plain_strings(parts: Parts, key: HashKey) -> list[bytes]:
    """All strings that may have been hashed for a URL, each by every step of the variant."""
    if (key.query and parts.query is None) or (key.fragment and parts.fragment is None):
        return []
    if key.variant == "p" and is_hierarchical(parts):
        own, bare = (_hashed(parts._replace(path=path), key) for path in (parts.path, parts.path.rstrip(b"/")))
        path = bare.path.removesuffix(b"/")
        return [own._replace(path=path).join() for path in dict.fromkeys((own.path, path, path + b"/"))]
    paths = [b"", b"/"] if parts.path in (b"", b"/") else [parts.path]
    return [hashed_string(parts._replace(path=path), key) for path in paths]


def _hashed(parts: Parts, key: HashKey) -> Parts:
    query, fragment = parts.query if key.query else None, parts.fragment if key.fragment else None
    return VARIANTS[key.variant].apply(parts._replace(query=query, fragment=fragment))


#: of all sealed hashes
SEAL = SealKey(bytes(range(32)))


class PlainIndex:
    """Finds what ``index.Index`` is to find: those of longer keys first, else as rules were given."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = sorted(without_duplicates(rules), key=_table)

    def find(self, parts: Parts) -> list[Match]:
        return [Match(rule, *fit) for rule in self.rules for fit in _fits(rule, parts)]

    def find_uris(self, uris: Sequence[Parts], sent: Sequence[Parts] = ()) -> list[Match]:
        found = []
        for rule in self.rules:
            if isinstance(rule.pattern, HashedUri):
                key, digest = rule.pattern.key, rule.pattern.digest
                strings = {string for uri in uris for string in plain_strings(uri, key)}
                fits = [string for string in strings if ALGORITHMS[key.algorithm](string) == digest]
                found += [Match(rule, string, (1 << 32, len(string))) for string in fits]
                as_sent = {string for uri in sent if (string := sent_string(uri, key)) is not None}
                fits = [] if fits else [string for string in as_sent if ALGORITHMS[key.algorithm](string) == digest]
                found += [Match(rule, string, (1 << 32, len(string)), "as sent") for string in fits]
        return found

    def find_urls(self, url: bytes) -> list[Match]:
        found = []
        for rule in self.rules:
            if isinstance(rule.pattern, WholeUrl):
                steps = [change.step for change in RUNGS[rule.pattern.rung].changes(url)]
                normal = RUNGS[rule.pattern.rung].canonicalize(url)
                above = {"simple": 3, "syntax": 2, "scheme": 1}[rule.pattern.rung]
                via = f"rung {rule.pattern.rung}" + (f", after {', '.join(steps)}" if steps else "")
                if normal == rule.pattern.value:
                    found.append(Match(rule, normal, ((1 << 32) + above, len(normal)), via))
        return found


def _table(rule: Rule) -> tuple[int, str]:
    name = table_key(rule.pattern)[0]
    return (0, name) if isinstance(rule.pattern, HashedUri) else (-key_length(name), "")


def _fits(rule: Rule, parts: Parts) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """``(expression, specificity)`` of all that a rule fits."""
    match rule.pattern:
        case Expression(value):
            texts = [value] if value in every_expression(parts) else []
        case ExpressionHash(value, seal):
            digest = SEAL.sealer() if seal else full_hash
            texts = [text for text in expressions(parts) if digest(text).startswith(value)]
        case IPv4Network() | IPv6Network() as network:
            address = parse_address(parts.host or b"")
            if address is not None and address in network:
                yield parts.host or b"", (-1, network.prefixlen)
            return
        case _:
            return
    for text in texts:
        host = text.index(b"/")
        yield text, (host, len(text) - host)


def octets_of(index: Index) -> bytes:
    """The file that an index is."""
    return index._read(0, index.octets)


# -- rules and requests, of few words so that they meet ----------------------------------------------------------------

NETWORKS = ("0.0.0.0/0", "1.2.0.0/16", "1.2.3.4/32", "1.2.3.4/31", "::/0", "::1/128", "2001:db8::/32")
KEYS = tuple(
    HashKey(algorithm, variant, query, fragment)
    for algorithm in ALGORITHMS
    for variant in VARIANTS
    for query in (False, True)
    for fragment in (False, True)
)


def hosts() -> st.SearchStrategy[bytes]:
    names = st.lists(st.sampled_from([b"a", b"b", b"1"]), min_size=1, max_size=8).map(b".".join)
    return names | st.sampled_from(
        [b"1.2.3.4", b"1.2.3.5", b"1.3.0.0", b"[::1]", b"[2001:db8::1]", b"[::ffff:1.2.3.4]"]
    )


def requests() -> st.SearchStrategy[Parts]:
    paths = st.lists(st.sampled_from([b"x/", b"y/", b"z"]), max_size=8).map(b"".join)
    queries = st.sampled_from([b"", b"?", b"?q", b"?q/r"])
    return st.builds(lambda *parts: canonical(b"http://%b/%b%b" % parts), hosts(), paths, queries)


def _uris_of(parts: Parts) -> list[Parts]:
    return [parts, parts._replace(query=b"q", fragment=b"f")]


def _patterns(requested: Sequence[Parts]) -> st.SearchStrategy[Pattern]:
    """Patterns that fit one of the requests, and a few that may not."""
    texts = sorted({text for parts in requested for text in every_expression(parts)} | {b"a.b/", b"a.b/x/"})
    digests = {
        HashedUri(key, ALGORITHMS[key.algorithm](string))
        for parts in requested
        for key in KEYS
        for uri in _uris_of(parts)
        for string in (*plain_strings(uri, key), sent_string(uri, key))
        if string is not None
    }
    urls = [parts.join() for parts in requested] + [requested[0]._replace(scheme=b"https", port=b"80").join()]
    whole = sorted((RUNGS[rung].canonicalize(url), rung) for url in urls for rung in RUNGS)
    clear = st.sampled_from(texts)
    return st.one_of(
        clear.map(Expression),
        st.sampled_from(whole).map(lambda pair: WholeUrl(*pair)),
        st.builds(lambda text, length: ExpressionHash(full_hash(text)[:length]), clear, st.integers(4, 32)),
        st.sampled_from(sorted(digests, key=lambda uri: (uri.key, uri.digest))),
        st.sampled_from(NETWORKS).map(ip_network),
    )


def terms(layers: Sequence[str] = ("first", "second")) -> st.SearchStrategy[Terms]:
    return st.builds(
        lambda *places, **others: Terms(*places, **others),  # of a named tuple itself, also what has a default is drawn
        st.sampled_from([Action.BLOCK, Action.BLOCK, Action.ALLOW, Action.TAG]),
        st.sampled_from(["list", "other"]),
        st.sampled_from(["file", "file"]),
        category=st.none() | st.just("hrn:games"),
        reason=st.none() | st.just("because \u2603"),
        expires=st.none() | st.sampled_from([date(2026, 12, 31), date(2027, 1, 1)]),
        layer=st.sampled_from(layers),
    )


class RulesAndRequests(NamedTuple):
    """Rules in the order of their lines, several of them alike, and requests that many of them fit."""

    rules: list[Rule]
    requested: list[Parts]

    @property
    def uris(self) -> list[Parts]:
        return [uri for parts in self.requested for uri in _uris_of(parts)]


@st.composite
def given_rules(draw: st.DrawFn, layers: Sequence[str] = ("first", "second")) -> RulesAndRequests:
    requested = draw(st.lists(requests(), min_size=2, max_size=3))
    count = draw(st.integers(0, 16))
    some = draw(st.lists(_patterns(requested), min_size=count, max_size=count))
    of_lists = draw(st.lists(terms(layers), min_size=3, max_size=4))
    pairs = [(pattern, draw(st.sampled_from(of_lists))) for pattern in some + draw(st.permutations(some))[: count // 2]]
    return RulesAndRequests(
        [Rule(pattern, of_list, line) for line, (pattern, of_list) in enumerate(pairs, 1)], requested
    )
