"""``hushlist hide``: makes a list of hashes out of lists in the clear.

Each rule becomes one hash, of its own expression; the hashes are sorted, so that their order tells nothing of the list
that they came from. What no hash can say is left out, and named with file and line:

- an address range; one address becomes its expression
- a rule with ``match``
- with ``hashed-uri``: whatever is no single page, since a hashed URI fits one whole URI. A page becomes two, for http
  and for https

A prefix cannot allow, so exceptions are full hashes in a list of prefixes, too. With a key, hashes are sealed
(``hushlist.core.match.seal``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple, TypeVar

from hushlist.core.compile.list_chunks import LoadedChunk, chunk_list, raise_errors, read_lists
from hushlist.core.compile.worker_processes import Progress, Workers
from hushlist.core.errors import Problem
from hushlist.core.lists.list_source import MOST_KEPT
from hushlist.core.match.expressions import DEEPEST_HOST, DEEPEST_PATH, FULL_LENGTH, SHORTEST_PREFIX, full_hash
from hushlist.core.match.overbroad import breadth_test
from hushlist.core.match.rule import (
    Action,
    Expression,
    ExpressionHash,
    Pattern,
    Rule,
    RuleBlock,
    Terms,
    WholeUrl,
    each_rule,
)
from hushlist.core.match.seal import SealKey
from hushlist.core.policy.policy_file import ListFile
from hushlist.core.url.hashed_uri import HashedUri, HashKey, hash_uri
from hushlist.core.url.host import is_address
from hushlist.extensions.adblock.network_filter import NetworkFilter
from hushlist.tools.publish.false_positives import MOST, false_positives

_Value = TypeVar("_Value", bytes, HashedUri)


class HashKind(StrEnum):
    """What becomes of a rule."""

    #: the SHA-256 of its expression
    SHA256 = "sha256"
    #: the first octets of that
    PREFIX = "prefix"
    #: hashed URIs of the page that it is for
    HASHED_URI = "hashed-uri"


def default_prefix_length(prefixes: int) -> int:
    """The fewest octets of so many prefixes with less than one false positive in a million requests.

    A request looks up 30 expressions at most, and each fits one of n prefixes of k octets by chance with the
    probability n / 2**(8 * k). So a million requests have 1,000,000 * 30 * n / 2**(8 * k) false positives at worst, and
    that is less than one with 4 octets up to n = 143, with 5 up to 36,650, with 6 up to 9,382,499.

    >>> [default_prefix_length(n) for n in (143, 144, 36_650, 36_651, 9_382_499, 9_382_500)]
    [4, 5, 5, 6, 6, 7]
    """
    lengths = range(SHORTEST_PREFIX, FULL_LENGTH + 1)
    return next(octets for octets in lengths if false_positives(prefixes, octets, MOST) < 1)


class HiddenTerms(NamedTuple):
    """What a rule's author said beside its pattern."""

    action: Action
    category: str | None = None
    reason: str | None = None
    expires: date | None = None
    #: as in ``Terms``
    values: tuple[tuple[str, str], ...] = ()


class HiddenRule(NamedTuple):
    """A rule that is hidden, and what it was."""

    pattern: ExpressionHash | HashedUri
    terms: HiddenTerms
    #: in the clear; ``None`` if it was a hash already
    plaintext: bytes | None
    #: the file and line that it came from
    source: str
    line: int


@dataclass(slots=True)
class HiddenList:
    """A list of hashes, and what is to be said of it."""

    kind: HashKind
    #: sorted by hash
    rules: list[HiddenRule] = field(default_factory=list)
    #: the fingerprint of the key that its hashes are sealed with
    seal: str = ""
    #: octets of the prefixes, if it is of these
    prefix_length: int | None = None
    #: rules that cover a public suffix or a popular domain
    broad: list[Problem] = field(default_factory=list)
    #: what was left out, or fits less than before
    warnings: list[Problem] = field(default_factory=list)
    #: rules that were left out, because no hash can say what they do
    left_out: int = 0

    @property
    def variant(self) -> str:
        """How hashed URIs are canonicalized; a list has one variant."""
        return next((rule.pattern.key.variant for rule in self.rules if isinstance(rule.pattern, HashedUri)), "n")

    @property
    def covers_hosts(self) -> bool:
        """Whether all its hashes are of whole hosts."""
        patterns = (rule.pattern for rule in self.rules)
        return all(isinstance(pattern, ExpressionHash) and pattern.is_of_host for pattern in patterns)

    @property
    def as_rules(self) -> Iterator[Rule]:
        """The rules as a reader of the list gives them, with the lines that they came from."""
        terms = Terms(Action.BLOCK, "", "")
        return (Rule(rule.pattern, terms, rule.line) for rule in self.rules)


def hide(
    files: Sequence[ListFile],
    kind: HashKind = HashKind.SHA256,
    *,
    key: SealKey | None = None,
    prefix_length: int | None = None,
    popular: Sequence[bytes] = (),
    progress: Progress | None = None,
) -> HiddenList:
    """Hide the rules of lists; with a key, hashes of expressions are sealed.

    ``prefix_length`` is in octets; without it, ``default_prefix_length`` gives it. ``popular`` are canonical hosts, the
    most popular first. ``SourceError`` if a list cannot be used.
    """
    collector = _Collector(kind, tuple(popular), key)
    left_out, warnings = _collect(files, collector, progress)
    hidden = collector.finish(prefix_length)
    hidden.warnings = [*warnings, *hidden.warnings]
    hidden.left_out += left_out
    return hidden


def collect_hashes(files: Sequence[ListFile]) -> tuple[Mapping[HiddenTerms, Collection[bytes]], int, list[Problem]]:
    """The SHA-256 of lists' rules by terms, how many rules were left out since no hash can say them, and warnings.

    Each is as it is, prefixes, too; without order and origin, a million take a third of the time of ``hide``.

    Raises:
        SourceError: a list cannot be used.
    """
    collector = _Collector(HashKind.SHA256, (), None)
    left_out, warnings = _collect(files, collector, None)
    return collector.hashes(), left_out, warnings + collector.narrowed()


def _collect(files: Sequence[ListFile], collector: _Collector, progress: Progress | None) -> tuple[int, list[Problem]]:
    """Read lists; returns how many of their rules were left out, and the warnings about them."""
    lists = [chunk_list(file) for file in files]
    raise_errors(lists)
    with Workers(1, progress) as workers:
        list(read_lists(lists, workers, collector.add))
    raise_errors(lists)
    return sum(chunked.report.left_out for chunked in lists), [
        warning for chunked in lists for warning in chunked.report.warnings
    ]


# -- collecting --------------------------------------------------------------------------------------------------------

#: plaintext, source, line
_Origin = tuple[bytes | None, str, int]
_RANGE = "no hash stands for a range of addresses"
_MATCH = "no hash is compared as a rule with 'match' is"
_NO_PAGE = "a hashed URI fits one whole URI, and not what is below it"
_OF_FOLDER = "its hashed URI for http fits the folder's own page, too"
#: pages that canonicalization takes for those of their folders (draft-feather-hashed-uri-03, A (8))
_INDEX = (b"/index.htm", b"/index.html")
_FILTER = "no hash stands for a filter with a pattern or options"
#: why a rule with ``for`` or ``during`` goes into no list for others
NOT_FOR_ALL = "it is for some groups, or some times, of this policy"
_IS_URI = "it is the hash of a URI, and no SHA-256 of an expression"
_NO_URI = "it is the hash of an expression, and not of a URI"
_OTHER_SEAL = "it is a hash already, and not sealed as this list is"


class _Collector:
    def __init__(self, kind: HashKind, popular: tuple[bytes, ...], key: SealKey | None) -> None:
        self._kind = kind
        self._digest = full_hash if key is None else key.sealer()
        self._breadth = breadth_test(popular)
        #: terms -> hash -> where it came from first; and those that came as hashes, of whole hosts
        self._hashes: dict[HiddenTerms, dict[bytes, _Origin]] = {}
        self._of_hosts: set[bytes] = set()
        self._uris: dict[HiddenTerms, dict[HashedUri, _Origin]] = {}
        #: whole hosts whose rules, or exceptions, the Adblock lists take back; these lists
        self._taken_back: set[tuple[bool, bytes]] = set()
        self._of_filters: set[str] = set()
        self._list = HiddenList(kind, seal="" if key is None else key.fingerprint)
        #: reason -> the first problem, and how many there are
        self._changed: dict[str, tuple[Problem, int]] = {}

    def add(self, chunk: LoadedChunk) -> None:
        if chunk.file.format.conditions:
            self._of_filters.add(chunk.file.source)
        for some in chunk.rule_blocks:
            if some.terms.scope is not None:
                for rule in each_rule([some]):
                    chunk.report.leave_out(rule.line, str(rule.pattern), NOT_FOR_ALL)
                continue
            rule_terms = some.terms
            terms = HiddenTerms(
                rule_terms.action, rule_terms.category, rule_terms.reason, rule_terms.expires, rule_terms.values
            )
            if isinstance(some, RuleBlock):
                self._clear(some.expressions, some.lines, terms, chunk)
            else:
                self._rule(some.pattern, some.line, terms, chunk)

    def _rule(self, pattern: Pattern, line: int, terms: HiddenTerms, chunk: LoadedChunk) -> None:
        source, is_uri = chunk.file.source, self._kind is HashKind.HASHED_URI
        why = ""
        match pattern:
            case Expression(value):
                self._clear((value,), (line,), terms, chunk)
            case IPv4Network() | IPv6Network() if pattern.prefixlen == pattern.max_prefixlen and not is_uri:
                address = str(pattern.network_address)
                value = (f"[{address}]/" if pattern.version == 6 else f"{address}/").encode()
                self._clear((value,), (line,), terms, chunk)
            case ExpressionHash(value, seal) if not is_uri and seal == self._list.seal:
                self._hashes.setdefault(terms, {}).setdefault(value, (None, source, line))
                self._of_hosts |= {value} if pattern.is_of_host else set()
            case ExpressionHash() if not is_uri:
                why = _OTHER_SEAL
            case HashedUri() if is_uri:
                self._uris.setdefault(terms, {}).setdefault(pattern, (None, source, line))
            case IPv4Network() | IPv6Network():
                why = _RANGE if pattern.prefixlen < pattern.max_prefixlen else _NO_PAGE
            case NetworkFilter() if pattern.is_badfilter and pattern.whole_host and not pattern.is_important:
                self._taken_back.add((pattern.is_exception, pattern.whole_host + b"/"))
            case NetworkFilter() if (host := pattern.whole_host) and pattern.is_exception and not pattern.is_badfilter:
                self._clear((host + b"/",), (line,), terms, chunk)
            case NetworkFilter():
                why = _FILTER
            case WholeUrl():
                why = _MATCH
            case HashedUri():
                why = _IS_URI
            case _:
                why = _NO_URI
        if why:
            chunk.report.leave_out(line, str(pattern), why)

    def _clear(
        self, expressions: Sequence[bytes], lines: Sequence[int], terms: HiddenTerms, chunk: LoadedChunk
    ) -> None:
        source = chunk.file.source
        if terms.action in (Action.BLOCK, Action.WARN):
            self._test(expressions, lines, source)
        if self._kind is HashKind.HASHED_URI:
            own_uris = self._uris.setdefault(terms, {})
            for value, line in zip(expressions, lines, strict=True):
                if value.endswith(b"/"):
                    chunk.report.leave_out(line, value.decode(), _NO_PAGE)
                elif value.partition(b"?")[0].endswith(_INDEX):
                    self._note(_OF_FOLDER, value, source, line)
                for uri in () if value.endswith(b"/") else _uris_of(value):
                    own_uris.setdefault(uri, (value, source, line))
            return
        origins, digest = self._hashes.setdefault(terms, {}), self._digest
        for value, line in zip(expressions, lines, strict=True):
            origins.setdefault(digest(value), (value, source, line))
            is_odd = value.count(b".") >= DEEPEST_HOST or value.count(b"/") > DEEPEST_PATH
            is_odd = is_odd or not 0 <= value.find(b".") < value.find(b"/")
            if is_odd and (why := _narrowed(value)):
                self._note(why, value, source, line)

    def _note(self, why: str, value: bytes, source: str, line: int) -> None:
        """Note a rule whose hash does not fit the same."""
        first, number = self._changed.get(why, (Problem(source, line, value.decode(), why), 0))
        self._changed[why] = first, number + 1

    def _test(self, expressions: Sequence[bytes], lines: Sequence[int], source: str) -> None:
        suspects = self._breadth.suspects({value for value in expressions if value.find(b"/") == len(value) - 1})
        if not suspects or len(self._list.broad) >= MOST_KEPT:
            return
        for value, line in zip(expressions, lines, strict=True):
            if value in suspects and (why := self._breadth.of_expression(value)):
                self._list.broad.append(Problem(source, line, value.decode(), why))

    def finish(self, prefix_length: int | None) -> HiddenList:
        """The list, sorted."""
        hidden, hashes = self._list, self.hashes()
        if self._kind is HashKind.PREFIX:
            number = sum(len(origins) for terms, origins in hashes.items() if terms.action is not Action.ALLOW)
            hidden.prefix_length = prefix_length or default_prefix_length(number)
        of_hashes = _sorted_rules(hashes, self._pattern)
        hidden.rules = [*of_hashes, *self._of_one_variant()]
        hidden.warnings += self.narrowed()
        return hidden

    def hashes(self) -> dict[HiddenTerms, dict[bytes, _Origin]]:
        """The hashes of all rules, without those that their own lists take back."""
        for terms, origins in self._hashes.items() if self._taken_back else ():
            is_exception = terms.action is Action.ALLOW
            for value, (plaintext, source, _) in [*origins.items()]:
                if source in self._of_filters and (is_exception, plaintext) in self._taken_back:
                    del origins[value]
        return self._hashes

    def narrowed(self) -> list[Problem]:
        """The rules whose hashes fit less than they did."""
        return [
            Problem(
                first.source, first.line, first.what, first.why + (f" (the first of {number:,})" if number > 1 else "")
            )
            for first, number in self._changed.values()
        ]

    def _pattern(self, digest: bytes, action: Action, plaintext: bytes | None) -> ExpressionHash:
        length = None if action is Action.ALLOW else self._list.prefix_length
        is_of_host = digest in self._of_hosts if plaintext is None else plaintext.find(b"/") + 1 == len(plaintext)
        return ExpressionHash(digest[:length], self._list.seal, is_of_host=is_of_host)

    def _of_one_variant(self) -> Iterator[HiddenRule]:
        """The rules for hashed URIs; those of another variant than the first are left out."""
        variant = None
        for rule in _sorted_rules(self._uris, lambda uri, *_: uri):
            assert isinstance(rule.pattern, HashedUri)
            variant = variant or rule.pattern.key.variant
            if rule.pattern.key.variant == variant:
                yield rule
            else:
                why = f"left out: it is of variant {rule.pattern.key.variant}, and others are of variant {variant}"
                self._list.left_out += 1
                self._list.warnings.append(Problem(rule.source, rule.line, str(rule.pattern), why))


def _uris_of(page: bytes) -> Iterator[HashedUri]:
    """The hashed URIs of a page, with the query if it has one."""
    key = HashKey("x-sha256", "n", query=b"?" in page, fragment=False)
    return (hash_uri(scheme + page, key) for scheme in (b"http://", b"https://"))


def _narrowed(expression: bytes) -> str:
    """Why a hash fits less than its expression; empty if it fits the same.

    "The four paths ...": a request's expressions have its own path, and folders of up to three components; its own
    host, and up to four of the last five components.
    """
    host, _, path = expression.partition(b"/")
    whys = []
    if host.count(b".") >= DEEPEST_HOST and not is_address(host):
        whys.append(f"no host below it: it has more than {DEEPEST_HOST} labels")
    elif b"." not in host and not host.startswith(b"["):
        whys.append("no host below it: it has only one label")
    if path.endswith(b"/") and path.count(b"/") > DEEPEST_PATH:
        whys.append(f"no page in that folder: it is deeper than {DEEPEST_PATH}")
    return f"its hash fits {', and '.join(whys)}" if whys else ""


def _sorted_rules(
    collected: dict[HiddenTerms, dict[_Value, _Origin]],
    pattern_of: Callable[[_Value, Action, bytes | None], ExpressionHash | HashedUri],
) -> list[HiddenRule]:
    """The rules, each once, by their hashes."""
    rules: dict[tuple[str, str], HiddenRule] = {}
    for terms, origins in collected.items():
        for value, (plaintext, source, line) in origins.items():
            pattern = pattern_of(value, terms.action, plaintext)
            rule = HiddenRule(pattern, terms, plaintext, source, line)
            rules.setdefault((str(pattern), repr(terms)), rule)
    return [rules[key] for key in sorted(rules)]
