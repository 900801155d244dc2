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
from collections.abc import Callable, Generator, Iterable, Iterator
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


class _BrokenError(ValueError):
    pass


def values_at(text: str, report: ProblemReport, *paths: str) -> Iterator[tuple[str, YamlNode]]:
    """The values at some paths, each with its path, in the order in which they end; numbers and words are texts.

    What is no JSON is an error in the report.
    """
    document = _Document(text, [(path, path.split("/")) for path in paths])
    try:
        while (token := document.token())[4] is None:
            yield from document.values(token, (), is_kept=False)
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

    def token(self) -> re.Match[str]:
        """The next token: a sign, a text, a number or word, or the end."""
        token = _TOKEN.match(self._text, self.place)
        if token is None:
            raise _BrokenError("what stands there is no JSON")
        self._go_to(token.end())
        return token

    def _go_to(self, place: int) -> None:
        if not self._is_one_line:
            self.line += self._text.count("\n", self.place, place)
        self.place = place

    def values(
        self, token: re.Match[str], keys: tuple[str, ...], *, is_kept: bool
    ) -> Generator[tuple[str, YamlNode], None, YamlNode]:
        """What is asked for in a value that begins with a token, below some keys; and the value, if it is kept."""
        _check_begins(token)
        sign, quoted, word, _ = token.groups()
        path = self._path(keys) if len(keys) in self._depths else ""
        is_kept, node = is_kept or bool(path), _PLACEHOLDER
        if sign is None:
            value = _string(quoted) if quoted else None if word == "null" else word
            node = YamlNode(self.line, value) if is_kept else _PLACEHOLDER
        elif len(keys) == _DEEPEST:
            raise _BrokenError(f"nested deeper than {_DEEPEST} levels")
        else:
            node, close, key = YamlNode(self.line, {} if sign == "{" else []), "}" if sign == "{" else "]", ""
            while (token := self.token())[1] != close:
                if sign == "{":
                    key, token = self._key(token), self.token()
                item = yield from self.values(token, (*keys, key), is_kept=is_kept)
                if is_kept and isinstance(node.value, dict):
                    node.value[key] = item
                elif is_kept and isinstance(node.value, list):
                    node.value.append(item)
                token = self.token()
                if token[1] == close:
                    break
                if token[1] != ",":
                    raise _BrokenError("expected ',' or the end" if token[4] is None else "it ends too early")
        if path:
            self.line += self._is_one_line
            yield path, node
        return node

    def _key(self, token: re.Match[str]) -> str:
        _check_begins(token)
        colon = _TOKEN.match(self._text, self.place) if token[2] else None
        if colon is None or colon[1] != ":":
            raise _BrokenError("expected a key and ':'")
        key = _string(token[2])
        self._go_to(colon.end())
        return key

    def _path(self, keys: tuple[str, ...]) -> str:
        return next((path for path, parts in self._wanted if _fits(parts, keys)), "")


def _check_begins(token: re.Match[str]) -> None:
    """Whether a key or a value can begin with a token."""
    if token[4] is not None:
        raise _BrokenError("it ends too early")
    if token[1] in (",", ":", "}", "]"):
        raise _BrokenError("expected a value")


def _fits(parts: list[str], keys: tuple[str, ...]) -> bool:
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
