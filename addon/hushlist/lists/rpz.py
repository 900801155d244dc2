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

from hushlist.lists.list_source import LONGEST_LINE, ListDefaults, OwnTerms, ProblemReport, numbered_lines, shared_terms
from hushlist.lists.patterns import EXCEPTION, is_sinkhole, may_except, parse_address_range, read_name
from hushlist.match.rule import Pattern, Rule

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[();]|(?:[^\s"();\\]|\\.)++|\\')
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
class _Zone:
    """The zone. Its name is the SOA's owner, or else the first record's origin, or else "@"."""

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


def read_rpz(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Rules for names and addresses that the zone blocks, and for those that it passes.

    >>> zone = b"$ORIGIN rpz.example.\\n@ 60 IN SOA a. b. ( 1 2\\n3 4 5 )\\n NS a.\\nx.example CNAME . ; why"
    >>> [(rule.line, str(rule.pattern)) for rule in read_rpz(zone, ListDefaults(), ProblemReport("f"))]
    [(5, 'x.example/')]
    """
    terms = shared_terms(defaults, report.source)
    contested = _contested(octets, defaults) if _MAY_PASS.search(octets) else frozenset()
    for record, pattern, own in _triggers(octets, defaults, report):
        if own is EXCEPTION and pattern in contested:
            why = "the zone passes a name, or all below it, and blocks the other; a rule fits both"
            report.leave_out(record.line, record.text, why)
        else:
            yield Rule(pattern, terms(own), record.line)


def _contested(octets: bytes, defaults: ListDefaults) -> frozenset[Pattern]:
    """The patterns that the zone both blocks and passes."""
    passed = {pattern for _, pattern, own in _triggers(octets, defaults, ProblemReport("")) if own is EXCEPTION}
    triggers = _triggers(octets, defaults, ProblemReport("")) if passed else ()
    return frozenset(pattern for _, pattern, own in triggers if own is not EXCEPTION and pattern in passed)


def _triggers(
    octets: bytes, defaults: ListDefaults, report: ProblemReport
) -> Iterator[tuple[_ResourceRecord, Pattern, OwnTerms]]:
    """Records that are rules, with their patterns and terms."""
    zone = _Zone()
    for record in _records(octets, report):
        first = record.tokens[0].lower()
        if not first.startswith("$") or not record.has_owner:
            if found := _read(record, zone, defaults, report):
                yield record, *found
        elif first == "$origin" and len(record.tokens) > 1:
            zone.origin = zone.absolute(record.tokens[1])
            if zone.owner is None:
                zone.name = zone.origin
        elif first != "$ttl":
            report.tally(record.line, record.text, f"a directive {first[:40]!r}")


def _records(octets: bytes, report: ProblemReport) -> Iterator[_ResourceRecord]:
    """The entries; parentheses continue one over several lines."""
    tokens: list[str] = []
    depth = first = length = 0
    begin = ""
    for line, text in numbered_lines(octets, report, is_foreign=True):
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


def _read(
    record: _ResourceRecord, zone: _Zone, defaults: ListDefaults, report: ProblemReport
) -> tuple[Pattern, OwnTerms] | None:
    """A record's pattern and terms, or ``None`` if it is not a rule."""
    tokens = record.tokens
    if record.has_owner:
        zone.owner, tokens = zone.absolute(tokens[0]), tokens[1:]
    while tokens and (tokens[0].lower() in _CLASSES or _TTL.fullmatch(tokens[0])):
        tokens = tokens[1:]
    if zone.owner is None or len(tokens) < 2:
        report.leave_out(record.line, record.text, "expected an owner, a type and data")
        return None
    kind, data = tokens[0].lower(), tokens[1]
    if kind == "soa":
        zone.name = zone.owner
    if kind in _OF_ZONE:
        return None
    trigger = zone.trigger(zone.owner)
    if trigger is None:
        report.leave_out(record.line, record.text, "its owner is not in the zone")
    elif not trigger:
        report.tally(record.line, record.text, "data of the zone itself")
    else:
        own = _terms(kind, data, trigger, zone, record, defaults, report)
        pattern = None if own is None else _pattern(trigger, record, report)
        if own is not None and pattern is not None:
            return pattern, own
    return None


def _terms(
    kind: str,
    data: str,
    trigger: str,
    zone: _Zone,
    record: _ResourceRecord,
    defaults: ListDefaults,
    report: ProblemReport,
) -> OwnTerms | None:
    """A record's terms, or ``None`` if it neither blocks nor allows."""
    if kind in ("a", "aaaa") and is_sinkhole(data):
        return OwnTerms()
    if kind != "cname":
        report.tally(record.line, record.text, "data that is answered instead")
        return None
    target = zone.absolute(data)
    if target in _NOTHING:
        return OwnTerms()
    # "CNAME rpz-passthru."; in older zones a name that points to itself. "*.x CNAME *.x." is an answer below x.
    if target == "rpz-passthru" or (target == trigger and not trigger.startswith("*.")):
        if may_except(defaults):
            return EXCEPTION
        report.tally(record.line, record.text, "rpz-passthru, in a list that does not block")
    elif target == "rpz-tcp-only":
        report.tally(record.line, record.text, "rpz-tcp-only: it blocks nothing")
    else:
        report.tally(record.line, record.text, "data that is answered instead")
    return None


def _pattern(trigger: str, record: _ResourceRecord, report: ProblemReport) -> Pattern | None:
    """A trigger's pattern, or ``None``."""
    name, _, label = trigger.rpartition(".")
    if label == "rpz-ip":
        try:
            return _network(name)
        except ValueError:
            report.leave_out(record.line, record.text, "expected a prefix length and an address, both reversed")
            return None
    if label.startswith("rpz-"):
        report.tally(record.line, record.text, f"a trigger {label[:40]!r}")
        return None
    if trigger == "*":
        report.leave_out(record.line, record.text, "no rule fits every host")
        return None
    return read_name(trigger, record.line, report)


def _network(name: str) -> IPv4Network | IPv6Network:
    """The network of ``32.1.2.0.192`` or ``128.zz.1.db8.2001``, where "zz" means "::".

    Raises:
        ValueError: it has another form.
    """
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
