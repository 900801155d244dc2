"""Quotas: how many minutes a day a group may use of something.

In: what passes, and the moment. Out: the minutes that are used, and the block when none is left. Open first:
``quotas``, then ``quota_meter``.
"""

from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "quotas",
    policy_keys=(
        Key("quotas", f"{__name__}.quotas:QUOTAS", place="group", default=()).says("""for how many minutes a day or a
            week a category may be used, by its `hrn:` name or a short one: see [Quotas](quotas.md#quotas)"""),
    ),
    part=f"{__name__}.metered_use:MeteredUse",
    part_keys=("quotas",),
    actions=f"{__name__}.actions",
    uses=("databases", "unblock"),
)
