"""Every use that the benchmarks beside peers make of Hushlist itself.

A policy has a folder of its own, with a cache beside it, so that each index is alone in its cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from data import ROOT

ADDON = ROOT / "addon"
FILTER = ADDON / "filter.py"
sys.path.insert(0, str(ADDON))

Decide = Callable[[bytes], object]


def write_policy(folder: Path, source: Path, form: str) -> Path:
    """A policy of one layer with one list; ``form`` is its format."""
    folder.mkdir(parents=True, exist_ok=True)
    policy = folder / "policy.yaml"
    policy.write_text(f"layers:\n  - name: lists\n    lists:\n      - file: {source}\n        format: {form}\n")
    return policy


def environment(policy: Path) -> dict[str, str]:
    """What a process needs to use this checkout, and the cache of this policy."""
    return {**os.environ, "PYTHONPATH": str(ADDON), "XDG_CACHE_HOME": str(_cache(policy))}


def _cache(policy: Path) -> Path:
    return policy.parent / "cache"


def command(*arguments: str | Path) -> list[str]:
    """The command line that the console script ``hushlist`` runs."""
    return [sys.executable, "-c", "from hushlist.cli import run; run()", *map(str, arguments)]


def compile_command(policy: Path) -> list[str]:
    return command("compile", "--policy", policy)


def helper_command(policy: Path) -> list[str]:
    return command("helper", "--policy", policy, "--redirect", "http://blocked.example/?%u")


def compiled(folder: Path, source: Path, form: str) -> Path:
    """A policy of this list that is compiled: what loads it next only opens the index."""
    policy = write_policy(folder, source, form)
    done = subprocess.run(compile_command(policy), env=environment(policy), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"hushlist compile failed on {policy}:\n{done.stdout}{done.stderr}")
    return policy


def load(policy: Path) -> Decide:
    """What decides one URL by the policy."""
    os.environ.update(environment(policy))
    from hushlist.decide.engine import load_engine

    return load_engine(policy).decide_url


def is_blocked(decision) -> bool:
    """Whether a decision blocks."""
    return decision.action.value == "block"


def index_file(policy: Path) -> Path:
    """The index that was compiled last for a policy."""
    return max(_cache(policy).rglob("*.index"), key=lambda path: path.stat().st_mtime)


def time_to_open(index: Path) -> float:
    """Seconds to open an index, when everything is imported."""
    from hushlist.match.index import Index

    start = time.perf_counter()
    opened = Index.open(index)
    taken = time.perf_counter() - start
    assert len(opened)
    return taken


def hot_octets_a_rule(index: Path) -> float:
    """Octets of the part of an index that every look-up reads, for one rule."""
    from hushlist.match.index import Index

    opened = Index.open(index)
    return opened.hot_octets / len(opened)


def proxy_options(policy: Path) -> Mapping[str, str]:
    """The options of the proxy that make it use the policy."""
    return {"hushlist_policy": str(policy)}
