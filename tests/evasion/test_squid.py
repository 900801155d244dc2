"""Squid's helper decides what the proxy decides, for every target of the corpus and for any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import http
from mitmproxy.net.http.http1 import read_request_head
from mitmproxy.test import tflow

from evasion.corpus import ENTRIES, NEIGHBOURS, write_corpus_policy
from evasion.entries import KEPT
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.decision import STOPPING
from hushlist.core.decide.engine import Engine
from hushlist.proxy.flow_request import request_of_flow
from hushlist.tools.squid.helper import AccessList, Redirector, SquidHelper
from unit.hostile import as_squid_escapes, octets

_EXTRAS = b" 192.0.2.7/- - GET myip=192.0.2.1 myport=3128"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return load_engine(Path(write_corpus_policy(tmp_path_factory.mktemp("policy"))))


def targets() -> list[bytes]:
    """The URLs of the corpus that a request line can have."""
    entries = (entry for entry in (*ENTRIES, *NEIGHBOURS) if entry.blocked not in KEPT)  # Squid shows no bodies
    payloads = [entry.payload for entry in entries if isinstance(entry.payload, bytes)]
    lines = [payload.split(b"\r\n", 1)[0].split(b" ") for payload in payloads]
    return list(dict.fromkeys(line[1] for line in lines if len(line) == 3 and line[1].startswith(b"http://")))


def asked_of_the_proxy(url: bytes) -> http.HTTPFlow | None:
    """The flow as mitmproxy makes it; ``None`` where it refuses the request itself."""
    authority = url.split(b"/", 3)[2]
    try:
        request = read_request_head([b"GET %b HTTP/1.1" % url, b"Host: " + authority])
    except ValueError:
        return None
    request.authority = ""  # as mitmproxy does in its regular mode
    return flow_of(request)


def flow_of(request: http.Request) -> http.HTTPFlow:
    flow = tflow.tflow(req=request)
    flow.client_conn.sni = None
    return flow


def assert_alike(engine: Engine, flow: http.HTTPFlow, url: bytes) -> None:
    is_stopped = engine.decide(request_of_flow(flow)).action in STOPPING
    for speech in (AccessList(), Redirector("http://page.example/")):
        helper = SquidHelper(engine, speech, pytest.fail)
        line = (as_squid_escapes(url) if isinstance(speech, AccessList) else url) + _EXTRAS
        answers = [helper.answer(line) for _ in range(2)]  # the first time, it learns what usually follows
        answers.append(helper.answer(b"7 " + line).removeprefix(b"7 "))
        assert [answer.startswith(b"OK ") for answer in answers] == [is_stopped] * 3, url


def test_every_target_of_the_corpus_is_decided_as_by_the_proxy(engine: Engine) -> None:
    asked = [(url, flow) for url in targets() if (flow := asked_of_the_proxy(url)) is not None]
    assert len(asked) > 700
    for url, flow in asked:
        assert_alike(engine, flow, url)


_HOSTS = ["path.test", "hashed.test", "video.test", "open.test", "good.test", "ads.test"]
_PATHS = [b"", b"secret/", b"find?q=secret", b"page", b"a%2Fb", b"live/", b"#", b"page#", b"?#"]


@given(st.sampled_from(_HOSTS), st.sampled_from(_PATHS), octets())
def test_any_target_is_decided_as_by_the_proxy(engine: Engine, host: str, path: bytes, rest: bytes) -> None:
    target = b"/" + path + rest.replace(b"\n", b"")
    request = http.Request.make("GET", f"http://{host}/", headers={"Host": host})
    request.data.path = target
    assert_alike(engine, flow_of(request), b"http://" + host.encode() + target)
