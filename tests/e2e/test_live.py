"""The page and who may not see it: other sites, other machines, and files of flows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from time import time

import httpx
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from e2e.browser import BROWSER, DRIVER, profile, wait_for_words
from e2e.conftest import REASON
from e2e.namespaces import Machine, why_not
from e2e.origin import Origin
from e2e.policies import write_list, write_policy
from e2e.proxy import FILTER, MITMDUMP, Proxy, mitmdump, running
from hushlist.extensions.dashboard.dashboard_server import HOST
from hushlist.extensions.journal.log_database import Database
from hushlist.extensions.journal.log_entry import entry_of_fields
from hushlist.extensions.journal.log_keys import LogSettings
from hushlist.extensions.journal.log_record import time_text
from hushlist.extensions.unblock.credentials import hash_passphrase

pytestmark = pytest.mark.xdist_group("chromium")
needs_browser = pytest.mark.skipif(not BROWSER or not DRIVER, reason="there is no Chromium with chromedriver on PATH")

#: whatever stands in it must stay text
SCRIPT = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
    """A proxy of this module's own, since its figures are counted."""
    folder = tmp_path_factory.mktemp("live")
    category = "hrn://example.org/web/ads"
    write_list(folder / "ads.yaml", "ads.test/", title=f"List {SCRIPT}", category=category, reason=f"{REASON} {SCRIPT}")
    write_list(folder / "own.yaml", {"expression": "fine.ads.test/", "action": "allow"}, title="Own rules")
    policy = write_policy(folder, ["own.yaml"], ["ads.yaml"])
    with mitmdump(tmp_path_factory.mktemp("mitmdump"), origin, policy=policy) as running:
        yield running


@pytest.fixture(scope="module")
def browser(chrome: Chrome, live: Proxy) -> Iterator[Chrome]:
    with profile(chrome, live) as running:
        yield running


@needs_browser
@pytest.mark.parametrize("scheme", ["http", pytest.param("https", marks=pytest.mark.thorough)])
def test_another_site_s_page_can_neither_read_nor_frame_it(
    live: Proxy, browser: Chrome, origin: Origin, scheme: str
) -> None:
    origin.pages["/attack"] = ("text/html", b"<!doctype html><title>Attack</title>")
    browser.get(f"{scheme}://evil.test/attack")
    attack = """
        const [page, done] = arguments;
        const read = (path, options) => fetch(page + path, options)
            .then((one) => one.text()).then(() => "read", () => "refused");
        const load = (name, path) => new Promise((end) => {
            const element = Object.assign(document.createElement(name), {src: page + path});
            // in place of any image that is blocked, there is one pixel
            element.onload = () => end(element.naturalWidth === 1 ? "refused" : "loaded");
            element.onerror = () => end("refused");
            document.body.append(element);
        });
        Promise.all([
            read("/api/v1/live", {headers: {"X-Hushlist": "live"}}), read("/metrics"),
            read("/api/v1/explain?url=a.test"),
            load("img", "/icon.svg"), load("script", "/app.js"),
        ]).then(done);
    """
    assert browser.execute_async_script(attack, f"{scheme}://{HOST}") == ["refused"] * 5
    browser.execute_script(
        "document.body.append(Object.assign(document.createElement('iframe'), {src: arguments[0]}))",
        f"{scheme}://{HOST}/",
    )
    browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
    assert browser.execute_script("return document.getElementById('screen')") is None
    browser.switch_to.default_content()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_whoever_may_not_see_it_gets_what_is_blocked(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path, scheme: str
) -> None:
    write_list(tmp_path / "ads.yaml", "ads.test/")
    policy = write_policy(tmp_path, ["ads.yaml"], live={"users": ["eve"]})
    proxy = start(policy=policy)
    with origin.watch() as arrived:
        for path in ("/", "/api/v1/live", "/metrics", "/app.js"):
            answer = proxy.get(f"{scheme}://{HOST}{path}", headers={"X-Hushlist": "live"})
            assert answer.status_code == 403
            assert "ads" not in answer.text
    assert arrived.connections == 0


@pytest.mark.skipif(why_not("curl") is not None, reason="there are no namespaces, or no curl")
@pytest.mark.thorough
def test_addresses_that_are_named_lock_out_no_machine_of_the_proxy_and_others_are_told_so(tmp_path: Path) -> None:
    write_list(tmp_path / "ads.yaml", "ads.test/")
    policy = write_policy(tmp_path, ["ads.yaml"], live={"clients": ["192.0.2.9"]})
    settings = (f"confdir={tmp_path}", f"hushlist_policy={policy}")
    more = ("-s", str(FILTER), *(part for one in settings for part in ("--set", one)))
    with Machine() as house, Machine() as phone:
        house.cable("eth0", phone, "eth0")
        house.address("eth0", "192.0.2.1/24")
        phone.address("eth0", "192.0.2.7/24", "192.0.2.9/24")
        with running([*house.command, str(MITMDUMP), *more], tmp_path) as (_, log):
            log.wait_for("proxy listening")

            def page(machine: Machine, *options: str) -> str:
                told = ("--silent", "--write-out", "%{http_code}", *options)
                return machine.run("curl", *told, "--proxy", "http://192.0.2.1:8080", f"http://{HOST}/")

            assert page(house).endswith("200")
            assert page(phone, "--interface", "192.0.2.9").endswith("200")
            answer = page(phone, "--interface", "192.0.2.7")
            assert answer.endswith("403")
            assert "Your address, 192.0.2.7, is not among those that may open it." in answer


@needs_browser
def test_it_shows_what_the_log_takes_and_which_files_were_damaged(
    tmp_path: Path, start: Callable[..., Proxy], chrome: Chrome
) -> None:
    write_list(tmp_path / "ads.yaml", "ads.test/")
    policy = write_policy(tmp_path, ["ads.yaml"], log={"folder": "log", "rows": 1000})
    first = time() - 5 * 86400 + 200
    database = Database(tmp_path / "log", LogSettings())
    entries = [entry_of_fields({"time": time_text(first + 432 * place)}) for place in range(1000)]
    database.append(entries, time())
    database.close()
    (tmp_path / "log" / "decisions.sqlite.damaged-20261128T090000.000000Z").touch()
    with profile(chrome, start(policy=policy)) as browser:
        browser.get(f"http://{HOST}/#/system")
        wait_for_words(browser, "records of the last day: 200")
        wait_for_words(browser, "set aside: decisions.sqlite.damaged-20261128T090000.000000Z.")
        wait_for_words(browser, "limited first by: rows (5 days)")


def test_where_nothing_is_decided_it_is_still_there(start: Callable[..., Proxy]) -> None:
    proxy = start(mode="off")
    assert proxy.get(f"http://{HOST}/").status_code == 200
    assert 'hushlist_mode{mode="off"} 1' in proxy.get(f"http://{HOST}/metrics").text


def test_its_flows_are_in_no_file_and_the_end_says_what_the_session_came_to(
    start: Callable[..., Proxy], tmp_path: Path
) -> None:
    proxy = start(save=tmp_path / "saved.flow")
    proxy.get("http://ads.test/one")
    assert "hushlist_decisions_total" in proxy.get(f"http://{HOST}/metrics").text
    with proxy.client() as client:
        of = client.get(f"http://{HOST}/api/v1/live", headers={"X-Hushlist": "live"}).json()["of"]
        with pytest.raises(httpx.ReadTimeout):  # whoever waits may leave
            client.get(f"http://{HOST}/api/v1/live?since=1&of={of}", headers={"X-Hushlist": "live"}, timeout=1)
    proxy.stop()
    saved = (tmp_path / "saved.flow").read_bytes()
    assert b"ads.test" in saved
    assert HOST.encode() not in saved
    assert "1 request decided: 1 blocked" in proxy.log.text()
    assert "Traceback" not in proxy.log.text()


@pytest.mark.parametrize("streamed", [None, "1"])
@pytest.mark.parametrize("http2", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_no_call_of_an_administrator_reaches_an_origin_however_its_body_comes(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path, streamed: str | None, http2: bool
) -> None:
    write_list(tmp_path / "ads.yaml", "ads.test/")
    people = [{"name": "max", "passphrase": hash_passphrase("correct horse"), "role": "manage"}]
    policy = write_policy(tmp_path, ["ads.yaml"], admin=people, **{"on-failure": "open"})
    proxy = start(policy=policy, options={"stream_large_bodies": streamed} if streamed else {})
    body = json.dumps({"name": "max", "passphrase": "correct horse"}).encode()
    url, headers = f"https://{HOST}/api/v1/session", {"X-Hushlist": "live", "Content-Type": "application/json"}

    def status(method: str, content: bytes | Iterator[bytes] = b"") -> int:
        with proxy.client(http2=http2) as client:
            return client.request(method, url, content=content, headers=headers).status_code

    with origin.watch() as arrived:
        told = [status("POST", body), status("POST", iter([body[:5], body[5:]])), status("POST", b" " * (1 << 17))]
        assert told == [200, 413, 413]
        assert {status(method, b"x") for method in ("PUT", "PATCH", "OPTIONS")} <= {403, 405}
    assert arrived.connections == 0
    assert "correct horse" not in proxy.log.text()
    assert "Traceback" not in proxy.log.text()
