r"""Formats in JSON: values at paths, each with its line; and how a text tells which of them it is.

A path is the keys from the root, with ``*`` for every item of a list, or every key. Several values may stand one after
the other, as in JSON lines. Where the whole text is one line, a value has the number of its record in place of it.

>>> report = ProblemReport("f")
>>> [(path, node.line, node.value) for path, node in values_at('{"a": [{"b": "x"},\n{"b": "y"}]}', report, "a/*/b")]
[('a/*/b', 1, 'x'), ('a/*/b', 2, 'y')]
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from hushlist.core.extension import ListFormat
from hushlist.core.lists.format_detection import Count, Sample
from hushlist.core.lists.list_source import ListDefaults, ProblemReport, blocks
from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.rule_maker import RuleMaker

_TOKEN = re.compile(
    r'[ \t\r\n]*+(?:([{}\[\],:])|("(?:[^"\\\x00-\x1f]|\\.)*+")|(-?[0-9][0-9.eE+-]*+|true|false|null)|(\Z))'
)
_DEEPEST = 64
_PLACEHOLDER = YamlNode(0, None)


@dataclass(slots=True)
class _Open:
    """A list or an object that is not closed."""

    is_object: bool
    #: what it becomes, if it or something around it is asked for
    node: YamlNode | None
    #: the path that it stands at, if it is asked for itself
    path: str
    #: of the value that is read
    key: str = ""
    has_key: bool = False
    #: whether a value stands in front, so that only a comma or the end may follow
    is_behind: bool = False


class _BrokenError(ValueError):
    pass


def values_at(text: str, report: ProblemReport, *paths: str) -> Iterator[tuple[str, YamlNode]]:
    """The values at some paths, each with its path, in the order in which they end; numbers and words are texts.

    What is no JSON is an error in the report.
    """
    document = _Document(text, [(path, path.split("/")) for path in paths])
    try:
        while token := _TOKEN.match(text, document.place):
            document.take(token)
            yield from document.ended
            document.ended.clear()
            if token[4] is not None:
                return
        raise _BrokenError("what stands there is no JSON")  # noqa: TRY301
    except _BrokenError as error:
        near = text[max(0, document.place - 20) : document.place + 20].strip()
        report.error(document.line, near, f"JSON: {error}")


class _Document:
    """A text that is read up to a place."""

    def __init__(self, text: str, wanted: list[tuple[str, list[str]]]) -> None:
        self._text, self._wanted = text, wanted
        self.place, self.line = 0, 1
        self._is_one_line = "\n" not in text.strip()
        self._depths = {len(parts) for _, parts in wanted}
        self._open: list[_Open] = []
        #: values that have ended
        self.ended: list[tuple[str, YamlNode]] = []

    def take(self, token: re.Match[str]) -> None:
        """Take the next token; ``_BrokenError`` if it may not stand there."""
        self._go_to(token.end())
        inner = self._open[-1] if self._open else None
        sign, quoted, word, is_end = token.groups()
        if inner is None:
            if sign in (",", ":", "}", "]"):
                raise _BrokenError("expected a value")
        elif is_end is not None:
            raise _BrokenError("it ends too early")
        elif inner.is_behind and sign == ",":
            inner.is_behind = False
            return
        elif sign in ("}", "]") and inner.is_object is (sign == "}") and not inner.has_key:
            self._open.pop()
            self._end(inner.node or _PLACEHOLDER, inner.path)
            return
        elif inner.is_behind or sign in (",", ":", "}", "]"):
            raise _BrokenError("expected ',' or the end" if inner.is_behind else "expected a value")
        elif inner.is_object and not inner.has_key:
            colon = _TOKEN.match(self._text, self.place) if quoted else None
            if colon is None or colon[1] != ":":
                raise _BrokenError("expected a key and ':'")
            inner.key, inner.has_key = _string(quoted or ""), True
            self._go_to(colon.end())
            return
        if is_end is None:
            self._begin(sign, quoted, word)

    def _go_to(self, place: int) -> None:
        if not self._is_one_line:
            self.line += self._text.count("\n", self.place, place)
        self.place = place

    def _begin(self, sign: str | None, quoted: str | None, word: str) -> None:
        """Begin a value: a text, a number, a word, or what has others in it."""
        path = self._path() if len(self._open) in self._depths else ""
        is_asked = bool(path) or (self._open != [] and self._open[-1].node is not None)
        if sign is None:
            value = _string(quoted) if quoted else None if word == "null" else word
            self._end(YamlNode(self.line, value) if is_asked else _PLACEHOLDER, path)
        elif len(self._open) == _DEEPEST:
            raise _BrokenError(f"nested deeper than {_DEEPEST} levels")
        else:
            node = YamlNode(self.line, {} if sign == "{" else []) if is_asked else None
            self._open.append(_Open(sign == "{", node, path))

    def _path(self) -> str:
        keys = [level.key for level in self._open]
        return next((path for path, parts in self._wanted if _fits(parts, keys)), "")

    def _end(self, value: YamlNode, path: str) -> None:
        if self._open:
            inner = self._open[-1]
            inner.is_behind, inner.has_key = True, False
            if inner.node is not None and isinstance(inner.node.value, dict):
                inner.node.value[inner.key] = value
            elif inner.node is not None and isinstance(inner.node.value, list):
                inner.node.value.append(value)
        if path:
            self.ended.append((path, value))
            self.line += self._is_one_line


def _fits(parts: list[str], keys: list[str]) -> bool:
    return len(parts) == len(keys) and all(part in ("*", key) for part, key in zip(parts, keys, strict=True))


def _string(quoted: str) -> str:
    if "\\" not in quoted:
        return quoted[1:-1]
    try:
        return str(json.loads(quoted)).encode("utf-8", "replace").decode()  # half a surrogate pair is no character
    except ValueError as error:
        raise _BrokenError("a text with an escape that is none") from error


def count_values(sample: Sample, form: ListFormat) -> Count:
    """The values of the first lines at the paths that ``form.entry`` names; nothing is lost of a list that has some."""
    if not sample.text.lstrip().startswith(("{", "[")):
        return Count(0, 0, sample.number)
    number = sum(1 for _ in values_at(sample.text, ProblemReport(""), *form.entry.split()))
    return Count(number, 0, 0 if number else sample.number)


# -- readers -----------------------------------------------------------------------------------------------------------

#: the rules of a value
ReadValue: TypeAlias = Callable[[RuleMaker, YamlNode], Iterable[Rule]]


def read_json(paths: dict[str, ReadValue]) -> Callable[[bytes, ListDefaults, ProblemReport], Iterator[Rule]]:
    """A reader of JSON, by a table of paths and what makes the rules of a value that stands there.

    A text in which nothing stands at any of them is an error.
    """

    def read_list(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
        text = "\n".join(block.decode(errors="replace") for _, block in blocks(octets, report))
        maker, number = RuleMaker(defaults, report), 0
        if not report.errors:
            for number, (path, value) in enumerate(values_at(text, report, *paths), 1):  # noqa: B007
                yield from paths[path](maker, value)
            if not number and not report.errors:
                report.error(0, "list", f"it has nothing at {' or '.join(paths)}")

    return read_list


def fields_of(node: YamlNode) -> dict[str, YamlNode]:
    """The values of an object; nothing of anything else."""
    return node.value if isinstance(node.value, dict) else {}


def text_of(node: YamlNode | None) -> str:
    """The text of a value; empty for anything else."""
    return node.value.strip() if node is not None and isinstance(node.value, str) else ""


def texts_of(node: YamlNode | None) -> Iterator[tuple[str, int]]:
    """The texts of a list, or the one in its place, with their lines."""
    return ((text_of(item), item.line) for item in node.items) if node is not None else iter(())


def read_name(maker: RuleMaker, node: YamlNode) -> Iterator[Rule]:
    """The rule of a name."""
    return maker.name(text_of(node), node.line)


def read_url(maker: RuleMaker, node: YamlNode) -> Iterator[Rule]:
    """The rule of a URL."""
    return maker.url(text_of(node), node.line)


def read_address(maker: RuleMaker, node: YamlNode) -> Iterator[Rule]:
    """The rules of an address, a range, or several with commas between them."""
    for text in text_of(node).split(","):
        yield from maker.address(text.strip(), node.line)
