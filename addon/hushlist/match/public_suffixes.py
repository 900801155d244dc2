"""Public suffixes: names directly below which others can have one of their own, such as ``co.uk`` and ``github.io``.

The list is the one that the package publicsuffix2 brings, which mitmproxy depends on. It is of 2019, and younger
suffixes are missing, so that a name which is not found in it may be one all the same.

Spec: https://publicsuffix.org/list/, Format and Algorithm
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from hushlist.url.host import is_address, to_ascii


class Section(StrEnum):
    """The part of the list that a suffix stands in."""

    #: registries' own: ``co.uk``
    ICANN = "ICANN"
    #: those of somebody who gives away names below a domain of theirs: ``github.io``
    PRIVATE = "private"


# Written in comments: the format itself knows no sections.
_MARKERS: Mapping[str, Section | None] = {
    "===BEGIN ICANN DOMAINS===": Section.ICANN,
    "===BEGIN PRIVATE DOMAINS===": Section.PRIVATE,
    "===END ICANN DOMAINS===": None,
    "===END PRIVATE DOMAINS===": None,
}


class SuffixRule(NamedTuple):
    """Where a rule of the list stands; its name is the key that it is found by."""

    #: ``None`` where the file does not tell it
    section: Section | None


@dataclass(frozen=True, slots=True)
class PublicSuffixes:
    """The list's rules, each by the expression of a whole host, such as ``b"co.uk/"``, which is found as it is."""

    suffixes: Mapping[bytes, SuffixRule]
    #: every name directly below one is a suffix: ``b"ck/"`` for ``*.ck``
    wildcards: Mapping[bytes, SuffixRule]
    #: but for these: ``b"www.ck/"`` for ``!www.ck``
    exceptions: frozenset[bytes]

    def rule_of(self, expression: bytes) -> SuffixRule | None:
        """The rule by which the host of an expression is a public suffix."""
        if expression in self.exceptions:
            return None
        return self.suffixes.get(expression) or self.wildcards.get(expression.partition(b".")[2])

    def registrable_domain(self, host: bytes) -> bytes:
        """The longest public suffix of a canonical host, and one label more; the host where it has no more.

        >>> found = parse_public_suffixes(["com", "*.ck", "!www.ck"])
        >>> [found.registrable_domain(host) for host in (b"a.b.com", b"a.b.c.ck", b"x.www.ck", b"a.b.unknown", b"com")]
        [b'b.com', b'b.c.ck', b'www.ck', b'b.unknown', b'com']

        "If no rules match, the prevailing rule is "*"."
        """
        if is_address(host):
            return host
        domain, suffix = host, host
        while self.rule_of(suffix + b"/") is None and b"." in suffix:
            domain, suffix = suffix, suffix.partition(b".")[2]
        return domain

    def rule_below(self, expression: bytes) -> SuffixRule | None:
        """The rule by which every name directly below the host of an expression is one."""
        return self.wildcards.get(expression)


def parse_public_suffixes(lines: Iterable[str]) -> PublicSuffixes:
    """The rules of a list in the format of publicsuffix.org.

    >>> found = parse_public_suffixes(["// ===BEGIN ICANN DOMAINS===", "co.uk", "*.ck", "!www.ck"])
    >>> list(found.suffixes), list(found.wildcards), list(found.exceptions)
    ([b'co.uk/'], [b'ck/'], [b'www.ck/'])
    """
    suffixes: dict[bytes, SuffixRule] = {}
    wildcards: dict[bytes, SuffixRule] = {}
    exceptions: set[bytes] = set()
    for name, section in _rules(lines):
        if name.startswith("!"):
            exceptions.add(_expression(name[1:]))
        elif name.startswith("*."):
            wildcards[_expression(name[2:])] = SuffixRule(section)
        else:
            suffixes[_expression(name)] = SuffixRule(section)
    return PublicSuffixes(suffixes, wildcards, frozenset(exceptions))


def _rules(lines: Iterable[str]) -> Iterator[tuple[str, Section | None]]:
    """Rules with their sections.

    "Each line is only read up to the first whitespace; entire lines can also be commented using //."
    """
    section = None
    for line in lines:
        if line.startswith("//"):
            section = _MARKERS.get(line[2:].strip(), section)
        elif words := line.split(maxsplit=1):
            yield words[0], section


def _expression(name: str) -> bytes:
    """The rule's name as live traffic has it: A-labels in lower case."""
    return (name.lower().encode() if name.isascii() else to_ascii(name.encode())) + b"/"


@cache
def public_suffixes() -> PublicSuffixes:
    """The list; it is read when it is first asked for.

    Raises:
        ModuleNotFoundError: there is no publicsuffix2, which mitmproxy 11 and 12 depend on.
    """
    text = files("publicsuffix2").joinpath("public_suffix_list.dat").read_text(encoding="utf-8")
    return parse_public_suffixes(text.splitlines())
