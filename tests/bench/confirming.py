"""Measures what lists of Safe Browsing cost: decisions by a million local prefixes, and the wait for a confirmation.

    python tests/bench/confirming.py [--prefixes N]

The same prefixes are once a plain list, which decides by itself, and once a list that has to be confirmed. The server
is on loopback, so its answer costs no time on the way: what is measured is what the filter adds. Decisions are in
processor time, the least of nine runs in turn; the wait is a median.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
import time
from dataclasses import replace
from functools import partial
from statistics import median

from data import ROOT
from hot_path import TERMS, requests
from timing import seconds

sys.path.insert(0, str(ROOT / "addon"))
sys.path.insert(0, str(ROOT / "tests"))

from hushlist.core.decide.engine import Engine
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.index_writer import index_of
from hushlist.core.match.rule import ExpressionHash, Rule, Terms
from hushlist.core.policy.policy_file import Layer, Policy
from hushlist.extensions.safe_browsing.confirmations import Confirmations, Question
from hushlist.extensions.safe_browsing.prefix_service import search_hashes
from hushlist.extensions.safe_browsing.threat_lists import SafeBrowsing, ThreatList
from support.prefix_server import PrefixServer

#: questions that are measured, and runs of decisions
_ASKED, _RUNS = 300, 9
#: questions to a server that wait for nothing
_IN_A_ROW = 25


def engine(prefixes: list[bytes], terms: Terms, named: ThreatList | None = None) -> Engine:
    """An engine with one list of prefixes."""
    index = index_of(Rule(ExpressionHash(prefix), terms, line) for line, prefix in enumerate(prefixes, 1))
    policy = Policy("bench", (Layer("lists"),), confirmers={} if named is None else {named.key: named})
    return Engine(policy, index, confirmations=None if named is None else Confirmations(search_hashes))


async def waited(known: Confirmations, question: Question) -> None:
    """As the proxy waits."""
    await asyncio.wait(list(map(asyncio.wrap_future, known.ask_soon([question]))))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefixes", type=int, default=1_000_000, help="local prefixes (default: %(default)s)")
    count = parser.parse_args().prefixes
    prefixes = sorted({hashlib.sha256(b"%d" % number).digest()[:4] for number in range(count)})
    asked = requests()
    expressions = [b"host%d.example/" % number for number in range(_ASKED)]
    with PrefixServer(*expressions) as server:
        for version in (4, 5):
            name = "mw-4b" if version == 5 else "MALWARE"
            named = ThreatList(SafeBrowsing(version, server.url, (name,)), name)
            terms = replace(TERMS, confirmer=named.key)
            if version == 4:
                print(f"{len(asked)} requests, {len(prefixes):,} prefixes of 4 octets, Python {sys.version.split()[0]}")
                engines = {"a plain list": engine(prefixes, TERMS), "to confirm": engine(prefixes, terms, named)}
                least = dict.fromkeys(engines, float("inf"))
                for kind, own in list(engines.items()) * _RUNS:
                    start = time.process_time()
                    found = [own.decide(request) for request in asked]
                    least[kind] = min(least[kind], (time.process_time() - start) / len(asked))
                fits = sum(bool(decision.matches or decision.unconfirmed) for decision in found)
                for kind, decide in least.items():
                    told = f"{decide * 1e6:6.2f} µs, {1 / decide:9,.0f} a second; {fits} fit a prefix"
                    print(f"decide, {kind:<14} {told}")
            times = []
            for number, expression in enumerate(expressions):
                if not number % _IN_A_ROW:  # after that, a server is asked less often
                    known = Confirmations(search_hashes)
                question = Question(named.service, full_hash(expression)[:4], full_hash(expression))
                start = time.perf_counter()
                asyncio.run(waited(known, question))
                times.append(time.perf_counter() - start)
                assert known.verdict(question) is not None
            print(f"a confirmation by v{version}, on loopback: {median(times) * 1e3:.1f} ms")
            hit = seconds(partial(known.verdict, question))
            print(f"the same again, from memory: {hit * 1e6:.1f} µs")
            known.close()


if __name__ == "__main__":
    main()
