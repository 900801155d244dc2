"""Asks servers of Safe Browsing: for updates of their lists, and for the full hashes of prefixes that fit.

What is sent: the API key, the names and states of lists, and the prefixes; never a URL or a full hash. No message has
the key. Answers are bounded before and while they are read, and a redirect is an error, as nobody else may see the key.

Spec: Safe Browsing v4, threatListUpdates.fetch, fullHashes.find; v5, hashLists.batchGet, hashes.search
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import TypeVar
from urllib.parse import urlencode

from hushlist import __version__
from hushlist.core.errors import FetchError, MessageError
from hushlist.core.match.expressions import FULL_LENGTH
from hushlist.extensions.safe_browsing import prefix_list
from hushlist.extensions.safe_browsing.confirmations import PATIENCE, FullHashes, Threat
from hushlist.extensions.safe_browsing.list_updates import update_of_v4, update_of_v5
from hushlist.extensions.safe_browsing.threat_lists import THREATS, SafeBrowsing, ThreatList
from hushlist.extensions.safe_browsing.v4_messages import (
    ClientInfo,
    CompressionType,
    Constraints,
    FetchThreatListUpdatesRequest,
    FetchThreatListUpdatesResponse,
    FindFullHashesRequest,
    FindFullHashesResponse,
    ListUpdateRequest,
    ListUpdateResponse,
    ThreatEntry,
    ThreatEntryType,
    ThreatInfo,
    ThreatType,
)
from hushlist.extensions.safe_browsing.v5_messages import (
    BatchGetHashListsResponse,
    FullHashDetail,
    SearchHashesResponse,
    ThreatAttribute,
)
from hushlist.extensions.safe_browsing.wire_format import decode_message, encode_message
from hushlist.extensions.subscriptions.list_fetch import LONGEST_FETCH, fetch

_Message = TypeVar("_Message")

#: octets of an update, and of an answer with full hashes: more than 15,000 of them. Fewer may be no fault, as whoever
#: gets pages onto a list can have many begin alike.
_LONGEST_UPDATE, _LONGEST_ANSWER = 1 << 27, 1 << 20
#: octets of what a server calls a version; real ones have fewer than a hundred
_LONGEST_STATE = 1 << 12
_CLIENT = ClientInfo("hushlist", __version__)
#: entries of one update, and of a list
_MOST_ENTRIES = Constraints(
    max_update_entries=prefix_list.MOST_PREFIXES,
    max_database_entries=prefix_list.MOST_PREFIXES,
    supported_compressions=(CompressionType.RAW, CompressionType.RICE),
)


def _ask(
    service: SafeBrowsing,
    method: str,
    answer: type[_Message],
    fields: Iterable[tuple[str, str]] = (),
    message: object = None,
    longest: int = _LONGEST_UPDATE,
    deadline: float = LONGEST_FETCH,
    own_ports: Iterable[int] = (),
) -> _Message:
    """A server's answer. Raises ``FetchError``, which never has the key, whatever the server says."""
    key = [("key", service.api_key)] if service.api_key else []
    url = f"{service.server}/v{service.version}/{method}?{urlencode([*fields, *key, ('alt', 'proto')])}"
    sent, read = None if message is None else encode_message(message), BytesIO()
    try:
        fetch(url, read, longest=longest, deadline=deadline, own_ports=own_ports, message=sent, is_redirected=False)
        return decode_message(answer, read.getvalue())
    except MessageError as error:
        raise FetchError(f"its answer cannot be used: {error}") from error
    except FetchError as error:
        why = str(error).replace(service.api_key, "(the API key)") if service.api_key else str(error)
        raise FetchError(why, error.retry_after, is_refusal=error.is_refusal) from None


def _base64(octets: bytes) -> str:
    return urlsafe_b64encode(octets).decode("ascii")


# -- updates -----------------------------------------------------------------------------------------------------------


#: what a server sent of a list, and seconds until it may be asked again; or why that cannot be used
_Sent = dict[ThreatList, tuple[prefix_list.PrefixUpdate, float] | FetchError]


def updated(
    known: Mapping[ThreatList, prefix_list.PrefixList], own_ports: Iterable[int] = ()
) -> dict[ThreatList, tuple[prefix_list.PrefixList, float] | FetchError]:
    """Lists of one server as it has them now, from what is known of them; and seconds until each may be asked again.

    They are asked for together. Where the update of one does not fit what is known, or its checksum is another, all of
    it is asked for, once. What still cannot be used says why, and how long the server wants to be left alone.
    ``FetchError`` if the server's first answer cannot be used.
    """
    found: dict[ThreatList, tuple[prefix_list.PrefixList, float] | FetchError] = {}
    bases = dict(known)
    while bases:
        again: dict[ThreatList, prefix_list.PrefixList] = {}
        ask = _ask_v4 if next(iter(bases)).service.version == 4 else _ask_v5
        try:
            answer = ask(bases, own_ports)
        except FetchError as error:
            if not found:
                raise
            for own in bases:  # others were sent before
                before = found[own]
                wait = before.retry_after if isinstance(before, FetchError) else 0.0
                found[own] = FetchError(str(error), max(error.retry_after, wait), is_refusal=error.is_refusal)
            break
        for own, sent in answer.items():
            if isinstance(sent, FetchError):
                found[own] = sent
                continue
            update, wait = sent
            try:
                found[own] = bases[own].updated(update), wait
            except MessageError as error:
                found[own] = FetchError(f"its update cannot be used: {error}", wait)
                if bases[own].state:
                    again[own] = prefix_list.PrefixList()
        bases = again
    return found


def _ask_v4(known: Mapping[ThreatList, prefix_list.PrefixList], own_ports: Iterable[int]) -> _Sent:
    service = next(iter(known)).service
    asked = tuple(ListUpdateRequest(*own.types, base.state, _MOST_ENTRIES) for own, base in known.items())
    message = FetchThreatListUpdatesRequest(_CLIENT, asked)
    answer = _ask(
        service, "threatListUpdates:fetch", FetchThreatListUpdatesResponse, message=message, own_ports=own_ports
    )
    sent, wait = _Sent(), answer.minimum_wait_duration or 0.0
    for own in known:
        named = (one for one in answer.list_update_responses if own.types == _types_of(one))
        response = next(named, None)
        if response is None:
            sent[own] = FetchError(f"its answer does not have the list {own.name}", wait)
        elif response.checksum is None or not response.checksum.sha256:
            sent[own] = FetchError("its update has no checksum", wait)
        else:
            sent[own] = _told(partial(update_of_v4, response), wait)
    return sent


def _types_of(response: ListUpdateResponse) -> tuple[int, int, int]:
    return response.threat_type, response.platform_type, response.threat_entry_type


def _ask_v5(known: Mapping[ThreatList, prefix_list.PrefixList], own_ports: Iterable[int]) -> _Sent:
    service, names = next(iter(known)).service, [own.name for own in known]
    states = [("version", _base64(base.state)) for base in known.values() if base.state]
    fields = [*(("names", name) for name in names), *states]
    answer = _ask(service, "hashLists:batchGet", BatchGetHashListsResponse, fields, own_ports=own_ports)
    if [found.name for found in answer.hash_lists] != names:
        raise FetchError(f"its answer does not have the lists {', '.join(names)}, and no other")
    sent = _Sent()
    for own, found in zip(known, answer.hash_lists, strict=True):
        wait = found.minimum_wait_duration or 0.0
        sent[own] = told = _told(partial(update_of_v5, found), wait)
        if not isinstance(told, FetchError) and any(len(prefix) != own.size for prefix in told[0].additions):
            sent[own] = FetchError(f"its answer has prefixes that have not {own.size} octets", wait)
    return sent


def _told(read: partial[prefix_list.PrefixUpdate], wait: float) -> tuple[prefix_list.PrefixUpdate, float] | FetchError:
    try:
        update = read()
    except MessageError as error:
        return FetchError(f"its update cannot be used: {error}", wait)
    if len(update.state) > _LONGEST_STATE:
        return FetchError(f"its update cannot be used: a state of {len(update.state):,} octets", wait)
    return update, wait


# -- full hashes -------------------------------------------------------------------------------------------------------


def search_hashes(service: SafeBrowsing, prefixes: Collection[bytes], own_ports: Iterable[int] = ()) -> FullHashes:
    """What a server says of prefixes; a ``Search``."""
    return (_search_v4 if service.version == 4 else _search_v5)(service, prefixes, own_ports)


def _search_v4(service: SafeBrowsing, prefixes: Collection[bytes], own_ports: Iterable[int]) -> FullHashes:
    types: Sequence[Sequence[int]] = [*zip(*(ThreatList(service, name).types for name in service.lists), strict=True)]
    threats, platforms, entries = (tuple(dict.fromkeys(own)) for own in types)
    asked = ThreatInfo(threats, platforms, tuple(map(ThreatEntry, prefixes)), entries)
    answer = _ask(
        service,
        "fullHashes:find",
        FindFullHashesResponse,
        message=FindFullHashesRequest(_CLIENT, threat_info=asked),
        longest=_LONGEST_ANSWER,
        deadline=PATIENCE,
        own_ports=own_ports,
    )
    return full_hashes_of_v4(answer)


def full_hashes_of_v4(answer: FindFullHashesResponse) -> FullHashes:
    """What an answer of v4 says; matches of unknown types, and hashes that are not whole, are not enforced."""
    found: dict[bytes, list[Threat]] = {}
    for match in answer.matches:
        known = match.threat is not None and len(match.threat.hash) == FULL_LENGTH
        if known and match.threat is not None and match.threat_entry_type == ThreatEntryType.URL:
            kind = _name_of(match.threat_type)
            if kind is not None:
                found.setdefault(match.threat.hash, []).append(Threat(kind, match.cache_duration or 0.0))
    threats = {full_hash: tuple(own) for full_hash, own in found.items()}
    return FullHashes(threats, answer.negative_cache_duration or 0.0, answer.minimum_wait_duration or 0.0)


def _search_v5(service: SafeBrowsing, prefixes: Collection[bytes], own_ports: Iterable[int]) -> FullHashes:
    asked = dict.fromkeys(prefix[: prefix_list.SHORTEST] for prefix in prefixes)
    answer = _ask(
        service,
        "hashes:search",
        SearchHashesResponse,
        [("hashPrefixes", _base64(prefix)) for prefix in asked],
        longest=_LONGEST_ANSWER,
        deadline=PATIENCE,
        own_ports=own_ports,
    )
    return full_hashes_of_v5(answer)


def full_hashes_of_v5(answer: SearchHashesResponse) -> FullHashes:
    """What an answer of v5 says; details of unknown types or attributes, and canaries, are not enforced.

    Raises:
        FetchError: it does not say for how long it holds, or has a hash that is not whole.
    """
    if answer.cache_duration is None:
        raise FetchError("its answer does not say for how long it holds")
    if any(len(found.full_hash) != FULL_LENGTH for found in answer.full_hashes):
        raise FetchError("its answer has a full hash that is not whole")
    lasts, threats = answer.cache_duration, dict[bytes, tuple[Threat, ...]]()
    for found in answer.full_hashes:
        own = tuple(_threats_of(found.full_hash_details, lasts))
        threats[found.full_hash] = (*threats.get(found.full_hash, ()), *own)
    return FullHashes(threats, lasts)


def _threats_of(details: Iterable[FullHashDetail], lasts: float) -> Iterator[Threat]:
    for detail in details:
        kind, attributes = _name_of(detail.threat_type), set(detail.attributes)
        if kind is not None and attributes <= {ThreatAttribute.FRAME_ONLY}:
            yield Threat(kind, lasts, is_frame_only=bool(attributes))


def _name_of(threat: int) -> str | None:
    """The name of a threat type that is enforced."""
    name = ThreatType(threat).name if threat in tuple(ThreatType) else None
    return name if name in THREATS else None
