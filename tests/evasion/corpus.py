"""The corpus: spellings of what is blocked, of which none may arrive at an origin, and neighbours, which have to.

Whoever finds another spelling adds a line to the module of its kind.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from e2e.policies import write_list, write_policy
from evasion import carriers, hellos, hosts, http1, http2, neighbours, paths, tunnels
from evasion.entries import ALLOWED, BLOCKED, KEPT, OPAQUE, SHUT, Entry

ENTRIES: tuple[Entry, ...] = (
    *hosts.entries(),
    *paths.entries(),
    *http1.entries(),
    *tunnels.entries(),
    *hellos.entries(),
    *http2.entries(),
    *carriers.entries(),
)
#: what only the inside of TLS tells: who does not decrypt it cannot block it
FRONTED: tuple[Entry, ...] = tuple(entry for entry in ENTRIES if entry.is_fronted)
#: and what is harmless in those: it arrives, too
NEIGHBOURS: tuple[Entry, ...] = (
    *neighbours.entries(),
    *hellos.neighbours(),
    *carriers.neighbours(),
    *(entry for entry in ENTRIES if entry.arrives),
)


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


def write_corpus_policy(folder: Path, **settings: Any) -> Path:
    """A policy that blocks what the corpus asks for, and nothing else; ``settings`` are its other keys.

    Where it says what is to be decrypted, its hashes are of whole hosts.
    """
    write_list(folder / "shut.yaml", *SHUT.values())
    settings = {"files": [*KEPT.values()], **settings}
    if "decrypt" not in settings:
        write_list(folder / "rules.yaml", *BLOCKED.values(), *ALLOWED)
        return write_policy(folder, ["shut.yaml"], ["rules.yaml"], **settings)
    rules = [rule for name, rule in BLOCKED.items() if name not in OPAQUE]
    hosts = [rule for rule in rules if "sha256" in rule]
    write_list(folder / "hosts.yaml", *hosts, covers="hosts")
    write_list(folder / "rules.yaml", *(rule for rule in rules if rule not in hosts), *ALLOWED)
    return write_policy(folder, ["shut.yaml"], ["rules.yaml", "hosts.yaml"], **settings)
