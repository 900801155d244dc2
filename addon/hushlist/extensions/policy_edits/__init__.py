"""Changing the policy file at the page and by a command: section by section, tried before it holds, and back again.

In: a section's value or text, and which version of it somebody has seen. Out: the file with nothing else changed. Open
first: ``policy_change``, then ``policy_text``; ``policy_trial`` is what another process does.
"""

from hushlist.core.extension import Extension

EXTENSION = Extension(
    "policy_edits",
    actions=f"{__name__}.actions",
    uses=("journal",),
)
