"""Quotas: how many minutes a day a group may use of something.

In: what passes, and the moment. Out: the minutes that are used, and the block when none is left. Open first:
``quotas``, then ``quota_meter``.
"""

from hushlist.core.extension import Extension

EXTENSION = Extension("quotas", part=f"{__name__}.metered_use:MeteredUse")
