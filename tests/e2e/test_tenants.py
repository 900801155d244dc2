"""Tenants: what a real origin gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.origin import Origin
from e2e.proxy import mitmdump
from support.policies import write_policy

_POLICY = """
decrypt: where-needed
tenants: [{hosts: [crm.test], header: X-Tenant, allow: [ours]}]
"""


@pytest.mark.parametrize("http2", [False, True])
def test_a_service_is_told_whatever_the_client_says(tmp_path: Path, origin: Origin, http2: bool) -> None:
    policy = write_policy(tmp_path, _POLICY)
    with (
        mitmdump(tmp_path, origin, policy=policy) as proxy,
        proxy.client(http2=http2) as client,
        origin.watch() as arrivals,
    ):
        headers = {"X-Tenant": "mine", "X_Tenant": "mine", **({} if http2 else {"Connection": "keep-alive, x_tenant"})}
        for host in ("www.crm.test", "other.test"):
            client.get(f"http{'s' * (http2 and host == 'www.crm.test')}://{host}/", headers=headers)
    ours, others = (request.headers for request in arrivals.requests)
    assert (ours["x-tenant"], "x_tenant" in ours, ours.get("connection", "keep-alive")) == ("ours", False, "keep-alive")
    assert others["x-tenant"] == "mine"
