"""Reader of response policy zones in master file format: names that a resolver blocks.

A trigger fits one name; with "*." in front, all names below it instead. A rule always fits both. If a zone blocks one
and passes the other, the rule blocks both.

Spec: draft-vixie-dnsop-dns-rpz; RFC 1035, 5.1
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

from hushlist.core.lists.list_source import LONGEST_LINE, ListDefaults, ProblemReport, numbered_lines
from hushlist.core.lists.patterns import is_sinkhole, may_except, parse_address_range, read_name
from hushlist.core.match.rule import Action, Pattern, Rule

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[();]|(?:[^\s"();\\]|\\.)++|\\')
_COMMENTS = re.compile(rb";.*", re.DOTALL)
_TTL = re.compile(r"[0-9][0-9smhdw]*", re.IGNORECASE)
_CLASSES = ("in", "ch", "hs", "cs")
#: records of the zone itself
_OF_ZONE = frozenset(("soa", "ns", "rrsig", "nsec", "nsec3", "nsec3param", "dnskey", "cds", "cdnskey", "zonemd"))
_MAY_PASS = re.compile(rb"rpz-passthru", re.IGNORECASE)
# "CNAME .": "no such domain"; "CNAME *.": "no data"; "rpz-drop.": no answer at all
_NOTHING = ("", "*", "rpz-drop")


@dataclass(frozen=True, slots=True)
class _ResourceRecord:
    """An entry of a master file: its tokens, and whether it has the owner of the entry before."""

    line: int
    text: str
    tokens: list[str]
    has_owner: bool


@dataclass(slots=True)
class _ZoneReader:
    """Reads a zone. Its name is the SOA's owner, or else the first record's origin, or else "@"."""

    defaults: ListDefaults
    report: ProblemReport
    origin: str = "@"
    name: str = "@"
    owner: str | None = None

    def absolute(self, name: str) -> str:
        """A name in lower case without the final dot; below ``@`` if the zone has no name."""
        name = name.lower()
        if name == "@":
            return self.origin
        if name.endswith("."):
            return name[:-1]
        return f"{name}.{self.origin}" if self.origin else name

    def trigger(self, name: str) -> str | None:
        """A name without the zone's name at its end, or ``None`` if it is not in the zone."""
        if name == self.name:
            return ""
        if not self.name:
            return name
        return name[: -len(self.name) - 1] if name.endswith("." + self.name) else None

    def _leave_out(self, record: _ResourceRecord, why: str) -> None:
        self.report.leave_out(record.line, record.text, why)

    def _tally(self, record: _ResourceRecord, kind: str) -> None:
        self.report.tally(record.line, record.text, kind)

    def triggers(self, octets: bytes) -> Iterator[tuple[_ResourceRecord, Pattern, bool]]:
        """Records that are rules, with their patterns, and whether they allow."""
        for record in _records(octets, self.report):
            first = record.tokens[0].lower()
            if not first.startswith("$") or not record.has_owner:
                if trigger := self._read(record):
                    yield record, *trigger
            elif first == "$origin" and len(record.tokens) > 1:
                self.origin = self.absolute(record.tokens[1])
                if self.owner is None:
                    self.name = self.origin
            elif first != "$ttl":
                self._tally(record, f"a directive {first[:40]!r}")

    def _read(self, record: _ResourceRecord) -> tuple[Pattern, bool] | None:
        """A record's pattern, and whether it allows; ``None`` if it is not a rule."""
        tokens = record.tokens
        if record.has_owner:
            self.owner, tokens = self.absolute(tokens[0]), tokens[1:]
        while tokens and (tokens[0].lower() in _CLASSES or _TTL.fullmatch(tokens[0])):
            tokens = tokens[1:]
        if self.owner is None or len(tokens) < 2:
            self._leave_out(record, "expected an owner, a type and data")
            return None
        kind, data = tokens[0].lower(), tokens[1]
        if kind == "soa":
            self.name = self.owner
        if kind in _OF_ZONE:
            return None
        trigger = self.trigger(self.owner)
        if trigger is None:
            self._leave_out(record, "its owner is not in the zone")
        elif not trigger:
            self._tally(record, "data of the zone itself")
        else:
            allows = self._allows(kind, data, trigger, record)
            pattern = None if allows is None else self._pattern(trigger, record)
            if allows is not None and pattern is not None:
                return pattern, allows
        return None

    def _allows(self, kind: str, data: str, trigger: str, record: _ResourceRecord) -> bool | None:
        """Whether a record allows; ``None`` if it neither blocks nor allows."""
        if kind in ("a", "aaaa") and is_sinkhole(data):
            return False
        if kind != "cname":
            self._tally(record, "data that is answered instead")
            return None
        target = self.absolute(data)
        if target in _NOTHING:
            return False
        # "CNAME rpz-passthru."; in older zones a name that points to itself. "*.x CNAME *.x." is an answer below x.
        if target == "rpz-passthru" or (target == trigger and not trigger.startswith("*.")):
            if may_except(self.defaults):
                return True
            self._tally(record, "rpz-passthru, in a list that does not block")
        elif target == "rpz-tcp-only":
            self._tally(record, "rpz-tcp-only: it blocks nothing")
        else:
            self._tally(record, "data that is answered instead")
        return None

    def _pattern(self, trigger: str, record: _ResourceRecord) -> Pattern | None:
        """A trigger's pattern, or ``None``."""
        name, _, label = trigger.rpartition(".")
        if label == "rpz-ip":
            try:
                return _network(name)
            except ValueError:
                self._leave_out(record, "expected a prefix length and an address, both reversed")
                return None
        if label.startswith("rpz-"):
            self._tally(record, f"a trigger {label[:40]!r}")
            return None
        if trigger == "*":
            self._leave_out(record, "no rule fits every host")
            return None
        return read_name(trigger, record.line, self.report)


def read_rpz(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Rules for names and addresses that the zone blocks, and for those that it passes.

    >>> zone = b"$ORIGIN rpz.example.\\n@ 60 IN SOA a. b. ( 1 2\\n3 4 5 )\\n NS a.\\nx.example CNAME . ; why"
    >>> [(rule.line, str(rule.pattern)) for rule in read_rpz(zone, ListDefaults(), ProblemReport("f"))]
    [(5, 'x.example/')]
    """
    terms, exception = defaults.terms(report.source), defaults.terms(report.source, Action.ALLOW)
    contested = _contested(octets, defaults) if _MAY_PASS.search(octets) else frozenset()
    for record, pattern, allows in _ZoneReader(defaults, report).triggers(octets):
        if allows and pattern in contested:
            why = "the zone passes a name, or all below it, and blocks the other; a rule fits both"
            report.leave_out(record.line, record.text, why)
        else:
            yield Rule(pattern, exception if allows else terms, record.line)


def _contested(octets: bytes, defaults: ListDefaults) -> frozenset[Pattern]:
    """The patterns that the zone both blocks and passes."""

    def patterns(*, passed: bool) -> Iterator[Pattern]:
        triggers = _ZoneReader(defaults, ProblemReport("")).triggers(octets)
        return (pattern for _, pattern, allows in triggers if allows is passed)

    passed = frozenset(patterns(passed=True))
    return passed.intersection(patterns(passed=False)) if passed else passed


def _records(octets: bytes, report: ProblemReport) -> Iterator[_ResourceRecord]:
    """The entries; parentheses continue one over several lines."""
    tokens: list[str] = []
    depth = first = length = 0
    begin = ""
    for line, text in numbered_lines(octets, report, is_foreign=True, comments=_COMMENTS):
        if depth == 0:
            tokens, first, begin, length = [], line, text, 0
        length += len(text)
        for word in _TOKEN.findall(text):
            if word == ";":
                break
            if word in "()":
                depth = max(0, depth + (1 if word == "(" else -1))
            else:
                tokens.append(word)
        if depth and length > LONGEST_LINE:
            depth = 0
            report.leave_out(first, begin.strip(), "its parenthesis is not closed")
        elif depth == 0 and tokens:
            yield _ResourceRecord(first, begin.strip(), tokens, not begin[:1].isspace())
    if depth:
        report.leave_out(first, begin.strip(), "its parenthesis is not closed")


def _network(name: str) -> IPv4Network | IPv6Network:
    """The network of ``32.1.2.0.192`` or ``128.zz.1.db8.2001``, where "zz" is "::"; ``ValueError`` for other forms."""
    length, *labels = name.split(".")
    labels.reverse()
    if len(labels) == 4 and "zz" not in labels:
        return parse_address_range(f"{'.'.join(labels)}/{length}")
    address = ":".join("" if label == "zz" else label for label in labels)
    if labels[:1] == ["zz"]:
        address = ":" + address
    if labels[-1:] == ["zz"]:
        address += ":"
    return parse_address_range(f"{address}/{length}")
