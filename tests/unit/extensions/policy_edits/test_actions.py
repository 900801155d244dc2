"""The policy by the interface of the live page: seen, changed, tried, refused, and back again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hushlist.core.extension import built_in
from hushlist.extensions.policy_edits import policy_change
from hushlist.extensions.policy_edits.policy_reach import out_of_reach
from hushlist.extensions.policy_edits.policy_text import PolicyText
from hushlist.proxy.addon import Hushlist
from support.administrators import Browser, browser, manager, use
from support.in_process import InProcess
from unit.extensions.subscriptions.test_logged_visits import record, write_log

__all__ = ["browser", "manager", "use"]

pytestmark = pytest.mark.usefixtures("own_folders")

NAMES = [extension.name for extension in built_in()]
SCHEDULES = """# of the house
schedules:
  # bedtime
  night: {times: "20:00-07:00"}   # quotes stay

# the end of them
"""


@pytest.fixture(autouse=True)
def _tries_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_change, "BackgroundCompiler", InProcess)


@pytest.fixture
def policy(browser: Browser, use: Callable[..., Path]) -> Path:
    path = use(SCHEDULES).with_name("policy.yaml")
    assert browser.sign_in("max") == 200
    return path


def etag_of(browser: Browser, section: str) -> str:
    return str(browser.call("GET", f"/policy/{section}")[1]["etag"])


def put(browser: Browser, section: str, etag: str = "*", **body: object) -> tuple[int, dict[str, object]]:
    return browser.call("PUT", f"/policy/{section}", body, If_Match=etag)


def test_a_section_is_seen_and_changed_and_all_else_stays(browser: Browser, policy: Path) -> None:
    before = policy.read_text()
    status, seen = browser.call("GET", "/policy/schedules")
    assert (status, seen["value"]) == (200, {"night": {"times": "20:00-07:00"}})
    assert seen["text"] == SCHEDULES.split("\n", 1)[1].split("\n\n")[0] + "\n"
    assert before.splitlines()[seen["line"] - 1] == "schedules:"
    value = {"night": {"times": "21:00-07:00"}, "lessons": {"times": "08:00-13:00", "days": ["mon-fri"]}}
    status, done = put(browser, "schedules", f'"{seen["etag"]}"', value=value)
    assert status == 200, done
    changed = "night: {times: 21:00-07:00}   # quotes stay\n  lessons: {times: 08:00-13:00, days: [mon-fri]}\n"
    assert policy.read_text() == re.sub(r"night: .*\n", changed, before)
    assert browser.call("GET", "/policy/schedules")[1]["value"] == value
    assert browser.call("GET", "/record")[1]["record"][0]["what"] == "changed the policy"
    assert browser.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert policy.read_text() == before


def test_the_policy_lists_its_sections_and_what_each_may_have(browser: Browser, policy: Path) -> None:
    status, seen = browser.call("GET", "/policy")
    assert (status, seen["file"], seen["is_in_force"], seen["read_only"]) == (200, str(policy), True, None)
    there = {one["name"]: one["line"] for one in seen["sections"] if one["line"]}
    lines = policy.read_text().splitlines()
    assert {name: lines[line - 1].partition(":")[0] for name, line in there.items()} == {name: name for name in there}
    assert {*there} == {"live", "admin", "schedules", "layers"}
    assert "notify" in {one["name"] for one in seen["sections"]}
    schema = browser.call("GET", "/policy/schema")[1]["schema"]
    assert {one["name"] for one in seen["sections"]} == {*schema["properties"]}
    assert browser.call("GET", "/policy/colour")[0] == 404
    assert put(browser, "colour", value="red")[0] == 404


def test_only_managers_see_and_change_what_the_policy_says(browser: Browser, policy: Path) -> None:
    before = policy.read_text()
    for name in ("vera", "anna"):
        assert browser.sign_in(name) == 200
        assert {browser.call("GET", path)[0] for path in ("/policy", "/policy/schema")} == {200}
        assert browser.call("GET", "/policy/schedules")[0] == browser.call("GET", "/policy/versions")[0] == 403
        assert put(browser, "log", value="on")[0] == 403
        assert browser.call("POST", "/policy/log/preview", {"value": "on"})[0] == 403
        assert browser.call("POST", "/policy/undo", {})[0] == 403
    assert policy.read_text() == before


def test_what_cannot_be_used_is_refused_with_its_line_and_nothing_changes(browser: Browser, policy: Path) -> None:
    before = policy.read_text()
    for section, body, what in (
        ("schedules", {"value": {"night": {"times": "25:00-07:00"}}}, "25:00"),
        ("groups", {"value": [{"name": "kids", "users": ["mia"], "layers": ["none"]}]}, "no such layer"),
        ("layers", {"value": [{"name": "x", "lists": ["gone.domains"]}]}, "no such file"),
        ("layers", {"value": None}, "the policy has none"),
        ("layers", {"text": "layers:\n- name: own\n  lists: [own.yaml]\n  colour: red\n"}, "colour"),
        ("block-page", {"value": "ads.yaml"}, "ads.yaml"),
    ):
        status, said = put(browser, section, **body)
        assert (status, what in said["error"]) == (400, True), said
        (problem, *_) = said["detail"]["problems"]
        assert problem["file"].startswith(str(policy.parent))
        assert problem["line"] or section == "block-page"
        assert policy.read_text() == before
    for body in ({"value": True}, {}, {"value": "on", "text": "log: on"}, {"value": {"a": [["x\0"]]}}):
        assert put(browser, "log", **body)[0] == 400
    for text in ("groups: []\n", "log: on\nmode: tag\n", "- log", "log: &a on", "log: [", "# nothing"):
        assert put(browser, "log", text=text)[0] == 400
    assert browser.call("PUT", "/policy/log", {"value": "on"})[0] == 400  # it does not say what was seen
    assert policy.read_text() == before
    assert [what for what in browser.recorded() if "policy" in what] == []


def test_what_was_changed_meanwhile_is_shown_and_not_overwritten(browser: Browser, policy: Path) -> None:
    seen = etag_of(browser, "schedules")
    assert put(browser, "mode", value="tag")[0] == 200  # another section
    policy.write_text(policy.read_text().replace("20:00", "19:00"))
    by_hand = policy.read_text()
    status, said = put(browser, "schedules", seen, value={"night": {"times": "21:00-07:00"}})
    assert status == 412
    assert "19:00-07:00" in said["detail"]["now"]["text"]
    assert said["detail"]["value"] == {"night": {"times": "21:00-07:00"}}
    assert policy.read_text() == by_hand
    assert put(browser, "schedules", said["detail"]["now"]["etag"], value={"night": {"times": "21:00-07:00"}})[0] == 200
    response = browser.send("GET", "/api/v1/policy/schedules")
    assert response.headers["etag"] == f'"{etag_of(browser, "schedules")}"'


def test_whoever_changes_the_policy_can_change_it_back(
    browser: Browser, hushlist: Hushlist, policy: Path, use: Callable[..., Path]
) -> None:
    assert put(browser, "groups", value=[{"name": "kids", "clients": ["10.0.0.9"]}])[0] == 200
    before = policy.read_text()
    people = browser.call("GET", "/policy/admin")[1]["value"]
    others = [one for one in people if one["name"] != "max"]
    for section, value, why in (
        ("admin", None, "nobody could sign in"),
        ("admin", others, "nobody could sign in"),
        ("admin", [*others, {**people[-1], "name": "eve"}], "has to name max"),
        ("admin", [*others, {**people[-1], "groups": "kids"}], "nobody could sign in"),
        ("live", "off", "'live' has to allow 127.0.0.1"),
        ("extensions", [one for one in NAMES if one != "policy_edits"], "this page would be gone"),
    ):
        status, said = put(browser, section, value=value)
        assert (status, why in said["error"]) == (400, True), said
    far = Browser(hushlist, "192.168.1.7", "https")
    assert far.sign_in("max") == 200
    assert put(far, "live", value={"clients": ["10.0.0.0/8"]})[0] == 400
    assert put(far, "live", value="on")[0] == 400
    assert policy.read_text() == before
    assert put(far, "live", value={"clients": ["192.168.1.0/24"]})[0] == 200


def test_changes_go_back_one_by_one_and_each_by_its_number(browser: Browser, policy: Path) -> None:
    texts = [policy.read_text()]
    for section, value in (("mode", "tag"), ("log", "on"), ("mode", "block")):
        assert put(browser, section, value=value)[0] == 200
        texts.append(policy.read_text())
    listed = browser.call("GET", "/policy/versions")[1]["versions"]
    assert [(one["section"], one["who"]) for one in listed] == [("mode", "max"), ("log", "max"), ("mode", "max")]
    # one of a section that was not changed since, with what came after it
    status, done = browser.call("POST", "/policy/undo", {"number": listed[1]["id"]})
    assert (status, done["result"]["section"]) == (200, "log")
    assert policy.read_text() == texts[3].replace("log: on\n", "")
    assert browser.call("POST", "/policy/undo", {"number": listed[2]["id"]})[0] == 412
    assert browser.call("POST", "/policy/undo", {"number": 99})[0] == 400
    policy.write_text(texts[3])
    for text in reversed(texts[:3]):
        assert browser.call("POST", "/policy/undo", {})[0] == 200
        assert policy.read_text() == text
    assert browser.call("POST", "/policy/undo", {})[0] == 400
    assert browser.recorded()[:1] == ["went back to the policy before"]


REACH = """notify:
- {command: [/usr/bin/true, now], name: tell}
- {webhook: 'https://tell.example/', token: /dev/null/token}
"""
OUT = "is outside of the policy's folder"
RUNS = "which programs run is not changed here"
HOOK = {"webhook": "https://a.example/"}


@pytest.mark.parametrize(
    ("section", "value", "line", "why"),
    [
        ("notify", [{"name": "x", "command": ["/bin/sh", "-c", "id"]}], 5, f"notify: command: {RUNS}"),
        ("notify", [{"command": ["/usr/bin/true"]}], 5, RUNS),
        ("notify", [{"command": ["/usr/bin/true", "now"]}] * 2, 6, RUNS),
        ("notify", [{**HOOK, "token": "/etc/shadow"}], 5, f"notify: token: '/etc/shadow': /etc/shadow {OUT}"),
        ("notify", [{"mail": "a@b.example", "login": "~/login"}], 5, OUT),
        ("notify", [{**HOOK, "token": "link"}], 5, OUT),
        ("block-page", "/etc/hostname", 0, OUT),
        ("block-page", "../x/../../page.html", 0, OUT),
        ("block-page", "/dev/null/token", 0, OUT),  # the policy named it, but not to show it
        ("layers", [{"name": "x", "lists": ["own.yaml", "/etc/hosts"]}], 0, "layers: lists: '/etc/hosts': /etc/hosts"),
        ("layers", [{"name": "x", "lists": [{"file": "own.yaml", "seal": "/etc/key"}]}], 0, OUT),
        ("layers", [{"name": "x", "lists": [{"url": "https://a.example/l", "key": "folder/link"}]}], 0, OUT),
        ("log", {"folder": "../elsewhere"}, 0, OUT),
        ("log", {"also": "syslog:/run/x"}, 0, OUT),
        ("scanner", {"address": "clamd:///run/x"}, 0, OUT),
        ("store", "postgresql://db.example/x?sslkey=/etc/key", 0, OUT),
        ("pass-through", {"hosts": [{"file": "/etc/hosts"}]}, 0, OUT),
    ],
)
def test_the_page_reaches_no_program_and_no_file_that_the_policy_did_not_name(
    browser: Browser, use: Callable[..., Path], tmp_path: Path, section: str, value: object, line: int, why: str
) -> None:
    policy = use().with_name("policy.yaml")
    assert browser.sign_in("max") == 200
    policy.write_text(policy.read_text() + REACH)
    (tmp_path / "folder").mkdir()
    for link in ("link", "folder/link"):
        (tmp_path / link).symlink_to("/etc/hostname")
    before, lines = policy.read_text(), policy.read_text().count("\n")
    for method, path in (("PUT", section), ("POST", f"{section}/preview")):
        status, said = browser.call(method, f"/policy/{path}", {"value": value}, If_Match="*")
        assert (status, why in said["error"]) == (400, True), said
        (problem, *_) = said["detail"]["problems"]
        assert (problem["file"], problem["what"].partition(":")[0]) == (str(policy), section)
        assert 0 < problem["line"] <= lines + 9
    assert policy.read_text() == before


NEW, BESIDE = "is not newly named here", "what stands beside it is not changed here"
CHANNEL = {**HOOK, "token": "token"}


@pytest.mark.parametrize(
    ("section", "value", "why"),
    [
        ("layers", [{"name": "x", "lists": [{"file": "login", "format": "hosts"}]}], NEW),  # warnings quote its lines
        ("layers", [{"name": "x", "lists": ["public/seal"]}], NEW),
        ("layers", [{"name": "x", "lists": ["private/open"]}], NEW),
        ("block-page", "link", NEW),
        ("notify", [CHANNEL, {"webhook": "https://evil.example/", "token": "login"}], NEW),
        ("notify", [{**CHANNEL, "webhook": "https://evil.example/"}], BESIDE),
        ("notify", [CHANNEL, {**CHANNEL, "webhook": "https://evil.example/"}], BESIDE),
        ("notify", [{**CHANNEL, "json": {"text": "$message"}}], BESIDE),
        ("notify", [{"mail": "a@b.example", "from": "c@d.example", "server": "evil.example", "login": "token"}], NEW),
        ("notify", [CHANNEL, {"webhook": "https://b.example/"}], ""),
        ("notify", None, ""),
        ("block-page", "open", ""),
    ],
)
def test_the_page_tells_no_secret(tmp_path: Path, section: str, value: object, why: str) -> None:
    before = f"notify: {json.dumps([CHANNEL])}\nchecks: {{looks-like: {{hashes: [h], seal: public/seal}}}}\n"
    for name, mode in (("login", 0o640), ("token", 0o600), ("public/seal", 0o644), ("private/open", 0o644)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("secret.example\n")
        (tmp_path / name).chmod(mode)
    (tmp_path / "private").chmod(0o700)
    (tmp_path / "link").symlink_to("login")
    (tmp_path / "open").write_text("<p>")
    policy = tmp_path / "policy.yaml"
    text = PolicyText(before.encode())
    after = text.with_value(section, value)  # type: ignore[arg-type]
    problems = out_of_reach(policy, text, after)
    assert [why in problem.why for problem in problems] == ([True] if why else [])
    for problem in problems:
        assert problem.source == str(policy)
        assert "secret.example" not in str(problem)


def test_what_the_policy_names_itself_may_stay_move_go_and_come_back(
    browser: Browser, use: Callable[..., Path], tmp_path: Path
) -> None:
    far = tmp_path.with_name(f"{tmp_path.name}-far.domains")
    far.write_text("far.example\n")
    policy = use("notify: [{command: [/usr/bin/true], name: tell}]", lists=str(far)).with_name("policy.yaml")
    assert browser.sign_in("max") == 200
    before = policy.read_text()
    tell = {"command": ["/usr/bin/true"], "name": "tell"}
    assert put(browser, "notify", value=[HOOK, {**tell, "weekly": "on"}])[0] == 200
    assert put(browser, "notify", value=None)[0] == 200
    assert put(browser, "notify", value=[tell])[0] == 400
    assert browser.call("POST", "/policy/undo", {})[0] == browser.call("POST", "/policy/undo", {})[0] == 200
    assert policy.read_text() == before
    assert put(browser, "layers", value=[{"name": "x", "lists": [{"file": str(far)}, "own.yaml"]}])[0] == 200
    assert put(browser, "search-forms", value=[{"host": "a.example", "path": "/find", "keys": "q"}])[0] == 200
    assert put(browser, "block-page", value="/find")[0] == 400


@pytest.mark.parametrize("end", ["\u2028", "\u2029"])
@pytest.mark.parametrize("ours", ["\n", "\r\n"])
def test_a_text_is_cut_where_lines_end_alone(end: str, ours: str) -> None:
    before = PolicyText(f"log: on{ours}mode: tag{ours}".encode())
    for written in (f'log: "one{end}two"\r\n# more\n', f'log: "one{end}two"\n# more'):
        after = before.with_text("log", written)
        assert after.octets.decode() == f'log: "one{end}two"{ours}# more{ours}mode: tag{ours}'


@pytest.mark.parametrize("control", ["\x0b", "\x0c", "\x1c", "\x85", "\r", "\x00", "\x7f"])
def test_a_text_has_no_control_characters(browser: Browser, policy: Path, control: str) -> None:
    before = policy.read_text()
    status, said = put(browser, "log", text=f"# a\nlog: on  # two{control}mode: tag\n")
    assert status == 400
    assert f"line 2 of the text has the control character U+{ord(control):04X}" in said["error"] or control == "\0"
    assert policy.read_text() == before


def test_several_sections_change_at_once_and_go_back_at_once(browser: Browser, policy: Path) -> None:
    before = policy.read_text()
    groups = [{"name": "kids", "clients": ["10.0.0.9"], "default": {"action": "block", "during": "early"}}]
    value = {"night": {"times": "20:00-07:00"}, "early": {"times": "06:00-08:00"}}
    body = {"value": value, "besides": {"groups": {"value": groups, "etag": etag_of(browser, "groups")}}}
    assert browser.call("POST", "/policy/schedules/preview", body)[0] == 200
    seen = etag_of(browser, "schedules")
    status, done = put(browser, "schedules", seen, **body)
    assert status == 200, done
    assert browser.call("GET", "/policy/groups")[1]["value"] == groups
    # somebody else has changed one of them meanwhile: neither changes
    now = policy.read_text()
    assert put(browser, "schedules", etag_of(browser, "schedules"), **body)[0] == 412
    assert policy.read_text() == now
    assert put(browser, "timezone", "*", value="Europe/Berlin")[0] == 200
    assert browser.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
    assert PolicyText(policy.read_bytes()).whole == {**PolicyText(before.encode()).whole, "timezone": "Europe/Berlin"}
    itself, nothing = {"schedules": {"value": value, "etag": "*"}}, {"nothing": {"value": None, "etag": ""}}
    for wrong in ([], "x", itself, nothing, {"groups": []}, {"groups": {"value": None}}):
        assert put(browser, "schedules", value=value, besides=wrong)[0] in (400, 404), wrong


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("&a", "anchors are not supported"),
        ("{layers: [{name: own, lists: [own.yaml]}]}\n", "stands in brackets"),
        ("  layers:\n  - name: own\n    lists: [own.yaml]\n", "does not begin its line"),
        ("layers: []\n---\nlayers: []\n", "more than one document"),
        ("layers: []\nlayers: []\n", "given twice"),
        ("layers: [\n", "line 2"),
    ],
)
def test_what_cannot_be_edited_with_care_is_read_only_with_the_reason(
    browser: Browser, policy: Path, text: str, why: str
) -> None:
    before = policy.read_text().replace("{times", "&a {times") if text == "&a" else text
    policy.write_text(before)
    for path in ("/policy", "/policy/log"):
        status, seen = browser.call("GET", path)
        assert (status, why in str(seen["read_only"])) == (200, True), seen
    assert put(browser, "log", value="on")[0] == 400
    assert policy.read_text() == before


def test_a_file_that_is_a_link_is_changed_where_it_is(browser: Browser, policy: Path, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere" / "policy.yaml"
    place.parent.mkdir()
    policy.rename(place)
    policy.symlink_to(place)
    before = place.read_text()
    assert f"it is a link to {place}" in browser.call("GET", "/policy")[1]["read_only"]
    assert put(browser, "log", value="on")[0] == 400
    assert place.read_text() == before


def test_a_preview_tells_what_the_last_week_would_have_been(
    browser: Browser, use: Callable[..., Path], tmp_path: Path
) -> None:
    hosts = ["games.example"] * 3 + ["other.example", "blocked.example"]
    write_log(tmp_path / "log", [record(host, group=group) for host in hosts for group in ("default", "gone")])
    policy = use(f"log: {{folder: {tmp_path / 'log'}}}").with_name("policy.yaml")
    (tmp_path / "games.domains").write_text("games.example\n")
    assert browser.sign_in("max") == 200
    before = policy.read_text()
    layers = browser.call("GET", "/policy/layers")[1]["value"]
    more = [{**layers[0], "lists": [*layers[0]["lists"], "games.domains"]}, layers[1]]
    status, seen = browser.call("POST", "/policy/layers/preview", {"value": more})
    assert status == 200, seen
    figures = ("requests", "unknown", "is_all", "stopped", "let_through", "other")
    assert [seen[name] for name in figures] == [5, 5, True, 3, 0, 0]
    assert seen["addresses"] == [{"url": "http://games.example/", "was": "pass", "will": "block", "count": 3}]
    assert (seen["groups"], "games.domains" in seen["text"]) == ({"default": 3}, True)
    status, seen = browser.call("POST", "/policy/mode/preview", {"value": "tag"})
    assert [seen[name] for name in figures] == [5, 5, True, 0, 1, 0]
    assert browser.call("POST", "/policy/mode/preview", {"value": "red"})[0] == 400
    assert browser.call("POST", "/policy/log/preview", {"value": None})[1]["unknown_because"] is None
    assert policy.read_text() == before
