"""The addon in mitmproxy's own test context."""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from mitmproxy import connection, ctx, exceptions, http
from mitmproxy import flow as mitmproxy_flow
from mitmproxy.certs import CertStore
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.test import taddons, tflow

from hushlist.core.decide.decision import Decision
from hushlist.core.decide.engine import Engine
from hushlist.core.policy.groups import Client, Group
from hushlist.core.policy.key_types import names_of
from hushlist.core.policy.policy_file import PolicyError
from hushlist.core.policy.policy_reader import policy_rows
from hushlist.core.policy.usable_keys import table_of
from hushlist.core.system import authority_file
from hushlist.core.url.request import Request
from hushlist.extensions.fleet.heartbeat import Heartbeat
from hushlist.proxy import addon_options, flow_outcome, request_handler
from hushlist.proxy.addon import Hushlist, LastLook
from hushlist.proxy.connections.name_lookups import NameLookups
from hushlist.proxy.connections.relayed_connections import RelayedConnections
from hushlist.proxy.flow_outcome import BLOCKED, KEY, SAFE_SEARCH, TAGGED, TAKEN_OUT, WOULD_BLOCK
from hushlist.proxy.service.graceful_stop import GracefulStop
from hushlist.proxy.service.upkeep import Upkeep
from support.flows import flow_of
from support.mitmproxied import mitmproxied
from support.policies import write_policy
from unit.rows import each_row


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    rules = (
        "rules:\n- {expression: blocked.example, reason: Ads}\n- {expression: tagged.example, action: tag}\n"
        "- {expression: blocked.example/ok, action: allow}\n"
    )
    return write_policy(tmp_path, files={"ads.yaml": rules})


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
    monkeypatch.setattr(Heartbeat, "running", lambda _: None)
    monkeypatch.setattr(Upkeep, "run", lambda _: None)
    monkeypatch.setattr(NameLookups, "run", lambda _: None)
    hushlist.running()
    return active


def run(hushlist: Hushlist, flow: http.HTTPFlow) -> http.HTTPFlow:
    hushlist.requestheaders(flow)
    hushlist.request(flow)
    return flow


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


# -- deciding again --------------------------------------------------------------------------------------------------


@pytest.fixture
def decided_requests(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Every request that an engine was asked about."""
    decided_requests: list[Request] = []
    decide = Engine.decide

    def record(self: Engine, request: Request, client: Client, group: Group, *, is_settled: bool) -> Decision:
        decided_requests.append(request)
        return decide(self, request, client=client, group=group, is_settled=is_settled)

    monkeypatch.setattr(Engine, "decide", record)
    return decided_requests


@pytest.mark.usefixtures("active")
def test_a_request_whose_body_took_long_is_decided_twice_and_told_once(
    hushlist: Hushlist, decided_requests: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    flows = [flow_of("http://other.example/"), flow_of("http://blocked.example/")]
    for flow in flows:
        hushlist.requestheaders(flow)
    late = request_handler.monotonic() + 2
    monkeypatch.setattr(request_handler, "monotonic", lambda: late)
    for flow in flows:
        hushlist.request(flow)
    assert [request.hosts for request in decided_requests[2:]] == [(b"other.example",)]
    assert flows[0].response is None
    assert hushlist.runtime.statistics.total == 2


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
    hushlist: Hushlist, decided_requests: list[Request], change: Callable[[http.HTTPFlow], None], is_blocked: bool
) -> None:
    flow = flow_of("http://other.example/")
    hushlist.requestheaders(flow)
    change(flow)
    hushlist.request(flow)
    assert len(decided_requests) == 2
    assert (flow.response is not None) is is_blocked


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
    flow.request.content = b"x"
    hushlist.request(flow)
    assert (flow.response is not None) is is_refused
    assert "the filter failed on a request" in caplog.text


# -- options ---------------------------------------------------------------------------------------------------------


def test_a_mode_that_is_none_is_refused(running: taddons.context, hushlist: Hushlist) -> None:
    with pytest.raises(exceptions.OptionsError):
        running.configure(hushlist, hushlist_mode="nonsense")
    assert running.options.hushlist_mode == "block"


def test_at_the_start_a_mode_that_is_none_is_said_once(
    context: taddons.context, hushlist: Hushlist, policy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):  # as mitmproxy does for an option that waits for the script
        context.configure(hushlist, hushlist_policy=str(policy), hushlist_mode="nonsense")
    assert caplog.text.count("hushlist_mode cannot be 'nonsense'") == 1


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


def test_an_authority_that_is_not_whole_ends_the_start_and_one_that_is_is_read_once(
    context: taddons.context,
    hushlist: Hushlist,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    read = []

    def fault_of(folder: Path, passphrase: str) -> str | None:
        read.append(folder)
        return authority_file.fault_of_authority(folder, passphrase)

    monkeypatch.setattr(addon_options, "fault_of_authority", fault_of)
    (tmp_path / authority_file.CERTIFICATE).write_text("what devices trust")
    context.configure(hushlist, confdir=str(tmp_path))
    assert f"confdir cannot be used: {tmp_path / authority_file.NAME} is gone" in caplog.text
    CertStore.create_store(tmp_path, "mitmproxy", 2048)
    for mode in ("off", "block"):
        context.configure(hushlist, hushlist_mode=mode)
    assert read == [tmp_path] * 2
    (tmp_path / authority_file.NAME).write_text("damaged")
    context.configure(hushlist, cert_passphrase="another")
    assert f"confdir cannot be used: {tmp_path / authority_file.NAME} is damaged" in caplog.text


@pytest.mark.parametrize("given", ["", "x", "1", "1t", "-1"])
@pytest.mark.parametrize("option", ["hushlist_longest_head", "hushlist_longest_message"])
def test_a_bound_that_is_none_is_refused(running: taddons.context, hushlist: Hushlist, option: str, given: str) -> None:
    with pytest.raises(exceptions.OptionsError, match=f"{option} cannot be '{given}', only a size from "):
        running.configure(hushlist, **{option: given})


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
        f"{bad}:3: colour: unknown key (known: {', '.join(names_of(policy_rows(table_of())))})"
    )
    # what was in force stays in force
    assert running.options.hushlist_policy == str(tmp_path / "policy.yaml")
    assert run(hushlist, flow_of("http://blocked.example/")).response
    assert not run(hushlist, flow_of("http://other.example/")).response


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


def written(hushlist: Hushlist, policy: Path) -> list[dict[str, object]]:
    hushlist.done()
    path = policy.parent / "log" / "decisions.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


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
        flow.metadata["proxyauth"] = (state.get("user", "pupil"), "secret")
        return flow

    tried = run(hushlist, sent(user="tag"))
    assert tried.request.headers["x-forwarded-host"] == "other.example, b"
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


@pytest.mark.parametrize("moment", ["request", "responseheaders"])
def test_nothing_passes_where_a_part_fails(tmp_path: Path, moment: str) -> None:
    def fail(_: http.HTTPFlow) -> None:
        raise ValueError(moment)

    hushlist = Hushlist()
    with mitmproxied(hushlist, write_policy(tmp_path, "")):
        flow = tflow.tflow(resp=moment == "responseheaders")
        hushlist.requestheaders(flow)
        setattr(hushlist.parts, moment, (fail,))
        getattr(hushlist, moment)(flow)
        assert flow.error is not None or (flow.response is not None and flow.response.status_code >= 400)
