"""Every use that the benchmarks beside peers make of Hushlist itself.

A policy has a folder of its own, with a cache beside it, so that each index is alone in its cache.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from data import ROOT, urls
from timing import first_and_again

ADDON = ROOT / "addon"
FILTER = ADDON / "filter.py"
sys.path.insert(0, str(ADDON))

Decide = Callable[..., object]


def write_policy(folder: Path, source: Path, form: str) -> Path:
    """A policy of one layer with one list; ``form`` is its format."""
    return write_lists(folder, {"file": str(source), "format": form})


def write_lists(folder: Path, *lists: Mapping[str, str], **settings: object) -> Path:
    """A policy of one layer with these lists, each with its keys of a policy file; ``settings`` are its other keys."""
    folder.mkdir(parents=True, exist_ok=True)
    policy = folder / "policy.yaml"
    policy.write_text(json.dumps({**settings, "layers": [{"name": "lists", "lists": lists}]}))
    return policy


def environment(policy: Path) -> dict[str, str]:
    """What a process needs to use this checkout, and this policy's cache and state, not those of who measures.

    It keeps its bytecode, as installed.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    folders = {"XDG_CACHE_HOME": str(_cache(policy)), "XDG_STATE_HOME": str(policy.parent / "state")}
    return {**kept, "PYTHONPATH": str(ADDON), **folders}


def _cache(policy: Path) -> Path:
    return policy.parent / "cache"


def forget_certificates(policy: Path) -> None:
    """Remove the certificates that the proxy has kept with this policy."""
    for file in (_cache(policy) / "hushlist").glob("certificates-*"):
        file.unlink()


def command(*arguments: str | Path) -> list[str]:
    """The command line that the console script ``hushlist`` runs."""
    return [sys.executable, "-c", "from hushlist.cli import run; run()", *map(str, arguments)]


def compile_command(policy: Path) -> list[str]:
    return command("compile", "--policy", policy)


def helper_command(policy: Path) -> list[str]:
    page = "http://blocked.example/?%u"
    return command("helper", "--policy", policy, "--redirect", page)


def check_command(policy: Path) -> list[str]:
    return command("check", "--policy", policy, "http://www.nobody.example/")


def compiled(folder: Path, source: Path, form: str) -> Path:
    """A policy of this list that is compiled: what loads it next only opens the index."""
    return compile_policy(write_policy(folder, source, form))


def compile_policy(policy: Path) -> Path:
    """The policy, when it is compiled."""
    done = subprocess.run(compile_command(policy), env=environment(policy), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"hushlist compile failed on {policy}:\n{done.stdout}{done.stderr}")
    return policy


def settle(policy: Path) -> Path:
    """The policy, compiled when no file has changed for a minute: only then does the next start read no list."""
    from hushlist.core.compile.stat_cache import state_of
    from hushlist.core.lists.list_source import ProblemReport
    from hushlist.core.policy.policy_reader import read_policy

    while state_of(read_policy(policy, ProblemReport(str(policy)))) is None:
        time.sleep(1)
    return compile_policy(policy)


def load(policy: Path) -> Decide:
    """What decides one URL by the policy; what exists then is not collected any more, as in the proxy."""
    os.environ.update(environment(policy))
    from hushlist.core.compile.stat_cache import load_engine

    engine = load_engine(policy)
    gc.collect()
    gc.freeze()
    return engine.decide_url


def decrypted_hosts(policy: Path, hosts: Iterable[str]) -> tuple[set[str], set[str]]:
    """The hosts whose TLS ``decrypt: where-needed`` decrypts: to show that they are blocked, and to look inside."""
    os.environ.update(environment(policy))
    from hushlist.core.compile.stat_cache import load_engine
    from hushlist.core.policy.groups import NOBODY
    from hushlist.tools.audit.replay.decryption import TlsUse, tls_host

    engine = load_engine(policy)
    uses = {host: tls_host(engine, ((host.encode(),), 443), None, NOBODY).use for host in hosts}
    blocked, read = ({host for host, own in uses.items() if own is use} for use in (TlsUse.PAGE, TlsUse.INSIDE))
    return blocked, read


def hashed_uri(url: bytes, algorithm: str, variant: str, *, is_flagged: bool) -> str:
    """The hashed URI of a URL, with the flags of what it has, or with none."""
    from hushlist.core.url.hashed_uri import HashKey, hash_uri

    return str(hash_uri(url, HashKey(algorithm, variant, is_flagged, is_flagged)))


def time_requests(policy: Path) -> float:
    """Seconds of processor time for one decision, where each request is new."""
    os.environ.update(environment(policy))
    from hushlist.core.compile.stat_cache import load_engine

    requests = _requests()
    decide = load_engine(policy).decide
    start = time.process_time()
    deque(map(decide, requests), maxlen=0)
    return (time.process_time() - start) / len(requests)


def _requests() -> list:
    """What the recorded URLs ask for."""
    from hushlist.core.errors import UrlError
    from hushlist.core.url.request import request_of

    requests = []
    for url in urls():
        with suppress(UrlError):
            requests.append(request_of(url))
    return requests


def decided_requests(policy: Path) -> list[tuple]:
    """Requests, each with its decision; they are not collected any more, as nothing stays in the proxy."""
    os.environ.update(environment(policy))
    from hushlist.core.compile.stat_cache import load_engine

    decide = load_engine(policy).decide
    decided = [(request, decide(request)) for request in _requests()]
    gc.collect()
    gc.freeze()
    return decided


def time_filters(policy: Path, asked: Iterable[tuple[bytes, bytes, str]]) -> tuple[float, float]:
    """Seconds of processor time for one decision, the first time and again, of URLs with page and type."""
    decide = load(policy)
    from hushlist.core.policy.groups import NOBODY
    from hushlist.core.url.request import StatedContext

    return first_and_again(
        decide, [(url, None, NOBODY, StatedContext(page, kind, b"GET")) for url, page, kind in asked]
    )


#: what is repeated in a path or a query until the target is as long as it may be: the worst of many
WORST_UNITS = (
    b"%",
    b"%2525",
    b"a/../",
    b"/./",
    b";",
    b"a\\..\\",
    b"\xc0\xaf",
    "☃".encode(),
    b" /",
    b"/%3fa%23b;%5c",
    b"a/;b/..//%2e%2e/",
    b"a/",
)


def time_longest(policy: Path) -> float:
    """Seconds of processor time for the longest decision of a target of 64 KiB, by one host and by four."""
    os.environ.update(environment(policy))
    from hushlist.core.compile.stat_cache import load_engine
    from hushlist.core.url.request import LONGEST_TARGET, Request

    engine, longest = load_engine(policy), 0.0
    four = tuple(b"a.b.c.d.x%d.example" % number for number in range(4))
    for unit in WORST_UNITS:
        for before in (b"/", b"/?", b"/a/b;c\\..//d%2e/?"):
            target = (before + unit * LONGEST_TARGET)[:LONGEST_TARGET]
            for asked in (Request(b"http", four[:1], 80, target), Request(b"http", four, 80, target, userinfo=b"me")):
                start = time.process_time()
                engine.decide(asked)
                longest = max(longest, time.process_time() - start)
    return longest


def is_blocked(decision) -> bool:
    """Whether a decision blocks."""
    return decision.action.value == "block"


def index_file(policy: Path) -> Path:
    """The index that was compiled last for a policy."""
    return max(_cache(policy).rglob("*.index"), key=lambda path: path.stat().st_mtime)


def time_to_open(index: Path) -> float:
    """Seconds to open an index, when everything is imported."""
    from hushlist.core.match.index import Index

    start = time.perf_counter()
    opened = Index.open(index)
    taken = time.perf_counter() - start
    assert len(opened)
    return taken


def hot_octets_a_rule(index: Path) -> float:
    """Octets of the part of an index that every look-up reads, for one rule."""
    from hushlist.core.match.index import Index

    opened = Index.open(index)
    return opened.hot_octets / len(opened)


def proxy_options(policy: Path) -> Mapping[str, str]:
    """The options of the proxy that make it use the policy."""
    return {"hushlist_policy": str(policy)}
