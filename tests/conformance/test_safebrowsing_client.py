"""Other clients' vectors of what servers say of full hashes: how it is read and remembered, and what is sent."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from conformance.vectors import Row, needs
from conformance.vectors import rows as document
from hushlist.core.errors import FetchError, MessageError
from hushlist.extensions.safe_browsing import prefix_list
from hushlist.extensions.safe_browsing.confirmations import Confirmations, FullHashes, Question, Threat
from hushlist.extensions.safe_browsing.prefix_service import (
    full_hashes_of_v4,
    full_hashes_of_v5,
    search_hashes,
    updated,
)
from hushlist.extensions.safe_browsing.threat_lists import SafeBrowsing, ThreatList
from hushlist.extensions.safe_browsing.v4_messages import (
    FetchThreatListUpdatesRequest,
    FindFullHashesRequest,
    FindFullHashesResponse,
)
from hushlist.extensions.safe_browsing.v5_messages import SearchHashesResponse
from hushlist.extensions.safe_browsing.wire_format import decode_message, message_of_json
from support.prefix_server import PrefixServer

FOLDER = "safebrowsing_api/"


def rows(name: str) -> list[Row]:
    """The rows of a file, which also says where they are from."""
    found: Any = document(FOLDER + name)
    return list(found["rows"]) if found else []


SERVICE = SafeBrowsing(4, "https://lists.example", ("MALWARE",))


def of_kind(*kinds: str) -> Any:
    files = ("v4_cache_google_go", "v4_fullhashes_chromium", "v4_fullhashes_firefox", "v5_search_responses_chromium")
    found = [row for name in files for row in rows(name) if row["kind"] in kinds]
    return pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in found])


class Clock:
    """Tells the time that it is told, and gives the answers that it is given."""

    def __init__(self) -> None:
        self.now, self.answer = 1_000_000.0, FullHashes({}, 0.0)
        self.questions = 0

    def __call__(self, _: SafeBrowsing, prefixes: Collection[bytes]) -> FullHashes:
        self.questions += 1
        return self.answer


def remembering(age: float, threats: dict[bytes, tuple[Threat, ...]], lasts: float, prefix: bytes) -> Confirmations:
    """What a client knows that was told something so many seconds ago."""
    clock = Clock()
    known = Confirmations(clock, lambda: clock.now)
    clock.answer = FullHashes(threats, lasts)
    known.ask([Question(SERVICE, prefix, prefix)])
    clock.now += age
    return known


def verdict_of(known: Confirmations, full_hash: bytes, prefix: bytes) -> str:
    verdict = known.verdict(Question(SERVICE, prefix, full_hash))
    return "miss" if verdict is None else "positive_hit" if verdict.threats else "negative_hit"


@needs(FOLDER + "v4_cache_google_go")
@of_kind("cache_lookup")
def test_what_google_s_go_client_finds_in_its_cache(row: Row) -> None:
    """Lifetimes are from now; the answer is taken to be an hour old."""
    age = 3600.0
    for lookup in row["lookups"]:
        full_hash = lookup["hash_ascii"].encode()
        prefix = full_hash[:4]
        own = row["positive"].get(lookup["hash_ascii"], [])
        threats = tuple(Threat("MALWARE", entry["expires_in_s"] + age) for entry in own)
        negative = row["negative"].get(prefix.decode(), -age)
        known = remembering(age, {full_hash: threats} if threats else {}, negative + age, prefix)
        assert verdict_of(known, full_hash, prefix) == lookup["expect"], lookup


@needs(FOLDER + "v4_cache_google_go")
@of_kind("cache_update")
def test_what_an_answer_leaves_in_the_cache(row: Row) -> None:
    if "requested_prefixes_ascii" not in row:  # Chromium's: no negative duration, so that nothing stays
        known = remembering(6.0, {}, 0.0, b"aaaa")
        assert verdict_of(known, b"a" * 32, b"aaaa") == "miss"
        return
    (prefix,) = (text.encode() for text in row["requested_prefixes_ascii"])
    threats = {
        match["full_hash_ascii"].encode(): (Threat("MALWARE", match["cache_duration_s"]),) for match in row["matches"]
    }
    for age, is_known in ((row["negative_cache_duration_s"] - 1, True), (row["negative_cache_duration_s"], False)):
        known = remembering(age, threats, row["negative_cache_duration_s"], prefix)
        for full_hash in threats:
            assert verdict_of(known, full_hash, prefix) == ("positive_hit" if is_known else "miss")
        assert verdict_of(known, prefix * 8, prefix) == ("negative_hit" if is_known else "miss")


@needs(FOLDER + "v4_fullhashes_chromium")
@of_kind("cache_decision")
def test_what_a_cache_decides(row: Row) -> None:
    age, prefix = 3600.0, b"exam"
    full_hash = b"example" + bytes(25)
    if "state" in row:  # Firefox's, in words
        is_positive = row["state"].startswith("positive")
        offset = 300.0 if "not expired" in row["state"] else -300.0
        threats = {full_hash: (Threat("MALWARE", offset + age),)} if is_positive else {}
        found = verdict_of(
            remembering(age, threats, 300.0 + age if is_positive else offset + age, prefix), full_hash, prefix
        )
        assert (found == "miss") is row["expect"]["request_needed"]
        assert (found == "positive_hit") is row["expect"]["confirmed"]
        return
    positive, negative = row["positive_entry_expiry_offset_s"], row["negative_expiry_offset_s"]
    threats = {} if positive is None else {full_hash: (Threat("MALWARE", positive + age),)}
    if negative is None:
        known = Confirmations(Clock(), lambda: 0.0)
    else:
        known = remembering(age, threats, negative + age, prefix)
    verdict = {"miss": None, "positive_hit": "UNSAFE", "negative_hit": "SAFE"}[verdict_of(known, full_hash, prefix)]
    assert verdict == row["expect"]["verdict"]
    assert (verdict is None) is row["expect"]["request_needed"]


@needs(FOLDER + "v4_fullhashes_firefox")
@of_kind("find_full_hashes_parse", "find_full_hashes_json")
def test_an_answer_of_v4(row: Row) -> None:
    """Deviation: of an answer with a match of another type of entries, the rest is used; Chromium uses none of it."""
    if "response_json" in row and "response_proto_hex" not in row:
        answer = message_of_json(FindFullHashesResponse, row["response_json"])
    else:
        answer = decode_message(FindFullHashesResponse, bytes.fromhex(row["response_proto_hex"]))
    found, expect = full_hashes_of_v4(answer), row["expect"]
    if "negative_cache_s" in expect:
        assert int(found.lasts) == expect["negative_cache_s"]
    wait = expect.get("min_wait_s", expect.get("next_request_not_before_s"))
    assert wait is None or int(found.wait) == wait
    kept = {own["full_hash_hex"]: own["positive_cache_s"] for own in expect.get("matches", ())}
    have = {full_hash.hex(): int(threat.lasts) for full_hash, (threat, *_) in found.threats.items()}
    assert have == kept  # rows of Chromium's have no whole hashes, which are not enforced


@needs(FOLDER + "v5_search_responses_chromium")
@of_kind("search_verdict")
def test_a_verdict_of_v5(row: Row) -> None:
    answer = full_hashes_of_v5(decode_message(SearchHashesResponse, bytes.fromhex(row["response_proto_hex"])))
    clock = Clock()
    clock.answer = answer
    known = Confirmations(clock, lambda: clock.now)
    service = SafeBrowsing(5, "https://lists.example", ("mw-4b",))
    kinds = set[str]()
    for asked in row["asked"]:
        full_hash, prefix = bytes.fromhex(asked["full_hash_hex"]), bytes.fromhex(asked["prefix_hex"])
        question = Question(service, prefix, full_hash)
        known.ask([question])
        verdict = known.verdict(question)
        assert verdict is not None
        kinds |= {threat.kind for threat in verdict.threats if threat.kind in asked["local_list_threats"]}
    expect = row["expect_verdict"]
    if expect in ("SAFE", "SUSPICIOUS_SITE"):  # the latter is of a list of Chromium's alone: a canary
        assert kinds == set()
    else:
        assert expect in kinds


@needs(FOLDER + "v5_search_responses_chromium")
@of_kind("search_parse")
def test_an_answer_of_v5_is_used_or_not(row: Row) -> None:
    if "transport" in row or row["http_status"] != 200:
        pytest.skip("of the transport: see test_prefix_service")

    def read() -> FullHashes:
        return full_hashes_of_v5(decode_message(SearchHashesResponse, bytes.fromhex(row["response_proto_hex"])))

    if not row["expect"]["ok"]:
        with pytest.raises((FetchError, MessageError)):
            read()
        return
    clock = Clock()
    clock.answer = read()
    known = Confirmations(clock, lambda: clock.now)
    (prefix,) = map(bytes.fromhex, row["requested_prefixes_hex"])
    service = SafeBrowsing(5, "https://lists.example", ("mw-4b",))
    wanted = {own["full_hash_hex"]: own["details"] for own in row["expect"]["full_hashes"]}
    for full_hash in clock.answer.threats:
        known.ask([Question(service, prefix, full_hash)])
        verdict = known.verdict(Question(service, prefix, full_hash))
        details = wanted.get(full_hash.hex(), ())
        enforced = [detail for detail in details if set(detail["attributes"]) <= {2}]
        assert verdict is not None
        assert len(verdict.threats) == len(enforced)


# -- what is sent ------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrefixServer]:
    for name in ("https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with PrefixServer(b"bad.example/") as server:
        yield server


@needs(FOLDER + "observed_requests")
def test_what_is_sent_has_the_fields_that_firefox_sends(server: PrefixServer) -> None:
    """Of v4, each field but the platform and the state of lists in questions; of v5, the same fields of the query."""
    observed = [row for row in rows("observed_requests") if row["client"].startswith("firefox-esr-153")]
    v5 = SafeBrowsing(5, server.url, ("mw-4b",), "local")
    (found,) = updated({ThreatList(v5, "mw-4b"): prefix_list.PrefixList()}).values()
    assert not isinstance(found, FetchError)
    known, wait = found
    updated({ThreatList(v5, "mw-4b"): known})
    search_hashes(v5, [b"\xdbvc'"])
    (_, path, query, _), (_, search_path, search_query, _) = server.requests[1:]
    targets = [row["target"].partition("?") for row in observed]
    fields = {target: {part.partition("=")[0] for part in rest.split("&")} for target, _, rest in targets}
    assert wait == 1800.0
    assert set(query) - {"alt"} == fields[path] == {"key", "names", "version"}
    assert set(search_query) - {"alt"} == fields[search_path] == {"key", "hashPrefixes"}
    assert b64decode(search_query["hashPrefixes"][0], altchars=b"-_") == b"\xdbvc'"
    server.requests.clear()
    v4 = SafeBrowsing(4, server.url, ("MALWARE/LINUX/URL",), "local")
    updated({ThreatList(v4, "MALWARE/LINUX/URL"): prefix_list.PrefixList()})
    search_hashes(v4, [b"\xdbvc'"])
    (_, path, _, body), (_, search_path, _, search_body) = server.requests
    theirs = {
        row["target"].partition("?")[0]: bytes.fromhex(row["req_proto_hex"])
        for row in observed
        if row["target"].startswith("/v4")
    }
    ours = decode_message(FetchThreatListUpdatesRequest, body)
    seen = decode_message(FetchThreatListUpdatesRequest, theirs[path])
    (asked,), same = ours.list_update_requests, {own.threat_type: own for own in seen.list_update_requests}[1]
    assert (asked.platform_type, asked.threat_entry_type) == (same.platform_type, same.threat_entry_type)
    info = decode_message(FindFullHashesRequest, search_body).threat_info
    their_info = decode_message(FindFullHashesRequest, theirs[search_path]).threat_info
    assert info is not None
    assert their_info is not None
    assert info.platform_types == their_info.platform_types
    assert info.threat_entry_types == their_info.threat_entry_types
    assert info.threat_entries[0] in their_info.threat_entries
