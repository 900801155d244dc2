"""The lists of prefixes that an entry of a policy names, on a server of Safe Browsing."""

from __future__ import annotations

from hushlist.core.lists.list_keys import DEFAULTS_KEYS, SCOPE_KEYS, read_defaults
from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.rule import Action
from hushlist.core.policy.key_types import Reading, flag, names_of
from hushlist.core.policy.list_reader import fields_of_list, scope_of
from hushlist.core.policy.policy_file import ListFile
from hushlist.extensions.safe_browsing.threat_lists import SAFE_BROWSING, ThreatList
from hushlist.extensions.subscriptions.gate_limits import limits_of_policy
from hushlist.extensions.subscriptions.list_sources import copies
from hushlist.extensions.subscriptions.subscription import Subscription

#: what such an entry may have
_KEYS = {"safe-browsing", "optional", *names_of((*DEFAULTS_KEYS, *SCOPE_KEYS))} - {"variant"}


def prefix_files(entry: YamlNode, layer: str, reading: Reading) -> list[ListFile]:
    """The copies of the lists that an entry names."""
    fields = fields_of_list(entry, reading)
    for key in entry.value if isinstance(entry.value, dict) else ():
        if key in fields.keys and key not in _KEYS:
            fields.error(key, "a list of Safe Browsing has none")
    defaults, line = read_defaults(fields), fields.line_of("safe-browsing")
    if defaults.action is Action.ALLOW:
        fields.error("action", "a prefix may fit by chance, and cannot allow")
    is_optional = flag.read(fields, "optional", reading) or False
    service = SAFE_BROWSING.read(fields, "safe-browsing", reading)
    files: list[ListFile] = []
    for threat_list in () if service is None else (ThreatList(service, name) for name in service.lists):
        reading.confirmers[threat_list.key] = threat_list
        terms = defaults._replace(
            title=defaults.title or threat_list.name,
            category=threat_list.category or defaults.category,
            layer=layer,
            seal="",
            confirmer=threat_list.key,
            scope=scope_of(fields, reading),
        )
        subscription = Subscription(
            service.url_of(threat_list.name), is_optional=is_optional, line=line, server=threat_list
        )
        files += copies(subscription, "sha256", terms, limits_of_policy(reading), reading)
    return files
