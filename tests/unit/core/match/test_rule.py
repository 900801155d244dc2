"""Rules."""

import pickle
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


def test_a_rule_without_a_last_day_always_holds() -> None:
    assert Terms(Action.BLOCK, "list", "file").holds_at(datetime.max.replace(tzinfo=UTC))


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


@pytest.mark.parametrize(("length", "is_full"), [(4, False), (31, False), (32, True)])
def test_only_a_whole_hash_is_full(length: int, is_full: bool) -> None:
    assert ExpressionHash(bytes(length)).is_full is is_full


def test_patterns_are_equal_only_to_those_of_their_kind() -> None:
    patterns = [Expression(b"abcd"), ExpressionHash(b"abcd"), Expression(b"abcde"), ip_network("::1")]
    assert all((one == other) == (one is other) for one in patterns for other in patterns)
    copies = pickle.loads(pickle.dumps(patterns))
    assert copies == patterns
    assert set(copies) == set(patterns)
