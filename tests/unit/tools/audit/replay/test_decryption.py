"""What would be decrypted of recorded https, and what would be decided otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.decision import STOPPING
from hushlist.core.decide.engine import Engine
from hushlist.core.match.rule import Action, ExpressionHash
from hushlist.core.policy.groups import NOBODY, Client
from hushlist.core.policy.policy_file import Layer, Policy
from hushlist.core.url.hashed_uri import HashedUri
from hushlist.core.url.request import Request, request_of
from hushlist.tools.audit.replay.audit_report import PolicyDigest, ReplayOptions
from hushlist.tools.audit.replay.auditor import ReplayMoment
from hushlist.tools.audit.replay.decryption import MOST_DISTINCT, DistinctNames, SettingCounts, TlsUse, tls_host
from hushlist.tools.audit.replay.partition import tallied_report
from hushlist.tools.audit.sources.recorded_request import RecordedRequest
from support.engines import index_of
from unit.core.match.plain_index import STEADY, RulesAndRequests, given_rules
from unit.rows import each_row
from unit.tools.audit.samples import NOW, tally_of, write_policy

POLICY = """
pass-through: [bank.example, 192.0.2.0/24]
layers: [{name: own, lists: [own.yaml]}]
"""
OVERRIDES = """rules: [ads.example, ads.bank.example, 'path.example/x', {expression: 'open.example/ok', action: allow},
  open.example]
"""


@pytest.fixture
def engine_of_page(tmp_path: Path) -> Engine:
    return load_engine(write_policy(tmp_path, POLICY, **{"own.yaml": OVERRIDES}))


def counts(engine: Engine, *records: RecordedRequest) -> dict[str, SettingCounts]:
    return tallied_report(
        tally_of(engine, [*records]), PolicyDigest("p", ""), ReplayOptions(NOW), None, 0.0, 1
    ).decryption


@each_row(
    ("hosts", "use"),
    [
        ((b"good.example",), TlsUse.RELAYED),
        ((b"www.bank.example",), TlsUse.PASSED),
        ((b"192.0.2.7",), TlsUse.PASSED),
        ((b"www.bank.example", b"good.example"), TlsUse.RELAYED),
        ((b"ads.bank.example",), TlsUse.PAGE),
        ((b"ads.example",), TlsUse.PAGE),
        ((b"path.example",), TlsUse.INSIDE),
        ((b"bank.example", b"path.example"), TlsUse.INSIDE),
        ((b"198.51.100.1",), TlsUse.INSIDE),
        ((b"a/b",), TlsUse.PAGE),  # it is unparsable
        ((), TlsUse.PAGE),
    ],
)
def test_what_becomes_of_a_connection(engine_of_page: Engine, hosts: tuple[bytes, ...], use: TlsUse) -> None:
    found = tls_host(engine_of_page, (hosts, 443), NOW, NOBODY)
    assert (found.use, found.is_stopped) == (use, use is TlsUse.PAGE)


def test_each_setting_has_its_shares_and_what_is_lost_by_it(engine_of_page: Engine) -> None:
    urls = [
        *(b"https://good.example/%d" % number for number in range(5)),
        b"HTTPS://GOOD.example:443/x",
        b"https://ads.example/",
        b"https://ads.example/2",
        b"https://path.example/",
        b"https://path.example/x",
        b"https://open.example/",
        b"https://open.example/ok",
        b"https://bank.example/",
        b"https:///",
        b"http://good.example/",
    ]
    named = Request(b"wss", (b"good.example", b"path.example"), 443, b"/x")
    assert counts(engine_of_page, *map(RecordedRequest, [*urls, named])) == {
        "https": SettingCounts(5, 6, 14, 0),
        "all": SettingCounts(4, 5, 13, 0),
        "where-needed": SettingCounts(4, 4, 7, 0),
        "never": SettingCounts(0, 0, 0, 3),
        "page": SettingCounts(2, 2, 4, 2),
    }
    assert counts(engine_of_page, RecordedRequest(b"http://good.example/")) == {}


def test_a_connection_is_one_of_a_client_s_to_a_host_on_a_page(engine_of_page: Engine) -> None:
    one = RecordedRequest(b"https://good.example/1", page=b"https://a.example/")
    records = [
        one,
        one._replace(request=b"https://good.example/2"),
        one._replace(page=b"https://b.example/"),
        one._replace(client=Client("10.0.0.1")),
        one._replace(request=b"https://good.example:444/"),
        one._replace(request=b"https://www.good.example/"),
    ]
    assert counts(engine_of_page, *records)["https"] == SettingCounts(2, 5, 6, 0)


def test_what_is_decided_as_recorded_is_counted_so(tmp_path: Path) -> None:
    policy = POLICY + "groups: [{name: g, clients: [10.0.0.0/8], layers: []}]\n"
    engine = load_engine(write_policy(tmp_path, policy, **{"own.yaml": OVERRIDES}))
    records = [RecordedRequest(b"https://ads.example/", client=Client(own)) for own in ("10.0.0.1", "192.0.2.1")]
    tally = tally_of(engine, [*records], ReplayMoment(NOW, NOBODY, as_recorded=True))
    assert tally.tls_requests == {"relayed": 1, "page": 1}


@pytest.mark.slow
@STEADY
@given(given_rules())
def test_where_needed_loses_no_decision_of_rules_in_the_clear(some: RulesAndRequests) -> None:
    clear = (rule for rule in some.rules if not isinstance(rule.pattern, ExpressionHash | HashedUri))
    rules = [rule._replace(terms=rule.terms._replace(category=None)) for rule in clear]
    engine = Engine(Policy("policy.yaml", (Layer("first"), Layer("second")), Action.PASS), index_of(rules))
    urls = [parts._replace(scheme=b"https").join() for parts in some.requested]
    tally = tally_of(engine, [*map(RecordedRequest, urls)])
    assert tally.tls_otherwise["relayed"] == 0
    within, without = (
        [decide(url).action in STOPPING for url in urls]
        for decide in (lambda url: engine.decide_url(url, NOW), lambda url: engine.decide_host(_outer(url), NOW))
    )
    assert tally.tls_otherwise.total() == sum(one is not other for one, other in zip(within, without, strict=True))


def _outer(url: bytes) -> Request:
    own = request_of(url)
    return Request(b"https", own.hosts, own.port, b"/")


@given(st.lists(st.lists(st.binary(max_size=1)), max_size=4))
def test_different_names_are_counted_once_however_they_are_divided(parts: list[list[bytes]]) -> None:
    whole, merged = DistinctNames(), DistinctNames()
    for names in parts:
        part = DistinctNames()
        part.add(names)
        whole.add(names)
        merged.merge(part.result().names)
    assert merged == whole
    assert whole.result().number == len({name for names in parts for name in names})


@pytest.mark.slow
@pytest.mark.parametrize("number", [MOST_DISTINCT - 1, 10 * MOST_DISTINCT, 100 * MOST_DISTINCT])
def test_of_more_names_than_are_kept_the_number_is_nearly_right(number: int) -> None:
    names = DistinctNames()
    names.add(b"%d" % one for one in range(number))
    found = names.result()
    assert len(found.hashes) <= MOST_DISTINCT
    assert abs(found.number - number) <= (0.1 * number if number >= MOST_DISTINCT else 0)
