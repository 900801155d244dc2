"""What a change at the page cannot reach: programs that run, secret files, and files outside of the policy's folder.

Whoever has the policy's file says which these are. So that no key is forgotten, a file is whatever may be read as one.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl

from hushlist.core.errors import Problem
from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.extensions.policy_edits.policy_text import PolicyText
from hushlist.extensions.policy_edits.yaml_edits import Plain, plain_of

_COMMAND = "command"
#: both name lists
_SAME_KEY = {"lists": "file"}
#: sections whose paths are those of URLs
_OF_URLS = ("search-forms",)
#: before a socket, as in `syslog:/dev/log` and `clamd:///run/x`
_SCHEME = re.compile(r"\A[a-z+]+:(?:(?=/(?!/))|//(?=/))", re.IGNORECASE)
#: under which a file is secret, whoever may read it
_OF_SECRETS = ("token", "login", "seal")
#: whose parameters may be files
_DATABASE = re.compile(r"postgres(?:ql)?://", re.IGNORECASE)


class _Named(NamedTuple):
    """A text of a policy, or a command as a whole."""

    #: the keys above it, and the last of them
    where: str
    key: str
    node: YamlNode
    #: the mapping that has it, with all else in it; ``None``: no key stands beside its own
    beside: Plain


def out_of_reach(path: Path, before: PolicyText, after: PolicyText) -> list[Problem]:
    """Why a change of the policy at ``path`` is refused before anything that it names is looked at."""
    folder = os.path.realpath(path.parent)
    old = [*_values(before)]
    commands = Counter(str(plain_of(text.node)) for text in old if text.key == _COMMAND)
    named = {(text.key, place) for text in old for place in _places(folder, text.node)}
    secret = {place for key, place in named if key in _OF_SECRETS}
    unchanged = [(text.where, text.beside) for text in old]
    problems = []
    for text in _values(after):
        if text.key == _COMMAND:
            command = str(plain_of(text.node))
            commands[command] -= 1
            if commands[command] < 0:
                why = "which programs run is not changed here: change the file"
                problems.append(Problem(str(path), text.node.line, text.where, why))
            continue
        for place in _places(folder, text.node):
            is_new = (text.key, place) not in named
            if not _is_in(folder, place):
                why = "is outside of the policy's folder, and no new file there is named here" if is_new else ""
            elif place not in secret and not _is_secret(folder, place):
                why = ""
            elif is_new:
                why = "is not for everybody to read, or a secret of the policy, and is not newly named here"
            else:
                is_kept = text.key in _SAME_KEY.values() or (text.where, text.beside) in unchanged
                why = "" if is_kept else "is a secret, and what stands beside it is not changed here"
            if why:
                what, why = f"{text.where}: {text.node}", f"{place} {why}: change the file"
                problems.append(Problem(str(path), text.node.line, what, why))
    return problems


def _values(text: PolicyText) -> Iterator[_Named]:
    """Each text, and each command as a whole."""
    for section, node in text.nodes.items():
        if section not in _OF_URLS:
            yield from _below(section, section, node, None)


def _below(where: str, key: str, node: YamlNode, beside: Plain) -> Iterator[_Named]:
    if key == _COMMAND or not isinstance(node.value, list | dict):
        yield _Named(where, _SAME_KEY.get(key, key), node, beside)
    elif isinstance(node.value, list):
        for item in node.value:
            yield from _below(where, key, item, beside)
    else:
        for name, child in node.value.items():
            yield from _below(f"{where}: {name}", name, child, plain_of(node))


def _places(folder: str, node: YamlNode) -> set[str]:
    """Where a text may lead as the name of a file, with its links resolved."""
    if not isinstance(node.value, str) or "\0" in node.value:  # no file can have that name
        return set()
    names = [node.value, os.path.expanduser(node.value), _SCHEME.sub("", node.value, count=1)]  # noqa: PTH111  of text
    if _DATABASE.match(node.value):
        names += [value for _, value in parse_qsl(node.value.partition("?")[2])]
    return {os.path.realpath(os.path.join(folder, name)) for name in names}  # noqa: PTH118  as the policy's readers do


def _is_in(folder: str, place: str) -> bool:
    return place == folder or place.startswith(os.path.join(folder, ""))  # noqa: PTH118


def _is_secret(folder: str, place: str) -> bool:
    """Whether a place in a folder is a file that not everybody may read who may read the folder."""
    try:
        status = os.stat(place)  # noqa: PTH116
        if not stat.S_ISREG(status.st_mode):
            return False
        above = [parent for parent in Path(place).parents if parent != Path(folder) and _is_in(folder, str(parent))]
        return not (status.st_mode & stat.S_IROTH and all(parent.stat().st_mode & stat.S_IXOTH for parent in above))
    except PermissionError:
        return True
    except (OSError, ValueError):  # there is none
        return False
