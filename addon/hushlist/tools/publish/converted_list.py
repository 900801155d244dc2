"""``hushlist convert``: writes the rules of lists in a format that other programs read.

A format is a row of ``TARGETS``: how it blocks and allows a host, a page and an address, and which patterns it has. A
rule that it cannot say is left out, and named with its file, line and reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from hushlist.core.errors import Problem
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.match.rule import Action, Expression, ExpressionHash, Rule, WholeUrl
from hushlist.core.url.hashed_uri import HashedUri
from hushlist.extensions.adblock.network_filter import NetworkFilter
from hushlist.tools.publish.hidden_list import NOT_FOR_ALL

_NO_PAGES, _NO_RANGES = "it has no rules for less than a host", "it has no rules for addresses or ranges"
_NO_EXCEPTIONS, _NO_HASHES = "it has no exceptions", "it has no hashes"
_NO_PATTERN = "it has no such patterns"
_BELOW = "it is a host that is allowed, or below one, and an exception lets all of that pass there"
_WORD = re.compile(rb"[a-z0-9_.-]+")


def _no(*_: object) -> str:
    return ""


def _as_lines(head: str, lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in (head, *lines) if line)


class Target(NamedTuple):
    """How a format says rules: a line, or lines, for each; empty for what it cannot say."""

    #: in front of the lines, and what makes one text of them
    head: str = ""
    #: of a host with those below it; ``{}`` is its name
    block: str = "{}"
    allow: str = ""
    #: of a host and a path, which is a folder if it ends in a slash; ``True``: to allow
    page: Callable[[str, bool], str] = _no
    address: Callable[[IPv4Network | IPv6Network], str] = _no
    pattern: Callable[[NetworkFilter], str] = _no
    #: whether the rule for the longest name decides, so that a host may be blocked below one that is allowed
    is_nearest: bool = False
    #: whether a host may not be named beside one that it is below
    is_tree: bool = False
    finish: Callable[[str, Sequence[str]], str] = _as_lines


def _single(form: str) -> Callable[[IPv4Network | IPv6Network], str]:
    """A line for one address; none for a range."""

    def write(network: IPv4Network | IPv6Network) -> str:
        return form.format(network.network_address) if network.num_addresses == 1 else ""

    return write


def _of_name(network_filter: NetworkFilter, keyword: str, regex: str) -> str:
    """A keyword or an expression of names."""
    if (
        not network_filter.of_names
        or network_filter.is_exception
        or network_filter.is_important
        or network_filter.hosts is not None
    ):
        return ""
    if network_filter.is_regex:
        return regex.format(network_filter.pattern.decode())
    return keyword.format(network_filter.pattern.decode()) if _WORD.fullmatch(network_filter.pattern) else ""


# -- name servers ------------------------------------------------------------------------------------------------------

_ZONE = "$TTL 300\n@ IN SOA localhost. root.localhost. 1 43200 900 1814400 300\n@ IN NS localhost."


def _rpz_address(network: IPv4Network | IPv6Network) -> str:
    if isinstance(network, IPv4Network):
        labels = reversed(str(network.network_address).split("."))
    else:
        compressed = str(network.network_address).replace("::", ":zz:").strip(":").split(":")
        labels = reversed([label for label in compressed if label])
    return f"{network.prefixlen}.{'.'.join(labels)}.rpz-ip CNAME ."


# -- Adblock -----------------------------------------------------------------------------------------------------------


def _adblock_page(page: str, allows: bool) -> str:
    """A folder; or a page, with any query unless it names one. ``$all``: also where a page of it is opened."""
    if re.search(r"[*^|$,\s]", page):
        return ""
    sign = "@@||" if allows else "||"
    if page.endswith("/"):
        return f"{sign}{page}$all"
    return f"{sign}{page}|$all" if "?" in page else f"{sign}{page}|$all\n{sign}{page}?$all"


def _text_of(of_names: bool) -> Callable[[NetworkFilter], str]:
    return lambda network_filter: network_filter.text if network_filter.of_names is of_names else ""


# -- proxies -----------------------------------------------------------------------------------------------------------


def _squid_page(page: str, allows: bool) -> str:
    host, _, path = page.partition("/")
    behind = "" if page.endswith("/") else "$" if "?" in page else r"(\?|$)"
    kind = "allowed-pages" if allows else "pages"
    return rf"acl hushlist-{kind} url_regex ^https?://([^/]*\.)?{re.escape(host)}(:[0-9]+)?/{re.escape(path)}{behind}"


def _squid(head: str, lines: Sequence[str]) -> str:
    """The lists, and what denies them; what is allowed is no member of what is denied."""
    kinds = {line.split()[1] for line in lines}
    but = "".join(f" !hushlist-{kind}" for kind in ("allowed", "allowed-pages") if f"hushlist-{kind}" in kinds)
    denied = [f"http_access deny {kind}{but}" for kind in sorted(kinds) if "allowed" not in kind]
    return "".join(f"{line}\n" for line in (*lines, *denied))


def _clash_address(network: IPv4Network | IPv6Network) -> str:
    return f"  - IP-CIDR{'6' * (network.version == 6)},{network}"


def _clash(head: str, lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in (f"{head}:", *lines)) if lines else f"{head}: []\n"


def _sing_box(head: str, lines: Sequence[str]) -> str:
    kinds: dict[str, list[str]] = {}
    for line in lines:
        kind, _, value = line.partition(" ")
        kinds.setdefault(kind, []).append(value)
    return json.dumps({"version": 2, "rules": [kinds] if kinds else []}, indent=1) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _clash_pattern(network_filter: NetworkFilter) -> str:
    pattern = _of_name(network_filter, "DOMAIN-KEYWORD,{}", "DOMAIN-REGEX,{}")
    return f"  - {_quoted(pattern)}" if pattern else ""


#: the formats that can be written
TARGETS = {
    "hosts": Target(block="0.0.0.0 {}"),
    "domains": Target(address=_single("{}")),
    "dnsmasq": Target(block="address=/{}/", allow="server=/{}/#", is_nearest=True),
    "unbound": Target(
        head="server:",
        block='local-zone: "{}" always_nxdomain',
        allow='local-zone: "{}" always_transparent',
        is_nearest=True,
    ),
    "rpz": Target(
        head=_ZONE,
        block="{0} CNAME .\n*.{0} CNAME .",
        allow="{0} CNAME rpz-passthru.\n*.{0} CNAME rpz-passthru.",
        address=_rpz_address,
        is_nearest=True,
    ),
    "adblock": Target(
        head="[Adblock Plus 2.0]",
        block="||{}^",
        allow="@@||{}^",
        page=_adblock_page,
        address=_single("||{}^"),
        pattern=_text_of(of_names=False),
    ),
    "adblock-dns": Target(
        head="! Title: for AdGuard Home, AdGuard DNS and Pi-hole",
        block="||{}^",
        allow="@@||{}^",
        address=_single("||{}^"),
        pattern=_text_of(of_names=True),
    ),
    "squid-acl": Target(
        block="acl hushlist dstdomain .{}",
        allow="acl hushlist-allowed dstdomain .{}",
        page=_squid_page,
        address="acl hushlist-addresses dst {}".format,
        pattern=lambda network_filter: _of_name(
            network_filter, "acl hushlist-names dstdom_regex -i {}", "acl hushlist-names dstdom_regex -i {}"
        ).replace("(?:", "("),
        is_tree=True,
        finish=_squid,
    ),
    "clash": Target(
        head="payload", block="  - DOMAIN-SUFFIX,{}", address=_clash_address, pattern=_clash_pattern, finish=_clash
    ),
    "sing-box": Target(
        block="domain_suffix {}",
        address="ip_cidr {}".format,
        pattern=lambda network_filter: _of_name(network_filter, "domain_keyword {}", "domain_regex {}"),
        finish=_sing_box,
    ),
}
#: writes all that Hushlist has, but for filters of Adblock lists
YAML = "yaml"


@dataclass(slots=True)
class Converted:
    """A text, how many rules it has, and what is left out of it."""

    text: str
    rules: int
    #: by source
    reports: dict[str, ProblemReport] = field(default_factory=dict)

    @property
    def left_out(self) -> int:
        return sum(report.left_out for report in self.reports.values())

    @property
    def problems(self) -> list[Problem]:
        return [problem for report in self.reports.values() for problem in report.warnings]


def convert(rules: Iterable[Rule], form: str) -> Converted:
    """The rules in a format; what it cannot say is left out.

    >>> from hushlist.core.lists.list_source import ListDefaults
    >>> host, page, terms = Expression(b"a.example/"), Expression(b"b.example/x"), ListDefaults().terms("f")
    >>> found = convert([Rule(host, terms, 1), Rule(page, terms, 2)], "hosts")
    >>> print(found.text, *found.problems, sep="")
    0.0.0.0 a.example
    f:2: b.example/x: left out: hosts: it has no rules for less than a host
    """
    writer = _Writer(form)
    lines = list(dict.fromkeys(writer.yaml(rules) if form == YAML else writer.lines(list(rules))))
    if form == YAML:
        text = "".join(f"{line}\n" for line in ("rules:", *lines)) if lines else "rules: []\n"
    else:
        text = TARGETS[form].finish(TARGETS[form].head, lines)
    return Converted(text, len(lines), writer.reports)


class _Writer:
    def __init__(self, form: str) -> None:
        self._form = form
        self.reports: dict[str, ProblemReport] = {}

    def _leave_out(self, rule: Rule, why: str) -> None:
        source = rule.terms.source
        report = self.reports.setdefault(source, ProblemReport(source))
        report.leave_out(rule.line, str(rule.pattern), f"{self._form}: {why}")

    def lines(self, rules: Sequence[Rule]) -> Iterator[str]:
        """The lines of rules in a format of other programs."""
        target = TARGETS[self._form]
        named = [(name, rule) for rule in rules if (name := _host(rule))]
        allowed = {name for name, rule in named if _allows(rule)}
        has_depth = target.is_nearest or not target.allow
        strong = {name for name, rule in named if name in allowed and (_is_strong(rule) or not has_depth)}
        blocked = {name for name, rule in named if not _allows(rule)}
        for rule in rules:
            name, allows = _host(rule), _allows(rule)
            if rule.terms.scope is not None:
                self._leave_out(rule, NOT_FOR_ALL)
            elif rule.terms.action not in (Action.BLOCK, Action.ALLOW):
                self._leave_out(rule, f"it cannot {rule.terms.action}")
            elif name and not allows and (name in allowed or _is_below(name, strong)):
                self._leave_out(rule, _BELOW)
            elif name and target.is_tree and _is_above(name, allowed if allows else blocked):
                continue  # the host above says it
            elif line := self._line(target, rule, name, allows=allows):
                yield line

    def _line(self, target: Target, rule: Rule, name: str, *, allows: bool) -> str:
        pattern, line, why = rule.pattern, "", _NO_PATTERN
        if name:
            line, why = (target.allow if allows else target.block).format(name), _NO_EXCEPTIONS
        elif (network := _network(rule)) is not None:
            line = target.address(network) if not allows else ""
            why = _NO_EXCEPTIONS if allows else _NO_RANGES
        elif isinstance(pattern, Expression):
            line, why = target.page(str(pattern), allows), _NO_PAGES
            if allows and not target.allow:
                line, why = "", _NO_EXCEPTIONS
        elif isinstance(pattern, NetworkFilter):
            line = target.pattern(pattern)
        elif isinstance(pattern, ExpressionHash | HashedUri | WholeUrl):
            why = _NO_PAGES if isinstance(pattern, WholeUrl) else _NO_HASHES
        if not line:
            self._leave_out(rule, why)
        return line

    def yaml(self, rules: Iterable[Rule]) -> Iterator[str]:
        """The rules of a list in YAML."""
        for rule in rules:
            pattern, terms = rule.pattern, rule.terms
            keys: dict[str, str] = {}
            if terms.scope is not None:
                self._leave_out(rule, NOT_FOR_ALL)
                continue
            if isinstance(pattern, Expression):
                keys["expression"] = str(pattern)
            elif (name := _host(rule)) and not _allows(rule):
                keys["expression"] = name
            elif isinstance(pattern, IPv4Network | IPv6Network):
                keys["address"] = str(pattern)
            elif isinstance(pattern, ExpressionHash):
                if pattern.seal:
                    self._leave_out(rule, "a list that is sealed is sealed anew by 'hushlist hide --seal'")
                    continue
                keys["sha256"] = pattern.value.hex()
            elif isinstance(pattern, HashedUri):
                keys["uri"] = str(pattern)
            elif isinstance(pattern, WholeUrl):
                keys |= {"expression": pattern.value.decode("utf-8", "backslashreplace"), "match": pattern.rung}
            else:
                # an exception opens nothing that other layers block, and "allow" does
                self._leave_out(rule, "it has no patterns and no exceptions as Adblock lists have them")
                continue
            said = {"category": terms.category, "reason": terms.reason, "expires": terms.expires}
            keys |= {} if terms.action is Action.BLOCK else {"action": str(terms.action)}
            keys |= {key: str(value) for key, value in (*said.items(), *terms.values) if value is not None}
            yield "  - {" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in keys.items()) + "}"


def _allows(rule: Rule) -> bool:
    is_exception = isinstance(rule.pattern, NetworkFilter) and rule.pattern.is_exception
    return is_exception or rule.terms.action is Action.ALLOW


def _is_strong(rule: Rule) -> bool:
    """Whether a rule allows even what a rule for a longer name blocks."""
    return isinstance(rule.pattern, NetworkFilter) and rule.pattern.is_exception and not rule.pattern.is_nearest


def _host(rule: Rule) -> str:
    """The name of the host that a rule is for, with all below it; nothing for other rules, and for addresses."""
    pattern = rule.pattern
    if isinstance(pattern, Expression):
        host, _, path = str(pattern).partition("/")
        return "" if path or host.startswith("[") or _address(host) else host
    if isinstance(pattern, NetworkFilter) and pattern.host and not pattern.is_badfilter:
        host = pattern.host.decode()
        return host if pattern.text in (f"||{host}^", f"@@||{host}^", f"@@||{host}^|") and not _address(host) else ""
    return ""


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def _network(rule: Rule) -> IPv4Network | IPv6Network | None:
    """The addresses that a rule is for; ``None`` for other rules."""
    if isinstance(rule.pattern, IPv4Network | IPv6Network):
        return rule.pattern
    host, _, path = str(rule.pattern).partition("/") if isinstance(rule.pattern, Expression) else ("", "", "")
    address = None if path else _address(host)
    return None if address is None else ip_network(address)


def _is_below(name: str, others: set[str]) -> bool:
    """Whether a host is one of others, or below it."""
    return name in others or _is_above(name, others)


def _is_above(name: str, others: set[str]) -> bool:
    """Whether one of others is above a host."""
    return any(name[at + 1 :] in others for at, sign in enumerate(name) if sign == ".")
