"""What ``with`` may say in a policy and in a list; reading it needs nothing of the proxy."""

from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.policy.key_types import Reading, choice
from hushlist.core.policy.keys import Type

#: what allowed pages load passes; frames in them do, too
NEEDS, FRAMES = "needs", "needs-and-frames"
WITH = choice((NEEDS, FRAMES))


def _read_of_rule(fields: MappingReader, key: str, reading: Reading) -> str | None:
    way: str | None = WITH.read(fields, key, reading)
    if "action" in fields and fields.text("action") != "allow":
        fields.error(key, "only a rule that allows has pages that load something")
        return None
    return way


OF_RULE = Type(_read_of_rule, WITH.schema)
