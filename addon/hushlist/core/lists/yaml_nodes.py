"""Nodes of a YAML document that know their line, and typed access to them that reports errors instead of raising."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from functools import partial
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

from hushlist.core.errors import UrlError, did_you_mean, printable
from hushlist.core.lists.list_source import (
    LONGEST_REASON,
    LONGEST_TITLE,
    ProblemReport,
    reason_at,
)
from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.url.hrn import parse_hrn

#: characters of a word that a name is made from
_LONGEST_WORD = 40
_PLAIN_TEXT = late_pattern(r"[A-Za-z0-9][\w./-]*(?: [\w./-]+)*", re.ASCII)
NULL = ("", "~", "null", "Null", "NULL")


class YamlNode(NamedTuple):
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

    def as_plain(self) -> list[object]:
        """For JSON."""
        match self.value:
            case list():
                return [self.line, [node.as_plain() for node in self.value]]
            case dict():
                return [self.line, {key: node.as_plain() for key, node in self.value.items()}]
        return [self.line, self.value]

    @classmethod
    def of_plain(cls, plain: Any) -> YamlNode:
        """The node that ``as_plain`` was made of; ``ValueError`` or ``TypeError`` if it was made of none."""
        line, value = plain
        if isinstance(value, list):
            return cls(line, [cls.of_plain(item) for item in value])
        if isinstance(value, dict):
            return cls(line, {key: cls.of_plain(item) for key, item in value.items()})
        return cls(line, value)

    def short_for(self, key: str, kind: type = str) -> YamlNode:
        """The mapping that has the value under a key, if the value is of the kind that is short for that; else this."""
        return YamlNode(self.line, {key: self}) if isinstance(self.value, kind) else self


def _with_suggestion(why: str, word: str, source: str) -> str:
    """Why a word is no name, and if that says no name which could be meant, one."""
    return why if "did you mean" in why else why + _suggested_name(word, source)


_NOT_IN_NAME = late_pattern("[^a-z0-9]+")


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

    def some(self, key: str) -> list[YamlNode]:
        """The items of a list, or the one value that stands alone; none if it is absent."""
        return self._values[key].items if key in self._values else []

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
