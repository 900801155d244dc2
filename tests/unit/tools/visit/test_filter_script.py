"""What the filters of a visit tell of the requests that they have seen, to who has their token."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy import flow, http
from mitmproxy.test import tflow

from hushlist.tools.visit.filter_script import VisitedRequests

#: a request as it is told, where nothing about it is special
PLAIN = {
    "url": "http://h.example/x",
    "method": "GET",
    "kind": "script",
    "mode": "",
    "page": "",
    "status": 200,
    "octets": 3,
    "cookies": 1,
    "stopped": False,
    "missing": False,
    "rules": [],
    "fault": "",
    "error": "",
}
RULE = {"source": "ads.txt", "line": 3, "rule": "||ads.example^"}


class Proxy:
    """The parts of mitmproxy that the script asks for."""

    def __init__(self) -> None:
        self.loaded, self.saved = list[str](), list[str | None]()
        self.options = SimpleNamespace(update=lambda save_stream_file: self.saved.append(save_stream_file))
        self.addons = self

    def get(self, name: str) -> Any:
        if name == "hushlist":
            raise LookupError("there is no filter")
        if name == "proxyserver":
            return SimpleNamespace(listen_addrs=lambda: [("127.0.0.1", 8080)])
        return SimpleNamespace(load_file=self.loaded.append, request=lambda flow: None)


async def answers_of(script: VisitedRequests, place: Path, *lines: str) -> list[Any]:
    """What the script answers to these lines."""
    await script.running()
    ports = json.loads(place.read_text())
    assert ports["proxy"] == 8080
    reader, writer = await asyncio.open_connection("127.0.0.1", ports["control"])
    writer.write("".join(f"{line}\n" for line in lines).encode())
    writer.write_eof()
    answers = (await reader.read()).splitlines()
    writer.close()
    assert script._server is not None
    script._server.close()
    return [json.loads(answer) for answer in answers]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HUSHLIST_VISIT", f"secret:{tmp_path / 'ports'}")
    return tmp_path / "ports"


def test_orders_are_done_for_who_has_the_token_and_requests_begin_anew(place: Path) -> None:
    proxy, script = Proxy(), VisitedRequests()
    script.load(SimpleNamespace(master=proxy))
    script.response(visited())
    orders = [{}, {"play": "a"}, {"play": "a"}, {"record": "b"}, {"record": ""}, {"policy": "p"}]
    answers = asyncio.run(answers_of(script, place, "secret", *map(json.dumps, orders)))
    begun = {"requests": []}
    assert answers == [{"requests": [PLAIN]}, begun, begun, begun, begun, {"error": "there is no filter"}]
    assert (proxy.loaded, proxy.saved) == (["a"], ["b", None])
    assert asyncio.run(answers_of(script, place, "guess", "{}")) == []


def visited(
    decision: dict[str, object] | None = None, *, status: int = 200, body: bytes = b"abc", replay: str = ""
) -> http.HTTPFlow:
    made = tflow.tflow(req=http.Request.make("GET", "http://h.example/x", headers={"sec-fetch-dest": "script"}))
    made.response = http.Response.make(status, body, {"Set-Cookie": "a=b"} if body else {})
    made.metadata["hushlist"] = decision
    made.is_replay = replay or None
    return made


@pytest.mark.parametrize(
    ("seen", "other"),
    [
        (visited(), {}),
        (visited({"action": "block", "winner": RULE}), {"stopped": True, "rules": [RULE], "octets": 0, "cookies": 0}),
        (visited({"action": "warn"}), {"stopped": True, "octets": 0, "cookies": 0}),
        (visited({"action": "block", "winner": RULE, "would_block": True}), {}),
        (visited({"action": "allow", "winner": RULE}), {}),
        (visited({"action": "pass", "fault": "odd"}), {"fault": "odd"}),
        (visited(status=404, body=b"", replay="response"), {"status": 404, "missing": True, "octets": 0, "cookies": 0}),
        (visited(status=404, body=b""), {"status": 404, "octets": 0, "cookies": 0}),
        (visited(status=404, replay="response"), {"status": 404}),
    ],
)
def test_a_request_is_told_with_its_decision_and_what_came(
    place: Path, seen: http.HTTPFlow, other: dict[str, object]
) -> None:
    script = VisitedRequests()
    script.response(seen)
    script.error(tflow.ttcpflow())  # of which nothing is told
    failed = visited()
    failed.response, failed.error = None, flow.Error("closed")
    del failed.request.headers["sec-fetch-dest"]
    script.error(failed)
    of_failed = {"kind": "", "status": 0, "octets": 0, "cookies": 0, "error": "closed"}
    script.load(SimpleNamespace(master=Proxy()))
    (answer,) = asyncio.run(answers_of(script, place, "secret", "{}"))
    assert answer["requests"] == [PLAIN | other, PLAIN | of_failed]
