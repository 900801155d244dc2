"""The Safe Browsing protocols, v4 and v5: messages, Rice coding, and lists of hash prefixes with their updates.

In: the octets of a request or an answer. Out: messages, and the list that an update makes. All that cannot be used is
an ``errors.MessageError``. Open first: ``prefix_list``, then ``list_updates``; ``prefix_service`` asks a server.
"""

from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "safe_browsing",
    policy_keys=(
        Key(
            "safe-browsing",
            f"{__name__}.threat_lists:SAFE_BROWSING",
            place="list",
            files=f"{__name__}.named_lists:prefix_files",
        ).says("""lists that stay on a server, with only prefixes of their hashes here, instead of `file` and `url`:
            see [Safe Browsing](safe-browsing.md)"""),
    ),
    part=f"{__name__}.questions:Questions",
    part_if="hushlist.core.policy.part_needs:has_confirmers",
    uses=("subscriptions",),
)
