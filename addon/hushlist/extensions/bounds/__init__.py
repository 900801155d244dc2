"""Bounds of what mitmproxy, and what it reads protocols by, keep of a peer's input; and ends of what it sends.

In: nothing; ``bound_input`` puts bounded readers in the place of mitmproxy's own, once for a process. Out: an error of
the protocol where a peer sends too much. Open first: ``bounded_input``, then the module of a protocol.
"""

from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "bounds",
    policy_keys=(
        Key("require-patches", "hushlist.core.policy.key_types:switch", default=False).says("""what becomes of a start
            with a mitmproxy in which a name is missing that the filter replaces, to bound what clients may send: `off`
            (the default), it is logged, and told by `/readyz` and `hushlist doctor`; `on`, the start ends with an
            error: see [mitmproxy itself](failures.md#mitmproxy-itself)"""),
    ),
    uses=("workers",),
)
