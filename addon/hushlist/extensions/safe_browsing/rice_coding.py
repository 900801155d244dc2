"""Rice-Golomb coding of sorted numbers: the compression of Safe Browsing's lists, v4 and v5.

The smallest number is written as it is, and of every other one its distance from the one before it: the quotient by
``2 ** k`` in unary, ones ended by a zero, then the remainder in ``k`` bits. Bits fill each octet from its lowest.

>>> rice_decode(RiceCoded(first_value=3, parameter=2, deltas=2, data=bytes.fromhex("f702")))
array('I', [3, 18, 27])
>>> rice_encode([3, 18, 27], V4_PARAMETERS)
RiceCoded(first_value=3, parameter=3, deltas=2, data=b'\\xbd\\x00')

Both ways turn 8 KiB at a time into a text of ones and zeros, in which Python searches and slices at C's speed: a
million prefixes of 32 bits take 0.8 s (``tests/bench/safe_browsing.py``).

Spec: Safe Browsing v4, Compression; Safe Browsing v5, RiceDeltaEncoded32Bit to RiceDeltaEncoded256Bit
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, MutableSequence, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hushlist.core.errors import MessageError, number_of
from hushlist.extensions.safe_browsing.prefix_list import MOST_PREFIXES

#: the parameters that clients accept where there are deltas, by the bits of a number. v4: Chromium's v4_rice.cc
V4_PARAMETERS = range(2, 29)
V5_PARAMETERS = {32: range(3, 31), 64: range(35, 63), 128: range(99, 127), 256: range(227, 255)}

_CHUNK = 1 << 13  # octets that are bits in a text at one time
_TYPES = {32: "I", 64: "Q"}


@dataclass(frozen=True, slots=True)
class RiceCoded:
    """Numbers as they travel: ``deltas + 1`` of them."""

    first_value: int
    #: k, in bits; without meaning where there are no deltas
    parameter: int
    #: how many deltas follow the first value; a message may claim any number, also a negative one
    deltas: int
    data: bytes


def rice_decode(coded: RiceCoded, bits: int = 32, parameters: range = V4_PARAMETERS) -> MutableSequence[int]:
    """The numbers, ascending: an array for numbers of 32 and 64 bits, else a list.

    What the message claims is held against the length of its data first, so nobody can make this use much more
    memory than the message itself. What follows the last number is ignored, as in Chromium.

    Raises:
        MessageError: more numbers than a list may have, fewer than are claimed, one of more than ``bits`` bits, or a
            parameter that is not one of ``parameters``.
    """
    count, k, limit = coded.deltas, coded.parameter, 1 << bits
    if not 0 <= coded.first_value < limit:
        raise MessageError(f"Rice coding: the first value has more than {bits} bits")
    if not 0 <= count < MOST_PREFIXES:
        raise MessageError(f"Rice coding: {count + 1:,} numbers, of {MOST_PREFIXES:,} at most")
    if count and k not in parameters:
        raise MessageError(f"Rice coding: the parameter is {k}, not {parameters[0]} to {parameters[-1]}")
    if count * (k + 1) > 8 * len(coded.data):
        raise MessageError(f"Rice coding: {number_of(len(coded.data), 'octet', 'octets')} cannot hold {count:,} deltas")
    numbers: MutableSequence[int] = array(_TYPES[bits], [coded.first_value]) if bits in _TYPES else [coded.first_value]
    for sums in _running_sums(coded, limit):
        numbers.extend(sums)
    if len(numbers) <= count:
        raise MessageError(f"Rice coding: the data ends after {len(numbers) - 1:,} of {count:,} deltas")
    return numbers


def _running_sums(coded: RiceCoded, limit: int) -> Iterator[list[int]]:
    """The numbers behind the first one, chunk by chunk."""
    total, k, left, rest = coded.first_value, coded.parameter, coded.deltas, ""
    for at in range(0, len(coded.data), _CHUNK):
        if not left:
            return
        chunk = coded.data[at : at + _CHUNK]
        # the highest bit stands first, so the stream runs from the text's end to its beginning
        text = f"{int.from_bytes(chunk, 'little'):0{8 * len(chunk)}b}{rest}"
        rfind, end, sums = text.rfind, len(text), list[int]()
        for _ in range(left):
            zero = rfind("0", 0, end)
            start = zero - k
            if start < 0:
                break
            total += ((end - 1 - zero) << k) + int(text[start:zero], 2)
            sums.append(total)
            end = start
        left -= len(sums)
        # a quotient that goes on in the next chunk counts now: what is kept is never longer than k + 1 bits
        rest = text[:end].rstrip("1") if left else ""
        total += (end - len(rest)) << k if left else 0
        if total >= limit:  # numbers only grow
            raise MessageError(f"Rice coding: a number has more than {limit.bit_length() - 1} bits")
        yield sums


def rice_encode(numbers: Sequence[int], parameters: range) -> RiceCoded:
    """Ascending numbers, at least one, with the parameter that makes random numbers shortest.

    Source of the parameter: Kiely, Selecting the Golomb Parameter in Rice Coding, 2004, equation 8
    """
    count = len(numbers) - 1
    mean = (numbers[-1] - numbers[0]) // count if count else 0
    k = min(max((mean * 4812 // 10_000).bit_length(), parameters[0]), parameters[-1])
    return RiceCoded(numbers[0], k, count, b"".join(_octets_of(_codes(numbers, k))))


def _codes(numbers: Sequence[int], k: int) -> Iterator[str]:
    """The code of each delta, its last bit first."""
    mask = (1 << k) - 1
    for before, number in pairwise(numbers):
        delta = number - before
        yield f"{delta & mask:0{k}b}0{'1' * (delta >> k)}"


def _octets_of(codes: Iterator[str]) -> Iterator[bytes]:
    """Codes as octets; the last octet is filled with zeros."""
    waiting: list[str] = []
    length = 0
    for code in codes:
        waiting.append(code)
        length += len(code)
        if length >= 8 * _CHUNK:
            text = "".join(reversed(waiting))
            odd = length % 8
            yield int(text[odd:], 2).to_bytes(length // 8, "little")
            waiting, length = [text[:odd]], odd
    if length:
        yield int("".join(reversed(waiting)), 2).to_bytes(-(-length // 8), "little")
