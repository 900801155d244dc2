"""Changes values in the text of a YAML document; every octet outside of what changes stays as it is.

YAML's parser tells where each value stands, and what is new is put there into the text. A library that writes the whole
document, even one that keeps comments, would wrap lines differently and lose comments inside brackets. Whoever writes
the text into a file reads it again before.

>>> text = "groups:\\n- name: kids  # ours\\n  users: [mia]\\n- name: guests\\n"
>>> print(with_value(text, {"groups": [{"name": "kids", "users": ["mia", "leo"]}, {"name": "guests"}]}), end="")
groups:
- name: kids  # ours
  users: [mia, leo]
- name: guests
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import yaml

from hushlist.core.errors import HushlistError
from hushlist.core.lists.yaml_documents import LOADER
from hushlist.core.lists.yaml_nodes import NULL, YamlNode

#: a value in plain types: text, nothing, lists and mappings of these
Plain: TypeAlias = "str | list[Plain] | dict[str, Plain] | None"
#: characters of a value that stands in one line
_SHORT = 80
_PLAIN = re.compile(r"(?=[A-Za-z0-9])(?:[\w./-]|:(?=[\w/]))+(?: (?:[\w./-]|:(?=[\w/]))+)*", re.ASCII)
#: what readers of YAML take for another type, or for nothing
_WORDS = re.compile(r"(?:null|true|false|yes|no|y|n)", re.IGNORECASE)
_REST = re.compile(r"[ \t]*(?:#[^\r\n]*)?(?:\r?\n|$)")


class EditError(HushlistError):
    """A text is written in a way that it cannot be changed with care."""


class Splice(NamedTuple):
    """Characters that something stands in for."""

    start: int
    end: int
    text: str


def spliced(text: str, splices: Sequence[Splice]) -> str:
    """The text with all changes."""
    parts, at = [], 0
    for start, end, new in sorted(splices, key=lambda splice: splice[:2]):
        if start < at:
            raise EditError("two changes of the text are of one place")
        parts += [text[at:start], new]
        at = end
    return "".join((*parts, text[at:]))


def plain_of(node: YamlNode) -> Plain:
    """A value that was read, in plain types."""
    if isinstance(node.value, list):
        return [plain_of(item) for item in node.value]
    if isinstance(node.value, dict):
        return {key: plain_of(item) for key, item in node.value.items()}
    return node.value


def with_value(text: str, value: Plain) -> str:
    """The text of a document, without a byte order mark, that says ``value``; the reader takes what it is now.

    Raises:
        EditError: it is written in a way that this part of it cannot be changed.
    """
    root = yaml.compose(text, LOADER)
    if not isinstance(root, yaml.MappingNode) or root.flow_style or not isinstance(value, dict):
        raise EditError("it is no mapping whose keys stand below each other")
    return spliced(text, [*_of_mapping(text, root, value)])


# -- where things stand ------------------------------------------------------------------------------------------------


def end_of(node: Any) -> int:
    """The index behind a node; the parser's own mark of a block collection is behind the comments that follow it."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return end_of(last[1] if isinstance(last, tuple) else last)


def item_text(text: str, node: Any) -> str:
    """How a node is written; a block scalar ends behind its line."""
    return text[node.start_mark.index : end_of(node)].rstrip()


def line_end(text: str) -> str:
    """How the lines of a text end."""
    return "\r\n" if "\r\n" in text else "\n"


def behind_line(text: str, node: Any) -> int:
    """The index of the line below a node, where nothing but a comment stands behind it; else ``EditError``."""
    return _below(text, node.start_mark.index + len(item_text(text, node)))


def behind_pair(text: str, key: Any, value: Any) -> int:
    """As ``behind_line``, of a value that may be nothing."""
    return behind_line(text, value) if item_text(text, value) else _below(text, text.index(":", key.end_mark.index) + 1)


def _below(text: str, end: int) -> int:
    rest = _REST.match(text, end)
    if rest is None:
        raise EditError("something else stands in its line")
    return rest.end()


def line_of_item(text: str, node: Any, before: str = "-") -> int:
    """The index of the line in which a node begins, where nothing but a dash stands before it; else ``EditError``."""
    start = text.rfind("\n", 0, node.start_mark.index) + 1
    if text[start : node.start_mark.index].strip() != before:
        raise EditError("something else stands before it")
    return start


# -- changes -----------------------------------------------------------------------------------------------------------


def _changes(text: str, node: Any, value: Plain) -> Iterator[Splice]:
    """What has to change for a node to have a value."""
    if _plain(node) == value:
        return
    try:
        if isinstance(node, yaml.MappingNode) and isinstance(value, dict) and value and node.value:
            yield from [*_of_mapping(text, node, value)]
            return
        if isinstance(node, yaml.SequenceNode) and isinstance(value, list) and value and node.value:
            yield from [*_of_sequence(text, node, value)]
            return
    except EditError:
        pass  # the whole of it is written anew
    yield _anew(text, node, value)


def _plain(node: Any) -> Plain:
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(child) for key, child in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(child) for child in node.value]
    return None if not node.style and node.value in NULL else str(node.value)


def _anew(text: str, node: Any, value: Plain) -> Splice:
    start, end = node.start_mark.index, node.start_mark.index + len(item_text(text, node))
    before = text[text.rfind("\n", 0, start) + 1 : start]
    is_nothing = start == end and text[start - 1 : start] == ":"
    is_block = not isinstance(node, yaml.ScalarNode) and not node.flow_style and node.value
    if is_block and not isinstance(value, str | None) and value and not before.strip(" -"):
        indent = " " * node.start_mark.column
        if isinstance(node, yaml.SequenceNode) and isinstance(value, dict) and not before.strip():
            # dashes may stand right below their key, and keys may not
            return Splice(start - len(before), end, line_end(text).join(_block(value, f"{indent}  ")))
        return Splice(start, end, line_end(text).join(_block(value, indent)).removeprefix(indent))
    if is_block and not before.strip():  # a collection below its key becomes a value behind it
        key_end = len(text[:start].rstrip())
        if text[key_end - 1] == ":":
            return Splice(key_end, end, f" {flow(value)}")
        return Splice(start, end, f"  {flow(value)}")  # below a comment
    return Splice(start, end, f"{' ' if is_nothing else ''}{flow(value)}")


def _of_mapping(text: str, node: Any, value: dict[str, Plain]) -> Iterator[Splice]:
    kept = [(str(key.value) in value) for key, _ in node.value]
    for (key, child), stays in zip(node.value, kept, strict=True):
        if stays:
            yield from _changes(text, child, value[str(key.value)])
    if not any(kept):
        raise EditError("nothing of it stays")
    names = {str(key.value) for key, _ in node.value}
    added = {key: new for key, new in value.items() if key not in names}
    if node.flow_style:
        spans = [(key.start_mark.index, end_of(child)) for key, child in node.value]
        yield from _in_brackets(spans, kept, {len(kept): [f"{flow(key)}: {flow(new)}" for key, new in added.items()]})
        return
    for place, ((key, child), stays) in enumerate(zip(node.value, kept, strict=True)):
        if not stays:
            yield _without_pair(text, node, place, key, child)
    if added:
        key, child = node.value[-1]
        indent = " " * key.start_mark.column
        lines = [line for name, new in added.items() for line in _pair(name, new, indent)]
        yield _lines_at(text, behind_pair(text, key, child), lines)


def _without_pair(text: str, node: Any, place: int, key: Any, value: Any) -> Splice:
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    end = behind_pair(text, key, value)
    if not text[start : key.start_mark.index].strip():
        return Splice(start, end, "")
    if place + 1 == len(node.value):
        raise EditError("it shares its line with what stays")
    after = node.value[place + 1][0].start_mark.index  # the first key of an item, behind the dash
    if text[end:after].strip():
        raise EditError("a comment stands below it")
    return Splice(key.start_mark.index, after, "")


def _of_sequence(text: str, node: Any, value: list[Plain]) -> Iterator[Splice]:
    old = [_plain(child) for child in node.value]
    places = _kept_places(old, value)
    kept = {place for place in places if place is not None}
    if not kept:
        raise EditError("nothing of it stays")
    for place, new in zip(places, value, strict=True):
        if place is not None:
            yield from _changes(text, node.value[place], new)
    added: dict[int, list[Plain]] = defaultdict(list)  # by the place in the list that they stand before
    last = -1
    for place, new in zip(places, value, strict=True):
        if place is None:
            added[last + 1].append(new)
        else:
            last = place
    if node.flow_style:
        spans = [(child.start_mark.index, end_of(child)) for child in node.value]
        stay = [place in kept for place in range(len(old))]
        yield from _in_brackets(spans, stay, {place: [*map(flow, new)] for place, new in added.items()})
        return
    starts = [line_of_item(text, child) for child in node.value]
    ends = [behind_line(text, child) for child in node.value]
    yield from (Splice(starts[place], ends[place], "") for place in range(len(old)) if place not in kept)
    moved = {_identity(item): place for place, item in enumerate(old) if place not in kept}
    indent = text[starts[0] : node.value[0].start_mark.index].partition("-")[0]
    for place, new in added.items():
        lines = list[str]()
        for item in new:
            from_place = moved.get(_identity(item))
            if from_place is not None and old[from_place] == item:  # with its comments
                lines += re.split("\r?\n", text[starts[from_place] : ends[from_place]].rstrip("\r\n"))
            else:
                lines += _block([item], indent)
        yield _lines_at(text, ends[place - 1] if place else starts[0], lines)


def _lines_at(text: str, place: int, lines: Sequence[str]) -> Splice:
    """Lines that are put before the one that begins at an index, or at the end of the text."""
    new = "".join(f"{line}{line_end(text)}" for line in lines)
    is_open = place == len(text) and text and not text.endswith("\n")
    return Splice(place, place, f"{line_end(text)}{new}".removesuffix(line_end(text)) if is_open else new)


def _in_brackets(
    spans: Sequence[tuple[int, int]], stay: Sequence[bool], added: Mapping[int, Sequence[str]]
) -> Iterator[Splice]:
    """Of items in brackets, some of which stay; what is added stands before the item of that place."""
    first = stay.index(True)
    if first:
        yield Splice(spans[0][0], spans[first][0], "")
    for place in range(first + 1, len(spans)):
        if not stay[place]:
            yield Splice(spans[place - 1][1], spans[place][1], "")
    for place, new in added.items():
        if new and place <= first:
            yield Splice(spans[first][0], spans[first][0], "".join(f"{item}, " for item in new))
        elif new:
            before = next(at for at in reversed(range(place)) if stay[at])
            yield Splice(spans[before][1], spans[before][1], "".join(f", {item}" for item in new))


def _identity(value: Plain) -> str:
    """What an item is known by where it has changed: its name, if it has one."""
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        return f"name: {value['name']}"
    return json.dumps(value, sort_keys=True)


def _kept_places(old: Sequence[Plain], new: Sequence[Plain]) -> list[int | None]:
    """For each item of a new list its place in the old one, if it stays there; the places ascend.

    An item that is known by nothing takes the place of the old one between the same neighbours.
    """
    by_identity: dict[str, deque[int]] = defaultdict(deque)
    for place, item in enumerate(old):
        by_identity[_identity(item)].append(place)
    matched = [by_identity[name].popleft() if by_identity[name] else None for name in map(_identity, new)]
    kept = _ascending([place for place in matched if place is not None])
    places = [place if place in kept else None for place in matched]
    following, free = -1, {*range(len(old))} - {place for place in matched if place is not None}
    for at, kept_place in enumerate(places):
        if kept_place is None and matched[at] is None and following + 1 in free:
            places[at] = following + 1
        following = following if places[at] is None else int(places[at] or 0)
    return places


def _ascending(numbers: Sequence[int]) -> set[int]:
    """The longest ascending run of numbers that are all different."""
    ends, at, before = list[int](), list[int](), list[int]()
    for place, number in enumerate(numbers):
        length = bisect_left(ends, number)
        before.append(at[length - 1] if length else -1)
        ends[length : length + 1], at[length : length + 1] = [number], [place]
    run, place = set[int](), at[-1] if at else -1
    while place >= 0:
        run.add(numbers[place])
        place = before[place]
    return run


# -- writing -----------------------------------------------------------------------------------------------------------


def flow(value: Plain) -> str:
    """A value in one line.

    >>> print(flow({"name": "a: b", "layers": ["x", {"during": "school time"}], "off": None, "n": "null"}))
    {name: "a: b", layers: [x, {during: school time}], off: null, "n": "null"}
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    if value is None:
        return "null"
    return value if _PLAIN.fullmatch(value) and not _WORDS.fullmatch(value) else _quoted(value)


def _quoted(text: str) -> str:
    """Text in quotes, as JSON has it, but for what YAML escapes otherwise."""
    escaped = (
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text.replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{"".join(escaped)}"'


def _block(value: Plain, indent: str) -> Iterator[str]:
    """The lines of a value that is not short."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _pair(key, item, indent)
    elif isinstance(value, list) and value:
        for item in value:
            if isinstance(item, dict) and item and not _is_short(item, indent):
                first, *rest = _block(item, f"{indent}  ")
                yield f"{indent}- {first.lstrip()}"
                yield from rest
            else:
                yield f"{indent}- {flow(item)}"
    else:
        yield f"{indent}{flow(value)}"


def _pair(key: str, value: Plain, indent: str) -> Iterator[str]:
    if isinstance(value, dict | list) and value and not _is_short(value, indent):
        yield f"{indent}{flow(key)}:"
        yield from _block(value, f"{indent}  ")
    else:
        yield f"{indent}{flow(key)}: {flow(value)}"


def _is_short(value: Plain, indent: str) -> bool:
    return len(indent) + len(flow(value)) <= _SHORT
