"""Safe search: which host or parameter makes a search service leave out what is not for children.

In: a request. Out: the host or the query that it gets instead. Open first: ``safe_search``.
"""

from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "safe_search",
    part=f"{__name__}.searches:Searches",
    part_keys=("safe-search",),
    why_decrypt=f"{__name__}.safe_search:why_decrypt",
    policy_keys=(
        Key("safe-search", f"{__name__}.safe_search:SAFE_SEARCH", place="group", default={}).says("""from which
            services safe results are requested: see [Safe search](network.md#safe-search)"""),
    ),
)
