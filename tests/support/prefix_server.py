"""A server of Safe Browsing v4 and v5 on loopback, made of the protocol's core: its answers can be bent."""

from __future__ import annotations

import ssl
from base64 import b64decode
from collections.abc import Callable, Iterable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import parse_qs, unquote, urlsplit

from hushlist.core.match.expressions import full_hash
from hushlist.extensions.safe_browsing.list_updates import update_to_v4, update_to_v5
from hushlist.extensions.safe_browsing.prefix_list import PrefixUpdate, checksum_of, difference
from hushlist.extensions.safe_browsing.v4_messages import (
    FetchThreatListUpdatesRequest,
    FetchThreatListUpdatesResponse,
    FindFullHashesRequest,
    FindFullHashesResponse,
    ThreatEntry,
    ThreatEntryType,
    ThreatListDescriptor,
    ThreatMatch,
    ThreatType,
)
from hushlist.extensions.safe_browsing.v5_messages import (
    BatchGetHashListsResponse,
    FullHash,
    FullHashDetail,
    SearchHashesResponse,
)
from hushlist.extensions.safe_browsing.wire_format import decode_message, encode_message

#: changes an answer: the method's name, the octets -> status, octets
Bend = Callable[[str, bytes], tuple[int, bytes]]


class PrefixServer:
    """Serves one list; ``expressions`` are on it. Each request is in ``requests``: method, path, query, body."""

    def __init__(
        self,
        *expressions: bytes,
        wait: float | None = 1800.0,
        is_rice: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        #: full hash -> details: threat type, attributes
        self.hashes: dict[bytes, list[tuple[int, tuple[int, ...]]]] = {}
        #: prefixes on the list that are of nothing on it
        self.others: set[bytes] = set()
        self.history: list[tuple[bytes, ...]] = []
        self.requests: list[tuple[str, str, dict[str, list[str]], bytes]] = []
        self.wait, self.is_rice = wait, is_rice
        #: seconds
        self.cache: float | None = 300.0
        self.negative: float | None = 600.0
        self.search_wait: float | None = None
        #: prefixes of lists, by name, that have others than the rest; and the lists whose checksums are wrong
        self.only: dict[str, list[bytes]] = {}
        self.lies: set[str] = set()
        #: fields of each answer's head, how many octets of it are sent, and whether it then stands still
        self.fields: dict[str, str] = {}
        self.cut: int | None = None
        self.stalls = False
        self.bend: Bend = lambda _, octets: (200, octets)
        #: full hashes are searched once this is set
        self.answers = Event()
        self.answers.set()
        self.ended = Event()
        self.put(*expressions)
        server = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                self._answer(b"")

            def do_POST(self) -> None:
                if self.headers["Content-Type"] != "application/x-protobuf":
                    self.send_error(415)
                    return
                self._answer(self.rfile.read(int(self.headers["Content-Length"])))

            def _answer(self, body: bytes) -> None:
                parts = urlsplit(self.path)
                server.requests.append((self.command, parts.path, parse_qs(parts.query), body))
                method = unquote(parts.path).rpartition("/")[2]
                status, octets = server.bend(method, server.answer(method, parse_qs(parts.query), body))
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", f"/elsewhere?{parts.query}")
                self.send_header("Content-Length", str(len(octets)))
                for name, text in server.fields.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(octets[: server.cut])
                if server.stalls:
                    server.ended.wait(60)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self._server.server_port}"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> PrefixServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Accept no connection any more."""
        self.answers.set()
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()

    def put(self, *expressions: bytes, threat: int = 1, attributes: tuple[int, ...] = ()) -> None:
        """Add expressions, as a new version of the list."""
        for expression in expressions:
            self.hashes.setdefault(full_hash(expression), []).append((threat, attributes))
        self._version()

    def take(self, *expressions: bytes) -> None:
        """Remove expressions, as a new version of the list."""
        for expression in expressions:
            del self.hashes[full_hash(expression)]
        self._version()

    def add_prefix_of(self, expression: bytes) -> None:
        """Add the prefix of an expression, whose full hash is not on the list."""
        self.others.add(full_hash(expression)[:4])
        self._version()

    def _version(self) -> None:
        self.history.append(tuple(sorted({full[:4] for full in self.hashes} | self.others)))

    def searches(self) -> list[tuple[str, str, dict[str, list[str]], bytes]]:
        """The requests for full hashes."""
        return [request for request in self.requests if request[1].endswith(("hashes:search", "fullHashes:find"))]

    def update(self, state: bytes) -> PrefixUpdate:
        """The update from a state, which is the number of a version."""
        new, name = self.history[-1], b"%d" % len(self.history)
        if not state:
            return PrefixUpdate(name, new, checksum=checksum_of(new))
        return difference(self.history[int(state) - 1], new, name)

    def _update_of(self, name: str, states: dict[str, bytes]) -> PrefixUpdate:
        """The update of one list; its state says which list it is of, as v5 asks."""
        number = states.get(name, b"")
        if name in self.only:
            new = tuple(self.only[name])
            update = PrefixUpdate(b"1", new, checksum=checksum_of(new)) if not number else difference(new, new, b"1")
        else:
            update = self.update(number)
        update = replace(update, checksum=bytes(32)) if name in self.lies else update
        return replace(update, state=update.state + b"/" + name.encode())

    def answer(self, method: str, query: dict[str, list[str]], body: bytes) -> bytes:
        """The octets of an answer."""
        match method:
            case "hashLists:batchGet":
                states = _by_list(b64decode(text, altchars=b"-_") for text in query.get("version", ()))
                updates = (update_to_v5(self._update_of(name, states), name, 4, self.wait) for name in query["names"])
                return encode_message(BatchGetHashListsResponse(tuple(updates)))
            case "threatListUpdates:fetch":
                sent = []
                for list_request in decode_message(FetchThreatListUpdatesRequest, body).list_update_requests:
                    types = ThreatListDescriptor(
                        list_request.threat_type, list_request.platform_type, list_request.threat_entry_type
                    )
                    update = self._update_of(ThreatType(list_request.threat_type).name, _by_list([list_request.state]))
                    sent.append(update_to_v4(update, types, self.is_rice))
                return encode_message(FetchThreatListUpdatesResponse(tuple(sent), self.wait))
            case "hashes:search":
                self.answers.wait(60)
                prefixes = tuple(b64decode(text, altchars=b"-_") for text in query["hashPrefixes"])
                hashes = (entry for entry in self.hashes.items() if entry[0].startswith(prefixes))
                details = {full: tuple(FullHashDetail(*detail) for detail in threats) for full, threats in hashes}
                return encode_message(
                    SearchHashesResponse(
                        tuple(FullHash(full, threats) for full, threats in details.items()), self.cache
                    )
                )
            case "fullHashes:find":
                self.answers.wait(60)
                info = decode_message(FindFullHashesRequest, body).threat_info
                assert info is not None
                prefixes = tuple(entry.hash for entry in info.threat_entries)
                matches = (
                    ThreatMatch(threat, 6, ThreatEntryType.URL, ThreatEntry(full), cache_duration=self.cache)
                    for full, threats in self.hashes.items()
                    if full.startswith(prefixes)
                    for threat, _ in threats
                )
                return encode_message(FindFullHashesResponse(tuple(matches), self.search_wait, self.negative))
        return b""


def _by_list(states: Iterable[bytes]) -> dict[str, bytes]:
    """The numbers in states, by the lists that they say they are of."""
    parts = (state.partition(b"/") for state in states if state)
    return {name.decode(): number for number, _, name in parts}
