"""Blocks of administrators: what each stops for whom, which grant opens it, and what becomes of them with the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.engine import Engine
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import Client
from hushlist.core.url.request import Request, request_of
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.unblock import grant_rows
from hushlist.extensions.unblock.admin_blocks import NO_BLOCKS
from hushlist.extensions.unblock.overrides import FRESHNESS, Overrides
from support.clock import Clock

WEB, GAMES = "hrn://c.example/web", "hrn://c.example/web/games"
KID, OTHER = Client("10.0.1.7", "jo"), Client("10.0.0.7")
#: kids pass games; everybody else is warned of them; a rule of one's own allows one of them
POLICY = """
groups: [{name: kids, clients: [10.0.1.0/24], categories: {"hrn://c.example/web": pass}}]
layers:
- {name: overrides, lists: [own.yaml]}
- {name: lists, lists: [games.yaml]}
"""
ALLOWING = "rules: [{expression: chess.test, action: allow}]"
LISTED = "{action: warn, category: 'hrn://c.example/web/games', rules: [games.test, chess.test, mixed.test/games/]}"


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 12, 24, 12, tzinfo=UTC).timestamp())


@pytest.fixture
def overrides(tmp_path: Path, clock: Clock) -> Iterator[Overrides]:
    with Overrides(tmp_path / "overrides.sqlite", clock) as opened:
        yield opened


Decide = Callable[..., Action]


@pytest.fixture(params=[True, False], ids=["groups", "nobody has a group"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, overrides: Overrides) -> Engine:
    policy = POLICY if request.param else POLICY[POLICY.index("layers") :]
    for name, text in (("policy.yaml", policy), ("own.yaml", ALLOWING), ("games.yaml", LISTED)):
        (tmp_path / name).write_text(text)
    loaded = load_engine(tmp_path / "policy.yaml")
    return Engine(loaded.policy, loaded.index, overrides=overrides)


@pytest.fixture
def decide(engine: Engine, clock: Clock) -> Decide:
    def decide(url: str, client: Client = KID) -> Action:
        """The action, which is the same however the engine is asked."""
        now = datetime.fromtimestamp(clock.now, UTC)
        found = engine.decide(request_of(url.encode()), now, client)
        assert engine.decide_url(url.encode(), now, client).action is found.action
        return found.action

    return decide


def test_a_host_is_blocked_with_all_below_it_for_its_client_alone(decide: Decide, overrides: Overrides) -> None:
    assert decide("http://fine.test/") is Action.PASS
    overrides.block("host", "fine.test", 60, client="10.0.1.7", by="anna")
    for url in ("http://fine.test/", "https://a.b.FINE.test:8443/x", "http://fine.test./", "http://fine%2etest/"):
        assert decide(url) is Action.BLOCK, url
    assert decide("http://nofine.test/") is decide("http://fine.test/", OTHER) is Action.PASS


@pytest.mark.parametrize("client", [None, "10.0.1.7", "user:jo"])
def test_a_block_is_for_everybody_an_address_or_a_user(decide: Decide, overrides: Overrides, client: str) -> None:
    overrides.block("host", "fine.test", None, client=client, by="anna")
    assert decide("http://fine.test/") is Action.BLOCK
    assert decide("http://fine.test/", OTHER) is (Action.BLOCK if client is None else Action.PASS)


def test_a_block_for_a_group_is_for_its_clients(decide: Decide, overrides: Overrides, engine: Engine) -> None:
    group = engine.group(KID).name
    overrides.block("host", "fine.test", None, client=f"group:{group}", by="anna")
    assert decide("http://fine.test/") is Action.BLOCK
    assert decide("http://fine.test/", OTHER) is (Action.PASS if group == "kids" else Action.BLOCK)


def test_a_page_is_blocked_with_all_below_it_in_every_reading(decide: Decide, overrides: Overrides) -> None:
    overrides.block("url", "fine.test/a/b", 60, by="anna")
    stopped = (
        "/a/b",
        "/a/b/",
        "/a/b/c?d",
        "/a/b?x=1",
        "/x/../a/b",
        "/a//b",
        "/a/%62",
        "/a/b;x/..",
        "/a\\b",
        "/%61/b#c",
    )
    for path in stopped:
        assert decide(f"http://www.fine.test{path}") is Action.BLOCK, path
    for path in ("/", "/a", "/a/", "/a/bc", "/b/a/b", "/?/a/b"):
        assert decide(f"http://www.fine.test{path}") is Action.PASS, path


def test_a_page_with_a_query_is_blocked_with_more_of_it(decide: Decide, overrides: Overrides) -> None:
    overrides.block("url", "fine.test/watch?v=1", 60, by="anna")
    assert decide("http://fine.test/watch?v=1") is decide("http://fine.test/watch?v=1&t=2") is Action.BLOCK
    assert decide("http://fine.test/watch?v=12") is decide("http://fine.test/watch") is Action.PASS


@pytest.mark.parametrize("target", [WEB, GAMES])
def test_a_category_is_blocked_also_where_the_policy_lets_it_pass(
    decide: Decide, overrides: Overrides, engine: Engine, target: str
) -> None:
    before = Action.PASS if engine.group(KID).name == "kids" else Action.WARN
    assert decide("http://games.test/") is decide("http://mixed.test/games/1") is before
    overrides.block("category", target, 60, client="10.0.1.7", by="anna")
    assert decide("http://games.test/") is decide("http://mixed.test/games/1") is Action.BLOCK
    assert decide("http://mixed.test/other") is Action.PASS
    assert decide("http://games.test/", OTHER) is Action.WARN
    # what one's own rule allows beside its category is not blocked with it
    assert decide("http://chess.test/") is Action.ALLOW
    overrides.block("category", f"{GAMES}/chess", 60, by="anna")
    assert decide("http://games.test/", OTHER) is Action.WARN


def test_a_block_is_stronger_than_a_rule_that_allows(decide: Decide, overrides: Overrides) -> None:
    overrides.block("host", "chess.test", 60, by="anna")
    assert decide("http://chess.test/") is Action.BLOCK


def test_a_block_ends_at_its_time_or_when_somebody_ends_it(decide: Decide, overrides: Overrides, clock: Clock) -> None:
    first = overrides.block("host", "a.test", 60, by="anna")
    overrides.block("host", "b.test", None, by="anna")
    clock.now += 61
    assert decide("http://a.test/") is Action.PASS
    assert decide("http://b.test/") is Action.BLOCK
    (left,) = overrides.blocks()
    assert overrides.end_block(first.id, by="max") is None
    assert overrides.end_block(left.id, by="max") == left
    assert decide("http://b.test/") is Action.PASS
    assert overrides.blocks_at(clock.now) is NO_BLOCKS
    assert [event.what for event in overrides.history(100)] == ["block ended", "blocked", "blocked"]


def test_of_a_block_and_a_grant_the_newer_one_holds(decide: Decide, overrides: Overrides, clock: Clock) -> None:
    def grant(scope: str, target: str, seconds: float, how: str = "code") -> None:
        clock.now += 1
        overrides.grant(scope, target, seconds, client="10.0.1.7", how=how, by="")

    grant("host", "fine.test", 9000)
    clock.now += 1
    overrides.block("host", "fine.test", 6000, by="anna")
    assert decide("http://fine.test/") is Action.BLOCK
    grant("host", "fine.test", 3600, how="warning")
    assert decide("http://fine.test/") is Action.BLOCK
    grant("category", WEB, 60)
    assert decide("http://fine.test/") is Action.BLOCK
    grant("host", "fine.test", 60)
    assert decide("http://fine.test/") is Action.ALLOW
    assert decide("http://fine.test/", OTHER) is Action.BLOCK
    clock.now += 61
    assert decide("http://fine.test/") is Action.BLOCK
    grant("host", "fine.test", 60)
    clock.now += 1
    overrides.block("category", WEB, 60, by="anna")
    assert decide("http://fine.test/") is Action.ALLOW


def test_a_grant_for_a_category_opens_no_block_of_a_host_in_it(
    decide: Decide, overrides: Overrides, clock: Clock
) -> None:
    overrides.block("host", "games.test", 60, by="anna")
    clock.now += 1
    overrides.block("category", GAMES, 60, by="anna")
    clock.now += 1
    overrides.grant("category", GAMES, 60, how="administrator", by="anna")
    assert decide("http://games.test/") is Action.BLOCK
    assert decide("http://mixed.test/games/") is Action.ALLOW


def test_a_name_that_is_only_looked_at_is_stopped_and_a_page_is_decrypted_for(
    engine: Engine, overrides: Overrides, clock: Clock
) -> None:
    def decided(host: bytes) -> tuple[Action, bool]:
        now, request = datetime.fromtimestamp(clock.now, UTC), Request(b"https", (host,), 443, b"/")
        needs = engine.why_decrypt(request, now, KID) is not None
        return engine.decide_host(request, now, KID).action, needs

    before = engine.state()
    assert decided(b"fine.test") == (Action.PASS, False)
    overrides.block("url", "fine.test/a", None, by="anna")
    assert decided(b"www.fine.test") == (Action.PASS, True)
    assert engine.hosts.has_paths(b"fine.test")
    assert engine.state() != before  # so that what is relayed is asked again
    overrides.block("host", "fine.test", None, by="anna")
    assert decided(b"www.fine.test")[0] is Action.BLOCK


def test_every_name_of_a_request_is_looked_at_and_an_address_has_nothing_below(
    engine: Engine, overrides: Overrides
) -> None:
    overrides.block("host", "fine.test", None, by="anna")
    overrides.block("host", "0.0.7", None, by="anna")
    request = Request(b"http", (b"other.test", b"fine.test"), 80, b"/")
    assert engine.decide(request, client=KID).action is Action.BLOCK
    to_address = Request(b"http", (b"10.0.0.7",), 80, b"/", destination=b"10.0.0.7")
    assert engine.decide(to_address, client=KID).action is Action.PASS
    overrides.block("host", "10.0.0.7", None, by="anna")
    assert engine.decide(to_address, client=KID).action is Action.BLOCK


def test_a_decision_by_a_block_says_who_made_it_for_whom_and_until_when(engine: Engine, overrides: Overrides) -> None:
    made = overrides.block("host", "fine.test", 60, client="user:jo", reason="Homework", by="anna")
    decision = engine.decide(request_of(b"http://fine.test/"), client=KID)
    assert decision.winner is not None
    assert str(decision) == f"fine.test by administrators (overrides.sqlite:{made.id}): Homework"
    assert decision.winner.as_dict()["rule"] == "fine.test for user:jo"
    assert decision.winner.until is None or made.until is not None


def test_another_process_s_block_is_seen(tmp_path: Path, overrides: Overrides, clock: Clock) -> None:
    assert overrides.blocks_at(clock.now) is NO_BLOCKS
    with Overrides(tmp_path / "overrides.sqlite", clock) as other:
        made = other.block("host", "a.test", None, by="max")
    clock.now += FRESHNESS
    assert overrides.blocks_at(clock.now).blocks == (made,)
    same = overrides.blocks_at(clock.now)
    overrides.grant("host", "b.test", 60, how="code", by="")
    assert overrides.blocks_at(clock.now) is same


@pytest.mark.parametrize("ends", ["by itself", "by hand"])
def test_a_block_ends_no_other_of_the_same_target(
    decide: Decide, overrides: Overrides, clock: Clock, ends: str
) -> None:
    overrides.block("host", "fine.test", None, by="max")
    short = overrides.block("host", "fine.test", 60, by="anna")
    if ends == "by itself":
        clock.now += 61
    else:
        overrides.end_block(short.id, by="anna")
    assert decide("http://fine.test/") is Action.BLOCK


def test_if_the_file_cannot_be_read_the_blocks_last_known_hold(
    tmp_path: Path, decide: Decide, overrides: Overrides, clock: Clock
) -> None:
    overrides.block("host", "fine.test", None, by="anna")
    assert decide("http://fine.test/") is Action.BLOCK
    overrides.close()
    for path in tmp_path.glob("overrides.sqlite*"):
        path.unlink()
    (tmp_path / "overrides.sqlite").write_bytes(b"no database at all, but quite long enough for one" * 100)
    clock.now += 1
    assert decide("http://fine.test/") is Action.BLOCK
    assert overrides.fault is not None


def test_blocks_are_limited_in_number_scope_and_time(overrides: Overrides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grant_rows, "MOST_BLOCKS", 2)
    for number in range(2):
        overrides.block("host", f"{number}.test", None, by="anna")
    with pytest.raises(StoreError, match="it is full: there are 2 blocks"):
        overrides.block("host", "c.test", None, by="anna")
    for scope, target, seconds in (
        ("everything", "*", None),
        ("host", "", 60),
        ("host", "ä.test", 60),
        ("host", "a", 0),
    ):
        with pytest.raises(ValueError):
            overrides.block(scope, target, seconds, by="anna")


def test_what_is_allowed_for_good_is_so_until_it_is_ended(
    decide: Decide, overrides: Overrides, clock: Clock, engine: Engine
) -> None:
    grant = overrides.grant("host", "games.test", None, client="10.0.0.7", how="administrator", by="anna")
    clock.now += 3000 * 86400
    assert decide("http://games.test/", OTHER) is Action.ALLOW
    assert str(grant) == "unblocked for good by administrator (grant 1)"
    assert overrides.revoke(grant.id, by="anna")
    assert decide("http://games.test/", OTHER) is Action.WARN


def test_a_block_comes_after_an_unblock_by_a_machine_whose_clock_is_ahead(
    decide: Decide, overrides: Overrides, clock: Clock
) -> None:
    clock.now += 180
    overrides.grant("host", "games.test", 3600, how="code", by="jo")
    clock.now -= 180
    overrides.block("host", "games.test", None, by="max")
    assert decide("http://games.test/") is Action.BLOCK
    clock.now += 181
    assert decide("http://games.test/") is Action.BLOCK
    overrides.grant("host", "games.test", 3600, how="code", by="jo")
    assert decide("http://games.test/") is Action.ALLOW


def test_a_time_that_is_far_ahead_tells_nothing_about_the_order(overrides: Overrides, clock: Clock) -> None:
    clock.now += 10 * 86400
    overrides.grant("host", "games.test", 3600, how="code", by="jo")
    clock.now -= 10 * 86400
    assert overrides.block("host", "games.test", None, by="max").made == clock.now
