"""Hooks are called only in the addons that may have them, and wait only where they have to.

For each hook, mitmproxy makes a coroutine, a generator and a context manager for each of some forty addons, to find
that most do not have it: nearly half of the instructions of a request.

A hook may be a coroutine. Most decisions wait for nobody, and are made when the hook returns, as if it were none; the
few that ask a server first hold their own flow, and nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from mitmproxy.addonmanager import AddonManager, safecall
from mitmproxy.exceptions import AddonHalt
from mitmproxy.hooks import Hook

_Result = TypeVar("_Result")

_NAME = "trigger_event"


def skip_addons_without_hook(addons: AddonManager) -> None:
    """Have these addons called as by mitmproxy's ``trigger_event``, but for those that it would call nothing in."""

    async def trigger_event(event: Hook) -> None:
        name = event.name
        for addon in addons.chain:
            try:
                may_have = hasattr(addon, name) or hasattr(addon, "addons")
            except Exception:
                may_have = True
            if may_have:
                try:
                    with safecall():
                        await addons.invoke_addon(addon, event)
                except AddonHalt:
                    return

    setattr(addons, _NAME, trigger_event)


def ask_every_addon(addons: AddonManager) -> None:
    """Have mitmproxy's own ``trigger_event`` again."""
    vars(addons).pop(_NAME, None)


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
