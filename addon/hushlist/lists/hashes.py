"""Readers of lists of bare hashes: SHA-256 in hexadecimal, and Safe Browsing's raw hash prefixes.

Spec: Safe Browsing v4, Update API, RawHashes: "the hashes, in binary format, concatenated into one long string. Hashes
are sorted in lexicographic order."
"""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.lists.foreign import may_be_rule
from hushlist.lists.patterns import parse_expression_hash
from hushlist.lists.source import Defaults, Report, entries
from hushlist.match.hashing import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.match.rule import ExpressionHash, Rule


def read_sha256(octets: bytes, defaults: Defaults, report: Report) -> Iterator[Rule]:
    """One SHA-256 of an expression a line, or a prefix of it, in hexadecimal."""
    terms = defaults.terms(report.source)
    for line, entry in entries(octets, report, is_foreign=True):
        try:
            pattern = parse_expression_hash(entry)
        except ValueError as error:
            report.leave_out(line, entry, str(error).partition(", not")[0])
        else:
            if may_be_rule(pattern, entry, line, defaults, report):
                yield Rule(pattern, terms, line)


def read_safebrowsing_raw(octets: bytes, defaults: Defaults, report: Report) -> Iterator[Rule]:
    """Raw prefixes, one behind the other, of the list's ``prefix-length``; a rule's line is the prefix's number.

    Where they are not sorted, those up to there are rules, and the report has an error.

    >>> report = Report("f")
    >>> rules = read_safebrowsing_raw(b"aaaaabcd", Defaults(prefix_length=4), report)
    >>> [(rule.line, str(rule.pattern)) for rule in rules]
    [(1, 'sha256:61616161'), (2, 'sha256:61626364')]
    """
    length = defaults.prefix_length
    if length is None or not SHORTEST_PREFIX <= length <= FULL_LENGTH:
        why = f"a binary list needs the length of its prefixes, {SHORTEST_PREFIX} to {FULL_LENGTH} octets"
        report.error(0, "prefix-length", why)
        return
    if len(octets) % length:
        report.error(0, "prefix-length", f"{len(octets)} octets are no whole number of prefixes of {length}")
        return
    terms = defaults.terms(report.source)
    before = b""
    for start in range(0, len(octets), length):
        value = octets[start : start + length]
        number = start // length + 1
        if value < before:
            # A list that is read with the wrong length is hardly ever sorted.
            report.error(number, f"sha256:{value.hex()}", "the prefixes are not sorted: is their length right?")
            return
        before = value
        pattern = ExpressionHash(value)
        if may_be_rule(pattern, value.hex(), number, defaults, report):
            yield Rule(pattern, terms, number)
