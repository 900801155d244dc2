"""Updates: whatever goes wrong, the last good copy stays in force, and a line says why."""

import gzip
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest
import zstandard

from hushlist.cli import main
from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.policy.policy_file import PolicyError
from hushlist.extensions.subscriptions import list_fetch, list_update
from hushlist.extensions.subscriptions.list_outcome import ListUpdate, Outcome
from hushlist.extensions.subscriptions.list_store import ListStore
from hushlist.extensions.subscriptions.list_update import subscribed_lists, update_lists
from hushlist.extensions.subscriptions.minisign import SecretKey
from support.https_origin import Handler, HttpsOrigin, Page

OLD, NEW = b"old.example\nboth.example\n", b"# a comment\nnew.example\nboth.example\nmore.example\n"
HTML = b"<!DOCTYPE html>\n<html><head><title>Sorry</title></head>\n<body><p>Gone</p></body></html>\n"
DAY = 86400


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpsOrigin]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with HttpsOrigin(tmp_path / "origin") as origin:
        monkeypatch.setenv("SSL_CERT_FILE", str(origin.authority))
        origin.pages["/list"] = Page(OLD)
        yield origin


def policy_of(folder: Path, origin: HttpsOrigin, more: str = "", url: str = "") -> Path:
    path = folder / "policy.yaml"
    entry = f"url: '{url or origin.url + '/list'}', format: domains{more and ', ' + more}"
    path.write_text(f"layers: [{{name: lists, lists: [{{{entry}}}]}}]\n")
    return path


@pytest.fixture
def policy(tmp_path: Path, origin: HttpsOrigin) -> Path:
    return policy_of(tmp_path, origin)


def update(policy: Path, *, only_due: bool = False) -> ListUpdate:
    (found,) = update_lists(policy, subscribed_lists(policy), only_due=only_due)
    return found


def test_a_list_of_services_that_loses_one_keeps_all_and_says_which(tmp_path: Path, origin: HttpsOrigin) -> None:
    services = [{"id": name, "rules": [f"||{name}.example^"]} for name in ("a", "b", "c")]
    policy = policy_of(tmp_path, origin)
    policy.write_text(policy.read_text().replace("format: domains", "format: services"))
    origin.pages["/list"] = Page(json.dumps({"blocked_services": services}).encode())
    assert update(policy).outcome is Outcome.UPDATED
    origin.pages["/list"] = Page(json.dumps({"blocked_services": services[1:]}).encode())
    found = update(policy)
    assert (found.outcome, found.why) == (Outcome.HELD, "it has no a any more")
    assert len(load_engine(policy).index) == 3


def store_of(policy: Path) -> ListStore:
    (own,) = subscribed_lists(policy)
    return own.store


def in_force(policy: Path) -> bytes | None:
    version = store_of(policy).current()
    return None if version is None else version.path.read_bytes()


def decides(policy: Path, host: str) -> str:
    return load_engine(policy).decide_url(f"http://{host}/".encode()).action.value


def test_a_list_is_fetched_compiled_and_named_by_its_url(policy: Path, origin: HttpsOrigin) -> None:
    assert str(update(policy)) == f"{origin.url}/list: updated +2 -0 lines"
    assert decides(policy, "old.example") == "block"
    decision = load_engine(policy).decide_url(b"http://old.example/")
    assert decision.winner is not None
    assert f"{origin.url}/list:1" in str(decision.winner)
    assert [own.source for own in compile_policy(policy).report.lists] == [f"{origin.url}/list"]


def test_what_has_not_changed_is_not_sent_again(policy: Path, origin: HttpsOrigin) -> None:
    origin.pages["/list"] = Page(OLD, headers={"ETag": '"7"', "Last-Modified": "Mon"})
    update(policy)
    before = store_of(policy).pointer.stat().st_ino
    assert update(policy).outcome is Outcome.UNCHANGED
    assert origin.requests[-1][1]["if-none-match"] == '"7"'
    assert store_of(policy).pointer.stat().st_ino == before
    store_of(policy).current().path.unlink()  # type: ignore[union-attr]
    assert update(policy).outcome is Outcome.UPDATED
    assert "if-none-match" not in origin.requests[-1][1]
    assert in_force(policy) == OLD


# -- when --------------------------------------------------------------------------------------------------------------


def pause_after(policy: Path, monkeypatch: pytest.MonkeyPatch) -> float:
    """Seconds until a list is asked for again, without chance."""
    monkeypatch.setattr(random, "uniform", lambda *_: 1.0)
    update(policy)
    state = store_of(policy).state()
    return round(state.next_try - state.tried)


@pytest.mark.parametrize(
    ("more", "head", "seconds"),
    [
        ("", b"", DAY),
        ("every: 15m", b"", 900),
        ("every: 30d", b"# Expires: 1 hour\n", 30 * DAY),
        ("", b"! Expires: 4 days (update frequency)\n", 4 * DAY),
        ("", b"# Title: x\n#Expires: 12 hours\n", DAY // 2),
        ("", b"! Expires: 5\n", 5 * DAY),
        ("", b"! Expires: 0 h\n", 3600),
        ("", b"! Expires: 9999 days\n", 14 * DAY),
        ("", b"! Expires: never\n", DAY),
    ],
)
def test_the_policy_says_how_often_or_else_the_list(
    tmp_path: Path, origin: HttpsOrigin, monkeypatch: pytest.MonkeyPatch, more: str, head: bytes, seconds: float
) -> None:
    origin.pages["/list"] = Page(head + OLD)
    assert pause_after(policy_of(tmp_path, origin, more), monkeypatch) == seconds


def test_a_fault_is_tried_again_later_and_later(
    policy: Path, origin: HttpsOrigin, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.pages["/list"] = Page(b"", 500)
    pauses = [pause_after(policy, monkeypatch) for _ in range(9)]
    assert pauses == [900, 1800, 3600, 7200, 14400, 28800, 57600, DAY, DAY]
    assert store_of(policy).state().faults == 9
    origin.pages["/list"] = Page(b"", 503, {"Retry-After": str(3 * DAY)})
    assert pause_after(policy, monkeypatch) == 3 * DAY
    origin.pages["/list"] = Page(OLD)
    assert pause_after(policy, monkeypatch) == DAY
    assert (store_of(policy).state().faults, store_of(policy).state().fault) == (0, "")


def test_only_what_is_due_is_asked_for(policy: Path, origin: HttpsOrigin, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = subscribed_lists(policy)
    for _ in range(2):
        list(update_lists(policy, lists, only_due=True))
        assert len(origin.requests) == 1
    now = time.time()
    for clock, requests in ((now + 2 * DAY, 2), (now - 400 * DAY, 3), (now - 400 * DAY, 3), (now, 4)):
        with monkeypatch.context() as jumped:  # forward, and back
            jumped.setattr(time, "time", lambda clock=clock: clock)
            list(update_lists(policy, lists, only_due=True))
        assert len(origin.requests) == requests


# -- faults ------------------------------------------------------------------------------------------------------------


def drip(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
    for _ in range(600):
        handler.wfile.write(b"x")
        time.sleep(0.05)


def endless(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        handler.wfile.write(b"2710\r\n" + b"h.example\n" * 1000 + b"\r\n")


FAULTS = [
    (Page(b"", 404), Outcome.FAILED, "the server says 404 Not Found"),
    (Page(b"", 500), Outcome.FAILED, "the server says 500 Internal Server Error"),
    (Page(b"", 304), Outcome.FAILED, "the server says 304 Not Modified"),
    (
        Page(status=302, headers={"Location": "http://localhost/"}),
        Outcome.FAILED,
        "it redirects to 'http://localhost/'",
    ),
    (Page(status=302, headers={"Location": "/list"}), Outcome.FAILED, "it redirects too often"),
    (Page(write=drip), Outcome.FAILED, "it was not done after 1 seconds"),
    (Page(write=lambda handler: handler.connection.close()), Outcome.FAILED, ""),
    (
        Page(write=lambda handler: handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nx") and None),
        Outcome.FAILED,
        "it was cut off: 98 octets are missing",
    ),
    (Page(gzip.compress(bytes(5_000_000))), Outcome.FAILED, "it is longer than 1,000,000 octets"),
    (Page(zstandard.compress(bytes(5_000_000))), Outcome.FAILED, "it is longer than 1,000,000 octets"),
    (Page(write=endless), Outcome.FAILED, "it is longer than 1,000,000 octets"),
    (
        Page(status=302, headers={"Location": "https://127.0.0.1/"}),
        Outcome.FAILED,
        "it redirects to the address 127.0.0.1, which is not one of the internet",
    ),
    (Page(gzip.compress(NEW)[:-9]), Outcome.FAILED, ""),
    (Page(HTML), Outcome.HELD, "it cannot be read: line 1: the file begins as a web page does (HTML), and is no list"),
    (Page(b"# nothing\n"), Outcome.HELD, "nothing in it can be used"),
    (Page(b""), Outcome.HELD, "nothing in it can be used"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "outcome", "why", "is_first"),
    [*((*row, False) for row in FAULTS), *((*row, True) for row in (FAULTS[0], FAULTS[-1]))],
)
def test_a_fault_leaves_the_last_good_list_in_force(
    policy: Path,
    origin: HttpsOrigin,
    monkeypatch: pytest.MonkeyPatch,
    page: Page,
    outcome: Outcome,
    why: str,
    is_first: bool,
) -> None:
    if not is_first:
        update(policy)
    bounds = {"longest": 1_000_000, **({"deadline": 1.0} if page.write is drip else {})}
    bounded = lambda *args, **options: list_fetch.fetch(*args, **{**options, **bounds})  # noqa: E731
    monkeypatch.setattr(list_update, "fetch", bounded)
    origin.pages["/list"] = page
    found = update(policy)
    assert found.outcome is outcome
    assert found.why.startswith(why)
    assert found.why
    assert in_force(policy) == (None if is_first else OLD)
    state = store_of(policy).state()
    assert (state.fault or "; ".join(state.reasons)) == found.why
    assert not list(store_of(policy).folder.glob("draft*"))
    if not is_first:
        assert decides(policy, "old.example") == "block"
    bounds.pop("deadline", None)
    origin.pages["/list"] = Page(NEW)
    assert update(policy).outcome is Outcome.UPDATED
    assert in_force(policy) == NEW


def test_without_a_copy_nobody_fetches_but_who_is_to(policy: Path, origin: HttpsOrigin) -> None:
    why = f"there is no copy of it yet: run 'hushlist update --policy {policy}'"
    with pytest.raises(PolicyError, match="there is no copy") as raised:
        load_engine(policy)
    assert [(problem.line, problem.what, problem.why) for problem in raised.value.problems] == [
        (1, f"{origin.url}/list", why)
    ]
    assert origin.requests == []
    origin.pages["/list"] = Page(b"", 404)
    update(policy)
    with pytest.raises(PolicyError, match="and fetching it failed: the server says 404 Not Found; 'hushlist update"):
        load_engine(policy)


def test_what_is_held_back_stays_so_until_it_is_accepted_or_replaced(policy: Path, origin: HttpsOrigin) -> None:
    update(policy)
    bad = b"...\n,,,\n"
    origin.pages["/list"] = Page(bad, headers={"ETag": '"bad"'})
    for _ in range(2):
        assert update(policy).outcome is Outcome.HELD
    assert origin.requests[-1][1]["if-none-match"] == '"bad"'
    with store_of(policy).locked():
        store_of(policy).accept()
    assert (in_force(policy), update(policy).outcome) == (bad, Outcome.UNCHANGED)
    with store_of(policy).locked():
        store_of(policy).roll_back()
    assert in_force(policy) == OLD
    assert update(policy) == ListUpdate(f"{origin.url}/list", Outcome.HELD, "a person has rolled it back")
    origin.pages["/list"] = Page(NEW)
    assert update(policy).outcome is Outcome.UPDATED


def test_what_the_gate_doubts_is_held_back(tmp_path: Path, origin: HttpsOrigin) -> None:
    names = [b"%d.example\n" % at for at in range(200)]
    origin.pages["/list"] = Page(b"".join(names))
    policy = policy_of(tmp_path, origin)
    update(policy)
    origin.pages["/list"] = Page(b"".join(names[:90]))
    assert update(policy).why == "it loses 110 of 200 rules, more than 50 %"
    origin.pages["/list"] = Page(b"".join([*names, b"co.uk\n"]))
    assert update(policy).why.startswith("a new rule covers too much: line 201: co.uk/: ")
    (tmp_path / "popular").write_text("sub.popular.example\n")
    text = policy.read_text()
    policy.write_text(f"{text}gate: {{popular: popular}}\n")
    origin.pages["/list"] = Page(b"".join([*names, b"popular.example\n"]))
    assert update(policy).why.startswith("a new rule covers too much: line 201: popular.example/: ")
    assert len(in_force(policy) or b"") == sum(map(len, names))
    policy.write_text(f"{text}gate: off\n")
    assert update(policy).outcome is Outcome.UPDATED


@pytest.mark.slow
def test_two_processes_fetch_a_list_once(policy: Path, origin: HttpsOrigin) -> None:
    def slow(handler: Handler) -> None:
        time.sleep(1)
        origin.answer(handler, Page(OLD))

    origin.pages["/list"] = Page(write=slow)
    children = []
    for _ in range(2):
        if (child := os.fork()) == 0:
            list(update_lists(policy, subscribed_lists(policy), only_due=True))
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    assert len(origin.requests) == 1
    assert in_force(policy) == OLD


# -- what proves a list ------------------------------------------------------------------------------------------------


def sign(origin: HttpsOrigin, key: SecretKey, octets: bytes, moment: int, path: str = "/list.minisig") -> None:
    text = key.sign(BytesIO(octets), f"timestamp:{moment}\tfile:list\thashed")
    origin.pages["/list"], origin.pages[path] = Page(octets), Page(text.encode())


@pytest.fixture
def key() -> SecretKey:
    return SecretKey.generate()


@pytest.fixture
def signed(tmp_path: Path, origin: HttpsOrigin, key: SecretKey) -> Path:
    policy = policy_of(tmp_path, origin, f"key: '{key.public.line}'")
    sign(origin, key, OLD, 100)
    assert update(policy).outcome is Outcome.UPDATED
    return policy


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda origin, key: origin.pages.update({"/list": Page(NEW)}), "the file is not what was signed"),
        (lambda origin, key: sign(origin, SecretKey.generate(), NEW, 101), "it was signed with another key"),
        (lambda origin, key: sign(origin, key, NEW, 99), "is older than that of the last good version"),
        (lambda origin, key: (sign(origin, key, NEW, 101), origin.pages.pop("/list.minisig")), "the server says 404"),
        (
            lambda origin, key: (sign(origin, key, NEW, 101), origin.pages.update({"/list.minisig": Page(HTML)})),
            "it is no signature of minisign",
        ),
        (
            lambda origin, key: (sign(origin, key, NEW, 101), origin.pages.update({"/list.minisig": Page(HTML * 999)})),
            "it is longer than 16,384 octets",
        ),
    ],
)
def test_what_is_not_signed_as_the_policy_says_is_never_used_nor_accepted(
    signed: Path, origin: HttpsOrigin, key: SecretKey, change: Callable[[HttpsOrigin, SecretKey], object], why: str
) -> None:
    change(origin, key)
    found = update(signed)
    assert found.outcome is Outcome.FAILED
    assert why in found.why
    assert in_force(signed) == OLD
    with store_of(signed).locked():
        assert store_of(signed).accept() is None


@pytest.mark.parametrize("times", [1, 2])
def test_nothing_is_used_that_was_signed_before_what_a_person_has_accepted(
    signed: Path, origin: HttpsOrigin, key: SecretKey, times: int
) -> None:
    sign(origin, key, b"...\n,,,\n", 105)
    origin.pages["/list"].headers["ETag"] = '"105"'
    for _ in range(times):  # the second time, the server says that it is the same
        assert update(signed).outcome is Outcome.HELD
    with store_of(signed).locked():
        store_of(signed).accept()
    sign(origin, key, NEW, 103)
    found = update(signed)
    assert (found.outcome, "older than that of the last good version" in found.why) == (Outcome.FAILED, True)


def test_a_key_may_be_in_a_file_and_the_signature_elsewhere_also_over_http(
    tmp_path: Path, origin: HttpsOrigin, key: SecretKey
) -> None:
    (tmp_path / "list.pub").write_text(key.public.text)
    with HttpsOrigin(tmp_path / "plain", is_plain=True) as plain:
        sign(plain, key, OLD, 1, "/sig")
        more = f"key: list.pub, signature: '{plain.url}/sig'"
        policy = policy_of(tmp_path, plain, more)
        assert (update(policy).outcome, in_force(policy)) == (Outcome.UPDATED, OLD)


def test_a_digest_pins_the_content(tmp_path: Path, origin: HttpsOrigin) -> None:
    policy = policy_of(tmp_path, origin, f"sha256: {sha256(OLD).hexdigest().upper()}")
    assert update(policy).outcome is Outcome.UPDATED
    origin.pages["/list"] = Page(NEW)
    why = f"its SHA-256 is {sha256(NEW).hexdigest()}, not the one that the policy names"
    assert (update(policy).why, in_force(policy)) == (why, OLD)


def test_what_the_publisher_takes_back_is_no_longer_held_back(
    policy: Path, origin: HttpsOrigin, capsys: pytest.CaptureFixture[str]
) -> None:
    update(policy)
    origin.pages["/list"] = Page(HTML)
    assert update(policy).outcome is Outcome.HELD
    assert main(["lists", "--policy", str(policy)]) == 1
    assert "    held back: it cannot be read: line 1: the file begins as a web page does" in capsys.readouterr().out
    origin.pages["/list"] = Page(OLD)
    assert update(policy).outcome is Outcome.UNCHANGED
    assert store_of(policy).state().held == ""
    assert main(["lists", "--policy", str(policy)]) == 0


def test_a_damaged_copy_is_mended(policy: Path, origin: HttpsOrigin) -> None:
    origin.pages["/list"] = Page(OLD, headers={"ETag": '"7"'})
    update(policy)
    version = store_of(policy).current()
    assert version is not None
    version.path.write_bytes(b"other.example\n")
    assert update(policy).is_good
    assert "if-none-match" not in origin.requests[-1][1]
    assert (in_force(policy), decides(policy, "old.example")) == (OLD, "block")
