"""What of a list a Safe Browsing client can be given: full hashes of host-suffix/path-prefix expressions.

Such a client knows neither exceptions nor tags, ranges of addresses, patterns, hashed URIs or sealed hashes; such rules
are left out and counted. A rule for a host or a folder is one expression, so its hash fits what the rule fits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

from hushlist.errors import Problem, SourceError
from hushlist.match.expressions import FULL_LENGTH
from hushlist.match.rule import Action, ExpressionHash
from hushlist.policy.policy_file import ListFile
from hushlist.publish.hidden_list import HashKind, hide
from hushlist.safebrowsing.prefix_list import MOST_PREFIXES, SHORTEST


@dataclass(frozen=True, slots=True)
class PublishedList:
    """Full hashes, sorted and packed, and what is to be said of the rules that they are of."""

    packed: bytes = b""
    #: rules that have no full hash, or that do not block
    left_out: int = 0
    warnings: Sequence[Problem] = field(default=())

    def __len__(self) -> int:
        return len(self.packed) // FULL_LENGTH

    def prefixes(self) -> tuple[bytes, ...]:
        """Each first four octets, once, sorted."""
        packed = self.packed
        return tuple(sorted({packed[at : at + SHORTEST] for at in range(0, len(packed), FULL_LENGTH)}))

    def hashes_with(self, prefix: bytes) -> Iterator[bytes]:
        """The full hashes that begin with a prefix."""
        places = range(0, len(self.packed), FULL_LENGTH)
        begin = bisect_left(places, prefix, key=lambda at: self.packed[at : at + len(prefix)])
        end = bisect_right(places, prefix, begin, key=lambda at: self.packed[at : at + len(prefix)])
        return (self.packed[at : at + FULL_LENGTH] for at in places[begin:end])


def publish(files: Sequence[ListFile], today: date) -> PublishedList:
    """The rules of lists that block or warn today.

    Raises:
        SourceError: a list cannot be used, or they have more hashes than clients take.
    """
    hidden = hide(files, HashKind.SHA256)
    blocked, allowed, left_out = set[bytes](), set[bytes](), hidden.left_out
    for rule in hidden.rules:
        pattern, terms = rule.pattern, rule.terms
        if terms.expires is not None and terms.expires < today:
            continue
        assert isinstance(pattern, ExpressionHash)  # as is asked for
        if pattern.is_full and terms.action in (Action.BLOCK, Action.WARN):
            blocked.add(pattern.value)
            continue
        left_out += 1
        if terms.action is Action.ALLOW:
            allowed.add(pattern.value)
    hashes = sorted(blocked - allowed)  # an exception from the very same rule takes it back
    if len(hashes) > MOST_PREFIXES:
        why = f"{len(hashes):,} hashes, of {MOST_PREFIXES:,} at most"
        raise SourceError([Problem(files[0].source, 0, "lists", why)])
    return PublishedList(b"".join(hashes), left_out, hidden.warnings)
