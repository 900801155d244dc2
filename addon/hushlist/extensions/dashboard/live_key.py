"""The policy's ``live``: who may see the live page and the metrics."""

from __future__ import annotations

from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.policy.groups import CLIENTS, USERS, ClientConditions
from hushlist.core.policy.key_types import Reading, names_of, read_rows, switch_or
from hushlist.core.policy.keys import Key
from hushlist.core.policy.proxy_settings import LOOPBACK

_LIVE_KEYS = (
    Key("clients", CLIENTS, into="networks").says("""addresses and networks that may see it, besides the machine of
        the proxy itself, by whichever of its addresses"""),
    Key("users", USERS).says("users of the proxy, of whom the client has to be one besides"),
)


def _live(fields: MappingReader, reading: Reading) -> ClientConditions:
    for key in names_of(_LIVE_KEYS):
        fields.refuse_empty(key, f"expected some {key}")  # otherwise it would allow everybody
    conditions = ClientConditions(**read_rows(_LIVE_KEYS, fields, reading))
    # a list of others' addresses must not lock out whoever is at the machine itself
    return conditions._replace(networks=(*LOOPBACK.networks, *conditions.networks))


#: its value is ``None`` for ``off`` and for errors
LIVE = switch_or(_LIVE_KEYS, _live, on=LOOPBACK, name="live")
