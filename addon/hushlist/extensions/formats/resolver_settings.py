"""Configurations of resolvers, as far as they block names.

dnsmasq: "More specific domains take precedence over less specific domains": a server or an address of its own, for a
name below one that is blocked, is an exception.

Unbound: a zone that is refused, empty or dropped is a rule, and so are data that lead nowhere; one that is transparent
is an exception from the zones above it. Of a zone of the type ``redirect``, its data say what it does.

SmartDNS: ``address /NAME/#``, ``domain-rules /NAME/ -address #``. An address of its own (``/-`` or another) is an
exception from less specific names. ``#4`` and ``#6`` refuse one kind of address alone, and are left out.

dnscrypt-proxy: ``a.example``, ``*.a.example``, ``=a.example``, ``ads.*``, ``*ads*``. An entry that holds at some times
alone (``@times``) is left out: a policy's layer can have them.

RouterOS: static names of the DNS that lead nowhere, and lists of addresses.

Spec: dnsmasq(8), --address, --server, --local; unbound.conf(5), local-zone, local-data;
https://pymumu.github.io/smartdns/en/config/domain-rule/ and .../config/domain-block/;
https://github.com/DNSCrypt/dnscrypt-proxy/wiki/Filters, Pattern-based blocking;
https://help.mikrotik.com/docs/spaces/ROS/pages/37748767/DNS, Static; .../pages/130220161/Address-lists

>>> from hushlist.core.lists.list_source import ListDefaults, ProblemReport
>>> from hushlist.core.match.rule import each_rule
>>> report = ProblemReport("f")
>>> octets = b"local=/a.example/\\ncache-size=9\\nserver=/b.a.example/#\\naddress=/c.a.example/192.0.2.1"
>>> [str(rule.pattern) for rule in each_rule(read_dnsmasq(octets, ListDefaults(), report))]
['a.example/', '@@||b.a.example^', '@@||c.a.example^']
>>> print(*report.warnings, sep="\\n")
f:2: cache-size=9: left out: a directive 'cache-size'
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushlist.core.lists.patterns import is_sinkhole
from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.rule_maker import (
    ANSWERED,
    EVERY_HOST,
    RuleMaker,
    leads_nowhere,
    plain_lines,
    read_lines,
)

_WITH_NAMES = ("address", "server", "local")
_NO_NAMES = {"#": EVERY_HOST, "": "no rule fits every name without a dot"}


def _read_dnsmasq_line(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    directive, _, value = entry.partition("=")
    directive, value = directive.strip(), value.strip()
    if " " in directive or "\t" in directive:
        yield from maker.left_out(entry, line, "expected a directive such as address=/NAME/")
        return
    if directive not in _WITH_NAMES:
        yield from maker.kind(entry, line, f"a directive {directive[:40]!r}")
        return
    if not value.startswith("/"):
        yield from maker.kind(entry, line, f"'{directive}' without a name")
        return
    *names, target = value[1:].split("/")
    # "--address=/#/... a domain specification of # matches any domain"; as an address, "#" is 0.0.0.0 and ::
    blocks = not target or (directive == "address" and (target == "#" or is_sinkhole(target)))
    if not names:
        maker.left_out(entry, line, "expected a '/' behind the last name")
    for name in names:
        if why := _NO_NAMES.get(name):
            maker.left_out(entry, line, why)
        else:
            yield from (maker.name if blocks else maker.nearest)(name, line)


read_dnsmasq = read_lines(plain_lines(rb"(?:address|server|local)=/", rb"/"), _read_dnsmasq_line)

_BLOCKS = (
    *("deny", "refuse", "static", "inform_deny", "always_refuse", "always_nxdomain", "always_nodata", "always_deny"),
    "always_null",
)
_PASSES = ("transparent", "typetransparent", "inform", "always_transparent", "nodefault")
_DIRECTIVE = re.compile(r"([a-z0-9-]+):\s*(.*)")
_ZONE = re.compile(r"(?:\"([^\"]*)\"|'([^']*)'|(\S+))\s+\"?([a-z_]+)\"?")
_DATA = re.compile(r"[\"']\s*(\S+)\s+(?:[0-9]+[smhdw]?\s+)?(?:IN\s+)?(\w+)\s+([^\"'\s]*+)[^\"']*+[\"']", re.IGNORECASE)


def _read_unbound_line(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    directive = _DIRECTIVE.fullmatch(entry)
    if directive is None:
        return maker.left_out(entry, line, 'expected a line such as local-zone: "NAME" always_nxdomain')
    name, value = directive.groups()
    if name == "server" and not value:
        return iter(())
    if name == "local-zone" and (zone := _ZONE.fullmatch(value)):
        host, kind = zone[1] or zone[2] or zone[3] or "", zone[4]
        if kind in _BLOCKS:
            return maker.name(host, line)
        if kind in _PASSES:
            return maker.nearest(host, line)
        return iter(()) if kind == "redirect" else maker.kind(entry, line, f"a zone of the type {kind[:40]!r}")
    if name == "local-data" and (data := _DATA.fullmatch(value)):
        is_sunk = data[2].upper() in ("A", "AAAA") and leads_nowhere(data[3])
        return maker.name(data[1], line) if is_sunk else maker.kind(entry, line, ANSWERED)
    return maker.kind(entry, line, f"a directive {name[:40]!r}")


read_unbound = read_lines(
    plain_lines(rb'[ ]*+local-zone: "', rb'\.?" (?:%b)' % "|".join(_BLOCKS).encode()), _read_unbound_line
)

_ADDRESS = re.compile(r"address\s+/([^/]*)/(\S*)")
_DOMAIN_RULES = re.compile(r"domain-rules?\s+/([^/]*)/\s++(?:.*\s)?-a(?:ddress)?\s+(\S+).*")


def _read_smartdns_line(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    match = _ADDRESS.fullmatch(entry) or _DOMAIN_RULES.fullmatch(entry)
    if match is None:
        return maker.kind(entry, line, f"a directive {entry.split()[0][:40]!r}")
    name, address = match.groups()
    if name.startswith(("domain-set:", "ruleset:")):
        return maker.kind(entry, line, "a set of domains, which is another file")
    host = name.removeprefix("*.").removeprefix("-.").lstrip(".")
    if address in ("#4", "#6"):
        return maker.kind(entry, line, "a rule for one kind of address")
    is_sunk = address == "#" or all(map(leads_nowhere, address.split(",")))
    return maker.name(host, line) if is_sunk else maker.nearest(host, line)


read_smartdns = read_lines(
    plain_lines(rb"address /(?:\*\.|-\.)?", rb"/#"), _read_smartdns_line, has_trailing_comments=False
)


def _read_dnscrypt_line(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    name, at, _ = entry.partition("@")
    if at:
        return maker.kind(entry, line, "an entry with times")
    name = name.strip()
    plain = name.removeprefix("=").removeprefix("*.")
    return maker.glob(name, line) if any(sign in plain for sign in "*?[") else maker.name(plain.lstrip("."), line)


read_dnscrypt = read_lines(plain_lines(rb"(?:=|\*\.)?"), _read_dnscrypt_line)

_PATH = re.compile(r"(?::do\s*\{\s*)?(?:/?(?:ip|ipv6)[ /](?:dns static|firewall address-list)\s*)?(.*)")
_VALUE = re.compile(r'(?<![a-z-])([a-z-]++)=(?:"((?:[^"\\]|\\.)*)"|([^\s"}]*))')
_ESCAPE = re.compile(r"\\(.)")


def _read_mikrotik_line(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    match = _PATH.fullmatch(entry)
    command = match[1] if match else entry
    if not command:
        return iter(())  # the path that the next lines are about
    if not command.startswith("add "):
        return maker.kind(entry, line, f"a command {command.split()[0][:40]!r}")
    values = {key: _ESCAPE.sub(r"\1", quoted) or plain for key, quoted, plain in _VALUE.findall(command)}
    name, address, kind = values.get("name", ""), values.get("address", ""), values.get("type", "").upper()
    if values.get("disabled") == "yes":
        return maker.kind(entry, line, "an entry that is off")
    if "list" in values and address:
        return maker.host(address, line)
    is_sunk = kind == "NXDOMAIN" or (kind in ("", "A", "AAAA") and leads_nowhere(address))
    if not is_sunk:
        return maker.kind(entry, line, ANSWERED)
    return maker.regex(values["regexp"], line) if "regexp" in values else maker.name(name, line)


_SUNK = rb"(?=[^\n]*(?:address=(?:0\.0\.0\.0|127\.0\.0\.1) |type=NXDOMAIN$))"
_STATIC_NAME = rb'(?:/ip dns static )?add %b(?:address=[0-9.]+ )?name="?' % _SUNK
read_mikrotik = read_lines(plain_lines(_STATIC_NAME, rb'"?(?: type=NXDOMAIN)?'), _read_mikrotik_line)
