"""What ``hushlist publish`` is to do, in YAML: which lists become what, whose signature they get, and the limits.

key: /etc/hushlist/lists.key
popular: popular.txt
limits: {loses: 20%}
lists:
  - {file: games.txt}
  - {file: adult.txt, as: seal, seal: own.key, to: adult.yaml}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hushlist.core.errors import SourceError
from hushlist.core.lists.list_formats import list_format_of
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.system.files import read_regular, source_errors

#: octets of a plan
_LONGEST = 1 << 20
#: versions before the present one that stay
_MOST_HISTORY = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PERCENT = re.compile(r"([0-9]{1,3})%")

CHANGES, DIGESTS, HISTORY = "CHANGES.md", "SHA256SUMS", "history"
_TAKEN = {name.lower() for name in (CHANGES, DIGESTS, HISTORY)}


class Treatment(StrEnum):
    """What becomes of a list."""

    PLAIN = "plain"
    HIDE = "hide"
    SEAL = "seal"


@dataclass(frozen=True, slots=True)
class PlannedList:
    source: Path
    treatment: Treatment
    #: the name of the file that is published
    name: str
    seal: Path | None


@dataclass(frozen=True, slots=True)
class ReleaseLimits:
    """Percentages: of rules that may go or come, and of hashes that a dictionary may recover; ``None``: all."""

    loses: int | None = 50
    added: int | None = None
    recovered: int | None = None
    #: findings of lint; ``None``: any number
    findings: int | None = None


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    lists: tuple[PlannedList, ...]
    key: Path
    popular: Path | None
    dictionary: Path | None
    history: int
    limits: ReleaseLimits


def read_plan(path: Path, folder: Path) -> ReleasePlan:
    """The plan in a file, to publish in a folder; ``SourceError`` names each line that cannot be used."""
    report = ProblemReport(str(path))
    with source_errors(path, "plan"):
        root = read_document(read_regular(path, _LONGEST), report)
    plan = None if root is None else _Plan(root, path, folder, report).plan()
    if report.errors or plan is None:
        raise SourceError(report.errors)
    return plan


def _percent(text: str) -> int | None:
    match = _PERCENT.fullmatch(text)
    return int(match[1]) if match and int(match[1]) <= 100 else None


class _Plan:
    def __init__(self, root: YamlNode, path: Path, folder: Path, report: ProblemReport) -> None:
        self._base, self._folder, self._report = path.parent, folder.resolve(), report
        keys = ("lists", "key", "popular", "dictionary", "history", "limits")
        self._fields = MappingReader(root, keys, report)

    def plan(self) -> ReleasePlan | None:
        fields = self._fields
        fields.require("lists", "plan")
        fields.require("key", "plan")
        fields.refuse_empty("lists", "expected lists to publish")
        limits, lists = self._limits(), tuple(self._lists())
        key = self._file(fields, "key")
        popular, dictionary = self._file(fields, "popular"), self._file(fields, "dictionary")
        history = fields.number("history", 0, _MOST_HISTORY)
        secrets = {path.resolve() for path in (key, *(each.seal for each in lists)) if path is not None}
        for node, each in zip(fields.items("lists"), lists, strict=False):
            if each.source.resolve() in secrets:
                self._report.error(node.line, str(each.source), "it is a key, which is never published")
        if self._report.errors or key is None:
            return None
        return ReleasePlan(lists, key, popular, dictionary or popular, 10 if history is None else history, limits)

    def _limits(self) -> ReleaseLimits:
        node = self._fields.node("limits")
        if node is None:
            return ReleaseLimits()
        shares = ("loses", "added", "recovered")
        fields = MappingReader(node, (*shares, "findings"), self._report)
        values = {name: fields.converted(name, _percent, "expected a percentage such as 20%") for name in shares}
        values["findings"] = fields.number("findings", 0, 1 << 30)
        return ReleaseLimits(**{name: value for name, value in values.items() if value is not None})

    def _lists(self) -> Iterator[PlannedList]:
        lines: dict[str, int] = {}
        for node in self._fields.items("lists"):
            fields = MappingReader(node, ("file", "as", "seal", "to"), self._report)
            fields.require("file", "lists")
            source, seal = self._file(fields, "file"), self._file(fields, "seal")
            treatment = fields.choice("as", Treatment) or Treatment.PLAIN
            if (treatment is Treatment.SEAL) != (seal is not None):
                fields.error("seal", "'as: seal' and the file of its key go together")
            if source is None:
                continue
            usual = source.name if treatment is Treatment.PLAIN else f"{source.stem}.yaml"
            name = fields.text("to") or usual
            if why := _why_no_name(name, source, treatment):
                fields.error("to", why, name)
            elif name.lower() in lines:
                fields.error("to", f"another list has that name (line {lines[name.lower()]})", name)
            lines.setdefault(name.lower(), node.line)
            yield PlannedList(source, treatment, name, seal)

    def _file(self, fields: MappingReader, key: str) -> Path | None:
        """A file that is not in the folder to publish: everybody reads that, and it is replaced."""
        text = fields.text(key)
        if text is None:
            return None
        path = self._base / text
        try:
            is_published = path.resolve().is_relative_to(self._folder)
        except (OSError, ValueError):  # ValueError: no file can have that name
            fields.error(key, "no file can have that name")
            return None
        if is_published:
            fields.error(key, f"it is in {self._folder}, which everybody reads", text)
        elif not path.is_file():
            fields.error(key, "it is no file" if path.exists() else "there is no such file", text)
        return path


def _why_no_name(name: str, source: Path, treatment: Treatment) -> str:
    if not _NAME.fullmatch(name) or name.lower().endswith(".minisig") or name.lower() in _TAKEN:
        return "it is no name for a published list: letters, digits, dots and hyphens, and no name that publish uses"
    if treatment is not Treatment.PLAIN and list_format_of(Path(name)) not in ("yaml", "sha256"):
        return "a list of hashes ends in .yaml or .sha256"
    path = Path(name)
    if treatment is Treatment.PLAIN and (path.suffix, list_format_of(path)) != (source.suffix, list_format_of(source)):
        return f"it would be read as another format than {source.name}"
    return ""
