"""What the readers of other people's lists share: an entry becomes what rules fit, or is left out with a warning."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import ip_address

from hushlist.errors import UrlError
from hushlist.lists.patterns import parse_listed_expression, plain_name
from hushlist.lists.source import Defaults, OwnTerms, Report
from hushlist.match.rule import Action, Expression, ExpressionHash

_PATH_OR_QUERY = re.compile(r"[/?#@\\]")
#: an exception of a list; only a list that blocks can have some
EXCEPTION = OwnTerms(action=Action.ALLOW)


def read_expression(text: str, line: int, report: Report) -> Expression | None:
    """An expression in the clear, or ``None``; "*." in front means the same as none."""
    try:
        return parse_listed_expression(text.removeprefix("*."))
    except UrlError as error:
        report.leave_out(line, text, error.reason)
        return None


def read_name(text: str, line: int, report: Report) -> Expression | None:
    """A domain, or ``None``."""
    if expression := plain_name(text):
        return expression
    if _PATH_OR_QUERY.search(text):
        report.leave_out(line, text, "a domain has neither user nor path")
        return None
    return read_expression(text, line, report)


def read_prefix(text: str, line: int, report: Report) -> tuple[Expression, ...]:
    """The expressions of an entry that stands for all that begins like it.

    A path is the page, and the folder of that name.

    >>> [str(expression) for expression in read_prefix("site.example/en", 1, Report("f"))]
    ['site.example/en', 'site.example/en/']
    """
    page = read_expression(text, line, report)
    if page is None:
        return ()
    if page.value.endswith(b"/") or page.value.find(b"?") >= 0:  # "find" tells faster than "in"
        return (page,)
    return page, Expression(page.value + b"/")


def may_except(defaults: Defaults) -> bool:
    """Whether a list may have exceptions: one that was asked to tag alone must open no door."""
    return defaults.action in (None, Action.BLOCK)


@lru_cache(maxsize=64)  # a list has hardly ever more than one
def is_sinkhole(text: str) -> bool | None:
    """Whether a name that is given this address leads nowhere: to no address, or to the machine itself.

    ``None`` where it is no address.

    >>> is_sinkhole("0.0.0.0"), is_sinkhole("::1"), is_sinkhole("192.0.2.1"), is_sinkhole("x")
    (True, True, False, None)
    """
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return address.is_unspecified or address.is_loopback


def may_be_rule(pattern: ExpressionHash, what: str, line: int, defaults: Defaults, report: Report) -> bool:
    """Whether a hash can be a rule; one that is only a prefix is left out where the list allows."""
    if defaults.action is not Action.ALLOW or pattern.is_full:
        return True
    report.leave_out(line, what, "only a full hash of 64 hexadecimal digits can allow, not a prefix of one")
    return False
