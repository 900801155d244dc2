"""Rules that fit more than their author means: a public suffix, a popular domain, most addresses, nearly any URL.

``BreadthTest`` finds them; the compiler applies it to all lists.

>>> breadth = BreadthTest([b"www.example.com"])
>>> breadth.of_expression(b"ads.example.com/"), breadth.of_expression(b"example.com/")
(None, 'it covers www.example.com, number 1 of the popular domains')
>>> breadth.of_expression(b"co.uk/")
'it is a public suffix (as com is): the rule covers every site below it'

Only an expression for a whole host is broad: "a bare public suffix is a valid expression, but a list that blocks one
gets a warning".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network

from hushlist.core.match.expressions import FULL_LENGTH, full_hash, host_suffixes
from hushlist.core.match.public_suffixes import SuffixSection, public_suffixes
from hushlist.core.match.rule import Expression, ExpressionHash, FilterPattern, Rule
from hushlist.core.match.seal import SealKey


class BreadthTest:
    """Says why a rule is broad, at the cost of a few dictionary look-ups."""

    def __init__(self, popular: Iterable[bytes]) -> None:
        """``popular`` are canonical hosts, the most popular first; their number is their rank, from 1."""
        self._public = public_suffixes()
        #: expressions of public suffixes, and of those that have all names below them for suffixes
        self.suffixes = self._public.suffixes.keys() | self._public.wildcards.keys()
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
            case FilterPattern() as pattern:
                return pattern.why_broad(self)
            case IPv4Network() | IPv6Network() as network:
                return self.of_range(network)
        return None

    def of_hash(self, pattern: ExpressionHash, key: SealKey | None = None) -> str | None:
        """Why a rule for a hash, or for a prefix of one, is broad, for people; ``None`` if no broad rule has this hash.

        Of a sealed one, only its key can tell.

        >>> BreadthTest(()).of_hash(ExpressionHash(full_hash(b"co.uk/")[:8]))
        'it begins the hash of co.uk/: it is a public suffix (as com is): the rule covers every site below it'
        """
        if pattern.seal and (key is None or key.fingerprint != pattern.seal):
            return None
        expression = self.hashed(pattern.value, key if pattern.seal else None)
        if expression is None:
            return None
        what = "it is" if len(pattern.value) == FULL_LENGTH else "it begins"
        return f"{what} the hash of {expression.decode()}: {self.of_expression(expression)}"

    def hashed(self, value: bytes, key: SealKey | None = None) -> bytes | None:
        """The expression that may be broad, and has this hash, or one that begins so; with a key, of a sealed list."""
        octets, of = len(value), key.fingerprint if key else ""
        if (octets, of) not in self._hashes:
            digest = key.sealer() if key else full_hash
            self._hashes[octets, of] = {digest(name)[:octets]: name for name in (*self._ranks, *self.suffixes)}
        return self._hashes[octets, of].get(value)

    def is_popular(self, expression: bytes) -> bool:
        """Whether an expression covers a popular domain."""
        return expression in self._ranks

    def suspects(self, hosts: Collection[bytes]) -> set[bytes]:
        """Those of many expressions of whole hosts that may be broad; nearly none is."""
        suspects = self.suffixes.intersection(hosts)
        suspects |= {host for host in hosts if host.partition(b".")[2] in self._behind}
        return suspects.union(self._ranks.keys() & hosts) if self._ranks else suspects

    def of_expression(self, expression: bytes) -> str | None:
        """Why a canonical expression is broad, for people; ``None`` if it is not."""
        parent = expression[expression.find(b".") + 1 :]
        if (
            expression in self._ranks
            or expression in self.suffixes
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
            kind = "a top-level domain" if expression in self.suffixes else "a single label"
            return f"it is {kind}: {_ALL}"
        reasons = (self._describe_suffix(expression), self._describe_popular(expression))
        return "; ".join(filter(None, reasons)) or None

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

        >>> BreadthTest(()).of_range(ip_network("127.0.0.0/8"))
        'a whole address range: it covers 16,777,216 addresses, and the whole of 127.0.0.0/8 (loopback)'
        """
        covered = [f"{block} ({name})" for block, name in _SPECIAL_BLOCKS.items() if _covers(network, block)]
        reasons = [_size(network)] if network.prefixlen <= _BROADEST[network.version] else []
        if covered:
            reasons.append(f"the whole of {', '.join(covered)}")
        return f"a whole address range: it covers {', and '.join(reasons)}" if reasons else None


@lru_cache(maxsize=1)
def breadth_test(popular: tuple[bytes, ...]) -> BreadthTest:
    """The test for these popular domains; the last one is kept, for the next chunk of a list."""
    return BreadthTest(popular)


def breadth_of_order(scope: str, target: str) -> str | None:
    """Why what somebody blocks, or makes a rule of, is broad, for people; popular domains may be meant, and are not.

    ``target`` is a canonical host where the scope is ``host``, and an expression where it is ``url``.

    >>> breadth_of_order("host", "com")
    'it is a top-level domain: the rule covers every site below it'
    """
    expressions = {"host": f"{target}/", "url": target}
    return breadth_test(()).of_expression(expressions[scope].encode()) if scope in expressions else None


_ALL = "the rule covers every site below it"


def _in(section: SuffixSection) -> str:
    return {SuffixSection.ICANN: " (as com is)", SuffixSection.PRIVATE: " (as github.io is)"}.get(section, "")


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
