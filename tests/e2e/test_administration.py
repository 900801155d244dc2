"""Who is no administrator: other sites' pages, and bodies that are too long, at the page of a family."""

from __future__ import annotations

import socket

import pytest
from selenium.webdriver import Chrome

from e2e.browser import wait_for_words, wait_until
from e2e.origin import LOOPBACK, Origin
from e2e.proxy import PATIENCE, Proxy, read_answer
from e2e.test_page import browser, family, folder, pytestmark, sign_in
from hushlist.extensions.dashboard.dashboard_server import HOST

__all__ = ["browser", "family", "folder", "pytestmark"]


@pytest.mark.parametrize("path", ["/api/v1/session", "/setup"])
@pytest.mark.parametrize(
    "body", [b"Content-Length: 900000000\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"]
)
def test_a_body_that_is_too_long_is_refused_before_it_arrives(family: Proxy, path: str, body: bytes) -> None:
    head = f"POST http://{HOST}{path} HTTP/1.1\r\nHost: {HOST}\r\nX-Hushlist: live\r\n".encode()
    with socket.create_connection((LOOPBACK, family.port), PATIENCE) as client:
        client.sendall(head + body)
        assert read_answer(client, "POST").status == 413


def test_another_site_s_page_does_nothing_with_the_session(browser: Chrome, family: Proxy, origin: Origin) -> None:
    sign_in(browser)
    origin.pages["/attack"] = ("text/html", b"<!doctype html><title>Attack</title>")
    browser.get("http://evil.test/attack")
    attack = """
        const [page, done] = arguments;
        const body = '{"group": "default", "minutes": 60}';
        const own = {method: "POST", credentials: "include", body};
        const send = (more) => fetch(page + "/api/v1/pauses", {...own, ...more}).then((one) => one.status, () => -1);
        const headers = {"Content-Type": "application/json", "X-Hushlist": "live", "X-Hushlist-Token": "0"};
        Promise.all([send({}), send({mode: "no-cors"}), send({headers})]).then(done);
    """
    assert not {200, 204} & set(browser.execute_async_script(attack, f"http://{HOST}"))
    form = """
        const form = Object.assign(document.createElement("form"), {method: "post", action: arguments[0]});
        const [name, value] = ['{"group": "default", "minutes": 60, "a', '": 1}'];
        form.append(Object.assign(document.createElement("input"), {name, value}));
        form.enctype = "text/plain";
        document.body.append(form);
        form.submit();
    """
    browser.execute_script(form, f"http://{HOST}/api/v1/pauses")
    wait_until(browser, lambda one: HOST in one.current_url)
    sign_in(browser, screen="rules")
    wait_for_words(browser, "Nothing at present.")
