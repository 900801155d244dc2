"""A YAML document as nodes that know their line, and typed access to them that reports errors instead of raising.

The nodes are built from the parser's events: only text, lists and mappings. Tags and aliases are refused, so no
document grows when it is read.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import PurePath
from typing import TypeVar

import yaml

from hushlist.core.errors import UrlError, did_you_mean, printable
from hushlist.core.lists.list_source import (
    LONGEST_REASON,
    LONGEST_TITLE,
    ProblemReport,
    numbered_lines,
    reason_at,
)
from hushlist.core.url.hrn import parse_hrn

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 16
#: characters of a word that a name is made from
_LONGEST_WORD = 40
_SURROGATE = re.compile("[\ud800-\udfff]")
_TAG_DIRECTIVE = re.compile("^%TAG", re.MULTILINE)
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9][\w./-]*(?: [\w./-]+)*", re.ASCII)
NULL = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A value and the line where it begins; ``None`` is YAML's null, every other scalar is its text."""

    line: int
    value: str | list[YamlNode] | dict[str, YamlNode] | None

    @property
    def kind(self) -> str:
        """The type of the value, as reports call it."""
        if self.value is None or self.value == "":
            return "nothing"
        return {str: "text", list: "a list", dict: "a mapping"}[type(self.value)]

    @property
    def items(self) -> list[YamlNode]:
        """The items of a list; anything else is a list of one."""
        return self.value if isinstance(self.value, list) else [self]

    def __str__(self) -> str:
        return repr(self.value) if isinstance(self.value, str) else self.kind

    def short_for(self, key: str, kind: type = str) -> YamlNode:
        """The mapping that has the value under a key, if the value is of the kind that is short for that; else this."""
        return YamlNode(self.line, {key: self}) if isinstance(self.value, kind) else self


def read_document(octets: bytes, report: ProblemReport) -> YamlNode | None:
    """The one document of a YAML file, or ``None`` with errors in the report."""
    before = len(report.errors)
    text = "\n".join(line for _, line in numbered_lines(octets, report))
    if len(report.errors) > before:
        return None
    ends = [match.start() for match in re.finditer("\n", text)]

    def line_of(position: int) -> int:
        """The line of a character, as editors count them; YAML itself ends lines at other characters too."""
        return bisect_left(ends, position) + 1

    if directive := _TAG_DIRECTIVE.search(text):  # before libyaml compares each with all others
        report.error(line_of(directive.start()), "%TAG", "tags are not supported")
        return None
    builder = _NodeBuilder(report, line_of)
    try:
        for event in yaml.parse(text, Loader=LOADER):
            if not builder.accepts(event):
                return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = ", ".join(filter(None, (error.context, error.problem)))
        report.error(0 if mark is None else line_of(mark.index), "YAML", why + _hint(error, text))
    except yaml.reader.ReaderError as error:
        character = f"U+{error.character:04X}" if isinstance(error.character, int) else repr(error.character)
        report.error(line_of(error.position), "YAML", f"{error.reason}: {character}")
    if len(report.errors) > before:
        return None
    return builder.root or YamlNode(1, None)


def _hint(error: yaml.MarkedYAMLError, text: str) -> str:
    """A hint for common mistakes in YAML, or nothing."""
    if hint := _indentation(error, text):
        return hint
    if error.problem and error.problem.startswith("mapping values"):
        return ": a text with ': ' in it has to stand in quotes, and the keys of a mapping below each other"
    marks = (mark for mark in (error.problem_mark, error.context_mark) if mark is not None)
    return next((_HINTS[at] for mark in marks if (at := text[mark.index : mark.index + 1]) in _HINTS), "")


#: what stands before a key or an item, and then the text up to the first colon
_INDENTED = re.compile(r"( *(?:- +)*)[^\n:]*")


def _indentation(error: yaml.MarkedYAMLError, text: str) -> str:
    """A hint if the line of the error begins in another column than the line above it, or nothing."""
    mark, context, problem = error.problem_mark, error.context or "", error.problem or ""
    is_key = problem.startswith("mapping values")
    if mark is None or not (is_key or context.startswith("while parsing a block")):
        return ""
    *before, line = text[: mark.index].split("\n")
    line += text[mark.index :].split("\n", 1)[0]
    above = next((other for other in reversed(before) if other.strip() and not other.lstrip().startswith("#")), None)
    indent = _INDENTED.match(line)
    its = None if above is None else _INDENTED.match(above)
    if indent is None or its is None or indent.end(1) == its.end(1) or (is_key and indent.end() != mark.column):
        return ""
    return (
        f": it begins in column {indent.end(1) + 1}, and the line above it in column {its.end(1) + 1}; "
        "the keys of a mapping, and the items of a list, have to begin below each other"
    )


#: the character at which the parser fails, or at which the unfinished text begins -> the hint
_HINTS = {
    "\t": ": indent with spaces, not with tabs",
    **{character: f": a text that begins with {character!r} has to stand in quotes" for character in "@`%|*&!:"},
}


class _NodeBuilder:
    """Makes nodes from events, and reports YAML features that rule files must not use, with their line."""

    def __init__(self, report: ProblemReport, line_of: Callable[[int], int]) -> None:
        self._line_of = line_of
        self.root: YamlNode | None = None
        self._report = report
        self._open: list[YamlNode] = []
        self._keys: list[YamlNode | None] = []

    def accepts(self, event: yaml.Event) -> bool:
        """Take the event; false if reading must stop."""
        line = self._line_of(event.start_mark.index if event.start_mark else 0)
        if fault := self._fault(event):
            self._report.error(line, *fault)
            return False
        match event:
            case yaml.ScalarEvent():
                is_plain = event.implicit[0]
                self._place(YamlNode(line, None if is_plain and event.value in NULL else event.value))
            case yaml.CollectionStartEvent():
                node = YamlNode(line, {} if isinstance(event, yaml.MappingStartEvent) else [])
                self._place(node)
                self._open.append(node)
                self._keys.append(None)
            case yaml.CollectionEndEvent():
                self._open.pop()
                self._keys.pop()
        return True

    def _fault(self, event: yaml.Event) -> tuple[str, str] | None:
        """What rule files must not have, and why."""
        match event:
            case yaml.AliasEvent():
                return f"*{event.anchor}", "aliases are not supported"
            case yaml.NodeEvent() if event.anchor is not None:
                return f"&{event.anchor}", "anchors are not supported"
            case yaml.ScalarEvent() | yaml.CollectionStartEvent() if event.tag is not None:
                return event.tag, "tags are not supported"
            case yaml.DocumentStartEvent() if self.root is not None:
                return "---", "there is more than one document in the file"
            case yaml.ScalarEvent() if _SURROGATE.search(event.value):
                return "YAML", "a surrogate is no character"
            case yaml.CollectionStartEvent() if len(self._open) == _DEEPEST:
                return "YAML", f"nested deeper than {_DEEPEST} levels"
        return None

    def _place(self, node: YamlNode) -> None:
        if not self._open:
            self.root = node
            return
        parent, key = self._open[-1].value, self._keys[-1]
        if isinstance(parent, list):
            parent.append(node)
        elif isinstance(parent, dict) and key is None:
            self._keys[-1] = node
        elif isinstance(parent, dict) and key is not None:
            self._keys[-1] = None
            if not isinstance(key.value, str):
                self._report.error(key.line, str(key), "a key has to be text")
            elif key.value in parent:
                first = parent[key.value].line
                self._report.error(key.line, key.value, f"the key is given twice (first in line {first})")
            else:
                parent[key.value] = YamlNode(node.line if node.value is not None else key.line, node.value)


def _with_suggestion(why: str, word: str, source: str) -> str:
    """Why a word is no name, and if that says no name which could be meant, one."""
    return why if "did you mean" in why else why + _suggested_name(word, source)


_NOT_IN_NAME = re.compile("[^a-z0-9]+")


def _suggested_name(word: str, source: str) -> str:
    """A name that could be meant by a word that is none, made from it and the file that it is about; or nothing.

    >>> _suggested_name("Games", "lists/g.hosts"), _suggested_name("hrn://x y", "g.hosts")
    ("; for example 'hrn://g.example/games'", '')
    """
    name, stem = (_NOT_IN_NAME.sub("-", part.lower()).strip("-") for part in (word, PurePath(source).stem))
    is_word = name and len(word) <= _LONGEST_WORD and not word.lower().startswith("hrn:")
    return f"; for example 'hrn://{stem or 'list'}.example/{name}'" if is_word else ""


def _number(least: int, most: int, text: str) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    return int(text) if is_number and least <= int(text) <= most else None


_Value = TypeVar("_Value")
_Choice = TypeVar("_Choice", bound=str)


class MappingReader:
    """Typed access to a mapping; a value of the wrong type is an error in the report, and counts as absent.

    ``left_out`` has keys that are known and cannot be used, each with what is said of it.
    """

    def __init__(
        self, node: YamlNode, keys: Iterable[str], report: ProblemReport, left_out: Mapping[str, str] | None = None
    ) -> None:
        self.line = node.line
        #: what is wrong goes there
        self.report = report
        self._values: Mapping[str, YamlNode] = {}
        self._is_mapping = isinstance(node.value, dict)
        self.keys = keys = tuple(keys)
        if not isinstance(node.value, dict):
            report.error(node.line, str(node), f"expected a mapping with {', '.join(keys)}")
            return
        self._values = node.value
        for key, value in node.value.items():
            if left_out and key in left_out:
                report.error(value.line, key, left_out[key])
            elif key not in keys:
                near = "" if report.is_full else did_you_mean(key, keys)
                report.error(value.line, key, f"unknown key{near} (known: {', '.join(keys)})")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def require(self, key: str, what: str, why: str = "") -> None:
        """Report that a key is missing; nothing if there is no mapping at all, which is in the report already."""
        if self._is_mapping and key not in self._values:
            self.report.error(self.line, what, why or f"it has no {key}")

    def error(self, key: str, why: str, what: str | None = None) -> None:
        """Report an error in the line of a key, with the key or with ``what``."""
        self.report.error(self.line_of(key), key if what is None else what, why)

    def refuse_empty(self, key: str, expected: str) -> None:
        """Report an empty list, which would not mean what it says."""
        node = self._values.get(key)
        if node is not None and node.value == []:
            self.error(key, f"{expected}, not an empty list")

    def line_of(self, key: str) -> int:
        """The line of a key's value; of the mapping, if the key is absent."""
        return self._values[key].line if key in self._values else self.line

    def text(self, key: str) -> str | None:
        """Text that is not empty, or ``None``."""
        node = self._values.get(key)
        if node is None:
            return None
        if isinstance(node.value, str) and node.value.strip():
            return node.value
        kind = "white space" if isinstance(node.value, str) and node.value else node.kind
        self.report.error(node.line, key, f"expected text, not {kind}")
        return None

    def title(self) -> str | None:
        """What people call a list, or ``None``."""
        return self._bounded("title", LONGEST_TITLE)

    def reason(self) -> str | None:
        """What the block page says, or ``None``."""
        return self._bounded("reason", LONGEST_REASON)

    def _bounded(self, key: str, longest: int) -> str | None:
        text = self.text(key)
        if text is None or len(text) <= longest:
            return text
        self.error(key, f"it has {len(text):,} characters, and {longest} are the most")
        return None

    def converted(self, key: str, convert: Callable[[str], _Value | None], expected: str = "") -> _Value | None:
        """A key's text, converted; ``None`` if it is absent, or cannot be converted.

        Without ``expected``, the converter's ``ValueError`` says why, and the text, which may be secret, is not quoted.
        """
        text, why = self.text(key), expected
        if text is None:
            return None
        try:
            if (value := convert(text)) is not None:
                return value
        except ValueError as error:
            why = why or str(error)
        self.error(key, why, f"{key}: {text}" if expected else None)
        return None

    def choice(self, key: str, choices: Iterable[_Choice]) -> _Choice | None:
        """One of some words, or ``None``."""
        words: dict[str, _Choice] = {choice: choice for choice in choices}
        return self.converted(key, words.get, f"expected one of {', '.join(words)}")

    def name(self, key: str, parse: Callable[[str], object] = parse_hrn) -> str | None:
        """An ``hrn:`` name in normal form, or what ``parse`` makes of it; or ``None``."""
        text = self.text(key)
        try:
            return None if text is None else str(parse(text))
        except UrlError as error:
            of = self._values["file"].value if "file" in self._values else self.report.source
            why = _with_suggestion(reason_at(error), text or "", str(of))
            self.error(key, why, f"{key}: {text}")
            return None

    def day(self, key: str) -> date | None:
        """A day such as 2026-12-31, or ``None``."""
        return self.converted(key, date.fromisoformat, "expected a day such as 2026-12-31")

    def number(self, key: str, least: int, most: int) -> int | None:
        """A whole number, or ``None``."""
        return self.converted(key, partial(_number, least, most), f"expected a number from {least} to {most}")

    def numbers(self, key: str, most: int, *, least: int = 0) -> Iterator[int]:
        """The whole numbers of a list, from ``least`` to ``most``; none if it is absent."""
        for node in self.items(key):
            number = _number(least, most, node.value) if isinstance(node.value, str) else None
            if number is not None:
                yield number
            else:
                self.report.error(node.line, f"{key}: {node}", f"expected a number from {least} to {most}")

    def node(self, key: str) -> YamlNode | None:
        """A value of any type, or ``None``."""
        return self._values.get(key)

    def entries(self, key: str) -> Iterator[tuple[str, YamlNode]]:
        """The keys and values of a mapping; none if it is absent."""
        node = self._values.get(key)
        if node is not None and isinstance(node.value, dict):
            yield from node.value.items()
        elif node is not None:
            self.report.error(node.line, key, f"expected a mapping, not {node.kind}")

    def names(self, key: str, parse: Callable[[str], str]) -> Iterator[tuple[str, str, YamlNode]]:
        """The entries whose keys are names: the normal form, the name as written, and the value; each once."""
        lines: dict[str, int] = {}
        for text, node in self.entries(key):
            try:
                name = parse(text)
            except UrlError as error:
                self.report.error(node.line, text, _with_suggestion(error.reason, text, self.report.source))
                continue
            if name in lines:
                self.report.error(node.line, text, f"the category is given twice (first in line {lines[name]})")
                continue
            lines[name] = node.line
            yield name, text, node

    def items(self, key: str) -> Iterator[YamlNode]:
        """The items of a list; none if it is absent."""
        node = self._values.get(key)
        if node is not None and isinstance(node.value, list):
            yield from node.value
        elif node is not None:
            self.report.error(node.line, key, f"expected a list, not {node.kind}")


def flow_text(value: object) -> str:
    """A value in the flow style of YAML.

    >>> print(flow_text({"name": "a: b", "layers": ["x", {"during": "school time"}]}))
    {name: "a: b", layers: [x, {during: school time}]}
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow_text(key)}: {flow_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow_text, value))}]"
    text = str(value)
    is_plain = _PLAIN_TEXT.fullmatch(text) and text.lower() != "null"
    return text if is_plain else json.dumps(printable(text), ensure_ascii=False)
