"""A request and its answer, step by step: what goes on when, and what ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import DropStream, GetHttpConnection, HttpLayer, HTTPMode, SendHttp
from mitmproxy.proxy.layers.http import GetHttpConnectionCompleted as Connected
from mitmproxy.proxy.layers.http import _events as http_events
from mitmproxy.proxy.layers.http._events import (
    RequestData,
    RequestEndOfMessage,
    RequestHeaders,
    RequestProtocolError,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
)
from mitmproxy.test import tflow

from hushlist.proxy.bounds import flowing_bodies
from hushlist.proxy.bounds.body_looks import LONGEST_FORM, await_form, is_done_for, look_at_upload
from hushlist.proxy.bounds.bounded_input import bound_input
from hushlist.proxy.bounds.flowing_bodies import SHORT_BODY, FlowingStream
from support.waiting import PATIENCE
from unit.rows import each_row

Hook = Callable[[Any], object]
_GONE: Any = () if not hasattr(http_events, "ErrorCode") else (http_events.ErrorCode.GENERIC_SERVER_ERROR,)


def stream_request(flow: http.HTTPFlow) -> None:
    flow.request.stream = True


def stream_answer(flow: http.HTTPFlow) -> None:
    assert flow.response is not None
    flow.response.stream = True


def refuse(flow: http.HTTPFlow) -> None:
    flow.response = http.Response.make(403, b"no")
    flow.request.stream = True


STREAMS: Mapping[str, Hook] = {"requestheaders": stream_request, "responseheaders": stream_answer}


class Exchange:
    """One request with its answer, without connections: ``hooks`` stand for addons, which are asked at once unless
    their name is in ``held``."""

    def __init__(self, hooks: Mapping[str, Hook] = STREAMS, held: str = "", **options: Any) -> None:
        bound_input()
        context = Context(tflow.tclient_conn(), Options())
        Proxyserver().load(SimpleNamespace(add_option=context.options.add_option))  # type: ignore[arg-type]
        context.options.update(**options)
        context.server = tflow.tserver_conn()
        HttpLayer(context, HTTPMode.transparent)
        self.stream = FlowingStream(context, 1)
        self.client, self.server = context.client, context.server
        self.questions: list[str] = []
        self.is_dropped = False
        self._hooks, self._held, self._waits = hooks, held, list[commands.StartHook]()
        self._sent: list[SendHttp] = []
        self.run(events.Start())

    def run(self, *given: events.Event) -> None:
        todo = list(given)
        while todo:
            for command in self.stream.handle_event(todo.pop(0)):
                if isinstance(command, SendHttp):
                    self._sent.append(command)
                elif isinstance(command, GetHttpConnection):
                    todo.insert(0, Connected(command, (self.server, None)))
                elif isinstance(command, DropStream):
                    self.is_dropped = True
                elif isinstance(command, commands.StartHook):
                    self.questions.append(command.name)
                    if command.name == self._held:
                        self._waits.append(command)
                    else:
                        todo.insert(0, self._answer(command))

    def _answer(self, hook: commands.StartHook) -> events.Event:
        (flow,) = hook.args()
        self._hooks.get(hook.name, lambda _: None)(flow)
        return events.HookCompleted(hook, None)

    def release(self) -> None:
        self.run(self._answer(self._waits.pop()))

    def begin(self, method: str = "POST", **headers: str) -> None:
        self.run(RequestHeaders(1, _headed(http.Request.make(method, "http://good.example/"), headers), False))

    def answer(self, **headers: str) -> None:
        self.run(ResponseHeaders(1, _headed(http.Response.make(200), headers), False))

    def _to(self, connection: object) -> list[Any]:
        return [own.event for own in self._sent if own.connection is connection]

    def sent(self, *, to_client: bool) -> list[object]:
        """What was sent: data as they are, an answer as its status, all else as its kind."""
        return [_shown(event) for event in self._to(self.client if to_client else self.server)]

    @property
    def heads(self) -> list[http.Response]:
        return [event.response for event in self._to(self.client) if isinstance(event, ResponseHeaders)]


def _headed(message: Any, headers: Mapping[str, str]) -> Any:
    message.data.content = None
    message.headers.clear()
    message.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return message


def _shown(event: Any) -> object:
    if isinstance(event, RequestData | ResponseData):
        return event.data
    return event.response.status_code if isinstance(event, ResponseHeaders) else type(event)


def test_parts_go_on_as_they_come_and_the_addons_are_asked_before() -> None:
    own = Exchange()
    own.begin(content_length="4")
    assert own.questions == ["requestheaders", "request"]
    own.run(RequestData(1, b"ab"))
    assert own.sent(to_client=False) == [RequestHeaders, b"ab"]
    own.run(RequestData(1, b"cd"), RequestEndOfMessage(1))
    assert own.sent(to_client=False) == [RequestHeaders, b"ab", b"cd", RequestEndOfMessage]
    own.answer()
    own.run(ResponseData(1, b"ef"))
    assert own.sent(to_client=True) == [200, b"ef"]
    own.run(ResponseEndOfMessage(1))
    assert own.sent(to_client=True) == [200, b"ef", ResponseEndOfMessage]
    assert own.questions == ["requestheaders", "request", "responseheaders", "response"]
    assert own.is_dropped


def test_nothing_of_a_body_passes_what_came_before_it_while_addons_are_asked() -> None:
    own = Exchange(held="request")
    own.begin(content_length="6")
    own.run(RequestData(1, b"ab"), RequestData(1, b"cd"))
    course = own.stream._request_course
    assert course is not None
    assert (own.sent(to_client=False), course.queued) == ([], 4)
    own.release()
    assert course.queued == 0
    own.run(RequestData(1, b"ef"))
    assert own.sent(to_client=False) == [RequestHeaders, b"ab", b"cd", b"ef"]


@pytest.mark.parametrize(("parts", "status"), [((b"abc", b"de"), 400), ((b"abc",), 400), ((b"abc", b"d"), None)])
def test_a_body_is_as_long_as_its_head_says(parts: tuple[bytes, ...], status: int | None) -> None:
    own = Exchange()
    own.begin(content_length="4")
    own.run(*(RequestData(1, part) for part in parts), RequestEndOfMessage(1))
    assert [head.status_code for head in own.heads] == ([] if status is None else [status])
    assert (RequestProtocolError in own.sent(to_client=False)) is (status is not None)
    assert b"de" not in own.sent(to_client=False)


def test_mitmproxy_s_limit_holds_for_what_is_streamed() -> None:
    own = Exchange(body_size_limit="3")
    own.begin(transfer_encoding="chunked")
    own.run(RequestData(1, b"abc"), RequestData(1, b"d"))
    assert own.sent(to_client=False) == [RequestHeaders, b"abc", RequestProtocolError]
    assert own.sent(to_client=True)[0] == 413
    other = Exchange(body_size_limit="3")
    other.begin(transfer_encoding="chunked")
    other.run(RequestEndOfMessage(1))
    other.answer(transfer_encoding="chunked")
    other.run(ResponseData(1, b"abc"), ResponseData(1, b"d"))
    assert other.sent(to_client=True) == [200, b"abc", ResponseProtocolError]


class ScriptedLook:
    """Says what it is told to say."""

    is_over = False

    def __init__(self, *said: bytes | http.Response | None) -> None:
        self.said = [*said]

    def take(self, octets: bytes, has_ended: bool) -> bytes | http.Response | None:
        return self.said.pop(0)


_NO = http.Response.make(403, b"no")
_REFUSED = [403, b"no", ResponseEndOfMessage]


@each_row(
    ("hooks", "options", "parts", "said", "to_origin", "to_client"),
    [
        ({}, {}, [b"ab"], [None], [], []),
        ({}, {}, [b"ab", b"cd"], [None, b"abc"], [RequestHeaders, b"abc"], []),
        ({}, {}, [b"ab", b"c"], [b"", b"abc"], [RequestHeaders, b"abc"], []),
        ({}, {}, [b"a", b""], [b"", b"a"], [RequestHeaders, b"a", RequestEndOfMessage], []),
        ({}, {}, [b"a", b""], [None, b"a"], [RequestHeaders, b"a", RequestEndOfMessage], []),
        ({"request": refuse}, {}, [b"ab"], [b"ab"], [], _REFUSED),
        ({"request": refuse}, {}, [b"ab", b""], [None, b"ab"], [], _REFUSED),
        ({}, {}, [b"ab", b"x"], [b"ab", _NO], [RequestHeaders, b"ab", RequestProtocolError], _REFUSED),
        ({}, {}, [b"ab", b""], [b"a", _NO], [RequestHeaders, b"a", RequestProtocolError], _REFUSED),
        ({}, {"body_size_limit": "1"}, [b"ab"], [None], [], [413]),
    ],
)
def test_an_upload_goes_on_as_somebody_who_looks_at_it_says(
    hooks: Mapping[str, Hook],
    options: dict[str, str],
    parts: list[bytes],
    said: list[bytes | http.Response | None],
    to_origin: list[object],
    to_client: list[object],
) -> None:
    def hold(flow: http.HTTPFlow) -> None:
        stream_request(flow)
        look_at_upload(flow, ScriptedLook(*said))

    own = Exchange({"requestheaders": hold, **hooks}, **options)
    own.begin(transfer_encoding="chunked")
    own.run(*(RequestData(1, part) if part else RequestEndOfMessage(1) for part in parts))
    assert own.sent(to_client=False) == to_origin
    assert own.sent(to_client=True)[: 1 if to_client == [413] else None] == to_client
    assert own.questions.count("request") == (to_origin != [] or "request" in hooks)


# -- answers before the end --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "ends"),
    [
        ({"content_length": "4"}, False),
        ({"content_length": str(SHORT_BODY + 1)}, True),
        ({"content_length": "4", "expect": "100-continue"}, True),
        ({"transfer_encoding": "chunked"}, True),
    ],
)
def test_a_refused_upload_gets_its_answer_at_its_head_and_reaches_nobody(headers: dict[str, str], ends: bool) -> None:
    own = Exchange({"requestheaders": refuse})
    own.begin(**headers)
    assert own.sent(to_client=True) == [403, b"no", ResponseEndOfMessage]
    assert (own.heads[0].headers.get("connection") == "close") is ends
    own.run(RequestData(1, b"abcd"))
    assert not own.is_dropped
    own.run(RequestEndOfMessage(1))
    assert own.is_dropped
    assert own.sent(to_client=False) == []


@pytest.mark.parametrize("limit", ["MOST_DROPPED", "LONGEST_DROPPING"])
def test_who_goes_on_behind_an_answer_is_cut_off(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flowing_bodies, limit, 3 if limit == "MOST_DROPPED" else -1.0)
    own = Exchange({"requestheaders": refuse})
    own.begin(transfer_encoding="chunked")
    own.run(RequestData(1, b"abcd"))
    assert own.sent(to_client=True)[-1] is ResponseProtocolError
    assert own.is_dropped


@pytest.mark.parametrize("size", [LONGEST_FORM, LONGEST_FORM + 1])
def test_a_form_is_read_before_its_answer_and_no_more(size: int) -> None:
    def show_form(flow: http.HTTPFlow) -> None:
        refuse(flow)
        await_form(flow)

    own = Exchange({"requestheaders": show_form})
    own.begin(transfer_encoding="chunked")
    assert own.sent(to_client=True) == []
    own.run(RequestData(1, bytes(size)))
    assert (own.sent(to_client=True) != []) is (size > LONGEST_FORM)
    own.run(RequestEndOfMessage(1))
    assert [head.status_code for head in own.heads] == [403]
    assert own.sent(to_client=False) == []


def test_an_origin_may_answer_before_the_end_of_an_upload() -> None:
    own = Exchange()
    own.begin(content_length="4")
    own.run(RequestData(1, b"ab"))
    own.answer()
    own.run(ResponseData(1, b"ok"), ResponseEndOfMessage(1))
    assert own.sent(to_client=True) == [200, b"ok", ResponseEndOfMessage]
    assert not own.is_dropped
    own.run(RequestData(1, b"cd"), RequestEndOfMessage(1))
    assert own.sent(to_client=False) == [RequestHeaders, b"ab", b"cd", RequestEndOfMessage]
    assert own.is_dropped


@pytest.mark.parametrize("has_page", [False, True])
def test_who_still_sends_reads_why_the_origin_has_ended(has_page: bool) -> None:
    def show_page(asked: Any) -> None:
        asked.response = http.Response.make(502, b"a page") if has_page else None

    own = Exchange({**STREAMS, "hushlist_unreached": show_page})
    own.begin(content_length="4")
    own.run(RequestData(1, b"ab"), ResponseProtocolError(1, "it has ended", *_GONE))
    status, page, end = own.sent(to_client=True)
    assert (status, end) == (502, ResponseEndOfMessage)
    assert (b"a page" if has_page else b"it has ended") in page  # type: ignore[operator]
    own.run(RequestData(1, b"cd"), RequestEndOfMessage(1))
    assert own.sent(to_client=False) == [RequestHeaders, b"ab"]
    assert own.is_dropped


@each_row("is_late", [False, True])
def test_work_for_a_client_ends_once_that_is_away(is_late: bool) -> None:
    async def steps() -> bool:
        own = Exchange({}, held="request")
        own.begin("GET")
        own.run(RequestEndOfMessage(1))
        flow = own.stream.flow
        away = RequestProtocolError(1, "away", *_GONE)
        if not is_late:
            own.run(away)
        work = asyncio.ensure_future(is_done_for(flow, asyncio.sleep(PATIENCE)))
        for _ in range(3):
            await asyncio.sleep(0)
        if is_late:
            own.run(away)
        return await work

    assert asyncio.run(steps()) is False


def test_work_for_a_client_is_done_or_fails() -> None:
    async def fail() -> None:
        raise ValueError("it fails")

    assert asyncio.run(is_done_for(tflow.tflow(), asyncio.sleep(0)))
    with pytest.raises(ValueError, match="it fails"):
        asyncio.run(is_done_for(tflow.tflow(), fail()))
