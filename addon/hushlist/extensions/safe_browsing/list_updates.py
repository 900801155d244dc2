"""Updates as the messages of v4 and v5, both ways.

v4 takes the four octets of a prefix as a little-endian number, so a Rice-coded list is not sorted as its prefixes are;
v5 takes them big-endian.

Spec: Safe Browsing v4, Compression, "Decompression"; Safe Browsing v5, HashList
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from functools import reduce
from typing import Any, Literal, TypeAlias

from hushlist.core.errors import MessageError
from hushlist.extensions.safe_browsing.prefix_list import LONGEST, MOST_PREFIXES, SHORTEST, PrefixUpdate
from hushlist.extensions.safe_browsing.rice_coding import (
    V4_PARAMETERS,
    V5_PARAMETERS,
    RiceCoded,
    rice_decode,
    rice_encode,
)
from hushlist.extensions.safe_browsing.v4_messages import (
    Checksum,
    CompressionType,
    ListUpdateResponse,
    RawHashes,
    RawIndices,
    ResponseType,
    RiceDeltaEncoding,
    ThreatEntrySet,
    ThreatListDescriptor,
)
from hushlist.extensions.safe_browsing.v5_messages import (
    HashList,
    RiceDeltaEncoded32Bit,
    RiceDeltaEncoded64Bit,
    RiceDeltaEncoded128Bit,
    RiceDeltaEncoded256Bit,
)

_ByteOrder: TypeAlias = Literal["little", "big"]
_WORD = (1 << 64) - 1


# -- v4 ----------------------------------------------------------------------------------------------------------------


def update_of_v4(response: ListUpdateResponse) -> PrefixUpdate:
    """The update in an answer of v4; ``MessageError`` if it cannot be read, or is too large."""
    if response.response_type not in (ResponseType.PARTIAL_UPDATE, ResponseType.FULL_UPDATE):
        raise MessageError(f"an update of the unknown type {response.response_type}")
    additions, removals = list[bytes](), list[int]()
    for entries in response.additions:
        additions += prefixes_of_v4(entries)
        if len(additions) > MOST_PREFIXES:
            raise MessageError(f"a list of more than {MOST_PREFIXES:,} prefixes")
    for entries in response.removals:
        removals += indices_of_v4(entries)
        if len(removals) > MOST_PREFIXES:
            raise MessageError(f"more than {MOST_PREFIXES:,} prefixes to remove")
    return PrefixUpdate(
        state=response.new_client_state,
        additions=additions,
        removals=removals,
        is_partial=response.response_type == ResponseType.PARTIAL_UPDATE,
        checksum=response.checksum.sha256 if response.checksum and response.checksum.sha256 else None,
    )


def prefixes_of_v4(entries: ThreatEntrySet) -> list[bytes]:
    """The prefixes of one set, in its own order; raises as ``update_of_v4`` does."""
    if entries.compression_type == CompressionType.RICE:
        coded = _coded_of_v4(entries.rice_hashes)
        return _split(_octets_of(rice_decode(coded), 4, "little"), 4) if coded else []
    if entries.compression_type != CompressionType.RAW:
        raise MessageError(f"entries of the unknown compression {entries.compression_type}")
    if entries.raw_hashes is None:
        return []
    size, octets = entries.raw_hashes.prefix_size, entries.raw_hashes.raw_hashes
    if not SHORTEST <= size <= LONGEST or len(octets) % size:
        raise MessageError(f"{len(octets):,} octets of prefixes of {size} octets")
    if len(octets) // size > MOST_PREFIXES:
        raise MessageError(f"a list of more than {MOST_PREFIXES:,} prefixes")
    return _split(octets, size)


def indices_of_v4(entries: ThreatEntrySet) -> Sequence[int]:
    """The places of one set; raises as ``update_of_v4`` does."""
    if entries.compression_type == CompressionType.RICE:
        coded = _coded_of_v4(entries.rice_indices)
        return rice_decode(coded) if coded else ()
    if entries.compression_type != CompressionType.RAW:
        raise MessageError(f"entries of the unknown compression {entries.compression_type}")
    return entries.raw_indices.indices if entries.raw_indices else ()


def _coded_of_v4(sent: RiceDeltaEncoding | None) -> RiceCoded | None:
    if sent is None:
        return None
    return RiceCoded(sent.first_value, sent.rice_parameter, sent.num_entries, sent.encoded_data)


def update_to_v4(update: PrefixUpdate, name: ThreatListDescriptor, is_rice: bool) -> ListUpdateResponse:
    """An update as an answer of v4. Prefixes of more than four octets are always raw."""
    by_size: dict[int, list[bytes]] = {}
    for prefix in update.additions:
        by_size.setdefault(len(prefix), []).append(prefix)
    return ListUpdateResponse(
        threat_type=name.threat_type,
        threat_entry_type=name.threat_entry_type,
        platform_type=name.platform_type,
        response_type=ResponseType.PARTIAL_UPDATE if update.is_partial else ResponseType.FULL_UPDATE,
        additions=tuple(_prefixes_to_v4(size, by_size[size], is_rice) for size in sorted(by_size)),
        removals=(_indices_to_v4(update.removals, is_rice),) if update.removals else (),
        new_client_state=update.state,
        checksum=Checksum(update.checksum) if update.checksum else None,
    )


def _prefixes_to_v4(size: int, prefixes: list[bytes], is_rice: bool) -> ThreatEntrySet:
    if is_rice and size == SHORTEST:
        coded = _coded_to_v4(sorted(_numbers_of(b"".join(prefixes), "little")))
        return ThreatEntrySet(CompressionType.RICE, rice_hashes=coded)
    return ThreatEntrySet(CompressionType.RAW, raw_hashes=RawHashes(size, b"".join(sorted(prefixes))))


def _indices_to_v4(indices: Sequence[int], is_rice: bool) -> ThreatEntrySet:
    if is_rice:
        return ThreatEntrySet(CompressionType.RICE, rice_indices=_coded_to_v4(indices))
    return ThreatEntrySet(CompressionType.RAW, raw_indices=RawIndices(tuple(indices)))


def _coded_to_v4(numbers: Sequence[int]) -> RiceDeltaEncoding:
    coded = rice_encode(numbers, V4_PARAMETERS)
    return RiceDeltaEncoding(coded.first_value, coded.parameter, coded.deltas, coded.data)


# -- v5 ----------------------------------------------------------------------------------------------------------------

#: octets of a prefix -> the field of a list with additions of that length, and its message: the words of a first value,
#: and then the same for all
_ADDITIONS: dict[int, tuple[str, type[Any]]] = {
    4: ("additions_four_bytes", RiceDeltaEncoded32Bit),
    8: ("additions_eight_bytes", RiceDeltaEncoded64Bit),
    16: ("additions_sixteen_bytes", RiceDeltaEncoded128Bit),
    32: ("additions_thirty_two_bytes", RiceDeltaEncoded256Bit),
}


def update_of_v5(sent: HashList) -> PrefixUpdate:
    """The update in a list of v5; ``MessageError`` if it cannot be read, or is too large."""
    additions_by_size = [
        (size, part) for size, (name, _) in _ADDITIONS.items() if (part := getattr(sent, name)) is not None
    ]
    additions: Sequence[bytes] = ()
    if len(additions_by_size) > 1:
        raise MessageError("additions of two lengths in one list")
    for size, part in additions_by_size:
        numbers = rice_decode(_coded_of_v5(part), 8 * size, V5_PARAMETERS[8 * size])
        additions = _split(_octets_of(numbers, size, "big"), size)
    removals: Sequence[int] = ()
    if sent.compressed_removals is not None:
        removals = rice_decode(_coded_of_v5(sent.compressed_removals), 32, V5_PARAMETERS[32])
    return PrefixUpdate(sent.version, additions, removals, sent.partial_update, sent.sha256_checksum)


def _coded_of_v5(sent: Any) -> RiceCoded:
    """What one of the messages for numbers of some length says; its first value may be in several words."""
    *words, parameter, deltas, data = astuple(sent)
    return RiceCoded(reduce(lambda value, word: value << 64 | word, words), parameter, deltas, data)


def update_to_v5(update: PrefixUpdate, name: str, size: int, wait: float | None) -> HashList:
    """An update as a list of v5, whose prefixes all have ``size`` octets: 4, 8, 16 or 32."""
    parts: dict[str, Any] = {}
    if update.additions:
        numbers = sorted(_numbers_of(b"".join(update.additions), "big", size))
        key, message = _ADDITIONS[size]
        parts[key] = _coded_to_v5(message, rice_encode(numbers, V5_PARAMETERS[8 * size]))
    if update.removals:
        coded = rice_encode(update.removals, V5_PARAMETERS[32])
        parts["compressed_removals"] = _coded_to_v5(RiceDeltaEncoded32Bit, coded)
    return HashList(
        name=name,
        version=update.state,
        partial_update=update.is_partial,
        minimum_wait_duration=wait,
        sha256_checksum=update.checksum or b"",
        **parts,
    )


def _coded_to_v5(message: type[Any], coded: RiceCoded) -> Any:
    words = [coded.first_value >> 64 * place & _WORD for place in range(len(fields(message)) - 3)]
    return message(*reversed(words), coded.parameter, coded.deltas, coded.data)


# -- numbers and octets ------------------------------------------------------------------------------------------------


def _split(octets: bytes, size: int) -> list[bytes]:
    return [octets[at : at + size] for at in range(0, len(octets), size)]


def _octets_of(numbers: Iterable[int], size: int, order: _ByteOrder) -> bytes:
    if isinstance(numbers, array):
        if sys.byteorder != order:
            numbers.byteswap()
        return numbers.tobytes()
    return b"".join(number.to_bytes(size, order) for number in numbers)


def _numbers_of(octets: bytes, order: _ByteOrder, size: int = 4) -> Iterable[int]:
    if size > 8:
        return [int.from_bytes(number, order) for number in _split(octets, size)]
    numbers = array("I" if size == 4 else "Q", octets)
    if sys.byteorder != order:
        numbers.byteswap()
    return numbers
