"""What the readers of other people's lists share: an entry becomes rules, or is left out with a warning."""

from __future__ import annotations

import re
from ipaddress import ip_address

from hushlist.errors import UrlError
from hushlist.lists.patterns import parse_expression
from hushlist.lists.source import Defaults, OwnTerms, Report
from hushlist.match.rule import Action, Expression, ExpressionHash, Rule

_PATH_OR_QUERY = re.compile(r"[/?#@\\]")
#: an exception of a list; only a list that blocks can have some
EXCEPTION = OwnTerms(action=Action.ALLOW)


def expression_rules(
    text: str, line: int, defaults: Defaults, report: Report, own: OwnTerms | None = None
) -> list[Rule]:
    """The rule of an expression in the clear, or none; "*." in front means the same as none."""
    try:
        return [defaults.rule(parse_expression(text.removeprefix("*.")), report, line, own)]
    except UrlError as error:
        report.leave_out(line, text, error.reason)
        return []


def name_rules(text: str, line: int, defaults: Defaults, report: Report, own: OwnTerms | None = None) -> list[Rule]:
    """The rule of a domain, or none."""
    if _PATH_OR_QUERY.search(text):
        report.leave_out(line, text, "a domain has neither user nor path")
        return []
    return expression_rules(text, line, defaults, report, own)


def prefix_rules(text: str, line: int, defaults: Defaults, report: Report, own: OwnTerms | None = None) -> list[Rule]:
    """The rules of an entry that stands for all that begins like it: a path is the page, and the folder of that name.

    >>> [str(rule.pattern) for rule in prefix_rules("site.example/en", 1, Defaults(), Report("f"))]
    ['site.example/en', 'site.example/en/']
    """
    rules = expression_rules(text, line, defaults, report, own)
    for rule in rules[:1]:
        assert isinstance(rule.pattern, Expression)
        value = rule.pattern.value
        if b"?" not in value and not value.endswith(b"/"):
            rules.append(rule._replace(pattern=Expression(value + b"/")))
    return rules


def may_except(defaults: Defaults) -> bool:
    """Whether a list may have exceptions: one that was asked to tag alone must open no door."""
    return defaults.action in (None, Action.BLOCK)


def is_sinkhole(text: str) -> bool:
    """Whether a name that is given this address leads nowhere: to no address, or to the machine itself.

    >>> is_sinkhole("0.0.0.0"), is_sinkhole("::1"), is_sinkhole("192.0.2.1"), is_sinkhole("x")
    (True, True, False, False)
    """
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return address.is_unspecified or address.is_loopback


def hash_rules(pattern: ExpressionHash, what: str, line: int, defaults: Defaults, report: Report) -> list[Rule]:
    """The rule of a hash, or none where it is only a prefix and the list allows."""
    if defaults.action is Action.ALLOW and not pattern.is_full:
        report.leave_out(line, what, "only a full hash of 64 hexadecimal digits can allow, not a prefix of one")
        return []
    return [defaults.rule(pattern, report, line)]
