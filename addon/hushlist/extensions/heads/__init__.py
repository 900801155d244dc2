"""Heads: fields that requests and answers lose or get, and answers that are blocked by their heads.

In: the head of a request that passes, or of its answer. Out: another head, or the block page. Open first:
``head_rules``.
"""

from hushlist.core.extension import Extension, Fact
from hushlist.core.policy.keys import Key
from hushlist.extensions.files import MEDIA_TYPE, WAY

EXTENSION = Extension(
    "heads",
    policy_keys=(
        Key("heads", f"{__name__}.head_rules:HEADS", place="group", default=()).says("""which header fields requests and
            answers lose or get, a list of rules: see [Heads](heads.md#heads)"""),
    ),
    why_decrypt=f"{__name__}.head_rules:why_decrypt",
    needs_decrypted=f"{__name__}.head_rules:needs_decrypted",
    facts=(
        MEDIA_TYPE,
        WAY,
        Fact("status", "STATUS", "the status of the answer, such as 404", "[1-5][0-9]{2}"),
        Fact("fields", "NAMES", "the names of all header fields of the answer, with commas between them"),
    ),
    explainer=f"{__name__}.head_explainer:explain_heads",
    uses=("files", "adblock"),
    part=f"{__name__}.head_changes:HeadChanges",
    part_keys=("heads",),
    part_if="hushlist.core.policy.part_needs:has_dialects",
)
