"""Reads hashes of expressions, in text or as Safe Browsing's raw prefixes, and hashed URIs.

Only in a list of hashed URIs, a line that cannot be read is an error. Raw hash prefixes have no lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushlist.core.errors import UrlError
from hushlist.core.lists.list_source import ListDefaults, ProblemReport, entries, reason_at
from hushlist.core.lists.patterns import ONLY_FULL, may_be_rule, parse_expression_hash
from hushlist.core.match.expressions import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.core.match.rule import ExpressionHash, Rule
from hushlist.core.url.hashed_uri import HashedUri, UnknownAlgorithmError, parse_hashed_uri


def read_hashed_uris(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """All rules of a list with "#" comments; if the report has errors, those that could be read."""
    terms = defaults.terms(report.source)
    for line, entry in entries(octets, report):
        if uri := read_hashed_uri(entry, line, defaults, report):
            yield Rule(uri, terms, line)


def read_hashed_uri(text: str, line: int, defaults: ListDefaults, report: ProblemReport) -> HashedUri | None:
    """One hashed URI, or ``None`` with an error; if only its algorithm is unknown, with a warning."""
    try:
        uri = parse_hashed_uri(text, defaults.variant or "n")
    except UnknownAlgorithmError as error:
        report.skip(line, text, error.reason)
        return None
    except UrlError as error:
        report.error(line, text, reason_at(error))
        return None
    if uri.key.fragment:
        report.warn(line, text, "a proxy never sees a fragment: '+frag' can match only where a source keeps them")
    return uri


#: the first entry of a list of sealed hashes
_SEAL = re.compile(rb"(?:\xef\xbb\xbf)?(?:(?>[ \t\r]*+(?:#[^\n]*+)?\n))*+[ \t]*+seal:[ \t]*+([0-9a-f]{16})\s")


def seal_in_head(octets: bytes) -> str | None:
    """The fingerprint that the first entry of a list gives; the chunks behind it do not have it."""
    match = _SEAL.match(octets)
    return match and match[1].decode()


def read_sha256(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    r"""One expression's SHA-256, or its prefix, in hexadecimal on each line.

    In a list that begins with ``seal: FINGERPRINT``, they are sealed with that key.

    >>> rules = read_sha256(b"seal: f87dde256ef1fd9a\nba7816bf", ListDefaults(), ProblemReport("f"))
    >>> [str(rule.pattern) for rule in rules]
    ['sealed:ba7816bf']
    """
    terms, seal, is_first = defaults.terms(report.source), defaults.seal or "", report.first_line == 1
    for line, entry in entries(octets, report, is_foreign=True):
        is_seal = entry.startswith("seal:")
        if is_seal or is_first:
            seal = defaults.check_seal(line, entry.removeprefix("seal:").strip() if is_seal else None, report)
            is_first = False
        if is_seal:
            continue
        try:
            pattern = parse_expression_hash(entry, seal)
        except ValueError as error:
            report.leave_out(line, entry, str(error).partition(", not")[0])
        else:
            if may_be_rule(pattern, terms.action):
                yield Rule(pattern, terms, line)
            else:
                report.leave_out(line, entry, ONLY_FULL)


def read_safebrowsing_raw(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Raw prefixes without separators, of the list's ``prefix-length``; a rule's line is the prefix's number.

    If they are not sorted, reading stops there, with an error in the report.

    Spec: Safe Browsing v4, Update API, RawHashes: "the hashes, in binary format, concatenated into one long string.
    Hashes are sorted in lexicographic order."

    >>> report = ProblemReport("f")
    >>> rules = read_safebrowsing_raw(b"aaaaabcd", ListDefaults(prefix_length=4), report)
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
    for number, start in enumerate(range(0, len(octets), length), 1):
        value = octets[start : start + length]
        if value < before:
            # Read with the wrong length, hardly any list is sorted.
            report.error(number, f"sha256:{value.hex()}", "the prefixes are not sorted: is their length right?")
            return
        before = value
        pattern = ExpressionHash(value)
        if may_be_rule(pattern, terms.action):
            yield Rule(pattern, terms, number)
        else:
            report.leave_out(number, value.hex(), ONLY_FULL)
