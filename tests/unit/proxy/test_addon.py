"""The addon in mitmproxy's own test context."""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from mitmproxy import connection, ctx, exceptions, http
from mitmproxy import flow as mitmproxy_flow
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.test import taddons, tflow

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.decision import Decision
from hushlist.core.decide.engine import Engine
from hushlist.core.policy import shipped_policy
from hushlist.core.policy.groups import Client, Group
from hushlist.core.policy.policy_file import PolicyError
from hushlist.core.policy.policy_reader import POLICY_KEYS
from hushlist.core.url.http_head import HEAD_LIMIT, LONGEST_HEADERS
from hushlist.core.url.request import Request
from hushlist.extensions.bounds.bounded_websocket import LONGEST_MESSAGE, MESSAGE_LIMIT
from hushlist.extensions.fleet.heartbeat import Heartbeat
from hushlist.proxy import flow_outcome, request_handler, runtime
from hushlist.proxy.addon import Hushlist, LastLook
from hushlist.proxy.connections.name_lookups import NameLookups
from hushlist.proxy.connections.relayed_connections import RelayedConnections
from hushlist.proxy.flow_outcome import BLOCKED, KEY, SAFE_SEARCH, TAGGED, TAKEN_OUT, WOULD_BLOCK
from hushlist.proxy.service import policy_watch
from hushlist.proxy.service.graceful_stop import GracefulStop
from hushlist.proxy.service.upkeep import Upkeep
from support.flows import flow_of
from unit.rows import each_row


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "ads.yaml").write_text(
        "rules:\n- {expression: blocked.example, reason: Ads}\n- {expression: tagged.example, action: tag}\n"
        "- {expression: blocked.example/ok, action: allow}\n"
    )
    (tmp_path / "policy.yaml").write_text("layers:\n- {name: lists, lists: [ads.yaml]}\n")
    return tmp_path / "policy.yaml"


@pytest.fixture
def active(context: taddons.context, hushlist: Hushlist, policy: Path) -> taddons.context:
    """The addon in force, by the policy above."""
    context.configure(hushlist, hushlist_policy=str(policy), hushlist_mode="block")
    return context


@pytest.fixture
def running(active: taddons.context, hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch) -> taddons.context:
    """The same, behind the start, but without the watches, which have tests of their own."""
    monkeypatch.setattr(hushlist.policy_watch, "_restart", lambda: None)
    monkeypatch.setattr(RelayedConnections, "run", lambda _: None)
    monkeypatch.setattr(GracefulStop, "run", lambda _, is_balanced: None)
    monkeypatch.setattr(Heartbeat, "run", lambda _: None)
    monkeypatch.setattr(Upkeep, "run", lambda _: None)
    monkeypatch.setattr(NameLookups, "run", lambda _: None)
    hushlist.running()
    return active


def test_the_health_port_stays_while_the_proxy_runs(running: taddons.context, hushlist: Hushlist) -> None:
    with pytest.raises(exceptions.OptionsError, match="can only be given at the start"):
        running.configure(hushlist, hushlist_health="127.0.0.1:8081")


def run(hushlist: Hushlist, flow: http.HTTPFlow) -> http.HTTPFlow:
    hushlist.requestheaders(flow)
    hushlist.request(flow)
    return flow


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Accept": "text/html, Application/DNS-Message;q=1"}, 403),
        ({"Content_Type": "application/dns-message"}, 403),
        ({"Accept": "text/html"}, None),
    ],
)
def test_media_types_of_a_request_are_checked_where_the_policy_asks_for_them(
    context: taddons.context, hushlist: Hushlist, tmp_path: Path, headers: dict[str, str], status: int | None
) -> None:
    (tmp_path / "policy.yaml").write_text("layers: [{name: checks, checks: {dns-over-https: block}}]\n")
    context.configure(hushlist, hushlist_policy=str(tmp_path / "policy.yaml"), hushlist_mode="block")
    flow = run(hushlist, flow_of("https://other.example/q", **headers))
    assert (flow.response and flow.response.status_code) == status


_NEWS = "https://www.news.example/"


@each_row(
    ("url", "headers", "is_blocked"),
    [
        ("https://ads.example/x", {"Referer": _NEWS}, True),
        ("https://ads.example/x", {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "image"}, True),
        ("https://ads.example/x", {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "document"}, False),
        ("https://ads.example/x", {"Referer": "https://www.ads.example/"}, False),
        ("https://ads.example/x", {}, False),
        ("https://cdn.example/banner.1", {"Sec_Fetch_Dest": "image"}, True),
        ("https://cdn.example/banner.1", {"Sec_Fetch_Dest": "script"}, False),
        ("https://cdn.example/banner.png", {}, True),
        ("https://cdn.example/banner.png", {"Sec_Fetch_Dest": "image", "Referer": "https://fine.example/"}, False),
        # a lie lifts what is about the page, and nothing else
        ("https://cdn.example/beacon", {"Referer": "https://fine.example/", "Sec_Fetch_Dest": "image"}, True),
        ("https://evil.example/banner.png", {"Referer": "https://fine.example/", "Sec_Fetch_Dest": "image"}, True),
    ],
)
def test_a_request_is_decided_for_the_page_and_type_that_its_headers_tell(
    context: taddons.context, hushlist: Hushlist, tmp_path: Path, url: str, headers: dict[str, str], is_blocked: bool
) -> None:
    filters = "||ads.example^$third-party\n/banner.$image\n@@/banner.$domain=fine.example\n/beacon\n"
    (tmp_path / "l.adblock").write_text(filters)
    (tmp_path / "own.yaml").write_text("rules: [evil.example]")
    (tmp_path / "policy.yaml").write_text("layers: [{name: own, lists: [own.yaml]}, {name: l, lists: [l.adblock]}]\n")
    context.configure(hushlist, hushlist_policy=str(tmp_path / "policy.yaml"), hushlist_mode="block")
    flow = run(hushlist, flow_of(url, **headers))
    assert (flow.response is not None) is is_blocked


def test_a_recorded_response_keeps_its_alternative_services(active: taddons.context, hushlist: Hushlist) -> None:
    flow = tflow.tflow(resp=True)
    assert flow.response
    flow.response.headers["Alt-Svc"] = 'h3=":443"'
    flow.live = False
    hushlist.responseheaders(flow)
    assert "alt-svc" in flow.response.headers
    flow.live = True
    hushlist.responseheaders(flow)
    assert "alt-svc" not in flow.response.headers


# -- acting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "url", "status", "marker", "noted"),
    [
        ("block", "http://blocked.example/", 403, BLOCKED, ("block", False)),
        ("block", "http://tagged.example/", None, TAGGED, ("tag", False)),
        ("block", "http://blocked.example/ok", None, "", ("allow", False)),
        ("block", "http://other.example/", None, "", None),
        ("tag", "http://blocked.example/", None, WOULD_BLOCK, ("block", True)),
        ("tag", "http://tagged.example/", None, TAGGED, ("tag", False)),
        ("tag", "http://other.example/", None, "", None),
        ("off", "http://blocked.example/", None, "", None),
    ],
)
def test_modes(
    active: taddons.context,
    hushlist: Hushlist,
    mode: str,
    url: str,
    status: int | None,
    marker: str,
    noted: tuple[str, bool] | None,
) -> None:
    active.configure(hushlist, hushlist_mode=mode)
    flow = run(hushlist, flow_of(url))
    assert (flow.response and flow.response.status_code) == status
    assert flow.marked == marker
    note = flow.metadata.get(KEY)
    assert (note and (note["action"], note["would_block"])) == noted


@pytest.mark.parametrize("option", ["block", "tag"])
@pytest.mark.parametrize(
    ("mode", "status", "noted"), [("block", 403, ("block", False)), ("tag", None, ("block", True)), ("off", None, None)]
)
def test_a_group_may_be_less_strict_than_the_option(
    active: taddons.context,
    hushlist: Hushlist,
    policy: Path,
    mode: str,
    status: int | None,
    noted: tuple[str, bool] | None,
    option: str,
) -> None:
    group = f"groups: [{{name: some, clients: [127.0.0.1], mode: {mode}, safe-search: strict}}]"
    policy.write_text(f"{policy.read_text()}{group}\n")
    active.configure(hushlist, hushlist_policy=str(policy), hushlist_mode=option)
    flow = run(hushlist, flow_of("http://blocked.example/"))
    note = flow.metadata.get(KEY)
    if option == "tag" and mode == "block":
        status, noted = None, ("block", True)
    assert (flow.response and flow.response.status_code) == status
    assert (note and (note["action"], note["would_block"])) == noted
    search = run(hushlist, flow_of("http://www.google.com/search?q=x"))
    assert ("safe=active" in search.request.path) is (mode == option == "block")  # a dry run changes nothing


@pytest.mark.usefixtures("active")
def test_a_blocked_page_says_why(hushlist: Hushlist) -> None:
    flow = run(hushlist, flow_of("http://www.blocked.example/a"))
    assert flow.response is not None
    assert ">Ads</p>" in flow.response.text
    assert "ads.yaml:2" in flow.response.text
    assert flow.comment.startswith("hushlist: block blocked.example/ by ads (")


# RFC 3986, 7.2: "these percent-encodings must not be decoded before transmission"
# draft-ietf-iri-comparison-00, 4.1: "an IRI SHOULD NOT be modified when being transported"
@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("path", [b"/a%0D%0Ab?%2F", b"//a/../b/%2e%2E/%7e", "/é".encode(), b"/\xff%00#f"])
def test_what_passes_is_sent_as_it_came(hushlist: Hushlist, path: bytes) -> None:
    flow = flow_of("http://Other.example/", host="Other.example")
    flow.request.data.path = path
    before = flow.request.get_state()
    run(hushlist, flow)
    assert flow.response is None
    assert flow.request.get_state() == before


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("state", ["not live", "answered", "failed"])
def test_a_flow_that_is_over_is_noted_but_not_answered(hushlist: Hushlist, state: str) -> None:
    flow = flow_of("http://blocked.example/")
    response = http.Response.make(200) if state == "answered" else None
    error = mitmproxy_flow.Error("gone") if state == "failed" else None
    flow.live, flow.response, flow.error = state != "not live", response, error
    run(hushlist, flow)
    assert flow.response is response
    assert flow.error is error
    assert flow.marked == BLOCKED
    assert hushlist.runtime.statistics.total == (state == "not live")


@pytest.mark.usefixtures("active")
def test_what_an_addon_behind_makes_of_a_request_is_decided(hushlist: Hushlist) -> None:
    flow, last = run(hushlist, flow_of("http://other.example/")), LastLook(hushlist._requests)
    assert last.request(flow) is None
    assert flow.response is None
    flow.request.url = "http://blocked.example/"
    assert last.request(flow) is None
    assert flow.response is not None
    assert (flow.response.status_code, flow.marked) == (403, BLOCKED)
    answer = flow.response
    flow.request.url = "http://other.example/"
    assert last.request(flow) is None
    assert (flow.response, flow.marked) == (answer, BLOCKED)


@pytest.mark.parametrize(
    ("options", "answer", "request_"),
    [
        ({}, True, True),
        ({"hushlist_stream": "off"}, False, False),
        ({"hushlist_mode": "off"}, True, True),
        ({"modify_body": ["/a/b"]}, False, False),
        ({"intercept_active": True}, False, False),
        ({"server_replay": ["file"]}, True, False),
    ],
)
def test_bodies_are_streamed_unless_somebody_needs_them_whole(
    active: taddons.context, hushlist: Hushlist, options: dict[str, object], answer: bool, request_: bool
) -> None:
    for name, default in (("modify_body", []), ("server_replay", []), ("intercept_active", False)):
        active.options.add_option(name, bool if default is False else Sequence[str], default, "")
    active.configure(hushlist, **options)
    flow = flow_of("http://other.example/", "POST")
    hushlist.requestheaders(flow)
    assert flow.request.stream is request_
    flow.response = http.Response.make(200)
    hushlist.responseheaders(flow)
    assert flow.response.stream is answer


@pytest.mark.usefixtures("active")
def test_what_decides_about_a_body_itself_keeps_its_word(hushlist: Hushlist) -> None:
    flow, replayed, without = (flow_of("http://other.example/", method) for method in ("POST", "POST", "GET"))
    flow.request.stream = changes = bytes.upper
    replayed.is_replay = "request"
    for own in (flow, replayed, without):
        hushlist.requestheaders(own)
        own.response = http.Response.make(200)
        own.response.stream = changes if own is flow else False
        hushlist.responseheaders(own)
    assert flow.request.stream is changes
    assert flow.response is not None
    assert flow.response.stream is changes
    assert replayed.response is not None
    assert not replayed.request.stream
    assert not replayed.response.stream
    assert not without.request.stream


@pytest.mark.usefixtures("active")
def test_every_name_of_a_request_is_looked_at(hushlist: Hushlist) -> None:
    by_header = flow_of("http://other.example/", host="blocked.example:80")
    by_server_name = flow_of("https://other.example/")
    by_server_name.client_conn.sni = "blocked.example"
    assert run(hushlist, by_header).response
    assert run(hushlist, by_server_name).response


# -- deciding again --------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Every request that an engine was asked about."""
    asked: list[Request] = []
    decide = Engine.decide

    def record(self: Engine, request: Request, client: Client, group: Group) -> Decision:
        asked.append(request)
        return decide(self, request, client=client, group=group)

    monkeypatch.setattr(Engine, "decide", record)
    return asked


@pytest.mark.usefixtures("active")
def test_a_request_is_decided_once(hushlist: Hushlist, asked: list[Request]) -> None:
    run(hushlist, flow_of("http://other.example/"))
    assert len(asked) == 1


@pytest.mark.usefixtures("active")
def test_a_request_whose_body_took_long_is_decided_twice_and_told_once(
    hushlist: Hushlist, asked: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    flows = [flow_of("http://other.example/"), flow_of("http://blocked.example/")]
    for flow in flows:
        hushlist.requestheaders(flow)
    late = request_handler.monotonic() + 2
    monkeypatch.setattr(request_handler, "monotonic", lambda: late)
    for flow in flows:
        hushlist.request(flow)
    assert [request.hosts for request in asked[2:]] == [(b"other.example",)]
    assert flows[0].response is None
    assert hushlist.runtime.statistics.total == 2


@pytest.mark.usefixtures("active")
def test_a_policy_that_comes_while_a_body_arrives_has_its_check_of_media_types_made(
    hushlist: Hushlist, policy: Path
) -> None:
    flow = flow_of("https://resolver.example/q", "POST")
    flow.request.headers["Content-Type"] = "application/dns-message"
    hushlist.requestheaders(flow)
    policy.write_text("layers: [{name: checks, checks: {dns-over-https: block}}]")
    hushlist.runtime.use(load_engine(policy), None)
    hushlist.request(flow)
    assert flow.response is not None


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("mode", ["block", "tag"])
def test_a_request_that_another_addon_has_changed_is_decided_again(
    active: taddons.context, hushlist: Hushlist, mode: str
) -> None:
    active.configure(hushlist, hushlist_mode=mode)
    flow = flow_of("http://other.example/")
    hushlist.requestheaders(flow)
    flow.request.host = "blocked.example"
    hushlist.request(flow)
    assert (flow.response is not None) is (mode == "block")
    assert flow.metadata[KEY]["action"] == "block"


def test_a_request_that_was_changed_to_one_that_passes_is_noted_as_such(
    active: taddons.context, hushlist: Hushlist
) -> None:
    active.configure(hushlist, hushlist_mode="tag")
    flow = flow_of("http://blocked.example/")
    hushlist.requestheaders(flow)
    flow.request.host = "other.example"
    hushlist.request(flow)
    assert (flow.metadata.get(KEY), flow.marked, flow.comment) == (None, "", "")


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize(
    ("change", "is_blocked"),
    [
        (lambda flow: setattr(flow.request.data, "authority", b"blocked.example"), True),
        (lambda flow: flow.request.headers.add("Host", "blocked.example"), True),
        (lambda flow: flow.request.headers.add("X", "a\r\nb"), True),
        (lambda flow: setattr(flow.request.data, "path", b"/a b"), True),
        (lambda flow: setattr(flow.request.data, "method", b"GET /"), True),
        (
            lambda flow: (
                setattr(flow.request, "scheme", "https"),
                setattr(flow.client_conn, "sni", "blocked.example"),
            ),
            True,
        ),
        (lambda flow: setattr(flow.request.data, "port", 81), False),
    ],
)
def test_whatever_is_changed_in_a_request_it_is_decided_again(
    hushlist: Hushlist, asked: list[Request], change: Callable[[http.HTTPFlow], None], is_blocked: bool
) -> None:
    flow = flow_of("http://other.example/")
    hushlist.requestheaders(flow)
    change(flow)
    hushlist.request(flow)
    assert len(asked) == 2
    assert (flow.response is not None) is is_blocked


@pytest.mark.usefixtures("active")
def test_what_makes_no_other_request_is_not_decided_again(hushlist: Hushlist, asked: list[Request]) -> None:
    flow = flow_of("http://other.example/", x="y")
    flow.request.method = "POST"
    hushlist.requestheaders(flow)
    del flow.request.headers["x"]
    flow.request.content = b"body"
    hushlist.request(flow)
    assert len(asked) == 1


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("version", ["HTTP/2.0", "HTTP/3"])
@pytest.mark.parametrize(("method", "is_refused"), [("GET", True), ("POST", False)])
def test_a_body_that_comes_untold_is_decided(hushlist: Hushlist, version: str, method: str, is_refused: bool) -> None:
    flow = flow_of("http://other.example/")
    flow.request.http_version, flow.request.method = version, method
    flow.client_conn.alpn = b"h2" if version == "HTTP/2.0" else b"h3"
    flow.request.headers.clear()
    hushlist.requestheaders(flow)
    assert flow.response is None
    flow.request.data.content = b"GET / HTTP/1.1\r\nHost: blocked.example\r\n\r\n"
    hushlist.request(flow)
    assert (flow.response is not None) is is_refused


@pytest.mark.usefixtures("active")
def test_a_request_that_did_not_change_is_not_read_again(hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = flow_of("http://other.example/")
    hushlist.requestheaders(flow)
    # were it read again, the failure would refuse it
    monkeypatch.setattr(request_handler, "request_of_flow", None)
    hushlist.request(flow)
    assert flow.response is None


@pytest.mark.usefixtures("active")
def test_a_replay_is_decided_again(hushlist: Hushlist) -> None:
    flow = run(hushlist, flow_of("http://blocked.example/"))
    flow.response = None
    assert run(hushlist, flow).response


# -- failing closed --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize(
    "target", ["hushlist.proxy.request_handler.request_of_flow", "hushlist.core.decide.engine.Engine.decide"]
)
@pytest.mark.parametrize("path", [b"/", b"/\xff\x00<script>"])
def test_a_failure_of_our_own_refuses_the_request(
    hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, target: str, path: bytes
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(target, fail)
    flow = flow_of("http://other.example/")
    flow.request.data.path = path
    try:
        run(hushlist, flow)
    except UnicodeError:  # pytest-xdist cannot report an error with such text in it
        pytest.fail("the block page was not made", pytrace=False)
    assert flow.response is not None
    assert flow.response.status_code == 403
    assert b"The filter failed" in (flow.response.content or b"")
    assert b"<script>" not in (flow.response.content or b"")
    assert "the filter failed" in caplog.text


@pytest.mark.parametrize(
    ("failure", "host", "is_refused"),
    [("closed", "other.example", True), ("open", "other.example", False), ("open", "blocked.example", True)],
)
def test_where_a_body_cannot_be_seen_to_the_policy_decides_and_what_is_blocked_stays_so(
    context: taddons.context,
    hushlist: Hushlist,
    policy: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failure: str,
    host: str,
    is_refused: bool,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    policy.write_text(policy.read_text() + f"on-failure: {failure}\n")
    context.configure(hushlist, hushlist_policy=str(policy), hushlist_mode="block")
    monkeypatch.setattr(flow_outcome, "frame", fail)
    flow = flow_of("http://other.example/")
    hushlist.requestheaders(flow)
    flow.request.host = host  # another addon's change: it is decided again, whatever fails before
    hushlist.request(flow)
    assert (flow.response is not None) is is_refused
    assert "the filter failed on a request" in caplog.text


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize(
    "target", ["flow_outcome.annotate", "page.block_response.explanation_of", "page.block_response.page"]
)
def test_a_failure_behind_the_decision_refuses_the_request(
    hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(f"hushlist.proxy.{target}", fail)
    flow = run(hushlist, flow_of("http://blocked.example/"))
    # Where not even the block page can be made, the flow is killed.
    assert flow.response is not None or flow.error is not None


def test_with_a_policy_that_cannot_be_used_at_the_start_every_request_is_refused(
    context: taddons.context, hushlist: Hushlist, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "none.yaml"
    context.configure(hushlist, connection_strategy="eager", hushlist_mode="block", hushlist_policy=str(path))
    # an error in the log ends mitmdump at its start
    (record,) = (record for record in caplog.records if record.levelno >= logging.ERROR)
    assert record.getMessage() == (f"hushlist: hushlist_policy cannot be used:\n{path}: No such file or directory")
    flow = run(hushlist, flow_of("http://other.example/"))
    assert flow.response is not None
    assert "the filter has no policy that it can use" in flow.response.text
    assert context.options.connection_strategy == "lazy"


# -- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("hushlist")
def test_options_are_typed_and_documented(context: taddons.context) -> None:
    options = context.options._options
    assert options["hushlist_policy"].typespec is str
    assert options["hushlist_mode"].choices == ("block", "tag", "off")
    assert options["hushlist_mode"].default == "block"
    assert all(option.help for name, option in options.items() if name.startswith("hushlist_"))


def test_a_mode_that_is_none_is_refused(running: taddons.context, hushlist: Hushlist) -> None:
    with pytest.raises(exceptions.OptionsError):
        running.configure(hushlist, hushlist_mode="nonsense")
    assert running.options.hushlist_mode == "block"


def test_a_mode_that_is_none_is_an_error_at_the_start(
    context: taddons.context, hushlist: Hushlist, caplog: pytest.LogCaptureFixture
) -> None:
    context.configure(hushlist, hushlist_mode="nonsense")
    assert "hushlist_mode cannot be 'nonsense', only one of block, tag, off" in caplog.text
    assert run(hushlist, flow_of("http://other.example/")).response


def test_an_option_of_ours_that_is_none_is_an_error_with_the_nearest(
    context: taddons.context, hushlist: Hushlist, policy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context.options.deferred["hushlist_polisy"] = "x"
    context.configure(hushlist, hushlist_policy=str(policy))
    own = (
        "hushlist_health, hushlist_learn, hushlist_longest_head, hushlist_longest_message, hushlist_mode, "
        "hushlist_policy, hushlist_proxy_protocol, hushlist_quiet, hushlist_stream"
    )
    expected = f"there is no option hushlist_polisy; did you mean 'hushlist_policy'? (known: {own})"
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == [f"hushlist: {expected}"]
    assert run(hushlist, flow_of("http://other.example/")).response


@pytest.mark.parametrize("given", ["", "x", "1", "1t", "-1"])
@pytest.mark.parametrize("option", ["hushlist_longest_head", "hushlist_longest_message"])
def test_a_bound_that_is_none_is_refused(running: taddons.context, hushlist: Hushlist, option: str, given: str) -> None:
    with pytest.raises(exceptions.OptionsError, match=f"{option} cannot be '{given}', only a size from "):
        running.configure(hushlist, **{option: given})


def test_the_bounds_are_what_the_options_say(running: taddons.context, hushlist: Hushlist) -> None:
    assert (HEAD_LIMIT.octets, MESSAGE_LIMIT.octets) == (LONGEST_HEADERS, LONGEST_MESSAGE)
    running.configure(hushlist, hushlist_longest_head="1m", hushlist_longest_message="1g")
    assert (HEAD_LIMIT.octets, MESSAGE_LIMIT.octets) == (1 << 20, 1 << 30)
    running.configure(hushlist, hushlist_longest_head="16k", hushlist_longest_message="64k")
    assert (HEAD_LIMIT.octets, MESSAGE_LIMIT.octets) == (1 << 14, 1 << 16)
    running.configure(hushlist, hushlist_longest_head="64k", hushlist_longest_message="16m")


def test_who_is_no_address_cannot_be_believed(running: taddons.context, hushlist: Hushlist) -> None:
    with pytest.raises(exceptions.OptionsError, match="hushlist_proxy_protocol: 'haproxy' does not appear to be"):
        running.configure(hushlist, hushlist_proxy_protocol=["127.0.0.2", "haproxy"])


def test_options_of_others_are_theirs(
    context: taddons.context, hushlist: Hushlist, policy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context.options.deferred["other_polisy"] = "x"
    context.configure(hushlist, hushlist_policy=str(policy))
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


def test_a_mode_that_comes_with_something_else_that_is_refused_is_not_taken(
    running: taddons.context, hushlist: Hushlist, tmp_path: Path
) -> None:
    with pytest.raises(exceptions.OptionsError):
        running.configure(hushlist, hushlist_mode="off", hushlist_policy=str(tmp_path / "none.yaml"))
    assert running.options.hushlist_mode == "block"
    assert run(hushlist, flow_of("http://blocked.example/")).response


@pytest.mark.parametrize("mode", ["off", "block", "tag"])
def test_at_the_start_the_mode_holds_whatever_else_cannot_be_used(
    context: taddons.context, hushlist: Hushlist, tmp_path: Path, mode: str
) -> None:
    context.configure(hushlist, hushlist_mode=mode, hushlist_policy=str(tmp_path / "none.yaml"))
    flow = run(hushlist, flow_of("http://other.example/"))
    assert (flow.response is not None) is (mode == "block")
    assert (KEY in flow.metadata) is (mode != "off")


@pytest.mark.usefixtures("context")
def test_before_any_option_is_set_every_request_is_refused(hushlist: Hushlist) -> None:
    flow = flow_of("http://other.example/")
    hushlist.requestheaders(flow)
    assert flow.response is not None


def test_a_policy_that_cannot_be_used_is_refused_with_file_and_line(
    running: taddons.context, hushlist: Hushlist, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("layers:\n- {name: a, lists: [none.yaml]}\ncolour: red\n")
    with pytest.raises(exceptions.OptionsError) as caught:
        running.configure(hushlist, hushlist_policy=str(bad))
    assert str(caught.value) == (
        f"hushlist_policy cannot be used:\n{bad}:2: none.yaml: there is no such file\n"
        f"{bad}:3: colour: unknown key (known: {', '.join(POLICY_KEYS)})"
    )
    # what was in force stays in force
    assert running.options.hushlist_policy == str(tmp_path / "policy.yaml")
    assert run(hushlist, flow_of("http://blocked.example/")).response
    assert not run(hushlist, flow_of("http://other.example/")).response


def test_a_home_that_cannot_be_found_is_refused_as_an_option(running: taddons.context, hushlist: Hushlist) -> None:
    with pytest.raises(exceptions.OptionsError):
        running.configure(hushlist, hushlist_policy="~no-such-user-anywhere/policy.yaml")


def test_a_policy_is_found_in_the_home(
    context: taddons.context, hushlist: Hushlist, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(policy.parent))
    monkeypatch.setenv("USERPROFILE", str(policy.parent))
    context.configure(hushlist, hushlist_policy="~/policy.yaml")
    assert run(hushlist, flow_of("http://blocked.example/")).response


def test_without_an_option_the_shipped_policy_is_in_force(
    context: taddons.context, hushlist: Hushlist, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, policy_watch.__name__):
        context.configure(hushlist, hushlist_mode="block")
    assert f"by {shipped_policy()}" in caplog.text


def test_while_it_is_off_no_policy_is_needed(context: taddons.context, hushlist: Hushlist) -> None:
    context.configure(hushlist, hushlist_mode="off")
    assert hushlist.runtime.engine is None
    assert run(hushlist, flow_of("http://other.example/")).response is None


def test_warnings_are_logged(
    context: taddons.context, hushlist: Hushlist, policy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (policy.parent / "ads.yaml").write_text("rules: ['hashed:sha9=0']")
    context.configure(hushlist, hushlist_policy=str(policy))
    (record,) = (record for record in caplog.records if record.levelno == logging.WARNING)
    assert "ads.yaml:1: hashed:sha9=0: skipped: unknown algorithm 'sha9'" in record.getMessage()


# -- learning ----------------------------------------------------------------------------------------------------------


def redirected(hushlist: Hushlist, status: int = 301, url: str = "http://learn.example/data", **state: object) -> None:
    """A redirect from the origin passes, as mitmproxy hands it to the addon."""
    flow = flow_of(url)
    flow.client_conn.sni = None
    hushlist.requestheaders(flow)
    flow.response = http.Response.make(status, b"", {"location": url + "/"})
    flow.live = bool(state.get("live", True))
    if not state.get("from_origin", True):
        flow.server_conn.timestamp_start = None
    hushlist.response(flow)


@pytest.fixture
def learning(context: taddons.context, hushlist: Hushlist, tmp_path: Path) -> taddons.context:
    """A policy that blocks a page by the name that it has with a slash."""
    (tmp_path / "list.yaml").write_text("rules: [learn.example/data/]")
    (tmp_path / "learn.yaml").write_text("layers: [{name: lists, lists: [list.yaml]}]")
    context.configure(hushlist, hushlist_policy=str(tmp_path / "learn.yaml"), hushlist_mode="block")
    return context


def is_blocked(hushlist: Hushlist) -> bool:
    return run(hushlist, flow_of("http://learn.example/data")).response is not None


@pytest.mark.parametrize("status", [301, 308])
@pytest.mark.usefixtures("learning")
def test_a_permanent_redirect_of_the_origin_is_learned(hushlist: Hushlist, status: int) -> None:
    assert not is_blocked(hushlist)
    redirected(hushlist, status)
    assert is_blocked(hushlist)


@pytest.mark.parametrize("status", [200, 302, 307])
@pytest.mark.usefixtures("learning")
def test_what_is_not_permanent_is_not_learned(hushlist: Hushlist, status: int) -> None:
    redirected(hushlist, status)
    assert not is_blocked(hushlist)


@pytest.mark.parametrize("state", [{"live": False}, {"from_origin": False}])
@pytest.mark.usefixtures("learning")
def test_only_an_origin_that_answers_now_is_believed(hushlist: Hushlist, state: dict[str, object]) -> None:
    redirected(hushlist, **state)
    assert not is_blocked(hushlist)


def test_learning_can_be_turned_off_and_then_all_is_forgotten(learning: taddons.context, hushlist: Hushlist) -> None:
    redirected(hushlist)
    learning.configure(hushlist, hushlist_learn=False)
    assert not is_blocked(hushlist)
    redirected(hushlist)
    assert not is_blocked(hushlist)


# -- connections -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "own", "required"),
    [("connection_strategy", "eager", "lazy"), ("rawtcp", True, False), ("validate_inbound_headers", False, True)],
)
class TestOptionOfMitmproxy:
    def test_it_is_as_required_while_the_filter_is_on(
        self, active: taddons.context, hushlist: Hushlist, name: str, own: object, required: object
    ) -> None:
        assert getattr(active.options, name) == required
        active.configure(hushlist, hushlist_mode="tag")
        assert getattr(active.options, name) == required

    def test_it_is_given_back_when_the_filter_is_turned_off(
        self, active: taddons.context, hushlist: Hushlist, name: str, own: object, required: object
    ) -> None:
        active.configure(hushlist, hushlist_mode="off")
        assert getattr(active.options, name) == own
        active.configure(hushlist, hushlist_mode="block")
        assert getattr(active.options, name) == required

    def test_it_is_defended_while_the_filter_is_on(
        self, active: taddons.context, hushlist: Hushlist, name: str, own: object, required: object
    ) -> None:
        active.configure(hushlist, **{name: own})
        assert getattr(active.options, name) == required
        active.configure(hushlist, hushlist_mode="off")
        assert getattr(active.options, name) == own

    def test_it_stays_if_it_was_as_required_before(
        self, context: taddons.context, hushlist: Hushlist, name: str, own: object, required: object
    ) -> None:
        context.options.update(**{name: required})
        context.configure(hushlist, hushlist_mode="block")
        context.configure(hushlist, hushlist_mode="off")
        assert getattr(context.options, name) == required


# -- life ------------------------------------------------------------------------------------------------------------


def test_the_script_puts_the_addon_into_addons() -> None:
    script = Path(runtime.__file__).parents[2] / "filter.py"
    if not script.is_file():
        pytest.skip("no addon/filter.py: this is an installed package")
    names: dict[str, object] = {}
    exec(compile(script.read_text(), script.name, "exec"), names)
    (found,) = names["addons"]  # type: ignore[misc]
    assert isinstance(found, Hushlist)


# -- groups, safe search, the log, the template ------------------------------------------------------------------------


@pytest.fixture
def grouped(context: taddons.context, hushlist: Hushlist, policy: Path) -> taddons.context:
    """Three groups, each with a mode of its own; safe search for all of them."""
    policy.write_text(
        "safe-search: strict\nlog: {folder: log, what: all}\nlayers:\n- {name: lists, lists: [ads.yaml]}\n"
        'groups:\n- {name: tagging, users: [tag], mode: tag}\n- {name: free, users: ["off"], mode: "off"}\n'
    )
    context.configure(hushlist, hushlist_policy=str(policy), hushlist_mode="block")
    return context


def of_user(user: str, url: str = "http://blocked.example/") -> http.HTTPFlow:
    flow = flow_of(url)
    flow.metadata["proxyauth"] = (user, "very-secret")
    return flow


@pytest.mark.parametrize(
    ("mode", "user", "stopped", "noted"),
    [
        ("block", "pupil", True, False),
        ("block", "tag", False, True),
        ("block", "off", False, None),
        ("tag", "pupil", False, True),
        ("tag", "off", False, None),
        ("off", "pupil", False, None),
        ("off", "tag", False, None),
    ],
)
def test_the_mode_is_the_group_s_unless_the_option_says_less(
    grouped: taddons.context, hushlist: Hushlist, mode: str, user: str, stopped: bool, noted: bool | None
) -> None:
    grouped.configure(hushlist, hushlist_mode=mode)
    flow = run(hushlist, of_user(user))
    assert (flow.response is not None) is stopped
    note = flow.metadata.get(KEY)
    assert (note and note["would_block"]) == noted
    assert (flow.marked, flow.comment) == ("", "") if noted is None else flow.marked


def written(hushlist: Hushlist, policy: Path) -> list[dict[str, object]]:
    hushlist.done()
    path = policy.parent / "log" / "decisions.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.usefixtures("grouped")
def test_a_recording_is_no_part_of_the_log(hushlist: Hushlist, policy: Path) -> None:
    flow = of_user("pupil")
    flow.live = False
    assert run(hushlist, flow).metadata[KEY]["action"] == "block"
    assert written(hushlist, policy) == []


@pytest.mark.usefixtures("grouped")
def test_every_decision_is_logged_once(hushlist: Hushlist, policy: Path) -> None:
    flows = [
        *(of_user(user) for user in ("pupil", "tag", "off")),
        of_user("pupil", "http://www.google.com/search?q=x"),
        of_user("pupil", "http://other.example/"),
    ]
    for flow in flows:
        run(hushlist, flow)
    found = written(hushlist, policy)
    assert [(one["user"], one["action"], one.get("would_block")) for one in found] == [
        ("pupil", "block", None),
        ("tag", "block", True),
        ("pupil", "pass", None),
        ("pupil", "pass", None),
    ]
    assert "very-secret" not in str(found)
    assert flows[0].response is not None
    assert str(found[0]["reference"]) in flows[0].response.text


@pytest.mark.usefixtures("grouped")
def test_the_original_form_of_a_url_is_kept_with_its_port(hushlist: Hushlist, policy: Path) -> None:
    flow = run(hushlist, of_user("pupil", "http://blocked.example:8080/a/../%7Ex"))
    assert flow.response is not None
    (one,) = written(hushlist, policy)
    assert (one["url"], one["original"]) == ("http://blocked.example/~x", "http://blocked.example:8080/a/../%7Ex")
    assert flow.metadata[KEY]["original"] == one["original"]
    assert str(one["original"]) in (flow.response.text or "")


@pytest.mark.usefixtures("grouped")
def test_a_request_that_is_changed_or_replayed_is_another_decision(hushlist: Hushlist, policy: Path) -> None:
    flow = flow_of("http://other.example/")
    hushlist.requestheaders(flow)
    flow.request.host = "third.example"
    hushlist.request(flow)
    run(hushlist, flow)
    urls = [one["url"] for one in written(hushlist, policy)]
    assert urls == ["http://other.example/", *["http://third.example/"] * 2]


@pytest.mark.usefixtures("grouped")
def test_fields_that_servers_believe_are_taken_out_of_what_passes(hushlist: Hushlist) -> None:
    def sent(**state: str) -> http.HTTPFlow:
        flow = flow_of("http://other.example/", host="other.example")
        flow.client_conn.proxy_mode = ProxyMode.parse(state.get("mode", "regular"))
        flow.request.headers.fields += ((b"X-Forwarding-Host", b"a"), (b"x-forwarded-host", b"other.example"))
        flow.request.headers.fields += ((b"X-FORWARDED-HOST", b"b"), (b"X-Forwarded-For", b"192.0.2.1"))
        flow.live = "recorded" not in state
        return flow

    flow = run(hushlist, sent())
    assert flow.response is None
    names = [name for name, _ in flow.request.headers.fields]
    assert names[-2:] == [b"X-Forwarding-Host", b"X-Forwarded-For"]
    assert flow.metadata[TAKEN_OUT] == "X-FORWARDED-HOST, x-forwarded-host"
    again = run(hushlist, flow)  # its body has arrived: nothing is new
    assert again.request.headers.fields == flow.request.headers.fields
    recorded = sent(recorded="yes")
    before = recorded.request.get_state()
    assert run(hushlist, recorded).request.get_state() == before
    behind = run(hushlist, sent(mode="reverse:http://other.example"))
    assert behind.request.headers["x-forwarded-host"] == "other.example, b"
    assert TAKEN_OUT not in behind.metadata


@pytest.mark.usefixtures("grouped")
def test_a_search_is_made_safe_and_noted(hushlist: Hushlist) -> None:
    flow = run(hushlist, flow_of("http://www.google.com/search?q=a+b&%73afe=off"))
    assert flow.response is None
    assert flow.request.path == "/search?q=a+b&safe=active&ssui=on"
    assert flow.metadata[SAFE_SEARCH].startswith("Google, strict: ")
    flow = run(hushlist, flow_of("https://www.youtube.com/", youtube_restrict="off"))
    assert flow.request.headers.get_all("youtube-restrict") == ["Strict"]
    unknown = flow_of("http://other.example/search?q=x&safe=off", host="other.example")
    before = unknown.request.get_state()
    assert run(hushlist, unknown).request.get_state() == before
    assert SAFE_SEARCH not in unknown.metadata


@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize(
    "change",
    [
        lambda flow: setattr(flow.request.data, "host", "192.0.2.7"),
        lambda flow: (
            setattr(flow.request.data, "host", "other.example"),
            setattr(flow.client_conn, "sni", "google.com"),
        ),
        lambda flow: flow.request.headers.update({"host": "www.google.com:80"}),
    ],
    ids=["transparent", "server name", "with a port"],
)
def test_a_search_is_made_safe_by_whatever_name_it_goes(
    hushlist: Hushlist, change: Callable[[http.HTTPFlow], object]
) -> None:
    flow = flow_of("http://www.google.com/search?q=x", host="www.google.com")
    change(flow)
    assert run(hushlist, flow).request.path == "/search?q=x&safe=active&ssui=on"


@pytest.mark.usefixtures("grouped")
def test_a_name_that_cannot_be_read_does_not_keep_a_search_from_passing(
    grouped: taddons.context, hushlist: Hushlist, policy: Path
) -> None:
    policy.write_text("unparsable: pass\n" + policy.read_text())
    hushlist.policy_watch.load(policy)
    flow = run(hushlist, flow_of("http://www.google.com/search?q=x", host="a/b"))
    assert flow.response is None
    assert flow.request.path == "/search?q=x&safe=active&ssui=on"


@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize("state", ["not live", "answered", "group off"])
def test_a_search_that_is_recorded_or_answered_or_nobody_s_business_stays(hushlist: Hushlist, state: str) -> None:
    flow = of_user("off" if state == "group off" else "pupil", "http://www.google.com/search?q=x")
    flow.live = state != "not live"
    flow.response = http.Response.make(200) if state == "answered" else None
    before = flow.request.get_state()
    assert run(hushlist, flow).request.get_state() == before
    assert SAFE_SEARCH not in flow.metadata


@pytest.mark.usefixtures("grouped")
def test_where_another_host_searches_safely_only_the_connection_goes_there(hushlist: Hushlist) -> None:
    flow = flow_of("https://search.brave.com/?q=x", host="search.brave.com")
    before = flow.request.get_state()
    assert run(hushlist, flow).request.get_state() == before
    assert "safe.search.brave.com" in flow.metadata[SAFE_SEARCH]
    tagging = tflow.tclient_conn()
    ctx.master.addons.add(SimpleNamespace(name="proxyauth", authenticated={tagging: ("tag", "")}))
    for client, address, expected in (
        (flow.client_conn, ("search.brave.com", 443), ("safe.search.brave.com", 443)),
        (flow.client_conn, ("other.example", 443), ("other.example", 443)),
        (tflow.tclient_conn(), ("search.brave.com", 443), ("safe.search.brave.com", 443)),
        (tagging, ("search.brave.com", 443), ("search.brave.com", 443)),
    ):
        server = connection.Server(address=address)
        hushlist.server_connect(ServerConnectionHookData(server, client))
        assert server.address == expected


@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/2.0"])
def test_where_another_proxy_connects_it_is_told_the_host_that_searches_safely(
    hushlist: Hushlist, version: str
) -> None:
    for url, authority, host in (
        ("https://search.brave.com/?q=x", b"search.brave.com", "search.brave.com"),
        ("http://search.brave.com:8080/?q=x", b"safe.search.brave.com:8080", "safe.search.brave.com:8080"),
        ("http://pixabay.com/", b"safesearch.pixabay.com", "safesearch.pixabay.com"),
        ("http://other.example/", b"other.example", "other.example"),
    ):
        flow = flow_of(url)
        flow.request.http_version, flow.request.authority = version, flow.request.host
        flow.client_conn.alpn = b"h2" if version == "HTTP/2.0" else b"http/1.1"
        flow.request.headers["host"] = flow.request.host
        flow.server_conn = connection.Server(address=None, via=("http", ("127.0.0.1", 3128)))
        request = run(hushlist, flow).request
        assert (request.data.authority, request.headers.get_all("host")) == (authority, [host])


def test_a_log_whose_folder_cannot_be_found_is_told_and_stops_nothing(
    context: taddons.context,
    hushlist: Hushlist,
    policy: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no home")

    monkeypatch.setattr(runtime, "LogWriter", fail)
    policy.write_text("log: on\n" + policy.read_text())
    context.configure(hushlist, hushlist_policy=str(policy), hushlist_mode="block")
    assert "there is no log: no home" in caplog.text
    # an error would end mitmdump at its start
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert run(hushlist, flow_of("http://blocked.example/")).response
    assert not run(hushlist, flow_of("http://other.example/")).response


def test_an_own_block_page_is_used_and_a_broken_one_is_refused_with_file_and_line(
    context: taddons.context, hushlist: Hushlist, policy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    page = policy.parent / "page.html"
    page.write_text("<html lang='$lang' dir='$dir'><h1>$heading</h1><p>Ours: $reason</p>$form</html>")
    policy.write_text("block-page: page.html\n" + policy.read_text())
    context.configure(hushlist, hushlist_policy=str(policy), hushlist_mode="block")
    flow = run(hushlist, flow_of("http://blocked.example/"))
    assert flow.response is not None
    assert "<p>Ours: Ads</p>" in flow.response.text
    page.write_text("<html lang='$lang' dir='$dir'><h1>$heading</h1><p>$reason</p>$form\n$nonsense</html>")
    with pytest.raises(PolicyError, match=r"page\.html:2: \$nonsense"):
        hushlist.policy_watch.load(policy)
    assert "the last change is not used" in hushlist.runtime.status()
    flow = run(hushlist, flow_of("http://blocked.example/"))
    assert flow.response is not None
    assert "<p>Ours: Ads</p>" in flow.response.text


# -- failing open, by choice -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["open", "{start: open}", "{default: open, error: closed}"])
def test_a_broken_policy_that_says_so_starts_and_everything_passes_until_it_is_mended(
    context: taddons.context, hushlist: Hushlist, policy: Path, caplog: pytest.LogCaptureFixture, choice: str
) -> None:
    good = policy.read_text()
    policy.write_text(f"on-failure: {choice}\nlayers: [{{}}]\n")
    context.configure(hushlist, hushlist_policy=str(policy))
    assert [record.levelno for record in caplog.records if "NOTHING IS FILTERED" in record.getMessage()] == [
        logging.WARNING  # an error would end mitmdump
    ]
    assert run(hushlist, flow_of("http://blocked.example/")).response is None
    status = hushlist.runtime.status()
    assert status.startswith("NOTHING IS FILTERED: ")
    assert "1 by start passed undecided" in status
    assert "policy.yaml:2: " in status
    policy.write_text(good)
    hushlist.policy_watch.load(policy)
    assert run(hushlist, flow_of("http://blocked.example/")).response is not None
    assert "NOTHING" not in hushlist.runtime.status()


@pytest.mark.parametrize("choice", ["closed", "{error: open, index: open}", "opne"])
def test_a_broken_policy_that_does_not_say_so_refuses_every_request(
    context: taddons.context, hushlist: Hushlist, policy: Path, caplog: pytest.LogCaptureFixture, choice: str
) -> None:
    policy.write_text(f"on-failure: {choice}\nlayers: [{{}}]\n")
    context.configure(hushlist, hushlist_policy=str(policy))
    assert any(record.levelno == logging.ERROR for record in caplog.records)
    response = run(hushlist, flow_of("http://other.example/")).response
    assert response is not None
    assert response.status_code == 403
    assert hushlist.runtime.status().startswith("no policy that can be used: every request is refused")
