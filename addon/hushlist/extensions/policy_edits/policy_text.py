"""The text of a policy file, section by section: a section is a key of the policy with its value, as it is written."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_documents import LOADER, read_document
from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.system.files import LONGEST_DOCUMENT, read_regular, reason_of
from hushlist.extensions.policy_edits.yaml_edits import (
    EditError,
    Plain,
    Splice,
    behind_pair,
    line_end,
    plain_of,
    spliced,
    with_value,
)

_MARK = "\ufeff"
#: what no text of a section has: all but tabs and the ends of lines
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Section:
    """How a section is written: its lines with the key, which are nothing where the policy has it not."""

    name: str
    text: str
    value: Plain
    #: of the file, counted from 1; 0 where the policy has it not
    line: int

    @property
    def etag(self) -> str:
        """What is another one when its text is."""
        return sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True)
class PolicyText:
    """The text of a policy file that can be edited with care."""

    octets: bytes

    @cached_property
    def whole(self) -> dict[str, Plain]:
        """What it says, by section; ``EditError`` as ``nodes``."""
        return {name: plain_of(node) for name, node in self.nodes.items()}

    @cached_property
    def nodes(self) -> dict[str, YamlNode]:
        """What it says with its lines, by section.

        Raises:
            EditError: it cannot be read, or is written in a way that no part of it can be changed.
        """
        report = ProblemReport("policy")
        document = read_document(self.octets, report)
        if report.errors or document is None:
            first = report.errors[0]
            raise EditError(f"line {first.line}: {first.what}: {first.why}")
        if not isinstance(document.value, dict) or not document.value:
            raise EditError("it is no mapping with the keys of a policy")
        self._places  # noqa: B018  it raises
        return document.value

    @property
    def _text(self) -> str:
        return self.octets.decode("utf-8").removeprefix(_MARK)

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        """Where the lines of each section begin and end."""
        text = self._text
        root: Any = yaml.compose(text, LOADER)
        if root.flow_style:
            raise EditError("the policy stands in brackets: write its keys below each other")
        places = {}
        for key, value in root.value:
            start = int(key.start_mark.index)
            if start and text[start - 1] != "\n":
                raise EditError(f"line {text.count(chr(10), 0, start) + 1}: the key does not begin its line")
            places[str(key.value)] = start, behind_pair(text, key, value)
        return places

    def section(self, name: str) -> Section:
        """A section; ``EditError`` as ``whole``."""
        value = self.whole.get(name)
        if name not in self._places:
            return Section(name, "", None, 0)
        start, end = self._places[name]
        return Section(name, self._text[start:end], value, self._text.count("\n", 0, start) + 1)

    def with_value(self, name: str, value: Plain) -> PolicyText:
        """The text in which a section has another value; ``None`` takes it away.

        Raises:
            EditError: it is written in a way that this section cannot be changed.
        """
        wanted = {**self.whole, name: value}
        if value is None:
            del wanted[name]
        if not wanted:
            raise EditError("nothing would be left of the policy")
        return self._checked(with_value(self._text, wanted), wanted)

    def with_text(self, name: str, text: str) -> PolicyText:
        """The text in which a section is written so; nothing takes it away.

        Raises:
            EditError: that is not this section, and nothing else.
        """
        wanted = {key: value for key, value in self.whole.items() if key != name}
        ours = line_end(self._text)
        body = text.removeprefix(_MARK).replace("\r\n", "\n")
        if control := _CONTROL.search(body):
            line = body.count("\n", 0, control.start()) + 1
            raise EditError(f"line {line} of the text has the control character U+{ord(control[0]):04X}")
        lines = f"{body}{'' if body.endswith(chr(10)) or not body else chr(10)}".replace("\n", ours)
        if text.strip():
            said = PolicyText(lines.encode("utf-8", "surrogatepass")).whole
            if [*said] != [name]:
                raise EditError(f"expected the key {name!r} with its value, and nothing else")
            wanted |= said
        whole = self._text
        if name in self._places:
            return self._checked(spliced(whole, [Splice(*self._places[name], lines)]), wanted)
        end = max(end for _, end in self._places.values())
        before = "" if whole[:end].endswith("\n") else ours
        return self._checked(spliced(whole, [Splice(end, end, before + lines)]), wanted)

    def _checked(self, text: str, wanted: dict[str, Plain]) -> PolicyText:
        mark = _MARK if self.octets.startswith(_MARK.encode()) else ""
        after = PolicyText((mark + text).encode("utf-8", "surrogatepass"))
        if len(after.octets) > LONGEST_DOCUMENT:
            raise EditError(f"the policy would have more than {LONGEST_DOCUMENT:,} octets")
        if after.whole != wanted:
            raise EditError("it is written in a way that it cannot be changed here: change the file")
        return after


def policy_text(path: Path) -> PolicyText:
    """The text of a policy file; ``EditError`` if it cannot be read, as its ``whole``."""
    try:
        text = PolicyText(read_regular(path, LONGEST_DOCUMENT))
    except OSError as error:
        raise EditError(reason_of(error)) from error
    text.whole  # noqa: B018  it raises
    return text


def why_read_only(path: Path) -> str | None:
    """Why a policy file is not edited, whatever is in it."""
    try:
        place = path.resolve(strict=True)
    except OSError as error:
        return reason_of(error)
    if place.parent != path.parent.resolve():
        return f"it is a link to {place}: change it there"
    for target in (place, place.parent):
        if not os.access(target, os.W_OK):
            return f"whoever runs the filter may not write to {target}"
    return None
