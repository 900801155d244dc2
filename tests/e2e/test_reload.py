"""Lists and policies change while requests run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from mitmproxy import http
from mitmproxy.io import FlowReader

from e2e.origin import Origin
from e2e.policies import replace, simple_policy, write_list, write_policy
from e2e.proxy import Proxy, eventually, read_answer, request_head

Start = Callable[..., Proxy]


def blocked_by(proxy: Proxy, url: str) -> str | None:
    """The name of the list that blocks a URL, if any does."""
    response = proxy.get(url, {"Accept": "application/json"})
    return response.json()["list"] if response.status_code == 403 else None


class TestWhileRequestsRun:
    #: clients at a time
    CLIENTS = 4
    #: how often the list comes to rest, so that it has to be in force
    RESTS = 3
    #: versions of it in quick succession before each rest
    BURST = 20

    def write(self, file: Path, version: int) -> str:
        """A version of the list. Two rules of it fit the same request, at its two ends, in changing order."""
        ends: list[dict[str, str]] = [
            {"expression": "both.test/", "action": "tag"},
            {"expression": "both.test/page/", "action": "block"},
        ]
        if version % 2:
            ends.reverse()
        name = f"version {version}"
        write_list(file, ends[0], *(f"other{n}.test/" for n in range(200)), ends[1], title=name)
        return name

    def test_no_request_is_lost_or_decided_by_half_a_list(self, start: Start, tmp_path: Path) -> None:
        file = tmp_path / "rules.yaml"
        self.write(file, 0)
        saved = tmp_path / "saved.flow"
        proxy = start(policy=write_policy(tmp_path, ["rules.yaml"]), save=saved)
        seen: set[str] = set()
        stop = threading.Event()

        def request() -> int:
            """Ask until told to stop; how many blocked pages came back."""
            answered = 0
            with proxy.client() as client:
                while not stop.is_set():
                    response = client.get("http://both.test/page/", headers={"Accept": "application/json"})
                    assert response.status_code == 403
                    seen.add(response.json()["list"])
                    assert client.get("http://good.test/").status_code == 200
                    answered += 1
            return answered

        with ThreadPoolExecutor(self.CLIENTS) as threads:
            clients = [threads.submit(request) for _ in range(self.CLIENTS)]
            try:
                for rest in range(self.RESTS):
                    versions = range(1 + rest * self.BURST, 1 + (rest + 1) * self.BURST)
                    *_, last = (self.write(file, version) for version in versions)
                    assert eventually(lambda last=last: last in seen or any(map(Future.done, clients)))
            finally:
                stop.set()
            answered = sum(client.result() for client in clients)

        proxy.stop()
        with saved.open("rb") as stream:
            flows = [flow for flow in FlowReader(stream).stream() if isinstance(flow, http.HTTPFlow)]
        decided = [flow.metadata["hushlist"] for flow in flows if flow.request.host == "both.test"]
        assert len(decided) == answered
        for decision in decided:
            lists = [match["title"] for match in decision["matches"]]
            assert len(lists) == 2
            assert len(set(lists)) == 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a policy of one list, which is called "first" and blocks ads.test."""
    return simple_policy(tmp_path / "policy", "ads.test/", title="first").parent


class TestChanges:
    def test_a_change_of_a_list_takes_effect_without_a_restart(self, start: Start, folder: Path) -> None:
        proxy = start(policy=folder / "policy.yaml")
        assert blocked_by(proxy, "http://ads.test/") == "first"
        write_list(folder / "rules.yaml", "other.test/", title="second")
        assert eventually(lambda: blocked_by(proxy, "http://other.test/") == "second")
        assert blocked_by(proxy, "http://ads.test/") is None

    def test_a_request_that_was_begun_before_does_not_go_on_behind_a_rule(
        self, start: Start, folder: Path, origin: Origin
    ) -> None:
        proxy = start(policy=folder / "policy.yaml")
        with origin.watch() as arrived, proxy.connect() as slow, proxy.connect() as other:
            for connection, host in ((slow, b"new.test"), (other, b"good.test")):
                length = (b"Content-Length: 2",)
                connection.sendall(request_head(b"http://%b/x" % host, host, method=b"POST", headers=length) + b"a")
            time.sleep(1.1)  # until then, what was decided holds
            write_list(folder / "rules.yaml", "new.test/", title="second")
            assert eventually(lambda: blocked_by(proxy, "http://new.test/") == "second")
            assert slow.recv(1) == b""
            other.sendall(b"b")
            assert read_answer(other).status == 200
        sent = {request.host: request.body for request in arrived.requests if request.method == "POST"}
        assert sent == {"new.test": 1, "good.test": 2}  # what went on while it was allowed, and no more

    @pytest.mark.parametrize(
        ("file", "text", "complaint"),
        [
            pytest.param("rules.yaml", "rules:\n  - good.test/\n  - 'mailto:x'\n", r"rules\.yaml:3: ", id="rule"),
            pytest.param("policy.yaml", "layers:\n  - lists: [gone.yaml]\n", r"policy\.yaml:2: ", id="policy"),
        ],
    )
    def test_a_broken_change_is_reported_with_its_place_and_the_last_good_rules_stay(
        self, start: Start, folder: Path, file: str, text: str, complaint: str
    ) -> None:
        proxy = start(policy=folder / "policy.yaml")
        good = (folder / file).read_text()
        start_of_change = len(proxy.log)
        replace(folder / file, text)
        proxy.log.wait_for(complaint, start_of_change)
        assert blocked_by(proxy, "http://ads.test/") == "first"
        assert proxy.get("http://good.test/").status_code == 200
        replace(folder / file, good)
        write_list(folder / "rules.yaml", "ads.test/", "fixed.test/", title="fixed")
        assert eventually(lambda: blocked_by(proxy, "http://fixed.test/") == "fixed")
        assert blocked_by(proxy, "http://ads.test/") == "fixed"
