"""Other implementations' vectors of the Safe Browsing protocols: Rice coding, messages, updates, checksums."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from hushlist.core.errors import MessageError
from hushlist.extensions.safe_browsing import list_updates, v4_messages, v5_messages
from hushlist.extensions.safe_browsing.list_updates import indices_of_v4, prefixes_of_v4, update_of_v4, update_of_v5
from hushlist.extensions.safe_browsing.prefix_list import PrefixList, PrefixUpdate, checksum_of
from hushlist.extensions.safe_browsing.rice_coding import (
    V4_PARAMETERS,
    V5_PARAMETERS,
    RiceCoded,
    rice_decode,
    rice_encode,
)
from hushlist.extensions.safe_browsing.v4_messages import (
    FetchThreatListUpdatesRequest,
    FindFullHashesRequest,
    FindFullHashesResponse,
    ListUpdateResponse,
    RawHashes,
    RiceDeltaEncoding,
    ThreatEntrySet,
)
from hushlist.extensions.safe_browsing.v5_messages import (
    BatchGetHashListsRequest,
    BatchGetHashListsResponse,
    HashList,
    SearchHashesRequest,
    SearchHashesResponse,
)
from hushlist.extensions.safe_browsing.wire_format import (
    decode_message,
    encode_message,
    message_of_json,
    message_to_json,
    octets_of_base64,
)
from shared import SHARED
from unit.rows import each_row

FOLDER = SHARED / "vectors" / "safebrowsing_api"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no vectors in {FOLDER}")


#: about readers of single bits and of one value more, a list's form in memory, and the transport: nothing is read here
NOT_HERE = {
    *("go-bitreader", "cr4-next-no-entries", "go-pattern", "go-dblookup", "go-dbinit-sha-invalid-list"),
    *("cr5-p-net", "cr5-p-retriable", "cr5-p-http"),
}


def rows(*names: str) -> Iterator[Any]:
    """The rows of files."""
    for name in names:
        path = FOLDER / f"{name}.json"
        if path.is_file():
            found = json.loads(path.read_text(encoding="utf-8"))["rows"]
            yield from (row for row in found if row["id"] not in NOT_HERE and row.get("kind") != "list_valid")


def all_hex(texts: list[str] | None) -> list[bytes]:
    return [bytes.fromhex(text) for text in texts or ()]


# -- Rice coding -------------------------------------------------------------------------------------------------------

#: Firefox's decoder goes on from 0 beyond 32 bits, Chromium's ends; this one ends
WRAPS = {"ff4-10"}


@each_row("row", rows("rice_v4_chromium", "rice_v4_firefox", "rice_v4_google_go", "rice_v5_chromium", "rice_v5_docs"))
def test_rice_coding(row: Any) -> None:
    bits, expect = row["width_bits"], row["expect"]
    parameters = range(1, 40) if row["version"] == "v4" else V5_PARAMETERS[bits]
    first, data = int(row.get("first_value_hex", "0"), 16), bytes.fromhex(row["encoded_data_hex"])
    coded = RiceCoded(first, row["rice_parameter"], row["entries_count"], data)
    if not expect["ok"] or row["id"] in WRAPS:
        with pytest.raises(MessageError, match="Rice coding"):
            rice_decode(coded, bits, parameters)
        return
    if row.get("kind") == "deltas":  # their sum may have more than 32 bits
        numbers = list(rice_decode(coded, 64, parameters))
        assert [after - before for before, after in pairwise(numbers)] == expect["deltas"]
        return
    numbers = list(rice_decode(coded, bits, parameters))
    assert numbers == [int(number) for number in expect["values_dec"]]
    assert list(rice_decode(rice_encode(numbers, parameters), bits, parameters)) == numbers


@each_row("row", rows("rice_v4_docs"))
def test_the_example_of_the_documentation(row: Any) -> None:
    coded = RiceCoded(row["first_value"], 2, row["entries_count"], bytes.fromhex(row["computed_stream_k2_hex"]))
    assert list(rice_decode(coded)) == row["expect"]["values_dec"]
    assert rice_encode(row["expect"]["values_dec"], V4_PARAMETERS) == coded


@each_row("row", rows("rice_v5_hashlist_chromium"))
def test_rice_coding_in_a_list_of_v5(row: Any) -> None:
    hash_list = decode_message(HashList, bytes.fromhex(row["hash_list_proto_hex"]))
    assert message_of_json(HashList, row["hash_list_json"]) == hash_list
    if not row["expect"]["ok"]:
        with pytest.raises(MessageError, match="Rice coding"):
            update_of_v5(hash_list)
        return
    update, expect = update_of_v5(hash_list), row["expect"]
    if hash_list.compressed_removals is not None:
        assert list(update.removals) == expect["indices"]
    else:
        assert [prefix.hex() for prefix in update.additions] == expect["prefixes_hex_in_decode_order"]


# -- messages ----------------------------------------------------------------------------------------------------------


#: enums and fields that nobody here asks for, or reads
_UNUSED = {"LikelySafeType", "likely_safe_types", "region", "client_states"}


@pytest.mark.parametrize("version", [4, 5])
def test_every_field_has_its_number(version: int) -> None:
    described = json.loads((FOLDER / f"proto_fields_v{version}.json").read_text(encoding="utf-8"))["rows"]
    module = v4_messages if version == 4 else v5_messages
    checked = 0
    for row in described:
        name = row.get("message", row.get("enum", "")).split(".")[-1]
        if name.startswith("FindThreatMatches") or not _UNUSED.isdisjoint((name, row.get("field"))):  # or whole URLs
            continue
        of = getattr(module, name)
        if "value" in row:
            assert of[row["value"]] == row["number"]
        else:
            own = next(
                entry.metadata["wire"]
                for entry in vars(of)["__dataclass_fields__"].values()
                if entry.name == row["field"]
            )
            kind = {"google.protobuf.Duration": "duration"}.get(row["refers_to"], row["type"])
            assert (own.number, own.kind.value, own.is_repeated) == (row["number"], kind, row["repeated"])
        checked += 1
    assert checked > 40


@each_row("row", rows("constructed_wire_cases"))
def test_wire_format(row: Any) -> None:
    of = {"HashList": HashList, "SearchHashesResponse": SearchHashesResponse}[row["message"]]
    message = decode_message(of, bytes.fromhex(row["proto_hex"]))
    if "json" in row:
        assert message_of_json(of, row["json"]) == message
        assert message_to_json(message) == row["json"]
    assert decode_message(of, encode_message(message)) == message
    expect = row["expect"]
    if isinstance(message, SearchHashesResponse):
        assert list(message.full_hashes[0].full_hash_details[0].attributes) == expect["attributes"]
        return
    update = update_of_v5(message)
    assert update.is_partial == expect["partial_update"]
    assert list(update.removals) == expect.get("removal_indices", [])
    assert [one.hex() for one in update.additions] == expect.get("additions", expect.get("additions_hex", []))
    assert message.minimum_wait_duration == expect.get("minimum_wait_seconds")


@each_row("row", rows("requests_chromium"))
def test_requests_of_chromium(row: Any) -> None:
    octets = octets_of_base64(row["req_param_base64url"])
    assert octets.hex() == row["proto_hex"]
    decoded = row["decoded"]
    match row["message"]:
        case "BatchGetHashListsRequest":
            batch = decode_message(BatchGetHashListsRequest, octets)
            assert (list(batch.names), [v.decode() for v in batch.version]) == (
                decoded["names"],
                decoded["version_ascii"],
            )
            assert encode_message(batch) == octets
        case "SearchHashesRequest":
            search = decode_message(SearchHashesRequest, octets)
            assert [prefix.hex() for prefix in search.hash_prefixes] == decoded["hash_prefixes_hex"]
        case _:
            fetch = decode_message(FetchThreatListUpdatesRequest, octets)
            (wanted,) = fetch.list_update_requests
            assert wanted.state.decode() == decoded["state_ascii"]
            assert (wanted.threat_type, wanted.platform_type, wanted.threat_entry_type) == (1, 2, 1)
            assert wanted.constraints is not None
            assert list(wanted.constraints.supported_compressions) == decoded["supported_compressions"]


@each_row("row", rows("observed_requests"))
def test_requests_of_real_clients(row: Any) -> None:
    of: Any = FindFullHashesRequest if "fullHashes" in row["target"] else FetchThreatListUpdatesRequest
    if not row["body"] and "req_proto_hex" not in row:  # its fields are in the query
        prefixes = parse_qs(urlsplit(row["target"]).query).get("hashPrefixes", [])
        assert all(len(octets_of_base64(prefix)) == 4 for prefix in prefixes)
        return
    if row["body"]:
        message = message_of_json(of, row["body"])
        assert message_of_json(of, message_to_json(message)) == message
    else:
        message = decode_message(of, bytes.fromhex(row["req_proto_hex"]))
        assert message.client.client_id == "navclient-auto-ffox"
    assert decode_message(of, encode_message(message)) == message


@each_row(
    "row",
    [
        row
        for row in rows("v4_fullhashes_chromium", "v4_fullhashes_firefox", "v5_search_responses_chromium")
        if "response_proto_hex" in row  # the others are about caches
    ],
)
def test_answers_about_full_hashes_read_the_same_in_both_formats(row: Any) -> None:
    of: Any = SearchHashesResponse if row["id"].startswith("cr5") else FindFullHashesResponse
    octets = bytes.fromhex(row["response_proto_hex"])
    if row["expect"].get("error") == "parse_error" if "expect" in row else False:
        with pytest.raises(MessageError, match="protobuf"):
            decode_message(of, octets)
        return
    message = decode_message(of, octets)
    if "response_json" in row:
        assert message_of_json(of, row["response_json"]) == message
    assert decode_message(of, encode_message(message)) == message
    assert message_of_json(of, message_to_json(message)) == message


@each_row("row", rows("v5_batchget_responses_chromium"))
def test_batches(row: Any) -> None:
    octets, expect = bytes.fromhex(row["response_proto_hex"]), row["expect"]
    if expect.get("error") == "parse_error" and octets:
        with pytest.raises(MessageError, match="protobuf"):
            decode_message(BatchGetHashListsResponse, octets)
        return
    batch = decode_message(BatchGetHashListsResponse, octets)
    if "wait_seconds_per_list" in row:
        assert [one.minimum_wait_duration for one in batch.hash_lists] == row["wait_seconds_per_list"]
    if expect["ok"] and "lists" in expect:
        named = [(one.name, one.version.decode(), one.partial_update) for one in batch.hash_lists]
        assert named == [(one["name"], one["version_ascii"], one["partial_update"]) for one in expect["lists"]]


# -- lists and updates -------------------------------------------------------------------------------------------------


@each_row("row", rows("v4_threat_entry_sets_google_go"))
def test_sets_of_entries(row: Any) -> None:
    sets = [decode_message(ThreatEntrySet, octets) for octets in all_hex(row["input_proto_hex"])]
    assert [encode_message(one) for one in sets] == all_hex(row["input_proto_hex"])
    if row["kind"] == "threat_entry_set_to_indices":
        assert [index for one in sets for index in indices_of_v4(one)] == row["expect_indices"]
        return
    found = sorted(prefix for one in sets for prefix in prefixes_of_v4(one))
    assert [prefix.hex() for prefix in found] == row["expect_prefixes_hex_sorted"]


@each_row("row", rows("v4_updates_chromium", "v4_checksums_web2all"))
def test_updates_of_v4(row: Any) -> None:
    match row.get("kind"):
        case "additions_size":
            raw = RawHashes(row["prefix_size"], bytes.fromhex(row["raw_hashes_hex"]))
            with pytest.raises(MessageError, match="1 octets of prefixes of 5"):
                prefixes_of_v4(ThreatEntrySet(1, raw_hashes=raw))
        case "additions_rice":
            with pytest.raises(MessageError, match="Rice coding"):
                prefixes_of_v4(ThreatEntrySet(2, rice_hashes=RiceDeltaEncoding(num_entries=-1)))
        case "prefix_lookup" | "list_checksum":
            check_list(row)
        case _:
            check_update(row)


def check_update(row: Any) -> None:
    old = PrefixList(tuple(all_hex(row["old_prefixes_hex_sorted"])), b"before")
    checksum = bytes.fromhex(row["checksum_sha256_hex"]) if row["checksum_sha256_hex"] else None
    additions, is_partial = all_hex(row["additions_hex"]), row["response_type"] == "PARTIAL_UPDATE"
    update = PrefixUpdate(b"after", additions, row["removal_indices"] or (), is_partial, checksum)
    if not row["expect"]["ok"]:
        error = {
            "additions_has_existing_prefix": "in the list already",
            "removals_index_too_large": "outside of the list",
            "checksum_mismatch": "checksum",
        }[row["expect"]["error"]]
        with pytest.raises(MessageError, match=error):
            old.updated(update)
        return
    for is_rice in (False, True):  # the way through a message changes nothing
        sent = list_updates.update_to_v4(update, v4_messages.ThreatListDescriptor(1, 6, 1), is_rice)
        read = update_of_v4(decode_message(ListUpdateResponse, encode_message(sent)))
        assert [one.hex() for one in old.updated(read).prefixes] == row["expect"]["prefixes_hex_sorted"]


@each_row("row", rows("v4_lists_google_go"))
def test_lists(row: Any) -> None:
    check_list(row)


def check_list(row: Any) -> None:
    match row["kind"]:
        case "list_checksum":
            expected = octets_of_base64(row["expect_sha256_base64"])
            assert checksum_of(sorted(all_hex(row["prefixes_hex"]))) == expected
        case _:
            known = PrefixList(tuple(sorted(all_hex(row["prefixes_hex"]))))
            for query in row["queries"]:
                fitting = filter(bytes.fromhex(query["hash_hex"]).startswith, known.prefixes)
                assert max(map(len, fitting), default=0) == query["expect_match_length"]


@each_row("row", rows("v5_updates_chromium"))
def test_updates_of_v5(row: Any) -> None:
    message = decode_message(HashList, bytes.fromhex(row["hash_list_proto_hex"]))
    if "hash_list_json" in row:
        assert message_of_json(HashList, row["hash_list_json"]) == message
    stored = bytes.fromhex(row.get("stored_checksum_before_hex") or "")
    old = PrefixList(tuple(all_hex(row["old_prefixes_hex_sorted"])), b"v1", stored)
    if not row["expect"]["ok"]:
        error = {
            "additions_has_existing_prefix": "in the list already",
            "removals_index_too_large": "outside of the list",
            "checksum_mismatch": "checksum",
        }.get(row["expect"]["error"], "Rice coding")
        with pytest.raises(MessageError, match=error):
            old.updated(update_of_v5(message))
        return
    new = old.updated(update_of_v5(message))
    assert [one.hex() for one in new.prefixes] == row["expect"]["prefixes_hex_sorted"]
    assert new.state == row["new_version"].encode()
