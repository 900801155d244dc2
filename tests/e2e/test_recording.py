"""What the filter notes on flows: tags, the dry run, and recordings that are looked at later."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import flowfilter, http
from mitmproxy.io import FlowReader

from e2e.policies import simple_policy
from e2e.proxy import Proxy, run_mitmdump

Start = Callable[..., Proxy]

URLS = [
    "http://good.test/",
    "http://ads.test/",
    "https://ads.test/",
    "http://tagged.test/",
    "http://path.test/secret/",
]


def load(file: Path) -> dict[str, http.HTTPFlow]:
    """The flows of a file by their URLs."""
    with file.open("rb") as stream:
        flows = [flow for flow in FlowReader(stream).stream() if isinstance(flow, http.HTTPFlow)]
    return {flow.request.url: flow for flow in flows}


def response(flow: http.HTTPFlow) -> http.Response:
    assert flow.response
    return flow.response


def note(flow: http.HTTPFlow) -> dict[str, Any]:
    noted = flow.metadata["hushlist"]
    assert isinstance(noted, dict)
    return noted


def urls_matching(flows: dict[str, http.HTTPFlow], expression: str) -> set[str]:
    """The URLs of the flows that a mitmproxy filter expression finds."""
    matches = flowfilter.parse(expression)
    return {url for url, flow in flows.items() if matches(flow)}


@pytest.fixture
def record(start: Start, tmp_path: Path) -> Callable[[str], dict[str, http.HTTPFlow]]:
    """Requests each of URLS through a proxy in the given mode, and gives what it saved, in recorded.flow."""

    def record(mode: str) -> dict[str, http.HTTPFlow]:
        file = tmp_path / "recorded.flow"
        proxy = start(mode=mode, save=file, options={"hushlist_stream": "off"})
        with proxy.client() as client:
            for url in URLS:
                client.get(url)
        proxy.stop()
        return load(file)

    return record


def test_saved_flows_say_what_was_decided_and_why(record: Callable[[str], dict[str, http.HTTPFlow]]) -> None:
    flows = record("block")
    assert set(flows) == set(URLS)
    blocked = {"http://ads.test/", "https://ads.test/", "http://path.test/secret/"}
    for url in blocked:
        assert note(flows[url])["action"] == "block"
        assert response(flows[url]).status_code == 403
    for match in note(flows["http://ads.test/"])["matches"]:
        assert match["expression"] == "ads.test/"
        assert match["title"] == "Test <i>list</i>"
        assert match["action"] == "block"
        assert match["category"] == "hrn://example.org/web/ads"
        assert Path(match["source"]).name == "ads.yaml"
        assert isinstance(match["line"], int)
    assert note(flows["http://tagged.test/"])["action"] == "tag"
    assert response(flows["http://tagged.test/"]).text == "from the origin"
    assert flows["http://tagged.test/"].marked
    assert "Test <i>list</i>" in flows["http://tagged.test/"].comment
    assert not flows["http://good.test/"].marked
    assert not flows["http://good.test/"].comment


def test_what_mode_tag_would_block_passes_and_is_found_by_expressions_of_mitmproxy(
    record: Callable[[str], dict[str, http.HTTPFlow]],
) -> None:
    flows = record("tag")
    assert {response(flow).text for flow in flows.values()} == {"from the origin"}
    would_block = {url for url, flow in flows.items() if flow.metadata.get("hushlist", {}).get("would_block")}
    assert would_block == set(URLS) - {"http://good.test/", "http://tagged.test/"}
    noticed = set(URLS) - {"http://good.test/"}
    assert urls_matching(flows, "~marked") == noticed
    assert urls_matching(flows, "~marker .") == noticed
    assert urls_matching(flows, "~comment 'Test <i>list</i>'") == noticed
    assert urls_matching(flows, "~meta ads.yaml") == noticed
    assert urls_matching(flows, "~meta 'path.test/secret/'") == {"http://path.test/secret/"}


def test_a_recording_is_annotated_and_keeps_the_responses_that_it_has(
    record: Callable[[str], dict[str, http.HTTPFlow]], tmp_path: Path, policy: Path
) -> None:
    before = record("off")
    assert {(flow.marked, flow.comment, "hushlist" in flow.metadata) for flow in before.values()} == {("", "", False)}
    read_again = tmp_path / "again.flow"
    ended = run_mitmdump(tmp_path, "-n", "-r", str(tmp_path / "recorded.flow"), "-w", str(read_again), policy=policy)
    assert ended.returncode == 0, ended.stdout
    after = load(read_again)
    assert set(after) == set(before)
    for url, flow in after.items():
        assert response(flow).get_state() == response(before[url]).get_state()
    noticed = set(URLS) - {"http://good.test/"}
    assert urls_matching(after, "~marked") == noticed
    assert urls_matching(after, "~meta ads.yaml") == noticed
    assert {url for url in noticed if note(after[url])["action"] == "block"} == noticed - {"http://tagged.test/"}


def test_a_live_dumper_filter_shows_only_what_was_tagged(start: Start, tmp_path: Path) -> None:
    policy = simple_policy(tmp_path / "policy", {"expression": "tagged.test/", "action": "tag"}, title="Seen")
    proxy = start(policy=policy, options={"flow_detail": 1, "dumper_filter": "~comment Seen"})
    assert proxy.get("http://good.test/first").status_code == 200
    assert proxy.get("http://tagged.test/second").status_code == 200
    proxy.log.wait_for("tagged.test/second")
    assert "good.test/first" not in proxy.log.text()


def test_a_recording_has_no_bodies_where_they_are_streamed(start: Start, tmp_path: Path) -> None:
    file, har = tmp_path / "recorded.flow", tmp_path / "recorded.har"
    proxy = start(save=file, options={"hardump": str(har)})
    with proxy.client() as client:
        assert client.get("http://tagged.test/").text == "from the origin"
        assert client.get("http://ads.test/").status_code == 403
    proxy.stop()
    flows = load(file)
    assert response(flows["http://tagged.test/"]).raw_content is None
    assert note(flows["http://tagged.test/"])["action"] == "tag"
    assert response(flows["http://ads.test/"]).raw_content
    urls = [entry["request"]["url"] for entry in json.loads(har.read_text(encoding="utf-8"))["log"]["entries"]]
    assert urls == ["http://tagged.test/", "http://ads.test/"]
