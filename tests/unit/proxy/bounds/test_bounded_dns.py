"""DNS: names made of pointers, and questions that wait."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from mitmproxy import connection, dns
from mitmproxy.net.dns import response_codes, types
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events, layers
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.dns import DnsRequestHook
from mitmproxy.test import tflow, tutils

from hushlist.proxy.bounds import bounded_dns
from hushlist.proxy.bounds.bounded_input import bound_input
from unit.proxy.bounds.little_time import takes_little_time
from unit.rows import each_row

NOERROR, SERVFAIL = response_codes.NOERROR, response_codes.SERVFAIL


def question(name: bytes) -> bytes:
    return name + b"\0\x01\0\x01"


def message(*questions: bytes) -> bytes:
    return b"\0\x07\x01\0" + len(questions).to_bytes(2, "big") + bytes(6) + b"".join(questions)


def pointer(place: int) -> bytes:
    return (0xC000 | place).to_bytes(2, "big")


_LONG = b"\x01a" * 127
HOSTILE = {
    "one long name, many times": message(question(_LONG + b"\0"), *[question(pointer(12))] * 9000),
    "each name longer than that before it": message(
        question(b"\x01a\0"), *(question(b"\x01a" + pointer(max(12, 11 + 8 * at))) for at in range(1000))
    ),
    "a name of 257 letters": message(question(_LONG + b"\x03aaa\0")),
    "a pointer to a pointer, and so on": message(b"".join(map(pointer, range(14, 6014, 2))) + question(b"\0")),
    "no punycode": message(question(b"\x0cxn--99999999\0")),
}


@each_row("octets", HOSTILE.values())
def test_a_dns_message_is_not_read_further_than_is_sensible(octets: bytes) -> None:
    bound_input()
    with pytest.raises(struct.error, match=r"too long|cannot be read|illegal characters"):
        type(tutils.tdnsreq()).unpack(octets)


def record(kind: int, data: bytes) -> bytes:
    return b"\0" + struct.pack("!HHIH", kind, 1, 1, len(data)) + data


def test_what_may_be_a_pointer_in_a_record_takes_little_time() -> None:
    """Each octet of the first record begins a name that is too long, and each two of the second one lead there."""
    number, start = 2000, 12 + 5 + 11
    pointers = b"".join(pointer(start + at) for at in range(number))
    octets = message(question(b"\0"))[:6] + b"\0\2" + bytes(4) + question(b"\0")
    octets += record(types.A, b"\1" * number) + record(types.TXT, pointers)
    unpack = type(tutils.tdnsreq()).unpack
    bound_input()
    assert len(unpack(octets).answers) == 2
    assert takes_little_time(lambda: unpack(octets))


class Conversation:
    """A connection by which questions come, as mitmproxy serves it: hooks do nothing but what ``answers`` says."""

    def __init__(self, transport: str = "udp", answers: Callable[[dns.DNSFlow], None] = lambda _: None) -> None:
        client = tflow.tclient_conn()
        client.transport_protocol = transport  # type: ignore[assignment]
        self.context = Context(client, Options())
        self.context.server.address, self.context.server.transport_protocol = (
            ("192.0.2.53", 53),
            client.transport_protocol,
        )
        self._answers = answers
        #: what is sent to whom, and whose connection ends
        self.sent: list[tuple[connection.Connection, dns.Message]] = []
        self.closed: list[connection.Connection] = []
        self.logged: list[str] = []
        #: timers that have not rung
        self.timers: list[commands.RequestWakeup] = []
        #: why the name server cannot be reached
        self.unreachable: str | None = None
        bound_input()
        self.layer = layers.DNSLayer(self.context)
        self._happens(events.Start())

    def says(self, who: connection.Connection, message: dns.Message | bytes) -> None:
        octets = message if isinstance(message, bytes) else message.packed
        if who.transport_protocol == "tcp":
            octets = len(octets).to_bytes(2, "big") + octets
        self.sends(who, octets)

    def sends(self, who: connection.Connection, octets: bytes) -> None:
        self._happens(events.DataReceived(who, octets))

    def asks(self, number: int, name: str = "good.test", kind: int = types.A) -> dns.Message:
        asked = tutils.tdnsreq(id=number, questions=[dns.Question(name, kind, 1)])
        self.says(self.context.client, asked)
        return asked

    def ends(self, who: connection.Connection) -> None:
        who.state = connection.ConnectionState.CLOSED
        self._happens(events.ConnectionClosed(who))

    def timer_rings(self) -> None:
        (timer,) = self.timers
        self.timers.clear()
        self._happens(events.Wakeup(timer))

    def heard(self) -> list[tuple[int, int]]:
        """Number and code of each answer that the client has."""
        return [(message.id, message.response_code) for who, message in self.sent if who is self.context.client]

    def _happens(self, event: events.Event) -> None:
        for command in self.layer.handle_event(event):
            match command:
                case commands.SendData():
                    octets = command.data[2 * (command.connection.transport_protocol == "tcp") :]
                    self.sent.append((command.connection, type(tutils.tdnsreq()).unpack(octets)))
                case commands.CloseConnection():
                    self.closed.append(command.connection)
                    command.connection.state = connection.ConnectionState.CLOSED
                case commands.RequestWakeup():
                    self.timers.append(command)
                case commands.Log():
                    self.logged.append(command.message)
                case commands.OpenConnection():
                    if self.unreachable is None:
                        command.connection.state = connection.ConnectionState.OPEN
                    self._happens(events.OpenConnectionCompleted(command, self.unreachable))
                case commands.StartHook():
                    if isinstance(command, DnsRequestHook):
                        self._answers(command.flow)
                    self._happens(events.HookCompleted(command))
                case _:
                    raise AssertionError(command)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is; tests may set it."""
    now = [1000.0]
    monkeypatch.setattr(bounded_dns, "monotonic", lambda: now[0])
    return now


def test_answers_go_to_their_questions_in_any_order(clock: list[float]) -> None:
    own = Conversation()
    first, second, third = own.asks(7), own.asks(7, kind=types.AAAA), own.asks(8)
    server = own.context.server
    for asked in (third, second, first):
        own.says(server, asked.succeed([]))
    assert [message.packed for who, message in own.sent if who is server] == [first.packed, second.packed, third.packed]
    heard = [(message.id, message.questions[0].type) for who, message in own.sent if who is own.context.client]
    assert heard == [(8, types.A), (7, types.AAAA), (7, types.A)]


def test_what_is_no_answer_is_dropped(clock: list[float]) -> None:
    own = Conversation()
    asked, server = own.asks(7), own.context.server
    own.says(server, asked)  # the question itself
    own.says(server, tutils.tdnsreq(id=8, questions=asked.questions).succeed([]))
    own.says(server, tutils.tdnsreq(id=7, questions=[dns.Question("other.test", 1, 1)]).succeed([]))
    assert own.heard() == []
    own.says(server, asked.succeed([]))
    own.says(server, asked.succeed([]))  # once more
    assert own.heard() == [(7, NOERROR)]


def test_a_question_that_is_asked_again_is_answered_once(clock: list[float]) -> None:
    own = Conversation()
    own.asks(7)
    clock[0] += 5
    own.says(own.context.server, own.asks(7).succeed([]))
    own.says(own.context.server, tutils.tdnsreq(id=7, questions=[dns.Question("good.test", 1, 1)]).succeed([]))
    assert own.heard() == [(7, NOERROR)]
    assert len([who for who, _ in own.sent if who is own.context.server]) == 2


def test_a_question_fails_that_waits_for_too_long(clock: list[float]) -> None:
    own = Conversation()
    own.asks(7)
    clock[0] += bounded_dns.LONGEST_WAIT - 1
    own.timer_rings()
    own.asks(8)
    assert own.heard() == []
    clock[0] += 2
    own.timer_rings()
    assert own.heard() == [(7, SERVFAIL)]
    assert "192.0.2.53:53" in own.logged[-1]
    assert "good.test" in own.logged[-1]
    assert own.closed == []  # the other one still waits


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_a_connection_by_udp_ends_when_all_is_answered(clock: list[float], transport: str) -> None:
    own = Conversation(transport)
    own.says(own.context.server, own.asks(7).succeed([]))
    clock[0] += 1
    own.timer_rings()
    assert own.closed == ([own.context.server, own.context.client] if transport == "udp" else [])
    assert own.timers == []


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_all_that_waits_fails_when_the_name_server_ends_its_connection(clock: list[float], transport: str) -> None:
    own = Conversation(transport)
    own.asks(7)
    own.asks(8)
    own.ends(own.context.server)
    own.asks(9)
    assert own.heard() == [(7, SERVFAIL), (8, SERVFAIL), (9, SERVFAIL)]
    clock[0] += 1
    own.timer_rings()
    assert own.closed == [own.context.client]


def test_an_answer_that_cannot_be_read_is_a_failure(clock: list[float]) -> None:
    own = Conversation()
    own.asks(7)
    own.asks(8)
    own.says(own.context.server, b"\0\7nonsense")
    assert own.heard() == [(7, SERVFAIL)]
    over_tcp = Conversation("tcp")
    over_tcp.asks(7)
    over_tcp.says(over_tcp.context.server, b"\0\7nonsense")
    assert over_tcp.heard() == [(7, SERVFAIL)]
    assert over_tcp.closed == [over_tcp.context.server]


def test_nonsense_of_a_client_ends_nothing_but_a_stream(clock: list[float]) -> None:
    own = Conversation()
    asked = own.asks(7)
    own.says(own.context.client, b"nonsense")
    own.says(own.context.server, asked.succeed([]))
    assert own.heard() == [(7, NOERROR)]
    over_tcp = Conversation("tcp")
    over_tcp.says(over_tcp.context.client, b"nonsense")
    assert over_tcp.closed == [over_tcp.context.client]


def test_the_two_ways_of_a_stream_are_read_each_by_itself(clock: list[float]) -> None:
    own = Conversation("tcp")
    answer = own.asks(7).succeed([]).packed
    question = tutils.tdnsreq(id=8, questions=[dns.Question("other.test", types.A, 1)]).packed
    in_stream = [len(message).to_bytes(2, "big") + message for message in (question, answer)]
    ends = (own.context.client, own.context.server)
    for half in (slice(None, 9), slice(9, None)):
        for end, octets in zip(ends, in_stream, strict=True):
            own.sends(end, octets[half])
    assert own.heard() == [(7, NOERROR)]
    assert [message.id for end, message in own.sent if end is own.context.server] == [7, 8]
    assert own.closed == []


def test_only_the_last_questions_of_a_connection_wait(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_dns, "MOST_QUESTIONS", 3)
    own = Conversation()
    for number in range(5):
        own.asks(number)
    assert own.heard() == [(0, SERVFAIL), (1, SERVFAIL)]
