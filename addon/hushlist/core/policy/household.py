"""What the devices of a household need past the decryption, such as the time and push: ``household.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

#: all of it
HOUSEHOLD = "household"


@cache
def needs() -> Mapping[str, tuple[str, ...]]:
    """The entries for ``pass-through`` by what they are needed for; ``household`` for all.

    >>> "push.apple.com:5223" in needs()["push"]
    True
    """
    from importlib.resources import files  # most policies start faster without these

    import yaml

    from hushlist.core.lists.yaml_documents import LOADER

    text = files("hushlist.core.policy").joinpath("household.yaml").read_text(encoding="utf-8")
    document = yaml.load(text, Loader=LOADER)  # noqa: S506 - it is a safe loader
    by_need: dict[str, list[str]] = {HOUSEHOLD: []}
    for said in document.values():
        entries = [*_entries(said)]
        by_need[HOUSEHOLD] += entries
        by_need.setdefault(said["for"], []).extend(entries)
    return MappingProxyType({name: tuple(dict.fromkeys(entries)) for name, entries in by_need.items()})


def _entries(said: Mapping[str, Any]) -> Iterator[str]:
    for host in said["hosts"]:
        for ports in map(str, said["ports"]):
            first, _, last = ports.partition("-")
            for port in range(int(first), int(last or first) + 1):
                yield f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
