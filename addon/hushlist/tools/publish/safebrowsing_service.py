"""Answers of a Safe Browsing server, v4 and v5: requests in, octets out; it opens no connection and no file.

Four lists are always there, one for each threat type that both versions know; what nothing is published under is empty.
A client gets prefixes of four octets, and full hashes for those that it asks for; nobody gets what they are hashes of.

v4 answers in JSON, or in protobuf where the request is in protobuf or asks for it; v5 in protobuf, or in JSON with
``alt=json``. A request may be in the query as browsers send it: ``$req``, base64 of the message, with ``$ct``.

Spec: Safe Browsing v4, REST; Safe Browsing v5, REST
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs

from hushlist.core.errors import HushlistError, MessageError
from hushlist.core.match.expressions import FULL_LENGTH
from hushlist.core.system.memory import BoundedCache
from hushlist.extensions.safe_browsing import v5_messages, wire_format
from hushlist.extensions.safe_browsing.list_updates import update_to_v4, update_to_v5
from hushlist.extensions.safe_browsing.prefix_list import SHORTEST
from hushlist.extensions.safe_browsing.v4_messages import (
    CompressionType,
    FetchThreatListUpdatesRequest,
    FetchThreatListUpdatesResponse,
    FindFullHashesRequest,
    FindFullHashesResponse,
    ListThreatListsResponse,
    ListUpdateRequest,
    ListUpdateResponse,
    PlatformType,
    ThreatEntry,
    ThreatEntryMetadata,
    ThreatEntryType,
    ThreatListDescriptor,
    ThreatMatch,
    ThreatType,
)
from hushlist.tools.publish.list_history import ClientState, ListHistory, read_state, round_down
from hushlist.tools.publish.published_list import PublishedList

_Message = TypeVar("_Message")

#: threat type -> the name of its list in v5
LIST_NAMES = {
    ThreatType.MALWARE: "mw-4b",
    ThreatType.SOCIAL_ENGINEERING: "se-4b",
    ThreatType.UNWANTED_SOFTWARE: "uws-4b",
    ThreatType.POTENTIALLY_HARMFUL_APPLICATION: "pha-4b",
}
_BY_NAME = {name: threat for threat, name in LIST_NAMES.items()}
#: a threat type of browsers' own -> what it stands for: Firefox's goog-phish-proto
_ALIASES = {5: ThreatType.SOCIAL_ENGINEERING}
#: prefixes that one request may ask for: v5, hashes:search, "may not exceed 1000"; v4, "up to 500"
MOST_ASKED = {4: 500, 5: 1000}
#: lists that v4 updates in one request: each threat type for some platforms
_MOST_LISTS = 16
#: v5, SizeConstraints: "The minimum is 1024"
_FEWEST_ENTRIES = 1024
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
#: answers that are kept: those that clients of one version all get
_MOST_ANSWERS = 32


class ApiRequest(NamedTuple):
    """A request, as it came."""

    method: str
    #: without its escapes
    path: str
    query: str
    content_type: str = ""
    body: bytes = b""


class ApiAnswer(NamedTuple):
    """An answer, and what a log may say of the request."""

    status: int
    content_type: str
    octets: bytes
    #: in hexadecimal; they tell what somebody may have visited
    prefixes: Sequence[str] = ()


class RequestError(HushlistError):
    """A request that is answered with an error."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


#: Source: google.rpc.Code, by the status of HTTP
_ERRORS = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "INVALID_ARGUMENT",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


def error_answer(status: int, why: str) -> ApiAnswer:
    """An error, as Google's servers write one."""
    plain = {"error": {"code": status, "message": why, "status": _ERRORS.get(status, "UNKNOWN")}}
    return ApiAnswer(status, _JSON, json.dumps(plain).encode())


@dataclass(slots=True)
class SafeBrowsingService:
    histories: Mapping[int, ListHistory]
    #: seconds for which a client is to wait, and to keep an answer
    wait: float
    lists: dict[int, PublishedList] = field(default_factory=dict)
    _answers_v4: BoundedCache[tuple[ClientState, int, bool], tuple[ListUpdateResponse, bool]] = field(init=False)
    _answers_v5: BoundedCache[tuple[ClientState, int], v5_messages.HashList] = field(init=False)

    def __post_init__(self) -> None:
        self._answers_v4 = BoundedCache(self._make_v4, _MOST_ANSWERS)
        self._answers_v5 = BoundedCache(self._make_v5, _MOST_ANSWERS)

    def answer(self, request: ApiRequest) -> ApiAnswer:
        """The answer to a request; an error where it cannot be read."""
        try:
            return self._route(request)
        except RequestError as error:
            return error_answer(error.status, str(error))
        except MessageError as error:
            return error_answer(400, str(error))

    @staticmethod
    def is_fast(request: ApiRequest) -> bool:
        """Whether a request is for no update, so that its answer takes no time."""
        return not any(words in request.path for words in ("Updates", "hashList/", "batchGet"))

    def _route(self, request: ApiRequest) -> ApiAnswer:
        try:
            query = _Query(parse_qs(request.query, keep_blank_values=True, max_num_fields=4 * MOST_ASKED[5]))
        except ValueError:
            raise RequestError(400, "the query has too many fields") from None
        if request.method not in ("GET", "POST"):
            raise RequestError(405, "there is GET and POST")
        version, _, method = request.path.removeprefix("/").partition("/")
        method, _, argument = method.partition("/")
        call = _CALLS.get((version, method))
        if call is None or bool(argument) != (method in _WITH_ARGUMENT):
            raise RequestError(404, "there is no such method")
        message, prefixes = call(self, query, request, argument)
        is_proto = query.first("$ct") == _PROTOBUF or query.first("alt") == "proto"
        if version == "v5" or request.content_type.partition(";")[0].strip() == _PROTOBUF:
            is_proto = query.first("alt") != "json"
        octets = (
            wire_format.encode_message(message)
            if is_proto
            else json.dumps(wire_format.message_to_json(message)).encode()
        )
        return ApiAnswer(200, _PROTOBUF if is_proto else _JSON, octets, prefixes)

    # -- v4 --------------------------------------------------------------------------------------------------------

    def _threat_lists(self, *_: object) -> tuple[object, Sequence[str]]:
        lists = (ThreatListDescriptor(threat, PlatformType.ANY_PLATFORM, ThreatEntryType.URL) for threat in LIST_NAMES)
        return ListThreatListsResponse(tuple(lists)), ()

    def _fetch_updates(self, query: _Query, request: ApiRequest, argument: str) -> tuple[object, Sequence[str]]:
        message = _message_of(FetchThreatListUpdatesRequest, query, request, argument)
        named = (
            (self.histories.get(_ALIASES.get(list_request.threat_type, list_request.threat_type)), list_request)
            for list_request in message.list_update_requests
        )
        wanted = [
            (list_request, self._key_v4(history, list_request))
            for history, list_request in named
            if history is not None and list_request.threat_entry_type == ThreatEntryType.URL
        ]
        if len(wanted) > _MOST_LISTS:
            raise RequestError(400, f"more than {_MOST_LISTS} lists in one request")
        answers = [(list_request, *self._answers_v4[key]) for list_request, key in wanted]
        updates = (
            replace(answer, threat_type=list_request.threat_type, platform_type=list_request.platform_type)
            for list_request, answer, _ in answers
        )
        # "unset = no limit": what is missing may be fetched at once
        are_there = all(is_there for *_, is_there in answers)
        return FetchThreatListUpdatesResponse(tuple(updates), self.wait if are_there else None), ()

    def _key_v4(self, history: ListHistory, wanted: ListUpdateRequest) -> tuple[ClientState, int, bool]:
        """What an answer is made of; it is the same for all platforms."""
        constraints = wanted.constraints
        limit = 0 if constraints is None else constraints.max_update_entries
        most = 0 if constraints is None else constraints.max_database_entries
        if limit < 0 or most < 0:
            raise RequestError(400, "a limit below 0")
        compressions = () if constraints is None else constraints.supported_compressions
        state = history.state_of(wanted.state, round_down(most))
        return state, round_down(limit), CompressionType.RICE in compressions

    def _make_v4(self, key: tuple[ClientState, int, bool]) -> tuple[ListUpdateResponse, bool]:
        state, limit, is_rice = key
        update, is_there = self.histories[state.list_number].update_from(state, limit)
        name = ThreatListDescriptor(state.list_number, PlatformType.ANY_PLATFORM, ThreatEntryType.URL)
        return update_to_v4(update, name, is_rice), is_there

    def _find_hashes(self, query: _Query, request: ApiRequest, argument: str) -> tuple[object, Sequence[str]]:
        message = _message_of(FindFullHashesRequest, query, request, argument)
        info = message.threat_info
        prefixes = sorted({entry.hash for entry in info.threat_entries}) if info is not None else []
        if info is None or not 0 < len(prefixes) <= MOST_ASKED[4]:
            raise RequestError(400, f"1 to {MOST_ASKED[4]} prefixes are asked for in one request")
        _check_lengths(prefixes, FULL_LENGTH)
        # each once, however often it is named
        threats = {*LIST_NAMES, *_ALIASES}.intersection(info.threat_types) if info.threat_types else LIST_NAMES
        platform = info.platform_types[0] if info.platform_types else PlatformType.ANY_PLATFORM
        hashes = {
            (threat, full)
            for threat in threats
            for prefix in prefixes
            for full in self._hashes_with(_ALIASES.get(threat, threat), prefix)
        }
        matches = tuple(
            ThreatMatch(threat, platform, ThreatEntryType.URL, ThreatEntry(full), ThreatEntryMetadata(), self.wait)
            for threat, full in sorted(hashes)
        )
        answer = FindFullHashesResponse(matches, negative_cache_duration=self.wait)
        return answer, [prefix.hex() for prefix in prefixes]

    def _hashes_with(self, threat: int, prefix: bytes) -> Sequence[bytes]:
        published = self.lists.get(threat)
        return () if published is None else tuple(published.hashes_with(prefix))

    # -- v5 --------------------------------------------------------------------------------------------------------

    def _hash_lists(self, query: _Query, request: ApiRequest, argument: str) -> tuple[object, Sequence[str]]:
        message = query.message(v5_messages.ListHashListsRequest, {})
        begin = _number(message.page_token) if message.page_token else 0
        end = begin + message.page_size if message.page_size > 0 else len(LIST_NAMES)
        lists = tuple(
            v5_messages.HashList(
                name=name,
                metadata=v5_messages.HashListMetadata((threat,), hash_length=v5_messages.HashLength.FOUR_BYTES),
            )
            for threat, name in [*LIST_NAMES.items()][begin:end]
        )
        return v5_messages.ListHashListsResponse(lists, str(end) if end < len(LIST_NAMES) else ""), ()

    def _batch_get(self, query: _Query, request: ApiRequest, argument: str) -> tuple[object, Sequence[str]]:
        message = query.message(v5_messages.BatchGetHashListsRequest, _SIZES)
        if not message.names or len(set(message.names)) < len(message.names):
            raise RequestError(400, "the names of lists, each once")
        versions = self._by_list(message.version)
        lists = (
            self._update_v5(name, versions.get(_BY_NAME.get(name, 0), b""), message.size_constraints)
            for name in message.names
        )
        return v5_messages.BatchGetHashListsResponse(tuple(lists)), ()

    def _by_list(self, versions: Sequence[bytes]) -> Mapping[int, bytes]:
        """The versions by the lists that they say they are of; what is of no list says nothing."""
        by_list: dict[int, bytes] = {}
        for octets in versions:
            state = read_state(octets)
            if state is None:
                continue
            if state.list_number in by_list:
                raise RequestError(400, "two versions of one list")
            by_list[state.list_number] = octets
        return by_list

    def _get_list(self, query: _Query, request: ApiRequest, argument: str) -> tuple[object, Sequence[str]]:
        message = query.message(v5_messages.GetHashListRequest, _SIZES)
        return self._update_v5(argument, message.version, message.size_constraints), ()

    def _update_v5(self, name: str, version: bytes, sizes: v5_messages.SizeConstraints | None) -> v5_messages.HashList:
        history = self.histories.get(_BY_NAME.get(name, 0))
        if history is None:
            raise RequestError(404, f"there is no list {name!r}; there are {', '.join(_BY_NAME)}")
        limit = 0 if sizes is None else sizes.max_update_entries
        most = 0 if sizes is None else sizes.max_database_entries
        if most < 0 or (limit and limit < _FEWEST_ENTRIES):
            raise RequestError(400, f"maxUpdateEntries is at least {_FEWEST_ENTRIES}, and no limit is below 0")
        state = history.state_of(version, round_down(most))
        if version == state.octets and state.base == state.target == history.number:  # nothing has changed
            return v5_messages.HashList(
                name=name, version=version, partial_update=True, minimum_wait_duration=self.wait
            )
        return self._answers_v5[state, round_down(limit)]

    def _make_v5(self, key: tuple[ClientState, int]) -> v5_messages.HashList:
        state, limit = key
        update, is_there = self.histories[state.list_number].update_from(state, limit)
        name = LIST_NAMES[ThreatType(state.list_number)]
        return update_to_v5(update, name, SHORTEST, self.wait if is_there else None)

    def _search(self, query: _Query, request: ApiRequest, argument: str) -> tuple[object, Sequence[str]]:
        prefixes = sorted(set(query.message(v5_messages.SearchHashesRequest, {}).hash_prefixes))
        if not 0 < len(prefixes) <= MOST_ASKED[5]:
            raise RequestError(400, f"1 to {MOST_ASKED[5]} prefixes are asked for in one request")
        _check_lengths(prefixes, SHORTEST)
        details: dict[bytes, list[v5_messages.FullHashDetail]] = {}
        for prefix in prefixes:
            for threat in LIST_NAMES:
                for full in self._hashes_with(threat, prefix):
                    details.setdefault(full, []).append(v5_messages.FullHashDetail(threat))
        hashes = tuple(v5_messages.FullHash(full, tuple(details[full])) for full in sorted(details))
        return v5_messages.SearchHashesResponse(hashes, self.wait), [prefix.hex() for prefix in prefixes]


def _check_lengths(prefixes: Sequence[bytes], longest: int) -> None:
    if any(not SHORTEST <= len(prefix) <= longest for prefix in prefixes):
        raise RequestError(400, f"a prefix that has not {SHORTEST} to {longest} octets")


_Call = Callable[[SafeBrowsingService, "_Query", ApiRequest, str], tuple[object, Sequence[str]]]
_CALLS: dict[tuple[str, str], _Call] = {
    ("v4", "threatLists"): SafeBrowsingService._threat_lists,
    ("v4", "threatListUpdates:fetch"): SafeBrowsingService._fetch_updates,
    ("v4", "encodedUpdates"): SafeBrowsingService._fetch_updates,
    ("v4", "fullHashes:find"): SafeBrowsingService._find_hashes,
    ("v4", "encodedFullHashes"): SafeBrowsingService._find_hashes,
    ("v5", "hashLists"): SafeBrowsingService._hash_lists,
    ("v5", "hashLists:batchGet"): SafeBrowsingService._batch_get,
    ("v5", "hashList"): SafeBrowsingService._get_list,
    ("v5", "hashes:search"): SafeBrowsingService._search,
}
#: methods with something behind them in the path
_WITH_ARGUMENT = ("encodedUpdates", "encodedFullHashes", "hashList")
#: fields of the query that are in a sub-message
_SIZES = {
    "sizeConstraints.maxUpdateEntries": "max_update_entries",
    "sizeConstraints.maxDatabaseEntries": "max_database_entries",
}


class _Query:
    def __init__(self, fields: Mapping[str, list[str]]) -> None:
        self._fields = fields

    def first(self, name: str) -> str:
        """The first value of a field; empty if it is not there."""
        return self._fields.get(name, [""])[0]

    def message(self, of: type[_Message], sizes: Mapping[str, str]) -> _Message:
        """The message in ``$req``, or that of the fields themselves."""
        if self.first("$req"):
            return wire_format.decode_message(of, wire_format.octets_of_base64(self.first("$req")))
        values: dict[str, Any] = {}
        for entry in fields(of):  # type: ignore[arg-type]
            wire_field = replace(entry.metadata["wire"], name=entry.name)
            sent = [text for text in self._fields.get(wire_field.json_name, []) if text]
            if not sent or wire_field.kind is wire_format.Kind.MESSAGE:
                continue
            read = {wire_format.Kind.BYTES: _octets, wire_format.Kind.INT32: _number}.get(wire_field.kind, str)
            values[wire_field.name] = tuple(map(read, sent)) if wire_field.is_repeated else read(sent[0])
        limits = {name: _number(self.first(key)) for key, name in sizes.items() if self.first(key)}
        if limits:
            values["size_constraints"] = v5_messages.SizeConstraints(**limits)
        return of(**values)


def _octets(text: str) -> bytes:
    return wire_format.octets_of_base64(text.replace(" ", "+"))  # a plus that nobody has percent-encoded


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise RequestError(400, "a number that cannot be read")
    return int(text)


def _message_of(of: type[_Message], query: _Query, request: ApiRequest, argument: str) -> _Message:
    """The message of a request of v4: in the path, in the query, or in the body."""
    if argument or query.first("$req"):
        return wire_format.decode_message(of, wire_format.octets_of_base64(argument or query.first("$req")))
    if request.content_type.partition(";")[0].strip() == _PROTOBUF or query.first("$ct") == _PROTOBUF:
        return wire_format.decode_message(of, request.body)
    return wire_format.decode_json(of, request.body)
