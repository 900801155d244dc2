"""What others want of bodies that go on while they arrive: looks at them, forms, and work that ends with its client.

``flowing_bodies`` has the streams themselves, and does what is noted here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary, WeakSet

from mitmproxy import http

#: octets of a form, which is read before its answer
LONGEST_FORM = 1 << 16
#: flows with an answer that a form may replace, which has still to arrive
awaiting_form: WeakSet[http.HTTPFlow] = WeakSet()


class AnswerLook(NamedTuple):
    """A look at the beginning of an answer's body, before its head goes on."""

    #: whether it is enough that these octets have come, and so many in all
    is_enough: Callable[[bytes, int], bool]
    #: all of them, and whether they are the whole body -> the answer that replaces it, or ``None``; perhaps later
    look: Callable[[bytes, bool], http.Response | Awaitable[http.Response | None] | None]
    #: whether it may take long, so that the client gets the head and an octet now and then
    is_slow: bool
    #: the answer while it takes long, once the body is whole, which is the last that the stream has of it: the look,
    #: and all of the body -> that answer, or ``None``
    meanwhile: Callable[[asyncio.Task[http.Response | None], bytes], http.Response | None] | None


answer_looks: WeakKeyDictionary[http.HTTPFlow, AnswerLook] = WeakKeyDictionary()


class UploadLook(Protocol):
    """A look at the body of a request while it comes, of which it says how much may go on."""

    def take(self, octets: bytes, has_ended: bool) -> bytes | http.Response | None:
        """What goes on once these octets have come, or were the last; ``None``: not even the head, yet.

        Once something has gone on, an answer ends the request, of which the origin never gets the end.
        """

    @property
    def is_over(self) -> bool:
        """Whether it has seen enough, and holds nothing."""


upload_looks: WeakKeyDictionary[http.HTTPFlow, UploadLook] = WeakKeyDictionary()
#: what is cancelled once the client of a request is away, and the requests whose clients are
_for_clients: WeakKeyDictionary[http.HTTPFlow, asyncio.Task[Any]] = WeakKeyDictionary()
_without_client: WeakSet[http.HTTPFlow] = WeakSet()


def begun_for(exchange: http.HTTPFlow, work: Awaitable[Any]) -> asyncio.Task[Any]:
    """Work that nobody but the client of a request needs: it ends with its client."""
    task = _for_clients[exchange] = asyncio.ensure_future(work)
    if exchange in _without_client:
        task.cancel()
    return task


def forget(exchange: http.HTTPFlow) -> None:
    """Note that the work for a request's client is done."""
    _for_clients.pop(exchange, None)


def end_for_client(exchange: http.HTTPFlow) -> None:
    """End what nobody but the client of a request needs, now and from now on: it is away."""
    _without_client.add(exchange)
    if (task := _for_clients.pop(exchange, None)) is not None:
        task.cancel()


async def is_done_for(exchange: http.HTTPFlow, work: Awaitable[None]) -> bool:
    """Do what nobody but the client of a request needs; false if the client went away before its end."""
    task = begun_for(exchange, work)
    try:
        await asyncio.wait({task})
    finally:
        task.cancel()
    if task.cancelled():
        return False
    task.result()
    return True


def look_at_upload(upload: http.HTTPFlow, look: UploadLook) -> None:
    """Have a request whose body is streamed wait, in ``requestheaders``, for what a look at it says.

    ``request`` is asked when the first of it may go on.
    """
    upload_looks[upload] = look


def await_form(answered: http.HTTPFlow) -> None:
    """Have a flow wait for its body though it has an answer, as long as that is no longer than a form."""
    awaiting_form.add(answered)


def look_at_answer(
    answered: http.HTTPFlow,
    is_enough: Callable[[bytes, int], bool],
    look: Callable[[bytes, bool], http.Response | Awaitable[http.Response | None] | None],
    *,
    is_slow: bool = False,
    meanwhile: Callable[[asyncio.Task[http.Response | None], bytes], http.Response | None] | None = None,
) -> None:
    """Have an answer wait, in ``responseheaders``, until enough octets of its body have come to look at.

    ``look`` gets them, and whether they are all; what it returns is the answer in place of the origin's. If the client
    has got some of it meanwhile, it ends there instead. The first look at an answer stays. ``meanwhile``: as in
    ``AnswerLook``.
    """
    if answered not in answer_looks:
        answer_looks[answered] = AnswerLook(is_enough, look, is_slow, meanwhile)
