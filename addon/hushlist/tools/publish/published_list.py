"""What of a list a Safe Browsing client can be given: full hashes of host-suffix/path-prefix expressions.

Such a client knows neither exceptions nor tags, ranges of addresses, patterns, hashed URIs or sealed hashes; such rules
are left out and counted. A rule for a host or a folder is one expression, so its hash fits what the rule fits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

from hushlist.core.errors import Problem, SourceError
from hushlist.core.match.expressions import FULL_LENGTH
from hushlist.core.match.rule import Action
from hushlist.core.policy.policy_file import ListFile
from hushlist.extensions.safe_browsing.prefix_list import MOST_PREFIXES, SHORTEST
from hushlist.tools.publish.hidden_list import collect_hashes


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
        return tuple(dict.fromkeys(packed[at : at + SHORTEST] for at in range(0, len(packed), FULL_LENGTH)))

    def hashes_with(self, prefix: bytes) -> Iterator[bytes]:
        places = range(0, len(self.packed), FULL_LENGTH)
        begin = bisect_left(places, prefix, key=lambda at: self.packed[at : at + len(prefix)])
        end = bisect_right(places, prefix, begin, key=lambda at: self.packed[at : at + len(prefix)])
        return (self.packed[at : at + FULL_LENGTH] for at in places[begin:end])


def publish(files: Sequence[ListFile], today: date) -> PublishedList:
    """What lists block or warn of today; ``SourceError`` if one cannot be used, or they have too many hashes."""
    by_terms, left_out, warnings = collect_hashes(files)
    blocked, allowed = set[bytes](), set[bytes]()
    for terms, hashes in by_terms.items():
        if terms.expires is not None and terms.expires < today:
            continue
        full = {value for value in hashes if len(value) == FULL_LENGTH}
        if terms.action in (Action.BLOCK, Action.WARN):
            blocked |= full
            left_out += len(hashes) - len(full)
            continue
        left_out += len(hashes)
        if terms.action is Action.ALLOW:
            allowed |= full
    published = sorted(blocked - allowed)  # an exception from the very same rule takes it back
    if len(published) > MOST_PREFIXES:
        why = f"{len(published):,} hashes, of {MOST_PREFIXES:,} at most"
        raise SourceError([Problem(files[0].source, 0, "lists", why)])
    return PublishedList(b"".join(published), left_out, warnings)
