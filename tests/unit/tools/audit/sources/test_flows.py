"""Files of flows, as mitmproxy itself writes them: the same requests as the proxy decides."""

from __future__ import annotations

import gzip
from hashlib import sha256
from io import BytesIO
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import ctx
from mitmproxy.http import Headers
from mitmproxy.io import FlowWriter, tnetstring
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import tflow

from hushlist.core.policy.groups import Client
from hushlist.proxy.flow_request import client_of_flow, request_of_flow
from hushlist.tools.audit.sources import mitmproxy_flows as module
from hushlist.tools.audit.sources.mitmproxy_flows import read_flows, values
from hushlist.tools.audit.sources.recorded_request import BrokenRecord, RecordedRequest, ResourceType, SkippedRecord
from unit.rows import each_row


def written(*flows: object) -> bytes:
    file = BytesIO()
    for flow in flows:
        FlowWriter(file).add(flow)  # type: ignore[arg-type]
    return file.getvalue()


def read(octets: bytes) -> list[object]:
    return [*read_flows(BytesIO(octets), "f.flow")]


def web_flow(**request: object) -> object:
    flow = tflow.tflow(resp=True)
    flow.client_conn.sni = "sni.example"
    flow.metadata["proxyauth"] = ("mia", "secret")
    flow.request.headers = Headers(
        [(b"Host", b"host.example:81"), (b"referer", b"http://page.example/"), (b"x", b"\xff")]
    )
    flow.response.headers = Headers([(b"content-type", b"text/javascript")])
    for name, value in request.items():
        setattr(flow.request, name, value)
    return flow


def test_where_the_network_leads_clients_the_recording_may_not_tell_the_proxy_s_port() -> None:
    flow = web_flow()
    flow.client_conn.proxy_mode = ProxyMode.parse("transparent")  # type: ignore[attr-defined]
    (record,) = read(written(flow))
    assert isinstance(record, RecordedRequest)
    assert record.client == Client("127.0.0.1", "mia", None)


@pytest.mark.parametrize(
    "mode", ["regular", "upstream:http://192.0.2.1", "reverse:http://a.example", "transparent@8082"]
)
@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"host": "192.0.2.7"},
        {"authority": "me@auth.example:8443", "scheme": "https"},
        {"host": "bücher.example"},
        {"path": "/a b\x7f"},
        {"path": "no-path"},
        {"method": "BAD METHOD"},
    ],
)
def test_a_request_is_the_one_that_the_proxy_decides(
    request_: dict[str, object], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = web_flow(**request_)
    flow.client_conn.proxy_mode = ProxyMode.parse(mode)  # type: ignore[attr-defined]
    (record,) = read(written(flow))
    assert isinstance(record, RecordedRequest)
    assert record.request == request_of_flow(flow)  # type: ignore[arg-type]
    monkeypatch.setattr(ctx, "options", SimpleNamespace(listen_port=None), raising=False)
    assert record.client == client_of_flow(flow)  # type: ignore[arg-type]
    assert record.client == Client("127.0.0.1", "mia", 8082 if mode == "transparent@8082" else 0)
    assert (record.kind, record.page, record.status, record.number) == (
        ResourceType.SCRIPT,
        b"http://page.example/",
        200,
        1,
    )
    assert record.time == 946681200


def test_browsers_say_themselves_what_a_request_is_for() -> None:
    flow = web_flow()
    flow.request.headers["sec-fetch-dest"] = "document"  # type: ignore[attr-defined]
    (record,) = read(written(flow))
    assert isinstance(record, RecordedRequest)
    assert (record.kind, record.page) == (ResourceType.DOCUMENT, None)


def test_flows_without_an_answer_and_of_other_protocols_do_not_stop_the_rest() -> None:
    found = read(written(tflow.tdnsflow(), tflow.tflow(err=True), tflow.ttcpflow(), tflow.twebsocketflow()))
    assert [type(own) for own in found] == [SkippedRecord, RecordedRequest, SkippedRecord, RecordedRequest]
    assert [own.kind for own in found if isinstance(own, RecordedRequest)] == [
        ResourceType.UNKNOWN,
        ResourceType.WEBSOCKET,
    ]


@each_row(
    ("octets", "why"),
    [
        (b"3:abc,", "it is no flow that can be read: TypeError('no dictionary')"),
        (b"0:}", "it is no flow that can be read: KeyError('request')"),
        (b"3:abc?", "there is no type '?'"),
        (b"6:9:abcd}", "what is in it is longer than it"),
        (b"6:4:abcd}", "what is in it is longer than it"),
        (b"4:1:a,}", "a dictionary has no value for each key"),
        (b"8:1:1#1:1#}", "a key is no text"),
        (b"1:x#", "a number or word is none"),
        (b"3:abc]", "there is no length within it"),
    ],
)
def test_a_flow_that_is_none_is_broken_and_the_rest_is_read(octets: bytes, why: str) -> None:
    bad, good = read(octets + written(web_flow()))
    assert bad == BrokenRecord("f.flow", 1, why)
    assert isinstance(good, RecordedRequest)
    assert good.number == 2


@each_row(
    ("octets", "why"),
    [
        (b"10:abc", "ends too early"),
        (b"10", "ends too early"),
        (b"x:", "no length"),
        (b":", "no length"),
        (b"1" * 20, "no length"),
    ],
)
def test_behind_a_length_that_is_none_nothing_can_be_read(octets: bytes, why: str) -> None:
    good, bad = read(written(web_flow()) + octets)
    assert isinstance(good, RecordedRequest)
    assert isinstance(bad, BrokenRecord)
    assert bad.number == 2
    assert why in bad.why


def test_a_flow_that_is_too_long_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    long = web_flow()
    long.request.content = b"x" * 100_000  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "LONGEST_FLOW", 50_000)
    bad, good = read(written(long, web_flow()))
    assert bad == BrokenRecord("f.flow", 1, "it is longer than 50,000 octets")
    assert isinstance(good, RecordedRequest)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats(allow_nan=False),
    lambda own: st.lists(own, max_size=4) | st.dictionaries(st.text(), own, max_size=4),
    max_leaves=12,
)


def plain(value: object) -> object:
    match value:
        case memoryview():
            return bytes(value)
        case list():
            return [*map(plain, value)]
        case dict():
            return {key: plain(own) for key, own in value.items()}
    return value


@given(VALUES)
def test_values_are_as_mitmproxy_s_own_writer_means_them(value: object) -> None:
    octets = tnetstring.dumps(value)  # type: ignore[arg-type]
    assert [plain(own) for own in values(BytesIO(octets), 1 << 20)] == [tnetstring.loads(octets)]


@each_row(("levels", "is_broken"), [(64, False), (65, False), (66, True), (200, True)])
def test_what_is_nested_too_deep_is_broken(levels: int, is_broken: bool) -> None:
    octets = b""
    for _ in range(levels):
        octets = b"%d:%b]" % (len(octets), octets)
    (found,) = values(BytesIO(octets), 1 << 20)
    assert (str(found) == "it is nested too deep") is is_broken


@pytest.mark.parametrize("short", [b"0:,", b"0:]", b"0:~", b"0:}"])
def test_what_has_very_many_values_is_broken(short: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushlist.tools.audit.sources.mitmproxy_flows.MOST_VALUES", 100)
    good, bad = (b"%d:%b]" % (3 * number, short * number) for number in (99, 100))
    first, error, last = values(BytesIO(good + bad + good), 1 << 20)
    assert isinstance(first, list)
    assert str(error) == "it has more than 100 values"
    assert last == first


@each_row(
    ("place", "value"),
    [
        ("method", 1 << 62),
        ("path", 1 << 62),
        ("headers", [[1 << 62, b""]]),
        ("port", float("inf")),
        ("port", -1),
        ("port", 10**4000),
        ("host", [1, 2]),
    ],
)
def test_a_number_in_place_of_octets_takes_no_memory(place: str, value: object) -> None:
    request = {"host": "h", "port": 80, "method": b"GET", "scheme": b"http", "path": b"/", "headers": [], place: value}
    (broken,) = read(tnetstring.dumps({"type": "http", "request": request}))  # type: ignore[arg-type]
    assert isinstance(broken, BrokenRecord)
    assert "Error(" in broken.why


def test_what_was_recorded_of_bodies_are_facts() -> None:
    program = b"MZ\x90\0" + bytes(80)
    flow = web_flow(raw_content=program)
    flow.response.headers["content-encoding"] = "gzip"  # type: ignore[attr-defined]
    flow.response.raw_content = gzip.compress(program)  # type: ignore[attr-defined]
    (record,) = read(written(flow))
    assert isinstance(record, RecordedRequest)
    answer, upload = record.seen
    assert (answer["content"], answer["media-type"], answer["status"]) == ("program", "text/javascript", "200")
    digest = sha256(program).hexdigest()
    assert (digest in answer["hash"], digest in upload["hash"], upload["for"]) == (True, True, "upload")
    flow.request.raw_content = flow.response.raw_content = None  # type: ignore[attr-defined]
    flow.response.headers["content-length"] = "7"  # type: ignore[attr-defined]
    (record,) = read(written(flow))
    assert isinstance(record, RecordedRequest)
    assert [("content" in facts, facts.get("size")) for facts in record.seen] == [(False, "7")]
