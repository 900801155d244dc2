"""Tallies merge: whatever the order, and however records were divided."""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

from hypothesis import given
from hypothesis import strategies as st

from hushlist.audit.replay.tally import MOST_NAMED, MOST_SLOWEST, AuditTally, Hits, SlowDecision, SourceCount
from hushlist.audit.sources.recorded_request import BrokenRecord, ReadRecord, RecordedRequest, SkippedRecord
from hushlist.decide.engine import Engine
from unit.audit import samples

READ = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(samples.RECORDS), st.integers(1, 40)).map(
            lambda own: own[0]._replace(number=100 * own[0].number + own[1])
        ),
        st.builds(BrokenRecord, st.just("s"), st.integers(1, 300), st.just("why")),
        st.builds(SkippedRecord, st.just("s"), st.integers(1, 300)),
    ),
    max_size=40,
)


@lru_cache(maxsize=1)
def engine() -> Engine:
    return samples.engine(Path(mkdtemp()))


def tally(records: list[ReadRecord]) -> AuditTally:
    """Their tally, without what depends on the clock."""
    found = samples.tally_of(engine(), records)
    found.slowest = []
    return found


def merged(*parts: AuditTally) -> AuditTally:
    whole = AuditTally()
    for part in parts:
        whole.merge(deepcopy(part))
    return whole


@given(READ, READ, READ)
def test_merging_is_associative_and_commutative_and_as_one_count(
    a: list[ReadRecord], b: list[ReadRecord], c: list[ReadRecord]
) -> None:
    one, two, three = tally(a), tally(b), tally(c)
    assert merged(merged(one, two), three) == merged(one, merged(two, three)) == merged(three, one, two)
    assert merged(one, two, three) == tally([*a, *b, *c])


@given(READ)
def test_an_empty_tally_changes_nothing(records: list[ReadRecord]) -> None:
    one = tally(records)
    assert merged(one, AuditTally()) == merged(AuditTally(), one) == one


def test_the_slowest_stay_whatever_the_order() -> None:
    slow = [SlowDecision(number, RecordedRequest(b"http://h.example/%d" % number)) for number in range(1, 50)]
    one, two = AuditTally(), AuditTally()
    one.add_slow(slow[::2])
    two.add_slow(slow[1::2])
    assert merged(one, two).slowest == merged(two, one).slowest == slow[::-1][:MOST_SLOWEST]


def test_the_first_broken_records_are_named_and_all_are_counted() -> None:
    broken: list[ReadRecord] = [BrokenRecord("s", number, "why") for number in range(2500, 0, -1)]
    found = tally(broken)
    assert found.sources == {"s": SourceCount("s", "urls", broken=2500)}
    assert found.broken == sorted(broken)[:MOST_NAMED]  # type: ignore[type-var]


def test_hits_add_up() -> None:
    hits = Hits(1, 2, 3, 4, 5, 6)
    hits.merge(Hits(10, 20, 30, 40, 50, 60))
    assert hits == Hits(11, 22, 33, 44, 55, 66)
