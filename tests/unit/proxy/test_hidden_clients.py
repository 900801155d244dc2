"""Where the log has pseudonyms, or nobody, no command, call, page or notice names a client, or a query without it.

What there is to ask is enumerated: commands by the parser, calls by the interface's description, pages by the server's
table, notices by where the package makes one. What is new is asked as well, or fails the test until somebody says why
it cannot name anybody.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from mitmproxy import http
from mitmproxy.test import taddons, tflow

from hushlist import cli
from hushlist.core.extension import Notice
from hushlist.core.routes import Action
from hushlist.extensions.alerts.alert_book import Hit
from hushlist.extensions.alerts.alert_keys import NEW_DEVICE
from hushlist.extensions.alerts.alert_part import AlertPart
from hushlist.extensions.dashboard.api_description import BASE
from hushlist.extensions.dashboard.dashboard_server import DashboardServer
from hushlist.extensions.devices import device_watch, known_devices
from hushlist.extensions.devices.device_watch import DeviceWatch
from hushlist.extensions.devices.network_tables import Seen
from hushlist.extensions.journal.journal import log_of
from hushlist.extensions.journal.log_database import LogFilters, newest_records
from hushlist.extensions.journal.masked_clients import SOMEBODY, privacy_of
from hushlist.extensions.notify.weekly_summary import Week, summary_of, week_of
from hushlist.extensions.quotas.metered_use import MeteredUse
from hushlist.extensions.reports.publisher_report import WHOLE
from hushlist.extensions.reports.report_book import Report
from hushlist.extensions.reports.report_part import ReportPart
from hushlist.extensions.unblock.access_requests import NAMED, AccessRequest
from hushlist.extensions.unblock.ask_handler import notice_of
from hushlist.extensions.unblock.credentials import CodeError
from hushlist.extensions.unblock.overrides import Overrides
from hushlist.extensions.unblock.unblock_handler import overrides_of
from hushlist.extensions.unblock.wrong_tries import LockedError
from hushlist.proxy.addon import Hushlist
from support.administrators import ACTIONS, Browser, decided, use  # noqa: F401  a fixture
from support.parts import part_of
from unit.sources import GROUP, MODULES, nodes_of

#: addresses of two clients, a user, and a word of a query: none of them may be anywhere
CLIENT, OTHER, USER, QUERY = "10.98.76.54", "10.98.76.55", "josephine", "secretword"
#: of the first client's device, which calls itself as its user
MAC, OTHER_MAC = "00:00:5e:00:53:01", "00:00:5e:00:53:02"
HIDDEN = (CLIENT, OTHER, USER, QUERY, MAC, OTHER_MAC)
URL = f"http://www.blocked.example/page?{QUERY}"
ADS = "hrn://c.example/ads"
MORE = """
unblock: {ask: on}
quotas: {'hrn://c.example/ads': 30}
notify: [{command: [/bin/true]}]
alerts: [{name: ads, when: {category: 'hrn://c.example/ads'}}]
devices: [{name: tv, mac: '00:00:5e:00:53:09'}]
"""

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def browser(hushlist: Hushlist) -> Browser:
    return Browser(hushlist)


class World(NamedTuple):
    hushlist: Hushlist
    browser: Browser
    #: what the log has in a client's place
    clients: str
    #: a reference number of the log
    reference: str
    policy: Path
    #: the notices since then
    sent_notices: list[Notice]

    @property
    def overrides(self) -> Overrides:
        assert overrides_of(self.hushlist.runtime) is not None
        return overrides_of(self.hushlist.runtime)


@pytest.fixture(params=["pseudonym", "drop"])
def world(
    request: pytest.FixtureRequest,
    hushlist: Hushlist,
    use: Callable[..., Path],  # noqa: F811
    browser: Browser,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    """A proxy of which clients have used whatever there is, first while the log kept everything."""
    clients: str = request.param
    leases = [Seen(CLIENT, MAC, f"{USER}-phone"), Seen(OTHER, "00:00:5e:00:53:03")]
    monkeypatch.setattr(known_devices, "neighbours", lambda: [Seen(CLIENT, MAC), Seen(OTHER, OTHER_MAC)])
    monkeypatch.setattr(device_watch, "leases", lambda: leases)
    use(f"log: {{what: all}}\n{MORE}")
    decided(hushlist, URL, CLIENT)
    use(f"log: {{what: all, clients: {clients}, queries: drop}}\n{MORE}")
    decided(hushlist, URL, OTHER)
    assert browser.sign_in("max") == 200
    sent_notices: list[Notice] = []
    monkeypatch.setattr(hushlist.runtime, "notify", sent_notices.append)
    alerts = part_of(hushlist.runtime, AlertPart)
    about = {"url": URL, "event": NEW_DEVICE}
    hits = {
        ("ads", whom): Hit(1, about) for whom in (CLIENT, f"user:{USER}")
    }  # the log had them when they were counted
    alerts._opened().note(hits, alerts._alerts)
    for client, host in ((CLIENT, "one.example"), (f"user:{USER}", "two.example")):
        part_of(hushlist.runtime, ReportPart).file(
            Report(client, CLIENT, "default", host, URL, "a.example/", 1, "Ads", "ads.txt", shape=WHOLE, words="why")
        )
    journal, overrides = log_of(hushlist.runtime), overrides_of(hushlist.runtime)
    assert journal is not None
    assert overrides is not None
    page = URL
    for client in (CLIENT, f"user:{USER}"):
        overrides.grant("url", page, 600.0, client=client, how="passphrase", by=client)
        overrides.block("url", f"b.example/page?{QUERY}", None, client=client, by="max")
        overrides.redeem(overrides.make_code("host", 60.0, client=client, by="max"), client, {"host": "a.example"})
        overrides.make_code("url", 60.0, page, client, by="max")
        address = CLIENT if client.startswith("user:") else client
        request = AccessRequest(
            0, client, address, "default", f"{len(client)}.example", page, ADS, "homework", asked=0.0, until=0.0
        )
        overrides.ask(request)
        overrides.ask(replace(request, host=f"z{len(client)}.example"))
        for _ in range(6):
            with pytest.raises((CodeError, LockedError)):
                overrides.redeem("000000000000", client, {"host": "a.example"})
        minutes = part_of(hushlist.runtime, MeteredUse).minutes
        assert minutes is not None
        minutes.extend(ADS, 5, client=client, by="max")
        for path, body in (("/grants", {}), ("/blocks", {})):
            order = {"scope": "url", "target": page, "minutes": 30, "client": client, **body}
            assert browser.call("POST", path, order)[0] == 200
        assert browser.call("POST", "/codes", {"scope": "host", "minutes": 5, "client": client})[0] == 200
    assert browser.call("POST", "/requests/1/approve", {"minutes": 5})[0] == 200
    assert journal.flush(30.0)
    (newest,) = newest_records(journal.place, LogFilters(), 1)
    reference = str(newest["reference"])
    return World(hushlist, browser, clients, reference, tmp_path / "policy.yaml", sent_notices)


def named(text: str) -> list[str]:
    """What of a text names somebody, or has a query."""
    return [word for word in HIDDEN if word in text]


# -- commands ----------------------------------------------------------------------------------------------------------

#: command -> its arguments, each way in which it can be asked; POLICY is the policy's file
QUESTIONS: dict[str, list[list[str]]] = {
    "check": [["--policy", "POLICY", "http://www.blocked.example/"]],
    "explain": [["--policy", "POLICY", "http://www.blocked.example/"]],
    "compile": [["--policy", "POLICY"]],
    "update": [["--policy", "POLICY"]],
    "lists": [["--policy", "POLICY"]],
    "log tail": [[], ["--policy", "POLICY"], ["--client", CLIENT], ["--user", USER]],
    "log top": [["--by", by] for by in ("client", "host", "rule", "list", "category", "action")],
    "log show": [["REFERENCE"]],
    "override grant": [["--for", "5m", "--scope", "url", "--client", f"user:{USER}", URL]],
    "override code": [["--for", "5m", "--client", CLIENT]],
    "override extend": [["--by", "5m", "--client", CLIENT, ADS]],
    "override internet-off": [["--for", "5m", "--client", f"user:{USER}"]],
    "override filter-off": [["--for", "5m", "--client", f"user:{USER}"]],
    "override list": [[], ["--policy", "POLICY"]],
    "override revoke": [["1"]],
    "override history": [[], ["--policy", "POLICY"]],
    "override requests": [[], ["--policy", "POLICY"]],
    "override approve": [["2"]],
    "override decline": [["3"]],
    "admin token make": [["school", "--role", "view"]],
    "admin token list": [[]],
    "admin token revoke": [["school"]],
    "fleet status": [[]],
    "store migrate": [["--policy", "POLICY"]],
    "alerts list": [[], ["--policy", "POLICY"]],
    "reports list": [[], ["--policy", "POLICY"]],
    "reports show": [["1"], ["1", "--url", "whole", "--policy", "POLICY"]],
    "reports settle": [["2"]],
    "summary": [["--policy", "POLICY"]],
    "alerts seen": [["1"], ["2", "--policy", "POLICY"]],
    "backup": [["--policy", "POLICY", "--confdir", "FOLDER", "BACKUP"]],
    "restore": [["--dry-run", "--policy", "POLICY", "--confdir", "FOLDER", "BACKUP"]],
}
#: commands that read neither the store nor the log of a proxy, but what they are given
UNRELATED = {
    *("helper", "init", "import", "doctor", "lint", "diff", "audit", "leak", "hide", "serve-lists", "keypair"),
    *("sealkey", "sign", "verify", "canonicalize", "expressions", "hash", "prefixes", "compare", "extract", "parse"),
    *("hrn", "conformance", "completion", "man", "override passphrase", "proxy", "services", "notify test"),
    *("convert", "visit", "learn", "publish", "service install", "service remove", "service status"),
    *("policy get", "policy set", "policy undo"),
}


def leaves(parser: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Each command that does something, with its parser."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield path, parser
    for action in below:
        for name, own in action.choices.items():
            yield from leaves(own, f"{path} {name}".strip())


COMMANDS = dict(leaves(cli.make_parser()))


def test_every_command_is_asked_or_reads_nothing_of_a_proxy() -> None:
    assert set(COMMANDS) == set(QUESTIONS) | UNRELATED
    of_proxies = {name for name, parser in COMMANDS.items() if {"--store", "--folder"} & options(parser)}
    assert of_proxies - {"visit"} <= set(QUESTIONS)  # its folder is what it writes


def options(parser: argparse.ArgumentParser) -> set[str]:
    return {name for action in parser._actions for name in action.option_strings}


def switches(parser: argparse.ArgumentParser) -> list[str]:
    """The options that need no value, but for those that never end."""
    found = [one.option_strings[-1] for one in parser._actions if isinstance(one, argparse._StoreTrueAction)]
    return [name for name in found if name != "--follow"]


@pytest.mark.slow
def test_no_command_names_anybody(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    shown = dict[str, str]()
    for command, ways in QUESTIONS.items():
        for way in ways:
            places = {"POLICY": str(world.policy), "REFERENCE": world.reference}
            places |= {"FOLDER": str(world.policy.parent), "BACKUP": str(world.policy.with_name("all.backup"))}
            arguments = [*command.split(), *(places.get(one, one) for one in way)]
            for more in ([], *([name] for name in switches(COMMANDS[command]))):
                cli.main([*arguments, *more])
                out, err = capsys.readouterr()
                shown[" ".join([*arguments, *more])] = out + err
    assert {asked: found for asked, text in shown.items() if (found := named(text))} == {}
    asked = shown["override requests --all"]
    assert "asks for http://www.blocked.example/page: homework" in asked
    assert (SOMEBODY if world.clients == "drop" else "client-") in asked
    for command in ("override list", "override history", "log tail", "alerts list", "reports list"):
        assert len(shown[command].splitlines()) >= 2, command
    assert ("client-" in shown["log top --by client"]) is (world.clients == "pseudonym")


# -- the interface and pages -------------------------------------------------------------------------------------------

BODIES: dict[str, dict[str, object]] = {
    "grant": {"scope": "url", "target": URL, "minutes": 5, "client": CLIENT},
    "block": {"scope": "url", "target": URL, "minutes": 5, "client": f"user:{USER}"},
    "extend": {"category": ADS, "minutes": 5, "client": CLIENT},
    "pause": {"minutes": 5, "client": CLIENT},
    "internet_off": {"minutes": 5, "client": f"user:{USER}"},
    "approve": {"minutes": 5, "scope": "url"},
    "make_code": {"scope": "host", "minutes": 5, "client": CLIENT},
    "add_rule": {"action": "block", "scope": "host", "target": "c.example"},
    "update_list": {"url": "https://lists.example/a"},
    "accept_list": {"url": "https://lists.example/a", "digest": "0" * 64},
    "roll_back_list": {"url": "https://lists.example/a"},
    "decline": {"word": "no"},
    "change_section": {"value": "tag"},
    "preview_section": {"value": "tag"},
}
QUERIES = {
    "preview": f"?scope=host&target=www.blocked.example&client={CLIENT}",
    "explain": "?url=http://www.blocked.example/",
    "held_back": "?url=https://lists.example/a",
    "what_holds": f"?client={CLIENT}&user={USER}",
}


def numbers(world: World, call: Action) -> list[str]:
    """What may stand in its path: of undoing, everything that was done."""
    if call.name == "undo":
        return [str(one["id"]) for one in world.browser.call("GET", "/record")[1]["record"]]
    if call.name == "withdraw_code":
        return [code.hash.hex() for code in world.overrides.codes()]
    sections = ["mode"] if call.name != "policy_section" else ["mode", "log", "alerts", "devices", "layers"]
    if "section" in call.in_path:
        return sections
    own = {"approve": ["2", "3"], "decline": ["4"], "settle_report": ["2"]}.get(call.name, ["1", "2", "3"])
    return own if call.in_path else [""]


@pytest.mark.slow
def test_no_call_of_the_interface_names_anybody(world: World) -> None:
    """A call that is new needs a body here, where it takes what has no default."""
    shown, statuses = dict[str, str](), dict[str, set[int]]()
    signing = ("sign_in", "sign_out", "end_session", "session")
    calls = [call for call in ACTIONS if call.name not in signing]
    reading = [call for call in calls if call.method == "GET"]
    for call in (*reading, *sorted(calls, key=lambda one: one.name == "undo"), *reading):
        for number in numbers(world, call):
            path = re.sub("{(number|identity|section)}", number, call.path) + QUERIES.get(call.name, "")
            body = BODIES.get(call.name, {}) if call.method in ("POST", "PUT") else None
            response = world.browser.send(call.method, BASE + path, body, If_Match="*" if call.method == "PUT" else "")
            shown[f"{call.method} {path}"] = f"{shown.get(f'{call.method} {path}', '')}{response.text}"
            statuses.setdefault(call.name, set()).add(response.status_code)
    assert {asked: found for asked, text in shown.items() if (found := named(text))} == {}
    unanswered = {"held_back", "accept_list", "roll_back_list", "update_list", "remove_rule"}
    assert {does for does, found in statuses.items() if 200 not in found} <= unanswered


@pytest.mark.slow
def test_no_page_names_anybody(world: World) -> None:
    world.hushlist.runtime.statistics.count()
    server = world.hushlist.parts.of(DashboardServer)
    paths = [*server._pages, *server._files]
    assert {"/", "/history.csv", "/metrics"} <= set(paths)
    more = {"/history.csv": "?of=week"}
    shown = {path: world.browser.send("GET", path + more.get(path, "")) for path in paths}
    texts = {path: response.text or "" for path, response in shown.items()}
    assert {path: found for path, text in texts.items() if (found := named(text))} == {}
    assert ("client-" in texts["/history.csv"]) is (world.clients == "pseudonym")


# -- notices -----------------------------------------------------------------------------------------------------------

#: what makes a notice; that of mitmproxy's authority, ``Upkeep._tell``, is about no client
MAKERS = {"notice_of", "summary_of", "_tell", "notices_of", "_notice"}


@GROUP
def test_every_notice_is_asked_for() -> None:
    makers = {
        function.name
        for path in MODULES.values()
        if "Notice(" in path.read_text(encoding="utf-8")
        for function in nodes_of(path)
        if isinstance(function, ast.FunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Notice"
    }
    assert makers == MAKERS


def test_no_notice_names_anybody(world: World) -> None:
    privacy, runtime = privacy_of(world.hushlist.runtime.engine, log_of(world.hushlist.runtime)), world.hushlist.runtime
    log, policy = log_of(runtime), runtime.engine.policy
    assert log is not None
    found = week_of(policy, log.place, log.privacy(), datetime.now(policy.zone).date())
    assert isinstance(found, Week)
    sent_notices: list[Notice] = [notice_of(one, privacy, "en") for one in world.overrides.requests(waiting=False)]
    assert len(sent_notices) >= 2
    sent_notices.append(summary_of(found, policy))
    alerts = part_of(runtime, AlertPart)
    alerts._tell(alerts._alerts, datetime.now(UTC))
    watch = part_of(runtime, DeviceWatch)
    watch._tell(policy, CLIENT, MAC)
    assert [[*notice.details] for notice in world.sent_notices].count(["alert"]) >= 2
    assert [[*notice.details] for notice in world.sent_notices].count(["report"]) == 2
    assert [notice.details.get("kind") for notice in world.sent_notices].count("device") >= 1
    sent_notices += world.sent_notices
    for notice in sent_notices:
        assert named(f"{json.dumps(notice.as_dict(), default=str)} {notice.html}") == [], notice


# -- what a page has said ----------------------------------------------------------------------------------------------


def test_who_asks_is_named_to_those_who_answer_where_the_policy_says_so(
    hushlist: Hushlist,
    use: Callable[..., Path],  # noqa: F811
    context: taddons.context,
    browser: Browser,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use("log: {clients: drop, queries: drop}\nunblock: {ask: {name: shown}}")
    overrides = overrides_of(hushlist.runtime)
    assert overrides is not None
    page = f"http://a.example/?{QUERY}"
    for number, seen in enumerate((NAMED, "drop")):
        overrides.ask(
            AccessRequest(
                *(0, CLIENT, CLIENT, None, f"{number}.example", page, None, ""), asked=0.0, until=0.0, seen=seen
            )
        )
    for clients in ("drop", "keep"):  # what the pages have said holds
        use(f"log: {{clients: {clients}, queries: drop}}\nunblock: {{ask: on}}")
        assert cli.main(["override", "requests"]) == 0
        newer, older = capsys.readouterr().out.splitlines()
        assert f"{CLIENT} asks for http://a.example/" in older
        assert f"{SOMEBODY} asks for http://a.example/" in newer
        assert QUERY not in older + newer
    assert browser.sign_in("max") == 200
    asked = browser.call("GET", "/requests")[1]["requests"]
    assert [one["client"] for one in asked] == [None, CLIENT]


@pytest.mark.parametrize(
    ("log", "ask", "words"),
    [
        ("off", "on", "see who asks, the address"),
        ("{clients: keep}", "on", "see who asks, the address"),
        ("{clients: pseudonym}", "on", "a made-up name that stays yours"),
        ("{clients: drop}", "on", "see your group, the address and your words, but neither"),
        ("{clients: pseudonym}", "{name: shown}", "see who asks, the address"),
        ("{clients: drop}", "{name: logged}", "see your group, the address and your words, but neither"),
    ],
)
def test_the_block_page_says_who_will_see_what(
    hushlist: Hushlist,
    use: Callable[..., Path],  # noqa: F811
    context: taddons.context,
    log: str,
    ask: str,
    words: str,
) -> None:
    use(f"log: {log}\nunblock: {{ask: {ask}}}")
    assert words in asyncio.run(blocked_page(hushlist))


async def blocked_page(hushlist: Hushlist) -> str:
    flow = tflow.tflow(req=http.Request.make("GET", URL, headers={"Accept": "text/html", "Accept-Language": "en"}))
    flow.client_conn.peername = (CLIENT, 50000)
    hushlist.requestheaders(flow)
    assert flow.response is not None
    return flow.response.text or ""
