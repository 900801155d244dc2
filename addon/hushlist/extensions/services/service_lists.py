"""Lists of services: ``rules/services.yaml``, which comes with Hushlist, others like it, and those of AdGuard Home.

>>> tiktok = services()["tiktok"]
>>> tiktok.title, tiktok.category
('TikTok', 'hrn://hushlist.example/services/video/tiktok')
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from hushlist.core.errors import SourceError, UrlError, did_you_mean
from hushlist.core.lists.list_keys import DEFAULTS_KEYS, EXPRESSION, read_defaults
from hushlist.core.lists.list_source import ListDefaults, ProblemReport, read_octets
from hushlist.core.lists.patterns import parse_written_expression
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.match.rule import Action, Expression, Rule
from hushlist.core.policy import shipped_policy
from hushlist.core.policy.key_types import TEXT, any_text, list_of, names_of, schema_of_rows
from hushlist.core.policy.keys import Key, Schema, Type
from hushlist.core.system.files import LONGEST_DOCUMENT

#: above the categories of all services
ROOT = "hrn://hushlist.example/services"
#: the group of a service for which a list names none, or one that is not known
_OTHER = "other"
_NAME = re.compile("[a-z0-9]+(?:-[a-z0-9]+)*")
_ENTRIES: Schema = {"type": "object", "propertyNames": {"pattern": f"^{_NAME.pattern}$"}}
_SERVICE_KEYS = (
    Key("title", any_text, is_required=True).says("what people call it, and what the block page says"),
    Key("group", any_text, is_required=True).says("one of `groups`"),
    Key("source", any_text).says("where its addresses can be looked up"),
    Key("rules", Type(any_text.read, list_of(EXPRESSION)), is_required=True).says("""its addresses, as
        [expressions](lists.md#expressions), the main one first"""),
)
_TITLES: Schema = {
    "type": "object",
    "required": ["en"],
    "properties": {"also": {"description": "what other lists call it", "$of": list_of(TEXT)}},
}
SERVICES_KEYS = (
    *(row for row in DEFAULTS_KEYS if row.name in ("name", "title", "action", "reason")),
    Key("groups", Type(any_text.read, {**_ENTRIES, "additionalProperties": {"anyOf": [TEXT, _TITLES]}})).says("""the
        groups by name: a title, or titles by language, and by `also`, what other lists call the group"""),
    Key(
        "services",
        Type(any_text.read, lambda: {**_ENTRIES, "additionalProperties": schema_of_rows(_SERVICE_KEYS)}, _SERVICE_KEYS),
        is_required=True,
    ).says("the services by name"),
)
_WHOLE_HOST = re.compile(r"\|\|([^\s*^/|$]+)\^")


@dataclass(frozen=True, slots=True)
class Group:
    """A group of services."""

    id: str
    #: language -> title; English is always there
    titles: Mapping[str, str]
    #: what other lists call it
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Service:
    id: str
    title: str
    group: str
    #: where its addresses can be looked up
    source: str
    #: its addresses, the main one first, each with its line
    rules: tuple[tuple[Expression, int], ...]

    @property
    def category(self) -> str:
        return f"{ROOT}/{self.group}/{self.id}"


def shipped_services() -> tuple[dict[str, Group], dict[str, Service]]:
    """The groups and the services that come with Hushlist; ``SourceError`` if somebody has broken the file."""
    path = shipped_policy().with_name("services.yaml")
    report = ProblemReport(str(path))
    octets = read_octets(path, report, LONGEST_DOCUMENT)
    document = None if octets is None else read_document(octets, report)
    groups, listed = ({}, {}) if document is None else _read_own(_fields(document, report), report)
    if report.errors:
        raise SourceError(report.errors)
    return groups, listed


@cache
def groups() -> Mapping[str, Group]:
    """The groups of the services that come with Hushlist."""
    return MappingProxyType(shipped_services()[0])


@cache
def services() -> Mapping[str, Service]:
    """The services that come with Hushlist, by their short names."""
    return MappingProxyType(shipped_services()[1])


def category_names() -> Mapping[str, str]:
    """The short names of groups and services, each with its category."""
    return {name: f"{ROOT}/{name}" for name in groups()} | {
        name: service.category for name, service in services().items()
    }


def read_services(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """The rules of a list of services, each of the category of its service.

    >>> report = ProblemReport("f")
    >>> text = b'{"blocked_services": [{"id": "tiktok", "name": "TikTok", "rules": ["||tiktok.com^", "||a*^"]}]}'
    >>> for rule in read_services(text, ListDefaults(), report): print(rule.pattern, rule.terms.category)
    tiktok.com/ hrn://hushlist.example/services/video/tiktok
    >>> print(*report.warnings)
    f:1: ||a*^: left out: more than a whole host
    """
    document = read_document(octets, report)
    if document is None:
        return
    if isinstance(document.value, dict) and "blocked_services" in document.value:
        listed = _read_adguard(document, report)
    else:
        fields = _fields(document, report)
        fields.require("services", "services", "the list has none")
        defaults = read_defaults(fields).behind(defaults)
        listed = iter(_read_own(fields, report)[1].values())
    defaults = defaults._replace(action=defaults.action or Action.PASS)
    for service in listed:
        reason = None if defaults.reason else service.title
        terms = defaults.terms(report.source, category=service.category, reason=reason)
        yield from (Rule(expression, terms, line) for expression, line in service.rules)


def members(octets: bytes) -> frozenset[str]:
    """The names of the services in a list."""
    rules = read_services(octets, ListDefaults(), ProblemReport("list"))
    return frozenset((rule.terms.category or "").rpartition("/")[2] for rule in rules)


def _fields(document: YamlNode, report: ProblemReport) -> MappingReader:
    return MappingReader(document, names_of(SERVICES_KEYS), report)


def _read_own(fields: MappingReader, report: ProblemReport) -> tuple[dict[str, Group], dict[str, Service]]:
    """The groups and the services of a list in YAML, as ``rules/services.yaml`` explains it."""
    known_groups = {id_: _group(id_, node, report) for id_, node in fields.entries("groups")}
    listed = dict[str, Service]()
    for id_, node in fields.entries("services"):
        entry = MappingReader(node, names_of(_SERVICE_KEYS), report)
        title, group, source = entry.text("title"), entry.text("group"), entry.text("source") or ""
        for key in ("title", "group", "rules"):
            entry.require(key, id_)
        if not _NAME.fullmatch(id_) or id_ in known_groups:
            why = (
                "that is a group"
                if id_ in known_groups
                else "a name has small letters, digits, and hyphens between them"
            )
            report.error(node.line, id_, why)
        elif group is not None and group not in known_groups:
            entry.error(
                "group",
                f"there is no such group{did_you_mean(group, known_groups)} (known: {', '.join(known_groups)})",
                group,
            )
        elif title is not None and group is not None:
            rules = tuple(rule for item in entry.items("rules") if (rule := _expression(item, report)))
            listed[id_] = Service(id_, title, group, source, rules)
    return known_groups, listed


def _group(id_: str, node: YamlNode, report: ProblemReport) -> Group:
    said = node.value if isinstance(node.value, dict) else {"en": node}
    titles = {
        language: title.value for language, title in said.items() if language != "also" and isinstance(title.value, str)
    }
    if "en" not in titles or not _NAME.fullmatch(id_):
        report.error(
            node.line, id_, "expected a title, or titles by language with one for en, of a name in small letters"
        )
    also = said["also"].value if "also" in said else []
    names = tuple(str(item.value) for item in also) if isinstance(also, list) else ()
    return Group(id_, {"en": id_, **titles}, names)


def _expression(item: YamlNode, report: ProblemReport) -> tuple[Expression, int] | None:
    if not isinstance(item.value, str):
        report.error(item.line, "rules", f"expected an expression, not {item.kind}")
        return None
    try:
        return parse_written_expression(item.value), item.line
    except UrlError as error:
        report.error(item.line, item.value, error.reason)
        return None


def _read_adguard(document: YamlNode, report: ProblemReport) -> Iterator[Service]:
    """The services of AdGuard Home's ``services.json``, each in the group that Hushlist has it in, or calls so.

    What the list has wrong, or what is more than a whole host, is left out with a warning.
    """
    by_name = {name: group.id for group in groups().values() for name in (group.id, *group.also)}
    listed = document.value["blocked_services"] if isinstance(document.value, dict) else document
    if not isinstance(listed.value, list):
        report.error(listed.line, "blocked_services", f"expected a list, not {listed.kind}")
    for node in listed.items if isinstance(listed.value, list) else ():
        said = {key: value.value for key, value in node.value.items()} if isinstance(node.value, dict) else {}
        id_, rules = str(said.get("id") or "").lower().replace("_", "-"), said.get("rules")
        if not _NAME.fullmatch(id_) or not isinstance(rules, list):
            report.leave_out(node.line, id_ or "service", "a service has a name and rules")
            continue
        shipped = services().get(id_)
        group = shipped.group if shipped else by_name.get(str(said.get("group")), _OTHER)
        hosts = tuple(rule for item in rules if (rule := _host(item, report)))
        yield Service(id_, str(said.get("name") or id_), group, "", hosts)


def _host(item: YamlNode, report: ProblemReport) -> tuple[Expression, int] | None:
    text = str(item.value)
    if (host := _WHOLE_HOST.fullmatch(text.strip())) is None:
        report.leave_out(item.line, text, "more than a whole host")
        return None
    try:
        return parse_written_expression(host[1]), item.line
    except UrlError as error:
        report.leave_out(item.line, text, error.reason)
        return None
