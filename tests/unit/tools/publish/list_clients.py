"""A client of a list, as the protocol wants it, and random changes of lists: for long histories."""

from __future__ import annotations

import random
from base64 import urlsafe_b64encode
from pathlib import Path
from urllib.parse import quote

from hushlist.core.errors import MessageError
from hushlist.extensions.safe_browsing.list_updates import update_of_v4, update_of_v5
from hushlist.extensions.safe_browsing.prefix_list import PrefixList, PrefixUpdate
from hushlist.extensions.safe_browsing.v4_messages import (
    Constraints,
    FetchThreatListUpdatesRequest,
    FetchThreatListUpdatesResponse,
    ListUpdateRequest,
)
from hushlist.extensions.safe_browsing.v5_messages import HashList
from hushlist.extensions.safe_browsing.wire_format import decode_message, encode_message
from hushlist.tools.publish.list_history import ListHistory
from hushlist.tools.publish.safebrowsing_service import ApiRequest, SafeBrowsingService


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
    """A server of one list, whose versions are in a folder."""
    return SafeBrowsingService({1: ListHistory(folder / "mw-4b", 1)}, 300.0)


def changed(draw: random.Random, known: set[bytes], most: int, size: int) -> set[bytes]:
    """A list with some prefixes less, and some more; one in fifty is another list altogether."""
    gone = draw.sample(sorted(known), draw.randint(0, min(most, len(known)))) if known else []
    come = {draw.randbytes(4) for _ in range(draw.randint(0, most))}
    if draw.random() < 0.02:
        return {draw.randbytes(4) for _ in range(draw.randint(0, size))}
    return (known - set(gone)) | come


def follow(service: SafeBrowsingService, draw: random.Random, versions: int, size: int, most: int) -> int:
    """Make versions of a list of about ``size`` prefixes, of which up to ``most`` change, while clients come and go.

    Each time that one has come, its list is the server's, bit by bit. Returns how often that was.
    """
    some = max(1024, size // 4)
    clients = [
        Client(service, 4),
        Client(service, 4, some),
        Client(service, 4, 0, 1),
        Client(service, 5),
        Client(service, 5, 2 * some),
    ]
    known, fetched = {draw.randbytes(4) for _ in range(size)}, 0
    for _ in range(versions):
        expected = tuple(sorted(known))
        service.histories[1].add(expected)
        for client in clients:
            if draw.random() < 0.4:
                client.fetch()
                if client.list.prefixes != expected:
                    client.fetch()  # it was on its way to an older version
                assert client.list.prefixes == expected
                fetched += 1
        known = changed(draw, known, most, size)
    return fetched
