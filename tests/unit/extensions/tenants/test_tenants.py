"""Tenants: how they are read, and what requests get."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushlist.core.url.request import request_of
from hushlist.extensions.tenants.tenant_headers import TenantHeaders
from hushlist.extensions.tenants.tenants import SERVICES, TenantRule, why_decrypt
from hushlist.proxy.flow_request import SelfConnections
from hushlist.proxy.runtime import Runtime
from support.engines import engine_of, judgement_of
from support.flows import flow_of
from support.policies import read_whole
from unit.rows import each_row


def rules_of(folder: Path, tenants: str) -> tuple[tuple[TenantRule, ...], list[str]]:
    policy, errors = read_whole(folder, f"tenants: {tenants}\nlayers: []\n")
    return policy.all_groups[-1].settings.of("tenants"), errors


@each_row(
    ("tenants", "fields"),
    [
        (
            "[{service: google, allow: [a.example, b.example]}]",
            (("X-GoogApps-Allowed-Domains", "a.example,b.example"),),
        ),
        (
            "[{service: microsoft, allow: [a.example], directory: 1-2}]",
            (("Restrict-Access-To-Tenants", "a.example"), ("Restrict-Access-Context", "1-2")),
        ),
        ("[{service: microsoft-personal}]", (("sec-Restrict-Tenant-Access-Policy", "restrict-msa"),)),
        ("[{hosts: [CRM.example], header: X-Tenant, allow: [7]}]", (("X-Tenant", "7"),)),
    ],
)
def test_a_service_has_its_fields(tmp_path: Path, tenants: str, fields: tuple[tuple[str, str], ...]) -> None:
    (rule,), errors = rules_of(tmp_path, tenants)
    assert (rule.fields, errors) == (fields, [])


@each_row(
    ("tenants", "error"),
    [
        ("[{service: google}]", "it has no allow"),
        ("[{service: gogle, allow: [a]}]", "expected one of google"),
        ("[{allow: [a]}]", "expected 'service', or 'hosts' and 'header'"),
        ("[{service: google, hosts: [a.example], allow: [a]}]", "expected 'service', or 'hosts' and 'header'"),
        ("[{hosts: [a.example], allow: [a]}]", "it has no header"),
        ("[{hosts: [], header: X-A, allow: [a]}]", "expected hosts, not an empty list"),
        ("[{hosts: ['a b'], header: X-A, allow: [a]}]", "a b"),
        ("[{service: google, allow: []}]", "expected a list of names"),
        ("[{service: google, allow: ['a,b']}]", "expected a list of names"),
        ('[{service: google, allow: ["a\\r\\nb: c"]}]', "expected ASCII, without line ends"),
        ("[{hosts: [a.example], header: 'X-A: Y', allow: [a]}]", "expected a name that begins with X-"),
        ("[{hosts: [a.example], header: Host, allow: [a]}]", "expected a name that begins with X-"),
        ("[{hosts: [a.example], header: X-Original-URL, allow: [a]}]", "expected a name that begins with X-"),
        ("[{service: microsoft, allow: [a]}]", "it has no directory"),
        ("[{service: google, allow: [a], directory: b}]", "the service takes none"),
        ("[{service: google, allow: [a], header: X}]", "the service has its own"),
    ],
)
def test_a_mistake_has_its_line_and_reason(tmp_path: Path, tenants: str, error: str) -> None:
    _, errors = rules_of(tmp_path, tenants)
    assert error in errors[0]
    assert errors[0].startswith("1: ")


def test_hosts_cover_those_below_them(tmp_path: Path) -> None:
    (rule,), _ = rules_of(tmp_path, "[{service: slack, allow: [T1], directory: T1}]")
    hosts = {b"slack.com": True, b"a.slack.com": True, b"aslack.com": False, b"com": False}
    assert {host: rule.hosts.covers(host) for host in hosts} == hosts


def test_a_service_is_decrypted(tmp_path: Path) -> None:
    policy, _ = read_whole(tmp_path, "tenants: [{service: slack, allow: [T1], directory: T1}]\nlayers: []\n")
    settings = policy.all_groups[-1].settings
    assert why_decrypt(b"app.slack.com", settings) == "tenants are told to"
    assert why_decrypt(b"slack.example", settings) is None


def test_each_service_has_hosts_and_fields() -> None:
    assert all(service.hosts and (service.allow or service.fixed) for service in SERVICES.values())


@pytest.mark.parametrize(
    ("mode", "host", "is_told"),
    [("block", "app.slack.com", True), ("block", "slack.example", False), ("tag", "app.slack.com", False)],
)
def test_a_service_is_told_on_each_request_that_passes(tmp_path: Path, mode: str, host: str, is_told: bool) -> None:
    text = f"tenants: [{{service: slack, allow: [T1], directory: T2}}]\nmode: {mode}\nlayers: []\n"
    policy, _ = read_whole(tmp_path, text)
    flow = flow_of(f"https://{host}/", X_Slack_Allowed_Workspaces_Requester="mine")
    judgement = judgement_of(engine_of("rules: []").decide(request_of(f"https://{host}/")))
    judgement = judgement._replace(settings=policy.all_groups[-1].settings)
    TenantHeaders(Runtime(), SelfConnections()).passed(flow, flow.client_conn, judgement)
    told = {name.lower(): value for name, value in flow.request.headers.items() if name.lower().startswith("x-slack")}
    requester = "x-slack-allowed-workspaces-requester"
    assert told == ({requester: "T2", "x-slack-allowed-workspaces": "T1"} if is_told else {requester: "mine"})
