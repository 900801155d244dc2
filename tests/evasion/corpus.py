"""The corpus: spellings of what is blocked, of which none may arrive at an origin, and neighbours, which have to.

Whoever finds another spelling adds a line to the module of its kind.
"""

from __future__ import annotations

from pathlib import Path

from e2e.policies import write_list, write_policy
from evasion import hosts, http1, http2, neighbours, paths, tunnels
from evasion.entries import ALLOWED, BLOCKED, SHUT, Entry

ENTRIES: tuple[Entry, ...] = (
    *hosts.entries(),
    *paths.entries(),
    *http1.entries(),
    *tunnels.entries(),
    *http2.entries(),
)
#: and what is harmless in those: it arrives, too
NEIGHBOURS: tuple[Entry, ...] = (*neighbours.entries(), *(entry for entry in ENTRIES if entry.arrives))


def families(entries: tuple[Entry, ...]) -> dict[str, list[Entry]]:
    """The entries of each family."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.family, []).append(entry)
    return found


def ways(entries: list[Entry]) -> list[list[Entry]]:
    """The entries by spelling: each in all the ways that it is sent."""
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        found.setdefault((entry.blocked, entry.spelling), []).append(entry)
    return list(found.values())


def write_corpus_policy(folder: Path) -> Path:
    """A policy that blocks what the corpus asks for, and nothing else."""
    write_list(folder / "shut.yaml", *SHUT.values())
    write_list(folder / "rules.yaml", *BLOCKED.values(), *ALLOWED)
    return write_policy(folder, ["shut.yaml"], ["rules.yaml"])
