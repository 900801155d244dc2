"""The readers of Safe Browsing's messages, and the server's of requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hushlist.extensions.safe_browsing.list_updates import update_of_v4, update_of_v5, update_to_v4, update_to_v5
from hushlist.extensions.safe_browsing.prefix_list import PrefixList, difference
from hushlist.extensions.safe_browsing.v4_messages import ListUpdateResponse, ThreatListDescriptor
from hushlist.extensions.safe_browsing.v5_messages import HashList
from hushlist.extensions.safe_browsing.wire_format import decode_json, decode_message, encode_message, message_to_json
from hushlist.tools.publish.list_history import ListHistory, read_state
from hushlist.tools.publish.published_list import PublishedList
from hushlist.tools.publish.safebrowsing_service import ApiRequest, SafeBrowsingService
from unit.parsers.table import Parser

EARLIER = PrefixList((b"aaaa", b"bbbb", b"cccc"), b"1")
UPDATE = difference(EARLIER.prefixes, (b"bbbb", b"dddd", b"eeee"), b"2")


def _list_of_v4(octets: bytes) -> None:
    message = decode_message(ListUpdateResponse, octets)
    assert decode_message(ListUpdateResponse, encode_message(message)) == message
    EARLIER.updated(update_of_v4(message))


def _list_of_v5(octets: bytes) -> None:
    message = decode_message(HashList, octets)
    assert message_to_json(decode_json(HashList, _json(message))) == message_to_json(message)
    EARLIER.updated(update_of_v5(message))


def _json(message: Any) -> bytes:
    return json.dumps(message_to_json(message)).encode()


def _samples() -> Iterator[bytes]:
    for is_rice in (True, False):
        yield encode_message(update_to_v4(UPDATE, ThreatListDescriptor(1, 6, 1), is_rice))
    yield encode_message(update_to_v5(UPDATE, "mw-4b", 4, 300.0))


def _samples_of_json() -> Iterator[bytes]:
    yield _json(update_to_v5(UPDATE, "mw-4b", 4, 300.0))
    yield _json(update_to_v4(UPDATE, ThreatListDescriptor(1, 6, 1), is_rice=True))


def _request(octets: bytes) -> None:
    """A method's path, a query and a body, line by line."""
    path, _, rest = octets.partition(b"\n")
    query, _, body = rest.partition(b"\n")
    history = ListHistory(Path("unused"), 1, name=b"8 octets", number=1, packed=b"aaaabbbb")
    service = SafeBrowsingService({1: history}, 300.0, {1: PublishedList(b"a" * 32)})
    texts = (part.decode("latin-1") for part in (path, query))
    answer = service.answer(ApiRequest("POST", *texts, "application/json", body))
    assert answer.status in (200, 400, 404)


def _requests() -> Iterator[bytes]:
    yield b'/v4/fullHashes:find\nalt=json\n{"threatInfo": {"threatEntries": [{"hash": "YWFhYQ=="}]}}'
    yield b"/v4/threatListUpdates:fetch\n$ct=application/x-protobuf&$req=CgA=\n"
    yield b"/v5/hashLists:batchGet\nnames=mw-4b&version=AQI&sizeConstraints.maxUpdateEntries=1024\n"
    yield b"/v5/hashes:search\nhashPrefixes=YWFhYQ%3D%3D&hashPrefixes=----_w\n"


def _state(octets: bytes) -> None:
    state = read_state(octets)
    assert state is None or state.octets == octets


PARSERS: dict[str, Parser] = {
    "safebrowsing v4": Parser(_list_of_v4, _samples, units=(b"\x2a\x00", b"\x32\x02\x08\x02", b"\xff")),
    "safebrowsing v5": Parser(_list_of_v5, _samples, units=(b"\x22\x00", b"\x2a\x00", b"\x0a\x01a", b"\xff")),
    "safebrowsing json": Parser(
        partial(decode_json, HashList), _samples_of_json, units=(b"[", b'{"metadata":', b'{"name": "a"},')
    ),
    "safebrowsing request": Parser(_request, _requests, units=(b"names=mw-4b&", b"hashPrefixes=YWFhYQ&", b"/")),
    "safebrowsing state": Parser(_state, lambda: [ListHistory(Path("unused"), 1).state_of(b"", 0).octets]),
}
