"""Heads: fields that requests and answers lose or get, and answers that are blocked by their heads.

In: the head of a request that passes, or of its answer. Out: another head, or the block page. Open first:
``head_rules``.
"""

from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "heads",
    policy_keys=(
        Key("heads", f"{__name__}.head_rules:HEADS", place="group", default=()).says("""which header fields requests and
            answers lose or get, a list of rules: see [Heads](heads.md#heads)"""),
    ),
    why_decrypt=f"{__name__}.head_rules:why_decrypt",
    part=f"{__name__}.head_changes:HeadChanges",
)
