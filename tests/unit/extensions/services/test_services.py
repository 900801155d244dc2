"""Services: the list that comes with Hushlist, lists of other people, and what a policy says of them by short names."""

import argparse
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.errors import UrlError
from hushlist.core.extension import built_in
from hushlist.core.lists.category_names import category_named, short_names
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.policy.groups import Client
from hushlist.extensions.services import actions
from hushlist.extensions.services.service_lists import groups, members, read_services, services
from hushlist.extensions.services.services_command import run_services
from hushlist.proxy.languages import TEXTS
from support.policies import read_whole, write_policy
from support.readings import read_list
from unit.rows import each_row

ROOT = "hrn://hushlist.example/services"
BY_CATALOGUE = "layers: [{name: services, lists: [{catalogue: services}]}]\n"
#: the address that each service is best known by, where that is not the first of its rules
MAIN = {
    "facebook-reels": "https://www.facebook.com/reel/1",
    "instagram-reels": "https://www.instagram.com/reels/abc/",
    "youtube-shorts": "https://m.youtube.com/shorts/abc?feature=share",
    "icloud-private-relay": "https://mask.icloud.com/",
    "minecraft": "https://www.minecraft.net/de-de",
    "prime-video": "https://www.amazon.com/gp/video/detail/1",
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("services")


def decided(folder: Path, policy: str, url: str, client: str = "", at: str = "2026-11-30T09:00") -> tuple[str, str]:
    """What is done, and the reason of the rule that decides."""
    engine = load_engine(write_policy(folder, BY_CATALOGUE + policy))
    now = datetime.fromisoformat(at).replace(tzinfo=UTC)
    decision = engine.decide_url(url.encode(), now, Client(client))
    return decision.action.value, "" if decision.winner is None else decision.winner.rule.terms.reason or ""


# -- the list ----------------------------------------------------------------------------------------------------------


def test_a_hundred_services_of_every_group_have_a_source_and_addresses_of_their_own() -> None:
    known = services()
    assert len(known) >= 100
    assert {own.group for own in known.values()} == groups().keys()
    assert [own.id for own in known.values() if not own.source or not own.rules] == []
    times = Counter(str(expression) for own in known.values() for expression, _ in own.rules)
    assert [expression for expression, number in times.items() if number > 1] == []


def test_each_group_has_a_title_in_every_language() -> None:
    assert [(name, lacks) for name, own in groups().items() if (lacks := TEXTS.keys() - own.titles.keys())] == []
    assert groups()["games"].titles["de"] == "Spiele"


def test_each_service_is_found_by_its_main_address_and_by_its_short_name(cache: Path) -> None:
    policy = BY_CATALOGUE + f"categories: {json.dumps(dict.fromkeys(services(), 'block'))}\n"
    engine = load_engine(write_policy(cache, policy))
    for name, own in services().items():
        main = MAIN.get(name, f"https://www.{own.rules[0][0]}")
        decision = engine.decide_url(main.encode())
        assert decision.winner is not None, name
        assert decision.winner.rule.terms.category == own.category, name
        assert decision.winner.rule.terms.reason == own.title


# -- what a policy says of it ------------------------------------------------------------------------------------------

POLICY = """
schedules: {lessons: {times: 08:00-12:00}}
categories: {tiktok: block, games: {action: block, during: lessons}, youtube-shorts: warn}
quotas: {youtube: 60}
groups: [{name: teachers, clients: [10.0.0.1], categories: {tiktok: pass, social: block}}]
"""


@each_row(
    ("url", "client", "at", "expected"),
    [
        ("https://www.tiktok.com/@a", "", "2026-11-30T09:00", ("block", "TikTok")),
        ("https://www.tiktok.com/@a", "10.0.0.1", "2026-11-30T09:00", ("pass", "")),
        ("https://www.facebook.com/", "", "2026-11-30T09:00", ("pass", "")),
        ("https://www.facebook.com/", "10.0.0.1", "2026-11-30T09:00", ("block", "Facebook")),
        ("https://roblox.com/", "", "2026-11-30T11:59", ("block", "Roblox")),
        ("https://roblox.com/", "", "2026-11-30T12:00", ("pass", "")),
        ("https://youtube.com/shorts/a", "", "2026-11-30T12:00", ("warn", "YouTube Shorts")),
        ("https://youtube.com/watch?v=a", "", "2026-11-30T12:00", ("tag", "YouTube")),  # its minutes are counted
        ("https://a.example/", "", "2026-11-30T12:00", ("pass", "")),
    ],
)
def test_short_names_stand_wherever_a_policy_names_categories(
    cache: Path, url: str, client: str, at: str, expected: tuple[str, str]
) -> None:
    assert decided(cache, POLICY, url, client, at) == expected


def test_the_list_alone_does_nothing_and_leaves_no_trace(cache: Path) -> None:
    engine = load_engine(write_policy(cache, BY_CATALOGUE))
    for own in services().values():
        decision = engine.decide_url(f"http://{own.rules[0][0]}".encode())
        assert (decision.action.value, decision.matches) == ("pass", ())


def test_an_action_of_the_list_holds_where_nothing_is_said_of_a_service(cache: Path) -> None:
    policy = "layers: [{name: all, lists: [{catalogue: services, action: block}]}]\ncategories: {games: pass}\n"
    engine = load_engine(write_policy(cache, policy))
    found = [engine.decide_url(url).action.value for url in (b"http://tiktok.com/", b"http://roblox.com/")]
    assert found == ["block", "pass"]


def test_a_rule_that_only_has_a_category_lets_exceptions_of_its_layer_lift_what_the_category_blocks(
    cache: Path,
) -> None:
    entry = "{file: a.adblock}, {file: own.yaml, action: pass, category: games}"
    files = {"a.adblock": "@@||a.example/fine/^\n", "own.yaml": "rules: [a.example]\n"}
    policy = f"layers: [{{name: all, lists: [{entry}]}}]\ncategories: {{games: block}}\n"
    engine = load_engine(write_policy(cache, policy, files))
    found = [engine.decide_url(url).action.value for url in (b"http://a.example/", b"http://a.example/fine/")]
    assert found == ["block", "allow"]


@each_row(
    ("policy", "errors"),
    [
        ("categories: {tiktk: block}", ["2: tiktk: WHY; did you mean 'tiktok'?"]),
        ("quotas: {tiktk: 60}", ["2: tiktk: WHY; did you mean 'tiktok'?"]),
        ("always-decrypt: {categories: [gamez]}", ["2: categories: gamez: WHY; did you mean 'games'?"]),
        ("categories: {'tiktok/a b': block}", ["2: tiktok/a b: ' ' has no place in a name: write it as %20"]),
        (
            "categories: {tiktok: block, hrn://hushlist.example/services/video/tiktok: pass}",
            [f"2: {ROOT}/video/tiktok: the category is given twice (first in line 2)"],
        ),
        ("extensions: [adblock]\ncategories: {tiktok: block}", ["3: tiktok: WHY; for example"]),
    ],
)
def test_a_name_that_nothing_has_is_an_error_with_the_nearest(tmp_path: Path, policy: str, errors: list[str]) -> None:
    why = "it is no hrn: name, and no category has this short name"
    expected = [error.replace("WHY", why) for error in errors]
    found = read_whole(tmp_path, f"layers: []\n{policy}\n")[1]
    assert [text[: len(error)] for text, error in zip(found, expected, strict=True)] == expected


def test_short_names_are_of_one_category_each() -> None:
    by_extension = [each.name for each in built_in() if each.category_names]
    assert by_extension == ["subscriptions", "services"]
    names = short_names()
    assert names["social"] == f"{ROOT}/social"
    assert names["ads"] == "hrn://hushlist.example/web/ads"
    assert services().keys().isdisjoint(groups())
    assert category_named("video/peertube") == f"{ROOT}/video/peertube"
    with pytest.raises(UrlError, match="no hrn: name"):
        category_named("")


# -- other lists -------------------------------------------------------------------------------------------------------

ADGUARD = """{"blocked_services": [
{"id": "tiktok", "name": "TikTok", "rules": ["||tiktok.com^", "||*.tiktok.net^"], "icon_svg": "<svg/>", "group": "x"},
{"id": "Some_Game", "name": "Some", "rules": ["||game.example^"], "group": "gaming"},
{"id": "new", "rules": ["||new.example^", "||..^"], "group": "unheard"},
{"name": "nameless", "rules": []}
], "groups": [{"id": "gaming"}]}"""


def test_the_services_of_adguard_home_are_read_into_the_groups_that_there_are() -> None:
    rules, errors, warnings = read_list(read_services, ADGUARD, ListDefaults(), "f")
    assert [(str(own.pattern), own.terms.category, own.terms.reason, own.line) for own in rules] == [
        ("tiktok.com/", f"{ROOT}/video/tiktok", "TikTok", 2),
        ("game.example/", f"{ROOT}/games/some-game", "Some", 3),
        ("new.example/", f"{ROOT}/other/new", "new", 4),
    ]
    assert errors == []
    assert warnings == [
        "f:2: ||*.tiktok.net^: left out: more than a whole host",
        "f:4: ||..^: left out: it names no host",
        "f:5: service: left out: a service has a name and rules",
    ]
    assert members(ADGUARD.encode()) == {"tiktok", "some-game", "new"}


TABLE = "title: Ours\ngroups: {g: {en: G, also: [h]}, k: K}\nservices:\n"


@each_row(
    ("text", "errors"),
    [
        (TABLE + "  a: {title: A, group: g, rules: [a.example, b.example/c/]}", []),
        ("title: none", ["f:1: services: the list has none"]),
        (TABLE + "  a: {title: A, rules: []}", ["f:4: a: it has no group"]),
        (TABLE + "  a: {title: A, group: gg, rules: []}", ["f:4: gg: there is no such group"]),
        (TABLE + "  k: {title: A, group: g, rules: []}", ["f:4: k: that is a group"]),
        (TABLE + "  A: {title: A, group: g, rules: []}", ["f:4: A: a name has small letters"]),
        (
            TABLE + "  a: {title: A, group: g, rules: ['..', [x]]}",
            ["f:4: ..: it names no host", "f:4: rules: expected an"],
        ),
        (TABLE + "  a: {titel: A}", ["f:4: titel: unknown key; did you mean 'title'?"]),
        ("groups: {g: {de: G}}\nservices: {}", ["f:1: g: expected a title"]),
        ('{"blocked_services": {}}', ["f:1: blocked_services: expected a list, not a mapping"]),
    ],
)
def test_what_is_wrong_in_a_list_of_services_has_file_and_line(text: str, errors: list[str]) -> None:
    found = read_list(read_services, text, ListDefaults(), "f")[1]
    assert [one[: len(error)] for one, error in zip(found, errors, strict=False)] == errors
    assert bool(found) == bool(errors)


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    def run(*names: str, as_json: bool = False) -> tuple[int, list[str]]:
        code = run_services(argparse.Namespace(names=names, json=as_json))
        return code, capsys.readouterr().out.splitlines()

    code, lines = run()
    assert (code, len(lines)) == (0, len(services()))
    assert run("games", "tiktok")[1][0].startswith("video      tiktok ")
    assert json.loads(run("tiktok", as_json=True)[1][0])["category"] == f"{ROOT}/video/tiktok"
    assert run("tiktk") == (1, [])


def test_the_interface_has_each_service_with_its_group_and_main_address() -> None:
    found = {one.id: one for one in actions.services()}
    assert found.keys() == services().keys()
    tiktok = found["tiktok"]
    assert (tiktok.title, tiktok.group, tiktok.address) == ("TikTok", "video", "tiktok.com/")
    assert tiktok.group_titles["de"] == "Videos"
