"""What extensions do in a proxy: the part of each, and the moments at which the proxy calls it.

A part is made once, with the proxy's ``Runtime``, and lives as long as the proxy. Its class has the moments below that
it needs, and nothing is called in parts that have none; so an extension that is not in use costs a request nothing.
The moments of a request, in order: ``answer``, ``claims``, the decision, ``passed`` or ``refused``, ``take``, the
decision again if anything has changed, ``request``, ``responseheaders``, ``response``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from mitmproxy import connection, http

from hushlist.core.decide.decision import Judgement
from hushlist.core.extension import ALL_BUILT_IN, Extension, extensions_named, load
from hushlist.proxy.page.pages import Unblock

if TYPE_CHECKING:
    from hushlist.proxy.flow_request import SelfConnections
    from hushlist.proxy.runtime import Runtime


class Part:
    """What an extension does in a proxy; a subclass has those of these moments that it needs."""

    #: hosts that the proxy itself answers for, in lower case
    hosts: frozenset[str] = frozenset()

    def __init__(self, runtime: Runtime, loops: SelfConnections) -> None:
        """``loops``: the proxy's connections to itself."""

    # -- life ----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Once, when mitmproxy loads the filter."""

    def configured(self) -> None:
        """After mitmproxy's options have changed."""

    def running(self) -> None:
        """In the event loop, once mitmproxy listens."""

    def summary(self) -> str:
        """Lines for people, at the end; nothing if there is nothing to say."""
        raise NotImplementedError

    def leave(self) -> None:
        """At the end: begin to end, without waiting."""

    def close(self) -> None:
        """At the end, after ``leave`` of all: stop threads, and write all data; may wait for a moment."""

    # -- requests ------------------------------------------------------------------------------------------------

    def answer(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """A request's head has arrived: answer what is for the filter; it is decided if it is then still open."""
        raise NotImplementedError

    def claims(self, request: http.Request) -> bool:
        """Whether a request is for the filter although it goes to an origin's path: no origin may see it."""
        raise NotImplementedError

    def offer(self, request: http.Request, judgement: Judgement) -> Unblock | None:
        """What the block page offers for a stopped request."""
        raise NotImplementedError

    def refused(self, flow: http.HTTPFlow, judgement: Judgement | None) -> None:
        """A request was answered with a page; ``None``: a claimed one, which the filter does not decide: answer it."""

    def passed(
        self,
        used: http.HTTPFlow | connection.Client,
        client: connection.Client,
        judgement: Judgement,
        *,
        goes_on: bool = False,
    ) -> None:
        """A request, or a connection that is not decrypted, is let through; ``goes_on``: it was before, too."""

    async def look(self) -> None:
        """Once a second."""

    def take(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """A request is whole, body included, and is not yet decided again: answer what waits for that."""
        raise NotImplementedError

    def request(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """mitmproxy's hook, after the decision."""
        raise NotImplementedError

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """mitmproxy's hook."""


_Part = TypeVar("_Part", bound=Part)
_Answering = tuple[Callable[[http.HTTPFlow], Awaitable[None] | None], ...]


class Parts:
    """The parts of the extensions in use; an attribute a moment, with the methods to call."""

    def __init__(self, runtime: Runtime, loops: SelfConnections) -> None:
        self._made = dict[str, Part]()
        self._make: Callable[[Extension], Part] = lambda extension: load(extension.part)(runtime, loops)
        self.use([ALL_BUILT_IN])

    def use(self, names: Iterable[str]) -> None:
        """Call the parts of a policy's ``extensions`` from now on, and no others.

        Raises:
            ExtensionError: a name is of none.
        """
        chosen = [each for each in extensions_named(names) if each.part]
        new = [each for each in chosen if each.name not in self._made]
        self._made |= {each.name: self._make(each) for each in new}
        self._in_use: list[Part] = [self._made[each.name] for each in chosen]
        self.hosts = frozenset(host for part in self._in_use for host in part.hosts)
        self.load, self.configured, self.running = map(self._calls, ("load", "configured", "running"))
        self.summary, self.leave, self.close = map(self._calls, ("summary", "leave", "close"))
        self.answer: _Answering = self._calls("answer")
        self.take: _Answering = self._calls("take")
        self.request: _Answering = self._calls("request")
        self.claims: tuple[Callable[[http.Request], bool], ...] = self._calls("claims")
        self.offer: tuple[Callable[[http.Request, Judgement], Unblock | None], ...] = self._calls("offer")
        self.passed, self.refused, self.look = map(self._calls, ("passed", "refused", "look"))
        self.responseheaders: tuple[Callable[[http.HTTPFlow], None], ...] = self._calls("responseheaders")

    def _calls(self, moment: str) -> tuple[Any, ...]:
        having = (part for part in self._in_use if getattr(type(part), moment) is not getattr(Part, moment))
        return tuple(getattr(part, moment) for part in having)

    def of(self, kind: type[_Part]) -> _Part | None:
        """The part of one class; ``None`` if its extension is not in use."""
        return next((part for part in self._in_use if isinstance(part, kind)), None)
