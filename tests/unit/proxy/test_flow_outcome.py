"""Decisions written on flows."""

import io

import pytest
from mitmproxy import http
from mitmproxy.io import FlowReader, FlowWriter
from mitmproxy.test import tflow

from hushlist.core.decide.decision import Decision
from hushlist.core.url.request import request_of
from hushlist.proxy.flow_outcome import BLOCKED, KEY, TAGGED, WOULD_BLOCK, annotate, refuse
from support.engines import engine_of, judgement_of
from unit.rows import each_row

ENGINE = engine_of(
    """
    name: hrn://l.example/ads
    rules:
      - {expression: blocked.example, reason: Bad, expires: 2999-12-31, category: 'hrn://c.example/ads'}
      - {expression: tagged.example, action: tag}
      - {expression: allowed.example, action: allow}
      - {expression: www.allowed.example, action: tag}
    """
)


def decision(host: str) -> Decision:
    return ENGINE.decide(request_of(f"http://{host}/"))


def noted(host: str, *, would_block: bool = False, flow: http.HTTPFlow | None = None) -> http.HTTPFlow:
    flow = flow or tflow.tflow()
    annotate(flow, judgement_of(decision(host), "tag" if would_block else "block"))
    return flow


@each_row(
    ("host", "would_block", "marker", "comment"),
    [
        (
            "blocked.example",
            False,
            BLOCKED,
            "hushlist: block blocked.example/ by hrn://l.example/ads (first.yaml:4): Bad",
        ),
        (
            "blocked.example",
            True,
            WOULD_BLOCK,
            "hushlist: would block blocked.example/ by hrn://l.example/ads (first.yaml:4): Bad",
        ),
        ("tagged.example", False, TAGGED, "hushlist: tag tagged.example/ by hrn://l.example/ads (first.yaml:5)"),
        ("allowed.example", False, "", "hushlist: allow allowed.example/ by hrn://l.example/ads (first.yaml:6)"),
        ("other.example", False, "", ""),
    ],
)
def test_marker_and_comment_tell_the_decision(host: str, would_block: bool, marker: str, comment: str) -> None:
    flow = noted(host, would_block=would_block)
    assert (flow.marked, flow.comment) == (marker, comment)
    assert (KEY in flow.metadata) is bool(comment)


@pytest.mark.parametrize("host", ["blocked.example", "tagged.example", "www.allowed.example"])
def test_saved_flows_load_again(host: str) -> None:
    flow, file = noted(host), io.BytesIO()
    FlowWriter(file).add(flow)
    file.seek(0)
    (loaded,) = FlowReader(file).stream()
    assert loaded.metadata == flow.metadata
    assert (loaded.marked, loaded.comment) == (flow.marked, flow.comment)
    assert loaded.metadata[KEY]["matches"]


def test_what_a_person_noted_stays() -> None:
    flow = tflow.tflow()
    flow.marked, flow.comment = ":heart:", "mine"
    noted("blocked.example", flow=flow)
    assert (flow.marked, flow.comment) == (":heart:", "mine")
    assert flow.metadata[KEY]["action"] == "block"


def test_a_later_decision_takes_the_place_of_an_earlier_one() -> None:
    flow = noted("blocked.example", would_block=True)
    noted("tagged.example", flow=flow)
    assert flow.metadata[KEY]["action"] == "tag"
    assert (flow.marked, flow.comment) == (
        TAGGED,
        "hushlist: tag tagged.example/ by hrn://l.example/ads (first.yaml:5)",
    )


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_open_is_answered_whether_or_not_its_body_is_streamed(stream: bool) -> None:
    flow = tflow.tflow(req=http.Request.make("POST", "http://h.example/"))
    flow.request.stream = stream
    assert refuse(flow, lambda _: http.Response.make(403))
    assert not refuse(flow, lambda _: http.Response.make(200))
    assert flow.response is not None
    assert flow.response.status_code == 403
