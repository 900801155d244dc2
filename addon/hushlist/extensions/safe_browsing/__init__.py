"""The Safe Browsing protocols, v4 and v5: messages, Rice coding, and lists of hash prefixes with their updates.

In: the octets of a request or an answer. Out: messages, and the list that an update makes. It does no input or output.
Open first: ``prefix_list``, then ``list_updates``.

What the client and the server of the protocols use:

- ``prefix_list``: ``PrefixList(prefixes, state, checksum)`` and its ``updated(PrefixUpdate)``; ``difference``
- ``list_updates``: ``update_of_v4``, ``update_of_v5`` and, for a server, ``update_to_v4``, ``update_to_v5``
- ``v4_messages``, ``v5_messages``: the messages as frozen dataclasses
- ``wire_format``: ``encode_message``, ``decode_message``, ``message_to_json``, ``message_of_json``, ``decode_json``
- ``rice_coding``: ``rice_encode``, ``rice_decode``

All that cannot be used is an ``errors.MessageError``.
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
