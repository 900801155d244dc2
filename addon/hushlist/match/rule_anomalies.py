"""Rule anomalies: rules that fit more than their author means, and rules that a broader one makes redundant.

An overly broad rule covers too much, or has a hash prefix that is too short. ``BreadthTest`` finds rules that cover too
much; the compiler applies it to all lists.

>>> breadth = BreadthTest([b"www.example.com"])
>>> breadth.of_expression(b"ads.example.com/"), breadth.of_expression(b"example.com/")
(None, 'it covers www.example.com, number 1 of the popular domains')
>>> breadth.of_expression(b"co.uk/")
'it is a public suffix (ICANN section): the rule covers every site below it'

Only an expression for a whole host is broad: "a bare public suffix is a valid expression, but a list that blocks one
gets a warning".

``false_positives`` says how often hash prefixes fit URLs that nobody meant.

>>> round(false_positives(100_000, 4), 1), false_positives(100_000, 8) < 1e-6
(178.1, True)

``find_shadowed`` finds rules in the clear that a broader rule makes redundant.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import repeat
from operator import add, mul
from typing import NamedTuple

from hushlist.match.expressions import FULL_LENGTH, full_hash, host_suffixes
from hushlist.match.index import Index
from hushlist.match.public_suffixes import SuffixSection, public_suffixes
from hushlist.match.rule import FINAL, Action, Expression, ExpressionHash, Rule
from hushlist.match.rule_collector import Candidates
from hushlist.match.rule_match import Match
from hushlist.match.seal import SealKey
from hushlist.url.host import is_address

# -- overly broad rules ------------------------------------------------------------------------------------------------


class BreadthTest:
    """Says why a rule is broad, at the cost of a few dictionary look-ups."""

    def __init__(self, popular: Iterable[bytes] = ()) -> None:
        """``popular`` are canonical hosts, the most popular first; their number is their rank, from 1."""
        self._public = public_suffixes()
        self._suffixes = self._public.suffixes.keys() | self._public.wildcards.keys()
        self._wildcards = self._public.wildcards
        #: what stands behind the first label of a broad host; a top-level name has nothing there
        self._behind = {b"", *self._wildcards}
        self._popular = tuple(popular)
        #: expression of a whole host -> rank of the most popular host that it covers
        self._ranks: dict[bytes, int] = {}
        #: octets of a hash, fingerprint -> hash, or prefix of one -> an expression that may be broad
        self._hashes: dict[tuple[int, str], dict[bytes, bytes]] = {}
        for rank, host in enumerate(self._popular, 1):
            for suffix in host_suffixes(host, deepest=host.count(b".") + 1):
                self._ranks.setdefault(suffix + b"/", rank)

    def of_rule(self, rule: Rule) -> str | None:
        """Why a rule is broad, for people; ``None`` if it is not, or if its pattern does not show it."""
        match rule.pattern:
            case Expression(value):
                return self.of_expression(value)
            case IPv4Network() | IPv6Network() as network:
                return self.of_range(network)
        return None

    def of_hash(self, pattern: ExpressionHash, key: SealKey | None = None) -> str | None:
        """Why a rule for a hash, or for a prefix of one, is broad, for people; ``None`` if no broad rule has this hash.

        Of a sealed one, only its key can tell.

        >>> BreadthTest().of_hash(ExpressionHash(full_hash(b"co.uk/")[:8]))
        'it begins the hash of co.uk/: it is a public suffix (ICANN section): the rule covers every site below it'
        """
        if pattern.seal and (key is None or key.fingerprint != pattern.seal):
            return None
        expression = self.hashed(pattern.value, key if pattern.seal else None)
        why = expression and self.of_expression(expression)
        if expression is None or not why:
            return None
        what = "it is" if len(pattern.value) == FULL_LENGTH else "it begins"
        return f"{what} the hash of {expression.decode()}: {why}"

    def hashed(self, value: bytes, key: SealKey | None = None) -> bytes | None:
        """The expression that may be broad, and has this hash, or one that begins so; with a key, of a sealed list."""
        octets, of = len(value), key.fingerprint if key else ""
        if (octets, of) not in self._hashes:
            digest = key.sealer() if key else full_hash
            self._hashes[octets, of] = {digest(name)[:octets]: name for name in (*self._ranks, *self._suffixes)}
        return self._hashes[octets, of].get(value)

    def is_popular(self, expression: bytes) -> bool:
        """Whether an expression covers a popular domain."""
        return expression in self._ranks

    def suspects(self, hosts: Collection[bytes]) -> set[bytes]:
        """Those of many expressions of whole hosts that may be broad; nearly none is."""
        found = self._suffixes.intersection(hosts)
        found |= {host for host in hosts if host.partition(b".")[2] in self._behind}
        return found.union(self._ranks.keys() & hosts) if self._ranks else found

    def of_expression(self, expression: bytes) -> str | None:
        """Why a canonical expression is broad, for people; ``None`` if it is not."""
        parent = expression[expression.find(b".") + 1 :]
        if (
            expression in self._ranks
            or expression in self._suffixes
            or parent in self._wildcards
            or len(parent) == len(expression)  # no dot
        ):
            return self._describe(expression)
        return None

    def _describe(self, expression: bytes) -> str | None:
        host, _, path = expression.partition(b"/")
        if path:
            return None
        if b"." not in host and not host.startswith(b"["):
            kind = "a top-level domain" if expression in self._suffixes else "a single label"
            return f"it is {kind}: {_ALL}"
        found = (self._describe_suffix(expression), self._describe_popular(expression))
        return "; ".join(filter(None, found)) or None

    def _describe_suffix(self, expression: bytes) -> str | None:
        section = self._public.section_of(expression)
        if section is not None:
            return f"it is a public suffix{_in(section)}: {_ALL}"
        # Strictly it is not a suffix, but all names directly below it are, so it covers even more.
        section = self._wildcards.get(expression)
        return None if section is None else f"every name directly below it is a public suffix{_in(section)}: {_ALL}"

    def _describe_popular(self, expression: bytes) -> str | None:
        rank = self._ranks.get(expression)
        if rank is None:
            return None
        popular = self._popular[rank - 1]
        what = "it is" if popular + b"/" == expression else f"it covers {popular.decode('ascii', 'backslashreplace')},"
        return f"{what} number {rank} of the popular domains"

    def of_range(self, network: IPv4Network | IPv6Network) -> str | None:
        """Why an address range is broad, for people; ``None`` if it is not.

        >>> BreadthTest().of_range(ip_network("127.0.0.0/8"))
        'a whole address range: it covers 16,777,216 addresses, and the whole of 127.0.0.0/8 (loopback)'
        """
        covered = [f"{block} ({name})" for block, name in _SPECIAL_BLOCKS.items() if _covers(network, block)]
        found = [_size(network)] if network.prefixlen <= _BROADEST[network.version] else []
        if covered:
            found.append(f"the whole of {', '.join(covered)}")
        return f"a whole address range: it covers {', and '.join(found)}" if found else None


@lru_cache(maxsize=1)
def breadth_test(popular: tuple[bytes, ...]) -> BreadthTest:
    """The test for these popular domains; the last one is kept, for the next chunk of a list."""
    return BreadthTest(popular)


_ALL = "the rule covers every site below it"


def _in(section: SuffixSection) -> str:
    return "" if section is SuffixSection.UNMARKED else f" ({section} section)"


#: IP version -> the longest prefix that covers a whole provider or more.
#: IPv4: IANA gives /8 to regional registries, and once gave them to a few organizations (IANA IPv4 Address Space
#: Registry); a provider gets less from its registry.
#: IPv6: IANA gives /12 to regional registries (Global Policy for Allocation of IPv6 Address Space, 2006), and these
#: give less to providers: "only a single IPv6 allocation exceeds a /20 in size", and eight have that (ARIN Draft
#: Policy 2024-8 and its comments, on ARIN's statistics).
_BROADEST = {4: 8, 6: 20}
#: the prefix length of the smallest allocation to a provider (RIPE-738, 5.1.1)
_PROVIDERS_BLOCK = 32

#: Blocks for addresses of the own machine, network or links, which have no public sites. Blocks for documentation,
#: benchmarks and protocols are not here: a rule for one breaks nothing.
#: Spec: RFC 6890, 2.2.2 and 2.2.3
_SPECIAL_BLOCKS: dict[IPv4Network | IPv6Network, str] = {
    ip_network(block): name
    for block, name in (
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private use"),
        ("100.64.0.0/10", "shared by a provider's customers"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link local"),
        ("172.16.0.0/12", "private use"),
        ("192.168.0.0/16", "private use"),
        ("::1/128", "loopback"),
        ("fc00::/7", "unique local"),
        ("fe80::/10", "link local"),
    )
}


def _covers(network: IPv4Network | IPv6Network, block: IPv4Network | IPv6Network) -> bool:
    if isinstance(network, IPv4Network):
        return isinstance(block, IPv4Network) and block.subnet_of(network)
    return isinstance(block, IPv6Network) and block.subnet_of(network)


def _size(network: IPv4Network | IPv6Network) -> str:
    if isinstance(network, IPv4Network):
        return f"{network.num_addresses:,} addresses"
    blocks = 1 << _PROVIDERS_BLOCK - network.prefixlen
    return f"{blocks:,} blocks of /{_PROVIDERS_BLOCK}, each as large as a provider's"


# -- false positives ---------------------------------------------------------------------------------------------------

#: requests
MILLION = 1_000_000
#: expressions that one request looks up: the mean of 24,974 real URLs (7.65), and the maximum
TYPICAL, MOST = 7.65, 30


def false_positives(prefixes: int, octets: int, lookups: float = TYPICAL) -> float:
    """Expected chance matches in a million requests; ``octets`` is the length of a prefix.

    Each look-up matches by chance with the probability prefixes / 2**(8 * octets). With 100,000 prefixes of 4 octets:
    1,000,000 * 7.65 * 100,000 / 2**32 = 178.
    """
    return MILLION * lookups * prefixes / 2.0 ** (8 * octets)


class Prefixes(NamedTuple):
    """The hash prefixes of one length in one list."""

    source: str
    octets: int
    number: int
    #: the line of the first
    line: int

    @property
    def typical(self) -> float:
        """False positives in a million typical requests."""
        return false_positives(self.number, self.octets)

    @property
    def worst(self) -> float:
        """The same if every URL has the most expressions possible."""
        return false_positives(self.number, self.octets, MOST)

    @property
    def is_short(self) -> bool:
        """Whether they have more than one false positive in a million requests."""
        return self.typical > 1

    def as_dict(self) -> dict[str, object]:
        """Plain types for JSON."""
        return {
            "source": self.source,
            "octets": self.octets,
            "number": self.number,
            "false_positives_per_million_requests": {"typical": self.typical, "worst": self.worst},
        }

    def __str__(self) -> str:
        return (
            f"{self.number:,} of {self.octets} octets: {figure(self.typical)} false positives a million requests "
            f"({TYPICAL} look-ups each), at worst {figure(self.worst)} ({MOST})"
        )


def figure(number: float) -> str:
    """A number with two significant digits, or as a whole number from 100.

    >>> figure(178.46), figure(0.0123), figure(1.2e-9), figure(0)
    ('178', '0.012', '1.2e-09', '0')
    """
    return f"{number:,.0f}" if number >= 100 or number == 0 else f"{number:.2g}"


# -- shadowed rules ----------------------------------------------------------------------------------------------------

#: candidates in one batch, and the most octets of all that may be broader than they
_AT_ONCE = 1 << 14
_MOST_OCTETS = 1 << 24
#: a rule that is covered: its expression, line and action
Shadowed = tuple[bytes, int, Action]


def find_shadowed(index: Index, layer: str, candidates: Iterable[Candidates]) -> Iterator[tuple[Shadowed, Match]]:
    """The covered candidates of a layer, each with the rule that covers it.

    That is the next broader final rule in the clear of the same layer, if it has the same action and never expires. If
    the layer's rules have different actions, a rule between the two may act differently. Then a candidate is covered
    only if there is certainly no such rule.
    """
    is_mixed = layer in index.directory.mixed
    for action, expressions, lines in candidates:
        for start in range(0, len(expressions), _AT_ONCE):
            some = expressions[start : start + _AT_ONCE]
            covers, unforked = _covers_of(index, layer, some)
            doubted = is_mixed and covers and _doubted(index, layer, action, covers, unforked)
            for expression, line in zip(some, lines[start : start + _AT_ONCE], strict=True) if covers else ():
                cover = covers.get(expression)
                if cover is None or cover.rule.terms.action is not action:
                    continue
                shadowed = expression, line, action
                if not (doubted and expression in doubted and _may_differ(index, layer, shadowed, cover)):
                    yield shadowed, cover


def _doubted(
    index: Index, layer: str, action: Action, covers: Collection[bytes], unforked: Container[bytes]
) -> set[bytes]:
    """Those of the covered expressions at which, or above which, there may be rules with another action.

    Above others there is no path and, if no rule is a hash, nothing but their cover.
    """
    if index.directory.has_hashes:
        return set(covers)
    rules, _ = index.clear_rules([value for value in covers if value in unforked])
    return {
        value
        for value in covers
        if value not in unforked
        or any(
            own.terms.layer == layer and own.terms.action in FINAL and own.terms.action is not action
            for own in rules[value]
        )
    }


def _covers_of(index: Index, layer: str, expressions: Sequence[bytes]) -> tuple[dict[bytes, Match], set[bytes]]:
    """For each expression that has one: the next broader final rule in the clear of a layer, unless that expires.

    Also the whole hosts without guides from their parent domain up to that rule.
    """
    half = len(expressions) // 2
    if half and _octets_above(expressions) > _MOST_OCTETS:
        first, second = (_covers_of(index, layer, own) for own in (expressions[:half], expressions[half:]))
        return first[0] | second[0], first[1] | second[1]
    ends = list(map(bytes.find, expressions, repeat(b"/")))
    hosts = [value for value, end in zip(expressions, ends, strict=True) if end + 1 == len(value)]
    paths = [value for value, end in zip(expressions, ends, strict=True) if end + 1 < len(value)]
    if _ENDS_IN_DIGIT.search(b"".join(hosts)):  # nothing is above an address
        hosts = [value for value in hosts if not (value[-2:-1].isdigit() and _ADDRESS.fullmatch(value))]
    above = [value.partition(b".")[2] for value in hosts]
    folders = [_folder(value) for value in paths]
    names = {name for name in set(above) if b"." in name}.union(folders)
    #: name -> what is next above it, where that can be a rule
    parents: dict[bytes, bytes] = {}
    every, new = set(names), names
    while new:
        found = _parents(new)
        parents |= found
        new = set(found.values()).difference(every)
        every |= new
    rules, guided = index.clear_rules([*every])
    own = dict(_deciding(rules, layer))
    nearest = own.copy()
    #: names above which, up to the next rule, a host has a guide: there may be paths between
    forked: set[bytes] = set()
    for name in sorted(parents.keys() - own.keys(), key=len) if own or paths else ():  # parents come first
        parent = parents[name]
        nearest[name] = nearest.get(parent)
        if parent in forked or (parent in guided and name.find(b"/") == len(name) - 1):
            forked.add(name)
    covers = {
        value: cover for value, name in zip(hosts + paths, above + folders, strict=True) if (cover := nearest.get(name))
    }
    forks = [value for value, name in zip(paths, folders, strict=True) if name in forked]
    chains = [(value, _broader(value, parents, own, guided)) for value in forks]
    if chains:
        rules, _ = index.clear_rules([*{value for _, chain in chains for value in chain}.difference(every)])
        own.update(_deciding(rules, layer))
    for value, chain in chains:
        covers.pop(value, None)
        if cover := next((own[broader] for broader in chain if broader in own), None):
            covers[value] = cover
    return covers, {value for value, name in zip(hosts, above, strict=True) if not (name in guided or name in forked)}


def _octets_above(expressions: Sequence[bytes]) -> int:
    """More octets than all expressions above these have; hostile lists have deep hosts and deep paths."""
    joined = b"".join(expressions)
    if joined.count(b"/") == len(expressions):
        return max(map(len, expressions)) * (joined.count(b".") + len(expressions))
    labels = map(add, map(bytes.count, expressions, repeat(b".")), repeat(1))
    return sum(map(mul, map(len, expressions), map(mul, labels, map(bytes.count, expressions, repeat(b"/")))))


def _folder(expression: bytes) -> bytes:
    """What is next above an expression with a path, of the same host.

    >>> _folder(b"h.example/a/b?q/"), _folder(b"h.example/a/b/"), _folder(b"h.example/a/")
    (b'h.example/a/b', b'h.example/a/', b'h.example/')
    """
    page, mark, _ = expression.partition(b"?")
    return page if mark else page[: page.rfind(b"/", 0, -1) + 1]


def _parents(names: Iterable[bytes]) -> dict[bytes, bytes]:
    """What is next above each: a page, a folder, or the parent domain if that has two labels; others are left out.

    >>> _parents([b"h.example/a", b"a.h.example/", b"h.example/", b"1.2.3.4/"])
    {b'h.example/a': b'h.example/', b'a.h.example/': b'h.example/'}
    """
    found: dict[bytes, bytes] = {}
    for name in names:
        host, _, path = name.partition(b"/")
        if path:
            found[name] = _folder(name)
        elif host.count(b".") > 1 and not (host[-1:].isdigit() and _is_address(name)):
            found[name] = name.partition(b".")[2]
    return found


def _is_address(host: bytes) -> bool:
    return bool(_ADDRESS.fullmatch(host)) or is_address(host[:-1])


_ENDS_IN_DIGIT = re.compile(rb"[0-9]/")
#: nearly every address in a list
_ADDRESS = re.compile(rb"(?:(?:1[0-9]?|2[0-4]?|[3-9])?[0-9]\.){3}(?:1[0-9]?|2[0-4]?|[3-9])?[0-9]/")


def _broader(
    expression: bytes, parents: Mapping[bytes, bytes], known: Container[bytes], guided: Container[bytes]
) -> list[bytes]:
    """The expressions above one with a path, the most specific first, up to the first host that is known.

    >>> _broader(b"h.example/a/b?q", {b"h.example/": b""}, (), ())
    [b'h.example/a/b', b'h.example/a/', b'h.example/']
    """
    end = expression.find(b"/")
    host, paths = expression[: end + 1], [expression[end:]]
    while paths[-1] != b"/":
        paths.append(_folder(paths[-1]))
    found = [host[:-1] + path for path in paths[1:]]
    if paths[0] == paths[1] + b"?":  # "an empty query gives no expression of its own"
        del paths[0]
    while host not in known and (host := parents.get(host, b"")):
        found += [host[:-1] + path for path in (paths if host in guided else paths[-1:])]
    return found


def _deciding(rules: Mapping[bytes, Iterable[Rule]], layer: str) -> Iterator[tuple[bytes, Match | None]]:
    """For each expression with final rules of a layer: the one that decides; ``None`` if it expires."""
    for expression, own in rules.items():
        final = [rule for rule in own if rule.terms.layer == layer and rule.terms.action in FINAL]
        if final:
            rule = max(final, key=lambda rule: FINAL[rule.terms.action])
            host = expression.index(b"/")
            match = Match(rule, expression, (host, len(expression) - host))
            yield expression, None if rule.terms.expires is not None else match


def _may_differ(index: Index, layer: str, candidate: Shadowed, cover: Match) -> bool:
    """Whether some request that the candidate fits may get another action without it.

    The cause would be a rule at the same expression, or between it and the cover: a hash, or a rule for a path below a
    host between theirs. The index says only that there may be such paths.
    """
    expression, _, action = candidate
    name, _, path = expression.partition(b"/")
    host = index.on_host(name)
    page, mark, query = path.partition(b"?")
    matches = [*host.matches, *(index.find_paths(host, b"/" + page, query if mark else None) if path else ())]
    for match in matches:
        terms = match.rule.terms
        is_final = terms.layer == layer and terms.action in FINAL
        if is_final and terms.action is not action and _precedence(match) > _precedence(cover):
            return True
    own, least = expression.index(b"/"), cover.expression.index(b"/")
    return any(least <= len(suffix) < own for suffix in host.suffixes)


def _precedence(match: Match) -> tuple[tuple[int, int], int]:
    return match.specificity, FINAL[match.rule.terms.action]
