"""Names of DNS, by the objects of mitmproxy: notes, recordings, failures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import dns
from mitmproxy.connection import Server
from mitmproxy.net.dns import response_codes
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import tflow

from hushlist.match.rule import Action
from hushlist.proxy.in_force import InForce
from hushlist.proxy.name_queries import NameQueries, ask_filter_first
from hushlist.proxy.notes import BLOCKED, KEY, WOULD_BLOCK
from hushlist.proxy.wire import hosts_of_name, request_of_question

RULES = """
rules:
- blocked.example
- blocked.categorized.example
- {expression: blocked.categorized.example/x/, category: 'hrn://h.example/good'}
- use-application-dns.net
- {expression: allowed.example, action: allow}
- {address: 203.0.113.0/24}
"""


@pytest.fixture
def in_force(tmp_path: Path) -> Iterator[InForce]:
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "policy.yaml").write_text(
        "layers:\n- {name: lists, lists: [rules.yaml]}\ndns: {blocked: 192.0.2.80}\n"
        "groups:\n- {name: a, clients: [10.0.0.7], categories: {'hrn://h.example/good': allow}}\n"
    )
    own = InForce()
    own.load(tmp_path / "policy.yaml")
    yield own
    own.close()


def flow_of(name: str, kind: int = dns.types.A, client: str = "127.0.0.1") -> dns.DNSFlow:
    flow = tflow.tdnsflow()
    flow.client_conn.proxy_mode = ProxyMode.parse("dns")
    flow.client_conn.peername = (client, 5353)
    flow.request.questions = [dns.Question(name, kind, dns.classes.IN)]
    return flow


def ask(in_force: InForce, flow: dns.DNSFlow, mode: str = "block") -> dns.DNSFlow:
    NameQueries(in_force).ask(flow, mode)
    return flow


def test_a_decision_is_noted_on_the_flow(in_force: InForce) -> None:
    flow = ask(in_force, flow_of("www.blocked.example"))
    assert flow.marked == BLOCKED
    assert flow.comment.startswith("hushlist: block blocked.example/ by ")
    assert flow.metadata[KEY]["canonical"] == "dns://www.blocked.example/"
    assert ask(in_force, flow_of("blocked.example"), "tag").marked == WOULD_BLOCK
    assert ask(in_force, flow_of("other.example")).metadata == {}


def test_a_recording_is_annotated_and_keeps_its_answer(in_force: InForce) -> None:
    flow = flow_of("blocked.example")
    flow.live = False
    flow.response = answer = flow.request.succeed([])
    assert ask(in_force, flow).marked == BLOCKED
    assert flow.response is answer


def test_the_names_by_which_software_asks_for_leave_are_never_given_an_address(in_force: InForce) -> None:
    response = ask(in_force, flow_of("USE-application-dns.net")).response
    assert response
    assert response.response_code == response_codes.NXDOMAIN


def test_a_category_that_is_allowed_below_a_blocked_host_lets_the_name_be_told(in_force: InForce) -> None:
    assert ask(in_force, flow_of("blocked.categorized.example")).response is not None
    assert ask(in_force, flow_of("blocked.categorized.example", client="10.0.0.7")).response is None


@pytest.mark.parametrize("step", ["ask", "answer"])
def test_a_failure_of_our_own_answers_nothing(
    in_force: InForce, step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    flow = flow_of("other.example")
    if step == "answer":
        flow.response = flow.request.succeed([dns.ResourceRecord.CNAME("other.example", "x.example")])
    monkeypatch.setattr(in_force, "decide", fail)
    getattr(NameQueries(in_force), step)(flow, "block")
    assert flow.response
    assert flow.response.response_code == response_codes.SERVFAIL
    assert "the filter failed" in caplog.text


def test_without_a_policy_every_question_is_refused() -> None:
    response = ask(InForce(), flow_of("other.example")).response
    assert response
    assert response.response_code == response_codes.REFUSED


def test_mitmproxy_s_resolver_is_asked_behind_the_filter() -> None:
    first, resolver, last = object(), object(), object()
    before = [first, resolver, last]
    addons = SimpleNamespace(chain=before, get=lambda name: resolver if name == "dnsresolver" else None)
    ask_filter_first(addons)  # type: ignore[arg-type]
    assert addons.chain == [first, last, resolver]
    assert before == [first, resolver, last]  # it may be gone through at the moment


@pytest.mark.parametrize(
    ("mode", "address", "is_refused"),
    [
        ("transparent", "203.0.113.7", True),
        ("transparent", "192.0.2.7", False),
        ("wireguard", "203.0.113.7", True),
        ("local", "::ffff:203.0.113.7", True),
        ("reverse:dns://203.0.113.7", "203.0.113.7", False),  # the administrator says so
        ("dns", "203.0.113.7", False),
    ],
)
def test_a_server_that_is_blocked_by_its_address_is_asked_nothing(
    in_force: InForce, mode: str, address: str, is_refused: bool
) -> None:
    for name in ("other.example", "allowed.example"):
        flow = flow_of(name)
        flow.client_conn.proxy_mode = ProxyMode.parse(mode)
        flow.server_conn = Server(address=(address, 53))
        response = ask(in_force, flow).response
        # whoever asks is not told of a name that it does not exist, or where else it is
        assert (response is not None and response.response_code == response_codes.REFUSED) is is_refused


def test_default_is_asked_of_names_and_not_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("rules:\n- {expression: good.example, action: allow}\n")
    (tmp_path / "policy.yaml").write_text("layers:\n- {name: own, lists: [rules.yaml]}\ndefault: block\n")
    own = InForce()
    own.load(tmp_path / "policy.yaml")
    for name, is_answered in (("good.example", False), ("other.example", True)):
        flow = flow_of(name)
        flow.client_conn.proxy_mode = ProxyMode.parse("transparent")
        flow.server_conn = Server(address=("192.0.2.53", 53))
        assert (ask(own, flow).response is not None) is is_answered
    own.close()


def test_mitmproxy_s_own_resolver_is_no_server_to_decide(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("rules:\n- {address: 10.0.0.0/8}\n")
    (tmp_path / "policy.yaml").write_text("layers:\n- {name: own, lists: [rules.yaml]}\n")
    own = InForce()
    own.load(tmp_path / "policy.yaml")
    for address, is_answered in (("10.0.0.53", False), ("10.0.0.54", True)):
        flow = flow_of("good.example")
        flow.client_conn.proxy_mode = ProxyMode.parse("wireguard")
        flow.server_conn = Server(address=(address, 53))
        assert (ask(own, flow).response is not None) is is_answered
    own.close()


def test_an_answer_to_an_earlier_question_is_not_taken_for_one_about_an_allowed_name(in_force: InForce) -> None:
    queries = NameQueries(in_force)
    flow = flow_of("cloaked.example")
    queries.ask(flow, "block")
    late = flow.request.succeed([dns.ResourceRecord.CNAME("cloaked.example", "blocked.example")])
    flow.request = flow_of("allowed.example").request  # mitmproxy tells questions apart by their numbers alone
    queries.ask(flow, "block")
    flow.response = late
    queries.answer(flow, "block")
    assert flow.response is not late
    flow.response = own = flow.request.succeed([dns.ResourceRecord.CNAME("allowed.example", "blocked.example")])
    queries.answer(flow, "block")
    assert flow.response is own


@given(st.text(max_size=80))
def test_any_name_can_be_decided(name: str) -> None:
    message = tflow.tdnsflow().request
    message.questions = [dns.Question(name, 1, 1)]
    request = request_of_question(message)
    assert request.hosts == tuple(dict.fromkeys(hosts_of_name(name)))
    assert 1 <= len(request.hosts) <= 2


def test_the_action_of_a_warning_is_to_pass(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("layers: []\ndefault: warn\n")
    own = InForce()
    own.load(tmp_path / "policy.yaml")
    flow = ask(own, flow_of("other.example"))
    own.close()
    assert flow.response is None
    assert KEY not in flow.metadata or flow.metadata[KEY]["action"] == Action.PASS
