"""Layers for connections that carry neither HTTP nor decrypted TLS, and when the filter is asked about a connection.

mitmproxy asks what a connection carries when the client has sent something. In many protocols the server speaks first,
and the client waits for it. So the filter is asked when a connection begins, too, by hooks of its own: other addons
expect octets to look at.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from mitmproxy import connection
from mitmproxy.proxy import commands, events, layer, tunnel
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import TCPLayer
from mitmproxy.proxy.layers.http import HttpStream
from mitmproxy.proxy.layers.modes import DestinationKnown, Socks5Proxy

from hushlist.proxy.hook_calls import BegunCoroutine
from hushlist.proxy.object_patches import put_on


class Refused(layer.Layer):
    """Ends the connection."""

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, events.Start):
            yield commands.CloseConnection(self.context.client)


class RefusedAtStart(layer.Layer):
    """Ends a connection that begins: a moment later, since mitmproxy closes no connection that it does not read yet."""

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, events.Start):
            yield commands.RequestWakeup(0)
        elif isinstance(event, events.Wakeup):
            yield commands.CloseConnection(self.context.client)


@dataclass
class HushlistHeldHook(commands.StartHook):
    """Asks the addon, by ``hushlist_held``, to wait for a decision; until then, the layer is paused."""

    held: Awaitable[Any]


@dataclass
class HushlistBegunHook(commands.StartHook):
    """Asks the addon, by ``hushlist_begun``, what is to become of a connection of which only the destination is known.

    If it sets no layer, mitmproxy asks when the client has sent something, as ever.
    """

    data: layer.NextLayer


@dataclass
class SocksRequest:
    """Where a client of SOCKS wants to be connected to, and whether it is told that it cannot be."""

    context: Context
    is_refused: bool


@dataclass
class HushlistSocksHook(commands.StartHook):
    """Asks the addon, by ``hushlist_socks``, before a client of SOCKS is told that it is connected."""

    data: SocksRequest


def sent_by(client: connection.Client, held: Iterable[events.Event]) -> list[bytes]:
    """The chunks that a client has sent."""
    return [event.data for event in held if isinstance(event, events.DataReceived) and event.connection is client]


def decided(deciding: BegunCoroutine[Any]) -> Generator[commands.Command, Any, Any]:
    """The result of a decision that a layer waits for, or ``None`` if the addon could not make it."""
    if not deciding.is_done:
        yield HushlistHeldHook(deciding)
    return deciding.result if deciding.is_done else None


class Held(layer.Layer):
    """Holds back a client's first data until there is enough to decide."""

    def __init__(
        self, chosen: layer.Layer, decide: Callable[[list[bytes]], Coroutine[None, None, layer.Layer | None]]
    ) -> None:
        super().__init__(chosen.context)
        self.context.layers.remove(self)
        self._decide = decide
        self._held: list[events.Event] = []
        self.is_decided = False

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        self._held.append(event)
        if isinstance(event, events.ConnectionClosed):
            yield commands.CloseConnection(self.context.client)
        elif isinstance(event, events.DataReceived):
            deciding = BegunCoroutine(self._decide(sent_by(self.context.client, self._held)))
            child = yield from decided(deciding)
            if not deciding.is_done:
                child = Refused(self.context)
            if child is not None:
                self.is_decided = True
                self._handle_event = child.handle_event  # type: ignore[method-assign]
                for held in self._held:
                    yield from child.handle_event(held)


class LaterAsked(layer.NextLayer):
    """Asks what a connection carries, about which the filter was asked when it began."""


class OneSideEnds(commands.Command):
    """Ends one side of a connection in a tunnel, where mitmproxy would end both: it passes on what it does not know."""

    def __init__(self, end: commands.CloseConnection) -> None:
        self.end = end


class Turn(Enum):
    """What becomes of what an ``EarlyRelay`` holds back."""

    #: it goes on to the server, and nobody reads it
    RELAY = auto()
    #: it is TLS or HTTP, and decided by what is in it
    READ = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Said:
    """What has happened on a connection that is relayed early."""

    sent: list[bytes]
    #: whether the server has sent anything
    is_greeted: bool
    #: whether what the client has sent can still be decided by what is in it
    is_readable: bool
    #: whether the client sends nothing more
    is_whole: bool


class EarlyRelay(layer.Layer):
    """Connects to the server of a connection that nobody has to read, even if its client waits for the server to speak.

    What the client begins with may still be TLS or HTTP. Then another connection to the server is made for it, and this
    one is closed: nothing was sent over it. ``patience``: seconds in which a client that speaks first has begun.
    """

    def __init__(
        self,
        context: Context,
        decide: Callable[[Said], Coroutine[None, None, Turn | None]],
        patience: float,
        *,
        has_flow: bool,
    ) -> None:
        super().__init__(context)
        context.layers.remove(self)
        self._decide, self._patience, self._has_flow = decide, patience, has_flow
        server = context.server
        #: another server than the connection's: that one may still be connected to for TLS or HTTP. In TLS, and behind
        #: another proxy, it is that one: mitmproxy knows it alone
        self._is_apart = not server.tls and server.via is None
        self._server = connection.Server(address=server.address) if self._is_apart else server
        is_tunnel = any(isinstance(above, HttpStream) for above in context.layers)
        self._keeps_sides = not server.tls and is_tunnel and context.client.alpn != b"h2"
        self._wakeup: commands.RequestWakeup | None = None
        self._held: list[events.Event] = []
        self._is_opened = self._is_greeted = False
        self._child: layer.Layer | None = None

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, events.Wakeup) and event.command is self._wakeup:
            if self._child is None:
                yield from self._open()
        elif self._child is not None:
            yield from self._to_child(event)
        elif isinstance(event, events.Start):
            self._held.append(event)
            self._wakeup = commands.RequestWakeup(self._patience)
            yield self._wakeup
        elif isinstance(event, events.DataReceived):
            self._held.append(event)
            self._is_greeted |= event.connection is self._server
            yield from self._ask(is_whole=False)
        elif isinstance(event, events.ConnectionClosed):
            self._held.append(event)
            if event.connection is self._server or (len(self._held) == 2 and not self._is_opened):
                yield from self._end()  # nobody has said anything
            else:
                yield from self._ask(is_whole=True)

    def _open(self) -> layer.CommandGenerator[None]:
        if self._is_opened or self._child is not None:
            return
        self._is_opened = True
        error = yield commands.OpenConnection(self._server)
        if error and self._child is None:
            yield from self._end()

    def _ask(self, *, is_whole: bool) -> layer.CommandGenerator[None]:
        is_readable = not (self._is_opened and not self._is_apart) and not self._is_greeted
        said = Said(sent_by(self.context.client, self._held), self._is_greeted, is_readable, is_whole)
        deciding = BegunCoroutine(self._decide(said))
        turn = yield from decided(deciding)
        if not deciding.is_done or turn is Turn.END:
            yield from self._end()
        elif turn is Turn.READ:
            if self._is_opened:
                yield commands.CloseConnection(self._server)
            yield from self._go_on(LaterAsked(self.context))
        elif turn is Turn.RELAY:
            context = self.context.fork()
            context.server = self._server
            yield from self._go_on(TCPLayer(context, ignore=not self._has_flow))

    def _go_on(self, child: layer.Layer) -> layer.CommandGenerator[None]:
        self._child = child
        held, self._held = self._held, []
        for event in held:
            yield from self._to_child(event)

    def _to_child(self, event: events.Event) -> layer.CommandGenerator[None]:
        assert self._child is not None
        is_of_server = isinstance(event, events.ConnectionEvent) and event.connection is self._server
        if is_of_server and self._is_apart and not isinstance(self._child, TCPLayer):
            return  # of the connection that was closed
        for command in self._child.handle_event(event):
            if self._keeps_sides and isinstance(command, commands.CloseTcpConnection) and command.half_close:
                yield OneSideEnds(command)
            else:
                yield command

    def _end(self) -> layer.CommandGenerator[None]:
        self._child = Refused(self.context)
        self._held = []
        if self._is_opened:
            yield commands.CloseConnection(self._server)
        yield commands.CloseConnection(self.context.client)


# -- what is called in the place of methods of mitmproxy, which it gets first ------------------------------------------


def _ask_at_start(
    handle: Callable[..., layer.CommandGenerator[None]], asking: layer.NextLayer, event: events.Event
) -> layer.CommandGenerator[None]:
    """Ask the filter when a connection begins whose destination is known."""
    is_asked = isinstance(event, events.Start) and not isinstance(asking, LaterAsked)
    if not is_asked or asking._ask_on_start or asking.context.server.address is None:
        yield from handle(asking, event)
        return
    asking.events.append(event)
    rest = asking._ask()
    next(rest)  # the hook of all addons, which would choose by octets that are not there: the next line stands for it
    yield HushlistBegunHook(asking)
    yield from rest


def _ask_before_answer(
    finish: Callable[..., layer.CommandGenerator[str | None]], asking: DestinationKnown
) -> layer.CommandGenerator[str | None]:
    """Ask the filter before a client of SOCKS is told that it is connected."""
    if isinstance(asking, Socks5Proxy):
        request = SocksRequest(asking.context, is_refused=False)
        yield HushlistSocksHook(request)
        if request.is_refused:
            put_on(asking, "_handle_event", asking.done)
            return "refused by hushlist"
    return (yield from finish(asking))


def _end_one_side(
    pass_on: Callable[..., layer.CommandGenerator[None]], stream: HttpStream, event: events.Event
) -> layer.CommandGenerator[None]:
    """Pass a tunnel's octets on, and the end of one side of what is relayed in it."""
    for command in pass_on(stream, event):
        yield command.end if isinstance(command, OneSideEnds) else command


def _end_one_side_upstream(
    handle: Callable[..., layer.CommandGenerator[None]], through: tunnel.TunnelLayer, command: commands.Command
) -> layer.CommandGenerator[None]:
    """End one side of what is relayed through another proxy."""
    if not isinstance(command, OneSideEnds) or command.end.connection != through.conn:
        yield from handle(through, command)
        return
    for led in handle(through, command.end):
        yield OneSideEnds(led) if isinstance(led, commands.CloseConnection) else led


#: as in ``bounds.bounded_http``
WRAPPED = (
    (_ask_at_start, ("_handle_event",), (layer.NextLayer,)),
    (_ask_before_answer, ("finish_start",), (DestinationKnown,)),
    (_end_one_side, ("passthrough",), (HttpStream,)),
    (_end_one_side_upstream, ("_handle_command",), (tunnel.TunnelLayer,)),
)
