"""The messages of Safe Browsing v5, with the numbers of their fields.

Source: github.com/googleapis/googleapis, google/security/safebrowsing/v5/safebrowsing.proto (Apache-2.0), names and
numbers
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from hushlist.extensions.safe_browsing.v4_messages import ThreatType
from hushlist.extensions.safe_browsing.wire_format import Kind, wire


class ThreatAttribute(IntEnum):
    """When a threat counts."""

    THREAT_ATTRIBUTE_UNSPECIFIED = 0
    #: not for enforcement
    CANARY = 1
    #: for frames only
    FRAME_ONLY = 2


class HashLength(IntEnum):
    HASH_LENGTH_UNSPECIFIED = 0
    FOUR_BYTES = 2
    EIGHT_BYTES = 3
    SIXTEEN_BYTES = 4
    THIRTY_TWO_BYTES = 5


@dataclass(frozen=True, slots=True)
class FullHashDetail:
    """One list that a full hash is on."""

    threat_type: int = wire(1, Kind.ENUM, ThreatType)
    attributes: tuple[int, ...] = wire(2, Kind.ENUM, ThreatAttribute, repeated=True)


@dataclass(frozen=True, slots=True)
class FullHash:
    full_hash: bytes = wire(1, Kind.BYTES)
    full_hash_details: tuple[FullHashDetail, ...] = wire(2, Kind.MESSAGE, FullHashDetail, repeated=True)


@dataclass(frozen=True, slots=True)
class SearchHashesRequest:
    """GET /v5/hashes:search"""

    hash_prefixes: tuple[bytes, ...] = wire(1, Kind.BYTES, repeated=True)


@dataclass(frozen=True, slots=True)
class SearchHashesResponse:
    """The answer to ``SearchHashesRequest``."""

    full_hashes: tuple[FullHash, ...] = wire(1, Kind.MESSAGE, FullHash, repeated=True)
    #: seconds, for each prefix that was asked for
    cache_duration: float | None = wire(2, Kind.DURATION)


@dataclass(frozen=True, slots=True)
class SizeConstraints:
    """What the client can take of a list; 0 is no limit."""

    max_update_entries: int = wire(1, Kind.INT32)
    max_database_entries: int = wire(2, Kind.INT32)


@dataclass(frozen=True, slots=True)
class GetHashListRequest:
    """GET /v5/hashList/{name}"""

    name: str = wire(1, Kind.STRING)
    version: bytes = wire(2, Kind.BYTES)
    size_constraints: SizeConstraints | None = wire(4, Kind.MESSAGE, SizeConstraints)


@dataclass(frozen=True, slots=True)
class BatchGetHashListsRequest:
    """GET /v5/hashLists:batchGet; the versions need not be in the order of the names."""

    names: tuple[str, ...] = wire(1, Kind.STRING, repeated=True)
    version: tuple[bytes, ...] = wire(2, Kind.BYTES, repeated=True)
    size_constraints: SizeConstraints | None = wire(4, Kind.MESSAGE, SizeConstraints)


@dataclass(frozen=True, slots=True)
class ListHashListsRequest:
    """GET /v5/hashLists"""

    page_size: int = wire(1, Kind.INT32)
    page_token: str = wire(2, Kind.STRING)


@dataclass(frozen=True, slots=True)
class RiceDeltaEncoded32Bit:
    first_value: int = wire(1, Kind.UINT32)
    rice_parameter: int = wire(2, Kind.INT32)
    entries_count: int = wire(3, Kind.INT32)
    encoded_data: bytes = wire(4, Kind.BYTES)


@dataclass(frozen=True, slots=True)
class RiceDeltaEncoded64Bit:
    first_value: int = wire(1, Kind.UINT64)
    rice_parameter: int = wire(2, Kind.INT32)
    entries_count: int = wire(3, Kind.INT32)
    encoded_data: bytes = wire(4, Kind.BYTES)


@dataclass(frozen=True, slots=True)
class RiceDeltaEncoded128Bit:
    first_value_hi: int = wire(1, Kind.UINT64)
    first_value_lo: int = wire(2, Kind.FIXED64)
    rice_parameter: int = wire(3, Kind.INT32)
    entries_count: int = wire(4, Kind.INT32)
    encoded_data: bytes = wire(5, Kind.BYTES)


@dataclass(frozen=True, slots=True)
class RiceDeltaEncoded256Bit:
    first_value_first_part: int = wire(1, Kind.UINT64)
    first_value_second_part: int = wire(2, Kind.FIXED64)
    first_value_third_part: int = wire(3, Kind.FIXED64)
    first_value_fourth_part: int = wire(4, Kind.FIXED64)
    rice_parameter: int = wire(5, Kind.INT32)
    entries_count: int = wire(6, Kind.INT32)
    encoded_data: bytes = wire(7, Kind.BYTES)


@dataclass(frozen=True, slots=True)
class HashListMetadata:
    """What a list is."""

    threat_types: tuple[int, ...] = wire(1, Kind.ENUM, ThreatType, repeated=True)
    description: str = wire(4, Kind.STRING)
    hash_length: int = wire(6, Kind.ENUM, HashLength)


@dataclass(frozen=True, slots=True)
class HashList:
    """A list, or what changes in it."""

    name: str = wire(1, Kind.STRING)
    version: bytes = wire(2, Kind.BYTES)
    partial_update: bool = wire(3, Kind.BOOL)
    additions_four_bytes: RiceDeltaEncoded32Bit | None = wire(4, Kind.MESSAGE, RiceDeltaEncoded32Bit)
    additions_eight_bytes: RiceDeltaEncoded64Bit | None = wire(9, Kind.MESSAGE, RiceDeltaEncoded64Bit)
    additions_sixteen_bytes: RiceDeltaEncoded128Bit | None = wire(10, Kind.MESSAGE, RiceDeltaEncoded128Bit)
    additions_thirty_two_bytes: RiceDeltaEncoded256Bit | None = wire(11, Kind.MESSAGE, RiceDeltaEncoded256Bit)
    compressed_removals: RiceDeltaEncoded32Bit | None = wire(5, Kind.MESSAGE, RiceDeltaEncoded32Bit)
    #: seconds until the client may ask again; ``None`` or 0: at once
    minimum_wait_duration: float | None = wire(6, Kind.DURATION)
    #: of all entries, sorted and joined; empty where nothing has changed
    sha256_checksum: bytes = wire(7, Kind.BYTES)
    metadata: HashListMetadata | None = wire(8, Kind.MESSAGE, HashListMetadata)


@dataclass(frozen=True, slots=True)
class BatchGetHashListsResponse:
    """The answer to ``BatchGetHashListsRequest``: the lists in the order of the names."""

    hash_lists: tuple[HashList, ...] = wire(1, Kind.MESSAGE, HashList, repeated=True)


@dataclass(frozen=True, slots=True)
class ListHashListsResponse:
    """The answer to ``ListHashListsRequest``: lists without their entries."""

    hash_lists: tuple[HashList, ...] = wire(1, Kind.MESSAGE, HashList, repeated=True)
    next_page_token: str = wire(2, Kind.STRING)
