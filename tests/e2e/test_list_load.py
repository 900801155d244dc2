"""While a proxy under load updates a long list again and again, each request is decided, and none is lost.

    HUSHLIST_LOAD_SECONDS=120 HUSHLIST_LOAD_RULES=1000000 pytest -s tests/e2e/test_list_load.py

is the whole load, and prints how long requests take; without the variables, it is a short one.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from e2e.origin import Origin
from e2e.proxy import PATIENCE, Proxy, blocks, eventually
from e2e.test_subscriptions import make_due, policy_of, publisher  # noqa: F401  a fixture
from hushlist.cli import main
from support.https_origin import HttpsOrigin, Page

SECONDS = float(os.environ.get("HUSHLIST_LOAD_SECONDS", "2"))
RULES = int(os.environ.get("HUSHLIST_LOAD_RULES", "5000"))
CLIENTS = 4
#: seconds between two rounds of a client: what compiles has the lowest priority, and is not to starve
PAUSE = 0.05
#: seconds that an update may take on a busy machine
LONGEST = 4 * PATIENCE + RULES / 2000

pytestmark = pytest.mark.timeout(3 * LONGEST + 3 * SECONDS)
#: host -> the only status that a request for it may have
STATUSES = {"always.test": 403, "never.test": 200}


def list_of(version: int) -> Page:
    """A version of the list: a hundred rules of it are others than in the one before."""
    first = version * 100
    rules = "".join(f"h{number}.rule.test\n" for number in range(first, first + RULES))
    return Page(f"always.test\nversion-{version}.test\n{rules}".encode())


def test_no_request_is_lost_or_undecided_while_a_long_list_updates_itself(
    start: Callable[..., Proxy],
    tmp_path: Path,
    origin: Origin,
    publisher: HttpsOrigin,  # noqa: F811
) -> None:
    publisher.pages["/list"] = list_of(0)
    policy = policy_of(tmp_path, publisher, gate={"requests": "off"})
    assert main(["update", "--policy", str(policy)]) == main(["compile", "--policy", str(policy)]) == 0
    proxy, stop = start(policy=policy, scripts=["hurrying.py"]), Event()

    def ask() -> tuple[Counter[tuple[str, int]], list[float]]:
        statuses, times = Counter[tuple[str, int]](), list[float]()
        with proxy.client() as client:
            while not stop.wait(PAUSE):
                for host in STATUSES:
                    begun = time.perf_counter()
                    statuses[host, client.get(f"http://{host}/").status_code] += 1
                    times.append(time.perf_counter() - begun)
        return statuses, times

    version = 0
    with origin.watch() as arrivals, ThreadPoolExecutor(CLIENTS) as threads:
        clients = [threads.submit(ask) for _ in range(CLIENTS)]
        try:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end or version < 2:
                version += 1
                publisher.pages["/list"] = list_of(version)
                make_due(policy)
                is_new = partial(blocks, proxy, f"version-{version}.test")
                assert eventually(is_new, LONGEST), proxy.log.text()[-2000:]
        finally:
            stop.set()
        answers = [client.result() for client in clients]
    statuses = sum((own for own, _ in answers), Counter[tuple[str, int]]())
    assert set(statuses) == set(STATUSES.items())
    asked = [request for request in arrivals.requests if request.host in STATUSES]
    assert {request.host for request in asked} == {"never.test"}
    assert len(asked) == statuses["never.test", 200]
    assert "Traceback" not in proxy.log.text()
    times = statistics.quantiles([own for _, times in answers for own in times], n=100)
    print(
        f"{statuses.total():,} requests, {version} updates of {RULES:,} rules: "
        f"median {times[49] * 1000:.1f} ms, 99th percentile {times[98] * 1000:.1f} ms"
    )
