"""Alerts: people are told of what a policy names, once and with a count, and again until somebody has seen it.

In: decisions that were made, and what else happens in a proxy. Out: notices by the channels of ``notify``. A request
only appends to a queue; a thread counts, in the store that all proxies share. Open first: ``alert_keys``, then
``alert_book``; ``alert_part`` has the thread.
"""

from hushlist.core.extension import Command, Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "alerts",
    policy_keys=(
        Key("alerts", f"{__name__}.alert_keys:ALERTS", default=()).says("""of what people are told who are away: a list,
            each with what it is about and who is told: see [Alerts](alerts.md)"""),
    ),
    commands=(Command(("alerts",), f"{__name__}.alerts_command", "while the filter runs"),),
    part=f"{__name__}.alert_part:AlertPart",
    part_keys=("alerts",),
    actions=f"{__name__}.actions",
    uses=("databases", "journal", "unblock", "searches", "notify"),
)
