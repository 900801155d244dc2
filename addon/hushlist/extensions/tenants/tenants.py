"""The policy's ``tenants``: services that are told whose accounts they may let in, and by which header fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hushlist.core.extension import DecryptedNeed
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.groups import GroupSettings
from hushlist.core.policy.key_types import TEXT, Reading, any_text, choice, list_of, names_of, of_node, schema_of_rows
from hushlist.core.policy.keys import Key, Type
from hushlist.core.policy.pass_through import HostSet
from hushlist.core.url.header_names import is_believed
from hushlist.core.url.host import is_plain_name, to_ascii
from hushlist.core.url.parts import to_bytes

#: what a field's value may have, and nothing that ends it
_VALUE = re.compile(r"[!-~](?:[ -~]{0,200}[!-~])?")


class TenantService(NamedTuple):
    """A service that can be told."""

    #: each with all hosts below it
    hosts: tuple[str, ...]
    #: the field for the tenants that are allowed, with commas between them; and that for the directory that asks
    allow: str = ""
    directory: str = ""
    #: fields that are always the same
    fixed: tuple[tuple[str, str], ...] = ()


SERVICES: Mapping[str, TenantService] = {
    # Source: support.google.com/a/answer/1668854, Block access to consumer accounts
    "google": TenantService(("google.com",), "X-GoogApps-Allowed-Domains"),
    # Source: learn.microsoft.com/entra/identity/enterprise-apps/tenant-restrictions
    "microsoft": TenantService(
        ("login.microsoftonline.com", "login.microsoft.com", "login.windows.net"),
        "Restrict-Access-To-Tenants",
        "Restrict-Access-Context",
    ),
    # Source: the same document, Blocking consumer applications
    "microsoft-personal": TenantService(
        ("login.live.com",), fixed=(("sec-Restrict-Tenant-Access-Policy", "restrict-msa"),)
    ),
    # Source: slack.com/help/articles/360024821873, Approve Slack workspaces for your network
    "slack": TenantService(("slack.com",), "X-Slack-Allowed-Workspaces", "X-Slack-Allowed-Workspaces-Requester"),
    # Source: help.dropbox.com/security/network-control
    "dropbox": TenantService(("dropbox.com",), "X-Dropbox-allowed-Team-Ids"),
    # Source: docs.github.com, Restricting access to GitHub.com using a corporate proxy
    "github": TenantService(
        ("github.com", "enterprise-managed.githubusercontent.com"), "sec-GitHub-allowed-enterprise"
    ),
}


@dataclass(frozen=True, slots=True)
class TenantRule:
    """The header fields that requests to some hosts get; a client's fields of these names are replaced."""

    hosts: HostSet
    fields: tuple[tuple[str, str], ...]
    #: its place in the policy
    source: str
    line: int


def why_decrypt(host: bytes, settings: GroupSettings) -> str | None:
    """Why connections to a canonical host have to be decrypted, for people: the service is told the tenants."""
    return "tenants are told to" if any(rule.hosts.covers(host) for rule in settings.of("tenants")) else None


def needs_decrypted(settings: GroupSettings) -> Iterator[DecryptedNeed]:
    """The hosts of services, which are told nothing otherwise."""
    for rule in settings.of("tenants"):
        yield DecryptedNeed("tenants", rule.source, rule.line, rule.hosts, "nothing is told to")


_KEYS = (
    Key("service", choice(SERVICES)).says(f"one of {', '.join(f'`{name}`' for name in SERVICES)}"),
    Key("hosts", Type(lambda fields, key, _: tuple(fields.items(key)), list_of(TEXT, minItems=1))).says("""of a service
        that is not among them: its hosts, each with all hosts below it"""),
    Key("header", any_text).says("its header field, which begins with `X-`"),
    Key("allow", Type(lambda fields, key, _: tuple(fields.items(key)), list_of(TEXT, minItems=1))).says("""the domains,
        directories or workspaces whose accounts may be used"""),
    Key("directory", any_text).says("""of `microsoft` and `slack`: the directory or workspace of whoever asks for
        this"""),
)


def _read(node: YamlNode, reading: Reading) -> tuple[TenantRule, ...]:
    rules = (_read_rule(entry, reading) for entry in node.items)
    return tuple(rule for rule in rules if rule is not None)


def _read_rule(entry: YamlNode, reading: Reading) -> TenantRule | None:
    fields = MappingReader(entry, names_of(_KEYS), reading.report)
    name = fields.choice("service", SERVICES)
    if ("service" in fields) == ("hosts" in fields):
        reading.report.error(entry.line, "tenants", "expected 'service', or 'hosts' and 'header'")
        return None
    if "service" in fields:
        service = SERVICES.get(name or "")
        if "header" in fields:
            fields.error("header", "the service has its own")
    else:
        fields.require("header", "tenants")
        if (header := fields.text("header")) is not None and not _is_free(header):
            fields.error("header", "expected a name that begins with X-, which no server takes for an address", header)
        service = TenantService(_hosts(fields), fields.text("header") or "")
    if service is None:
        return None
    values = {service.allow: _values(fields), service.directory: fields.text("directory") or ""}
    for key, header in (("allow", service.allow), ("directory", service.directory)):
        if not header and key in fields:
            fields.error(key, "the service takes none")
    for key, header in (("allow", service.allow), ("directory", service.directory)):
        if header:
            fields.require(key, "tenants")
    pairs = (*((header, value) for header, value in values.items() if header and value), *service.fixed)
    for header, value in pairs:
        if not _VALUE.fullmatch(value):
            reading.report.error(entry.line, f"{header}: {value}", "expected ASCII, without line ends")
    hosts = HostSet(frozenset((to_bytes(host), True) for host in service.hosts))
    return TenantRule(hosts, pairs, reading.report.source, entry.line)


def _is_free(header: str) -> bool:
    """Whether a field says nothing of the connection, of the message or of its target, but to those who define it."""
    return re.fullmatch(r"[Xx]-[0-9A-Za-z-]{1,100}", header) is not None and not is_believed(header.encode())


def _values(fields: MappingReader) -> str:
    items = [item.value for item in fields.items("allow")]
    texts = [text for item in items if isinstance(item, str) and (text := item.strip()) and "," not in text]
    if len(texts) < len(items) or ("allow" in fields and not texts):
        fields.error("allow", "expected a list of names, each without a comma")
    return ",".join(texts)


def _hosts(fields: MappingReader) -> tuple[str, ...]:
    hosts: list[str] = []
    for item in fields.items("hosts"):
        host = to_ascii(to_bytes(str(item.value).lower()))
        if is_plain_name(host):
            hosts.append(host.decode("ascii"))
        else:
            fields.error("hosts", "expected the name of a host", f"hosts: {item.value}")
    fields.refuse_empty("hosts", "expected hosts")
    return tuple(hosts)


TENANTS = of_node(_read, lambda: list_of(schema_of_rows(_KEYS, name="tenant")), _KEYS)
