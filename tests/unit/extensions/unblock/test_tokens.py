"""Tokens: forged, replayed, stale, another's."""

from __future__ import annotations

import base64
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.unblock import overrides as module
from hushlist.extensions.unblock.credentials import LIFETIME, TokenError, TokenFault, Tokens
from hushlist.extensions.unblock.overrides import Overrides
from support.clock import Clock
from unit.rows import each_row

CLIENT, URL, PURPOSE = "192.0.2.7", "http://h.example/a?q", "passphrase"


@pytest.fixture
def tokens(overrides: Overrides) -> Tokens:
    return overrides.tokens()


def refused(tokens: Tokens, token: str, *about: str) -> TokenFault:
    with pytest.raises(TokenError) as raised:
        tokens.check(token, *(about or (CLIENT, URL, PURPOSE)))  # type: ignore[misc]
    return raised.value.fault


def made(tokens: Tokens) -> str:
    return tokens.make(CLIENT, URL, PURPOSE)


def test_a_token_is_good_once(tokens: Tokens) -> None:
    token = made(tokens)
    tokens.check(token, CLIENT, URL, PURPOSE)
    assert refused(tokens, token) is TokenFault.USED
    tokens.check(made(tokens), CLIENT, URL, PURPOSE)


def test_a_token_can_stand_in_a_url_and_says_nothing(tokens: Tokens) -> None:
    token = made(tokens)
    assert token.replace("-", "").replace("_", "").isalnum()
    assert len(token) == 100
    assert CLIENT.encode() not in base64.urlsafe_b64decode(token)
    assert made(tokens) != token


@each_row(
    "about",
    [
        ("192.0.2.8", URL, PURPOSE),
        ("192.0.2.7h", "ttp://h.example/a?q", PURPOSE),
        (CLIENT, URL + "x", PURPOSE),
        (CLIENT, "", PURPOSE),
        (CLIENT, URL, "warning"),
        (URL, CLIENT, PURPOSE),
        ("\udc80", URL, PURPOSE),
    ],
)
def test_a_token_is_for_its_client_url_and_purpose_and_is_not_used_up_by_others(
    tokens: Tokens, about: tuple[str, str, str]
) -> None:
    token = made(tokens)
    assert refused(tokens, token, *about) is TokenFault.OTHER
    assert (tokens.is_for(token, *about), tokens.is_for(token, CLIENT, URL, PURPOSE)) == (False, True)
    tokens.check(token, CLIENT, URL, PURPOSE)


@pytest.mark.parametrize(
    ("later", "good"), [(0, True), (LIFETIME, True), (LIFETIME + 0.01, False), (-60, True), (-61, False), (1e9, False)]
)
def test_a_token_is_good_for_half_an_hour(tokens: Tokens, clock: Clock, later: float, good: bool) -> None:
    token = made(tokens)
    clock.now += later
    if good:
        tokens.check(token, CLIENT, URL, PURPOSE)
    else:
        assert refused(tokens, token) is TokenFault.EXPIRED


def test_every_octet_of_a_token_is_authentic(tokens: Tokens) -> None:
    octets = base64.urlsafe_b64decode(made(tokens))
    for place in range(len(octets)):
        changed = bytearray(octets)
        changed[place] ^= 1
        assert refused(tokens, base64.urlsafe_b64encode(changed).decode()) is TokenFault.FORGED


@each_row(
    "spoil",
    [
        lambda token: "",
        lambda token: token[:-1],
        lambda token: token + "A",
        lambda token: token + "\n",
        lambda token: token[:-1] + "=",
        lambda token: token[:-1] + "+",
        lambda token: token[:-1] + "é",
        lambda token: token[:-1] + "\udc80",
        lambda token: " " + token[1:],
        lambda token: "A" * 1_000_000,
    ],
)
def test_what_is_no_token_is_refused(tokens: Tokens, spoil: Callable[[str], str]) -> None:
    assert refused(tokens, spoil(made(tokens))) is TokenFault.MALFORMED


def test_another_store_s_token_is_forged(tokens: Tokens, tmp_path: Path, clock: Clock) -> None:
    with Overrides(tmp_path / "other.sqlite", clock) as other:
        assert refused(tokens, made(other.tokens())) is TokenFault.FORGED


def test_a_used_token_is_remembered_by_all_and_over_a_restart(place: Path | PostgresAddress, clock: Clock) -> None:
    with Overrides(place, clock) as one, Overrides(place, clock) as two:
        token = made(one.tokens())
        two.tokens().check(token, CLIENT, URL, PURPOSE)
        assert refused(one.tokens(), token) is TokenFault.USED
    with Overrides(place, clock) as after:
        clock.now += LIFETIME
        after.tokens().check(made(after.tokens()), CLIENT, URL, PURPOSE)
        assert refused(after.tokens(), token) is TokenFault.USED


def test_one_of_many_at_once_is_accepted(place: Path | PostgresAddress, clock: Clock) -> None:
    with Overrides(place, clock) as one, Overrides(place, clock) as two:
        token = made(one.tokens())

        def check(number: int) -> TokenFault | None:
            try:
                (one, two)[number % 2].tokens().check(token, CLIENT, URL, PURPOSE)
            except TokenError as error:
                return error.fault
            return None

        with ThreadPoolExecutor(8) as threads:
            results = list(threads.map(check, range(16)))
        assert (results.count(None), results.count(TokenFault.USED)) == (1, 15)


def test_a_client_that_uses_up_its_own_keeps_nobody_out(overrides: Overrides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NONCES_OF_CLIENT", 2)
    tokens = overrides.tokens()
    for _ in range(2):
        tokens.check(made(tokens), CLIENT, URL, PURPOSE)
    assert refused(tokens, made(tokens)) is TokenFault.USED
    tokens.check(tokens.make("another", URL, PURPOSE), "another", URL, PURPOSE)


def test_nonces_are_forgotten_when_they_are_too_old_and_a_flood_is_refused(
    overrides: Overrides, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_NONCES", 3)
    tokens = overrides.tokens()
    first, *_ = used = [made(tokens) for _ in range(3)]
    for token in used:
        tokens.check(token, CLIENT, URL, PURPOSE)
    assert refused(tokens, made(tokens)) is TokenFault.USED
    assert refused(tokens, first) is TokenFault.USED
    clock.now += LIFETIME + 120
    tokens.check(made(tokens), CLIENT, URL, PURPOSE)
    assert refused(tokens, first) is TokenFault.EXPIRED


def test_a_clock_that_was_far_ahead_keeps_no_form_out(
    overrides: Overrides, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_NONCES", 3)
    tokens = overrides.tokens()
    for _ in range(3):
        tokens.check(made(tokens), CLIENT, URL, PURPOSE)
    clock.now -= 2 * 86400
    tokens.check(made(tokens), CLIENT, URL, PURPOSE)
