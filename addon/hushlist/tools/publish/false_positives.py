"""How often hash prefixes fit URLs that nobody meant.

>>> round(false_positives(100_000, 4), 1), false_positives(100_000, 8) < 1e-6
(178.1, True)
"""

from __future__ import annotations

from typing import NamedTuple

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
