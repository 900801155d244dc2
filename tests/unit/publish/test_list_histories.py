"""Long random histories of a list, and servers that lose, repeat, reorder, truncate and lie: the client stays right."""

from __future__ import annotations

import random
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hushlist.errors import MessageError
from hushlist.publish.list_history import ListHistory
from hushlist.publish.safebrowsing_service import ApiRequest, SafeBrowsingService
from hushlist.safebrowsing.list_updates import update_of_v4, update_of_v5
from hushlist.safebrowsing.prefix_list import PrefixList, PrefixUpdate
from hushlist.safebrowsing.v4_messages import (
    Constraints,
    FetchThreatListUpdatesRequest,
    FetchThreatListUpdatesResponse,
    ListUpdateRequest,
)
from hushlist.safebrowsing.v5_messages import HashList
from hushlist.safebrowsing.v5_messages import RiceDeltaEncoded32Bit as Coded
from hushlist.safebrowsing.wire_format import decode_message, encode_message


class Client:
    """One that keeps its last good list, and begins anew after an answer that it cannot use."""

    def __init__(self, service: SafeBrowsingService, version: int, limit: int = 0, compression: int = 2) -> None:
        self._service, self._version, self._limit, self._compression = service, version, limit, compression
        self.list = PrefixList()
        self._state = b""
        self.is_complete = False

    def answer(self) -> bytes:
        """What the server answers it now."""
        if self._version == 5:
            query = f"version={quote(urlsafe_b64encode(self._state).decode())}"
            query += f"&sizeConstraints.maxUpdateEntries={self._limit}" if self._limit else ""
            answer = self._service.answer(ApiRequest("GET", "/v5/hashList/mw-4b", query))
        else:
            constraints = Constraints(self._limit, supported_compressions=(self._compression,))
            wanted = ListUpdateRequest(1, 2, 1, state=self._state, constraints=constraints)
            body = encode_message(FetchThreatListUpdatesRequest(list_update_requests=(wanted,)))
            path = "/v4/threatListUpdates:fetch"
            answer = self._service.answer(ApiRequest("POST", path, "", "application/x-protobuf", body))
        assert answer.status == 200
        return answer.octets

    def take(self, octets: bytes) -> bool:
        """Use an answer; says whether it can be used."""
        known = PrefixList() if not self._state else self.list
        try:
            update, wait = self._read(octets)
            self.list = known.updated(update)
        except MessageError:
            self._state = b""  # "drop the list": ask for all of it; what is there stays in force until then
            return False
        self._state, self.is_complete = self.list.state, wait is not None
        return True

    def _read(self, octets: bytes) -> tuple[PrefixUpdate, float | None]:
        """The update in an answer, which must have a checksum, and how long to wait."""
        if self._version == 5:
            sent = decode_message(HashList, octets)
            return update_of_v5(sent), sent.minimum_wait_duration
        response = decode_message(FetchThreatListUpdatesResponse, octets)
        if not response.list_update_responses or not response.list_update_responses[0].checksum:
            raise MessageError("nothing that can be checked")
        return update_of_v4(response.list_update_responses[0]), response.minimum_wait_duration

    def fetch(self) -> PrefixList:
        """Ask until it has all."""
        for _ in range(1000):
            assert self.take(self.answer())
            if self.is_complete:
                return self.list
        raise AssertionError("it never ends")


def service_of(folder: Path) -> SafeBrowsingService:
    return SafeBrowsingService({1: ListHistory(folder / "mw-4b", 1)}, 300.0)


def changed(draw: random.Random, known: set[bytes], most: int, size: int) -> set[bytes]:
    gone = draw.sample(sorted(known), draw.randint(0, min(most, len(known)))) if known else []
    come = {draw.randbytes(4) for _ in range(draw.randint(0, most))}
    if draw.random() < 0.02:
        return {draw.randbytes(4) for _ in range(draw.randint(0, size))}
    return (known - set(gone)) | come


@pytest.mark.parametrize(
    ("versions", "size", "most"), [(2000, 60, 6), pytest.param(12, 20_000, 2000, marks=pytest.mark.slow)]
)
def test_after_every_update_the_client_has_the_server_s_list(
    tmp_path: Path, versions: int, size: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(versions)
    service = service_of(tmp_path)
    if versions > 100:  # the disk is not what is tested
        monkeypatch.setattr("hushlist.publish.list_history.replace_file", lambda *_, **__: None)
    clients = [
        Client(service, 4),
        Client(service, 4, 1024),
        Client(service, 4, 0, 1),
        Client(service, 5),
        Client(service, 5, 2048),
    ]
    known = {draw.randbytes(4) for _ in range(size)}
    for _ in range(versions):
        service.histories[1].add(sorted(known))
        for client in clients:
            if draw.random() < 0.4:
                client.fetch()
                if client.list.prefixes != tuple(sorted(known)):
                    client.fetch()  # it was on its way to an older version
                assert client.list.prefixes == tuple(sorted(known))
        known = changed(draw, known, most, size)


def damage(draw: random.Random, octets: bytes, earlier: list[bytes]) -> bytes:
    """An answer as a broken way or a hostile server may give it."""
    match draw.randrange(5):
        case 0:
            return octets[: draw.randrange(len(octets) + 1)]
        case 1:
            place = draw.randrange(len(octets))
            return octets[:place] + bytes([octets[place] ^ 1 << draw.randrange(8)]) + octets[place + 1 :]
        case 2 if earlier:
            return draw.choice(earlier)  # repeated, or out of order
        case 3:
            return draw.randbytes(draw.randrange(60))
        case _:
            return octets + draw.randbytes(draw.randrange(1, 20))


@pytest.mark.parametrize("version", [4, 5])
def test_damaged_answers_never_leave_a_wrong_list(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hushlist.publish.list_history.replace_file", lambda *_, **__: None)
    draw = random.Random(version)
    service = service_of(tmp_path)
    client = Client(service, version, compression=draw.choice((1, 2)))
    known, were, earlier, refused = {draw.randbytes(4) for _ in range(50)}, set(), list[bytes](), 0
    for _ in range(1500):
        service.histories[1].add(sorted(known))
        were.add(tuple(sorted(known)))
        octets = client.answer()
        before = client.list
        if draw.random() < 0.5:
            is_good = client.take(damage(draw, octets, earlier))
            refused += not is_good
            assert is_good or client.list == before  # the last good list stays
        earlier = [*earlier[-20:], octets]
        assert client.list.prefixes == () or client.list.prefixes in were  # a list that the server had at some time
        if draw.random() < 0.3:
            for _ in range(3):  # the first may be refused, after an answer of another time
                client.take(client.answer())
            assert client.list.prefixes == tuple(sorted(known))
        known = changed(draw, known, 5, 50)
    assert refused > 200


def bytes_of(sent: HashList, **change: Any) -> Callable[[], bytes]:
    return lambda: encode_message(replace(sent, **change))


def test_hostile_answers_are_refused(tmp_path: Path) -> None:
    service = service_of(tmp_path)
    service.histories[1].add([b"aaaa", b"bbbb"])
    client = Client(service, 5)
    good = client.fetch()
    sent = HashList(name="mw-4b", version=b"2", partial_update=True, sha256_checksum=good.checksum)
    for make in (
        bytes_of(sent, additions_four_bytes=Coded(0, 30, (1 << 31) - 1, b"\0" * 100)),  # gigabytes
        bytes_of(sent, additions_four_bytes=Coded(0, 3, 1 << 22, b"\0" * 100)),
        bytes_of(sent, compressed_removals=Coded(2, 3, 0)),
        bytes_of(sent, compressed_removals=Coded((1 << 32) - 1, 3, 0)),
        bytes_of(sent, additions_four_bytes=Coded(1, 3, 0)),
        bytes_of(sent, additions_four_bytes=Coded(1, 3, 0), sha256_checksum=b""),
        bytes_of(sent, sha256_checksum=b"x" * 32),
        lambda: b"\x0a\x00" * (1 << 20),
    ):
        assert not client.take(make())
        assert client.list == good
    assert client.fetch() == good
