"""Lists of Safe Browsing, against a server on loopback: updates, full hashes, and whatever a server may do wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from hushlist.cli import main
from hushlist.core.compile.background_compiler import BackgroundCompiler
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.errors import FetchError
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.match.expressions import full_hash
from hushlist.core.policy.policy_reader import read_policy, subscribed_lists
from hushlist.extensions.safe_browsing import prefix_service
from hushlist.extensions.safe_browsing.confirmations import PATIENCE
from hushlist.extensions.safe_browsing.prefix_list import PrefixUpdate
from hushlist.extensions.safe_browsing.prefix_service import full_hashes_of_v5, search_hashes
from hushlist.extensions.safe_browsing.threat_list_update import server_store, wait_at_start
from hushlist.extensions.safe_browsing.threat_lists import SafeBrowsing
from hushlist.extensions.safe_browsing.v4_messages import (
    Checksum,
    FetchThreatListUpdatesResponse,
    FindFullHashesResponse,
    ListUpdateResponse,
    ThreatEntry,
    ThreatMatch,
)
from hushlist.extensions.safe_browsing.v5_messages import (
    BatchGetHashListsResponse,
    FullHash,
    FullHashDetail,
    HashList,
    RiceDeltaEncoded32Bit,
    SearchHashesResponse,
)
from hushlist.extensions.safe_browsing.wire_format import decode_message, encode_message
from hushlist.extensions.subscriptions.list_outcome import ListUpdate, Outcome
from hushlist.extensions.subscriptions.list_update import update_lists
from hushlist.tools.squid.helper import AccessList, SquidHelper
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
        assert own.subscription.prefixes is not None
        for store in (own.store, server_store(policy, own.subscription.prefixes.service)):
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
def test_only_the_first_update_asks_for_everything(tmp_path: Path, server: PrefixServer, version: int) -> None:
    asked = list[bytes]()
    change, server.update = server.update, lambda state: (asked.append(state), change(state))[1]  # type: ignore[method-assign]
    policy = policy_of(tmp_path, server, version)
    update(policy)
    server.put(MORE)
    update(policy)
    update(policy)
    assert asked == [b"", b"1", b"2"]


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


@pytest.mark.parametrize(("wait", "seconds"), [(None, 60), (0.0, 60), (90.0, 90), (1e9, 86400)])
def test_no_wait_is_too_short_or_too_long(
    tmp_path: Path, server: PrefixServer, wait: float | None, seconds: int
) -> None:
    server.wait = wait
    policy = policy_of(tmp_path, server, 5)
    update(policy)
    (own,) = subscribed_lists(policy)
    assert seconds - 10 < own.store.state().next_try - time.time() <= seconds


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
        assert own.subscription.prefixes is not None
        assert server_store(policy, own.subscription.prefixes.service).state().faults == faults


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


@VERSIONS
@pytest.mark.parametrize("is_down", [False, True])
def test_the_server_s_wait_holds_for_a_list_that_cannot_be_used(
    tmp_path: Path, server: PrefixServer, version: int, *, is_down: bool
) -> None:
    server.wait = 7200.0
    policy = policy_of_a_lie(tmp_path, server, version)
    if is_down:
        server.bend = lambda _method, octets: (200 if len(server.requests) == 1 else 503, octets)
    updates(policy)
    for own in subscribed_lists(policy):
        assert own.store.state().next_try - time.time() > 7100
    server.requests.clear()
    assert list(update_lists(policy, subscribed_lists(policy), only_due=True)) == []
    assert server.requests == []


@VERSIONS
def test_a_list_that_cannot_be_used_keeps_no_other_back_where_the_server_gives_one_answer(
    tmp_path: Path, server: PrefixServer, version: int
) -> None:
    policy = policy_of_a_lie(tmp_path, server, version)
    server.bend = lambda _method, octets: (200 if len(server.requests) == 1 else 429, octets)
    before = time.time()
    good, bad = updates(policy)
    assert (good.outcome, bad.outcome, len(server.requests)) == (Outcome.UPDATED, Outcome.FAILED, 2)
    assert bad.why == "the server says 429 Too Many Requests"
    assert copies_of(policy) == [prefixes(BAD, PATH, MORE), prefixes(BAD, PATH)]
    own = subscribed_lists(policy)[0].subscription.prefixes
    assert own is not None
    assert server_store(policy, own.service).state().next_try - before >= 15 * 60 - 1  # it is left alone by the book


@VERSIONS
def test_a_failure_is_the_server_s_whatever_list_is_asked_for(
    tmp_path: Path, server: PrefixServer, version: int
) -> None:
    """Spec: "N" is the number of failed answers in a row, not of those about one list."""
    policy = policy_of(tmp_path, server, version)
    updates(policy)
    server.bend = lambda _method, _octets: (503, b"")
    assert update(policy).outcome is Outcome.FAILED
    policy_of(tmp_path, server, version, count=2)  # a list more, while the server is left alone
    server.requests.clear()
    first, new = update_lists(policy, subscribed_lists(policy))
    assert (first.outcome, new.outcome, server.requests) == (Outcome.FAILED, Outcome.FAILED, [])
    assert "it is not asked again before" in new.why
    assert "the server says 503" in new.why
    (_,) = {own.store.state().next_try for own in subscribed_lists(policy)}
    assert not [*update_lists(policy, subscribed_lists(policy), only_due=True)]
    before = time.time()
    updates(policy)
    (third,) = {own.store.state().next_try for own in subscribed_lists(policy)}
    assert 30 * 60 - 1 <= third - before <= 61 * 60  # the second failure in a row
    server.bend = lambda _method, octets: (200, octets)
    assert [own.outcome for own in updates(policy)] == [Outcome.UNCHANGED, Outcome.UPDATED]
    server.bend = lambda _method, _octets: (503, b"")
    before = time.time()
    updates(policy)
    assert {own.store.state().faults for own in subscribed_lists(policy)} == {1}


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


@pytest.mark.parametrize(("length", "is_kept"), [(1 << 12, True), ((1 << 12) + 1, False)])
def test_a_state_has_so_many_octets_at_most(length: int, is_kept: bool) -> None:
    update = PrefixUpdate(bytes(length), [], checksum=bytes(32))
    assert (prefix_service._told(partial(lambda: update), 60.0) == (update, 60.0)) is is_kept


@pytest.mark.parametrize("length", range(0, 60, 7))
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


@VERSIONS
def test_repeated_and_reordered_answers_do_no_harm(tmp_path: Path, server: PrefixServer, version: int) -> None:
    policy = policy_of(tmp_path, server, version)
    answers = list[bytes]()
    server.bend = lambda _method, octets: (answers.append(octets), (200, octets))[1]  # type: ignore[func-returns-value]
    update(policy)
    server.put(MORE)
    update(policy)
    first, second = answers
    assert copy_of(policy) == prefixes(BAD, PATH, MORE)
    server.bend = lambda _method, _octets: (200, second)  # a difference that the list has already
    assert (update(policy).outcome, copy_of(policy)) == (Outcome.FAILED, prefixes(BAD, PATH, MORE))
    server.bend = lambda _method, _octets: (200, first)  # the whole list, as it was
    assert (update(policy).outcome, copy_of(policy)) == (Outcome.UPDATED, prefixes(BAD, PATH))
    server.bend = lambda _method, octets: (200, octets)
    assert (update(policy).outcome, copy_of(policy)) == (Outcome.UPDATED, prefixes(BAD, PATH, MORE))


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


@pytest.mark.slow
@VERSIONS
def test_many_full_hashes_of_one_prefix_are_no_fault(server: PrefixServer, version: int) -> None:
    """Whoever gets pages onto a list could make them, and so stop all confirmations."""
    prefix = full_hash(BAD)[:4]
    for number in range(10_000):
        server.hashes[prefix + number.to_bytes(28, "big")] = [(1, ())]
    found = search_hashes(service_of(server, version), [prefix])
    assert (len(found.threats), full_hash(BAD) in found.threats) == (10_001, True)


def test_long_prefixes_that_begin_alike_are_one_prefix_of_v5(server: PrefixServer) -> None:
    digest = full_hash(BAD)
    found = search_hashes(service_of(server, 5), [digest[:8], digest[:4] + b"else", digest[:16]])
    assert list(found.threats) == [digest]
    ((_, _, query, _),) = server.requests
    assert len(query["hashPrefixes"]) == 1


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


def test_matches_of_v4_that_are_not_of_urls_or_not_whole_are_dropped(server: PrefixServer) -> None:
    digest = full_hash(BAD)
    matches = (
        ThreatMatch(1, 6, 2, ThreatEntry(digest), cache_duration=9.0),
        ThreatMatch(1, 6, 1, ThreatEntry(digest[:8]), cache_duration=9.0),
        ThreatMatch(77, 6, 1, ThreatEntry(digest), cache_duration=9.0),
        ThreatMatch(1, 6, 1, None, cache_duration=9.0),
        ThreatMatch(2, 6, 1, ThreatEntry(digest)),
    )
    server.bend = lambda _method, _octets: (200, encode_message(FindFullHashesResponse(matches, 7.0, None)))
    found = search_hashes(service_of(server, 4), prefixes(BAD))
    assert [(threat.kind, threat.lasts) for threat in found.threats[digest]] == [("SOCIAL_ENGINEERING", 0.0)]
    assert (len(found.threats), found.lasts, found.wait) == (1, 0.0, 7.0)


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


def test_the_helper_and_audits_ask_too(
    tmp_path: Path, server: PrefixServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add_prefix_of(b"good.example/")
    policy = policy_of(tmp_path, server, 5)
    assert main(["update", "--policy", str(policy)]) == 0
    helper = SquidHelper(load_engine(policy), AccessList(), lambda _: None)
    lines = [b"http://bad.example/x -", b"http://good.example/ -", b"bad.example:443 -"]
    for _ in range(2):
        assert [line[:2] for line in helper.answers(lines).splitlines()] == [b"OK", b"ER", b"OK"]
    assert len(server.searches()) == 2
    (tmp_path / "urls.txt").write_text("http://bad.example/x\nhttp://good.example/\nhttp://site.example/bad/\n")
    main(["audit", "--json", "--jobs", "1", "--policy", str(policy), str(tmp_path / "urls.txt")])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["actions"] == {"block": 2, "pass": 1}


def test_commands_say_that_nobody_confirmed_it(
    tmp_path: Path, server: PrefixServer, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = policy_of(tmp_path, server, 5)
    assert main(["update", "--policy", str(policy)]) == 0
    server.bend = lambda _method, _octets: (503, b"")
    assert main(["check", "--policy", str(policy), "http://bad.example/x"]) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    prefix = full_hash(BAD)[:4].hex()
    assert told.startswith(f"pass   http://bad.example/x  (sha256:{prefix} is not confirmed: {server.url}: the server ")
    assert main(["explain", "--policy", str(policy), "http://bad.example/x"]) == 0
    assert f"sha256:{prefix} is not confirmed: {server.url}: the server says 503" in capsys.readouterr().out
    assert main(["check", "--json", "--policy", str(policy), "http://bad.example/x"]) == 0
    assert f'"unconfirmed": [{{"server": "{server.url}", "prefix": "{prefix}"}}]' in capsys.readouterr().out


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


def test_without_a_copy_the_policy_says_what_to_do(tmp_path: Path, server: PrefixServer) -> None:
    policy = policy_of(tmp_path, server, 5)
    report = ProblemReport(str(policy))
    read_policy(policy, report)
    (problem,) = report.errors
    assert str(problem).startswith(f"{policy}:4: {server.url}/v5/hashList/mw-4b: there is no copy of it yet: run ")
    assert decode_message(SearchHashesResponse, b"") == SearchHashesResponse()
