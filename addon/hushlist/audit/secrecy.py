"""What a search says about a list's secrecy, in words and for larger dictionaries than the one that was tried.

>>> list(estimates(Leak("l", entries=2_000_000, seconds=4.0)))
[('400,000,000 names, about as many as there are registered domains', 800.0)]
"""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.audit.leak import Leak

#: dictionaries that somebody may have, in names.
#: Registered domains: 368.4 million at the end of the third quarter of 2024 (Verisign, Domain Name Industry Brief),
#: which grows by a few million a year.
_REGISTERED = 400_000_000
#: seconds; a search that took less says nothing about how fast one is
_LEAST = 1.0


def estimates(leak: Leak) -> Iterator[tuple[str, float]]:
    """Larger dictionaries, and the seconds that they take on this machine; none where the search was too short."""
    if leak.seconds >= _LEAST and leak.entries:
        seconds = leak.seconds / leak.entries
        yield f"{_REGISTERED:,} names, about as many as there are registered domains", seconds * _REGISTERED


def verdict(leak: Leak) -> str:
    """How far the list's secrecy can be trusted.

    >>> verdict(Leak("l"))
    'There is no hash in this list: it hides nothing.'
    """
    if not leak.hashes:
        return "There is no hash in this list: it hides nothing."
    recovered = len(leak.recovered)
    if not recovered:
        return (
            "Nothing fell to this dictionary. That shows that it is the wrong one, not that the list is secret: "
            "whatever a larger one names falls as fast."
        )
    if leak.share * leak.hashes < recovered / 2:
        return (
            "About as many match by chance: with prefixes so short a match proves little. What is meant is hidden "
            "among all that fits, as far as nobody can guess it from the rest of the list."
        )
    if leak.share >= 0.5:
        return "Half of the list or more can be read by whoever has such a dictionary: its hashes keep no secret."
    return (
        "What fell can be read by whoever has such a dictionary; the rest is hidden only until somebody tries one that "
        "names it."
    )


def span(seconds: float) -> str:
    """A time for a person.

    >>> [span(seconds) for seconds in (0.4, 75, 800, 9000, 400_000)]
    ['0.4 seconds', '75 seconds', '13 minutes', '2.5 hours', '4.6 days']
    """
    for length, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * length:
            number = seconds / length
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return f"{seconds:.0f} seconds" if seconds >= 10 else f"{seconds:.1f} seconds"
