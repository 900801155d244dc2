"""Requests that are made to hurt: to forge an answer, to teach the filter something, to take its time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic, process_time, sleep

import pytest
from mitmproxy import http
from mitmproxy.io import FlowWriter
from mitmproxy.test import tflow

from e2e.origin import Origin
from e2e.policies import simple_policy, write_policy
from e2e.proxy import PATIENCE, Proxy, read_answer, request_head
from hushlist.decide.engine import load_engine
from hushlist.proxy.dashboard.dashboard_server import HOST
from hushlist.url.http_head import Naming, request_of_head
from hushlist.url.request import MOST_HOSTS, Request, canonical_forms


@pytest.mark.parametrize("target", [b"/$reason", b"/${facts}", b"/$$", b"/%0d%0aSet-Cookie:%20a=b", b"/\xff\xfe<b>"])
def test_an_answer_is_made_of_nothing_that_the_request_says(proxy: Proxy, target: bytes) -> None:
    answer = proxy.send(request_head(b"http://ads.test" + target, b"ads.test"))
    assert answer.status in (400, 403)
    assert "set-cookie" not in answer.headers
    assert b"<b>" not in answer.body


def test_a_recorded_request_that_is_sent_again_is_decided_again(
    tmp_path: Path, start: Callable[..., Proxy], origin: Origin
) -> None:
    # As `mitmdump -C recorded.flow` does; the recording was made where nothing was blocked.
    recorded = tmp_path / "recorded.flow"
    with recorded.open("wb") as stream:
        for host, path in (("ads.test", b"/"), ("path.test", b"/secret/x"), ("good.test", b"/last")):
            flow = tflow.tflow(resp=True)
            flow.request.data.headers = http.Headers(host=host)
            flow.request.data.host, flow.request.data.port, flow.request.data.path = host, 80, path
            FlowWriter(stream).add(flow)
    with origin.watch() as arrived:
        start(options={"client_replay": recorded})
        deadline = monotonic() + PATIENCE
        while not (origin.requests and origin.requests[-1].target == b"/last") and monotonic() < deadline:
            sleep(0.05)
    assert [request.target for request in arrived.requests] == [b"/last"]


def test_an_origin_cannot_teach_the_filter_about_another(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path
) -> None:
    # Every name leads to the pupil's server, which redirects /folder to /folder/ by any of them.
    list_of = {"expression": "video.test/folder/", "action": "allow"}
    proxy = start(policy=simple_policy(tmp_path / "policy", "video.test/", list_of))
    with origin.watch() as arrived:
        for host in (b"video.test", b"VIDEO.test.", b"good.test, video.test"):
            proxy.send(request_head(b"http://good.test/folder", host))
            with proxy.tunnel("good.test", 80) as tunnel:
                tunnel.sendall(request_head(b"/folder", b"good.test", host))
                assert read_answer(tunnel).status == 403
        assert proxy.send(request_head(b"http://good.test/folder", b"good.test")).status == 301
        assert proxy.send(request_head(b"http://video.test/folder", b"video.test")).status == 403
    assert {request.host for request in arrived.requests} == {"good.test"}


@pytest.mark.parametrize("mode", ["block", "tag", "off"])
@pytest.mark.parametrize("unparsable", ["block", "pass"])
def test_the_proxy_does_not_ask_itself_without_end(
    start: Callable[..., Proxy], tmp_path: Path, mode: str, unparsable: str
) -> None:
    proxy = start(policy=write_policy(tmp_path, unparsable=unparsable), mode=mode)
    own = b"self.test:%d" % proxy.port
    for host in (own, b"good.test:%d" % proxy.port):
        before = len(proxy.log)
        assert proxy.send(request_head(b"http://" + own + b"/", host)).status in (403, 502)
        assert proxy.log.text(before).count("client connect") <= 3
    with proxy.tunnel("self.test", proxy.port) as tunnel:
        tunnel.sendall(request_head(b"/", own))
        assert read_answer(tunnel).status == 403
    assert proxy.get("http://good.test/").status_code == 200


def test_nobody_sees_the_live_page_by_way_of_the_proxy_s_own_machine(start: Callable[..., Proxy]) -> None:
    proxy = start()
    page = HOST.encode()
    with proxy.tunnel("self.test", proxy.port) as tunnel:
        tunnel.sendall(request_head(b"/metrics", page))
        assert read_answer(tunnel).status == 403
    assert proxy.send(request_head(b"http://self.test:%d/metrics" % proxy.port, page)).status == 403
    assert proxy.send(request_head(b"http://%b/metrics" % page, page)).status == 200


# -- time --------------------------------------------------------------------------------------------------------

_LENGTH = 1 << 16
_NAMES = tuple(b"a.b.c.d.e%d.test" % number for number in range(MOST_HOSTS))
#: 337 letters of which no two are alike, which is what Punycode is slowest for
_LETTERS = [chr(0x4E00 + number * 7919 % 20000).encode() for number in range(336 + MOST_HOSTS)]
COSTLY = {
    "a long path of dot segments": (_NAMES[:1], b"/a/..\\" * (_LENGTH // 6) + b"#"),
    "nested escapes, by many names": (_NAMES, b"/%" + b"25" * (_LENGTH // 2) + b"/..\\#"),
    "a host of many labels": ((b"a." * (_LENGTH // 2),), b"/..\\#"),
    "long expressions, by many names": (_NAMES, b"/" + b"a" * _LENGTH + b"/b/c/../d\\x/e//f//../..\\z#x?q"),
    "octets to escape": (_NAMES[:1], b"/" + b"\xff" * _LENGTH),
    "octets to escape, by many names": (_NAMES, b"/" + b"\xff" * _LENGTH + b"/b//c/..\\d#"),
    "a host of octets to escape": (("\u00fc".encode() * (_LENGTH // 2),), b"/"),
    "labels for Punycode": (
        tuple(b"".join(_LETTERS[number : number + 337]) for number in range(MOST_HOSTS)),
        b"/",
    ),
}


@pytest.mark.parametrize(("hosts", "target"), COSTLY.values(), ids=COSTLY)
def test_a_decision_takes_little_time(policy: Path, hosts: tuple[bytes, ...], target: bytes) -> None:
    engine = load_engine(policy)

    def seconds() -> float:
        canonical_forms(Request(b"http", (b"h", b"i"), 80, b"/"), b"h")  # nothing of the last time is kept
        start = process_time()
        engine.decide(Request(b"http", hosts, 80, target))
        return process_time() - start

    assert min(seconds() for _ in range(3)) < 0.5


LISTED = {
    "names": b",".join(b"%x" % number for number in range(_LENGTH // 5)),
    "addresses": b",".join(b"::%x" % number for number in range(_LENGTH // 7)),
    "labels for Punycode": b",".join(b"".join(_LETTERS[number : number + 126]) for number in range(_LENGTH // 379)),
    "letters": ",".join(chr(0x4E00 + number) for number in range(_LENGTH // 4)).encode(),
}


@pytest.mark.parametrize("naming", Naming)
@pytest.mark.parametrize("value", LISTED.values(), ids=LISTED)
def test_a_list_of_hosts_takes_little_time(policy: Path, value: bytes, naming: Naming) -> None:
    engine = load_engine(policy)
    head = tflow.tflow().request.data
    head.headers = http.Headers([(b"Host", value)])

    def seconds() -> float:
        start = process_time()
        assert engine.decide(request_of_head(head, None, naming)).fault is not None
        return process_time() - start

    assert min(seconds() for _ in range(3)) < 0.1
