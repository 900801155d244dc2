"""The first start in a browser: who may open it, what each screen asks, and that a policy ends it for good."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
from mitmproxy import ctx, exceptions, http
from mitmproxy.proxy.mode_specs import ProxyMode

from hushlist.core.policy import household_policy
from hushlist.extensions.dashboard.dashboard_server import HOST
from hushlist.extensions.first_start import first_start_page
from hushlist.extensions.first_start.first_start_page import FirstStart
from hushlist.extensions.first_start.questionnaire import Device
from hushlist.proxy.addon import Hushlist
from support import flows
from support.mitmproxied import GUARDS, mitmproxied, own_answer
from unit.extensions.first_start.households import FAMILY
from unit.rows import each_row

LAN, PUPIL = "192.168.7.2", "192.168.7.99"
SECRET = "correct horse battery"


@pytest.fixture
def hushlist(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hushlist]:
    """The addon as ``mitmdump -s addon/filter.py`` starts it, listening everywhere on port 8080."""
    monkeypatch.setattr(first_start_page, "seen_devices", lambda _: [Device("192.168.7.22", "tablet")])
    monkeypatch.setattr(first_start_page, "own_address", lambda: LAN)
    addon = Hushlist()
    with mitmproxied(addon) as context:
        context.configure(addon, hushlist_mode="block")
        mode = ProxyMode.parse("regular")
        server = SimpleNamespace(mode=mode, listen_addrs=(("0.0.0.0", 8080),))
        context.master.addons.add(SimpleNamespace(name="proxyserver", servers=[server], connections={}))
        yield addon


def part_of(hushlist: Hushlist) -> FirstStart:
    part = hushlist.parts.of(FirstStart)
    assert part is not None
    return part


def is_asked(hushlist: Hushlist) -> bool:
    """Whether requests still come to it."""
    return any(isinstance(getattr(answer, "__self__", None), FirstStart) for answer in hushlist.parts.answer)


def flow_of(path: str = "/start", client: str = "127.0.0.1", own: str | None = None, **more: str) -> http.HTTPFlow:
    own = own or ("127.0.0.1" if client == "127.0.0.1" else LAN)
    flow = flows.flow_of(f"http://{own}:8080{path}", client=client, **more)
    flow.client_conn.sockname = (own, 8080)
    return flow


def get(hushlist: Hushlist, path: str = "/start", client: str = "127.0.0.1", **headers: str) -> http.Response:
    return own_answer(hushlist, flow_of(path, client, **headers))


def token_of(page: http.Response) -> str:
    match = re.search(r'name="token" value="([0-9a-f]+)"', page.text or "")
    assert match is not None
    return match[1]


def post(
    hushlist: Hushlist, screen: str, fields: Mapping[str, str], client: str = "127.0.0.1", **headers: str
) -> http.Response:
    """What is answered to a form, whose body comes behind its head."""
    flow = flow_of(client=client, **headers)
    flow.request.method = "POST"
    flow.request.content = urlencode({"screen": screen, "to": "next", **fields}).encode()

    async def whole() -> None:
        for hook in (hushlist.requestheaders, hushlist.request):
            with suppress(exceptions.AddonHalt):
                await (hook(flow) or asyncio.sleep(0))

    asyncio.run(whole())
    assert flow.response is not None
    return flow.response


def refused(response: http.Response) -> bool:
    return response.status_code == 403 and "<form" not in (response.text or "")


# -- who may open it ---------------------------------------------------------------------------------------------------


def test_whoever_is_on_the_machine_may(hushlist: Hushlist) -> None:
    page = get(hushlist)
    assert is_asked(hushlist)
    assert page.status_code == 200
    assert "Who is the filter for?" in page.text
    for name, value in GUARDS.items():
        assert page.headers[name] == ("same-origin" if name == "Referrer-Policy" else value)
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert own_answer(hushlist, flow_of_name(HOST)).status_code == 200
    assert hushlist.runtime.statistics.total == 0


def flow_of_name(host: str, client: str = "127.0.0.1") -> http.HTTPFlow:
    flow = flows.flow_of(f"http://{host}/start", client=client)
    flow.client_conn.sockname = ("127.0.0.1", 8080)
    return flow


@each_row(
    ("host", "client", "own", "status"),
    [
        ("localhost:8080", "127.0.0.1", "127.0.0.1", 200),
        ("localhost:8080", "::1", "::1", 200),
        ("127.0.0.1:8080", "::1", "::1", 200),
        # the machine itself, by its address on the network: the page is there, for who has the token
        ("localhost:8080", LAN, LAN, 403),
        ("localhost:8080", PUPIL, LAN, None),
        ("127.0.0.1:8080", PUPIL, LAN, None),
        ("localhost:8081", "127.0.0.1", "127.0.0.1", None),
        ("evil.localhost.example:8080", "127.0.0.1", "127.0.0.1", None),
    ],
)
def test_localhost_is_its_address_for_whoever_is_on_the_machine(
    hushlist: Hushlist, host: str, client: str, own: str, status: int | None
) -> None:
    flow = flows.flow_of(f"http://{host}/start", client=client)
    flow.client_conn.sockname = (own, 8080)
    with suppress(exceptions.AddonHalt):
        asyncio.run(_answered(hushlist, flow))
    assert (None if flow.response is None else flow.response.status_code) == status


async def _answered(hushlist: Hushlist, flow: http.HTTPFlow) -> None:
    await (hushlist.requestheaders(flow) or asyncio.sleep(0))


@each_row("client", [PUPIL, "192.168.7.1", "::ffff:192.168.7.99"])
def test_nobody_on_the_network_may(hushlist: Hushlist, client: str) -> None:
    assert refused(get(hushlist, client=client))
    assert refused(get(hushlist, "/start?token=", client=client))
    assert refused(get(hushlist, "/start?token=x", client=client))
    assert refused(own_answer(hushlist, flow_of_name(HOST, client)))
    good = token_of(get(hushlist))
    assert refused(post(hushlist, "admin", {**FAMILY, "token": good}, client=client))
    assert not household_policy().exists()


def test_a_request_that_comes_back_from_the_proxy_itself_may_not(
    hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hushlist.proxy.flow_request.SelfConnections.has", lambda *_: True)
    assert refused(get(hushlist))


@each_row(
    "host", ["evil.example:8080", "localhost:8081", "127.0.0.1:8081", "127.0.0.2:8080", f"x.{HOST}", f"{HOST}:81"]
)
def test_another_name_that_leads_to_the_machine_is_no_way_to_it(hushlist: Hushlist, host: str) -> None:
    part = part_of(hushlist)
    assert part.answer(flow_of_name(host)) is None


@each_row("headers", [{"Via": "1.1 squid"}, {"X_Forwarded_For": "192.168.7.99"}, {"Forwarded": "for=192.168.7.99"}])
def test_what_another_proxy_of_the_machine_hands_on_may_not(hushlist: Hushlist, headers: dict[str, str]) -> None:
    assert refused(get(hushlist, **headers))


def test_the_token_of_the_terminal_opens_it_once(hushlist: Hushlist, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    asyncio.run(part_of(hushlist).look())
    (path,) = re.findall(rf"http://{LAN}:8080(/start\?token=\S+)", caplog.text)
    assert "open http://127.0.0.1:8080/start on this machine" in caplog.text
    led = get(hushlist, path, client=PUPIL)
    assert (led.status_code, led.headers["Location"]) == (303, "/start")
    cookie = led.headers["Set-Cookie"]
    assert cookie.endswith("; HttpOnly; SameSite=Lax; Path=/start")
    assert refused(get(hushlist, path, client="192.168.7.50"))
    page = get(hushlist, client=PUPIL, Cookie=cookie.partition(";")[0])
    assert page.status_code == 200
    assert f"opened from {PUPIL}" in caplog.text
    assert caplog.text.count(f"http://{LAN}:8080/start?token=") == 2


@each_row(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://{LAN}:8080"},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
def test_no_other_site_answers_in_a_person_s_place(hushlist: Hushlist, headers: dict[str, str]) -> None:
    token = token_of(get(hushlist))
    assert refused(post(hushlist, "admin", {**FAMILY, "token": token}, **headers))
    assert not household_policy().exists()


@each_row("token", ["", "0" * 64, "é"])
def test_a_form_without_its_token_is_nobody_s(hushlist: Hushlist, token: str) -> None:
    assert refused(post(hushlist, "admin", {**FAMILY, "token": token}))
    assert not household_policy().exists()


def test_it_is_read_or_its_form_is_sent(hushlist: Hushlist) -> None:
    flow = flow_of()
    flow.request.method = "PUT"
    assert own_answer(hushlist, flow).status_code == 405
    assert get(hushlist, "/start.css", client=PUPIL).headers["Content-Type"] == "text/css; charset=utf-8"


# -- the screens -------------------------------------------------------------------------------------------------------


def walk(hushlist: Hushlist, answers: Mapping[str, str], **headers: str) -> list[http.Response]:
    """The screens after the first, each answered with what it asks for; what was answered before is in the page."""
    pages = [get(hushlist, **headers)]
    for screen in ("place", "people", "subjects", "times", "admin"):
        text = pages[-1].text or ""
        asked = set(re.findall(r'name="([^"]+)"', text))
        kept = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', text))
        given = {name: value for name, value in answers.items() if name in asked}
        pages.append(
            post(hushlist, screen, {**{name: unescape(one) for name, one in kept.items()}, **given}, **headers)
        )
    return pages[1:]


def test_five_screens_lead_to_a_policy_in_force(hushlist: Hushlist, home: Path) -> None:
    asked = {**FAMILY, "household": "on"}
    people, subjects, times, admin, done = walk(hushlist, asked, Accept_Language="en")
    assert "192.168.7.22" in people.text
    assert "Mia: Bedtime, Friday and Saturday" in times.text
    assert all(f"Step {number} of 5" in page.text for number, page in enumerate((people, subjects, times, admin), 2))
    assert "no longer" not in done.text
    assert ctx.options.hushlist_policy == str(household_policy())
    text = household_policy().read_text()
    assert "name: Mia" in text
    assert SECRET not in text + "".join(page.text or "" for page in (people, subjects, times, admin, done))


def test_each_screen_comes_in_the_language_of_its_reader(hushlist: Hushlist) -> None:
    page = get(hushlist, Accept_Language="de")
    assert "Für wen ist der Filter?" in page.text
    assert 'lang="de"' in page.text


def test_what_cannot_be_used_is_asked_again(hushlist: Hushlist) -> None:
    token = token_of(get(hushlist))
    page = post(hushlist, "people", {**FAMILY, "token": token, "address.1": "tablet <b>"})
    assert "Step 2 of 5" in page.text
    assert 'aria-invalid="true" aria-describedby="fault-address.1"' in page.text
    assert "tablet &lt;b&gt;" in page.text
    page = post(hushlist, "admin", {**FAMILY, "token": token, "zone": "x"})
    assert "Step 4 of 5" in page.text
    page = post(hushlist, "admin", {**FAMILY, "token": token, "again": "x"})
    assert "The two are not the same." in page.text
    assert SECRET not in page.text
    assert post(hushlist, "other", {"token": token}).status_code == 400
    page = post(hushlist, "people", {**FAMILY, "token": token, "to": "back"})
    assert "Step 1 of 5" in page.text
    assert not household_policy().exists()


def test_a_form_of_any_size_is_answered(hushlist: Hushlist) -> None:
    token = token_of(get(hushlist))
    assert refused(post(hushlist, "people", {"token": token, "address.0": "x" * 70_000}))
    assert refused(post(hushlist, "people", {"token": token} | {f"x{number}": "" for number in range(1000)}))


def test_over_the_network_the_passphrase_is_made_and_told_at_the_terminal(
    hushlist: Hushlist, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    asyncio.run(part_of(hushlist).look())
    (path,) = re.findall(rf"http://{LAN}:8080(/start\?token=\S+)", caplog.text)
    cookie = get(hushlist, path, client=PUPIL).headers["Set-Cookie"].partition(";")[0]
    who = {"client": PUPIL, "Cookie": cookie}
    token = token_of(get(hushlist, **who))
    given = {name: text for name, text in FAMILY.items() if name not in ("passphrase", "again", "admin")}
    page = post(hushlist, "times", {**given, "token": token}, **who)
    assert "This page is not encrypted" in page.text
    assert "password" not in page.text
    post(hushlist, "admin", {**given, "admin": "Anna", "token": token, "passphrase": "typed"}, **who)
    (made,) = re.findall("the passphrase of Anna for the filter's page is (\\S+): ", caplog.text)
    assert len(made) >= 12
    assert household_policy().exists()


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_policy_ends_it_for_good(hushlist: Hushlist) -> None:
    token = token_of(get(hushlist))
    household_policy().parent.mkdir(parents=True)
    household_policy().write_text("layers: []\n")
    assert refused(get(hushlist))
    assert refused(post(hushlist, "admin", {**FAMILY, "token": token}))
    assert household_policy().read_text() == "layers: []\n"


def test_one_that_is_named_is_a_policy(home: Path) -> None:
    (home / "policy.yaml").write_text("layers: []\n")
    addon = Hushlist()
    with mitmproxied(addon, home / "policy.yaml"):
        assert not is_asked(addon)
        led = get(addon)
        assert (led.status_code, led.headers["Location"]) == (302, "/setup")


def test_the_running_proxy_takes_what_is_written_meanwhile(hushlist: Hushlist) -> None:
    household_policy().parent.mkdir(parents=True)
    household_policy().write_text("layers: []\nlog: off\n")
    asyncio.run(part_of(hushlist).look())
    assert ctx.options.hushlist_policy == str(household_policy())
    assert not is_asked(hushlist)
