"""The messages of Safe Browsing v4, with the numbers of their fields.

Source: github.com/google/safebrowsing, internal/safebrowsing_proto/safebrowsing.proto (Apache-2.0), names and numbers
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from hushlist.extensions.safe_browsing.wire_format import Kind, wire


class ThreatType(IntEnum):
    """What is wrong with a URL; v5 has the same numbers."""

    THREAT_TYPE_UNSPECIFIED = 0
    MALWARE = 1
    SOCIAL_ENGINEERING = 2
    UNWANTED_SOFTWARE = 3
    POTENTIALLY_HARMFUL_APPLICATION = 4


class PlatformType(IntEnum):
    PLATFORM_TYPE_UNSPECIFIED = 0
    WINDOWS = 1
    LINUX = 2
    ANDROID = 3
    OSX = 4
    IOS = 5
    ANY_PLATFORM = 6
    ALL_PLATFORMS = 7
    CHROME = 8


class ThreatEntryType(IntEnum):
    THREAT_ENTRY_TYPE_UNSPECIFIED = 0
    URL = 1
    EXECUTABLE = 2
    IP_RANGE = 3


class CompressionType(IntEnum):
    """How entries travel."""

    COMPRESSION_TYPE_UNSPECIFIED = 0
    RAW = 1
    RICE = 2


class ResponseType(IntEnum):
    """Whether an update changes what the client has, or replaces it."""

    RESPONSE_TYPE_UNSPECIFIED = 0
    PARTIAL_UPDATE = 1
    FULL_UPDATE = 2


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """The program that asks."""

    client_id: str = wire(1, Kind.STRING)
    client_version: str = wire(2, Kind.STRING)


@dataclass(frozen=True, slots=True)
class Constraints:
    """What the client can take of a list; 0 is no limit."""

    max_update_entries: int = wire(1, Kind.INT32)
    max_database_entries: int = wire(2, Kind.INT32)
    supported_compressions: tuple[int, ...] = wire(4, Kind.ENUM, CompressionType, repeated=True)


@dataclass(frozen=True, slots=True)
class ListUpdateRequest:
    """One list that the client wants brought up to date."""

    threat_type: int = wire(1, Kind.ENUM, ThreatType)
    platform_type: int = wire(2, Kind.ENUM, PlatformType)
    threat_entry_type: int = wire(5, Kind.ENUM, ThreatEntryType)
    #: what the server sent as ``new_client_state``; empty the first time
    state: bytes = wire(3, Kind.BYTES)
    constraints: Constraints | None = wire(4, Kind.MESSAGE, Constraints)


@dataclass(frozen=True, slots=True)
class FetchThreatListUpdatesRequest:
    """POST /v4/threatListUpdates:fetch"""

    client: ClientInfo | None = wire(1, Kind.MESSAGE, ClientInfo)
    list_update_requests: tuple[ListUpdateRequest, ...] = wire(3, Kind.MESSAGE, ListUpdateRequest, repeated=True)


@dataclass(frozen=True, slots=True)
class RawHashes:
    """Prefixes of one length, one after the other."""

    #: octets
    prefix_size: int = wire(1, Kind.INT32)
    raw_hashes: bytes = wire(2, Kind.BYTES)


@dataclass(frozen=True, slots=True)
class RawIndices:
    """Places in the client's sorted list."""

    indices: tuple[int, ...] = wire(1, Kind.INT32, repeated=True)


@dataclass(frozen=True, slots=True)
class RiceDeltaEncoding:
    """Rice-coded numbers of 32 bits. Firefox refuses it where there is no first value, so a 0 is written, too."""

    first_value: int = wire(1, Kind.INT64, always=True)
    rice_parameter: int = wire(2, Kind.INT32)
    num_entries: int = wire(3, Kind.INT32)
    encoded_data: bytes = wire(4, Kind.BYTES)


@dataclass(frozen=True, slots=True)
class ThreatEntrySet:
    compression_type: int = wire(1, Kind.ENUM, CompressionType)
    raw_hashes: RawHashes | None = wire(2, Kind.MESSAGE, RawHashes)
    raw_indices: RawIndices | None = wire(3, Kind.MESSAGE, RawIndices)
    rice_hashes: RiceDeltaEncoding | None = wire(4, Kind.MESSAGE, RiceDeltaEncoding)
    rice_indices: RiceDeltaEncoding | None = wire(5, Kind.MESSAGE, RiceDeltaEncoding)


@dataclass(frozen=True, slots=True)
class Checksum:
    sha256: bytes = wire(1, Kind.BYTES)


@dataclass(frozen=True, slots=True)
class ListUpdateResponse:
    """What changes in one list."""

    threat_type: int = wire(1, Kind.ENUM, ThreatType)
    threat_entry_type: int = wire(2, Kind.ENUM, ThreatEntryType)
    platform_type: int = wire(3, Kind.ENUM, PlatformType)
    response_type: int = wire(4, Kind.ENUM, ResponseType)
    additions: tuple[ThreatEntrySet, ...] = wire(5, Kind.MESSAGE, ThreatEntrySet, repeated=True)
    removals: tuple[ThreatEntrySet, ...] = wire(6, Kind.MESSAGE, ThreatEntrySet, repeated=True)
    new_client_state: bytes = wire(7, Kind.BYTES)
    checksum: Checksum | None = wire(8, Kind.MESSAGE, Checksum)


@dataclass(frozen=True, slots=True)
class FetchThreatListUpdatesResponse:
    """The answer to ``FetchThreatListUpdatesRequest``."""

    list_update_responses: tuple[ListUpdateResponse, ...] = wire(1, Kind.MESSAGE, ListUpdateResponse, repeated=True)
    #: seconds until the client may ask again; ``None`` is no limit
    minimum_wait_duration: float | None = wire(2, Kind.DURATION)


@dataclass(frozen=True, slots=True)
class ThreatEntry:
    """A hash or a prefix of one; in look-ups of whole URLs, the URL."""

    hash: bytes = wire(1, Kind.BYTES)
    url: str = wire(2, Kind.STRING)


@dataclass(frozen=True, slots=True)
class ThreatInfo:
    threat_types: tuple[int, ...] = wire(1, Kind.ENUM, ThreatType, repeated=True)
    platform_types: tuple[int, ...] = wire(2, Kind.ENUM, PlatformType, repeated=True)
    threat_entries: tuple[ThreatEntry, ...] = wire(3, Kind.MESSAGE, ThreatEntry, repeated=True)
    threat_entry_types: tuple[int, ...] = wire(4, Kind.ENUM, ThreatEntryType, repeated=True)


@dataclass(frozen=True, slots=True)
class FindFullHashesRequest:
    """POST /v4/fullHashes:find"""

    client: ClientInfo | None = wire(1, Kind.MESSAGE, ClientInfo)
    threat_info: ThreatInfo | None = wire(3, Kind.MESSAGE, ThreatInfo)


@dataclass(frozen=True, slots=True)
class MetadataEntry:
    """More about a threat, for some lists of Google's."""

    key: bytes = wire(1, Kind.BYTES)
    value: bytes = wire(2, Kind.BYTES)


@dataclass(frozen=True, slots=True)
class ThreatEntryMetadata:
    """All that is told about a threat."""

    entries: tuple[MetadataEntry, ...] = wire(1, Kind.MESSAGE, MetadataEntry, repeated=True)


@dataclass(frozen=True, slots=True)
class ThreatMatch:
    threat_type: int = wire(1, Kind.ENUM, ThreatType)
    platform_type: int = wire(2, Kind.ENUM, PlatformType)
    threat_entry_type: int = wire(6, Kind.ENUM, ThreatEntryType)
    threat: ThreatEntry | None = wire(3, Kind.MESSAGE, ThreatEntry)
    threat_entry_metadata: ThreatEntryMetadata | None = wire(4, Kind.MESSAGE, ThreatEntryMetadata)
    #: seconds
    cache_duration: float | None = wire(5, Kind.DURATION)


@dataclass(frozen=True, slots=True)
class FindFullHashesResponse:
    """The answer to ``FindFullHashesRequest``."""

    matches: tuple[ThreatMatch, ...] = wire(1, Kind.MESSAGE, ThreatMatch, repeated=True)
    #: seconds until the client may ask again; ``None`` is no limit
    minimum_wait_duration: float | None = wire(2, Kind.DURATION)
    #: seconds for which the prefixes have no other full hashes
    negative_cache_duration: float | None = wire(3, Kind.DURATION)


@dataclass(frozen=True, slots=True)
class ThreatListDescriptor:
    """The name of a list in v4: its three types."""

    threat_type: int = wire(1, Kind.ENUM, ThreatType)
    platform_type: int = wire(2, Kind.ENUM, PlatformType)
    threat_entry_type: int = wire(3, Kind.ENUM, ThreatEntryType)


@dataclass(frozen=True, slots=True)
class ListThreatListsResponse:
    """GET /v4/threatLists"""

    threat_lists: tuple[ThreatListDescriptor, ...] = wire(1, Kind.MESSAGE, ThreatListDescriptor, repeated=True)
