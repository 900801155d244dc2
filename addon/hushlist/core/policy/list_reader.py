"""The lists of a layer: which keys the entry of one may have, and its files.

A list is a file; or one of an extension's keys says where it is, and the extension gives its files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hushlist.core.errors import SourceError
from hushlist.core.extension import load
from hushlist.core.lists.list_formats import FOLDERS, FORMATS, list_format_of
from hushlist.core.lists.list_keys import DEFAULTS_KEYS, SCOPE_KEYS, read_defaults, read_scope
from hushlist.core.lists.list_source import ListDefaults, read_seal_key
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.match.expressions import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.core.match.rule import Scope
from hushlist.core.policy.key_types import (
    TEXT,
    Reading,
    any_text,
    choice,
    list_of,
    names_of,
    number,
    of_node,
    read_rows,
    schema_of_rows,
    schema_of_words,
)
from hushlist.core.policy.keys import NONE, Key, Schema, Type
from hushlist.core.policy.policy_file import ListFile, list_files
from hushlist.core.policy.usable_keys import KeyTable


def _read_format(fields: MappingReader, key: str, reading: Reading) -> str | None:
    """The name of a format of the extensions in use, or of one that is left out, of which more is said later."""
    foreign = (name for each in reading.table.foreign() for name in (*each.list_formats, *each.folder_formats))
    return fields.choice(key, (*FORMATS, *FOLDERS, *foreign))


_FORMAT = Type(_read_format, lambda: schema_of_words((*FORMATS, *FOLDERS)))
_KEYS = (
    Key("file", any_text).says("the file, or a folder of squidGuard's"),
    Key("format", _FORMAT).says("""`yaml`, or one of the plain lists below; needed only where neither the file's
        name nor its content shows it: `.yaml`, `.yml`, `.hashed`, `.sha256`, `.hosts`, `.dnsmasq`, `.rpz`,
        `.adblock`, `.csv`, `.tsv`, `.netset` and `.ipset` (`addresses`), `.unbound`, `.rsc` (`mikrotik`),
        `.lsrules`, `.pac`, `.action` (`privoxy`), and the names `domains`, `urls` (`squidguard-urls`), `hosts`,
        `dnsmasq.conf`, `unbound.conf`, `smartdns.conf`, `squid.conf`, `named.conf`, `regex.list`,
        `public_suffix_list.dat` and `wpad.dat` do;
        the content shows all but `yaml`, `chromium`, `squidguard-urls` and `safebrowsing-raw`"""),
    Key("prefix-length", number(SHORTEST_PREFIX, FULL_LENGTH)).says("""the length of a prefix in bytes, 4 to 32: for
        the format `safebrowsing-raw`, which needs it, and for no other"""),
    Key("fragments", choice(("drop",))).says("""`drop`: a URL that is only a host and a fragment
        (`https://host.example/#x`) is a rule for the whole host; without it, it is left out. For the formats `urls`,
        `squidguard-urls` and `csv`"""),
    Key("seal", any_text).says("""the file of the key that the list is sealed with, as `hushlist sealkey` made it; for
        the formats `yaml` and `sha256`"""),
)
_READ = tuple(row for row in _KEYS if row.name not in ("file", "seal"))


def _rows(table: KeyTable) -> tuple[Key, ...]:
    return (_KEYS[0], *table.rows("list"), *_KEYS[1:], *SCOPE_KEYS)


def lists_type(table: KeyTable) -> Type:
    """The type of a layer's lists; ``read_list`` reads one."""
    return of_node(lambda node, _: node, lambda: list_of({"anyOf": [TEXT, _schema(table)]}), _rows(table))


def _schema(table: KeyTable) -> Schema:
    is_raw = {"properties": {"format": {"const": "safebrowsing-raw"}}}
    sources = ("file", *(row.name for row in table.rows("list") if row.files))
    return schema_of_rows(
        (*_rows(table), *DEFAULTS_KEYS),
        name="list",
        oneOf=[{"required": [key]} for key in sources],
        dependentSchemas={
            row.name: {"allOf": [{"anyOf": [{"required": [key]} for key in some.split()]} for some in row.needs]}
            for row in table.rows("list")
            if row.needs
        },
        **{"if": {"anyOf": [{"required": ["prefix-length"]}, {"required": ["format"], **is_raw}]}},
        then={"required": ["format", "prefix-length"], **is_raw},
    )


class ListEntry(NamedTuple):
    """What the entry of a list says besides where the list is."""

    fields: MappingReader
    #: the extensions that the policy uses
    table: KeyTable
    #: the format, if it names one
    form: str | None
    defaults: ListDefaults
    #: the values of extensions' keys, by their names
    values: dict[str, Any]
    #: the groups and the schedules that a rule may name
    scope_names: tuple[tuple[str, ...], tuple[str, ...]]

    def files(self, key: str, path: Path, find: Callable[[str | None], list[ListFile]], shown: str) -> list[ListFile]:
        """The files that ``find`` gives for the format, of the list that a key names; ``path`` is named as the list."""
        form = self.form or list_format_of(path, self.table.foreign())
        if self.defaults.prefix_length is not None and form != "safebrowsing-raw":
            self.fields.error("prefix-length", "only the format safebrowsing-raw has one")
        try:
            files = [self._with_values(file) for file in find(form)]
        except SourceError as error:
            self.fields.error(key, error.problems[0].why, shown)
            return []
        for why in dict.fromkeys(why for file in files if (why := self.table.without(file.format))):
            self.fields.error(key, why, shown)
        if self.defaults.seal and not all(file.format.can_be_sealed for file in files):
            self.fields.error("seal", "only lists of the formats yaml and sha256 can be sealed")
        return files

    def _with_values(self, file: ListFile) -> ListFile:
        """The file with the values of its keys; of other formats, no rule names groups or schedules."""
        if file.format == FORMATS["yaml"]:
            file = file._replace(defaults=file.defaults._replace(scope_names=self.scope_names))
        return file._replace(values=self.values)


def fields_of_list(entry: YamlNode, reading: Reading) -> MappingReader:
    """The fields of a list's entry."""
    table = reading.table
    return MappingReader(entry, names_of((*_rows(table), *DEFAULTS_KEYS)), reading.report, table.left_out("list"))


def read_entry(entry: YamlNode, layer: str, reading: Reading) -> ListEntry:
    """What the entry of a list says, but where the list is."""
    fields = fields_of_list(entry, reading)
    values = read_rows(_READ, fields, reading)
    form = values.pop("format", None)
    defaults = read_defaults(fields)._replace(
        **values, layer=layer, seal=_seal(fields, reading), scope=scope_of(fields, reading)
    )
    scope_names = reading.groups, tuple(reading.schedules)
    return ListEntry(fields, reading.table, form, defaults, values_of_list(fields, reading), scope_names)


def scope_of(fields: MappingReader, reading: Reading) -> Scope | None:
    """For whom the rules of a list's entry count, and when."""
    return read_scope(fields, (reading.groups, reading.schedules))


def values_of_list(fields: MappingReader, reading: Reading) -> dict[str, Any]:
    """The values of the keys of extensions that any list may have; each is asked, for it may stand in the policy."""
    rows = (row for row in reading.table.rows("list") if not row.files and not row.needs)
    values = {row.name: row.kind.read(fields, row.name, reading) for row in rows}
    return {name: value for name, value in values.items() if value not in (None, NONE)}


def read_list(node: YamlNode, layer: str, reading: Reading) -> list[ListFile]:
    """The files of a list."""
    entry, rows = node.short_for("file"), reading.table.rows("list")
    keys = entry.value if isinstance(entry.value, dict) else {}
    for row in reversed(rows):
        if row.files and row.name in keys:
            files: list[ListFile] = load(row.files)(entry, layer, reading)
            return files
    said = read_entry(entry, layer, reading)
    name = said.fields.text("file")
    if name is None:
        if isinstance(entry.value, dict) and "file" not in keys:
            reading.report.error(node.line, "list", "it names no file and no url")
        return []
    for row in rows:
        if row.needs and row.name in keys:
            said.fields.error(row.name, "a list has a file, or a url and how it is fetched")
    path = reading.path.parent / name

    def find(form: str | None) -> list[ListFile]:
        return list_files(path, form, said.defaults, reading.is_there, reading.table.foreign())

    return said.files("file", path, find, name)


def _seal(fields: MappingReader, reading: Reading) -> str | None:
    """The fingerprint of the key that a list names; empty if it names none, ``None`` if there is an error."""
    name = fields.text("seal")
    if name is None:
        return None if "seal" in fields else ""
    path = reading.named(name, fields.line_of("seal"))
    if path is None:
        return None
    try:
        key = read_seal_key(path)
    except SourceError as error:
        fields.error("seal", error.problems[0].why, name)
        return None
    reading.seals[key.fingerprint] = key
    return key.fingerprint
