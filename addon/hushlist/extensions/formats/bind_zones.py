"""BIND's configuration of the zones that a name server answers itself, as lists of malware domains have them.

Each zone of the type ``primary`` or ``master`` is a rule: such a list gives all of them one file, in which there is
nothing. Zones that are asked elsewhere, and other statements, are left out.

Spec: BIND 9 Administrator Reference Manual, zone Block Grammar
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushlist.core.lists.list_source import LONGEST_LINE, ListDefaults, ProblemReport, block_lines
from hushlist.core.lists.patterns import split_plain
from hushlist.core.match.rule import Rule, RuleBlock
from hushlist.extensions.formats.rule_maker import RuleMaker, plain_lines

_COMMENT = re.compile(r"/\*(?>[^*]+|\*(?!/))*(\*/|\Z)|(?:^|(?<=[\s;]))(?://|#).*")
_COMMENTS = re.compile(rb"(?:^|(?<=[\s;]))(?://|#).*", re.DOTALL)
_ZONE = re.compile(r'\s*zone\s+(?:"([^"]*)"|([^\s"{]+))(?:\s+IN)?\s*\{((?>[^{}]+|\{[^{}]*\})*)\}[\s;]*', re.IGNORECASE)
_TYPE = re.compile(r"(?:^|[;\s])type\s+\"?([\w-]+)", re.I)


def read_bind_zones(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule | RuleBlock]:
    """Statements such as ``zone "a.example" {type master; file "null.zone.file";};``, in one line or in several.

    >>> from hushlist.core.match.rule import each_rule
    >>> octets = b'zone "a.example" {\\n type primary;\\n file "null";\\n};\\nzone "b.example" { type forward; };'
    >>> report = ProblemReport("f")
    >>> [(rule.line, str(rule.pattern)) for rule in each_rule(read_bind_zones(octets, ListDefaults(), report))]
    [(1, 'a.example/')]
    >>> print(*report.warnings)
    f:5: zone "b.example" { type forward; };: left out: a zone of the type 'forward'
    """
    maker = RuleMaker(defaults, report)
    open_one = _Statement(maker)

    def read_others(lines: bytes, first: int) -> Iterator[Rule]:
        for line, text in block_lines(lines, first, report, is_foreign=True, comments=_COMMENTS):
            yield from open_one.take(line, text)

    yield from split_plain(octets, maker.terms, report, _PLAIN, read_others)
    open_one.end()


class _Statement:
    """A statement, as far as it is read."""

    def __init__(self, maker: RuleMaker) -> None:
        self._maker, self._parts, self._is_comment = maker, list[str](), False
        self._first = self._depth = self._length = 0

    def take(self, line: int, text: str) -> Iterator[Rule]:
        """Take a line; the rules of the statement that it ends."""
        if self._is_comment:
            _, end, text = text.partition("*/")
            self._is_comment = not end
        self._is_comment |= any(comment[1] == "" for comment in _COMMENT.finditer(text))
        text = _COMMENT.sub(" ", text).strip()
        if not text:
            return
        self._first = self._first if self._parts else line
        self._parts.append(text)
        self._depth += text.count("{") - text.count("}")
        self._length += len(text)
        if self._length > LONGEST_LINE:
            self.end()
        elif self._depth <= 0 and text.endswith((";", "}")):
            yield from _read(self._maker, " ".join(self._parts), self._first)
            self._parts.clear()
        if not self._parts:
            self._depth = self._length = 0

    def end(self) -> None:
        """Leave out what has no end."""
        if self._parts:
            self._maker.left_out(self._parts[0], self._first, "its brace is not closed")
            self._parts.clear()


#: what has a line of its own
_PLAIN = plain_lines(rb'zone "', rb'" (?:IN )?\{ ?type (?:master|primary); ?[^{}\n]*+\};')


def _read(maker: RuleMaker, statement: str, line: int) -> Iterator[Rule]:
    place = 0
    while zone := _ZONE.match(statement, place):
        place = zone.end()
        kind = _TYPE.search(zone[3])
        if kind and kind[1].lower() in ("master", "primary"):
            yield from maker.name(zone[1] or zone[2] or "", line)
        else:
            maker.kind(zone[0].strip(), line, f"a zone of the type {kind[1][:40] if kind else 'none'!r}")
    if rest := statement[place:].strip():
        maker.kind(rest, line, f"a statement {rest.split()[0][:40]!r}")
