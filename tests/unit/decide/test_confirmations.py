"""What servers have said of full hashes: asked once, remembered as long as they say, and no longer."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import wait
from threading import Event

import pytest

from hushlist.decide import confirmations
from hushlist.decide.confirmations import (
    Confirmations,
    FullHashes,
    Question,
    SearchError,
    Threat,
)
from hushlist.match.expressions import full_hash
from hushlist.policy.safe_browsing import GOOGLE, SafeBrowsing

SERVICE = SafeBrowsing(5, "https://lists.example", ("mw-4b",))
OTHER = SafeBrowsing(5, "https://other.example", ("mw-4b",))
BAD, GOOD = full_hash(b"bad.example/"), full_hash(b"good.example/")
PATIENT = 60.0


class Server:
    """Answers as it is told; each question is in ``asked``."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[bytes, ...]]] = []
        self.answer = FullHashes({BAD: (Threat("MALWARE", 300.0),)}, 300.0)
        self.error: Exception | None = None
        self.may_answer = Event()
        self.may_answer.set()
        self.now = 1000.0

    def __call__(self, service: SafeBrowsing, prefixes: Collection[bytes]) -> FullHashes:
        self.asked.append((service.server, tuple(prefixes)))
        assert self.may_answer.wait(PATIENT)
        if self.error is not None:
            raise self.error
        return self.answer


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def known(server: Server) -> Confirmations:
    return Confirmations(server, lambda: server.now, lambda: 0.0)


def question(digest: bytes, service: SafeBrowsing = SERVICE, size: int = 4) -> Question:
    return Question(service, digest[:size], digest)


def kinds(known: Confirmations, asked: Question) -> list[str] | None:
    verdict = known.verdict(asked)
    return None if verdict is None else [threat.kind for threat in verdict.threats]


def test_nothing_is_known_before_somebody_asks(known: Confirmations) -> None:
    assert known.verdict(question(BAD)) is None


def test_a_full_hash_is_unsafe_and_every_other_of_its_prefix_is_safe(known: Confirmations, server: Server) -> None:
    sibling = BAD[:4] + bytes(28)
    known.ask([question(BAD)])
    assert (kinds(known, question(BAD)), kinds(known, question(sibling))) == (["MALWARE"], [])
    assert kinds(known, question(GOOD)) is None
    assert server.asked == [("https://lists.example", (BAD[:4],))]


def test_only_prefixes_are_sent_in_one_question_for_each_server(known: Confirmations, server: Server) -> None:
    known.ask([question(BAD), question(GOOD), question(BAD), question(GOOD, OTHER)])
    assert server.asked == [
        ("https://lists.example", (BAD[:4], GOOD[:4])),
        ("https://other.example", (GOOD[:4],)),
    ]


def test_what_is_known_is_not_asked_again_until_its_time_is_over(known: Confirmations, server: Server) -> None:
    known.ask([question(BAD)])
    server.now += 299
    known.ask([question(BAD)])
    assert (kinds(known, question(BAD)), len(server.asked)) == (["MALWARE"], 1)
    server.now += 1  # "the expiry instant itself counts as expired"
    assert kinds(known, question(BAD)) is None
    known.ask([question(BAD)])
    assert len(server.asked) == 2


def test_if_the_clock_is_put_back_it_is_asked_again(known: Confirmations, server: Server) -> None:
    known.ask([question(BAD)])
    server.now -= 10
    assert known.verdict(question(BAD)) is None


def test_a_later_answer_replaces_an_earlier_one(known: Confirmations, server: Server) -> None:
    known.ask([question(BAD)])
    server.now, server.answer = 2000.0, FullHashes({}, 300.0)
    known.ask([question(BAD)])
    assert kinds(known, question(BAD)) == []


def test_full_hashes_of_other_prefixes_are_not_taken(known: Confirmations, server: Server) -> None:
    known.ask([question(GOOD)])
    assert kinds(known, question(BAD)) is None
    assert kinds(known, question(GOOD)) == []


def test_an_answer_that_lasts_no_time_serves_those_who_wait(known: Confirmations, server: Server) -> None:
    server.answer = FullHashes({BAD: (Threat("MALWARE", 0.0),)}, 0.0)
    known.ask([question(BAD), question(GOOD)])
    assert (kinds(known, question(BAD)), kinds(known, question(GOOD))) == (["MALWARE"], [])
    server.now += 5
    assert kinds(known, question(BAD)) is None
    assert kinds(known, question(GOOD)) is None


def test_nothing_is_known_for_longer_than_a_day(known: Confirmations, server: Server) -> None:
    server.answer = FullHashes({BAD: (Threat("MALWARE", 1e18),)}, 1e18)
    known.ask([question(BAD)])
    server.now += 86399
    assert kinds(known, question(BAD)) == ["MALWARE"]
    server.now += 1
    assert kinds(known, question(BAD)) is None


def test_what_google_has_said_is_used_for_half_an_hour(known: Confirmations, server: Server) -> None:
    google = SafeBrowsing(5, GOOGLE, ("mw-4b",), "key")
    server.answer = FullHashes({BAD: (Threat("MALWARE", 7200.0),)}, 7200.0)
    known.ask([question(BAD, google), question(BAD)])
    server.now += 1799
    assert kinds(known, question(BAD, google)) == ["MALWARE"]
    server.now += 1
    assert (kinds(known, question(BAD, google)), kinds(known, question(BAD))) == (None, ["MALWARE"])


def test_a_server_that_failed_is_left_alone_by_the_book(known: Confirmations, server: Server) -> None:
    server.error = SearchError("the server says 503")
    for minutes in (15, 30, 60):
        known.ask([question(BAD)])
        server.now += 60 * minutes - 1
        before = len(server.asked)
        known.ask([question(BAD), question(GOOD)])
        assert len(server.asked) == before
        server.now += 1
    assert (known.sent, known.unanswered) == (3, 3)
    server.error = None
    known.ask([question(BAD)])
    assert kinds(known, question(BAD)) == ["MALWARE"]
    server.now, server.error = server.now + 400, SearchError("the server says 503")
    known.ask([question(BAD)])
    server.now += 15 * 60  # success has ended the counting
    known.ask([question(BAD)])
    assert known.unanswered == 5


def test_while_one_server_is_left_alone_its_answers_hold_and_others_are_asked(
    known: Confirmations, server: Server
) -> None:
    known.ask([question(BAD)])
    server.error = SearchError("the server says 500")
    known.ask([question(GOOD)])
    assert kinds(known, question(BAD)) == ["MALWARE"]
    why = known.fault(SERVICE) or ""
    assert why == ("https://lists.example: the server says 500; it is not asked again before 1970-01-01 00:31:40 UTC")
    assert known.fault(OTHER) is None
    known.ask([question(GOOD, OTHER)])
    assert server.asked[-1][0] == "https://other.example"


def test_whatever_fails_is_a_failed_answer_and_quotes_nothing(known: Confirmations, server: Server) -> None:
    server.error = RuntimeError(f"prefix {BAD.hex()}")
    known.ask([question(BAD)])
    assert "the filter failed: RuntimeError;" in (known.fault(SERVICE) or "")
    assert BAD.hex() not in (known.fault(SERVICE) or "")


def test_a_wait_that_the_server_asks_for_is_no_failure(known: Confirmations, server: Server) -> None:
    server.answer = FullHashes({}, 1.0, wait=120.0)
    known.ask([question(BAD)])
    server.now += 119
    known.ask([question(BAD)])
    assert len(server.asked) == 1
    assert "it asks to wait for 120 seconds" in (known.fault(SERVICE) or "")
    server.now += 1
    known.ask([question(BAD)])
    assert (len(server.asked), known.unanswered) == (2, 0)


def test_several_that_wait_for_one_prefix_ask_once(known: Confirmations, server: Server) -> None:
    server.may_answer.clear()
    waiting = [future for _ in range(20) for future in known.ask_soon([question(BAD)])]
    both = known.ask_soon([question(BAD), question(GOOD)])
    assert len({*waiting, *both}) == 2
    server.may_answer.set()
    assert not wait([*waiting, *both], PATIENT).not_done
    assert sorted(server.asked) == [("https://lists.example", (BAD[:4],)), ("https://lists.example", (GOOD[:4],))]
    known.close()


def test_questions_that_wait_are_bounded(known: Confirmations, server: Server) -> None:
    server.may_answer.clear()
    digests = [full_hash(b"%d.example/" % number) for number in range(200)]
    asked = [future for digest in digests for future in known.ask_soon([question(digest)])]
    assert len(asked) == 64
    server.may_answer.set()
    assert not wait(asked, PATIENT).not_done
    assert len(server.asked) == 64
    known.close()


def test_after_the_end_nothing_is_asked_and_nobody_waits_forever(known: Confirmations, server: Server) -> None:
    assert not wait(known.ask_soon([question(BAD)]), PATIENT).not_done
    known.close()
    assert not wait(known.ask_soon([question(GOOD)]), PATIENT).not_done
    assert len(server.asked) == 1


def test_a_question_has_so_many_prefixes_at_most(known: Confirmations, server: Server) -> None:
    known.ask(question(full_hash(b"%d.example/" % number)) for number in range(100))
    assert [len(prefixes) for _, prefixes in server.asked] == [confirmations.MOST_ASKED]


def test_what_is_remembered_is_bounded(known: Confirmations, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmations, "MOST_PREFIXES", 10)
    digests = [full_hash(b"%d.example/" % number) for number in range(30)]
    for digest in digests:
        known.ask([question(digest)])
    assert [own for own in digests if known.verdict(question(own)) is not None] == digests[-10:]
    monkeypatch.setattr(confirmations, "MOST_HASHES", 5)
    server.answer = FullHashes({BAD[:4] + bytes([number]) * 28: () for number in range(4)}, 300.0)
    known.ask([question(BAD)])
    server.answer = FullHashes({GOOD[:4] + bytes([number]) * 28: () for number in range(4)}, 300.0)
    known.ask([question(GOOD)])
    assert (kinds(known, question(BAD)), kinds(known, question(GOOD))) == (None, [])
