"""Lists of prefixes and their updates, in both protocols."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushlist.core.errors import MessageError
from hushlist.extensions.safe_browsing.list_updates import update_of_v4, update_of_v5, update_to_v4, update_to_v5
from hushlist.extensions.safe_browsing.prefix_list import PrefixList, PrefixUpdate, checksum_of, difference
from hushlist.extensions.safe_browsing.rice_coding import V4_PARAMETERS, rice_encode
from hushlist.extensions.safe_browsing.v4_messages import (
    CompressionType,
    ListUpdateResponse,
    ResponseType,
    RiceDeltaEncoding,
    ThreatEntrySet,
    ThreatListDescriptor,
)
from hushlist.extensions.safe_browsing.v5_messages import HashList
from hushlist.extensions.safe_browsing.wire_format import decode_message, encode_message
from unit.rows import each_row

MALWARE = ThreatListDescriptor(1, 6, 1)


def sets_of(size: int) -> st.SearchStrategy[set[bytes]]:
    # few first octets, so that lists have prefixes in common
    return st.sets(st.binary(min_size=size, max_size=size) | st.integers(0, 30).map(lambda n: n.to_bytes(size, "big")))


@pytest.mark.parametrize("size", [4, 8, 16, 32])
@settings(max_examples=settings.default.max_examples // 2)
@given(st.data())
def test_a_history_of_differences_ends_with_the_same_list(size: int, data: st.DataObject) -> None:
    v4, v5, before = PrefixList(), PrefixList(), list[bytes]()
    for number in range(5):
        after, state = sorted(data.draw(sets_of(size))), b"%d" % number
        update = difference(before, after, state)
        if number == 0:
            update = PrefixUpdate(state, after, checksum=checksum_of(after))
        for_v4 = update_to_v4(update, MALWARE, is_rice=data.draw(st.booleans()))
        v4 = v4.updated(update_of_v4(decode_message(ListUpdateResponse, encode_message(for_v4))))
        for_v5 = update_to_v5(update, "mw-4b", size, wait=None)
        v5 = v5.updated(update_of_v5(decode_message(HashList, encode_message(for_v5))))
        assert v4 == v5 == PrefixList(tuple(after), state, checksum_of(after))
        before = after


def test_a_prefix_that_is_repeated_is_once_in_the_set() -> None:
    numbers = rice_encode([5, 5, 9], V4_PARAMETERS)
    sent = RiceDeltaEncoding(numbers.first_value, numbers.parameter, numbers.deltas, numbers.data)
    answer = ListUpdateResponse(
        additions=(ThreatEntrySet(CompressionType.RICE, rice_hashes=sent),),
        response_type=ResponseType.FULL_UPDATE,
        new_client_state=b"1",
    )
    update = update_of_v4(answer)
    assert len(update.additions) == 3
    assert len(PrefixList().updated(update).prefixes) == 2
    both = PrefixUpdate(b"2", [b"cccc", b"cccc", b"dddd"], checksum=checksum_of([b"cccc", b"dddd"]))
    assert EARLIER.updated(both).prefixes == (b"cccc", b"dddd")


EARLIER = PrefixList((b"aaaa", b"bbbb"), b"1", checksum_of([b"aaaa", b"bbbb"]))


@each_row(
    ("update", "why"),
    [
        (PrefixUpdate(b"2", removals=[2], is_partial=True), "outside of the list, which has 2 prefixes"),
        (PrefixUpdate(b"2", removals=[-1], is_partial=True), "outside of the list"),
        (PrefixUpdate(b"2", removals=[0]), "a full update that removes"),
        (PrefixUpdate(b"2", [b"aaaa"], is_partial=True), "in the list already"),
        (PrefixUpdate(b"2", [b"ccc"]), "4 to 32 octets"),
        (PrefixUpdate(b"2", [b"c" * 33]), "4 to 32 octets"),
        (PrefixUpdate(b"2", [b"cccc"], checksum=b"x" * 32), "checksum"),
        (PrefixUpdate(b"2", [b"cccc"], is_partial=True, checksum=b""), "checksum"),
    ],
)
def test_a_bad_update_changes_nothing(update: PrefixUpdate, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        EARLIER.updated(update)


def test_no_checksum_means_the_old_one_in_v5_and_none_in_v4() -> None:
    nothing_new = HashList(version=b"2", partial_update=True)
    assert EARLIER.updated(update_of_v5(nothing_new)) == PrefixList(EARLIER.prefixes, b"2", EARLIER.checksum)
    unchecked = update_of_v4(update_to_v4(PrefixUpdate(b"2", [b"cccc"]), MALWARE, is_rice=True))
    assert EARLIER.updated(unchecked).prefixes == (b"cccc",)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (ListUpdateResponse(), "unknown type 0"),
        (ListUpdateResponse(response_type=2, additions=(ThreatEntrySet(),)), "unknown compression 0"),
        (ListUpdateResponse(response_type=1, removals=(ThreatEntrySet(7),)), "unknown compression 7"),
    ],
)
def test_what_v4_does_not_know(sent: ListUpdateResponse, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        update_of_v4(sent)
