"""``hushlist serve-lists`` and clients that nobody here wrote: Firefox, gglsbl, and google-api-python-client."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from documentation import blocks
from e2e.browser import CERTUTIL, FIREFOX, Firefox, firefox
from e2e.list_server import list_server
from e2e.origin import PATIENCE, Origin, write_certificate
from e2e.proxy import CHECKOUT
from hushlist.cli import main

pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("safe browsing")]

#: the title of Firefox's own page
WARNING = "Visiting this website may harm your computer"
SCRIPTS = Path(__file__).parent / "scripts"

needs_google = pytest.mark.skipif(
    find_spec("googleapiclient") is None, reason="google-api-python-client is not installed: the extra 'clients'"
)
needs_gglsbl = pytest.mark.skipif(
    find_spec("gglsbl") is None or find_spec("googleapiclient") is None,
    reason="gglsbl is not installed: pip install --no-deps gglsbl, beside the extra 'clients'",
)


@pytest.fixture
def school(tmp_path: Path) -> Path:
    """The folder of a school that publishes a list."""
    (tmp_path / "policy.yaml").write_text("layers: [{name: school, lists: [games.domains]}]")
    (tmp_path / "games.domains").write_text("blocked.test\nother.test\n")
    return tmp_path


# -- programs ----------------------------------------------------------------------------------------------------------


@needs_google
def test_google_s_client_updates_and_looks_up(school: Path) -> None:
    with list_server(school) as server:
        command = [sys.executable, str(SCRIPTS / "google_client.py"), server.url, "blocked.test"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["lists"][0] == "MALWARE"
    assert told["v4"] == ["FULL_UPDATE", "PARTIAL_UPDATE"]
    assert told["names"] == ["mw-4b", "se-4b", "uws-4b", "pha-4b"]
    assert told["v5"] == [False] * 4 + [True] * 4
    assert [match["threatType"] for match in told["matches"]] == ["MALWARE"]
    assert [full["fullHashDetails"] for full in told["hashes"]] == [[{"threatType": "MALWARE"}]]


@needs_gglsbl
def test_gglsbl_updates_and_looks_up(school: Path) -> None:
    with list_server(school, "--wait", "1") as server:
        command = [
            sys.executable,
            "-W",
            "ignore",
            str(SCRIPTS / "gglsbl_client.py"),
            server.url,
            str(school / "known.db"),
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdin is not None
            assert client.stdout is not None

            def ask(line: str) -> Any:
                print(line, file=client.stdin, flush=True)
                return json.loads(client.stdout.readline())

            assert ask("update") == 4
            assert ask("http://www.blocked.test/page") == ["MALWARE"]
            assert ask("http://neighbour.test/") == []
            start = len(server.log)
            (school / "games.domains").write_text("other.test\nneighbour.test\n")
            server.log.wait_for(r"mw-4b: version 2, 2 full hashes", start)
            assert ask("update") == 4
            assert ask("http://neighbour.test/") == ["MALWARE"]
            assert ask("http://www.blocked.test/page") == []
            client.stdin.close()


def test_https_and_keys(school: Path) -> None:
    certificate, key = write_certificate(school)
    (school / "keys").write_text("# clients\nfirst\nsecond\n")
    for secret in (key, school / "keys"):
        secret.chmod(0o600)
    options = ("--certificate", str(certificate), "--key", str(key), "--client-keys", "keys")
    with list_server(school, *options) as server, httpx.Client(base_url=server.url, verify=False) as client:
        assert server.url.startswith("https://")
        assert client.get("/v4/threatLists").status_code == 403
        assert len(client.get("/v4/threatLists?key=second").json()["threatLists"]) == 4


@pytest.mark.parametrize(("version", "lists"), [(4, "MALWARE"), (5, "mw-4b")])
def test_our_own_client_is_stopped_by_our_own_server(
    school: Path, version: int, lists: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(school / "home"))
    policy = school / "home.yaml"

    def hushlist(command: str, *arguments: str) -> str:
        main([command, "--policy", str(policy), *arguments])
        return capsys.readouterr().out

    with list_server(school, "--wait", "1") as server:
        own = f"{{version: {version}, lists: [{lists}], server: '{server.url}', category: {{MALWARE: 'hrn://a.example/bad'}}}}"
        policy.write_text(f"layers: [{{name: lists, lists: [{{safe-browsing: {own}, optional: true}}]}}]")
        told = hushlist("update")
        assert hushlist("check", "http://www.blocked.test/page").startswith("block"), told
        assert hushlist("check", "http://neighbour.test/page").startswith("pass")


# -- Firefox -----------------------------------------------------------------------------------------------------------


def firefox_version() -> int:
    if FIREFOX is None:
        return 0
    told = subprocess.run([FIREFOX, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"([0-9]+)\.", told)
    return int(found[1]) if found else 0


def preferences(server: str, version: int) -> dict[str, object]:
    """What ``rules/safe-browsing.md`` has a Firefox set, for this server."""
    (block,) = (one for one in blocks("rules/safe-browsing.md", "js") if f"/v{version}/" in one)
    found = re.findall(r'^user_pref\(("[^"]*"), (.*)\);$', block.replace("https://lists.school.example", server), re.M)
    assert len(found) == block.count("\n")
    return {json.loads(name): json.loads(value) for name, value in found}


def own_preferences(*names: str) -> dict[str, object]:
    """What leads these names to the origin on loopback, and keeps Firefox from asking anybody else for anything."""
    return {
        "browser.safebrowsing.malware.enabled": True,  # as it is, but where Firefox is driven by a program
        "browser.safebrowsing.phishing.enabled": True,
        "network.proxy.type": 0,
        "network.dns.localDomains": ",".join(names),
        "network.captive-portal-service.enabled": False,
        "network.connectivity-service.enabled": False,
        "datareporting.policy.dataSubmissionEnabled": False,
        "app.normandy.enabled": False,
        "services.settings.server": "http://127.0.0.1:9/",
        "dom.security.https_only_mode": False,
        "dom.security.https_first": False,
    }


def wait_for_title(browser: Firefox, url: str, title: str) -> None:
    """Open a page until it has a title; that of a page which Firefox stops is its warning's, and its address stays."""
    end, shown = time.monotonic() + PATIENCE, ""
    while title not in shown:
        assert time.monotonic() < end, f"{url} shows {shown!r}"
        browser.get(url)
        shown = browser.title
        time.sleep(0.2)


EXAMPLE = CHECKOUT / "examples" / "school" / "policy.yaml"


@pytest.mark.skipif(FIREFOX is None or CERTUTIL is None, reason="no Firefox, or no certutil")
@pytest.mark.parametrize(
    ("version", "policy", "options", "stopped"),
    [
        pytest.param(
            4, EXAMPLE, ("--list", "Games=MALWARE", "--list", "Adult=MALWARE"), "games.example", id="4, example"
        ),
        pytest.param(5, None, (), "blocked.test", id="5"),
    ],
)
def test_firefox_is_stopped_by_a_school_s_list(
    school: Path, origin: Origin, version: int, policy: Path | None, options: tuple[str, ...], stopped: str
) -> None:
    if version == 5 and firefox_version() < 153:
        pytest.skip(f"Firefox {firefox_version()} does not speak Safe Browsing v5")
    home = school / "firefox"
    home.mkdir()
    origin.pages["/page"] = ("text/html", b"<title>the neighbour</title>")
    update, search = {
        4: (r"GET\t/v4/threatListUpdates:fetch\t200", r"GET\t/v4/fullHashes:find\t200"),
        5: (r"GET\t/v5/hashLists:batchGet\t200", r"GET\t/v5/hashes:search\t200"),
    }[version]
    with list_server(school, *options, policy=policy) as server:
        settings = {**preferences(server.url, version), **own_preferences(f"www.{stopped}", "neighbour.test")}
        with firefox(home, (), settings) as browser:
            server.log.wait_for(update)
            wait_for_title(browser, f"http://www.{stopped}:{origin.http_port}/page", WARNING)
            server.log.wait_for(search)
            wait_for_title(browser, f"http://neighbour.test:{origin.http_port}/page", "the neighbour")
    assert stopped not in server.log.text()
    kept = b"".join(path.read_bytes() for path in (home / "safebrowsing").rglob("*") if path.is_file())
    assert kept
    assert stopped.encode() not in kept
    assert b"other.test" not in kept
