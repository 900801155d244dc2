"""Requests whose bodies go on while they arrive, and answers that do not wait for a body's end.

mitmproxy asks its addons for the last time (``request``) when a body has ended. It has sent all of one that is streamed
by then, and cannot answer in the origin's place. Here they are asked before anything of it goes on, so whatever they
make of the request is decided, and may be an answer. Whoever is answered before the end of a body gets the answer at
once; what they still send is read and dropped, so that the answer is not lost with the connection.

Spec: RFC 9112, 9.6: who ends a connection on which a client still sends would have the client lose the answer; RFC
9113, 8.1: an answer may be complete before the request
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Generator
from functools import cached_property
from http import HTTPStatus
from math import inf
from time import monotonic
from typing import Any

from mitmproxy import flow, http, version
from mitmproxy.net.http import status_codes
from mitmproxy.proxy import commands
from mitmproxy.proxy.layers import http as http_layer
from mitmproxy.proxy.layers.http import DropStream, HttpStream, SendHttp, _base, _events
from mitmproxy.proxy.layers.http._events import (
    RequestData,
    RequestEndOfMessage,
    RequestHeaders,
    RequestProtocolError,
    RequestTrailers,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
    ResponseTrailers,
)
from mitmproxy.proxy.layers.http._hooks import (
    HttpErrorHook,
    HttpRequestHeadersHook,
    HttpRequestHook,
    HttpResponseHeadersHook,
)
from mitmproxy.utils import human

from hushlist.proxy.bodies_flow import is_kept_whole
from hushlist.proxy.bounds.back_pressure import Course, carries_tunnel
from hushlist.proxy.bounds.body_looks import (
    LONGEST_FORM,
    AnswerLook,
    answer_looks,
    awaiting_form,
    begun_for,
    end_for_client,
    forget,
    upload_looks,
)
from hushlist.proxy.connections.tunnel_layers import HushlistHeldHook

#: octets of a body behind which a client's connection goes on, though nobody reads the body
SHORT_BODY = 1 << 20
#: octets, and seconds, of a body that are read and dropped behind its answer
MOST_DROPPED, LONGEST_DROPPING = 1 << 30, 60.0
#: why something ends; before version 12 of mitmproxy, a status
_CODES: Any = getattr(_events, "ErrorCode", None)
_TOO_LARGE: Any = HTTPStatus.REQUEST_ENTITY_TOO_LARGE.value if _CODES is None else _CODES.REQUEST_TOO_LARGE
_BAD_REQUEST: Any = HTTPStatus.BAD_REQUEST.value if _CODES is None else _CODES.REQUEST_VALIDATION_FAILED
_BAD_GATEWAY: Any = HTTPStatus.BAD_GATEWAY.value if _CODES is None else _CODES.RESPONSE_TOO_LARGE
_CANCEL: Any = status_codes.CLIENT_CLOSED_REQUEST if _CODES is None else _CODES.CANCEL

_Steps = Generator[Any, Any, Any]


#: octets of an answer's body by which it is told whether they are enough
LONGEST_BEGINNING = 1 << 15
#: seconds after which a client that waits for a look gets an octet, so that it goes on waiting
_TRICKLE = 5.0
#: seconds that somebody waits for a body who would get a page meanwhile, before that
_PATIENCE = 60.0
#: octets of a body's end that no client gets in that way
_NOT_TRICKLED = 1 << 10


class FlowingStream(HttpStream):
    """A request and its answer, whose bodies go on while they arrive, as fast as they are read."""

    #: octets of the body of the request, and of the answer, that have come
    _came = _answered = 0
    #: up to how many octets what comes of it goes on as it is, once it is streamed
    _request_flows: float = -1
    _answer_flows: float = -1
    #: whether the client has all of its answer, though its body has not ended
    _is_answered = False
    #: until when a body is dropped behind its answer, and how much of it was
    _latest: float | None = None
    _dropped = 0
    _has_ended = False
    #: whether another answer stands in the place of the origin's, which has not ended
    _is_replaced = False
    #: what stands in the place of mitmproxy's page for an error
    page: http.Response | None = None
    #: the first octets of an answer that is looked at; how many of them the client has, and since when
    _beginning = b""
    _trickled = 0
    _trickled_at = 0.0
    #: the ways of both bodies, once something of them has come; and whether octets of them wait here
    _request_course: Course | None = None
    _answer_course: Course | None = None
    _has_queued = False

    def handle_event(self, event: Any) -> Any:
        """Handle an event; note what comes of a body while addons are asked, or an origin is connected to.

        What is streamed as it is goes on at once: all else takes longer than to read and to send it.
        """
        if self.child_layer is None:
            if isinstance(event, ResponseData):
                self._answered += len(event.data)
                # what comes at once is less than a course has room for
                if self._answer_course is None and (self._paused or self._answered > len(event.data)):
                    self._answer_course = Course(self, is_answer=True)
                if self._paused:
                    assert self._answer_course is not None
                    self._queue(self._answer_course, event)
                elif self._answered <= self._answer_flows and self.server_state == self.state_stream_response_body:
                    return (SendHttp(event, self.context.client),)
            elif self._paused and isinstance(event, RequestProtocolError):
                end_for_client(self.flow)
            elif isinstance(event, RequestData) and self._latest is None:
                self._came += len(event.data)
                if self._request_course is None:
                    self._request_course = Course(self, is_answer=False)
                if self._paused:
                    self._queue(self._request_course, event)
                elif self._came <= self._request_flows and self.client_state == self.state_stream_request_body:
                    return (SendHttp(event, self.context.server),)
        elif isinstance(event, RequestData) and self._request_course is None and carries_tunnel(self):
            self._request_course = Course(self, is_answer=False)
        steps = super().handle_event(event)
        return self._and_go_on(steps) if self._has_queued else steps

    def _queue(self, course: Course, event: RequestData | ResponseData) -> None:
        course.queued += len(event.data)
        self._has_queued = True

    def _and_go_on(self, steps: _Steps) -> _Steps:
        yield from steps
        if not self._paused_event_queue:
            self._has_queued = False
            for course in (self._request_course, self._answer_course):
                if course is not None:
                    course.go_on()

    def _end_courses(self) -> None:
        for course in (self._request_course, self._answer_course):
            if course is not None:
                course.end()

    # -- a request -----------------------------------------------------------------------------------------------

    def state_wait_for_request_headers(self, event: Any) -> _Steps:
        """Take a request's head; answer it at once if its answer is there."""
        steps, reply = super().state_wait_for_request_headers(event), None
        while True:
            try:
                command = steps.send(reply)
            except StopIteration:
                return
            reply = yield command
            if isinstance(command, HttpRequestHeadersHook) and not event.end_stream and self._answers_at_once:
                steps.close()
                yield from self._ask_and_go_on()
                return

    @property
    def _answers_at_once(self) -> bool:
        exchange = self.flow
        return exchange.response is not None and exchange.error is None and exchange not in awaiting_form

    def start_request_stream(self) -> _Steps:
        """Ask the addons, and begin to send a request whose body has not ended, or answer it."""
        if self.flow in awaiting_form:
            self.client_state = self.state_consume_request_body
        elif is_kept_whole(self.flow.request):
            yield from super().start_request_stream()
        elif self.flow in upload_looks:
            self.client_state = self.state_look_at_upload
        else:
            yield from self._ask_and_go_on()

    def state_look_at_upload(self, event: Any) -> _Steps:
        """Wait until something of a body may go on; if that is at its end, the body is whole."""
        if isinstance(event, RequestTrailers):
            return
        look, has_ended = upload_looks[self.flow], isinstance(event, RequestEndOfMessage)
        octets = look.take(b"" if has_ended else event.data, has_ended)
        if self._came > self._most:
            yield from self._refuse_early("the body exceeds body_size_limit", _TOO_LARGE)
        elif self._is_of_wrong_length(has_ended=has_ended):
            yield from self._refuse_early("the body is not as long as its head says", _BAD_REQUEST)
        elif has_ended:
            upload_looks.pop(self.flow)
            self.flow.request.stream = False
            self.request_body_buf += octets if isinstance(octets, bytes) else b""
            yield from self.state_consume_request_body(event)
        elif isinstance(octets, bytes):
            yield from self._ask_and_go_on()
            if octets and self.client_state == self.state_stream_request_body:
                yield from super().state_stream_request_body(RequestData(self.stream_id, octets))

    def _refuse_early(self, why: str, code: Any) -> _Steps:
        """End a request of which nothing has gone on."""
        self.flow.error = flow.Error(why)
        yield HttpErrorHook(self.flow)
        yield from self._answer_error(why, code)

    def _ask_and_go_on(self) -> _Steps:
        if (yield from self.check_killed(True)):
            return
        yield HttpRequestHook(self.flow)
        if (yield from self.check_killed(True)):
            return
        self.server_state = self.state_wait_for_response_headers
        if self.flow.response is not None:
            yield from self._answer_before_end()
        elif self.flow.request.raw_content is not None:
            yield from self._send_another_body()
        else:
            yield from _without_log(super().start_request_stream())
            self._let_request_flow()

    def _let_request_flow(self) -> None:
        if self.flow not in upload_looks:
            self._request_flows = self._flow_of(self.flow.request, self._stated_length)

    def _answer_before_end(self) -> _Steps:
        answer = self.flow.response
        assert answer is not None
        answer.timestamp_start = time.time()
        yield HttpResponseHeadersHook(self.flow)
        if (yield from self.check_killed(True)):
            return
        if not self._keeps_connection():
            answer.headers["Connection"] = "close"
        self._drop_rest()
        yield from self.send_response()

    def _send_another_body(self) -> _Steps:
        """Send the body that an addon has set in the place of the client's, which it has not seen."""
        if not (yield from self.make_server_connection()):
            self.client_state = self.state_errored
            return
        self._drop_rest()
        server, content = self.context.server, self.flow.request.raw_content
        yield SendHttp(RequestHeaders(self.stream_id, self.flow.request, end_stream=not content), server)
        if content:
            yield SendHttp(RequestData(self.stream_id, content), server)
        yield SendHttp(RequestEndOfMessage(self.stream_id), server)

    def state_stream_request_body(self, event: Any) -> _Steps:
        """Send what has come of a body: not more and not less than the head says, and no fields behind it.

        Only the head is decided, and a server may take such a field for one of the head.
        Spec: RFC 9110, 6.5.1
        """
        if isinstance(event, RequestTrailers):
            return
        if self._came > self._most:
            yield from self._end("the body exceeds body_size_limit", _TOO_LARGE)
        elif self._is_of_wrong_length(has_ended=isinstance(event, RequestEndOfMessage)):
            yield from self._end("the body is not as long as its head says", _BAD_REQUEST)
        elif self.flow in upload_looks:
            yield from self._look_at_upload(event)
        else:
            yield from self._send_on(event)

    def _send_on(self, event: Any) -> _Steps:
        for command in super().state_stream_request_body(event):
            if not isinstance(command, HttpRequestHook):  # they were asked before it began
                yield command

    def _look_at_upload(self, event: RequestData | RequestEndOfMessage) -> _Steps:
        """Send what may go on; an answer in its place ends the request, and its origin never gets the end."""
        look, has_ended = upload_looks[self.flow], isinstance(event, RequestEndOfMessage)
        octets = look.take(event.data if isinstance(event, RequestData) else b"", has_ended)
        if isinstance(octets, http.Response):
            upload_looks.pop(self.flow)
            self.page = octets
            yield from self._end("the upload is refused", _BAD_REQUEST)
            return
        if octets:
            yield from self._send_on(RequestData(self.stream_id, octets))
        if has_ended:
            yield from self._send_on(event)
        if has_ended or look.is_over:
            upload_looks.pop(self.flow)
            self._let_request_flow()

    def _is_of_wrong_length(self, *, has_ended: bool) -> bool:
        length = self._stated_length if self.flow.request.stream is True else None
        return length is not None and (self._came > length or (has_ended and self._came < length))

    @property
    def _stated_length(self) -> int | None:
        length = self.flow.request.headers.get("content-length")
        return None if length is None else int(length)

    @cached_property
    def _most(self) -> float:
        """How many octets a streamed body may have, by mitmproxy's ``body_size_limit``."""
        return human.parse_size(self.context.options.body_size_limit) or inf

    def _flow_of(self, message: http.Message, length: int | None = None) -> float:
        """Up to how many octets a body goes on as it is; none where an addon changes it, or mitmproxy keeps it, too."""
        options = self.context.options
        is_kept = "store_streamed_bodies" in options and options.store_streamed_bodies
        if message.stream is not True or is_kept:
            return -1
        return self._most if length is None else min(length, self._most)

    def check_body_size(self, request: bool) -> _Steps:
        """Whether a body that is read whole is too long, or is streamed from now on; a form has a bound of its own."""
        if not request or self.flow not in awaiting_form:
            return (yield from super().check_body_size(request))
        if len(self.request_body_buf) <= LONGEST_FORM:
            return False
        self.request_body_buf.clear()
        yield from self._ask_and_go_on()
        return True

    # -- an answer -----------------------------------------------------------------------------------------------

    def start_response_stream(self) -> _Steps:
        """Begin to send an answer whose body has not ended; or wait until somebody has seen its beginning."""
        if self.flow in answer_looks:
            self.server_state = self.state_look_at_answer
            if answer_looks[self.flow].is_enough(b"", 0):
                yield from self._look(is_whole=False)
            return
        yield from self._send_answer()

    def state_look_at_answer(self, event: Any) -> _Steps:
        """Keep what has come of an answer's body until there is enough of it."""
        if isinstance(event, ResponseData):
            self.response_body_buf += event.data
            self._beginning += event.data[: LONGEST_BEGINNING - len(self._beginning)]
            if self._answered > self._most:
                yield from self._end("the body exceeds body_size_limit", _BAD_GATEWAY)
            elif answer_looks[self.flow].is_enough(self._beginning, len(self.response_body_buf)):
                yield from self._look(is_whole=False)
            elif answer_looks[self.flow].is_slow:
                wait = _TRICKLE if answer_looks[self.flow].meanwhile is None else _PATIENCE
                yield from self._trickle(bytes(self._beginning), len(self.response_body_buf), wait)
        elif isinstance(event, ResponseTrailers):
            assert self.flow.response is not None
            self.flow.response.trailers = event.trailers
        elif isinstance(event, ResponseEndOfMessage):
            yield from self._look(is_whole=True)

    def _trickle(self, octets: bytes, came: int, wait: float = _TRICKLE) -> _Steps:
        """Send an octet of what waits, if the last one was a while ago; the first after ``wait`` seconds."""
        self._trickled_at = self._trickled_at or monotonic()
        number = self._trickled
        wait = _TRICKLE if number else wait
        if monotonic() - self._trickled_at < wait or number >= min(len(octets), came - _NOT_TRICKLED):
            return
        self._trickled_at, self._trickled = monotonic(), number + 1
        if not number:
            assert self.flow.response is not None
            yield SendHttp(ResponseHeaders(self.stream_id, self.flow.response, end_stream=False), self.context.client)
        yield SendHttp(ResponseData(self.stream_id, octets[number : number + 1]), self.context.client)

    def _looked(self, looked: Any, octets: bytes, look: AnswerLook, *, is_whole: bool) -> _Steps:
        """What a look says, once it does, or what the client gets meanwhile; if it fails, nothing passes."""
        if not isinstance(looked, Awaitable):
            return looked
        task = begun_for(self.flow, looked)
        while not task.done():
            before = monotonic()
            yield HushlistHeldHook(asyncio.wait({task}, timeout=_TRICKLE))
            if not task.done() and monotonic() - before < _TRICKLE / 2:  # nobody has waited
                task.cancel()
                break
            if task.done():
                break
            if is_whole and look.meanwhile is not None and not self._trickled:
                answer = look.meanwhile(task, octets)
                if answer is not None:
                    forget(self.flow)
                    return answer
            if look.is_slow:
                yield from self._trickle(octets, len(octets))
        if not task.done() or task.cancelled() or task.exception() is not None:
            return http.Response.make(HTTPStatus.BAD_GATEWAY, b"")
        return task.result()

    def _look(self, *, is_whole: bool) -> _Steps:
        octets = bytes(self.response_body_buf)
        self.response_body_buf.clear()
        look = answer_looks.pop(self.flow)
        replacement = yield from self._looked(look.look(octets, is_whole), octets, look, is_whole=is_whole)
        if replacement is not None and self._trickled:
            yield from self._end_trickled(is_whole=is_whole)
            return
        if replacement is not None:
            replacement.timestamp_start = time.time()
            self.flow.response, self._is_replaced = replacement, True
            if not is_whole:
                yield from self._end_origin("its answer is refused")
            if self._answer_course is not None:
                self._answer_course.end()
            yield from self.send_response()
            return
        if self._trickled:
            self.server_state = self.state_stream_response_body
        else:
            yield from self._send_answer()
        if octets:
            yield from self._and_not_again(self.server_state(ResponseData(self.stream_id, octets)))
        if is_whole:
            yield from self.server_state(ResponseEndOfMessage(self.stream_id))

    def _end_trickled(self, *, is_whole: bool) -> _Steps:
        """End an answer of which the client has got some octets."""
        self._end_courses()
        self.flow.error = flow.Error("its answer is refused")
        yield HttpErrorHook(self.flow)
        if not is_whole:
            yield from self._end_origin(self.flow.error.msg)
        yield SendHttp(ResponseProtocolError(self.stream_id, self.flow.error.msg, _CANCEL), self.context.client)
        self.client_state, self.server_state, self.flow.live = self.state_errored, self.state_errored, False

    def _and_not_again(self, steps: _Steps) -> _Steps:
        """Steps that send octets, without those of them that have been sent."""
        for command in steps:
            event = getattr(command, "event", None)
            if self._trickled and isinstance(event, ResponseData):
                left, self._trickled = event.data[self._trickled :], max(0, self._trickled - len(event.data))
                if not left:
                    continue
                command = SendHttp(ResponseData(self.stream_id, left), command.connection)
            yield command

    def _send_answer(self) -> _Steps:
        yield from _without_log(super().start_response_stream())
        assert self.flow.response is not None
        self._answer_flows = self._flow_of(self.flow.response)

    def state_stream_response_body(self, event: Any) -> _Steps:
        """Send what has come of an answer's body; an addon that sees it on its way may end it by killing the flow."""
        if self._answered > self._most:
            return self._end("the body exceeds body_size_limit", _BAD_GATEWAY)
        steps: _Steps = super().state_stream_response_body(event)
        return steps if self.flow.response is None or self.flow.response.stream is True else self._or_end(steps)

    def _or_end(self, steps: _Steps) -> _Steps:
        yield from steps
        if self.flow.error is not None and self.server_state == self.state_stream_response_body:
            yield from self._end(self.flow.error.msg, _CANCEL)

    def send_response(self, already_streamed: bool = False) -> _Steps:
        """Send an answer, or its end, whether or not the request's body has ended."""
        if not already_streamed and (look := answer_looks.pop(self.flow, None)) is not None:
            whole = self.flow.response and self.flow.response.raw_content
            looked = yield from self._looked(
                look.look(whole or b"", True), b"", look._replace(is_slow=False), is_whole=False
            )
            self.flow.response = looked or self.flow.response
        yield from super().send_response(already_streamed)
        is_dropping = self._latest is not None
        is_sending = self.client_state == self.state_stream_request_body
        assert self.flow.response is not None
        if self.server_state == self.state_done and (
            is_dropping or (is_sending and self.flow.response.status_code != HTTPStatus.SWITCHING_PROTOCOLS)
        ):
            yield from self._end_answer()

    def _end_answer(self) -> _Steps:
        self._is_answered = True
        if self._latest is not None:
            self.flow.live = False
            if self._has_ended:
                yield DropStream(self.stream_id)
        yield SendHttp(ResponseEndOfMessage(self.stream_id), self.context.client)

    def flow_done(self) -> _Steps:
        """End the request: its body has ended, and its answer."""
        if self._is_answered:
            self.flow.live = False
            yield DropStream(self.stream_id)
        else:
            yield from super().flow_done()

    def state_done(self, _: Any) -> _Steps:
        """Ignore what comes behind the end, of an origin too that has answered before the end of the request."""
        yield from ()

    # -- what ends before its end --------------------------------------------------------------------------------

    def check_killed(self, emit_error_hook: bool) -> _Steps:
        """Whether the request is killed, and ended."""
        is_killed = yield from super().check_killed(emit_error_hook)
        if is_killed:
            self._end_courses()
        return is_killed

    def handle_protocol_error(self, event: Any) -> _Steps:
        """End what an end of it has ended; a client that still sends gets to read why."""
        self._end_courses()
        is_origin = isinstance(event, ResponseProtocolError)
        if is_origin and self._is_replaced:
            return
        if is_origin and self._is_answered and self.client_state == self.state_stream_request_body:
            self.flow.live = False
            self._drop_rest()
        elif is_origin and self._is_unanswered and _status_of(event.code) is not None:
            self.flow.error = flow.Error(event.message)
            yield HttpErrorHook(self.flow)
            if not (yield from self.check_killed(False)):
                yield from self._answer_error(event.message, event.code)
        else:
            yield from super().handle_protocol_error(event)

    @property
    def _is_unanswered(self) -> bool:
        """Whether a client still sends a body, and nothing of its answer has been sent."""
        ended = (self.state_done, self.state_errored)
        return self.client_state not in ended and self.server_state == self.state_wait_for_response_headers

    def _end(self, why: str, code: Any) -> _Steps:
        """End a request, and its answer."""
        self._end_courses()
        is_over, is_unanswered = self.server_state == self.state_done, self._is_unanswered
        if not is_over:
            self.flow.error = flow.Error(why)
            yield HttpErrorHook(self.flow)
        yield from self._end_origin(why)
        if is_unanswered:
            yield from self._answer_error(why, code)
            return
        if self._is_answered:
            self._drop_rest()
        else:
            yield SendHttp(ResponseProtocolError(self.stream_id, why, code), self.context.client)
            self.client_state = self.state_errored
        self.server_state = self.state_errored
        self.flow.live = False

    def _end_origin(self, why: str) -> _Steps:
        """End a request at its origin, unless the end of its answer waits here: then it is over."""
        if not any(isinstance(event, ResponseEndOfMessage) for event in self._paused_event_queue):
            yield SendHttp(RequestProtocolError(self.stream_id, why, _CANCEL), self.context.server)

    def _answer_error(self, why: str, code: Any) -> _Steps:
        """Tell a client that still sends a body why nothing becomes of it, as mitmproxy tells all others."""
        status = _status_of(code)
        assert status is not None
        headers = {"Server": version.MITMPROXY, "Content-Type": "text/html"}
        answer = self.page or http.Response.make(status, _base.format_error(status, why), headers)
        if not self._keeps_connection():
            answer.headers["Connection"] = "close"
        self._drop_rest()
        self.server_state = self.state_errored
        client, content = self.context.client, answer.raw_content or b""
        yield SendHttp(ResponseHeaders(self.stream_id, answer, end_stream=False), client)
        yield SendHttp(ResponseData(self.stream_id, content), client)
        yield from self._end_answer()

    def _keeps_connection(self) -> bool:
        """Whether the client's connection can go on behind a body that is dropped; a short one is there soon.

        Spec: RFC 9110, 10.1.1: who expects 100 Continue may send no body behind another answer
        """
        request = self.flow.request
        if request.is_http2 or request.is_http3:
            return True
        length = request.headers.get("content-length", "")
        return "expect" not in request.headers and length.isdecimal() and int(length[:20]) <= SHORT_BODY

    def _drop_rest(self) -> None:
        self._latest = monotonic() + LONGEST_DROPPING
        if self._request_course is not None:
            self._request_course.end()
        self.client_state = self.state_errored

    def state_errored(self, event: Any) -> _Steps:
        """Drop what comes behind an answer; a client that goes on for too long is cut off."""
        if self._latest is None or not isinstance(event, (RequestData, RequestEndOfMessage)):
            return
        self._has_ended = isinstance(event, RequestEndOfMessage)
        if isinstance(event, RequestData):
            self._dropped += len(event.data)
            if self._dropped > MOST_DROPPED or monotonic() > self._latest:
                self._latest = None
                yield SendHttp(
                    ResponseProtocolError(self.stream_id, "it was answered before", _CANCEL), self.context.client
                )
                yield DropStream(self.stream_id)
        elif self._is_answered:
            yield DropStream(self.stream_id)


def _without_log(steps: _Steps) -> _Steps:
    """Steps without mitmproxy's line in its log for each body that is streamed."""
    reply = None
    while True:
        try:
            command = steps.send(reply)
        except StopIteration as end:
            return end.value
        reply = None if isinstance(command, commands.Log) else (yield command)


def _status_of(code: Any) -> int | None:
    """The status that a client gets for it, if it gets an answer."""
    if _CODES is not None:
        status: int | None = code.http_status_code()
        return status
    return None if code in (status_codes.NO_RESPONSE, status_codes.CLIENT_CLOSED_REQUEST) else int(code)


#: as in ``bounded_http``
REPLACED = ((http_layer, "HttpStream", FlowingStream),)
