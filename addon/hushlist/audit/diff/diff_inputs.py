"""Reads the two sides of a diff: lists or policies, their files, and the policies that use them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hushlist.audit.diff.diff_job import DiffSide
from hushlist.errors import Problem, SourceError
from hushlist.lists.list_formats import FOLDERS
from hushlist.lists.list_source import ListDefaults, ProblemReport
from hushlist.policy.policy_file import Layer, ListError, ListFile, Policy, fingerprint, list_files, read_policy
from hushlist.system.files import open_regular

#: octets of a file that are searched for signs of a policy
_HEAD = 1 << 20
_LAYERS = re.compile(rb"""^[ \t{]*["']?layers["']?[ \t]*:""", re.MULTILINE)
_LAYER = "lists"


def is_policy(path: Path) -> bool:
    """Whether a file is a policy (a YAML document with layers), not a list."""
    if path.suffix.lower() not in (".yaml", ".yml"):
        return False
    try:
        with open_regular(path) as file:
            return _LAYERS.search(file.read(_HEAD)) is not None
    except (OSError, ValueError):
        return False  # the next reader reports why


def policy_at(path: Path) -> Policy:
    """A policy.

    Raises:
            SourceError: the policy cannot be used.
    """
    report = ProblemReport(str(path))
    policy = read_policy(path, report)
    if policy is None or report.errors:
        raise SourceError(report.errors)
    return policy


def side_of_policy(policy: Policy) -> DiffSide:
    """All files of a policy, named by their paths relative to it."""
    files = tuple(file for layer in policy.layers for file in layer.lists)
    folder = Path(policy.source).parent
    return DiffSide(files, tuple(os.path.relpath(file.path, folder) for file in files))


def side_of_list(path: Path, form: str | None, defaults: ListDefaults) -> DiffSide:
    """The file of a list, or the files of a folder, which keep their names.

    Raises:
            SourceError: there is no such list.
    """
    try:
        return _side(path, tuple(list_files(path, form, replace(defaults, layer=defaults.layer or _LAYER))))
    except ListError as error:
        raise SourceError([Problem(str(path), 0, "list", str(error))]) from error


def _side(path: Path, files: tuple[ListFile, ...]) -> DiffSide:
    return DiffSide(files, tuple(file.path.name if path.is_dir() else "" for file in files))


def policy_of(path: Path, side: DiffSide) -> Policy:
    """A policy with just this list."""
    seen = {file.path: fingerprint(file.path) for file in side.files}
    return Policy(str(path), (Layer(_LAYER, lists=side.files),), files=seen)


def replaced(policy: Policy, old: Path, new: Path) -> tuple[DiffSide, DiffSide, Policy]:
    """A list of a policy, its replacement, and the policy with that; the replacement is read as the policy says.

    Raises:
            SourceError: the policy has no such list, or the replacement cannot be used.
    """
    olds = [file for layer in policy.layers for file in layer.lists if _is_of(file.path, old)]
    if not olds:
        known = ", ".join(sorted({str(file.path) for layer in policy.layers for file in layer.lists}))
        raise SourceError(
            [Problem(policy.source, 0, str(old), f"it is none of the policy's lists ({known or 'none'})")]
        )
    news: list[ListFile] = []
    layers: list[Layer] = []
    for layer in policy.layers:
        of_layer = [file for file in layer.lists if _is_of(file.path, old)]
        lists: list[ListFile] = []
        for file in layer.lists:
            if not _is_of(file.path, old):
                lists.append(file)
                continue
            found = _replacements(file, of_layer, new, is_folder=old.is_dir())
            news += found
            lists += found
        layers.append(replace(layer, lists=tuple(lists)))
    if not news:
        raise SourceError([Problem(str(new), 0, "list", f"nothing in it can stand in the place of {old}")])
    files = {path: seen for path, seen in policy.files.items() if not _is_of(path, old)}
    files.update((file.path, fingerprint(file.path)) for file in news)
    return _side(old, tuple(olds)), _side(new, tuple(news)), replace(policy, layers=tuple(layers), files=files)


def _is_of(path: Path, old: Path) -> bool:
    """Whether a file is the list, or in its folder."""
    own, wanted = path.resolve(), old.resolve()
    return own == wanted or (own.parent == wanted and wanted.is_dir())


def _replacements(file: ListFile, olds: Sequence[ListFile], new: Path, *, is_folder: bool) -> list[ListFile]:
    """What replaces a file of a layer; it keeps the old name, as if it were moved there.

    The first of a folder also brings the files that the old folder does not have.
    """
    defaults = replace(file.defaults, name=file.defaults.name or file.path.stem)
    if not is_folder:
        return [replace(file, path=new, defaults=defaults)]
    found = [replace(file, path=new / file.path.name, defaults=defaults)]
    if file is olds[0]:
        known = {own.path.name for own in olds}
        more = (own for own in FOLDERS["squidguard"].items() if own[0] not in known)
        found += [ListFile(new / name, form, defaults) for name, form in more]
    return [own for own in found if own.path.exists()]
