"""Writes the policies and lists that the tests filter by."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from hushlist.extensions.unblock.credentials import hash_passphrase

Rule = str | dict[str, str]

#: the stored form of a passphrase, made once: that is slow on purpose
stored = cache(hash_passphrase)


def replace(file: Path, text: str) -> Path:
    """Write a file at one stroke, as an administrator's tool should."""
    temporary = file.with_name(file.name + ".new")
    temporary.write_text(text, encoding="utf-8")
    return temporary.replace(file)


def write_list(file: Path, *rules: Rule, **settings: str) -> Path:
    """Write a list in YAML; ``settings`` are those of the whole list, such as ``reason``."""
    return replace(file, yaml.safe_dump({**settings, "rules": list(rules)}, sort_keys=False))


def write_policy(folder: Path, *layers: list[Any], **settings: Any) -> Path:
    """Write policy.yaml; each layer is a list of list files, or of their settings."""
    named = [{"name": f"layer {number}", "lists": lists} for number, lists in enumerate(layers, 1)]
    text = yaml.safe_dump({**settings, "layers": named}, sort_keys=False)
    return replace(folder / "policy.yaml", text)


def simple_policy(folder: Path, *rules: Rule, **settings: str) -> Path:
    """Write a policy with one list, rules.yaml, of these rules."""
    folder.mkdir(parents=True, exist_ok=True)
    write_list(folder / "rules.yaml", *rules, **settings)
    return write_policy(folder, ["rules.yaml"])


def sha256(expression: str, length: int = 32) -> str:
    """The first ``length`` bytes of an expression's SHA-256, in hex."""
    return hashlib.sha256(expression.encode()).hexdigest()[: 2 * length]


def hashed_uri(uri: str) -> str:
    """A hashed URI with SHA-1."""
    return "hashed:sha1=" + hashlib.sha1(uri.encode()).hexdigest()
