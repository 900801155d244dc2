"""An engine is gone with its last user: a proxy that takes a new policy each minute does not keep the old ones."""

import gc
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.engine import Engine
from hushlist.core.policy.groups import NOBODY, Client
from hushlist.core.url.comparison import RedirectMemory
from hushlist.core.url.request import StatedContext, request_of
from unit.core.compile.test_policy_compiler import ENTRIES, TEXTS, write_policy
from unit.rows import each_row

ROOT = Path(__file__).parents[4]
#: those who are in a group of the examples, and somebody who is in none
CLIENTS = (Client("10.20.0.7"), Client("10.30.0.7", user="berg"), Client("192.0.2.1", port=8082), NOBODY)
#: with hosts and paths of the lists
URLS = (
    b"http://www.news.example/a/b/index.html?x=1",
    b"https://a.example/banner/1/x.js?utm_source=1",
    b"http://a.example/x",
    b"https://www.youtube.com/watch?v=1",
    b"http://192.0.2.1/a//../b;c",
    b"http://bad..example/",
    b"http://h.example/" + b"%252e/" * 50,
)


def use(engine: Engine) -> None:
    """Have an engine decide for everybody, at two moments, in every way."""
    now, seen = datetime.now(UTC), StatedContext(b"https://page.example/", "script", b"GET")
    for client, url, moment in product(CLIENTS, URLS, (now, now + timedelta(hours=6))):
        engine.decide_url(url, moment, client, seen)
    for client in CLIENTS:
        asked = request_of(URLS[0])
        engine.decide(asked, now, client, is_settled=True)
        engine.decide_host(asked, now, client)
        engine.why_decrypt(asked, now, client)


def left_behind(policy: Path) -> Counter[str]:
    """What of a policy's engine waits, once nobody uses it, for the collector of cycles."""
    loaded = load_engine(policy)
    engine = Engine(loaded.policy, loaded.index, RedirectMemory())
    use(engine)
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        del loaded, engine
        gc.collect()
        kinds = (type(one) for one in gc.garbage)  # Python's own networks of two addresses are among them
        return Counter(
            f"{kind.__module__}.{kind.__name__}" for kind in kinds if kind.__module__.startswith("hushlist.")
        )
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


@pytest.mark.slow
@each_row("name", ["rules", "examples/company", "examples/family", "examples/school"])
def test_nothing_of_a_policy_waits_for_the_collector_of_cycles(name: str) -> None:
    assert left_behind(ROOT / name / "policy.yaml") == Counter()


@pytest.mark.slow
def test_nothing_of_a_list_of_any_format_waits_for_the_collector_of_cycles(tmp_path: Path) -> None:
    for form, (text, _) in TEXTS.items():
        (tmp_path / f"{form}.list").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert left_behind(write_policy(tmp_path, *ENTRIES.values())) == Counter()
