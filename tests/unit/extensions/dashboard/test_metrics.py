"""The text format of Prometheus, read by a strict reader of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.decide.decision import LogRecord
from hushlist.core.policy.groups import Client
from hushlist.extensions.dashboard.metrics import escaped, metrics, summary
from hushlist.extensions.fleet.heartbeat import Heartbeat
from hushlist.extensions.fleet.proxy_records import ProxyRecord
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service.policy_watch import PolicyWatch
from support.parts import part_of


class Sample(NamedTuple):
    name: str
    labels: Mapping[str, str]
    value: float


_SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)+)\})? (\S+)')
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def unescaped(text: str) -> str:
    return re.sub(r"\\.", lambda found: _ESCAPES[found[0]], text)


def read(text: str) -> Iterator[Sample]:
    """Every sample; each behind the HELP and TYPE of its family, which stands in one place."""
    assert text.endswith("\n")
    kinds: dict[str, str] = {}
    family, seen = "", set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in kinds
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family
            kinds[name] = kind
            assert kind in ("counter", "gauge", "histogram")
            assert name.endswith("_total") is (kind == "counter")
        else:
            found = _SAMPLE.fullmatch(line)
            assert found, line
            ends = ("_bucket", "_sum", "_count") if kinds[family] == "histogram" else ("",)
            assert found[1] in {family + end for end in ends}
            labels = {name: unescaped(value) for name, value in _LABEL.findall(found[2] or "")}
            assert (found[1], tuple(labels.items())) not in seen, line
            seen.add((found[1], tuple(labels.items())))
            yield Sample(found[1], labels, float(found[3]))


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / 'odd "folder"'
    folder.mkdir()
    (folder / "games.yaml").write_text(
        'title: "Ga\\"m\\\\e\\ns"\ncategory: hrn://a.example/web/games\nrules:\n'
        "- games.example\n- {expression: odd.example, action: warn}\n- {expression: good.example, action: allow}\n"
        "- {expression: seen.example, action: tag}\n"
    )
    (folder / "policy.yaml").write_text("layers:\n- {name: lists, lists: [games.yaml]}\n")
    runtime = Runtime()
    PolicyWatch(runtime).load(folder / "policy.yaml")
    yield runtime
    runtime.close()


def note(runtime: Runtime, url: str, duration: int) -> None:
    assert runtime.engine is not None
    decision = runtime.engine.decide_url(url.encode(), client=Client("10.0.0.7"))
    runtime.statistics.note(LogRecord("", 1e9, decision, "10.0.0.7"), duration)


#: metric -> its labels, where no proxies share a store, no list is fetched, and nothing passes by the dry run
LABELS = {
    "decisions_total": "action group",
    "list_decisions_total": "action list file",
    "category_decisions_total": "action category",
    "unreadable_total": "",
    "failures_total": "result",
    **{f"decision_duration_seconds_{end}": "le" if end == "bucket" else "" for end in ("bucket", "sum", "count")},
    "mode": "mode",
    "rules": "layer",
    "list_rules": "layer list file",
    "list_modified_timestamp_seconds": "file",
    "list_held_back": "file",
    "readings_total": "result",
    "last_reading_timestamp_seconds": "",
    **dict.fromkeys(("last_reading_seconds", "last_reading_used", "log_waiting", "log_failing", "store_failing"), ""),
    "patches_missing": "",
    **dict.fromkeys(("process_resident_memory_bytes", "start_time_seconds"), ""),
}


def test_all_figures_can_be_read_and_count_what_was_decided(runtime: Runtime) -> None:
    note(runtime, "http://games.example/secret", 1000)
    note(runtime, "http://games.example/secret?b", 1001)
    note(runtime, "http://fine.example/", 10**9)
    runtime.failure_policy.lets_pass(KeyError(), "request")
    text = metrics(runtime)
    samples = list(read(text))
    assert {one.name.removeprefix("hushlist_"): " ".join(one.labels) for one in samples} == LABELS
    values = {(one.name, *one.labels.values()): one.value for one in samples}
    assert values["hushlist_decisions_total", "block", "default"] == 2
    assert values["hushlist_decisions_total", "pass", "default"] == 1
    assert values["hushlist_category_decisions_total", "block", "hrn://a.example/web/games"] == 2
    (of_list,) = (one for one in samples if one.name == "hushlist_list_decisions_total")
    assert of_list.value == 2
    assert of_list.labels["list"] == 'Ga"m\\e\ns'
    assert of_list.labels["file"].endswith('odd "folder"/games.yaml')
    assert values["hushlist_rules", "lists"] == 4
    assert values["hushlist_list_held_back", of_list.labels["file"]] == 0
    assert values["hushlist_last_reading_used",] == 1
    assert values["hushlist_mode", "block"] == 1
    assert [values["hushlist_failures_total", result] for result in ("refused", "passed")] == [1, 0]
    assert [values["hushlist_readings_total", result] for result in ("used", "refused")] == [1, 0]


def test_where_nothing_was_decided_nothing_is_summed_up(runtime: Runtime) -> None:
    assert summary(runtime) == ""
    note(runtime, "http://fine.example/", 1000)
    assert summary(runtime).startswith("1 request decided: 1 passed without a rule\n")


def test_the_summary_says_what_was_done_how_often(runtime: Runtime) -> None:
    for host in ("games", "odd", "good", "good", "good", "seen", "seen", "fine"):
        note(runtime, f"http://{host}.example/", 1000)
    assert summary(runtime).partition("\n")[0] == (
        "8 requests decided: 1 blocked, 1 warned of, 3 allowed, 2 tagged, 1 passed without a rule"
    )


def test_the_summary_is_short_though_an_address_is_long(runtime: Runtime) -> None:
    url = f"http://fine.example/{'a' * 9000}"
    note(runtime, url, 1000)
    text = summary(runtime)
    assert f"the slowest 1.0 µs: {url[:200]} …\n" in f"{text}\n"
    assert len(text) < 1000


def test_who_waits_for_decisions_waits_no_longer_when_the_proxy_ends() -> None:
    async def watch() -> None:
        runtime = Runtime()
        runtime.close()
        await asyncio.wait_for(runtime.statistics.wait(600), 60)

    asyncio.run(watch())


def test_the_histogram_is_cumulative_and_in_seconds(runtime: Runtime) -> None:
    for duration in (1000, 1001, 10**9):
        note(runtime, "http://fine.example/", duration)
    samples = list(read(metrics(runtime)))
    buckets = [(one.labels["le"], one.value) for one in samples if one.name.endswith("_seconds_bucket")]
    assert buckets[:2] == [("1e-06", 1), ("2e-06", 2)]
    assert buckets[-2:] == [("0.1", 2), ("+Inf", 3)]
    assert [float(bound) for bound, _ in buckets] == sorted(float(bound) for bound, _ in buckets)
    by_name = {one.name: one.value for one in samples}
    assert by_name["hushlist_decision_duration_seconds_count"] == 3
    assert by_name["hushlist_decision_duration_seconds_sum"] == pytest.approx(1.000002001)


def test_nothing_that_clients_ask_for_is_a_label(runtime: Runtime) -> None:
    for number in range(300):
        note(runtime, f"http://host{number}.example/secret{number}", 1000)
    text = metrics(runtime)
    assert "host7" not in text
    assert "secret" not in text
    assert "10.0.0.7" not in text


def test_there_are_figures_where_there_is_no_policy() -> None:
    samples = {one.name: one.value for one in read(metrics(Runtime()))}
    assert samples["hushlist_failures_total"] == 0
    assert samples["process_resident_memory_bytes"] > 1 << 20


@given(st.text())
def test_every_label_is_read_as_it_was(text: str) -> None:
    line = f'a{{b="{escaped(text)}"}} 1'
    found = _SAMPLE.fullmatch(line)
    assert found
    assert unescaped(_LABEL.findall(found[2])[0][1]) == text.encode("utf-8", "backslashreplace").decode()


def test_each_proxy_has_its_own_figures(runtime: Runtime) -> None:
    part_of(runtime, Heartbeat).records = (
        ProxyRecord("a:1", 4e12, version="1", policy_digest="2e" * 32, index_digest="1f" * 32),
        ProxyRecord("b:1", 7.0, version="1", policy_digest="2e" * 32, index_digest="1f" * 32),
    )
    lines = [line for line in metrics(runtime).splitlines() if line.startswith("hushlist_fleet")]
    common = 'version="1",policy="2e2e2e2e2e2e",index="1f1f1f1f1f1f"'
    assert lines == [
        f'hushlist_fleet_proxy_info{{proxy="a:1",{common}}} 1',
        f'hushlist_fleet_proxy_info{{proxy="b:1",{common}}} 1',
        'hushlist_fleet_proxy_seen_timestamp_seconds{proxy="a:1"} 4000000000000',
        'hushlist_fleet_proxy_seen_timestamp_seconds{proxy="b:1"} 7',
        'hushlist_fleet_proxy_troubled{proxy="a:1"} 0',
        'hushlist_fleet_proxy_troubled{proxy="b:1"} 1',
    ]
