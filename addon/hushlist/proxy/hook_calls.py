"""Has mitmproxy call a hook only in the addons that may have it.

For each hook, mitmproxy makes a coroutine, a generator and a context manager for each of some forty addons, to find
that most do not have it: nearly half of the instructions of a request.
"""

from __future__ import annotations

from mitmproxy.addonmanager import AddonManager, safecall
from mitmproxy.exceptions import AddonHalt
from mitmproxy.hooks import Hook

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
