"""The two policies of a visit: what an administrator's policy says of lists, without the lists to try and with them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from hushlist.core.lists.packed_lists import open_list, unpacked_name
from hushlist.core.policy.policy_reader import policy_at
from hushlist.core.system.files import LONGEST_DOCUMENT, LONGEST_LIST, read_regular, replace_file, source_errors
from hushlist.tools.audit.written_lines import written_lines
from hushlist.tools.visit.signals import RuleUse

#: the keys of a policy that say what is decided; a visit logs nothing, asks nobody and opens nothing for a while
_DECIDING = ("unparsable", "timezone", "schedules", "layers", "categories", "unknown-context")


class VisitPolicies:
    """Writes policies to a folder, each under a new name, by which a filter takes it for another one."""

    def __init__(self, folder: Path, lists: Sequence[tuple[Path, str | None]], policy: Path | None) -> None:
        """``lists``: their files and formats, where these are given; ``policy`` may have some of them, too."""
        self._folder, self._lists, self._number = folder, lists, 0
        self._base: dict[str, Any] = {}
        #: copy -> the list that it is of; texts of rules by list and line
        self._originals: dict[Path, Path] = {}
        self._texts: dict[tuple[Path, int], str] = {}
        if policy is not None:
            policy_at(policy)  # says with file and line what is wrong
            with source_errors(policy, "policy"):
                document = yaml.safe_load(read_regular(policy, LONGEST_DOCUMENT))
            self._base = {key: document[key] for key in _DECIDING if key in document}
        tried = {path.absolute() for path, _ in lists}
        self._layers = [
            layer
            for each in self._base.pop("layers", [])
            if (layer := _absolute(each, policy.parent.absolute() if policy else Path(), tried))
        ]

    def without(self) -> Path:
        return self._write(self._layers)

    def with_lists(self, exceptions: Iterable[RuleUse] = ()) -> Path:
        """With the lists, and an exception for each of these rules, as ``exception_for`` writes it."""
        more: dict[Path, list[str]] = {}
        top: list[str] = []
        for rule in exceptions:
            line, path = self.exception_for(rule), Path(rule.source)
            if self._is_adblock(path):
                more.setdefault(path, []).append(line)
            else:
                top.append(line)
        lists = []
        for path, form in self._lists:
            file = self._longer(path, more[path.absolute()]) if path.absolute() in more else path.absolute()
            lists.append({"file": str(file)} | ({"format": form} if form else {}))
        above = []
        if top:
            overrides = self._path(".yaml")
            replace_file(overrides, ("rules:\n" + "".join(f"  {line}\n" for line in top)).encode())
            above = [{"name": "visit-exceptions", "lists": [str(overrides)]}]
        return self._write([*above, *self._layers, {"name": "visit", "lists": lists}])

    def exception_for(self, rule: RuleUse) -> str:
        """A line to paste: into an Adblock list itself, or else into rules in YAML of a layer above the list."""
        if self._is_adblock(Path(rule.source)):
            return f"@@{rule.text}"
        return f"- {json.dumps({'expression': rule.expression, 'action': 'allow'})}"

    def as_written(self, rule: RuleUse) -> RuleUse:
        """A rule with the place and the text that it has in the list that was named; a copy has its lines, too."""
        path = self._originals.get(Path(rule.source), Path(rule.source))
        place = path, rule.line
        if place not in self._texts:
            self._texts[place] = written_lines(path, (rule.line,), None).get(rule.line, rule.text)
        return rule._replace(source=str(path), text=self._texts[place])

    def _is_adblock(self, path: Path) -> bool:
        return any(path == each.absolute() and (form or "").startswith("adblock") for each, form in self._lists)

    def _longer(self, path: Path, more: Sequence[str]) -> Path:
        with source_errors(path, "list"), open_list(path, LONGEST_LIST) as file:
            octets = file.read()
        copy = self._path(unpacked_name(path).suffix)
        self._originals[copy] = path.absolute()
        replace_file(copy, octets.rstrip(b"\n") + b"\n" + "".join(f"{line}\n" for line in more).encode())
        return copy

    def _write(self, layers: list[dict[str, Any]]) -> Path:
        file = self._path(".policy.yaml")
        replace_file(file, yaml.safe_dump(self._base | {"layers": layers}, sort_keys=False).encode())
        return file

    def _path(self, suffix: str) -> Path:
        self._number += 1
        return self._folder / f"{self._number}{suffix}"


def _absolute(layer: Mapping[str, Any], folder: Path, tried: set[Path]) -> dict[str, Any]:
    """A layer whose lists are named from the root, without those that are tried; empty if none is left."""
    lists = []
    for each in layer.get("lists", []):
        name = each.get("file") if isinstance(each, Mapping) else each
        if name is None:
            lists.append(each)
        elif (path := (folder / str(name)).absolute()) not in tried:
            lists.append({**(each if isinstance(each, Mapping) else {}), "file": str(path)})
    kept = {key: value for key, value in layer.items() if key != "lists"} | ({"lists": lists} if lists else {})
    return kept if lists or "checks" in kept else {}
