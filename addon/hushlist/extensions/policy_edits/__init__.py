"""Changing the policy file at the page and by a command: section by section, tried before it holds, and back again.

In: a section's value or text, and which version of it somebody has seen. Out: the file with nothing else changed. Open
first: ``policy_change``, then ``policy_text``; ``policy_trial`` is what another process does.
"""

from hushlist.core.extension import Command, Extension

EXTENSION = Extension(
    "policy_edits",
    commands=(Command(("policy",), f"{__name__}.policy_command", "while the filter runs"),),
    actions=f"{__name__}.actions",
    uses=("journal",),
)
