"""An end of an HTTP/2 connection that gives leave to send when the test says so."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, StreamEnded

#: seconds of silence after which a peer counts as one that sends nothing more
SILENCE = 1.0


class H2Peer:
    def __init__(self, connection: socket.socket, *, is_client: bool = True) -> None:
        self.connection = connection
        self.h2 = H2Connection(H2Configuration(client_side=is_client, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()
        #: by stream: octets that have come
        self.octets: dict[int, int] = {}
        self.ended: set[int] = set()

    def close(self) -> None:
        self.connection.close()

    def flush(self) -> None:
        if octets := self.h2.data_to_send():
            self.connection.sendall(octets)

    def request(
        self, host: str, path: str, method: str = "GET", *, has_body: bool = False, more: Sequence[tuple[str, str]] = ()
    ) -> int:
        """Begin a request; its number."""
        number = int(self.h2.get_next_available_stream_id())
        pseudo = [(":method", method), (":scheme", "https"), (":authority", host), (":path", path)]
        self.h2.send_headers(number, [*pseudo, *more], end_stream=not has_body)
        self.flush()
        return number

    def receive(self, *, gives_leave: bool = True) -> list[Event]:
        """The events of what comes next; ``gives_leave``: the peer may send as much again.

        Raises:
            ConnectionError: nothing more comes.
        """
        octets = self.connection.recv(1 << 16)
        if not octets:
            raise ConnectionError("the connection has ended")
        events: list[Event] = self.h2.receive_data(octets)
        for event in events:
            if isinstance(event, DataReceived):
                self.octets[event.stream_id] = self.octets.get(event.stream_id, 0) + len(event.data)
                if gives_leave:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                self.ended.add(event.stream_id)
        self.flush()
        return events

    def read_until_silence(self) -> None:
        """Read, and give no leave to send more, until nothing comes."""
        before = self.connection.gettimeout()
        self.connection.settimeout(SILENCE)
        with suppress(TimeoutError):
            while True:
                self.receive(gives_leave=False)
        self.connection.settimeout(before)

    def read_to_end(self, number: int, *, gives_leave: bool = True) -> int:
        """Read until an answer has ended; how many octets it has."""
        while number not in self.ended:
            self.receive(gives_leave=gives_leave)
        return self.octets.get(number, 0)

    def send_while_allowed(self, number: int, octets: int) -> int:
        """Send of a body until it has ended, or there has been no leave to send more for a while; how much was sent."""
        sent, before = 0, self.connection.gettimeout()
        self.connection.settimeout(SILENCE)
        with suppress(TimeoutError):
            while sent < octets:
                part = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, octets - sent)
                if part > 0:
                    self.h2.send_data(number, bytes(part))
                    self.flush()
                    sent += part
                else:
                    self.receive()
        self.connection.settimeout(before)
        return sent
