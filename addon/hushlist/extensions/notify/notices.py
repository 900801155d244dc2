"""Notices of a proxy: handed to the policy's channels, and the summary of a week."""

from __future__ import annotations

from datetime import UTC, datetime

from hushlist.core.extension import Notice
from hushlist.core.policy.policy_file import Policy
from hushlist.extensions.notify.notifier import Notifier
from hushlist.extensions.notify.weekly_summary import send_weekly_summary
from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime


class Notices(Part):
    """Tells people by the policy's channels."""

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        self.notifier = Notifier()

    def follow(self, policy: Policy) -> None:
        """Use the policy's channels."""
        self.notifier.use(policy.of("notify"))

    def send(self, notice: Notice) -> None:
        """Hand a notice over."""
        self.notifier.send(notice)

    def watch(self, policy: Policy) -> None:
        """Send the summary if a week has begun."""
        send_weekly_summary(self._runtime, datetime.now(UTC))

    def close(self) -> None:
        """Stop; what still waits is not sent."""
        self.notifier.close()
