"""What counts for a quota, what its end does to a decision, and that no claim of a client gives free use."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.decision import Judgement
from hushlist.core.decide.engine import Engine
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import Client
from hushlist.core.url.request import Request
from hushlist.extensions.quotas.quota_meter import MOST_BACKGROUND, QuotaMeter, is_background, is_passive, quotas_of
from hushlist.extensions.quotas.use_minutes import UseMinutes
from hushlist.extensions.unblock.overrides import Overrides
from unit.rows import each_row

FUN, GAMES = "hrn://c.example/fun", "hrn://c.example/fun/games"
NOON = datetime(2026, 12, 24, 12, tzinfo=UTC).timestamp()
JO = Client("192.0.2.7", "jo")
DOCUMENT = ((b"Sec-Fetch-Dest", b"document"),)
IMAGE = ((b"Sec-Fetch-Dest", b"image"), (b"Referer", b"https://news.example/"))

RULES = [
    {"expression": "game.example", "action": "tag", "category": GAMES},
    {"expression": "blocked.example", "category": GAMES},
    {"expression": "closed.example"},
    {"expression": "own.example", "category": GAMES},
    {"expression": "warned.example", "action": "warn", "category": GAMES},
    {"expression": "other.example", "action": "tag", "category": "hrn://c.example/funny"},
]


class Metered:
    """A policy with quotas, its meter, and a clock."""

    def __init__(self, folder: Path, quotas: dict[str, Any], **settings: Any) -> None:
        self.now = NOON
        own = [{"expression": "own.example", "action": "allow"}]
        for name, rules in (("own", own), ("list", RULES)):
            (folder / f"{name}.yaml").write_text(json.dumps({"rules": rules}))
        layers = [{"name": name, "lists": [f"{name}.yaml"]} for name in ("own", "list")]
        (folder / "policy.yaml").write_text(json.dumps({"layers": layers, "quotas": quotas, **settings}))
        self.overrides = Overrides(folder / "state.sqlite", lambda: self.now)
        loaded = load_engine(folder / "policy.yaml")
        self.engine = Engine(loaded.policy, loaded.index, overrides=self.overrides)
        self.minutes = UseMinutes(folder / "state.sqlite", lambda: self.now)
        self.meter = QuotaMeter(self.minutes, lambda: self.now)

    def judged(self, url: str, client: Client = JO, fields: tuple[tuple[bytes, bytes], ...] = ()) -> Judgement:
        scheme, _, rest = url.encode().partition(b"://")
        host, _, path = rest.partition(b"/")
        request = Request(scheme, (host,), 443, b"/" + path, method=b"GET", fields=fields)
        return self.limited(request, client)

    def limited(self, request: Request, client: Client = JO) -> Judgement:
        settings = self.engine.group(client).settings
        decision = self.engine.decide(request, datetime.fromtimestamp(self.now, UTC), client)
        return self.meter.limited(Judgement(request, client, settings, decision, 0), self.overrides)

    def visit(self, url: str, client: Client = JO, fields: tuple[tuple[bytes, bytes], ...] = ()) -> Action:
        """What becomes of it; it counts if it passes."""
        judgement = self.judged(url, client, fields)
        if not judgement.stops:
            self.meter.count(judgement, self.engine, is_request=True)
        return judgement.decision.action

    def left(self, client: Client = JO) -> list[int]:
        group = self.engine.group(client)
        return [use.left for use in self.meter.uses(group.settings.of("quotas"), client, group.name)]

    def go_on(self, minutes: float = 1) -> None:
        self.now += 60 * minutes


Made = Callable[..., Metered]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return lambda quotas, **settings: Metered(tmp_path, quotas, **settings)


@pytest.mark.parametrize(
    ("host", "categories", "counts"),
    [
        ("game.example", {}, True),
        ("www.game.example", {}, True),
        ("blocked.example", {}, False),
        ("blocked.example", {GAMES: "tag"}, True),
        ("blocked.example", {GAMES: "allow"}, True),
        ("blocked.example", {FUN: "pass"}, True),
        ("own.example", {}, False),
        ("own.example", {GAMES: "tag"}, True),
        ("other.example", {}, False),
        ("none.example", {}, False),
    ],
)
def test_what_passes_counts_by_the_rules_that_tag_or_decide(
    made: Made, host: str, categories: dict[str, str], *, counts: bool
) -> None:
    metered = made({FUN: 10}, categories=categories)
    metered.visit(f"https://{host}/")
    assert metered.left() == [9 if counts else 10]


def test_a_minute_counts_once_and_the_last_one_is_finished(made: Made) -> None:
    metered = made({GAMES: 2})
    for _ in range(2):
        assert [metered.visit("https://game.example/") for _ in range(3)] == [Action.TAG] * 3
        metered.go_on()
    assert metered.left() == [0]
    decision = metered.judged("https://game.example/").decision
    policy = metered.engine.policy.source
    assert (decision.action, str(decision)) == (
        Action.BLOCK,
        f"2 of 2 minutes a day used by policy ({policy}:1): The time for this is used up, "
        "again from 2026-12-25 00:00 UTC",
    )
    winner = decision.as_dict()["winner"]
    assert isinstance(winner, dict)
    assert (winner["category"], winner["layer"], winner["until"]) == (GAMES, "quotas", "2026-12-25T00:00:00+00:00")
    assert [match.rule.terms.layer for match in decision.matches] == ["quotas", "list"]
    metered.go_on(12 * 60)
    assert (metered.visit("https://game.example/"), metered.left()) == (Action.TAG, [1])


def test_minutes_are_told_by_the_days_of_the_clock_of_the_policy(made: Made) -> None:
    metered = made({FUN: 60}, timezone="Asia/Tokyo")  # at noon of UTC, it is 21:00 there
    for hours, minutes in ((0, 3), (2, 1), (2, 2), (24, 5)):
        metered.now = NOON + hours * 3600
        for _ in range(minutes):
            metered.visit("https://game.example/")
            metered.go_on()
    group = metered.engine.group(JO)
    (quota,) = group.settings.of("quotas")
    assert metered.meter.by_day(quota, JO, group.name) == [0, 0, 0, 0, 0, 5, 5]


def test_a_use_has_the_same_names_in_json_on_every_day(made: Made) -> None:
    metered = made({GAMES: 2})
    metered.visit("https://game.example/")
    group = metered.engine.group(JO)
    (use,) = metered.meter.uses(group.settings.of("quotas"), JO, group.name)
    assert use.as_dict() == {
        "category": GAMES,
        "per": "day",
        "shared": False,
        "limit": 2,
        "extended": 0,
        "used": 1,
        "left": 1,
        "used_up": False,
        "reset": "2026-12-25T00:00:00+00:00",
        "source": metered.engine.policy.source,
        "line": 1,
    }


def test_what_is_used_up_beats_a_rule_that_allows(made: Made) -> None:
    metered = made({GAMES: 1}, categories={GAMES: "allow"})
    assert metered.visit("https://blocked.example/") is Action.ALLOW
    metered.go_on()
    assert metered.visit("https://blocked.example/") is Action.BLOCK


def test_every_quota_of_a_category_has_to_have_minutes_left(made: Made) -> None:
    metered = made({GAMES: 10, FUN: [30, {"minutes": 1, "per": "week"}]})
    metered.visit("https://game.example/")
    metered.go_on()
    decision = metered.judged("https://game.example/").decision
    assert (decision.action, metered.left()) == (Action.BLOCK, [9, 29, 0])
    assert decision.winner is not None
    assert decision.winner.text == "1 of 1 minutes a week used"


def test_users_addresses_and_groups_have_minutes_of_their_own(made: Made) -> None:
    groups = [{"name": "kids", "clients": ["10.0.0.0/8"], "quotas": {GAMES: {"minutes": 5, "for": "group"}}}]
    metered = made({GAMES: 10}, groups=groups)
    metered.visit("https://game.example/")
    metered.visit("https://game.example/", Client("10.0.0.1"))
    clients = JO, Client("192.0.2.8", "jo"), Client("192.0.2.7"), Client("192.0.2.7", "mia")
    assert [metered.left(client) for client in clients] == [[9], [9], [10], [10]]
    metered.go_on()
    metered.visit("https://game.example/", Client("10.0.0.2", "jo"))
    assert [metered.left(Client(address)) for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3")] == [[3], [3], [3]]


def test_an_extension_opens_it_in_this_period(made: Made) -> None:
    metered = made({GAMES: 1})
    metered.visit("https://game.example/")
    metered.go_on()
    metered.minutes.extend(FUN, 2, client="192.0.2.7", by="a parent")
    metered.minutes.exchange()
    assert (metered.left(), metered.visit("https://game.example/")) == ([2], Action.TAG)
    (use,) = metered.meter.uses(metered.engine.group(JO).settings.of("quotas"), JO, "default")
    place = f"{metered.engine.policy.source}:1"
    assert use.told_in(UTC) == (
        f"{GAMES}: 1 of 3 minutes a day left, 2 of them added, until 2026-12-25 00:00 UTC ({place})"
    )
    metered.go_on(24 * 60)
    assert metered.left() == [1]


@pytest.mark.parametrize(
    ("scope", "target", "lifts"),
    [
        ("host", "game.example", True),
        ("url", "https://game.example/", True),
        ("category", FUN, True),
        ("category", GAMES, True),
        ("category", f"{GAMES}/online", False),
        ("host", "other.example", False),
    ],
)
def test_a_grant_lets_through_and_uses_no_minutes(made: Made, scope: str, target: str, *, lifts: bool) -> None:
    metered = made({GAMES: 1})
    metered.visit("https://game.example/")
    metered.go_on()
    metered.overrides.grant(scope, target, 3600, client="user:jo", how="code", by="a parent")
    assert metered.visit("https://game.example/") is (Action.ALLOW if lifts else Action.BLOCK)
    (use,) = metered.meter.uses(metered.engine.group(JO).settings.of("quotas"), JO, "default")
    assert use.used == 1


def test_a_grant_for_a_host_lifts_nothing_of_a_request_by_two_names(made: Made) -> None:
    metered = made({GAMES: 1})
    metered.visit("https://game.example/")
    metered.go_on()
    metered.overrides.grant("host", "none.example", 3600, how="code", by="a parent")
    request = Request(b"https", (b"none.example", b"game.example"), 443, b"/")
    assert metered.limited(request).decision.action is Action.BLOCK


def test_a_name_that_is_unblocked_gives_no_free_use_of_another(made: Made) -> None:
    metered = made({GAMES: 1})
    metered.overrides.grant("host", "closed.example", 3600, how="code", by="a parent")
    request = Request(b"https", (b"closed.example", b"game.example"), 443, b"/")
    assert metered.limited(request).decision.grant is not None
    metered.meter.count(metered.limited(request), metered.engine, is_request=True)
    assert metered.left() == [0]
    metered.go_on()
    assert metered.limited(request).decision.action is Action.BLOCK


@pytest.mark.parametrize("host", [b"blocked.example", b"game.example"])
def test_a_grant_for_a_name_holds_whatever_its_address(made: Made, host: bytes) -> None:
    metered = made({GAMES: 1})
    metered.visit("https://game.example/")
    metered.go_on()
    metered.overrides.grant("host", host.decode(), 3600, how="code", by="a parent")
    request = Request(b"https", (host, b"192.0.2.1"), 443, b"/", destination=b"192.0.2.1")
    assert metered.limited(request).decision.action is Action.ALLOW


def test_a_grant_for_a_group_lifts_a_quota(made: Made) -> None:
    metered = made({GAMES: 1})
    metered.visit("https://game.example/")
    metered.go_on()
    metered.overrides.grant("host", "game.example", 3600, client="group:others", how="admin", by="a parent")
    assert metered.visit("https://game.example/") is Action.BLOCK
    metered.overrides.grant("host", "game.example", 3600, client="group:default", how="admin", by="a parent")
    assert metered.visit("https://game.example/") is Action.ALLOW


def test_a_click_on_a_warning_lets_nobody_past_a_quota(made: Made) -> None:
    metered = made({GAMES: 1})
    metered.overrides.grant("host", "warned.example", 3600, client="user:jo", how="warning", by="user:jo")
    assert metered.visit("https://warned.example/") is Action.ALLOW
    metered.go_on()
    assert metered.visit("https://warned.example/") is Action.BLOCK


@pytest.mark.parametrize(("minutes", "warns_at"), [(7, 3), (6, 1), (5, None), (1, None)])
def test_a_page_warns_once_before_the_end(made: Made, minutes: int, warns_at: int | None) -> None:
    metered = made({GAMES: minutes})
    actions = []
    for _ in range(minutes + 1):
        actions += [metered.visit("https://game.example/", fields=DOCUMENT) for _ in range(2)]
        metered.go_on()
    expected = [Action.TAG] * 2 * minutes + [Action.BLOCK] * 2
    if warns_at is not None:
        expected[warns_at] = Action.WARN
    assert actions == expected


def test_whoever_shares_an_address_is_warned_apart(made: Made) -> None:
    metered, other = made({GAMES: 6}), JO._replace(user="mia")
    for client in (JO, other):
        metered.meter.count(metered.judged("https://game.example/", client), metered.engine, is_request=True)
    metered.go_on()
    for client in (JO, other):
        actions = [metered.visit("https://game.example/", client, DOCUMENT) for _ in range(2)]
        assert actions == [Action.WARN, Action.TAG]


def test_nothing_but_a_page_warns(made: Made) -> None:
    metered = made({GAMES: 6})
    for _ in range(6):
        assert metered.visit("https://game.example/", fields=IMAGE[:1]) is Action.TAG
        metered.go_on()


def test_a_clock_that_is_set_back_counts_no_minute_twice(made: Made) -> None:
    metered = made({GAMES: 3})
    for later in (0, 1, -1, 0, 1):
        metered.now = NOON + 60 * later
        assert metered.visit("https://game.example/") is Action.TAG
    assert metered.left() == [0]
    metered.now = NOON - 120
    assert metered.visit("https://game.example/") is Action.BLOCK


# -- the background ----------------------------------------------------------------------------------------------------


def fields(**said: str) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.replace("_", "-").encode(), value.encode()) for name, value in said.items())


NEWS, GAME = "https://news.example/", "https://www.game.example/play"


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        (fields(Sec_Fetch_Dest="image", Referer=NEWS), False),
        (fields(Sec_Fetch_Dest="script", Sec_Fetch_Site="cross-site", Referer=NEWS), False),
        (fields(Sec_Fetch_Dest="empty", Origin="https://news.example"), False),
        (fields(Ping_To=NEWS, Origin="https://news.example"), False),
        (fields(Accept="image/webp,*/*", Referer=NEWS), False),
        # who does not tell, or not all, is counted
        ((), True),
        (fields(Sec_Fetch_Dest="image"), True),
        (fields(Referer=NEWS), True),
        (fields(Sec_Fetch_Dest="image", Referer="about:blank"), True),
        (fields(Sec_Fetch_Dest="image", Sec_Fetch_Site="none", Referer=NEWS), True),
        (fields(Sec_Fetch_Dest="image", Sec_Fetch_Site="same-origin", Referer=NEWS), True),
        # what is looked at
        (fields(Sec_Fetch_Dest="document", Referer=NEWS), True),
        (fields(Sec_Fetch_Dest="iframe", Referer=NEWS), True),
        (fields(Sec_Fetch_Dest="video", Referer=NEWS), True),
        (fields(Sec_Fetch_Dest="embed", Referer=NEWS), True),
        (fields(Upgrade="websocket", Origin="https://news.example"), True),
        (fields(Accept="text/html,image/webp", Referer=NEWS), True),
        # a page of the category itself, or of another host in it
        (fields(Sec_Fetch_Dest="image", Referer=GAME), True),
        (fields(Sec_Fetch_Dest="empty", Origin="https://game.example"), True),
        (fields(Sec_Fetch_Dest="image", Referer="https://GAME.example./"), True),
        (fields(Sec_Fetch_Dest="image", Referer="https://www.%67ame.example"), True),
        # two answers to one question are none
        (fields(Sec_Fetch_Dest="image", Referer=NEWS) + fields(Referer=GAME), True),
        (fields(Sec_Fetch_Dest="image", Referer=NEWS) + fields(Sec_Fetch_Dest="document"), True),
    ],
)
def test_a_request_is_in_the_background_only_if_it_says_so(
    made: Made, said: tuple[tuple[bytes, bytes], ...], *, counts: bool
) -> None:
    metered = made({GAMES: 10})
    metered.visit("https://game.example/", fields=said)
    assert metered.left() == [9 if counts else 10]


def test_who_lies_has_few_requests_a_minute_and_none_when_the_time_is_up(made: Made) -> None:
    metered = made({GAMES: 3})
    for _ in range(3):
        for number in range(MOST_BACKGROUND + 1):
            (use,) = metered.meter.uses(metered.engine.group(JO).settings.of("quotas"), JO, "default")
            assert use.is_counted is False, number
            assert metered.visit("https://game.example/", fields=IMAGE) is Action.TAG
        metered.go_on()
    assert metered.left() == [0]
    assert metered.visit("https://game.example/", fields=IMAGE) is Action.BLOCK


def test_a_request_by_two_names_is_never_in_the_background(made: Made) -> None:
    metered = made({GAMES: 10})
    judgement = metered.judged("https://game.example/", fields=IMAGE)
    (quota,) = judgement.settings.of("quotas")
    assert is_background(judgement, quota, metered.engine)
    request = Request(b"https", (b"game.example", b"news.example"), 443, b"/", fields=IMAGE)
    assert not is_background(judgement._replace(request=request), quota, metered.engine)


@each_row(
    ("status", "content_type", "passive"),
    [
        (200, "image/png", True),
        (200, "application/json; charset=utf-8", True),
        (200, "text/javascript", True),
        (204, None, True),
        (302, None, True),
        (200, None, False),
        (200, "TEXT/HTML", False),
        (404, "text/html;charset=utf-8", False),
        (200, "application/xhtml+xml", False),
        (200, "video/mp4", False),
        (206, "Audio/ogg", False),
        (200, "application/vnd.apple.mpegurl", False),
        (200, "text/event-stream", False),
    ],
)
def test_an_answer_that_is_a_page_or_a_stream_is_used(status: int, content_type: str | None, *, passive: bool) -> None:
    assert is_passive(status, content_type) is passive


@given(st.lists(st.tuples(st.sampled_from([b"Referer", b"Origin", b"Sec-Fetch-Dest", b"Accept"]), st.binary())))
def test_any_headers_have_an_answer(quota_engine: Metered, said: list[tuple[bytes, bytes]]) -> None:
    quota_engine.now = NOON
    assert quota_engine.visit("https://game.example/", fields=tuple(said)) in (Action.TAG, Action.WARN)


@pytest.fixture(scope="module")
def quota_engine(tmp_path_factory: pytest.TempPathFactory) -> Metered:
    return Metered(tmp_path_factory.mktemp("metered"), {GAMES: 10})


def test_quotas_are_found_once_each(made: Made) -> None:
    metered = made({GAMES: 10, FUN: 20, "hrn://d.example": 5})
    judgement = metered.judged("https://game.example/")
    found = quotas_of(judgement.settings.of("quotas"), judgement.decision)
    assert [(quota.minutes, category) for quota, category in found] == [(10, GAMES), (20, GAMES)]
