"""What a change at the page cannot reach: programs that run, and files outside of the policy's folder.

Whoever has the policy's file says which these are. So that no key is forgotten, a file is whatever may be read as one.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl

from hushlist.core.errors import Problem
from hushlist.core.lists.yaml_edits import plain_of
from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.extensions.policy_edits.policy_text import PolicyText

_COMMAND = "command"
#: both name lists
_SAME_KEY = {"lists": "file"}
#: sections whose paths are those of URLs
_OF_URLS = ("search-forms",)
#: before a socket, as in `syslog:/dev/log` and `clamd:///run/x`
_SCHEME = re.compile(r"\A[a-z+]+:(?:(?=/(?!/))|//(?=/))", re.IGNORECASE)
#: whose parameters may be files
_DATABASE = re.compile(r"postgres(?:ql)?://", re.IGNORECASE)


def out_of_reach(path: Path, before: PolicyText, after: PolicyText) -> list[Problem]:
    """Why a change of the policy at ``path`` is refused before anything that it names is looked at."""
    folder = os.path.realpath(path.parent)
    commands = Counter(str(plain_of(node)) for _, key, node in _values(before) if key == _COMMAND)
    named = {(key, place) for _, key, node in _values(before) for place in _outside(folder, node)}
    problems = []
    for where, key, node in _values(after):
        if key == _COMMAND:
            command = str(plain_of(node))
            commands[command] -= 1
            if commands[command] < 0:
                why = "which programs run is not changed here: change the file"
                problems.append(Problem(str(path), node.line, where, why))
            continue
        for place in _outside(folder, node):
            if (key, place) not in named:
                why = f"{place} is outside of the policy's folder, and no new file there is named here: change the file"
                problems.append(Problem(str(path), node.line, f"{where}: {node}", why))
    return problems


def _values(text: PolicyText) -> Iterator[tuple[str, str, YamlNode]]:
    """Each text, and each command as a whole: the keys above it, the last of them, and itself."""
    for section, node in text.nodes.items():
        if section not in _OF_URLS:
            yield from _below(section, section, node)


def _below(where: str, key: str, node: YamlNode) -> Iterator[tuple[str, str, YamlNode]]:
    if key == _COMMAND or not isinstance(node.value, list | dict):
        yield where, _SAME_KEY.get(key, key), node
    elif isinstance(node.value, list):
        for item in node.value:
            yield from _below(where, key, item)
    else:
        for name, own in node.value.items():
            yield from _below(f"{where}: {name}", name, own)


def _outside(folder: str, node: YamlNode) -> Iterator[str]:
    """Where a text leads as the name of a file, with its links resolved, if that is outside of a folder."""
    if not isinstance(node.value, str) or "\0" in node.value:  # no file can have that name
        return
    names = [node.value, os.path.expanduser(node.value), _SCHEME.sub("", node.value, count=1)]  # noqa: PTH111  of text
    if _DATABASE.match(node.value):
        names += [value for _, value in parse_qsl(node.value.partition("?")[2])]
    for name in dict.fromkeys(names):
        place = os.path.realpath(os.path.join(folder, name))  # noqa: PTH118  as the policy's readers do
        if place != folder and not place.startswith(os.path.join(folder, "")):  # noqa: PTH118
            yield place
