"""Rules for heads: how they are read, what fits, and what requests and answers get."""

from __future__ import annotations

from pathlib import Path

import pytest
from mitmproxy import http

from hushlist.core.url.request import request_of
from hushlist.extensions.heads import head_changes
from hushlist.extensions.heads.head_changes import CHANGED, HeadChanges
from hushlist.extensions.heads.head_rules import HeadRule, why_decrypt
from hushlist.proxy.flow_request import SelfConnections
from hushlist.proxy.runtime import Runtime
from support.engines import engine_of, judgement_of
from support.flows import flow_of
from support.policies import read_whole
from unit.rows import each_row


def rules_of(folder: Path, heads: str) -> tuple[tuple[HeadRule, ...], list[str]]:
    policy, errors = read_whole(folder, f"heads: {heads}\nlayers: []\n")
    return policy.all_groups[-1].settings.of("heads"), errors


@each_row(
    ("heads", "error"),
    [
        ("[{sites: a.example}]", "a rule needs one of block, remove, set, add"),
        ("[{remove: [Content-Length]}]", "expected the name of a field that does not say"),
        ("[{remove: [Transfer_Encoding]}]", "expected the name of a field that does not say"),
        ("[{remove: ['a b']}]", "expected the name of a field that does not say"),
        ("[{set: {Host: b.example}}]", "expected the name of a field that does not say"),
        ("[{set: {X-Original-URL: /b}}]", "expected the name of a field that does not say"),
        ('[{set: {X-A: "a\\r\\nb: c"}}]', "expected ASCII, without line ends"),
        ("[{add: [X-A]}]", "expected a mapping"),
        ("[{status: 600, block: true}]", "expected a status such as 404 or 4xx"),
        ("[{types: html, block: true}]", "expected a media type"),
        ("[{block: false}]", "expected true"),
        ("[{block: true, remove: [X-A]}]", "what is blocked has no head to change"),
        ("[{for: request, block: true}]", "only an answer has it"),
        ("[{for: request, add: {X-A: b}}]", "only an answer has it"),
        ("[{sites: ['a b'], block: true}]", "expected expressions"),
    ],
)
def test_a_mistake_has_its_line_and_reason(tmp_path: Path, heads: str, error: str) -> None:
    _, errors = rules_of(tmp_path, heads)
    assert any(error in told for told in errors)


@each_row(
    ("heads", "fits"),
    [
        ("[{block: true}]", True),
        ("[{status: 404, block: true}]", True),
        ("[{status: [200, 4xx], block: true}]", True),
        ("[{status: 403, block: true}]", False),
        ("[{types: text/*, block: true}]", True),
        ("[{types: text/html, block: true}]", True),
        ("[{types: image/*, block: true}]", False),
        ("[{has: Set_Cookie, block: true}]", True),
        ("[{has: X-A, block: true}]", False),
    ],
)
def test_an_answer_fits_by_all_that_its_head_says(tmp_path: Path, heads: str, fits: bool) -> None:
    (rule,), errors = rules_of(tmp_path, heads)
    assert errors == []
    assert rule.fits_answer(404, ["text/plain", "text/html"], [(b"Set_Cookie", b"a=b")]) is fits


def test_hosts_of_rules_are_decrypted(tmp_path: Path) -> None:
    policy, _ = read_whole(tmp_path, "heads: [{sites: a.example/live, remove: [Cookie], for: request}]\nlayers: []\n")
    settings = policy.all_groups[-1].settings
    said = [why_decrypt(host, settings) for host in (b"w.a.example", b"a.example", b"b.example")]
    assert said == ["header fields are changed of"] * 2 + [None]


BEFORE = {"Server": "a", "X-A": "1"}


@each_row(
    ("heads", "page", "after"),
    [
        ("[{remove: [Server]}]", None, {"X-A": "1"}),
        ("[{set: {X-A: '2'}}]", None, {"Server": "a", "X-A": "2"}),
        ("[{add: {X-B: '3'}}]", None, BEFORE | {"X-B": "3"}),
        ("[{remove: [Server]}, {add: {X-B: '3'}}]", None, {"X-A": "1", "X-B": "3"}),
        ("[{status: 404, remove: [Server]}]", None, BEFORE),
        ("[{for: request, remove: [Server]}]", None, BEFORE),
        ("[{remove: [Server]}, {status: 200, block: true}]", 403, BEFORE),
        ("[{status: 404, block: true}]", None, BEFORE),
        ("[{block: true}]\nmode: tag", None, BEFORE),
        ("[{remove: [Server]}]\nmode: tag", None, BEFORE),
    ],
)
def test_an_answer_is_blocked_or_changed_by_its_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heads: str, page: int | None, after: dict[str, str]
) -> None:
    looks = list[http.Response]()
    monkeypatch.setattr(head_changes, "look_at_answer", lambda _, is_enough, look: looks.append(look(b"", False)))
    policy, errors = read_whole(tmp_path, f"heads: {heads}\nlayers: []\n")
    assert errors == []
    runtime = Runtime()
    runtime.engine = engine_of("rules: []")
    flow, part = flow_of("http://h.example/"), HeadChanges(runtime, SelfConnections())
    part.follow(policy)
    judgement = judgement_of(runtime.engine.decide(request_of("http://h.example/")))
    part.passed(flow, flow.client_conn, judgement._replace(settings=policy.all_groups[-1].settings))
    flow.response = http.Response.make(200, b"", BEFORE)
    flow.response.headers.pop("content-length")
    part.responseheaders(flow)
    assert [answer.status_code for answer in looks] == ([] if page is None else [page])
    assert dict(flow.response.headers) == after
    assert (CHANGED in flow.metadata) is (after != BEFORE)
    runtime.statistics.count()
    assert runtime.statistics.total == ("block" in heads and "404" not in heads)
