"""Lists of Safe Browsing, against a server on loopback: updates, full hashes, and whatever a server may do wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hushlist.cli import main
from hushlist.core.compile.background_compiler import BackgroundCompiler
from hushlist.core.errors import FetchError
from hushlist.core.match.expressions import full_hash
from hushlist.extensions.safe_browsing.confirmations import PATIENCE
from hushlist.extensions.safe_browsing.prefix_service import full_hashes_of_v5, search_hashes
from hushlist.extensions.safe_browsing.threat_list_update import server_store, wait_at_start
from hushlist.extensions.safe_browsing.threat_lists import SafeBrowsing
from hushlist.extensions.safe_browsing.v4_messages import (
    Checksum,
    FetchThreatListUpdatesResponse,
    ListUpdateResponse,
)
from hushlist.extensions.safe_browsing.v5_messages import (
    BatchGetHashListsResponse,
    FullHash,
    FullHashDetail,
    HashList,
    RiceDeltaEncoded32Bit,
    SearchHashesResponse,
)
from hushlist.extensions.safe_browsing.wire_format import encode_message
from hushlist.extensions.subscriptions.list_outcome import ListUpdate, Outcome
from hushlist.extensions.subscriptions.list_update import subscribed_lists, update_lists
from support.prefix_server import PrefixServer

SECRET = "AIzaSyNobodyMaySeeThis"
BAD, PATH, MORE = b"bad.example/", b"site.example/bad/", b"more.example/"
VERSIONS = pytest.mark.parametrize("version", [4, 5])


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrefixServer]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with PrefixServer(BAD, PATH) as server:
        yield server


NAMES = {4: ("MALWARE", "SOCIAL_ENGINEERING"), 5: ("mw-4b", "se-4b")}


def policy_of(folder: Path, server: PrefixServer, version: int, more: str = "", count: int = 1) -> Path:
    (folder / "api.key").write_text(SECRET)
    (folder / "api.key").chmod(0o600)
    name = ", ".join(NAMES[version][:count])
    path = folder / "policy.yaml"
    path.write_text(
        f"layers:\n- name: lists\n  lists:\n  - safe-browsing: {{version: {version}, lists: [{name}], "
        f"server: '{server.url}', api-key-file: api.key}}\n{more}"
    )
    return path


def updates(policy: Path) -> list[ListUpdate]:
    """Updates at the time at which the server may be asked again."""
    for own in subscribed_lists(policy):
        assert own.subscription.server is not None
        for store in (own.store, server_store(policy, own.subscription.server.service)):
            if store.folder.exists():
                with store.locked():
                    store.note(next_try=0.0)
    return list(update_lists(policy, subscribed_lists(policy)))


def update(policy: Path) -> ListUpdate:
    """The same of the only list."""
    (found,) = updates(policy)
    return found


def copy_of(policy: Path) -> list[bytes]:
    """The prefixes that are in force."""
    (own,) = subscribed_lists(policy)
    current = own.store.current()
    assert current is not None
    return [bytes.fromhex(line) for line in current.path.read_text().split()]


def prefixes(*expressions: bytes) -> list[bytes]:
    return sorted(full_hash(expression)[:4] for expression in expressions)


@VERSIONS
@pytest.mark.parametrize("is_rice", [False, True])
def test_a_list_follows_its_server(tmp_path: Path, server: PrefixServer, version: int, *, is_rice: bool) -> None:
    server.is_rice = is_rice
    policy = policy_of(tmp_path, server, version)
    assert (update(policy).outcome, copy_of(policy)) == (Outcome.UPDATED, prefixes(BAD, PATH))
    assert update(policy).outcome is Outcome.UNCHANGED
    server.put(MORE)
    server.take(PATH)
    found = update(policy)
    assert (found.outcome, found.added, found.removed) == (Outcome.UPDATED, 1, 1)
    assert copy_of(policy) == prefixes(BAD, MORE)
    server.take(BAD, MORE)  # an empty list is a list
    assert (update(policy).outcome, copy_of(policy)) == (Outcome.UPDATED, [])
    assert main(["check", "--policy", str(policy), "http://bad.example/"]) == 0


@VERSIONS
def test_where_the_checksum_is_another_everything_is_asked_for_once(
    tmp_path: Path, server: PrefixServer, version: int
) -> None:
    policy = policy_of(tmp_path, server, version)
    update(policy)
    (own,) = subscribed_lists(policy)
    with own.store.locked():  # as if the copy were of another list
        own.store.use(version_ := own.store.keep(b"00000001\n00000002\n"))
        own.store.note(validated=version_.digest)
    server.put(MORE)
    server.requests.clear()
    assert (update(policy).outcome, copy_of(policy)) == (Outcome.UPDATED, prefixes(BAD, PATH, MORE))
    assert len(server.requests) == 2


@VERSIONS
def test_the_server_is_not_asked_before_it_says_so(tmp_path: Path, server: PrefixServer, version: int) -> None:
    server.wait = 7200.0
    policy = policy_of(tmp_path, server, version)
    update(policy)
    (own,) = subscribed_lists(policy)
    assert 7190 < own.store.state().next_try - time.time() <= 7200
    server.requests.clear()
    (found,) = update_lists(policy, subscribed_lists(policy))
    assert (found.outcome, server.requests) == (Outcome.UNCHANGED, [])
    assert "it is not asked again before" in found.why
    assert list(update_lists(policy, subscribed_lists(policy), only_due=True)) == []


@VERSIONS
def test_a_server_that_fails_is_left_alone_by_the_book(tmp_path: Path, server: PrefixServer, version: int) -> None:
    policy = policy_of(tmp_path, server, version)
    update(policy)
    server.bend = lambda _method, _octets: (503, b"")
    for failures, least, most in ((1, 15, 30), (2, 30, 60), (3, 60, 120)):
        before = time.time()
        assert update(policy).outcome is Outcome.FAILED
        (own,) = subscribed_lists(policy)
        state = own.store.state()
        assert state.faults == failures
        assert 60 * least - 1 <= state.next_try - before <= 60 * most + 60
    server.requests.clear()
    (found,) = update_lists(policy, subscribed_lists(policy))
    assert (found.outcome, server.requests) == (Outcome.FAILED, [])
    assert "the server says 503" in found.why
    (tmp_path / "api.key").write_text("another")  # may be what was wrong
    server.bend = lambda _method, octets: (200, octets)
    (found,) = update_lists(policy, subscribed_lists(policy))
    assert found.outcome is Outcome.UNCHANGED
    assert own.store.state().faults == 0
    assert copy_of(policy) == prefixes(BAD, PATH)
    for status, faults in ((503, 1), (503, 2), (200, 0)):
        server.bend = lambda _method, octets, status=status: (status, octets)  # type: ignore[misc]
        update(policy)
        (own,) = subscribed_lists(policy)
        assert own.subscription.server is not None
        assert server_store(policy, own.subscription.server.service).state().faults == faults


# -- several lists of one server ---------------------------------------------------------------------------------------


def copies_of(policy: Path) -> list[list[bytes]]:
    """The prefixes that are in force, of each list."""
    found = [own.store.current() for own in subscribed_lists(policy)]
    return [[bytes.fromhex(line) for line in own.path.read_text().split()] for own in found if own is not None]


@VERSIONS
def test_lists_that_are_due_together_are_asked_for_together(tmp_path: Path, server: PrefixServer, version: int) -> None:
    policy = policy_of(tmp_path, server, version, count=2)
    server.only["SOCIAL_ENGINEERING"] = server.only["se-4b"] = prefixes(MORE)
    assert [own.outcome for own in updates(policy)] == [Outcome.UPDATED] * 2
    assert (len(server.requests), copies_of(policy)) == (1, [prefixes(BAD, PATH), prefixes(MORE)])
    first, second = subscribed_lists(policy)
    server.put(MORE)
    with second.store.locked():
        second.store.note(next_try=0.0)
    assert [str(own.outcome) for own in update_lists(policy, [first, second], only_due=True)] == ["unchanged"]
    assert [own.outcome for own in updates(policy)] == [Outcome.UPDATED, Outcome.UNCHANGED]
    assert (len(server.requests), copies_of(policy)) == (3, [prefixes(BAD, PATH, MORE), prefixes(MORE)])


def policy_of_a_lie(folder: Path, server: PrefixServer, version: int) -> Path:
    """A policy with two lists, of which the next update of the second one will not be what its checksum says."""
    policy = policy_of(folder, server, version, count=2)
    updates(policy)
    server.put(MORE)
    server.lies = {NAMES[version][1]}
    server.requests.clear()
    return policy


@VERSIONS
def test_one_list_that_cannot_be_used_is_asked_for_again_alone(
    tmp_path: Path, server: PrefixServer, version: int
) -> None:
    policy = policy_of_a_lie(tmp_path, server, version)
    good, bad = updates(policy)
    assert (good.outcome, bad.outcome, len(server.requests)) == (Outcome.UPDATED, Outcome.FAILED, 2)
    assert bad.why == "its update cannot be used: the checksum is not that of the list"
    assert copies_of(policy) == [prefixes(BAD, PATH, MORE), prefixes(BAD, PATH)]
    server.lies = set()
    assert [own.outcome for own in updates(policy)] == [Outcome.UNCHANGED, Outcome.UPDATED]


@pytest.mark.slow
def test_at_the_start_lists_with_a_copy_wait_for_up_to_a_minute(tmp_path: Path, server: PrefixServer) -> None:
    policy = policy_of(tmp_path, server, 5)
    updates(policy)
    policy_of(tmp_path, server, 5, count=2)
    old, new = subscribed_lists(policy)
    wait_at_start([old, new], lambda: 0.5)  # the old one is not due
    assert old.store.state().next_try > time.time() + 600
    with old.store.locked():
        old.store.note(next_try=0.0)
    before = time.time()
    wait_at_start([old, new], lambda: 0.5)
    assert before + 29 < old.store.state().next_try < time.time() + 31
    assert [found.url for found in update_lists(policy, [old, new], only_due=True)] == [new.subscription.url]
    with old.store.locked():
        old.store.note(next_try=0.0)
    BackgroundCompiler().compile(policy, is_start=True)
    assert old.store.state().next_try > before


# -- hostile updates ---------------------------------------------------------------------------------------------------


LIE = HashList(
    "mw-4b", b"9", True, RiceDeltaEncoded32Bit(1, 0, 0, b""), minimum_wait_duration=60.0, sha256_checksum=bytes(32)
)
BOMB = HashList("mw-4b", b"9", False, RiceDeltaEncoded32Bit(0, 3, 2**31 - 1, bytes(1000)), sha256_checksum=bytes(32))
RANGE = HashList(
    "mw-4b", b"9", True, compressed_removals=RiceDeltaEncoded32Bit(10**6, 3, 0, b""), sha256_checksum=bytes(32)
)
LONG = HashList("mw-4b", bytes((1 << 12) + 1), True, minimum_wait_duration=60.0)
HOSTILE_V5 = {
    "a state that nobody could keep": encode_message(BatchGetHashListsResponse((LONG,))),
    "a checksum that lies": encode_message(BatchGetHashListsResponse((LIE,))),
    "a Rice stream of gigabytes": encode_message(BatchGetHashListsResponse((BOMB,))),
    "an index out of range": encode_message(BatchGetHashListsResponse((RANGE,))),
    "another list": encode_message(BatchGetHashListsResponse((HashList("se-4b", b"9"),))),
    "no list": encode_message(BatchGetHashListsResponse()),
    "two lists": encode_message(BatchGetHashListsResponse((HashList("mw-4b", b"9"), HashList("mw-4b", b"9")))),
    "nothing": b"",
    "no message": b"<html>Sorry</html>",
}


@pytest.mark.parametrize("what", HOSTILE_V5)
def test_a_hostile_update_of_v5_leaves_the_last_good_list(tmp_path: Path, server: PrefixServer, what: str) -> None:
    policy = policy_of(tmp_path, server, 5)
    update(policy)
    server.bend = lambda _method, _octets: (200, HOSTILE_V5[what])
    found = update(policy)
    assert (found.outcome, bool(found.why), copy_of(policy)) == (Outcome.FAILED, True, prefixes(BAD, PATH))
    server.bend = lambda _method, octets: (200, octets)
    server.put(MORE)
    assert (update(policy).outcome, copy_of(policy)) == (Outcome.UPDATED, prefixes(BAD, PATH, MORE))


@pytest.mark.parametrize("length", [0, 7, 28, 49])
@VERSIONS
def test_a_truncated_update_leaves_the_last_good_list(
    tmp_path: Path, server: PrefixServer, version: int, length: int
) -> None:
    policy = policy_of(tmp_path, server, version)
    update(policy)
    server.put(*(b"%d.example/" % number for number in range(20)))
    server.bend = lambda _method, octets: (200, octets[:length])
    assert (update(policy).outcome, copy_of(policy)) == (Outcome.FAILED, prefixes(BAD, PATH))


@pytest.mark.parametrize("checksum", [None, Checksum(b"")])
def test_an_update_of_v4_without_a_checksum_proves_nothing(
    tmp_path: Path, server: PrefixServer, checksum: Checksum | None
) -> None:
    policy = policy_of(tmp_path, server, 4)
    sent = ListUpdateResponse(1, 1, 6, 2, new_client_state=b"9", checksum=checksum)
    answer = FetchThreatListUpdatesResponse((sent,))
    server.bend = lambda _method, _octets: (200, encode_message(answer))
    found = update(policy)
    assert (found.outcome, found.why) == (Outcome.FAILED, "its update has no checksum")


# -- full hashes -------------------------------------------------------------------------------------------------------


def service_of(server: PrefixServer, version: int) -> SafeBrowsing:
    lists = ("mw-4b",) if version == 5 else ("MALWARE", "SOCIAL_ENGINEERING")
    return SafeBrowsing(version, server.url, lists, SECRET)


@VERSIONS
def test_full_hashes_are_found_by_prefixes_alone(server: PrefixServer, version: int) -> None:
    wanted = prefixes(BAD, MORE)
    found = search_hashes(service_of(server, version), wanted)
    assert {digest: [threat.kind for threat in own] for digest, own in found.threats.items()} == {
        full_hash(BAD): ["MALWARE"]
    }
    assert found.lasts == (300.0 if version == 5 else 600.0)
    ((method, path, query, body),) = server.requests
    assert query["key"] == [SECRET]
    assert (method, path) == (("GET", "/v5/hashes:search") if version == 5 else ("POST", "/v4/fullHashes:find"))
    whole = repr((path, query)).encode() + body
    assert full_hash(BAD) not in whole
    assert b"example" not in whole


def test_canaries_and_what_is_unknown_are_not_enforced() -> None:
    digests = [full_hash(b"%d.example/" % number) for number in range(6)]
    details = [
        (FullHashDetail(1, (1,)),),
        (FullHashDetail(99),),
        (FullHashDetail(1, (77,)),),
        (FullHashDetail(2, (2,)), FullHashDetail(1, (1, 2))),
        (),
        (FullHashDetail(0), FullHashDetail(4)),
    ]
    hashes = tuple(FullHash(digest, own) for digest, own in zip(digests, details, strict=True))
    found = full_hashes_of_v5(SearchHashesResponse(hashes, 60.0))
    told = [[(threat.kind, threat.is_frame_only) for threat in found.threats[digest]] for digest in digests]
    assert told == [[], [], [], [("SOCIAL_ENGINEERING", True)], [], [("POTENTIALLY_HARMFUL_APPLICATION", False)]]


SOME = tuple(FullHash(full_hash(b"%d" % number), (FullHashDetail(1),)) for number in range(50))
HOSTILE_SEARCH = {
    "more than an answer may have": encode_message(SearchHashesResponse(SOME, 60.0)) * 1000,
    "does not say for how long it holds": encode_message(SearchHashesResponse()),
    "is not whole": encode_message(SearchHashesResponse((FullHash(b"short"),), 60.0)),
    "cannot be used": b"\xff\xff\xff",
}


@pytest.mark.parametrize("what", HOSTILE_SEARCH)
def test_a_hostile_answer_about_full_hashes_is_none(server: PrefixServer, what: str) -> None:
    server.bend = lambda _method, _octets: (200, HOSTILE_SEARCH[what])
    start = time.monotonic()
    with pytest.raises(FetchError, match="longer than" if "more than" in what else what) as caught:
        search_hashes(service_of(server, 5), prefixes(BAD))
    assert not caught.value.is_refusal
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("status", [204, 302, 400, 403, 429, 500])
@VERSIONS
def test_whatever_is_not_200_is_no_answer_and_nobody_else_sees_the_key(
    server: PrefixServer, version: int, status: int
) -> None:
    server.bend = lambda _method, octets: (status, octets)
    with pytest.raises(FetchError) as caught:
        search_hashes(service_of(server, version), prefixes(BAD))
    assert caught.value.is_refusal
    assert SECRET not in str(caught.value)
    assert len(server.requests) == 1  # no redirect was followed


def test_a_server_that_quotes_the_key_does_not_make_us_print_it(
    tmp_path: Path, server: PrefixServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("http.server.BaseHTTPRequestHandler.responses", {403: (f"no key {SECRET}", "")})
    server.bend = lambda _method, _octets: (403, b"")
    policy = policy_of(tmp_path, server, 5)
    assert main(["update", "--policy", str(policy)]) == 1
    assert main(["lists", "--policy", str(policy)]) == 1
    main(["check", "--policy", str(policy), "http://bad.example/"])
    told = capsys.readouterr()
    assert "the server says 403 no key (the API key)" in told.out
    assert SECRET not in told.out + told.err
    kept = [path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert not [octets for octets in kept if SECRET.encode() in octets]


@pytest.mark.slow
def test_a_server_that_says_nothing_is_waited_for_so_long_at_most(server: PrefixServer) -> None:
    server.answers.clear()
    start = time.monotonic()
    with pytest.raises(FetchError, match=f"it was not done after {PATIENCE:g} seconds"):
        search_hashes(service_of(server, 5), prefixes(BAD))
    assert PATIENCE - 0.5 < time.monotonic() - start < 40


# -- commands ----------------------------------------------------------------------------------------------------------


@VERSIONS
def test_commands_ask_and_say_who_confirmed_what(
    tmp_path: Path, server: PrefixServer, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add_prefix_of(b"good.example/")
    policy = policy_of(tmp_path, server, version)
    assert main(["update", "--policy", str(policy)]) == 0
    assert main(["check", "--policy", str(policy), "http://bad.example/x", "http://good.example/"]) == 1
    bad, good = capsys.readouterr().out.splitlines()[-2:]
    assert f"confirmed as MALWARE by {server.url} at 20" in bad
    assert good.strip() == "pass   http://good.example/"
    assert main(["explain", "--policy", str(policy), "http://site.example/bad/x"]) == 0
    told = capsys.readouterr().out
    assert f"rule as written: sha256:{full_hash(PATH)[:4].hex()}" in told
    assert f"confirmed as MALWARE by {server.url} at 20" in told


def test_the_states_of_lists_are_kept_beside_what_they_are_of(tmp_path: Path, server: PrefixServer) -> None:
    policy = policy_of(tmp_path, server, 4)
    update(policy)
    server.put(MORE)
    update(policy)
    (own,) = subscribed_lists(policy)
    with own.store.locked():
        assert own.store.roll_back() is not None  # back to the first version: the state is of the second
    assert update(policy).outcome is Outcome.HELD
    assert copy_of(policy) == prefixes(BAD, PATH)
    server.take(PATH)
    assert (update(policy).outcome, copy_of(policy)) == (Outcome.UPDATED, prefixes(BAD, MORE))
