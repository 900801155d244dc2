"""Lists that have a URL: fetched, verified, compared with the version in force by the gate, kept, and rolled back.

In: a list's address. Out: its good copies, and what became of an update. Open first: ``subscription``, then
``list_update``.
"""

from hushlist.core.extension import Command, Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "subscriptions",
    policy_keys=(
        Key("gate", f"{__name__}.gate_limits:GATE").says("""how much a list may change before it is held back, and its
            last good copy stays in force: `on` (the default), `off` or a mapping: see [Changes](lists.md#changes)"""),
    ),
    commands=(Command(("update", "lists"), f"{__name__}.update_command", "while the filter runs"),),
)
