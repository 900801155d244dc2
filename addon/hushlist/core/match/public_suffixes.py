"""Public suffixes: names below which anybody can register a name, such as ``co.uk`` and ``github.io``.

The package publicsuffixlist brings the list. Each change of the list makes a new release of the package.

Spec: https://publicsuffix.org/list/, Format and Algorithm
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from hushlist.core.url.host import is_address, to_ascii


class SuffixSection(StrEnum):
    """The section of the list that has a suffix."""

    #: suffixes of registries: ``co.uk``
    ICANN = "ICANN"
    #: domains whose owner gives away names below them: ``github.io``
    PRIVATE = "private"
    #: the file marks no sections
    UNMARKED = "unmarked"


# The format has no sections; comments mark them.
_MARKERS = {
    "===BEGIN ICANN DOMAINS===": SuffixSection.ICANN,
    "===BEGIN PRIVATE DOMAINS===": SuffixSection.PRIVATE,
    "===END ICANN DOMAINS===": SuffixSection.UNMARKED,
    "===END PRIVATE DOMAINS===": SuffixSection.UNMARKED,
}


@dataclass(frozen=True, slots=True)
class PublicSuffixes:
    """The sections of the list's rules by the expression of a whole host, such as ``b"co.uk/"``."""

    suffixes: Mapping[bytes, SuffixSection]
    #: every name directly below is a suffix: ``b"ck/"`` for ``*.ck``
    wildcards: Mapping[bytes, SuffixSection]
    #: except these: ``b"www.ck/"`` for ``!www.ck``
    exceptions: frozenset[bytes]

    def section_of(self, expression: bytes) -> SuffixSection | None:
        """The section of the rule that makes an expression's host a public suffix, or ``None``."""
        if expression in self.exceptions:
            return None
        return self.suffixes.get(expression) or self.wildcards.get(expression.partition(b".")[2])

    def registrable_domain(self, host: bytes) -> bytes:
        """The longest public suffix of a canonical host with one more label; the host itself if it has no more.

        >>> found = parse_public_suffixes(["com", "*.ck", "!www.ck"])
        >>> [found.registrable_domain(host) for host in (b"a.b.com", b"a.b.c.ck", b"x.www.ck", b"a.b.unknown", b"com")]
        [b'b.com', b'b.c.ck', b'www.ck', b'b.unknown', b'com']

        "If no rules match, the prevailing rule is "*"."
        """
        if is_address(host):
            return host
        domain, suffix = host, host
        while self.section_of(suffix + b"/") is None and b"." in suffix:
            domain, suffix = suffix, suffix.partition(b".")[2]
        return domain


def parse_public_suffixes(lines: Iterable[str]) -> PublicSuffixes:
    """The rules of a list in the format of publicsuffix.org.

    >>> found = parse_public_suffixes(["// ===BEGIN ICANN DOMAINS===", "co.uk", "*.ck", "!www.ck"])
    >>> list(found.suffixes), list(found.wildcards), list(found.exceptions)
    ([b'co.uk/'], [b'ck/'], [b'www.ck/'])
    """
    suffixes: dict[bytes, SuffixSection] = {}
    wildcards: dict[bytes, SuffixSection] = {}
    exceptions: set[bytes] = set()
    section = SuffixSection.UNMARKED
    for line in lines:
        # "Each line is only read up to the first whitespace; entire lines can also be commented using //."
        name = (line.split(maxsplit=1) or [""])[0]
        section = section_after(line, section)
        if line.startswith("//"):
            continue
        if name.startswith("!"):
            exceptions.add(_expression(name[1:]))
        elif name.startswith("*."):
            wildcards[_expression(name[2:])] = section
        elif name:
            suffixes[_expression(name)] = section
    return PublicSuffixes(suffixes, wildcards, frozenset(exceptions))


def section_after(line: str, section: SuffixSection) -> SuffixSection:
    """The section in which the lines after a line are."""
    return _MARKERS.get(line[2:].strip(), section) if line.startswith("//") else section


def _expression(name: str) -> bytes:
    """The expression of a rule's name, as in live traffic: A-labels in lower case."""
    return (name.lower().encode() if name.isascii() else to_ascii(name.encode())) + b"/"


@cache
def public_suffixes() -> PublicSuffixes:
    """The list; the first call reads it."""
    from importlib.resources import files

    text = files("publicsuffixlist").joinpath("public_suffix_list.dat").read_text(encoding="utf-8")
    return parse_public_suffixes(text.splitlines())
