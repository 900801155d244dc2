"""Reads the policy file, key by key: as a whole or not at all; ``compile`` reads the lists.

``rules/policy.md`` is the reference of its format.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hushlist.core.errors import SourceError, did_you_mean
from hushlist.core.extension import ExtensionError, extensions_named
from hushlist.core.lists.list_formats import FOLDERS, FORMATS, list_format_of
from hushlist.core.lists.list_keys import DEFAULTS_KEYS, read_defaults
from hushlist.core.lists.list_source import ListDefaults, ProblemReport, read_octets, read_seal_key
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode, read_document
from hushlist.core.match.checks import Check
from hushlist.core.match.expressions import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.core.match.rule import Action, Rule, Terms
from hushlist.core.match.seal import SealKey
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
from hushlist.core.policy.key_table import KeyTable, table_of
from hushlist.core.policy.key_types import (
    TEXT,
    Reading,
    any_text,
    choice,
    file,
    list_of,
    names_of,
    number,
    numbers,
    of_node,
    read_rows,
    read_values,
    schema_of_rows,
)
from hushlist.core.policy.keys import Key, Schema, Type
from hushlist.core.policy.pass_through import KEEP_HEADERS
from hushlist.core.policy.policy_file import Layer, ListFile, Policy, list_files, uses_of
from hushlist.core.policy.proxy_settings import NAME_ANSWERS, ON_FAILURE
from hushlist.core.policy.schedule import SCHEDULES, TIMEZONE, read_during, read_schedules, read_timezone
from hushlist.core.system.files import LONGEST_DOCUMENT, fingerprint
from hushlist.extensions.subscriptions.gate_limits import GateLimits, limits_of_policy
from hushlist.extensions.subscriptions.subscription import (
    SUBSCRIPTION_KEYS,
    SubscribedList,
    Subscription,
    read_subscription,
)

if TYPE_CHECKING:
    from hushlist.extensions.safe_browsing.threat_lists import ThreatList


def read_policy(path: Path, report: ProblemReport) -> Policy | None:
    """Read a policy, without its lists; problems are in the report; ``None`` if nothing can be read."""
    files = {path: fingerprint(path)}
    octets = read_octets(path, report, LONGEST_DOCUMENT)
    document = None if octets is None else read_document(octets, report)
    if octets is None or document is None:
        return None
    return replace(
        _PolicyReader(Reading(path, report, files)).read(document), digest=hashlib.sha256(octets).hexdigest()
    )


def policy_at(path: Path) -> Policy:
    """A policy without its lists; ``SourceError`` if there is a problem."""
    report = ProblemReport(str(path))
    policy = read_policy(path, report)
    if policy is None or report.errors:
        raise SourceError(report.errors)
    return policy


def subscribed_lists(policy: Path) -> tuple[SubscribedList, ...]:
    """The lists of a policy that are fetched, each once; none if it cannot be read."""
    known = read_policy(policy, ProblemReport(str(policy)))
    return tuple({own.store.folder: own for own in (known.subscribed if known else ())}.values())


_CHECK_ACTIONS = (Action.BLOCK, Action.TAG, Action.PASS)
_CHECK_ACTION: Schema = {"$name": "check-action", "enum": list(_CHECK_ACTIONS)}
_ACTION = Key("action", Type(choice(_CHECK_ACTIONS).read, _CHECK_ACTION), is_required=True).says("""what is done where
    the check fails: `block`, `tag` or `pass` (the default: it is not made)""")
_PORTS = Key("ports", numbers(0, 65535, frozenset)).says("ports that are not minded")


def _check_key(code: str, *rows: Key) -> Key:
    return Key(
        code,
        Type(any_text.read, lambda: {"anyOf": [_CHECK_ACTION, schema_of_rows((_ACTION, *rows))]}, (_ACTION, *rows)),
    )


CHECK_KEYS = (
    _check_key("well-known-port", _PORTS).says("""a port from 0 to 1023 that is not the scheme's own, nor one of
        `ports`"""),
    _check_key("encoded-nul").says("`%00` in the path or the query, however often it is encoded"),
    _check_key("encoded-line-end").says("""`%0D` or `%0A` in the path, however often it is encoded; in queries, forms
        send it rightly"""),
    _check_key("rare-ipv4").says("an IPv4 address that is not written as four decimal numbers"),
    _check_key("user-information").says("a user name in the address"),
    _check_key("misleading-user").says("user information in which the name of a site or an address stands"),
    _check_key("dns-over-https").says("""a question for a name over HTTPS, by its form, whatever the host: the media
        types of RFC 8484 and of Oblivious DoH, a message as `?dns=`, or JSON by name"""),
    _check_key("names-disagree").says("""names that disagree: of the target, the Host header or `:authority`, and the
        TLS server name"""),
)


def _check(code: str, node: YamlNode, layer: str, reading: Reading) -> Rule | None:
    """The rule of a check, or ``None`` if it passes or is unknown."""
    report, row = reading.report, next((row for row in CHECK_KEYS if row.name == code), None)
    if row is None:
        report.error(node.line, code, f"unknown check (known: {', '.join(names_of(CHECK_KEYS))})")
        return None
    fields = MappingReader(node.short_for("action"), names_of(row.kind.rows), report)
    fields.require("action", code)
    values = read_rows(row.kind.rows, fields, reading)
    action, check = values.get("action"), Check(code, values.get("ports", frozenset()))
    if action is None or action is Action.PASS:
        return None
    terms = Terms(action, "checks", report.source, reason=check.sentence, layer=layer)
    return Rule(check, terms, fields.line_of("action"))


_SOURCES = ("file", "url", "safe-browsing")
LIST_KEYS = (
    Key("file", any_text).says("the file, or a folder of squidGuard's"),
    Key("catalogue", any_text).says("""the name of a list of the [catalogue](lists.md#the-catalogue), in the place of
        `url`: its address, format, title and category are taken from there, if the policy gives no others"""),
    Key("safe-browsing", "hushlist.extensions.safe_browsing.threat_lists:SAFE_BROWSING").says("""lists of a server, of
        which only prefixes of hashes are here, in the place of `file` and `url`: see [Safe
        Browsing](safe-browsing.md)"""),
    Key("url", any_text).says("""the address of a list that is fetched, in the place of `file`: `https://`, or `http://`
        where there is a `sha256` or a `key`"""),
    *SUBSCRIPTION_KEYS,
    Key("format", choice((*FORMATS, *FOLDERS))).says("""`yaml`, or one of the plain lists below; needed only where
        neither the file's name nor its content tells it: `.yaml`, `.yml`, `.hashed`, `.sha256`, `.hosts`, `.dnsmasq`,
        `.rpz`, `.adblock`, `.csv`, `.netset` and `.ipset` (`addresses`), and the bare names `domains`, `urls`
        (`squidguard-urls`), `hosts` and `dnsmasq.conf` do; the content tells all but `yaml`, `chromium`,
        `squidguard-urls` and `safebrowsing-raw`"""),
    Key("prefix-length", number(SHORTEST_PREFIX, FULL_LENGTH)).says("""the length of a prefix in octets, 4 to 32: for
        the format `safebrowsing-raw`, which needs it, and for no other"""),
    Key("fragments", choice(("drop",))).says("""`drop`: a URL that is only a host and a fragment
        (`https://host.example/#x`) is a rule for the whole host; without it, it is left out. For the formats `urls`,
        `squidguard-urls` and `csv`"""),
    Key("seal", any_text).says("""the file of the key that the list is sealed with, as `hushlist sealkey` made it; for
        the formats `yaml` and `sha256`"""),
    Key("gate", "hushlist.extensions.subscriptions.gate_limits:LIST_GATE").says("""the same for this list alone: `on`,
        `off` or a mapping: see [Changes](lists.md#changes)"""),
)
#: of these, what a list of Safe Browsing may have besides
_PREFIX_LIST_KEYS = ("safe-browsing", "optional", "covers", "name", "title", "action", "category", "reason")


def _schema_of_list() -> Schema:
    is_raw = {"properties": {"format": {"const": "safebrowsing-raw"}}}
    with_url = {
        key: ["url", *(["key"] if key == "signature" else [])]
        for key in names_of(SUBSCRIPTION_KEYS)
        if key != "optional"
    }
    return schema_of_rows(
        (*LIST_KEYS, *DEFAULTS_KEYS),
        name="list",
        oneOf=[{"required": [key]} for key in _SOURCES],
        dependentRequired=with_url,
        dependentSchemas={"optional": {"anyOf": [{"required": [key]} for key in _SOURCES[1:]]}},
        **{"if": {"anyOf": [{"required": ["prefix-length"]}, {"required": ["format"], **is_raw}]}},
        then={"required": ["format", "prefix-length"], **is_raw},
    )


_READ_OF_LIST = tuple(
    row for row in LIST_KEYS if row.name not in ("seal", "safe-browsing", *names_of(SUBSCRIPTION_KEYS))
)
_LISTS = of_node(lambda node, _: node, lambda: list_of({"anyOf": [TEXT, _schema_of_list()]}), LIST_KEYS)
_CHECKS = of_node(lambda node, _: node, partial(schema_of_rows, CHECK_KEYS), CHECK_KEYS)
LAYER_KEYS = (
    Key("name", NAME, is_required=True).says("what the layer is called: any text but `default`, and no other layer's"),
    Key("during", DURING).says("the schedule during which it is asked; without one, it always is"),
    Key("checks", _CHECKS).says("the checks that it makes, each with its action"),
    Key("lists", _LISTS).says("its lists: file names, relative to the policy's folder, or mappings"),
)
_BLOCK_OR_PASS = (Action.BLOCK, Action.PASS)
_LAYERS = of_node(lambda node, _: node, lambda: list_of(schema_of_rows(LAYER_KEYS, name="layer")), LAYER_KEYS)
_POLICY_KEYS = (
    Key("unparsable", choice(_BLOCK_OR_PASS)).says("""what to do with a request whose address cannot be read, or that
        may be more than one: `block` (the default) or `pass`. What is too long, or too much work to decide, is blocked
        in any case: see [What takes too long](decisions.md#what-takes-too-long)"""),
    Key("unknown-context", choice(_BLOCK_OR_PASS)).says("""what to do where a filter of an Adblock list depends on the
        page that asks, or on what it asks for, and the client does not tell: `pass` (the default), such a filter does
        not fit; `block`, it fits if it blocks"""),
    Key("timezone", TIMEZONE, into="zone").says("""in which times are given and shown: a name of the IANA time zone
        database, such as `Europe/Berlin`; UTC where there is none. When an update of the system brings new rules of
        that zone, they hold at once"""),
    Key("schedules", SCHEDULES).says("days and times by name: see [Schedules](groups.md#schedules)"),
    Key("layers", _LAYERS, is_required=True).says("""the lists and checks, in the order in which they are asked: see
        [Layers](policy.md#layers)"""),
    *SETTINGS_KEYS,
    Key("groups", any_text).says("for whom something else holds: see [Groups](groups.md#groups)"),
    Key("block-page", file).says("""a file with a page of your own, relative to the policy's folder: see [The block
        page](unblocking.md#the-block-page)"""),
    Key("dns", NAME_ANSWERS, into="name_answers").says("""how blocked names are answered, where mitmproxy is asked for
        names: see [Names of DNS](network.md#names-of-dns)"""),
    Key("keep-headers", KEEP_HEADERS, into="kept_headers").says("""origins to which header fields still go by which
        servers take a request for another, such as `Destination`: see [Headers that servers
        believe](network.md#headers-that-servers-believe)"""),
    Key("on-failure", ON_FAILURE).says("""what becomes of requests that the filter fails on: `closed` (the default),
        they are refused; `open`, they pass; or a mapping of causes: see [When the filter
        fails](failures.md#when-the-filter-fails)"""),
)
#: those that are read after the layers, or make no field of a policy
_READ_APART = ("timezone", "schedules", "layers", "groups", *names_of(SETTINGS_KEYS))
_READ_FIRST = tuple(row for row in _POLICY_KEYS if row.name not in _READ_APART)


def _read_extensions(fields: MappingReader, key: str, _: Reading) -> tuple[str, ...]:
    """The names of which there are extensions."""
    found = []
    for item in fields.items(key):
        try:
            extensions_named([str(item.value)])
            found.append(str(item.value))
        except ExtensionError as error:
            fields.report.error(item.line, f"{key}: {item}", str(error))
    return tuple(found)


_EXTENSIONS = Key("extensions", Type(_read_extensions, list_of(TEXT))).says("""which extensions are in use, by their
    names: `built-in` (the default) stands for all that come with Hushlist; one that an installed package brings is in
    use where it is named, and one that is left out makes its keys errors""")


def policy_rows(table: KeyTable) -> tuple[Key, ...]:
    """All keys of a policy."""
    types = {"groups": groups_type(table)}
    core = (replace(row, type=types.get(row.name, row.type)) for row in _POLICY_KEYS)
    return (*core, _EXTENSIONS, *table.rows("group"), *table.rows("policy"))


class _PolicyReader:
    """Reads one policy."""

    def __init__(self, reading: Reading) -> None:
        self._reading, self._report = reading, reading.report
        self._seals: dict[str, SealKey] = {}
        self._subscribed: list[SubscribedList] = []
        self._confirmers: dict[str, ThreatList] = {}

    def read(self, document: YamlNode) -> Policy:
        reading = self._reading
        given = document.value if isinstance(document.value, dict) else {}
        if _EXTENSIONS.name in given:
            chosen = MappingReader(YamlNode(1, {_EXTENSIONS.name: given[_EXTENSIONS.name]}), given, self._report)
            reading.table = table_of(_read_extensions(chosen, _EXTENSIONS.name, reading))
        table = reading.table
        fields = MappingReader(document, names_of(policy_rows(table)), self._report, table.left_out("policy", "group"))
        reading.zone = read_timezone(fields)
        schedules = fields.node("schedules")
        if schedules is not None:
            reading.schedules = read_schedules(schedules, reading.zone, self._report)
        reading.values = table.foreign_defaults("policy") | read_values(table.rows("policy"), fields, reading)
        fields.require("layers", "layers", "the policy has none")
        layers = tuple(self._layer(node) for node in fields.items("layers"))
        self._check_names(fields, "layer", layers, DEFAULT_LAYER, "this name stands for what no layer decides")
        reading.layers = uses_of(layers)
        settings = read_settings(fields, reading)
        settings = replace(settings, values={**table.foreign_defaults("group"), **settings.values})
        groups = tuple(read_group(node, settings, reading) for node in fields.items("groups"))
        self._check_names(fields, "group", groups, DEFAULT, "this is the name of the group of everybody who is in none")
        return Policy(
            source=str(reading.path),
            layers=layers,
            groups=groups,
            settings=settings,
            zone=reading.zone,
            seals=self._seals,
            subscribed=tuple(self._subscribed),
            confirmers=self._confirmers,
            files=reading.files,
            values=reading.values,
            **read_rows(_READ_FIRST, fields, reading),
        )

    def _check_names(
        self, fields: MappingReader, what: str, named: Iterable[Layer | Group], reserved: str, why: str
    ) -> None:
        """Report names of layers or groups that are there twice, and the one that stands for something else."""
        counts, line = Counter(one.name for one in named if one.name), fields.line_of(f"{what}s")
        for name, times in counts.items():
            if times > 1:
                self._report.error(line, name, f"more than one {what} has this name")
        if reserved in counts:
            self._report.error(line, reserved, why)

    def _layer(self, node: YamlNode) -> Layer:
        fields = MappingReader(node, names_of(LAYER_KEYS), self._report)
        name = fields.text("name")
        if name is None and isinstance(node.value, dict):
            self._report.error(node.line, "layer", "it has no name")
        name = name or ""
        checks = (_check(code, item, name, self._reading) for code, item in fields.entries("checks"))
        lists = tuple(file for item in fields.items("lists") for file in self._list(item, name))
        during = read_during(fields, self._reading.schedules)
        return Layer(name, tuple(rule for rule in checks if rule is not None), lists, during)

    def _list(self, node: YamlNode, layer: str) -> list[ListFile]:
        report, reading = self._report, self._reading
        entry = self._of_catalogue(node.short_for("file"))
        if entry is None:
            return []
        fields = MappingReader(entry, names_of((*LIST_KEYS, *DEFAULTS_KEYS)), report)
        if "safe-browsing" in fields:
            return self._prefix_lists(fields, layer)
        given = read_rows(_READ_OF_LIST, fields, reading)
        form, gate = given.get("format"), given.get("gate") or limits_of_policy(reading)
        defaults = replace(
            read_defaults(fields),
            **{key: given[key] for key in ("prefix_length", "fragments") if key in given},
            layer=layer,
            seal=self._seal(fields),
        )
        name, url = given.get("file"), given.get("url")
        for key in ("file",) if url else names_of(SUBSCRIPTION_KEYS) if name else ():
            if key in fields:
                fields.error(key, "a list has a file, or a url and how it is fetched")
        if name is None and url is None:
            if isinstance(entry.value, dict) and not {"file", "url"} & entry.value.keys():
                report.error(node.line, "list", "it names no file and no url")
            return []
        path = reading.path.parent / (name or (url or "").partition("?")[0].rpartition("/")[2])
        form = form or list_format_of(path)
        if defaults.prefix_length is not None and form != "safebrowsing-raw":
            fields.error("prefix-length", "only the format safebrowsing-raw has one")
        try:
            files = (
                self._copy(fields, form, defaults, gate)
                if name is None
                else list_files(path, form, defaults, reading.is_there)
            )
        except SourceError as error:
            fields.error("url" if name is None else "file", error.problems[0].why, name or url or "")
            return []
        files = [replace(file, gate=gate) for file in files]
        if defaults.seal and not all(file.format.can_be_sealed for file in files):
            fields.error("seal", "only lists of the formats yaml and sha256 can be sealed")
        return files

    def _of_catalogue(self, node: YamlNode) -> YamlNode | None:
        """A list with what the catalogue says of it, if it names one there; ``None`` if there is an error."""
        given = node.value
        if not isinstance(given, dict) or "catalogue" not in given:
            return node
        from hushlist.extensions.subscriptions.catalogue import (  # few policies need it
            read_catalogue,
            shipped_catalogue,
        )

        own, line = given["catalogue"], given["catalogue"].line
        try:
            known = read_catalogue(shipped_catalogue())
        except SourceError as error:
            self._report.error(line, "catalogue", str(error.problems[0]))
            return None
        entry = known.get(own.value) if isinstance(own.value, str) else None
        if entry is None:
            near = did_you_mean(str(own.value), known)
            self._report.error(
                line, f"catalogue: {own}", f"it has no such list{near} (see 'hushlist lists --catalogue')"
            )
            return None
        if both := [key for key in ("file", "url") if key in given]:
            self._report.error(line, "catalogue", f"it says where the list is: leave out {both[0]!r}")
            return None
        said = {"url": entry.url, "format": entry.format, "title": entry.title, "category": entry.category}
        rest = {key: value for key, value in given.items() if key != "catalogue"}
        return YamlNode(node.line, {key: YamlNode(line, text) for key, text in said.items()} | rest)

    def _seal(self, fields: MappingReader) -> str | None:
        """The fingerprint of the key that a list names; empty if it names none, ``None`` if there is an error."""
        name = fields.text("seal")
        if name is None:
            return None if "seal" in fields else ""
        path = self._reading.named(name, fields.line_of("seal"))
        if path is None:
            return None
        try:
            key = read_seal_key(path)
        except SourceError as error:
            fields.error("seal", error.problems[0].why, name)
            return None
        self._seals[key.fingerprint] = key
        return key.fingerprint

    def _copy(
        self, fields: MappingReader, form: str | None, defaults: ListDefaults, gate: GateLimits
    ) -> list[ListFile]:
        """The copy of a list that is fetched; none if there is none yet, which is an error unless it is optional.

        Raises:
            SourceError: nothing tells its format.
        """
        report = self._report
        subscription = read_subscription(fields, self._reading)
        if subscription is None:
            return []
        if form in FOLDERS:
            why = f"the format {form} is for folders, and a folder cannot be fetched"
            report.error(subscription.line, subscription.url, why)
            return []
        return self._fetched(subscription, form, defaults, gate)

    def _prefix_lists(self, fields: MappingReader, layer: str) -> list[ListFile]:
        from hushlist.extensions.safe_browsing.threat_lists import ThreatList  # few policies need it

        for key in names_of((*LIST_KEYS, *DEFAULTS_KEYS)):
            if key in fields and key not in _PREFIX_LIST_KEYS:
                fields.error(key, "a list of Safe Browsing has none")
        defaults, line = read_defaults(fields), fields.line_of("safe-browsing")
        if defaults.action is Action.ALLOW:
            fields.error("action", "a prefix may fit by chance, and cannot allow")
        given = read_rows([row for row in LIST_KEYS if row.name in _PREFIX_LIST_KEYS], fields, self._reading)
        service, is_optional = given.get("safe_browsing"), given.get("is_optional", False)
        if service is None:
            return []
        files = []
        for own in (ThreatList(service, name) for name in service.lists):
            self._confirmers[own.key] = own
            terms = replace(
                defaults,
                title=defaults.title or own.name,
                category=own.category or defaults.category,
                layer=layer,
                seal="",
                confirmer=own.key,
            )
            asked = Subscription(service.url_of(own.name), is_optional=is_optional, line=line, prefixes=own)
            files += self._fetched(asked, "sha256", terms, limits_of_policy(self._reading))
        return files

    def _fetched(
        self, subscription: Subscription, form: str | None, defaults: ListDefaults, gate: GateLimits
    ) -> list[ListFile]:
        """The copy of a list, as for ``_copy``."""
        from hushlist.extensions.subscriptions.list_store import ListStore  # most policies start faster without it

        report, url, line = self._report, subscription.url, subscription.line
        try:
            store = ListStore(self._reading.path, subscription.identity)
        except RuntimeError as error:
            report.error(line, url, str(error))
            return []
        for own in self._subscribed:
            if own.store.folder == store.folder and (own.form, own.gate) != (form, gate):
                why = f"line {own.subscription.line} has it with another format or gate, and both share one copy"
                report.error(line, url, f"{why}: give them the same")
        self._subscribed.append(SubscribedList(subscription, form, defaults, gate, store))
        self._reading.is_there(store.pointer)
        version = store.current()
        if version is not None:
            return [replace(own, url=url) for own in list_files(version.path, form, defaults, self._reading.is_there)]
        if not subscription.is_optional:
            fault, update = store.state().fault, f"hushlist update --policy {self._reading.path}"
            tried = f", and fetching it failed: {fault}; '{update}' tries again" if fault else f": run '{update}'"
            report.error(line, url, f"there is no copy of it yet{tried}")
        return []
