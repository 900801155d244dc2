"""Who may open the first start: a token works once, a cookie for an hour, and a form is the page's own."""

from __future__ import annotations

import pytest
from mitmproxy import http

from hushlist.core.policy.groups import Client
from hushlist.extensions.first_start.set_up_access import COOKIE, SetUpAccess, is_here
from support.clock import Clock
from unit.rows import each_row

HERE, PUPIL = Client("127.0.0.1"), Client("10.9.8.7")


def request_of(cookie: str = "", **headers: str) -> http.Request:
    request = http.Request.make("GET", "http://127.0.0.1:8080/start")
    request.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    if cookie:
        request.headers["cookie"] = f"{COOKIE}={cookie}"
    return request


@pytest.fixture
def access(clock: Clock) -> SetUpAccess:
    return SetUpAccess(clock)


@pytest.fixture
def clock() -> Clock:
    return Clock(1000.0)


def test_a_token_works_once(access: SetUpAccess) -> None:
    token = access.token
    assert access.redeem("wrong") is None
    assert access.redeem("") is None
    cookie = access.redeem(token)
    assert cookie is not None
    assert access.redeem(token) is None
    assert access.token not in (token, cookie)
    assert access.may(request_of(cookie), PUPIL)
    assert not access.may(request_of(token), PUPIL)


def test_a_cookie_ends(access: SetUpAccess, clock: Clock) -> None:
    first = access.redeem(access.token)
    second = access.redeem(access.token)
    assert first is not None and second is not None  # noqa: PT018
    assert not access.may(request_of(first), PUPIL)
    clock.now += 3599
    assert access.may(request_of(second), PUPIL)
    clock.now += 2
    assert not access.may(request_of(second), PUPIL)


@each_row("client", ["10.9.8.7", "192.168.1.1", "::ffff:10.9.8.7", "", "fd00::1"])
def test_nobody_on_the_network_may(client: str) -> None:
    access = SetUpAccess()
    for cookie in ("", "x", access.token):
        assert not access.may(request_of(cookie), Client(client))
    assert not access.may(request_of(""), Client(client))


@each_row("client", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
def test_whoever_is_on_the_machine_may(client: str) -> None:
    assert SetUpAccess().may(request_of(), Client(client))


@each_row("header", ["Via", "Forwarded", "X_Forwarded_For", "X_Real_IP"])
def test_what_another_proxy_hands_on_is_from_anywhere(header: str) -> None:
    assert not is_here(request_of(**{header: "x"}), HERE)


def test_a_form_is_of_whom_it_was_made_for(access: SetUpAccess) -> None:
    cookie = access.redeem(access.token) or ""
    here, there = access.form_token(request_of(), HERE), access.form_token(request_of(cookie), PUPIL)
    assert here != there
    assert access.is_form(request_of(), HERE, here)
    assert access.is_form(request_of(cookie), PUPIL, there)
    for wrong in (there, "", "x", "é"):
        assert not access.is_form(request_of(), HERE, wrong)
    assert not SetUpAccess().is_form(request_of(), HERE, here)
