"""Policies and lists in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.policy_reader import read_policy


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files into a folder, which is made, and give the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def write_policy(
    folder: Path, policy: str | Mapping[str, Any] = "", files: Mapping[str, str | bytes] | None = None
) -> Path:
    """Write a policy and other files; without layers, the policy gets one, ``lists``, of all these files."""
    text = policy if isinstance(policy, str) else json.dumps(policy)
    if "layers:" not in text and '"layers":' not in text:
        text = f"{text.rstrip()}\nlayers:\n- {{name: lists, lists: {json.dumps([*(files or {})])}}}\n".lstrip()
    return write_files(folder, {**(files or {}), "policy.yaml": text}) / "policy.yaml"


def read_whole(folder: Path, policy: str) -> tuple[Policy, list[str]]:
    """A policy, and its errors as ``line: what: why``."""
    path = write_policy(folder, policy)
    report = ProblemReport(str(path))
    read = read_policy(path, report)
    assert read is not None
    return read, [f"{problem.line}: {problem.what}: {problem.why}" for problem in report.errors]
