"""Rice coding: there and back, and what hostile streams cost."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.errors import MessageError
from hushlist.extensions.safe_browsing.rice_coding import (
    V4_PARAMETERS,
    V5_PARAMETERS,
    RiceCoded,
    rice_decode,
    rice_encode,
)
from unit.rows import each_row


@pytest.mark.parametrize("bits", V5_PARAMETERS)
@given(st.data())
def test_what_is_encoded_is_decoded(bits: int, data: st.DataObject) -> None:
    numbers = sorted(data.draw(st.sets(st.integers(0, (1 << bits) - 1), min_size=1, max_size=200)))
    coded = rice_encode(numbers, V5_PARAMETERS[bits])
    assert list(rice_decode(coded, bits, V5_PARAMETERS[bits])) == numbers
    cut = RiceCoded(coded.first_value, coded.parameter, coded.deltas, coded.data[:-1])
    if len(numbers) > 1:
        with pytest.raises(MessageError, match="Rice coding"):
            rice_decode(cut, bits, V5_PARAMETERS[bits])


@each_row(
    ("numbers", "parameter"),
    [([5], 2), ([0, 3], 2), ([0, 1 << 20], 19), ([0, 1, 1 << 21], 19), ([0, (1 << 32) - 1], 28)],
)
def test_the_parameter_goes_by_the_mean_between_two_numbers(numbers: list[int], parameter: int) -> None:
    assert rice_encode(numbers, V4_PARAMETERS).parameter == parameter


@pytest.mark.parametrize("parameters", [V4_PARAMETERS, V5_PARAMETERS[32]])
def test_streams_longer_than_a_chunk(parameters: range) -> None:
    draw = random.Random(7)
    for bits in (18, 25, 32):
        numbers = sorted({draw.getrandbits(bits) for _ in range(20_000)})
        coded = rice_encode(numbers, parameters)
        assert coded.parameter in parameters
        assert list(rice_decode(coded, 32, parameters)) == numbers


@pytest.mark.slow
@each_row(
    ("coded", "why"),
    [
        (RiceCoded(0, 2, (1 << 23) - 1, b"\0" * 1000), "cannot hold"),
        (RiceCoded(0, 2, (1 << 31) - 1, b"\0" * 1000), "numbers, of"),
        (RiceCoded(0, 2, -1, b""), "numbers, of"),
        (RiceCoded(0, 29, 1, b"\0" * 9), "the parameter is 29, not 2 to 28"),
        (RiceCoded(0, 0, 1, b"\0" * 9), "the parameter is 0"),
        (RiceCoded(1 << 32, 2, 0, b""), "first value"),
        (RiceCoded(-1, 2, 0, b""), "first value"),
        (RiceCoded(0, 2, 5, b"\xff" * (1 << 22)), "ends after 0 of 5"),
        (RiceCoded((1 << 32) - 1, 2, 5, b"\x02" * 9), "more than 32 bits"),
    ],
)
def test_a_bad_stream_is_refused_before_it_costs_memory(coded: RiceCoded, why: str) -> None:
    tracemalloc.start()
    with pytest.raises(MessageError, match=why):
        rice_decode(coded)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
