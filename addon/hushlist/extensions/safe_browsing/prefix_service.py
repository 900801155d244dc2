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
    lists: Mapping[ThreatList, prefix_list.PrefixList], own_ports: Iterable[int] = ()
) -> dict[ThreatList, tuple[prefix_list.PrefixList, float] | FetchError]:
    """Lists of one server as it has them now, from what is known of them; and seconds until each may be asked again.

    They are asked for together. Where the update of one does not fit what is known, or its checksum is another, all of
    it is asked for, once. What still cannot be used says why, and how long the server wants to be left alone.
    ``FetchError`` if the server's first answer cannot be used.
    """
    updates: dict[ThreatList, tuple[prefix_list.PrefixList, float] | FetchError] = {}
    bases = dict(lists)
    while bases:
        again: dict[ThreatList, prefix_list.PrefixList] = {}
        ask = _ask_v4 if next(iter(bases)).service.version == 4 else _ask_v5
        try:
            answer = ask(bases, own_ports)
        except FetchError as error:
            if not updates:
                raise
            for threat_list in bases:  # others were sent before
                before = updates[threat_list]
                wait = before.retry_after if isinstance(before, FetchError) else 0.0
                updates[threat_list] = FetchError(str(error), max(error.retry_after, wait), is_refusal=error.is_refusal)
            break
        for threat_list, sent in answer.items():
            if isinstance(sent, FetchError):
                updates[threat_list] = sent
                continue
            update, wait = sent
            try:
                updates[threat_list] = bases[threat_list].updated(update), wait
            except MessageError as error:
                updates[threat_list] = FetchError(f"its update cannot be used: {error}", wait)
                if bases[threat_list].state:
                    again[threat_list] = prefix_list.PrefixList()
        bases = again
    return updates


def _ask_v4(bases: Mapping[ThreatList, prefix_list.PrefixList], own_ports: Iterable[int]) -> _Sent:
    service = next(iter(bases)).service
    list_requests = tuple(
        ListUpdateRequest(*threat_list.types, base.state, _MOST_ENTRIES) for threat_list, base in bases.items()
    )
    message = FetchThreatListUpdatesRequest(_CLIENT, list_requests)
    answer = _ask(
        service, "threatListUpdates:fetch", FetchThreatListUpdatesResponse, message=message, own_ports=own_ports
    )
    sent, wait = _Sent(), answer.minimum_wait_duration or 0.0
    for threat_list in bases:
        named = (listed for listed in answer.list_update_responses if threat_list.types == _types_of(listed))
        response = next(named, None)
        if response is None:
            sent[threat_list] = FetchError(f"its answer does not have the list {threat_list.name}", wait)
        elif response.checksum is None or not response.checksum.sha256:
            sent[threat_list] = FetchError("its update has no checksum", wait)
        else:
            sent[threat_list] = _update_or_error(partial(update_of_v4, response), wait)
    return sent


def _types_of(response: ListUpdateResponse) -> tuple[int, int, int]:
    return response.threat_type, response.platform_type, response.threat_entry_type


def _ask_v5(bases: Mapping[ThreatList, prefix_list.PrefixList], own_ports: Iterable[int]) -> _Sent:
    service, names = next(iter(bases)).service, [threat_list.name for threat_list in bases]
    states = [("version", _base64(base.state)) for base in bases.values() if base.state]
    fields = [*(("names", name) for name in names), *states]
    answer = _ask(service, "hashLists:batchGet", BatchGetHashListsResponse, fields, own_ports=own_ports)
    if [hash_list.name for hash_list in answer.hash_lists] != names:
        raise FetchError(f"its answer does not have the lists {', '.join(names)}, and no other")
    sent = _Sent()
    for threat_list, hash_list in zip(bases, answer.hash_lists, strict=True):
        wait = hash_list.minimum_wait_duration or 0.0
        sent[threat_list] = update = _update_or_error(partial(update_of_v5, hash_list), wait)
        if not isinstance(update, FetchError) and any(
            len(prefix) != threat_list.size for prefix in update[0].additions
        ):
            sent[threat_list] = FetchError(f"its answer has prefixes that have not {threat_list.size} octets", wait)
    return sent


def _update_or_error(
    read: partial[prefix_list.PrefixUpdate], wait: float
) -> tuple[prefix_list.PrefixUpdate, float] | FetchError:
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
    threats, platforms, entries = (tuple(dict.fromkeys(numbers)) for numbers in types)
    info = ThreatInfo(threats, platforms, tuple(map(ThreatEntry, prefixes)), entries)
    answer = _ask(
        service,
        "fullHashes:find",
        FindFullHashesResponse,
        message=FindFullHashesRequest(_CLIENT, threat_info=info),
        longest=_LONGEST_ANSWER,
        deadline=PATIENCE,
        own_ports=own_ports,
    )
    return full_hashes_of_v4(answer)


def full_hashes_of_v4(answer: FindFullHashesResponse) -> FullHashes:
    """What an answer of v4 says; matches of unknown types, and hashes that are not whole, are not enforced."""
    by_hash: dict[bytes, list[Threat]] = {}
    for match in answer.matches:
        is_whole = match.threat is not None and len(match.threat.hash) == FULL_LENGTH
        if is_whole and match.threat is not None and match.threat_entry_type == ThreatEntryType.URL:
            kind = _name_of(match.threat_type)
            if kind is not None:
                by_hash.setdefault(match.threat.hash, []).append(Threat(kind, match.cache_duration or 0.0))
    threats = {full_hash: tuple(of_hash) for full_hash, of_hash in by_hash.items()}
    return FullHashes(threats, answer.negative_cache_duration or 0.0, answer.minimum_wait_duration or 0.0)


def _search_v5(service: SafeBrowsing, prefixes: Collection[bytes], own_ports: Iterable[int]) -> FullHashes:
    shortened = dict.fromkeys(prefix[: prefix_list.SHORTEST] for prefix in prefixes)
    answer = _ask(
        service,
        "hashes:search",
        SearchHashesResponse,
        [("hashPrefixes", _base64(prefix)) for prefix in shortened],
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
    if any(len(full.full_hash) != FULL_LENGTH for full in answer.full_hashes):
        raise FetchError("its answer has a full hash that is not whole")
    lasts, threats = answer.cache_duration, dict[bytes, tuple[Threat, ...]]()
    for full in answer.full_hashes:
        of_hash = tuple(_threats_of(full.full_hash_details, lasts))
        threats[full.full_hash] = (*threats.get(full.full_hash, ()), *of_hash)
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
