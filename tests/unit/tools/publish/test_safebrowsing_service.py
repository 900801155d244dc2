"""Answers of the Safe Browsing server, in each form that a request may have."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hushlist.core.match.expressions import full_hash
from hushlist.extensions.safe_browsing.list_updates import update_of_v4, update_of_v5
from hushlist.extensions.safe_browsing.prefix_list import PrefixList
from hushlist.extensions.safe_browsing.v4_messages import (
    ClientInfo,
    Constraints,
    FetchThreatListUpdatesRequest,
    FetchThreatListUpdatesResponse,
    FindFullHashesRequest,
    FindFullHashesResponse,
    ListUpdateRequest,
    ThreatEntry,
    ThreatInfo,
)
from hushlist.extensions.safe_browsing.v5_messages import (
    BatchGetHashListsRequest,
    BatchGetHashListsResponse,
    HashList,
    ListHashListsResponse,
    SearchHashesResponse,
    SizeConstraints,
)
from hushlist.extensions.safe_browsing.wire_format import decode_json, decode_message, encode_message, message_to_json
from hushlist.tools.publish.list_history import ListHistory
from hushlist.tools.publish.published_list import PublishedList
from hushlist.tools.publish.safebrowsing_service import (
    LIST_NAMES,
    ApiAnswer,
    ApiRequest,
    SafeBrowsingService,
    error_answer,
)
from unit.rows import each_row

PROTOBUF = "application/x-protobuf"
HASHES = sorted(full_hash(b"%d.example/" % number) for number in range(3000))


@pytest.fixture
def service(tmp_path: Path) -> SafeBrowsingService:
    """One that publishes 3,000 hosts as malware, and one of them as social engineering, too."""
    histories = {int(threat): ListHistory(tmp_path / name, int(threat)) for threat, name in LIST_NAMES.items()}
    own = SafeBrowsingService(histories, 300.0)
    own.lists = {1: PublishedList(b"".join(HASHES)), 2: PublishedList(HASHES[0])}
    for number, history in histories.items():
        history.add(own.lists.get(number, PublishedList()).prefixes())
    return own


def get(service: SafeBrowsingService, path: str, query: str = "", **more: Any) -> ApiAnswer:
    return service.answer(ApiRequest("POST" if "body" in more else "GET", path, query, **more))


def error_of(answer: ApiAnswer) -> str:
    error = json.loads(answer.octets)["error"]
    assert error["code"] == answer.status
    return str(error["message"])


UPDATE = FetchThreatListUpdatesRequest(
    ClientInfo("test"),
    (ListUpdateRequest(1, 2, 1, constraints=Constraints(supported_compressions=(2,))), ListUpdateRequest(5, 2, 1)),
)


def as_each_form(message: Any, path: str, encoded: str) -> list[ApiRequest]:
    """A request of v4 in all forms: JSON, protobuf, as browsers send it, and in the path."""
    octets, plain = encode_message(message), json.dumps(message_to_json(message)).encode()
    base64 = urlsafe_b64encode(octets).decode()
    return [
        ApiRequest("POST", path, "alt=json", "application/json", plain),
        ApiRequest("POST", path, "", "application/json; charset=utf-8", plain),
        ApiRequest("POST", path, "alt=proto", PROTOBUF, octets),
        ApiRequest("POST", path, "$ct=application/x-protobuf", "", octets),
        ApiRequest("GET", path, f"$ct=application/x-protobuf&key=local&$httpMethod=POST&$req={base64}"),
        ApiRequest("GET", f"{encoded}/{base64.rstrip('=')}", "clientId=a&clientVersion=1"),
        ApiRequest("GET", f"{encoded}/{b64encode(octets).decode()}", "alt=proto"),
    ]


def read(of: Any, answer: ApiAnswer) -> Any:
    assert answer.status == 200, answer
    return (decode_message if answer.content_type == PROTOBUF else decode_json)(of, answer.octets)


def test_an_update_of_v4_in_each_form(service: SafeBrowsingService) -> None:
    forms = as_each_form(UPDATE, "/v4/threatListUpdates:fetch", "/v4/encodedUpdates")
    answers = [service.answer(request) for request in forms]
    assert [answer.content_type == PROTOBUF for answer in answers] == [False, False, True, True, True, False, True]
    assert len({read(FetchThreatListUpdatesResponse, answer) for answer in answers}) == 1
    answer = read(FetchThreatListUpdatesResponse, answers[0])
    malware, phishing = answer.list_update_responses
    assert (malware.threat_type, phishing.threat_type, answer.minimum_wait_duration) == (1, 5, 300.0)
    assert PrefixList().updated(update_of_v4(malware)).prefixes == tuple(full[:4] for full in HASHES)
    assert update_of_v4(phishing).additions == [HASHES[0][:4]]
    assert (malware.additions[0].compression_type, phishing.additions[0].compression_type) == (2, 1)


def test_an_update_of_v5_in_each_form(service: SafeBrowsingService) -> None:
    message = BatchGetHashListsRequest(("se-4b", "mw-4b"))
    base64 = urlsafe_b64encode(encode_message(message)).decode()
    batches = [
        read(BatchGetHashListsResponse, get(service, "/v5/hashLists:batchGet", query))
        for query in (
            "key=local&names=se-4b&names=mw-4b&version=&version=",
            "names=se-4b&names=mw-4b&alt=json",
            f"$req={base64}&$ct=application/x-protobuf&key=local",
        )
    ]
    assert len(set(batches)) == 1
    assert [one.name for one in batches[0].hash_lists] == ["se-4b", "mw-4b"]
    known = PrefixList().updated(update_of_v5(batches[0].hash_lists[1]))
    assert known.prefixes == tuple(full[:4] for full in HASHES)
    assert read(HashList, get(service, "/v5/hashList/mw-4b")) == batches[0].hash_lists[1]


@pytest.mark.parametrize("alphabet", [b64encode, urlsafe_b64encode])
def test_a_client_of_v5_that_is_behind_gets_a_difference(service: SafeBrowsingService, alphabet: Any) -> None:
    first = read(HashList, get(service, "/v5/hashList/mw-4b"))
    known = PrefixList().updated(update_of_v5(first))
    versions = [
        quote(alphabet(version).decode()) for version in (known.state, service.histories[2].state_of(b"", 0).octets)
    ]
    query = f"names=mw-4b&names=se-4b&version={versions[1]}&version={versions[0]}"  # in another order than the names
    (same, _) = read(BatchGetHashListsResponse, get(service, "/v5/hashLists:batchGet", query)).hash_lists
    assert same == HashList("mw-4b", known.state, partial_update=True, minimum_wait_duration=300.0)
    service.lists[1] = PublishedList(b"".join(HASHES[5:]))
    service.histories[1].add(service.lists[1].prefixes())
    (behind, _) = read(BatchGetHashListsResponse, get(service, "/v5/hashLists:batchGet", query)).hash_lists
    assert len(encode_message(behind)) < 120
    assert known.updated(update_of_v5(behind)).prefixes == tuple(full[:4] for full in HASHES[5:])


def test_limits_of_clients_are_kept(service: SafeBrowsingService) -> None:
    known, waits = PrefixList(), []
    while len(waits) < 3:
        query = "sizeConstraints.maxUpdateEntries=1500&version=" + quote(b64encode(known.state).decode())
        sent = read(HashList, get(service, "/v5/hashList/mw-4b", query))
        update = update_of_v5(sent)
        assert len(update.additions) <= 1024
        known = known.updated(update)
        waits.append(sent.minimum_wait_duration)
    assert waits == [None, None, 300.0]  # at once, until it has all
    assert len(known.prefixes) == 3000
    sizes = SizeConstraints(max_database_entries=1 << 10)
    base64 = urlsafe_b64encode(encode_message(BatchGetHashListsRequest(("mw-4b",), size_constraints=sizes))).decode()
    (small,) = read(BatchGetHashListsResponse, get(service, "/v5/hashLists:batchGet", f"$req={base64}")).hash_lists
    assert len(update_of_v5(small).additions) == 1024
    small = read(HashList, get(service, "/v5/hashList/mw-4b", "sizeConstraints.maxDatabaseEntries=1024"))
    assert len(update_of_v5(small).additions) == 1024
    limited = FetchThreatListUpdatesRequest(
        list_update_requests=(ListUpdateRequest(1, 6, 1, constraints=Constraints(max_update_entries=2048)),)
    )
    part = read(
        FetchThreatListUpdatesResponse, service.answer(as_each_form(limited, "/v4/threatListUpdates:fetch", "")[2])
    )
    assert len(update_of_v4(part.list_update_responses[0]).additions) == 2048
    assert part.minimum_wait_duration is None


def test_full_hashes_of_v4_in_each_form(service: SafeBrowsingService) -> None:
    entries = (ThreatEntry(HASHES[0][:4]), ThreatEntry(HASHES[1][:6]), ThreatEntry(b"none"))
    message = FindFullHashesRequest(ClientInfo("test"), ThreatInfo((1, 5), (2,), entries, (1,)))
    forms = as_each_form(message, "/v4/fullHashes:find", "/v4/encodedFullHashes")
    answers = [service.answer(request) for request in forms]
    assert len({read(FindFullHashesResponse, answer) for answer in answers}) == 1
    found = read(FindFullHashesResponse, answers[0])
    assert [(match.threat_type, match.threat.hash) for match in found.matches] == [
        (1, HASHES[0]),
        (1, HASHES[1]),
        (5, HASHES[0]),
    ]
    assert found.negative_cache_duration == found.matches[0].cache_duration == 300.0
    assert sorted(answers[0].prefixes) == sorted([HASHES[0][:4].hex(), HASHES[1][:6].hex(), b"none".hex()])
    assert b'"threatEntryMetadata": {}' in answers[0].octets  # gglsbl needs it


def test_full_hashes_of_v5(service: SafeBrowsingService) -> None:
    asked = "&".join(f"hashPrefixes={quote(b64encode(full[:4]).decode())}" for full in HASHES[:2])
    answer = get(service, "/v5/hashes:search", asked + "&hashPrefixes=bm9uZQ")
    found = read(SearchHashesResponse, answer)
    assert [(one.full_hash, [detail.threat_type for detail in one.full_hash_details]) for one in found.full_hashes] == [
        (HASHES[0], [1, 2]),
        (HASHES[1], [1]),
    ]
    assert found.cache_duration == 300.0
    nothing = read(SearchHashesResponse, get(service, "/v5/hashes:search", "hashPrefixes=bm9uZQ%3D%3D&alt=json"))
    assert nothing == SearchHashesResponse(cache_duration=300.0)


def test_lists_of_lists(service: SafeBrowsingService) -> None:
    assert len(json.loads(get(service, "/v4/threatLists").octets)["threatLists"]) == 4
    first = read(ListHashListsResponse, get(service, "/v5/hashLists", "pageSize=3"))
    rest = read(ListHashListsResponse, get(service, "/v5/hashLists", f"pageSize=3&pageToken={first.next_page_token}"))
    assert [one.name for one in (*first.hash_lists, *rest.hash_lists)] == ["mw-4b", "se-4b", "uws-4b", "pha-4b"]
    assert rest.next_page_token == ""


@each_row(
    ("path", "query", "status", "why"),
    [
        ("/", "", 404, "no such method"),
        ("/v4/threatLists/x", "", 404, "no such method"),
        ("/v5/hashList", "", 404, "no such method"),
        ("/v5/hashList/gc-32b", "", 404, "no list 'gc-32b'; there are mw-4b"),
        ("/v4/threatMatches:find", "", 404, "no such method"),
        ("/v5/hashLists:batchGet", "", 400, "the names of lists"),
        ("/v5/hashLists:batchGet", "names=mw-4b&names=mw-4b", 400, "each once"),
        ("/v5/hashLists:batchGet", "$req=***", 400, "base64"),
        ("/v5/hashLists:batchGet", "$req=gA", 400, "protobuf"),
        ("/v5/hashList/mw-4b", "sizeConstraints.maxUpdateEntries=1000", 400, "at least 1024"),
        ("/v5/hashList/mw-4b", "sizeConstraints.maxUpdateEntries=-1", 400, "cannot be read"),
        ("/v5/hashLists", f"pageToken={'9' * 5000}", 400, "cannot be read"),
        ("/v5/hashes:search", "", 400, "1 to 1000 prefixes"),
        ("/v5/hashes:search", "hashPrefixes=YWFhYWE%3D", 400, "4 to 4 octets"),
        ("/v4/fullHashes:find", "", 400, "JSON"),
        ("/v4/encodedFullHashes/", "", 404, "no such method"),
        ("/v4/encodedFullHashes/gA", "", 400, "protobuf"),
    ],
)
def test_what_is_no_request(service: SafeBrowsingService, path: str, query: str, status: int, why: str) -> None:
    answer = get(service, path, query)
    assert answer.status == status
    assert why in error_of(answer)
    assert json.loads(answer.octets)["error"]["status"] == {400: "INVALID_ARGUMENT", 404: "NOT_FOUND"}[status]


def test_queries_that_ask_for_too_much(service: SafeBrowsingService) -> None:
    for number, why in ((1500, "1 to 1000 prefixes"), (9000, "too many fields")):
        answer = get(service, "/v5/hashes:search", "&".join(f"hashPrefixes={n:04}AA" for n in range(number)))
        assert (answer.status, why in error_of(answer)) == (400, True)


def test_bodies_that_are_no_request(service: SafeBrowsingService) -> None:
    many = FindFullHashesRequest(
        threat_info=ThreatInfo(threat_entries=(*(ThreatEntry(b"%04d" % n) for n in range(501)),))
    )
    negative = FetchThreatListUpdatesRequest(
        list_update_requests=(ListUpdateRequest(1, 6, 1, constraints=Constraints(max_update_entries=-1)),)
    )
    lists = FetchThreatListUpdatesRequest(list_update_requests=(ListUpdateRequest(1, 6, 1),) * 17)
    for path, message, why in (
        ("/v4/fullHashes:find", many, "1 to 500"),
        ("/v4/threatListUpdates:fetch", negative, "below 0"),
        ("/v4/threatListUpdates:fetch", lists, "more than 16 lists"),
    ):
        answer = get(service, path, content_type=PROTOBUF, body=encode_message(message))
        assert why in error_of(answer)
    assert service.answer(ApiRequest("PUT", "/v4/threatLists", "")).status == 405


def test_what_is_named_again_and_again_is_looked_for_once(
    service: SafeBrowsingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body of 128 KiB names as many threat types; each would be looked for with each of 500 prefixes."""
    calls = list[object]()
    find, update_from = PublishedList.hashes_with, ListHistory.update_from
    monkeypatch.setattr(PublishedList, "hashes_with", lambda *own: (calls.append(own), find(*own))[1])
    monkeypatch.setattr(ListHistory, "update_from", lambda *own: (calls.append(own), update_from(*own))[1])
    prefixes = tuple(ThreatEntry(full[:4]) for full in HASHES[:3])
    asked = FindFullHashesRequest(threat_info=ThreatInfo((1,) * 1000 + tuple(range(100, 1100)), (1,), prefixes, (1,)))
    answer = get(service, "/v4/fullHashes:find", content_type=PROTOBUF, body=encode_message(asked))
    assert len(read(FindFullHashesResponse, answer).matches) == len(calls) == 3
    platforms = tuple(ListUpdateRequest(1, platform, 1) for platform in range(1, 9))
    lists = FetchThreatListUpdatesRequest(list_update_requests=platforms)
    answer = get(service, "/v4/threatListUpdates:fetch", content_type=PROTOBUF, body=encode_message(lists))
    made = read(FetchThreatListUpdatesResponse, answer).list_update_responses
    assert [own.platform_type for own in made] == list(range(1, 9))
    assert len(calls) == 4


def test_two_versions_of_one_list_are_an_error(service: SafeBrowsingService) -> None:
    version = quote(b64encode(service.histories[1].state_of(b"", 0).octets).decode())
    answer = get(service, "/v5/hashLists:batchGet", f"names=mw-4b&version={version}&version={version}")
    assert (answer.status, error_of(answer)) == (400, "two versions of one list")


def test_lists_that_nobody_publishes_are_left_out_of_v4(service: SafeBrowsingService) -> None:
    other = FetchThreatListUpdatesRequest(list_update_requests=(ListUpdateRequest(9, 2, 1), ListUpdateRequest(1, 2, 2)))
    answer = read(
        FetchThreatListUpdatesResponse, service.answer(as_each_form(other, "/v4/threatListUpdates:fetch", "")[2])
    )
    assert answer.list_update_responses == ()


@each_row(
    ("status", "code"),
    [
        *((400, "INVALID_ARGUMENT"), (403, "PERMISSION_DENIED"), (404, "NOT_FOUND"), (405, "INVALID_ARGUMENT")),
        *((413, "INVALID_ARGUMENT"), (429, "RESOURCE_EXHAUSTED"), (503, "UNAVAILABLE"), (500, "UNKNOWN")),
    ],
)
def test_an_error_is_written_as_by_google(status: int, code: str) -> None:
    answer = error_answer(status, "why")
    assert answer.status == status
    assert json.loads(answer.octets) == {"error": {"code": status, "message": "why", "status": code}}
