"""What servers have said of full hashes: asked once, remembered as long as they say, and no longer."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future, wait
from threading import Condition, Event, Thread

import pytest

from hushlist.core.errors import FetchError
from hushlist.core.match.expressions import full_hash
from hushlist.extensions.safe_browsing import confirmations
from hushlist.extensions.safe_browsing.confirmations import Confirmations, FullHashes, Question, Threat
from hushlist.extensions.safe_browsing.threat_lists import GOOGLE, SafeBrowsing

SERVICE = SafeBrowsing(5, "https://lists.example", ("mw-4b",))
OTHER = SafeBrowsing(5, "https://other.example", ("mw-4b",))
BAD, GOOD = full_hash(b"bad.example/"), full_hash(b"good.example/")
PATIENT = 60.0
REFUSED = FetchError("the server says 503", is_refusal=True)


class Server:
    """Answers as it is told; each question is in ``asked``."""

    def __init__(self) -> None:
        self.questions: list[tuple[str, tuple[bytes, ...]]] = []
        self.answer = FullHashes({BAD: (Threat("MALWARE", 300.0),)}, 300.0)
        self.error: Exception | None = None
        self.may_answer = Event()
        self.may_answer.set()
        self.now = 1000.0
        self._has_come = Condition()

    def __call__(self, service: SafeBrowsing, prefixes: Collection[bytes]) -> FullHashes:
        with self._has_come:
            self.questions.append((service.server, tuple(prefixes)))
            self._has_come.notify_all()
        assert self.may_answer.wait(PATIENT)
        if self.error is not None:
            raise self.error
        return self.answer

    def wait_for(self, number: int) -> None:
        """Wait until so many questions have come."""
        with self._has_come:
            assert self._has_come.wait_for(lambda: len(self.questions) >= number, PATIENT)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def remembered(server: Server) -> Confirmations:
    return Confirmations(server, lambda: server.now, lambda: 0.0, lambda: server.now)


def question(digest: bytes, service: SafeBrowsing = SERVICE, size: int = 4) -> Question:
    return Question(service, digest[:size], digest)


def kinds(remembered: Confirmations, asked: Question) -> list[str] | None:
    verdict = remembered.verdict(asked)
    return None if verdict is None else [threat.kind for threat in verdict.threats]


def test_where_no_thread_can_begin_nobody_waits(
    remembered: Confirmations, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", start)
        (waiting,) = remembered.ask_soon([question(BAD)], "10.0.0.7")
        assert waiting.done()
    assert remembered.verdict(question(BAD)) is None
    (waiting,) = remembered.ask_soon([question(BAD)], "10.0.0.7")
    wait([waiting], PATIENT)
    assert kinds(remembered, question(BAD)) == ["MALWARE"]


def test_a_full_hash_is_unsafe_and_every_other_of_its_prefix_is_safe(remembered: Confirmations, server: Server) -> None:
    sibling = BAD[:4] + bytes(28)
    remembered.ask([question(BAD)])
    assert (kinds(remembered, question(BAD)), kinds(remembered, question(sibling))) == (["MALWARE"], [])
    assert kinds(remembered, question(GOOD)) is None
    assert server.questions == [("https://lists.example", (BAD[:4],))]


def test_only_prefixes_are_sent_in_one_question_for_each_server(remembered: Confirmations, server: Server) -> None:
    remembered.ask([question(BAD), question(GOOD), question(BAD), question(GOOD, OTHER)])
    assert sorted(server.questions) == [
        ("https://lists.example", (BAD[:4], GOOD[:4])),
        ("https://other.example", (GOOD[:4],)),
    ]


def test_what_is_known_is_not_asked_again_until_its_time_is_over(remembered: Confirmations, server: Server) -> None:
    remembered.ask([question(BAD)])
    server.now += 299
    remembered.ask([question(BAD)])
    assert (kinds(remembered, question(BAD)), len(server.questions)) == (["MALWARE"], 1)
    server.now += 1  # "the expiry instant itself counts as expired"
    assert kinds(remembered, question(BAD)) is None
    remembered.ask([question(BAD)])
    assert len(server.questions) == 2


@pytest.mark.parametrize("lasts", [0.0, -1.0, -1e18])
def test_an_answer_that_lasts_no_time_serves_those_who_wait(
    remembered: Confirmations, server: Server, lasts: float
) -> None:
    server.answer = FullHashes({BAD: (Threat("MALWARE", lasts),)}, lasts)
    remembered.ask([question(BAD), question(GOOD)])
    assert (kinds(remembered, question(BAD)), kinds(remembered, question(GOOD))) == (["MALWARE"], [])
    server.now += 5
    assert kinds(remembered, question(BAD)) is None
    assert kinds(remembered, question(GOOD)) is None


def test_what_google_has_said_is_used_for_half_an_hour(remembered: Confirmations, server: Server) -> None:
    google = SafeBrowsing(5, GOOGLE, ("mw-4b",), "key")
    server.answer = FullHashes({BAD: (Threat("MALWARE", 7200.0),)}, 7200.0)
    remembered.ask([question(BAD, google), question(BAD)])
    server.now += 1799
    assert kinds(remembered, question(BAD, google)) == ["MALWARE"]
    server.now += 1
    assert (kinds(remembered, question(BAD, google)), kinds(remembered, question(BAD))) == (None, ["MALWARE"])


def test_a_server_that_failed_is_left_alone_by_the_book(remembered: Confirmations, server: Server) -> None:
    server.error = REFUSED
    for minutes in (15, 30, 60):
        remembered.ask([question(BAD)])
        server.now += 60 * minutes - 1
        before = len(server.questions)
        remembered.ask([question(BAD), question(GOOD)])
        assert len(server.questions) == before
        server.now += 1
    assert (remembered.sent, remembered.unanswered) == (3, 3)
    server.error = None
    remembered.ask([question(BAD)])
    assert kinds(remembered, question(BAD)) == ["MALWARE"]
    server.now, server.error = server.now + 400, REFUSED
    remembered.ask([question(BAD)])
    server.now += 15 * 60  # success has ended the counting
    remembered.ask([question(BAD)])
    assert remembered.unanswered == 5


@pytest.mark.parametrize(("seconds", "until"), [(60, "00:31:40"), (7200, "02:16:40"), (1e9, "1970-01-02 00:16:40")])
def test_a_server_is_left_alone_for_as_long_as_it_asks_but_a_day_at_most(
    remembered: Confirmations, server: Server, seconds: float, until: str
) -> None:
    server.error = FetchError("the server says 503", seconds, is_refusal=True)
    remembered.ask([question(BAD)])
    assert (remembered.fault(SERVICE) or "").endswith(f"{until} UTC")


def test_while_one_server_is_left_alone_its_answers_hold_and_others_are_asked(
    remembered: Confirmations, server: Server
) -> None:
    remembered.ask([question(BAD)])
    server.error = FetchError("the server says 500", is_refusal=True)
    remembered.ask([question(GOOD)])
    assert kinds(remembered, question(BAD)) == ["MALWARE"]
    why = remembered.fault(SERVICE) or ""
    assert why == ("https://lists.example: the server says 500; it is not asked again before 1970-01-01 00:31:40 UTC")
    assert remembered.fault(OTHER) is None
    remembered.ask([question(GOOD, OTHER)])
    assert server.questions[-1][0] == "https://other.example"


def test_whatever_fails_is_a_failed_answer_and_quotes_nothing(remembered: Confirmations, server: Server) -> None:
    server.error = RuntimeError(f"prefix {BAD.hex()}")
    remembered.ask([question(BAD)])
    assert "the filter failed: RuntimeError;" in (remembered.fault(SERVICE) or "")
    assert BAD.hex() not in (remembered.fault(SERVICE) or "")


def test_a_wait_that_the_server_asks_for_is_no_failure(remembered: Confirmations, server: Server) -> None:
    server.answer = FullHashes({}, 1.0, wait=120.0)
    remembered.ask([question(BAD)])
    server.now += 119
    remembered.ask([question(BAD)])
    assert len(server.questions) == 1
    assert "it asks to wait for 120 seconds" in (remembered.fault(SERVICE) or "")
    server.now += 1
    remembered.ask([question(BAD)])
    assert (len(server.questions), remembered.unanswered) == (2, 0)


def test_several_that_wait_for_one_prefix_ask_once(remembered: Confirmations, server: Server) -> None:
    server.may_answer.clear()
    waiting = [future for _ in range(20) for future in remembered.ask_soon([question(BAD)])]
    server.wait_for(1)
    both = remembered.ask_soon([question(BAD), question(GOOD)])
    assert len({*waiting, *both}) == 2
    server.may_answer.set()
    assert not wait([*waiting, *both], PATIENT).not_done
    assert sorted(server.questions) == [("https://lists.example", (BAD[:4],)), ("https://lists.example", (GOOD[:4],))]


def flood(remembered: Confirmations, server: Server, *clients: str, count: int = 200) -> list[Future[None]]:
    """The questions that wait, once all threads wait for an answer and each client has asked for so much."""
    server.may_answer.clear()
    for number in range(4):
        remembered.ask_soon([question(full_hash(b"first%d.example/" % number))], "first")
        server.wait_for(number + 1)
    digests = [full_hash(b"%d.example/%s" % (number, client.encode())) for number in range(count) for client in clients]
    names = [client for _ in range(count) for client in clients]
    return [
        future
        for name, digest in zip(names, digests, strict=True)
        for future in remembered.ask_soon([question(digest)], name)
    ]


def test_what_waits_of_one_client_is_bounded_and_goes_out_in_few_questions(
    remembered: Confirmations, server: Server
) -> None:
    asked = flood(remembered, server, "pupil")
    assert len(asked) == confirmations.MOST_OF_CLIENT == 60
    server.may_answer.set()
    assert not wait(asked, PATIENT).not_done
    assert [len(prefixes) for _, prefixes in server.questions[4:]] == [30, 30]


def test_who_floods_takes_nobody_s_turn(remembered: Confirmations, server: Server) -> None:
    flood(remembered, server, "pupil", "another")
    (mine,) = remembered.ask_soon([question(BAD)], "teacher")
    assert remembered.ask_soon([question(GOOD)], "pupil") == []
    server.may_answer.set()
    assert not wait([mine], PATIENT).not_done
    assert kinds(remembered, question(BAD)) == ["MALWARE"]
    assert BAD[:4] in {
        prefix for _, prefixes in server.questions[4:5] for prefix in prefixes
    }  # in the very next question


@pytest.mark.slow
def test_a_server_is_not_asked_faster_than_it_takes(server: Server) -> None:
    """Whoever asks, so that nobody makes it refuse all of us."""
    now = [0.0]
    remembered = Confirmations(server, lambda: server.now, lambda: 0.0, lambda: now[0])
    for number in range(30):
        remembered.ask([question(full_hash(b"%d.example/" % number))])
    waiting = [remembered.ask_soon([question(full_hash(b"%d.test/" % number))], "pupil")[0] for number in range(3)]
    assert wait(waiting, 0.3).done == set()
    now[0] += 0.2
    assert not wait(waiting, PATIENT).not_done
    assert [len(prefixes) for _, prefixes in server.questions] == [1] * 30 + [3]  # what waited went out together


def test_a_server_that_never_ends_is_a_fault_before_anything_says_so(server: Server) -> None:
    """As where the machine waits for the name of the server."""
    now = [0.0]
    remembered = Confirmations(server, lambda: server.now, lambda: 0.0, lambda: now[0])
    server.may_answer.clear()
    remembered.ask_soon([question(BAD)])
    server.wait_for(1)
    now[0] = confirmations.PATIENCE - 0.1
    assert remembered.fault(SERVICE) is None
    now[0] += 0.2
    assert remembered.fault(SERVICE) == "https://lists.example: it was not done after 3 seconds"
    assert remembered.ask_soon([question(GOOD)]) == []
    server.may_answer.set()


def test_after_the_end_nothing_is_asked_and_nobody_waits_forever(remembered: Confirmations, server: Server) -> None:
    assert not wait(remembered.ask_soon([question(BAD)]), PATIENT).not_done
    remembered.close()
    assert not wait(remembered.ask_soon([question(GOOD)]), PATIENT).not_done
    assert len(server.questions) == 1


def test_what_is_remembered_is_bounded(
    remembered: Confirmations, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmations, "MOST_PREFIXES", 10)
    digests = [full_hash(b"%d.example/" % number) for number in range(30)]
    for digest in digests:
        server.now += 1
        remembered.ask([question(digest)])
    server.now += 1
    assert [own for own in digests if remembered.verdict(question(own)) is not None] == digests[-10:]
    monkeypatch.setattr(confirmations, "MOST_HASHES", 5)
    server.now += 1
    server.answer = FullHashes({BAD[:4] + bytes([number]) * 28: () for number in range(4)}, 300.0)
    remembered.ask([question(BAD)])
    server.answer = FullHashes({GOOD[:4] + bytes([number]) * 28: () for number in range(4)}, 300.0)
    remembered.ask([question(GOOD)])
    assert (kinds(remembered, question(BAD)), kinds(remembered, question(GOOD))) == (None, [])
