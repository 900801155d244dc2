"""Bounds of DNS: names that are made of pointers, questions that are kept, and how long one waits for its answer."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from logging import WARNING
from time import monotonic
from typing import Any

from mitmproxy import dns
from mitmproxy.addons import next_layer
from mitmproxy.net.dns import domain_names
from mitmproxy.proxy import commands, events, layer, layers
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.dns import DNSLayer, DnsRequestHook, pack_message
from mitmproxy.utils.human import format_address

#: octets of a name. Spec: RFC 1035, 2.3.4
LONGEST_DNS_NAME = 255
#: octets that are read of all names in a DNS message: by pointers, two octets are a whole name
MOST_OF_NAMES = 1 << 16
#: questions of one DNS connection that wait for an answer
MOST_QUESTIONS = 1 << 10
#: seconds that one waits: less than the ten after which clients give up. Spec: RFC 8767, 5, has a "query resolution
#: timer", too
LONGEST_WAIT = 8.0
#: seconds between two looks at what waits, and of silence after which a connection by UDP ends
_INTERVAL = 1.0
#: what a pointer's first octet is at least
_POINTER = 0b1100_0000
#: a place that no name has, for the sum of their octets; what is not read yet
_SUM, _UNREAD = -1, ("", 0)


#: what an answer has in common with its question: number, and each name with type and class
_Question = tuple[int, tuple[tuple[str, int, int], ...]]


class BoundedDns(DNSLayer):
    """Answers every question: with a failure where the name server cannot be reached, is silent, or makes no sense.

    mitmproxy leaves a client without an answer then, and without one to all that it asks from the same port later. A
    connection by UDP ends when all is answered: its socket is needed by others, and the next question begins another.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: the flows that wait for an answer, and since when
        self._waiting: dict[_Question, tuple[dns.DNSFlow, float]] = {}
        self._last = monotonic()
        self._is_looked_at = False
        #: why the name server answers no more
        self._fault: str | None = None

    def state_query(self, event: events.Event) -> layer.CommandGenerator[None]:
        """Handle what happens from the first question on."""
        if isinstance(event, events.DataReceived):
            self._last = monotonic()
            if event.connection is self.context.client:
                yield from self._take_questions(event.data)
            else:
                yield from self._take_answers(event.data)
            yield from self._look_later()
        elif isinstance(event, events.ConnectionClosed) and event.connection is self.context.server:
            yield from self._lose_server("it has ended the connection")
            yield from self._look_later()
        elif isinstance(event, events.ConnectionClosed):
            yield from self._end()
        elif isinstance(event, events.Wakeup):
            yield from self._look()

    def _take_questions(self, data: bytes) -> layer.CommandGenerator[None]:
        try:
            messages = self.unpack_message(data, from_client=True)
        except struct.error as error:
            yield commands.Log(f"{self.context.client} sent an invalid message: {error}")
            if self.context.client.transport_protocol == "tcp":  # nobody knows where the next one begins
                yield from self._end()
            return
        for message in messages:
            yield from self._ask(message)

    def _ask(self, message: dns.Message) -> layer.CommandGenerator[None]:
        server = self.context.server
        flow, since = dns.DNSFlow(self.context.client, server, live=True), monotonic()
        if _question_of(message) in self._waiting:  # a client asks again if it hears nothing
            flow, since = self._waiting.pop(_question_of(message))
        flow.request = message
        yield DnsRequestHook(flow)
        if flow.response is not None:
            yield from self._answer(flow, flow.response)
            return
        question = _question_of(flow.request)
        self._waiting[question] = flow, since
        if len(self._waiting) > MOST_QUESTIONS:
            yield from self._fail([next(iter(self._waiting))], "too many questions wait for an answer")
        if flow.error is not None:
            yield from self._fail([question], flow.error.msg)
        elif not server.address:
            yield from self._fail([question], "no hook has set a response, and there is no name server")
        elif self._fault is not None:
            yield from self._fail([question], self._fault)
        elif not server.connected and (fault := (yield commands.OpenConnection(server))):
            yield from self._lose_server(fault)
        else:
            yield commands.SendData(server, pack_message(flow.request, server.transport_protocol))

    def _answer(self, flow: dns.DNSFlow, message: dns.Message) -> layer.CommandGenerator[None]:
        yield from self.handle_response(flow, message)
        flow.live = False

    def _take_answers(self, data: bytes) -> layer.CommandGenerator[None]:
        try:
            messages = self.unpack_message(data, from_client=False)
        except struct.error as error:
            yield commands.Log(f"{self.context.server} sent an invalid message: {error}")
            fault = f"its answer cannot be read: {error}"
            if self.context.client.transport_protocol == "tcp":
                yield from self._lose_server(fault)
            else:
                yield from self._fail(self._numbered(int.from_bytes(data[:2], "big")), fault)
            return
        for message in messages:
            question = self._question_to(message)
            if question is not None:
                yield from self._answer(self._waiting.pop(question)[0], message)

    def _question_to(self, answer: dns.Message) -> _Question | None:
        """The question to an answer; none for what is no answer, or comes too late."""
        question = _question_of(answer)
        if answer.query or question in self._waiting:
            return None if answer.query else question
        # an answer by which a server refuses may leave the question out
        return None if answer.questions else next(iter(self._numbered(answer.id)), None)

    def _numbered(self, number: int) -> list[_Question]:
        return [question for question in self._waiting if question[0] == number]

    def _lose_server(self, fault: str) -> layer.CommandGenerator[None]:
        """Answer all that waits; what is asked later needs another connection."""
        self._fault = fault
        if self.context.server.connected:
            yield commands.CloseConnection(self.context.server)
        yield from self._fail(list(self._waiting), fault)

    def _fail(self, questions: Iterable[_Question], why: str) -> layer.CommandGenerator[None]:
        failed = [self._waiting.pop(question)[0] for question in questions if question in self._waiting]
        if failed:
            address = self.context.server.address
            who = format_address(address) if address else "no name server"
            yield commands.Log(f"hushlist: no answer by {who} to {_named(failed)}: {why}", WARNING)
        for flow in failed:
            yield from self.handle_error(flow, why)
            flow.live = False

    def _look_later(self) -> layer.CommandGenerator[None]:
        if not self._is_looked_at and (self._waiting or self._ends_by_itself()):
            self._is_looked_at = True
            yield commands.RequestWakeup(_INTERVAL)

    def _look(self) -> layer.CommandGenerator[None]:
        """Answer what waits for too long; end a connection that is not needed any more."""
        now, self._is_looked_at = monotonic(), False
        late = [question for question, (_, since) in self._waiting.items() if now - since > LONGEST_WAIT]
        yield from self._fail(late, f"it is silent for {LONGEST_WAIT:g} seconds")
        is_quiet = not self._waiting and not self._paused_event_queue and now - self._last >= _INTERVAL
        if is_quiet and self._ends_by_itself():
            yield from self._end()
        else:
            yield from self._look_later()

    def _ends_by_itself(self) -> bool:
        return self.context.client.transport_protocol == "udp" or self._fault is not None

    def _end(self) -> layer.CommandGenerator[None]:
        self._handle_event = self.state_done
        for flow, _ in self._waiting.values():
            flow.live = False
        for end in (self.context.server, self.context.client):
            if end.connected:
                yield commands.CloseConnection(end)

    def state_done(self, _: events.Event) -> layer.CommandGenerator[None]:
        """Nothing more happens."""
        yield from ()


def _question_of(message: dns.Message) -> _Question:
    return message.id, tuple((question.name.lower(), question.type, question.class_) for question in message.questions)


def _named(flows: Iterable[dns.DNSFlow]) -> str:
    names = dict.fromkeys(question.name for flow in flows for question in flow.request.questions)
    return " ".join(list(names)[:4]) or "a question"


def _read_name(buffer: bytes, offset: int, cache: dict[int, Any]) -> tuple[str, int]:
    """A name of a DNS message, and the number of its octets there: by pointers, the rest of it stands elsewhere.

    All that is read of a message counts. mitmproxy itself reads on to its end before it finds a name too long,
    and does so for each octet of a record's data that may be a pointer. It fails where it is told of another error.
    Spec: RFC 1035, 2.3.4: names have "255 octets or less"
    """
    if cache.get(offset, _UNREAD) is None:
        raise struct.error("a name leads back to itself")
    _spend(cache, 1)
    if offset not in cache:
        cache[offset] = None
        try:
            cache[offset] = _read_labels(buffer, offset, cache)
        except (IndexError, RecursionError, UnicodeError) as error:
            raise struct.error("a name cannot be read") from error
    entry: tuple[str, int] = cache[offset]
    _spend(cache, len(entry[0]))
    if len(entry[0]) > LONGEST_DNS_NAME:
        raise struct.error("a name is too long")
    return entry


def _read_labels(buffer: bytes, start: int, cache: dict[int, Any]) -> tuple[str, int]:
    labels, offset = list[str](), start
    while size := buffer[offset]:
        if size >= _POINTER:
            (pointer,) = struct.unpack_from("!H", buffer, offset)
            labels.append(_read_name(buffer, pointer - (_POINTER << 8), cache)[0])
            return ".".join(labels), offset + 2 - start
        _spend(cache, 1 + size)
        offset += domain_names._unpack_label_into(labels, buffer, offset)
        if offset - start >= LONGEST_DNS_NAME:
            raise struct.error("a name is too long")
    return ".".join(labels), offset + 1 - start


def _spend(cache: dict[int, Any], octets: int) -> None:
    cache[_SUM] = spent = cache.get(_SUM, 0) + octets
    if spent > MOST_OF_NAMES:
        raise struct.error("the names of a message are too long")


#: as in ``bounded_http``
REPLACED = (
    (domain_names, "unpack_from_with_compression", _read_name),
    (layers, "DNSLayer", BoundedDns),
    (next_layer, "DNSLayer", BoundedDns),
)
