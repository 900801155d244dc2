"""Measures what a request costs: canonicalizing, deciding, and the attacks on both; time and memory.

    python tests/bench/hot_path.py [--rules N]

Real request URLs and domains are read from ../shared beside the checkout, or from HUSHLIST_SHARED; where they are
absent, made-up ones take their place. Seeds are fixed; each figure is the median of five runs.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence

from data import ROOT, urls, urls_used
from timing import seconds

sys.path.insert(0, str(ROOT / "addon"))
sys.path.insert(0, str(ROOT / "tests"))

from hushlist.core.decide.engine import Engine
from hushlist.core.errors import UrlError
from hushlist.core.match.rule import Action, Expression, ExpressionHash, Pattern, Rule, Terms
from hushlist.core.match.seal import SealKey
from hushlist.core.policy.policy_file import Layer, Policy
from hushlist.core.url import safebrowsing
from hushlist.core.url.request import Request, request_of
from support.engines import index_of

LONG = 1 << 16
TERMS = Terms(Action.BLOCK, "bench", "bench", layer="lists")


def requests() -> list[Request]:
    """Real requests, or made-up ones."""
    return [request for url in urls() if (request := _request(url)) is not None]


def _request(url: bytes) -> Request | None:
    try:
        return request_of(url)
    except UrlError:
        return None


KEY = SealKey(bytes(range(32)))
#: what becomes of an expression
KINDS: dict[str, Callable[[bytes], Pattern]] = {
    "in the clear": Expression,
    "sealed": lambda value: ExpressionHash(KEY.sealer()(value), KEY.fingerprint),
    "hash prefixes": lambda value: ExpressionHash(hashlib.sha256(value).digest()[:8]),
}


def rules(count: int, pattern_of: Callable[[bytes], Pattern]) -> list[Rule]:
    """Rules for hosts that mostly nobody asks for, as in a real list."""
    patterns = (pattern_of(b"host%d.blocked%d.example/" % (n, n % 97)) for n in range(count))
    return [Rule(pattern, TERMS, line) for line, pattern in enumerate(patterns, 1)]


def engine(of: Sequence[Rule]) -> Engine:
    """An engine with one layer."""
    return Engine(Policy("bench", (Layer("lists"),), seals={KEY.fingerprint: KEY}), index_of(of))


ATTACKS = {
    "nested %25": b"http://h/%" + b"25" * (LONG // 2),
    "%25 in a row": b"http://h/" + b"%25" * (LONG // 3),
    "percent signs": b"http://h/" + b"%" * LONG,
    "dots": b"http://" + b"." * LONG + b"h/",
    "labels": b"http://" + b"a." * (LONG // 2) + b"h/",
    "letters that need Punycode": b"http://" + "ü".encode() * (LONG // 2) + b"/",
    "digits": b"http://" + b"0" * LONG + b"/",
    "/../": b"http://h/" + b"a/../" * (LONG // 5),
    "slashes": b"http://h" + b"/" * LONG,
    "backslashes": b"http://h/" + b"\\..\\" * (LONG // 4),
    "query": b"http://h/?" + b"%2525&" * (LONG // 6),
}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rules", type=int, default=100_000, help="rules in the index (default: %(default)s)")
    count = parser.parse_args().rules

    asked = requests()
    print(f"URLs: {urls_used()}")
    print(f"{len(asked)} requests, {count} rules, Python {sys.version.split()[0]}\n")
    written = [request.url for request in asked]
    canonicalize = seconds(lambda: [_canonical(url) for url in written]) / len(written)
    print(f"canonicalize a URL            {canonicalize * 1e6:8.1f} µs")
    for name, pattern_of in KINDS.items():
        tracemalloc.start()
        start = time.perf_counter()
        filled = engine(rules(count, pattern_of))
        built = time.perf_counter() - start
        octets = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        decide = seconds(lambda filled=filled: [filled.decide(request) for request in asked]) / len(asked)  # type: ignore[misc]
        size = f"({octets / count:.0f} octets a rule, {built:.1f} s to build)"
        print(f"decide, rules {name:<15} {decide * 1e6:8.1f} µs   {size}")
    print(f"\nattacks of {LONG // 1024} KiB    canonicalize      decide")
    for name, url in ATTACKS.items():
        request = _request(url)
        decided = "" if request is None else f"{seconds(lambda r=request: filled.decide(r)) * 1e3:8.2f} ms"  # type: ignore[misc]
        print(f"{name:<27} {seconds(lambda u=url: _canonical(u)) * 1e3:8.2f} ms {decided}")  # type: ignore[misc]


def _canonical(url: bytes) -> bytes | None:
    try:
        return safebrowsing.canonicalize(url)
    except UrlError:
        return None


if __name__ == "__main__":
    main()
