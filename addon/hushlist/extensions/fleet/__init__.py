"""The proxies that share a store: what each says of itself, and which of them differ from the others.

In: a ``ProxyRecord`` of each proxy, again and again. Out: all of them, and what is wrong with each. Open first:
``proxy_records``.
"""

from hushlist.core.extension import Command, Extension

EXTENSION = Extension(
    "fleet",
    part=f"{__name__}.heartbeat:Heartbeat",
    commands=(Command(("fleet", "store"), f"{__name__}.fleet_commands", "while the filter runs"),),
    uses=("databases", "subscriptions"),
)
