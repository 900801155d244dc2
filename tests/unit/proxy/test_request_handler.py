"""What comes between a decision and what is done: somebody has to be asked, and meanwhile something changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import pytest
from mitmproxy import http
from mitmproxy.test import tflow

from hushlist.core.decide.engine import Engine
from hushlist.core.lists.patterns import parse_expression
from hushlist.core.match.checks import Check
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.rule import Action, ExpressionHash, Rule, Terms
from hushlist.core.policy.groups import GroupSettings
from hushlist.core.policy.policy_file import Layer, Policy
from hushlist.extensions.safe_browsing.confirmations import Confirmations, FullHashes
from hushlist.extensions.safe_browsing.questions import Questions
from hushlist.extensions.safe_browsing.threat_lists import SafeBrowsing, ThreatList
from hushlist.proxy.addon import Hushlist
from support.engines import index_of
from support.parts import part_of

SERVICE = SafeBrowsing(5, "https://lists.example", ("all-4b",))
NAMED = ThreatList(SERVICE, "all-4b")
DOUBTFUL = Rule(
    ExpressionHash(full_hash(b"odd.example/")[:4]),
    Terms(Action.BLOCK, "all-4b", "all-4b", layer="lists", confirmer=NAMED.key),
    1,
)
SECRET = Rule(parse_expression("odd.example/secret/"), Terms(Action.BLOCK, "own", "own", layer="lists"), 2)
DOH = Rule(Check("dns-over-https"), Terms(Action.BLOCK, "policy", "policy", layer="lists"), 3)


def engine_of(hushlist: Hushlist, rules: Collection[Rule], *checks: Rule) -> Engine:
    policy = Policy("policy.yaml", (Layer("lists", checks=checks),), confirmers={NAMED.key: NAMED})
    return Engine(policy, index_of(rules), confirmations=part_of(hushlist.runtime, Questions).confirmations)


def decided(hushlist: Hushlist, flow: http.HTTPFlow, meanwhile: Callable[[], object]) -> int | None:
    """The status of the answer before any of a request's body goes on; ``None``: it passes."""

    def search(_: SafeBrowsing, __: Collection[bytes]) -> FullHashes:
        meanwhile()
        return FullHashes({}, 300.0)

    part_of(hushlist.runtime, Questions).confirmations = Confirmations(search)
    hushlist.runtime.use(engine_of(hushlist, [DOUBTFUL, SECRET]), None)

    async def ask() -> None:
        waits = hushlist.requestheaders(flow)
        assert waits is not None
        await waits

    asyncio.run(ask())
    return None if flow.response is None else flow.response.status_code


@pytest.fixture
def flow() -> http.HTTPFlow:
    return tflow.tflow(req=http.Request.make("POST", "http://odd.example/", b"", {"Host": "odd.example"}))


@pytest.mark.usefixtures("context")
def test_what_is_safe_and_stays_as_it_is_passes(hushlist: Hushlist, flow: http.HTTPFlow) -> None:
    assert decided(hushlist, flow, lambda: None) is None


@pytest.mark.usefixtures("context")
def test_a_request_that_is_changed_while_somebody_is_asked_is_decided_as_it_is_then(
    hushlist: Hushlist, flow: http.HTTPFlow
) -> None:
    assert decided(hushlist, flow, lambda: setattr(flow.request, "path", "/secret/")) == 403


@pytest.mark.usefixtures("context")
def test_a_policy_that_comes_while_somebody_is_asked_knows_all_that_it_asks_for(
    hushlist: Hushlist, flow: http.HTTPFlow
) -> None:
    flow.request.headers["Content-Type"] = "application/dns-message"
    assert decided(hushlist, flow, lambda: hushlist.runtime.use(engine_of(hushlist, [], DOH), None)) == 403


@pytest.mark.usefixtures("context")
def test_a_request_whose_body_ends_under_another_policy_goes_by_that(hushlist: Hushlist, flow: http.HTTPFlow) -> None:
    hushlist.runtime.use(engine_of(hushlist, []), None)
    flow.request.path = "/secret/"
    hushlist.requestheaders(flow)
    assert flow.response is None
    hushlist.runtime.use(engine_of(hushlist, [SECRET]), None)
    hushlist.request(flow)
    assert flow.response is not None
    assert flow.response.status_code == 403


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("connection", ["close, youtube-Restrict", "YouTube-Restrict"])
def test_a_client_has_nobody_remove_the_header_of_safe_search(hushlist: Hushlist, connection: str) -> None:
    settings = GroupSettings(values={"safe-search": {"youtube": "strict"}})
    hushlist.runtime.use(Engine(Policy("policy.yaml", (), settings=settings), index_of([])), None)
    headers = {"Host": "www.youtube.com", "Connection": connection, "YouTube-Restrict": "no"}
    flow = tflow.tflow(req=http.Request.make("GET", "https://www.youtube.com/", b"", headers))
    hushlist.requestheaders(flow)
    assert flow.request.headers.get_all("youtube-restrict") == ["Strict"]
    assert "restrict" not in flow.request.headers["connection"].lower()
