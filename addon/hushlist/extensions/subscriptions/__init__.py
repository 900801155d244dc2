"""Lists that have a URL: fetched, verified, compared with the version in force by the gate, kept, and rolled back.

In: a list's address. Out: its good copies, and what became of an update. Open first: ``subscription``, then
``list_update``.
"""

from hushlist.core.extension import Command, Extension

EXTENSION = Extension(
    "subscriptions",
    commands=(Command(("update", "lists"), f"{__name__}.update_command", "while the filter runs"),),
)
