"""Reads the policy file, key by key: as a whole or not at all; ``compile`` reads the lists.

``rules/policy.md`` is the reference of its format.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from hushlist.core.errors import SourceError
from hushlist.core.extension import CheckRow, ExtensionError, extensions_named
from hushlist.core.lists.list_keys import FOR, read_groups
from hushlist.core.lists.list_source import ProblemReport, read_octets
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.match.checks import Check
from hushlist.core.match.rule import Action, Rule, Terms
from hushlist.core.policy.groups import (
    DEFAULT,
    DEFAULT_LAYER,
    DURING,
    NAME,
    SETTINGS_KEYS,
    Group,
    groups_type,
    read_group,
    read_settings,
)
from hushlist.core.policy.key_types import (
    TEXT,
    Reading,
    any_text,
    choice,
    file,
    list_of,
    names_of,
    numbers,
    of_node,
    read_rows,
    read_values,
    schema_of,
    schema_of_rows,
    switch,
)
from hushlist.core.policy.keys import Key, Schema, Type
from hushlist.core.policy.list_reader import lists_type, read_list
from hushlist.core.policy.pass_through import KEEP_HEADERS
from hushlist.core.policy.policy_file import Layer, Policy
from hushlist.core.policy.proxy_settings import NAME_ANSWERS, ON_FAILURE
from hushlist.core.policy.scheduled_action import read_during
from hushlist.core.policy.times import TIMEZONE, read_timezone
from hushlist.core.policy.usable_keys import KeyTable, table_of
from hushlist.core.system.files import LONGEST_DOCUMENT, fingerprint


def read_policy(
    path: Path, report: ProblemReport, octets: bytes | None = None, documents: Mapping[str, YamlNode] | None = None
) -> Policy | None:
    """Read a policy, without its lists; problems are in the report; ``None`` if nothing can be read.

    ``octets``: what the file would have; ``documents``: what is in files, by the digests of their octets.
    """
    files = {path: fingerprint(path)}
    octets = read_octets(path, report, LONGEST_DOCUMENT) if octets is None else octets
    if octets is None:
        return None
    digest = hashlib.sha256(octets).hexdigest()
    document = documents.get(digest) if documents else None
    if document is None:
        from hushlist.core.lists.yaml_documents import read_document  # a policy that is recorded starts faster without

        document = read_document(octets, report)
    return (
        None if document is None else _PolicyReader(Reading(path, report, files)).read(document)._replace(digest=digest)
    )


def policy_at(path: Path) -> Policy:
    """A policy without its lists; ``SourceError`` if there is a problem."""
    report = ProblemReport(str(path))
    policy = read_policy(path, report)
    if policy is None or report.errors:
        raise SourceError(report.errors)
    return policy


_CHECK_ACTIONS = (Action.BLOCK, Action.TAG, Action.PASS)
_CHECK_ACTION: Schema = {"$name": "check-action", "enum": list(_CHECK_ACTIONS)}
_ACTION = Key("action", Type(choice(_CHECK_ACTIONS).read, _CHECK_ACTION), is_required=True).says("""what is done where
    the check fails: `block`, `tag` or `pass` (the default: it is not made)""")
_ACTIONS_WITH_WARNING = (*_CHECK_ACTIONS, Action.WARN)
_ACTION_OR_WARNING = Key(
    "action",
    Type(choice(_ACTIONS_WITH_WARNING).read, {"$name": "check-action-or-warning", "enum": list(_ACTIONS_WITH_WARNING)}),
    is_required=True,
).says("what is done where the check fails: `block`, `warn`, `tag` or `pass` (the default: it is not made)")
_PORTS = Key("ports", numbers(0, 65535, frozenset)).says("ports that are not minded")


def _check_key(code: str, *rows: Key, action: Key = _ACTION) -> Key:
    rows = (action, *rows)
    return Key(code, Type(any_text.read, lambda: {"anyOf": [schema_of(action.kind), schema_of_rows(rows)]}, rows))


CHECK_KEYS = (
    _check_key("well-known-port", _PORTS).says("""a port from 0 to 1023 that is not the scheme's own, nor one of
        `ports`"""),
    _check_key("encoded-nul").says("`%00` in the path or the query, however often it is encoded"),
    _check_key("encoded-line-end").says("""`%0D` or `%0A` in the path, however often it is encoded; in queries, forms
        send it rightly"""),
    _check_key("rare-ipv4").says("an IPv4 address that is not written as four decimal numbers"),
    _check_key("user-information").says("a user name in the address"),
    _check_key("misleading-user").says("user information that contains the name of a site or an address"),
    _check_key("dns-over-https").says("""a question for a name over HTTPS, by its form, whatever the host: the media
        types of RFC 8484 and of Oblivious DoH, a message as `?dns=`, or JSON by name"""),
    _check_key("names-disagree").says("""names that disagree: of the target, the Host header or `:authority`, and the
        TLS server name"""),
)


def _foreign_key(code: str, row: CheckRow) -> Key:
    action = _ACTION_OR_WARNING if row.may_warn else _ACTION
    return _check_key(code, *row.keys, action=action).says(row.says)


def check_rows(table: KeyTable) -> tuple[Key, ...]:
    """The checks that a layer may have made: core's, and those of extensions."""
    checks = (pair for extension in table.extensions for pair in extension.request_checks.items())
    return (*CHECK_KEYS, *(_foreign_key(code, row) for code, row in checks))


def _check(code: str, node: YamlNode, layer: str, reading: Reading) -> Rule | None:
    """The rule of a check, or ``None`` if it passes or is unknown."""
    rows, report = check_rows(reading.table), reading.report
    row = next((row for row in rows if row.name == code), None)
    if row is None:
        report.error(node.line, code, f"unknown check (known: {', '.join(names_of(rows))})")
        return None
    fields = MappingReader(node.short_for("action"), names_of(row.kind.rows), report)
    for key in (key.name for key in row.kind.rows if key.is_required):
        fields.require(key, code)
    values = read_rows(row.kind.rows, fields, reading)
    foreign = next(
        (extension.request_checks[code] for extension in reading.table.extensions if code in extension.request_checks),
        None,
    )
    of_keys = (
        () if foreign is None else tuple((key.field, values[key.field]) for key in foreign.keys if key.field in values)
    )
    action, check = values.get("action"), Check(code, values.get("ports", frozenset()), foreign, of_keys)
    if action is None or action is Action.PASS:
        return None
    terms = Terms(action, "checks", report.source, reason=check.sentence, layer=layer)
    return Rule(check, terms, fields.line_of("action"))


LAYER_KEYS = (
    Key("name", NAME, is_required=True).says("what the layer is called: any text but `default`, and no other layer's"),
    Key("for", FOR).says("the groups that ask it, one or a list; without it, all do"),
    Key("during", DURING).says("the schedule during which it is asked; without one, it always is"),
    Key("checks", any_text).says("the checks that it makes, each with its action"),
    Key("lists", any_text).says("its lists: file names, relative to the policy's folder, or mappings"),
)
_BLOCK_OR_PASS = (Action.BLOCK, Action.PASS)
_POLICY_KEYS = (
    Key("unparsable", choice(_BLOCK_OR_PASS)).says("""what to do with a request whose address cannot be read, or that
        may be more than one: `block` (the default) or `pass`. What is too long, or too much work to decide, is blocked
        in any case: see [What takes too long](decisions.md#what-takes-too-long)"""),
    Key("unknown-context", choice(_BLOCK_OR_PASS)).says("""what to do where a filter of an Adblock list depends on
        the page that asks, or on what it asks for, and the client does not say: `pass` (the default), such a filter
        does not match; `block`, it matches if it blocks"""),
    Key("timezone", TIMEZONE, into="zone").says("""the time zone in which times are given and shown: a name of the
        IANA time zone database, such as `Europe/Berlin`; UTC where there is none. When an update of the system
        brings new rules of that zone, they apply at once"""),
    Key("schedules", "hushlist.core.policy.schedule:SCHEDULES").says(
        "days and times by name: see [Schedules](groups.md#schedules)"
    ),
    Key("layers", any_text, is_required=True).says("""the lists and checks, in the order in which they are asked: see
        [Layers](policy.md#layers)"""),
    *SETTINGS_KEYS,
    Key("groups", any_text).says("people and devices with other settings: see [Groups](groups.md#groups)"),
    Key("block-page", file).says("""a file with a page of your own, relative to the policy's folder: see [The block
        page](unblocking.md#the-block-page)"""),
    Key("dns", NAME_ANSWERS, into="name_answers").says("""how blocked names are answered, where mitmproxy answers
        DNS: see [Names of DNS](network.md#names-of-dns)"""),
    Key("keep-headers", KEEP_HEADERS, into="kept_headers").says("""origins that still get the header fields by which
        servers take a request for another, such as `Destination`: see [Headers that servers
        believe](network.md#headers-that-servers-believe)"""),
    Key("require-patches", switch, into="requires_patches").says("""what happens at the start if mitmproxy lacks a
        name that the filter replaces to limit what clients may send: `off` (the default), it is logged, and
        reported by `/readyz` and `hushlist doctor`; `on`, the start ends with an error: see [mitmproxy
        itself](failures.md#mitmproxy-itself)"""),
    Key("on-failure", ON_FAILURE).says("""what happens to requests that the filter fails on: `closed` (the default),
        they are refused; `open`, they pass; or a mapping of causes: see [When the filter
        fails](failures.md#when-the-filter-fails)"""),
)
#: those that are read after the layers, or make no field of a policy
_READ_APART = ("timezone", "schedules", "layers", "groups", *names_of(SETTINGS_KEYS))
_READ_FIRST = tuple(row for row in _POLICY_KEYS if row.name not in _READ_APART)


def _read_extensions(fields: MappingReader, key: str, _: Reading) -> tuple[str, ...]:
    """The names of which there are extensions."""
    names = []
    for item in fields.items(key):
        try:
            extensions_named([str(item.value)])
            names.append(str(item.value))
        except ExtensionError as error:
            fields.report.error(item.line, f"{key}: {item}", str(error))
    return tuple(names)


_EXTENSIONS = Key("extensions", Type(_read_extensions, list_of(TEXT))).says("""which extensions are in use, by their
    names: `built-in` (the default) stands for all that come with Hushlist; one that an installed package brings is
    in use where it is named, and one that is left out makes its keys, and lists in its formats, errors. The limits
    on what clients may send always apply""")


def policy_rows(table: KeyTable) -> tuple[Key, ...]:
    """All keys of a policy."""
    checks = check_rows(table)
    layer_types = {
        "checks": of_node(lambda node, _: node, partial(schema_of_rows, checks), checks),
        "lists": lists_type(table),
    }
    of_core = (row._replace(type=layer_types.get(row.name, row.type)) for row in LAYER_KEYS)
    layer = (*of_core, *table.rows("layer"))
    layers = of_node(lambda node, _: node, lambda: list_of(schema_of_rows(layer, name="layer")), layer)
    types = {"groups": groups_type(table), "layers": layers}
    core = (row._replace(type=types.get(row.name, row.type)) for row in _POLICY_KEYS)
    return (*core, _EXTENSIONS, *table.rows("group"), *table.rows("policy"))


def _names_of_groups(node: YamlNode | None) -> Iterator[str]:
    """The names of groups, before these are read."""
    for group in () if node is None else node.items:
        name = group.value.get("name") if isinstance(group.value, dict) else None
        if name is not None and isinstance(name.value, str):
            yield name.value


class _PolicyReader:
    """Reads one policy."""

    def __init__(self, reading: Reading) -> None:
        self._reading, self._report = reading, reading.report

    def read(self, document: YamlNode) -> Policy:
        reading = self._reading
        mapping = document.value if isinstance(document.value, dict) else {}
        if _EXTENSIONS.name in mapping:
            chosen = MappingReader(YamlNode(1, {_EXTENSIONS.name: mapping[_EXTENSIONS.name]}), mapping, self._report)
            reading.extensions = _read_extensions(chosen, _EXTENSIONS.name, reading)
            reading.table = table_of(reading.extensions)
        table = reading.table
        fields = MappingReader(document, names_of(policy_rows(table)), self._report, table.left_out("policy", "group"))
        reading.zone = read_timezone(fields)
        schedules = fields.node("schedules")
        if schedules is not None:
            from hushlist.core.policy.schedule import read_schedules  # a policy without any starts faster without it

            reading.schedules = read_schedules(schedules, reading.zone, self._report)
        reading.groups = (*_names_of_groups(fields.node("groups")), DEFAULT)
        reading.values = table.foreign_defaults("policy") | read_values(table.rows("policy"), fields, reading)
        fields.require("layers", "layers", "the policy has none")
        layers = tuple(self._layer(node) for node in fields.items("layers"))
        self._check_names(fields, "layer", layers, DEFAULT_LAYER, "this name stands for what no layer decides")
        reading.layers = layers
        settings = read_settings(fields, reading)
        settings = settings._replace(values={**table.foreign_defaults("group"), **settings.values})
        groups = tuple(read_group(node, settings, reading) for node in fields.items("groups"))
        self._check_names(fields, "group", groups, DEFAULT, "this is the name of the group of everybody who is in none")
        return Policy(
            source=str(reading.path),
            layers=layers,
            groups=groups,
            settings=settings,
            schedules=reading.schedules,
            zone=reading.zone,
            seals=reading.seals,
            subscribed=tuple(reading.subscribed),
            confirmers=reading.confirmers,
            files=reading.files,
            extensions=reading.extensions,
            values=reading.values,
            **read_rows(_READ_FIRST, fields, reading),
        )

    def _check_names(
        self, fields: MappingReader, what: str, named: Iterable[Layer | Group], reserved: str, why: str
    ) -> None:
        """Report names of layers or groups that are there twice, and the one that stands for something else."""
        counts, line = Counter(item.name for item in named if item.name), fields.line_of(f"{what}s")
        for name, times in counts.items():
            if times > 1:
                self._report.error(line, name, f"more than one {what} has this name")
        if reserved in counts:
            self._report.error(line, reserved, why)

    def _layer(self, node: YamlNode) -> Layer:
        table = self._reading.table
        rows = (*LAYER_KEYS, *table.rows("layer"))
        fields = MappingReader(node, names_of(rows), self._report, table.left_out("layer"))
        name = fields.text("name")
        if name is None and isinstance(node.value, dict):
            self._report.error(node.line, "layer", "it has no name")
        name = name or ""
        checks = (_check(code, item, name, self._reading) for code, item in fields.entries("checks"))
        lists = tuple(file for item in fields.items("lists") for file in read_list(item, name, self._reading))
        during = read_during(fields, self._reading.schedules)
        values = read_values(table.rows("layer"), fields, self._reading)
        of_checks = tuple(rule for rule in checks if rule is not None)
        only_for = read_groups(fields, "for", self._reading.groups)
        return Layer(name, of_checks, lists, during, values, only_for, fields.line_of("name"))
