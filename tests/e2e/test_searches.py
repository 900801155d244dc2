"""What is typed into an engine is decided before any of it reaches the engine, as a query and as a form."""

from __future__ import annotations

import email
import gzip
import socket
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from email.message import EmailMessage
from email.policy import default
from io import StringIO
from math import inf
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import NamedTuple, cast

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from e2e.browser import BROWSER, DRIVER, profile, wait_for_words, wait_until
from e2e.origin import LOOPBACK, Origin
from e2e.policies import write_policy
from e2e.proxy import Proxy, mitmdump
from hushlist.cli import main
from support.waiting import wait_until as until
from unit.extensions.notify.servers import SmtpServer

QUERY, FORM = "https://www.ecosia.org", "https://www.startpage.com"
PAGE = b'<title>Engine</title><form action="%s" method="%s"><input name="q"></form>'


@pytest.fixture(scope="module")
def searching(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("searches")
    (folder / "flag.searches").write_text("kill+myself\n")
    policy = write_policy(folder, [{"file": "flag.searches", "reason": "Talk to us"}])
    with mitmdump(tmp_path_factory.mktemp("mitmdump"), origin, policy=policy) as running:
        yield running


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_no_octet_of_a_form_that_is_blocked_reaches_the_engine(
    searching: Proxy, origin: Origin, *, http2: bool, is_chunked: bool
) -> None:
    def sent(form: bytes, path: str = "/sp/search", **more: str) -> int:
        content = iter([form[:5], form[5:]]) if is_chunked else form
        kind = {"Content-Type": "application/x-www-form-urlencoded"} | more
        with searching.client(http2=http2) as client:
            return client.post(FORM + path, content=content, headers=kind).status_code

    with origin.watch() as arrived:
        assert sent(b"query=My%73elf+k%EF%BD%89ll") == 403
        assert sent(b"query=fine&query=" + b"a" * (1 << 16)) == 403
        assert sent(gzip.compress(b"query=kill+myself"), **{"Content-Encoding": "gzip"}) == 403
        assert sent(b"query[]=kill+myself", **{"Content-Type": ""}) == 403
    assert (arrived.connections, arrived.requests) == (0, [])
    with origin.watch() as arrived:
        assert sent(b"query=myself") == 200
        assert sent(b"query=kill+myself", "/elsewhere") == 200
    assert [request.body for request in arrived.requests] == [len(b"query=myself"), len(b"query=kill+myself")]


@pytest.mark.skipif(not BROWSER or not DRIVER, reason="there is no Chromium with its ChromeDriver on PATH")
@pytest.mark.xdist_group("chromium")
@pytest.mark.parametrize(
    ("site", "action", "method"),
    [
        pytest.param(QUERY, b"/search", b"get", id="query"),
        pytest.param(FORM, b"/sp/search", b"post", id="form", marks=pytest.mark.thorough),
    ],
)
def test_somebody_types_it_into_a_browser(
    searching: Proxy, chrome: Chrome, origin: Origin, site: str, action: bytes, method: bytes
) -> None:
    origin.pages |= {"/start": ("text/html", PAGE % (action, method)), action.decode(): ("text/html", b"<p>Results")}
    with profile(chrome, searching) as browser:
        for typed, words in (("how to KILL\N{ZERO WIDTH SPACE} myself", "Talk to us"), ("kill weeds", "Results")):
            browser.get(f"{site}/start")
            before = len(origin.requests)
            browser.find_element(By.NAME, "q").send_keys(typed + Keys.ENTER)
            wait_until(browser, lambda one: one.title != "Engine")
            wait_for_words(browser, words)
            asked = [own for own in origin.requests[before:] if own.target.startswith(action)]
            assert bool(asked) == (words == "Results")


class Mail(NamedTuple):
    #: by the clock of the test
    at: float
    message: EmailMessage


@contextmanager
def mailbox() -> Iterator[tuple[int, list[Mail]]]:
    """The port of a server of mail on loopback, and what has arrived."""
    arrived: list[Mail] = []
    with socket.create_server((LOOPBACK, 0)) as server:

        def serve() -> None:
            with suppress(OSError):  # the server is closed
                while True:
                    connection, _ = server.accept()
                    smtp = SmtpServer()
                    smtp(connection)
                    message = email.message_from_bytes(smtp.mail, policy=default)
                    arrived.append(Mail(monotonic(), cast(EmailMessage, message)))

        Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], arrived
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.skipif(not BROWSER or not DRIVER, reason="there is no Chromium with its ChromeDriver on PATH")
@pytest.mark.xdist_group("chromium")
@pytest.mark.thorough
def test_what_somebody_types_is_one_mail_at_once_and_one_more_until_somebody_has_seen_it(
    tmp_path: Path, chrome: Chrome, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    origin.pages |= {"/start": ("text/html", PAGE % (b"/search", b"get")), "/search": ("text/html", b"<p>Results")}
    (tmp_path / "flag.searches").write_text("kill+myself\n")
    with mailbox() as (port, arrived):
        who = {"name": "parents", "mail": "jo@a.test", "from": "f@a.test", "server": LOOPBACK}
        policy = write_policy(
            tmp_path,
            [{"file": "flag.searches", "action": "tag"}],
            notify=[{**who, "port": port, "tls": "none"}],
            alerts=[{"name": "flags", "when": {"search": "on"}, "within": "1h", "escalate": {"after": "8s"}}],
        )
        (tmp_path / "mitmdump").mkdir()
        with mitmdump(tmp_path / "mitmdump", origin, policy=policy) as proxy, profile(chrome, proxy) as browser:
            first = inf
            for typed in (
                "kill weeds",
                "kill myself",
                "how to KILL myself",
                "MYSELF, kill",
            ):
                browser.get(f"{QUERY}/start")
                browser.find_element(By.NAME, "q").send_keys(typed + Keys.ENTER)
                first = min(first, monotonic() if "myself" in typed else inf)
                wait_for_words(browser, "Results")
            until(lambda: len(arrived) == 2)
            with redirect_stdout(StringIO()) as printed:
                assert main(["alerts", "seen", "1"]) == 0
    one, again = arrived
    assert one.at - first < 5
    assert again.at - one.at + 0.5 >= 8
    assert [own.message["Subject"] for own in arrived] == [f"flags: {LOOPBACK}"] * 2
    assert "kill+weeds" not in one.message.get_content()
    assert "Nobody has said yet" in again.message.get_content()
    assert "Times: 3" in again.message.get_content()
    assert printed.getvalue().startswith("seen: 1")
