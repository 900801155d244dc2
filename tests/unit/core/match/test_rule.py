"""Rules."""

from datetime import UTC, date, datetime
from ipaddress import ip_network

import pytest

from hushlist.core.match.rule import Action, Expression, ExpressionHash, Pattern, Terms
from hushlist.core.url.hashed_uri import parse_hashed_uri
from unit.rows import each_row


@pytest.mark.parametrize(
    ("now", "holds"),
    [
        (datetime(2026, 12, 30, tzinfo=UTC), True),
        (datetime(2026, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), True),
        (datetime(2027, 1, 1, tzinfo=UTC), False),
    ],
)
def test_a_rule_holds_through_its_last_day(now: datetime, holds: bool) -> None:
    assert Terms(Action.BLOCK, "list", "file", expires=date(2026, 12, 31)).holds_at(now) is holds


@each_row(
    ("pattern", "text"),
    [
        (Expression(b"h/x"), "h/x"),
        (ExpressionHash(bytes(4)), "sha256:00000000"),
        (parse_hashed_uri(f"hashed:sha1={'0' * 40}+query+frag"), f"hashed:sha1={'0' * 40}+frag+query"),
        (ip_network("10.0.0.0/8"), "10.0.0.0/8"),
    ],
)
def test_a_pattern_is_shown_as_it_may_be_written(pattern: Pattern, text: str) -> None:
    assert str(pattern) == text
