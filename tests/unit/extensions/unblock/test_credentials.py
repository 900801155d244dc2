"""Passphrases: the stored form, and what is refused."""

from __future__ import annotations

import hashlib
import unicodedata

import pytest

from hushlist.extensions.unblock import credentials as module
from hushlist.extensions.unblock.credentials import hash_passphrase, parse_stored, verify_passphrase
from unit.rows import each_row

SALT, HASH = "A" * 22, "A" * 43


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCRYPT_N", 2)


@each_row("text", ["correct horse", "é", "\U0001f98a fox", "x" * 1024, "a\0b", "\udc80", " "])
def test_a_passphrase_is_verified_by_its_stored_form(text: str) -> None:
    stored = hash_passphrase(text)
    assert verify_passphrase(text, stored)
    for other in (text + "x", text.swapcase() + " ", "", "x" * 1025):
        assert not verify_passphrase(other, stored)


def test_a_stored_form_is_another_one_each_time_and_shows_nothing() -> None:
    one, two = hash_passphrase("correct horse"), hash_passphrase("correct horse")
    assert one != two
    assert "correct" not in one
    assert parse_stored(one).salt != parse_stored(two).salt


def test_keyboards_may_differ_in_how_they_write_a_letter() -> None:
    composed = "Müllerstraße é"
    assert verify_passphrase(unicodedata.normalize("NFD", composed), hash_passphrase(composed))


def test_the_cost_is_that_of_the_stored_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCRYPT_N", 1 << 15)
    stored = hash_passphrase("correct horse")
    assert stored.startswith("scrypt$n=32768,r=8,p=1$")
    monkeypatch.setattr(module, "SCRYPT_N", 2)
    assert verify_passphrase("correct horse", stored)


def test_the_hash_is_scrypt_s_of_the_passphrase() -> None:
    stored = hash_passphrase("correct horse")
    n, r, p, salt, found = parse_stored(stored)
    assert found == hashlib.scrypt(b"correct horse", salt=salt, n=n, r=r, p=p, dklen=32)


@pytest.mark.parametrize("text", ["", "x" * 1025])
def test_what_nobody_types_has_no_stored_form(text: str) -> None:
    with pytest.raises(ValueError, match="1 to 1024 characters"):
        hash_passphrase(text)


@each_row(
    ("stored", "reason"),
    [
        ("", "expected scrypt"),
        ("correct horse", "expected scrypt"),
        (f"bcrypt$n=16,r=8,p=1${SALT}${HASH}", "expected scrypt"),
        (f"scrypt$n=16,r=8${SALT}${HASH}", "expected scrypt"),
        (f"scrypt$n=16,r=8,p=1${SALT}${HASH}\n", "expected scrypt"),
        (f"scrypt$n=16,r=8,p=1${SALT}==${HASH}=", "expected scrypt"),
        (f"scrypt$n=0,r=8,p=1${SALT}${HASH}", "no power of two"),
        (f"scrypt$n=1,r=8,p=1${SALT}${HASH}", "no power of two"),
        (f"scrypt$n=1000,r=8,p=1${SALT}${HASH}", "no power of two"),
        (f"scrypt$n=536870912,r=8,p=1${SALT}${HASH}", "at most"),
        (f"scrypt$n=16,r=0,p=1${SALT}${HASH}", "r is above 0"),
        (f"scrypt$n=16,r=8,p=0${SALT}${HASH}", "p is 1 to"),
        (f"scrypt$n=16,r=8,p=999${SALT}${HASH}", "p is 1 to"),
        (f"scrypt$n=16,r=8,p=1$AAAA${HASH}", "the salt has 3 octets"),
        (f"scrypt$n=16,r=8,p=1${SALT}$AAAA", "the hash has 3 octets"),
        (f"scrypt$n=16,r=8,p=1${SALT}${HASH}{HASH}{HASH}", "the hash"),
        (f"scrypt$n=16,r=8,p=1$A{HASH[:4]}${HASH}", "the salt is no base64"),
        (f"scrypt$n=16,r=8,p=1${'A' * 21}B${HASH}", "the salt is no base64"),
    ],
)
def test_a_malformed_stored_form_is_refused_with_a_reason(stored: str, reason: str) -> None:
    for read in (parse_stored, lambda text: verify_passphrase("correct horse", text)):
        with pytest.raises(ValueError, match=reason) as raised:
            read(stored)
        assert HASH not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "r", "p"),
    [(2, 1, 1), (1 << 14, 8, 2), (1 << 16, 8, 1), (2, 1, 16), pytest.param(1 << 17, 16, 1, marks=pytest.mark.thorough)],
)
def test_whatever_cost_is_allowed_can_be_paid(n: int, r: int, p: int) -> None:
    assert not verify_passphrase("correct horse", f"scrypt$n={n},r={r},p={p}${SALT}${HASH}")
