"""Hooks are called only in the addons that have them, wait only where they have to, and never without the filter.

For each hook, mitmproxy makes a coroutine, a generator and a context manager for each of some forty addons, to find
that most do not have it: more than half of the instructions of a request. And it calls no further addon of a script, or
of the scripts behind it, where one of them fails. Here, one pass over all addons finds those that have a hook, each
time: nothing is kept of it, so no change of the addons can be missed.

A hook may be a coroutine. Most decisions wait for nobody, and are made when the hook returns, as if it were none; the
few that ask a server first hold their own flow, and nothing else. What waits for nobody needs no task: see
``immediate_hooks``.

Whatever becomes of the script that has the filter, and of the addons before it: the filter is asked, or it was taken
out of a mitmproxy that runs. Then whatever would pass is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Coroutine, Generator, Iterable, Sequence
from contextlib import suppress
from itertools import compress
from types import ModuleType, coroutine
from typing import Any, Generic, TypeVar

from mitmproxy import connection, dns, flow, http
from mitmproxy.addonmanager import AddonManager, safecall
from mitmproxy.exceptions import AddonHalt
from mitmproxy.hooks import Hook, UpdateHook
from mitmproxy.net.dns import response_codes
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.core.errors import logger_of
from hushlist.proxy.connections.client_connections import all_connections, end_connection
from hushlist.proxy.object_patches import put_on

logger = logger_of(__name__)

_Result = TypeVar("_Result")

_NAME = "trigger_event"
#: by which an event has the calls of its hooks that have begun
_BEGUN = "hushlist_begun"
#: hooks that tell of what has happened: they let nothing pass that waits for them
_TOLD_AFTERWARDS = frozenset(
    {
        *("client_disconnected", "server_connected", "server_connect_error", "server_disconnected"),
        *("responseheaders", "response", "error", "http_connected", "http_connect_error", "websocket_end"),
        *("tls_established_client", "tls_established_server", "tls_failed_client", "tls_failed_server"),
        *("tcp_end", "tcp_error", "udp_end", "udp_error", "dns_response", "dns_error"),
    }
)
_GONE = "the filter was taken out of mitmproxy while it ran"


class HookCalls:
    """mitmproxy's way to the hooks of one ``AddonManager``, from the first filter on that it has."""

    def __init__(self, addons: AddonManager) -> None:
        self._addons = addons
        #: the filter that is asked; ``None``: it was taken out
        self.filter: Any = None

    def call_now(self, event: Hook) -> bool:
        """Call the hooks of an event as far as none waits; whether nothing is left for ``handle_lifecycle``."""
        (subject,) = arguments = event.args()
        begun = BegunCoroutine(self._handle(event, arguments))
        if begun.is_done and not (isinstance(subject, flow.Flow) and subject.intercepted):
            return True
        setattr(event, _BEGUN, begun)
        return False

    async def handle_lifecycle(self, event: Hook) -> None:
        """Call the hooks of an event, and then those that hear of whatever happens to a flow."""
        await (getattr(event, _BEGUN, None) or self._handle(event, event.args()))

    async def _handle(self, event: Hook, arguments: Sequence[Any]) -> None:
        addons = _with_nested(self._addons.chain)
        await self._trigger(event, arguments, addons)
        (subject, *_) = arguments
        if isinstance(subject, flow.Flow) and any(_hooks(addons, UpdateHook.name)):
            update = UpdateHook([subject])
            await self._trigger(update, update.args(), addons)

    async def trigger_event(self, event: Hook) -> None:
        """Call the hooks of an event."""
        await self._trigger(event, event.args(), _with_nested(self._addons.chain))

    async def _trigger(self, event: Hook, arguments: Sequence[Any], addons: Sequence[Any]) -> None:
        """Call each hook, as mitmproxy does; and that of the filter, whatever the addons before it do."""
        name, filter_ = event.name, self.filter
        unasked = getattr(filter_, name, None)
        hooks = _hooks(addons, name)
        for addon, hook in compress(zip(addons, hooks, strict=True), hooks):
            if addon is filter_:
                unasked = None
            elif isinstance(hook, ModuleType):
                continue  # a script has imported a module of this name
            try:
                waits = hook(*arguments)
                if waits is not None and inspect.isawaitable(waits):
                    await _next_step()
                    await waits
            except AddonHalt:
                break
            except Exception:
                with safecall():  # logs it, or lets it pass
                    raise
        if unasked is not None:
            with suppress(AddonHalt), safecall():
                if (waits := unasked(*arguments)) is not None:
                    await _next_step()
                    await waits
        elif filter_ is None and name not in _TOLD_AFTERWARDS:
            refuse_undecided(event)


def _with_nested(addons: Iterable[Any]) -> list[Any]:
    """Addons, each followed by those within it, as they are now: one may come, go, or be another at any time."""
    every: list[Any] = []
    for addon in addons:
        every.append(addon)
        try:
            if within := getattr(addon, "addons", None):
                every += _with_nested(map(_names_of, within))
        except Exception:
            with safecall():
                raise
    return every


def _hooks(addons: Iterable[Any], name: str) -> list[Any]:
    """The hook of each addon, or ``None``, as it is now: an addon may get another one, or lose it, at any time."""
    try:
        return [getattr(addon, name, None) for addon in addons]
    except Exception:  # of one, which is logged
        hooks: list[Any] = []
        for addon in addons:
            hooks.append(None)
            with safecall():
                hooks[-1] = getattr(addon, name, None)
        return hooks


@coroutine
def _next_step() -> Generator[None, None, None]:
    """Stop once, so that ``call_now`` begins nothing that waits: that may be bound to the task in which it begins."""
    yield


class _Names:
    """The names of a module: Python takes twenty times as long to see that the module itself has none."""

    def __init__(self, module: ModuleType) -> None:
        self.__dict__ = vars(module)


def _names_of(addon: Any) -> Any:
    """An addon, or the names of a script; one that makes names when they are looked for, has to be looked at itself."""
    is_plain = type(addon) is ModuleType and "__getattr__" not in vars(addon)
    return _Names(addon) if is_plain else addon


def ask_the_filter(addons: AddonManager, filter_: object) -> None:
    """Have a filter asked at each hook, from now on."""
    calls = calls_of(addons)
    if calls is None:
        calls = HookCalls(addons)
        put_on(addons, _NAME, calls.trigger_event)
        put_on(addons, "handle_lifecycle", calls.handle_lifecycle)
    calls.filter = filter_


def filter_is_gone(addons: AddonManager, filter_: object) -> bool:
    """Have everything refused, since the filter was taken out, or mitmproxy ends; whether it was asked until now."""
    calls = calls_of(addons)
    if calls is None or calls.filter is not filter_:
        return False
    calls.filter = None
    return True


def calls_of(addons: AddonManager) -> HookCalls | None:
    """The way to the hooks that a filter has put there, if one has."""
    calls = getattr(vars(addons).get(_NAME), "__self__", None)
    return calls if isinstance(calls, HookCalls) else None


def end_what_is_open() -> None:
    """End all that clients have open: what is relayed asks nobody any more."""
    for handler in all_connections():
        end_connection(handler.client)


def refuse_undecided(event: Hook) -> None:
    """Refuse what nobody has decided: a request, a connection, or what is to be connected to."""
    for subject in event.args()[:1]:
        if isinstance(subject, http.HTTPFlow) and subject.websocket is None:
            if subject.live and subject.response is None and subject.error is None:
                subject.response = http.Response.make(503, f"{_GONE}\n", {"Content-Type": "text/plain"})
        elif isinstance(subject, dns.DNSFlow):
            if subject.live and subject.response is None:
                subject.response = subject.request.fail(response_codes.SERVFAIL)
        elif isinstance(subject, flow.Flow):
            if subject.killable:
                subject.kill()
        elif isinstance(subject, connection.Client):
            subject.error = _GONE
        elif isinstance(subject, ServerConnectionHookData):
            subject.server.error = _GONE
        else:
            client = getattr(getattr(subject, "context", None), "client", None)
            if isinstance(client, connection.Client):
                end_connection(client)


class BegunCoroutine(Awaitable[_Result], Generic[_Result]):
    """A coroutine that has run as far as it could; what it raised until then is raised here."""

    def __init__(self, coroutine: Coroutine[Any, Any, _Result]) -> None:
        self._coroutine = coroutine
        self._waits_for: Any = None
        #: whether it has ended, and with which result
        self.is_done = False
        self.result: _Result | None = None
        try:
            self._waits_for = coroutine.send(None)
        except StopIteration as end:
            self.is_done, self.result = True, end.value

    def __await__(self) -> Generator[Any, Any, _Result]:
        """The rest of it."""
        waits_for = self._waits_for
        try:
            while not self.is_done:
                try:
                    sent = yield waits_for
                except BaseException as error:
                    waits_for = self._coroutine.throw(error)
                else:
                    waits_for = self._coroutine.send(sent)
        except StopIteration as end:
            self.is_done, self.result = True, end.value
        return self.result  # type: ignore[return-value]  # it is done


def begin(coroutine: Coroutine[Any, Any, None]) -> Awaitable[None] | None:
    """What a hook returns for a coroutine: the rest of it, or ``None`` if nothing is left."""
    begun = BegunCoroutine(coroutine)
    return None if begun.is_done else begun
