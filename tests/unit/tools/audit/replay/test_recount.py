"""An audit of real browsing against real lists, confirmed by a slow, obvious recount."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.policy.groups import NOBODY
from hushlist.tools.audit.replay.auditor import ReplayMoment
from hushlist.tools.audit.replay.replay_job import ReplayWork, audit
from hushlist.tools.audit.replay.tally import ListKey, RuleKey
from shared import SHARED
from unit.tools.audit.samples import NOW

DATA = SHARED / "data"
REQUESTS = DATA / "requests" / "requests.tsv.gz"


def urls() -> Iterator[bytes]:
    """What is audited, read in the plainest way."""
    for path in sorted((DATA / "har").glob("*.har")):
        for entry in json.loads(path.read_text("utf-8-sig"))["log"]["entries"]:
            yield entry["request"]["url"].encode()
    for line in gzip.decompress(REQUESTS.read_bytes()).splitlines():
        yield line.split(b"\t")[0]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    folders = sorted(path.parent for path in (DATA / "ut1").rglob("domains") if path.stat().st_size < 300_000)
    lists = [*folders, *sorted((DATA / "hosts").glob("*.hosts"))]
    path = tmp_path / "policy.yaml"
    path.write_text("layers:\n- name: lists\n  lists:\n" + "".join(f"  - '{own}'\n" for own in lists))
    return path


@pytest.mark.slow
@pytest.mark.skipif(not REQUESTS.is_file(), reason="no ../shared/data beside the checkout; see HUSHLIST_SHARED")
def test_the_numbers_of_an_audit_are_those_of_a_plain_recount(policy: Path) -> None:
    chosen = [*urls()]
    engine = load_engine(policy)
    sources = [*map(str, sorted((DATA / "har").glob("*.har"))), str(REQUESTS)]
    tally, _ = audit(engine, ReplayWork(sources, ReplayMoment(NOW, NOBODY), jobs=1))

    actions, fits, decided, alone, pairs = (
        Counter[str](),
        Counter[str](),
        Counter[str](),
        Counter[str](),
        Counter[object](),
    )
    rules = Counter[tuple[str, int, str]]()
    for url in chosen:
        decision = engine.decide_url(url, NOW)
        actions[decision.action] += 1
        fits.update({match.rule.terms.source for match in decision.matches})
        rules.update(
            {(match.rule.terms.source, match.rule.line, str(match.rule.pattern)) for match in decision.matches}
        )
        if decision.winner is not None:
            decided[decision.winner.rule.terms.source] += 1
        stopping = sorted({m.rule.terms.source for m in decision.matches if m.rule.terms.action == "block"})
        if decision.action == "block" and len(stopping) == 1:
            alone[stopping[0]] += 1
        if decision.action == "block":
            pairs.update(combinations(stopping, 2))

    assert tally.records == len(chosen) == actions.total()
    assert tally.actions == {action.value: number for action, number in actions.items()}  # type: ignore[attr-defined]
    assert {key.source: hits.fits for key, hits in tally.hits_of(ListKey).items()} == fits
    assert {key.source: hits.decided for key, hits in tally.hits_of(ListKey).items() if hits.decided} == decided
    assert {key.source: hits.alone for key, hits in tally.hits_of(ListKey).items() if hits.alone} == alone
    assert {tuple(sorted(own.source for own in pair)): number for pair, number in tally.overlaps.items()} == pairs
    assert {(key.source, key.line, key.rule): hits.fits for key, hits in tally.hits_of(RuleKey).items()} == rules
    assert actions["block"] > 1000  # there is something to count
