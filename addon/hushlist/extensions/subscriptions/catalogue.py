"""The catalogue of public lists, ``rules/catalogue.yaml``: what each is for, whose it is, and where it is fetched."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hushlist.core.errors import SourceError
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ProblemReport, read_octets
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy import shipped_policy
from hushlist.core.policy.key_types import (
    Reading,
    any_text,
    choice,
    hrn,
    list_of,
    names_of,
    number,
    read_rows,
    schema_of_rows,
)
from hushlist.core.policy.keys import Key, Type
from hushlist.core.system.files import LONGEST_DOCUMENT
from hushlist.extensions.subscriptions.gate_limits import LIST_GATE

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class CatalogueEntry(NamedTuple):
    """A list of the catalogue; the fields are its keys."""

    name: str
    purpose: str
    publisher: str
    #: an SPDX identifier, or the address that the list names
    licence: str
    format: str
    #: an ``hrn:`` name
    category: str
    #: where address, licence and format were read
    source: str
    #: where it is: of a list that comes with Hushlist its file beside the catalogue, or else its address
    url: str = ""
    file: str = ""
    #: about how many entries it had when it was looked at; 0: nobody has counted
    size: int = 0
    #: how often it changes; empty: nobody has looked
    pace: str = ""
    #: what the policy's ``gate`` says of it, where the policy says nothing
    gate: dict[str, str] | None = None

    @property
    def title(self) -> str:
        """What block pages call the list."""
        return f"{self.publisher}, {self.category.rpartition('/')[2]}"


def _read_gate(fields: MappingReader, key: str, reading: Reading) -> dict[str, str] | None:
    """The keys and values of a gate, which are read anew where a policy names the list."""
    LIST_GATE.read(fields, key, reading)
    node = fields.node(key)
    if node is None or not isinstance(node.value, dict):
        return None
    return {name: str(value.value) for name, value in node.value.items()}


def _plain(pattern: str = "") -> Type:
    return Type(any_text.read, {"type": "string", **({"pattern": pattern} if pattern else {})})


_KEYS = (
    Key("name", _plain(f"^{_NAME.pattern}$"), is_required=True).says("""what a list is called: small letters, digits,
        and hyphens between them"""),
    Key("for", _plain(), into="purpose", is_required=True).says("what it is for"),
    Key("publisher", _plain(), is_required=True).says("whose it is"),
    Key("licence", _plain(), is_required=True).says("""its licence, by the SPDX identifier, or the address that the list
        itself names"""),
    Key("url", _plain("^https://")).says("where it is fetched, over https"),
    Key(
        "file", _plain(f"^{_NAME.pattern}\\.yaml$")
    ).says("""in its place: a list that comes with Hushlist, by the name of
        its file beside the catalogue"""),
    Key("format", choice(FORMATS), is_required=True).says("one of the [plain lists](lists.md#plain-lists), or `yaml`"),
    Key("category", Type(hrn.read, {"type": "string", "pattern": "^hrn://"}), is_required=True).says("""what its rules
        are about, an `hrn:` name"""),
    Key("size", number(1, 100_000_000)).says("about how many entries it had when it was looked at"),
    Key("pace", choice(("daily", "weekly", "monthly", "rarely"))).says("""how often it changes: `daily`, `weekly`,
        `monthly` or `rarely`"""),
    Key("gate", Type(_read_gate, partial(schema_of_rows, LIST_GATE.rows))).says("""its [gate](lists.md#changes), where
        the policy gives it none: `{rolling: true}` for a list that is new each day"""),
    Key("source", _plain(), is_required=True).says("where address, licence and format were read"),
)
_ONE_PLACE = [{"required": [key]} for key in ("url", "file")]
_LISTS = Type(any_text.read, lambda: list_of(schema_of_rows(_KEYS, oneOf=_ONE_PLACE)), _KEYS)
CATALOGUE_KEYS = (Key("lists", _LISTS, is_required=True).says("the lists, in the order in which they are shown"),)


def shipped_catalogue() -> Path:
    """The catalogue of a fresh checkout or an installed package."""
    return shipped_policy().with_name("catalogue.yaml")


def read_catalogue(path: Path) -> dict[str, CatalogueEntry]:
    """The lists of a catalogue by name, in its order; ``SourceError``, with file and line, if something is wrong."""
    report = ProblemReport(str(path))
    octets = read_octets(path, report, LONGEST_DOCUMENT)
    document = None if octets is None else read_document(octets, report)
    nodes = [] if document is None else MappingReader(document, names_of(CATALOGUE_KEYS), report).items("lists")
    entries: dict[str, CatalogueEntry] = {}
    for node in nodes:
        entry = _entry(node, report)
        if entry is not None and entries.setdefault(entry.name, entry) is not entry:
            report.error(node.line, entry.name, "more than one list has this name")
    if report.errors:
        raise SourceError(report.errors)
    return entries


def category_names() -> dict[str, str]:
    """The categories of the lists, by the last of their levels."""
    return {entry.category.rpartition("/")[2]: entry.category for entry in read_catalogue(shipped_catalogue()).values()}


def _entry(node: YamlNode, report: ProblemReport) -> CatalogueEntry | None:
    fields = MappingReader(node, names_of(_KEYS), report)
    if missing := [row.name for row in _KEYS if row.is_required and row.name not in fields]:
        report.error(node.line, "list", f"it has no {', no '.join(missing)}")
    values = read_rows(_KEYS, fields, Reading(Path(report.source), report))
    if any(row.is_required and row.field not in values for row in _KEYS):
        return None
    entry = CatalogueEntry(**values)
    if bool(entry.url) == bool(entry.file):
        report.error(node.line, entry.name, "expected exactly one of url, file")
        return None
    if not _NAME.fullmatch(entry.name):
        fields.error("name", "a name has small letters, digits, and hyphens between them", entry.name)
    if entry.url and not entry.url.startswith("https://"):
        fields.error("url", "a public list is fetched over https", entry.url)
    return entry
