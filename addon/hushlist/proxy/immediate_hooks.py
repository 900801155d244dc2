"""Hooks that wait for nobody are called at once.

mitmproxy makes a task for each hook, and goes on in another one when it has ended: two rounds of the event loop, each
of which asks the kernel what has happened. A request has four hooks, and most wait for nobody. Here they are called
between the events of a connection, and only what is left waits in a task of mitmproxy's.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from mitmproxy import http
from mitmproxy.addonmanager import traverse
from mitmproxy.addons.onboarding import Onboarding
from mitmproxy.log import LegacyLogEvents
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.mode_servers import ProxyConnectionHandler

from hushlist.proxy.hook_calls import calls_of

#: hooks of one event that are called at once; those behind them let other clients have their turn first, each of them
IN_A_ROW = 8
#: octets of memory that an event takes besides its data
OF_AN_EVENT = 256
#: by which a hook has that it did
_LATE = "hushlist_late"


class HookedLayer:
    """Stands before the first layer of a connection, and calls the hooks that this one asks for."""

    def __init__(self, handler: ProxyConnectionHandler) -> None:
        self._handler: Any = handler
        self._first = handler.layer
        self.context = self._first.context
        #: hooks that have tasks, and the octets that came since there are some, and perhaps wait for them
        self._late, self.octets = 0, 0

    def handle_event(self, event: events.Event) -> Iterator[commands.Command]:
        """Handle an event, and those that follow from its hooks; what mitmproxy has to do."""
        if isinstance(event, events.HookCompleted):
            self._late -= 1
        elif isinstance(event, events.DataReceived):
            self.octets += len(event.data) + OF_AN_EVENT
        io = self._handler.transports.get(self._handler.client)
        # when a connection begins, mitmproxy cannot end it yet, as may follow from a hook; from 12 on, it reads by then
        is_new, is_late = io is not None and io.handler is None, hasattr(getattr(event, "command", None), _LATE)
        waiting, left = deque((event,)), 0 if is_new or is_late else IN_A_ROW
        while waiting and self._handler.layer is self:  # else a hook has ended the connection
            hooks = []
            try:
                for command in self._first.handle_event(waiting.popleft()):
                    if isinstance(command, commands.StartHook):
                        hooks.append(command)
                    else:
                        yield command
            except Exception:  # mitmproxy logs it; other requests of the connection go on
                yield from hooks
                raise
            for hook in hooks:
                calls = calls_of(self._handler.master.addons)
                if left and calls is not None and calls.call_now(hook):
                    left -= 1
                    if hook.blocking:
                        waiting.append(events.HookCompleted(hook))
                else:
                    if not (left or is_new):
                        setattr(hook, _LATE, True)
                    self._late += 1
                    yield hook
        if not self._late:
            self.octets = 0


async def _call_hooks_at_once(serve: Callable[..., Awaitable[None]], handler: ProxyConnectionHandler) -> None:
    """Serve a connection, and call the hooks that wait for nobody without a task for each."""
    handler.layer = HookedLayer(handler)  # type: ignore[assignment]
    await serve(handler)


def _serve_pages(
    serve: Callable[..., Awaitable[None]], onboarding: Onboarding, flow: http.HTTPFlow
) -> Awaitable[None] | None:
    """Answer a request for mitmproxy's own pages; for any other, there is nothing to wait for."""
    return serve(onboarding, flow) if onboarding.should_serve(flow) else None


def _tell_listeners(emit: Callable[..., None], events: LegacyLogEvents, record: logging.LogRecord) -> None:
    """Tell of a message by the hook `add_log`, if an addon has it: a connection has four messages."""
    try:
        is_heard = any(hasattr(addon, "add_log") for addon in traverse(events.master.addons.chain))
    except Exception:  # of an addon; whoever calls it says so
        is_heard = True
    if is_heard:
        emit(events, record)


#: as in ``bounded_http``
WRAPPED = (
    (_call_hooks_at_once, ("handle_client",), (ProxyConnectionHandler,)),
    (_serve_pages, ("request",), (Onboarding,)),
    (_tell_listeners, ("emit",), (LegacyLogEvents,)),
)
