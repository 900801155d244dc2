"""What a policy's keys may have: the types of which the rows of the table of keys are made.

>>> from hushlist.core.lists.yaml_documents import read_document
>>> reading = Reading(Path("policy.yaml"), ProblemReport("policy.yaml"))
>>> rows = (Key("hue", number(0, 359)).says("its place on the wheel: see [Colours](colours.md)"), Key("sun", any_text))
>>> fields = MappingReader(read_document(b"{hue: 120}", reading.report), names_of(rows), reading.report)
>>> read_rows(rows, fields, reading)
{'hue': 120}
>>> schema_of_rows(rows)["properties"]["hue"]["description"]
'its place on the wheel: see Colours'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushlist.core.extension import ALL_BUILT_IN
from hushlist.core.lists.category_names import category_named, short_names
from hushlist.core.lists.list_source import LONGEST_REASON, LONGEST_TITLE, ProblemReport, read_octets
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.keys import NONE, Key, Schema, Type
from hushlist.core.policy.usable_keys import table_of
from hushlist.core.system.files import LONGEST_DOCUMENT, Fingerprint, fingerprint, read_private, reason_of
from hushlist.core.system.late_pattern import late_pattern

if TYPE_CHECKING:
    from hushlist.core.match.seal import SealKey
    from hushlist.core.policy.recurrence import Schedule

SWITCH = ("on", "off")
_LONGEST_SECRET = 1 << 12


class Reading:
    """What readers of keys need of the policy that they are in; remembers the files that it names."""

    def __init__(self, path: Path, report: ProblemReport, files: dict[Path, Fingerprint] | None = None) -> None:
        self.path, self.report, self.files = path, report, {} if files is None else files
        self.zone: tzinfo = UTC
        self.schedules: Mapping[str, Schedule] = {}
        #: the names of the extensions that the policy uses, and their keys
        self.extensions: tuple[str, ...] = (ALL_BUILT_IN,)
        self.table = table_of()
        #: the values of extensions' keys in the policy itself, by their names
        self.values: dict[str, Any] = {}
        #: the keys of sealed lists, by their fingerprints; lists that are fetched; and who confirms what lists say
        self.seals: dict[str, SealKey] = {}
        self.subscribed: list[Any] = []
        self.confirmers: dict[str, Any] = {}
        #: the names of devices, and of groups
        self.devices: frozenset[str] = frozenset()
        self.groups: tuple[str, ...] = ()
        self.layers: tuple[Any, ...] = ()

    def category(self, text: str) -> str:
        """The normal form of a category's name, as ``category_named`` gives it."""
        return category_named(text, self.table.extensions)

    def is_there(self, path: Path) -> bool:
        return self.files.setdefault(path, fingerprint(path)) is not None

    def named(self, name: str, line: int) -> Path | None:
        """The path of a file that a line of the policy names, if it is there."""
        path = self.path.parent / name
        if self.is_there(path):
            return path
        self.report.error(line, name, "there is no such file")
        return None

    def file(self, fields: MappingReader, key: str) -> Path | None:
        """The path of the file that a key names; a folder is an error."""
        name = fields.text(key)
        path = None if name is None else self.named(name, fields.line_of(key))
        if name is not None and path is not None and path.is_dir():
            fields.error(key, "expected a file, not a folder", name)
        return path

    def beside(self, name: str, line: int) -> tuple[Path, bytes] | None:
        """Path and octets of a file that line ``line`` of the policy names."""
        path = self.named(name, line)
        octets = None if path is None else read_octets(path, self.report, LONGEST_DOCUMENT)
        return None if path is None or octets is None else (path, octets)

    def secret(self, name: str, line: int) -> bytes | None:
        """The octets of a private file that line ``line`` of the policy names."""
        path = self.named(name, line)
        try:
            return None if path is None else read_private(path, _LONGEST_SECRET)
        except (OSError, ValueError) as error:  # ValueError: no file can have that name
            self.report.error(line, name, reason_of(error))
            return None


def names_of(rows: Iterable[Key]) -> tuple[str, ...]:
    return tuple(row.name for row in rows)


def read_rows(rows: Sequence[Key], fields: MappingReader, reading: Reading) -> dict[str, Any]:
    """The values of the keys that are there and right, by their fields."""
    values = read_values(rows, fields, reading)
    return {row.field: values[row.name] for row in rows if row.name in values}


def read_values(rows: Iterable[Key], fields: MappingReader, reading: Reading) -> dict[str, Any]:
    """The values of the keys that are there and right, by their names."""
    values = {row.name: row.kind.read(fields, row.name, reading) for row in rows if row.name in fields}
    return {name: None if value is NONE else value for name, value in values.items() if value is not None}


# -- types -------------------------------------------------------------------------------------------------------------


def _made(schema: Schema | Callable[[], Schema]) -> Schema:
    return schema() if callable(schema) else schema


def schema_of(type_: Type) -> Schema:
    return _made(type_.schema)


_LINK = late_pattern(r"\[([^\[\]]*)\]\([^()]*\)")


def schema_of_rows(rows: Iterable[Key], *, name: str = "", **more: Any) -> Schema:
    """The schema of a mapping with these keys; ``more`` says which of them go together."""
    rows = tuple(rows)
    words = {row.name: _LINK.sub(r"\1", row.sentence) for row in rows}
    properties = {row.name: {"description": words[row.name], "$of": schema_of(row.kind)} for row in rows}
    required = [row.name for row in rows if row.is_required]
    return {
        **({"$name": name} if name else {}),
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": required} if required else {}),
        **more,
    }


def whole_schema(rows: Iterable[Key]) -> Schema:
    """The schema of a file with these keys, with a definition of whatever stands in several places."""
    defined: dict[str, Any] = {}
    schema: Schema = _defined(schema_of_rows(rows), defined)
    return {**schema, **({"$defs": defined} if defined else {})}


def _defined(schema: Any, defined: dict[str, Any]) -> Any:
    """The schema, with what has a name in ``defined``, and references to it."""
    if isinstance(schema, list):
        return [_defined(part, defined) for part in schema]
    if not isinstance(schema, dict):
        return schema
    rest = {key: _defined(part, defined) for key, part in schema.items() if key not in ("$name", "$of")}
    if "$of" in schema:
        return {**rest, **_defined(schema["$of"], defined)}
    if "$name" not in schema:
        return rest
    name = schema["$name"]
    if defined.setdefault(name, rest) != rest:
        raise ValueError(f"two schemas have the name {name}")
    return {"$ref": f"#/$defs/{name}"}


TEXT: Schema = {
    "$name": "text",
    "$comment": "an editor reads 7 as a number and on, in YAML 1.1, as true; for Hushlist every value is text",
    "type": ["string", "number", "boolean"],
    "pattern": "\\S",
}
_HRN = (
    "^[Hh][Rr][Nn]://(?:-/[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
    "|(?:(?:[A-Za-z0-9$_.+!*'(),;?&=-]|%[0-9A-Fa-f]{2})*@)?(?:(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\\.)*"
    "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?|[0-9]+\\.[0-9]+\\.[0-9]+\\.[0-9]+))"
    "(?:/(?:[A-Za-z0-9$_.+!*'(),-]|%[0-9A-Fa-f]{2})+){0,32}$"
)
HRN: Schema = {"$name": "hrn", "type": "string", "pattern": _HRN, "maxLength": 1024}
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = f"{_BYTE}(?:\\.{_BYTE}){{3}}"
_NETWORK = (
    f"^(?:{_IPV4}(?:/(?:[12]?[0-9]|3[0-2]|{_IPV4}))?"
    f"|(?=[^:]*:[^:]*:)[0-9A-Fa-f:]+(?:{_IPV4})?(?:%[^/%\\s]+)?(?:/(?:[1-9]?[0-9]|1[01][0-9]|12[0-8]))?)$"
)


@cache
def schema_of_category() -> Schema:
    """An `hrn:` name, or a short one, with the levels behind it."""
    names = [*short_names()]
    below = f"^(?:{'|'.join(names)})(?:/[A-Za-z0-9$_.+!*'(),%-]+)+$"
    return {"$name": "category", "anyOf": [HRN, {"enum": names}, {"type": "string", "pattern": below}]}


NETWORK: Schema = {"$name": "network", "type": "string", "pattern": _NETWORK}
OFF: Schema = {"$name": "off", "$comment": "off is this in YAML 1.1", "const": False, "doNotSuggest": True}
_FLAGS: Schema = {"$comment": "an editor reads true and false so", "type": "boolean"}
_SWITCHES: Schema = {"$comment": "on and off are these in YAML 1.1", "type": "boolean", "doNotSuggest": True}


def of_node(
    read: Callable[[YamlNode, Reading], Any], schema: Schema | Callable[[], Schema], rows: tuple[Key, ...] = ()
) -> Type:
    """What a function of its own reads."""

    def read_node(fields: MappingReader, key: str, reading: Reading) -> Any:
        node = fields.node(key)
        return None if node is None else read(node, reading)

    return Type(read_node, schema, rows)


def schema_of_words(words: Iterable[str]) -> Schema:
    allowed = {"enum": list(map(str, words))}
    switches = [_SWITCHES] if "on" in allowed["enum"] else [OFF] if "off" in allowed["enum"] else []
    return {"anyOf": [allowed, *switches]} if switches else allowed


def choice(words: Iterable[str] | Callable[[], Iterable[str]]) -> Type:
    """One of some words, which may be read first when they are needed."""

    def allowed() -> Iterable[str]:
        return words if isinstance(words, Iterable) else words()

    return Type(lambda fields, key, _: fields.choice(key, allowed()), lambda: schema_of_words(allowed()))


def _of_two(words: tuple[str, str], name: str, booleans: Schema) -> Type:
    def read(fields: MappingReader, key: str, _: Reading) -> bool | None:
        word = fields.choice(key, words)
        return None if word is None else word == words[0]

    return Type(read, {"$name": name, "anyOf": [{"enum": list(words)}, booleans]})


switch, flag = _of_two(SWITCH, "switch", _SWITCHES), _of_two(("true", "false"), "flag", _FLAGS)


def schema_of_number(least: int, most: int) -> Schema:
    pattern = f"^[{least}-{most}]$" if most < 10 else f"^[0-9]{{1,{len(str(most))}}}$"
    return {"type": ["integer", "string"], "minimum": least, "maximum": most, "pattern": pattern}


def number(least: int, most: int) -> Type:
    """A whole number."""
    return Type(lambda fields, key, _: fields.number(key, least, most), schema_of_number(least, most))


def numbers(least: int, most: int, make: Callable[[Iterable[int]], Any] = tuple, **more: Any) -> Type:
    """A list of whole numbers, of which ``make`` makes the value."""
    schema = {"type": "array", **more, "items": schema_of_number(least, most)}
    return Type(lambda fields, key, _: make(fields.numbers(key, most, least=least)), schema)


any_text = Type(lambda fields, key, _: fields.text(key), TEXT)


def converted(convert: Callable[[str], Any], expected: str = "", schema: Schema = TEXT) -> Type:
    """Text, and what it is converted to, as ``MappingReader.converted`` does."""
    return Type(lambda fields, key, _: fields.converted(key, convert, expected), schema)


def matching(pattern: re.Pattern[str], expected: str) -> Type:
    """Text that a pattern fits."""
    schema = {"type": "string", "pattern": f"^{pattern.pattern}$"}
    return converted(lambda text: text if pattern.fullmatch(text) else None, expected, schema)


def list_of(item: Schema, **more: Any) -> Schema:
    return {"type": "array", **more, "items": item}


def each_of(convert: Callable[[str], Any], expected: str, make: Callable[[Iterable[Any]], Any] = frozenset) -> Type:
    """A list of text, each ``convert``ed; what that has no value for is an error of the policy."""

    def read(fields: MappingReader, key: str, _: Reading) -> Any:
        pairs = [(item, convert(str(item.value))) for item in fields.items(key)]
        for item in (item for item, value in pairs if value is None):
            fields.report.error(item.line, f"{key}: {item}", expected)
        return make(value for _, value in pairs if value is not None)

    return Type(read, list_of(TEXT))


def some_of(item: Schema, **more: Any) -> Schema:
    """The schema of one of these, or of a list of them."""
    return {"anyOf": [item, list_of(item, **more)]}


hrn = Type(lambda fields, key, _: fields.name(key), HRN)
category = Type(lambda fields, key, reading: fields.name(key, reading.category), schema_of_category)
file = Type(lambda fields, key, reading: reading.file(fields, key), TEXT)
title = Type(lambda fields, _, __: fields.title(), {"$of": TEXT, "maxLength": LONGEST_TITLE})
reason = Type(lambda fields, _, __: fields.reason(), {"$of": TEXT, "maxLength": LONGEST_REASON})

Make = Callable[[MappingReader, Reading], Any]


def mapping(rows: tuple[Key, ...], make: Make, *, name: str = "", **more: Any) -> Type:
    """A mapping with these keys; ``make`` reads them."""
    return of_node(
        lambda node, reading: make(MappingReader(node, names_of(rows), reading.report), reading),
        partial(schema_of_rows, rows, name=name, **more),
        rows,
    )


def read_switch(node: YamlNode, key: str, keys: Sequence[str], report: ProblemReport) -> MappingReader | bool:
    """``on``, ``off`` or a mapping; any other value is an error, and ``off``."""
    if node.value in SWITCH:
        return node.value == "on"
    if isinstance(node.value, dict):
        return MappingReader(node, keys, report)
    report.error(node.line, f"{key}: {node}", f"expected on, off or a mapping with {', '.join(keys)}")
    return False


def schema_of_switch_or(rows: tuple[Key, ...], name: str, **more: Any) -> Schema:
    return {**({"$name": name} if name else {}), "anyOf": [schema_of(switch), schema_of_rows(rows, **more)]}


def switch_or(rows: tuple[Key, ...], make: Make, on: Any, *, off: Any = NONE, name: str = "", **more: Any) -> Type:
    """``on`` or ``off``, each with its value, or a mapping."""

    def read(fields: MappingReader, key: str, reading: Reading) -> Any:
        node = fields.node(key)
        value = False if node is None else read_switch(node, key, names_of(rows), reading.report)
        return make(value, reading) if isinstance(value, MappingReader) else on if value else off

    return Type(read, partial(schema_of_switch_or, rows, name, **more), rows)
