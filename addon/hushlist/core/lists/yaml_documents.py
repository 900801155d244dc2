"""A YAML document, read into nodes.

The nodes are built from the parser's events: only text, lists and mappings. Tags and aliases are refused, so no
document grows when it is read.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable

import yaml

from hushlist.core.lists.list_source import ProblemReport, numbered_lines
from hushlist.core.lists.yaml_nodes import NULL, YamlNode

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 16
_SURROGATE = re.compile("[\ud800-\udfff]")
_TAG_DIRECTIVE = re.compile("^%TAG", re.MULTILINE)


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
