"""How real servers are asked, and how what they serve is judged; ``tests/evasion/run.py`` asks them."""

from __future__ import annotations

import socket
import threading

import pytest

from evasion.servers.asking import LOOPBACK, Server, ask_all, is_secret
from evasion.servers.judge import Judge, is_outside
from evasion.servers.proof import hostile, sample
from evasion.servers.targets import targets


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(tmp_path_factory.mktemp("judge"))


def test_the_same_seed_makes_the_same_targets() -> None:
    assert targets(100, seed=7) == targets(100, seed=7)
    assert not {*targets(100, seed=7)} & {*targets(100, seed=8)} >= {*targets(100, seed=7)}
    assert len({*targets(1000, seed=7)}) == 1000


def test_no_target_would_end_a_line_or_a_word_of_the_request() -> None:
    assert [target for target in hostile(2000, seed=3) if set(target) & set(b" \r\n")] == []


@pytest.mark.parametrize(
    ("served", "secret", "outside"),
    [
        (b"/secret/x", True, True),
        (b"/secret/../x", True, True),
        (b"/secret", False, True),
        (b"//secret/x", False, False),
        (b"/", False, True),
        (b"/hidden", False, True),
        (b"/live/x", False, False),
        (b"/live%2fx", False, False),
    ],
)
def test_a_place_is_secret_or_outside(served: bytes, secret: bool, outside: bool) -> None:
    assert (is_secret(served), is_outside(served)) == (secret, outside)


def test_what_the_filter_lets_pass_is_a_miss(judge: Judge) -> None:
    asked = [b"/secret/x", b"/nothing", b"/live/x", b"/elsewhere/live"]
    told = [{"it": b"/secret/x"}, {"one": b"/x", "two": b"/secret/"}, {"it": b"/x"}, {}]
    judged = judge.judge(asked, told)
    assert judged.harmful == ((b"path.test", b"/secret/x"), (b"path.test", b"/nothing"), (b"video.test", b"/live/x"))
    assert [(miss.target, miss.hosts) for miss in judged.misses] == [
        (b"/live/x", (b"video.test",)),
        (b"/nothing", (b"path.test", b"hash.test", b"open.test")),
    ]
    assert sample(judged, 1)[0] == (b"video.test", b"/live/x")
    assert {*sample(judged, 5)} == {*judged.harmful}


#: target -> what a made-up server answers, and whether the connection ends then
_ANSWERS = {
    b"/header": (b"HTTP/1.1 200 OK\r\nX-Served-Name: /a%2Fb\r\nX-Served: /\r\nContent-Length: 3\r\n\r\nabc", False),
    b"/body": (b"HTTP/1.1 404 No\r\ncontent-length: 9\r\n\r\nserved:/x", False),
    b"/chunked": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nserved:\r\n2\r\n/y\r\n0\r\n\r\n", False),
    b"/early": (b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 204 No\r\nx-served: /e\r\n\r\n", False),
    b"/last": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nserved:/z", True),
    b"/until-the-end": (b"HTTP/1.1 200 OK\r\n\r\nserved:/end", True),
    b"/nothing": (b"", True),
    b"/broken": (b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\nserved:/b", True),
    b"/none": (b"gibberish\r\n\r\n", True),
}


def _answer(listening: socket.socket) -> None:
    """Answer connection after connection until one asks for the end."""
    while True:
        connection, _ = listening.accept()
        with connection, connection.makefile("rb") as requests:
            while (line := requests.readline()) and not (is_last := False):
                requests.readline(), requests.readline()
                if line.split()[1] == b"/end":
                    return
                answer, is_last = _ANSWERS[line.split()[1]]
                connection.sendall(answer)
                if is_last:
                    break


@pytest.mark.parametrize("at_once", [1, 3, 32])
def test_every_answer_is_read_and_goes_with_its_target(at_once: int) -> None:
    asked = [*_ANSWERS, *reversed(_ANSWERS)]
    with socket.create_server((LOOPBACK, 0)) as listening:
        server = Server("made up", listening.getsockname()[1], at_once)
        thread = threading.Thread(target=_answer, args=[listening])
        thread.start()
        told = ask_all(server, asked)
        assert ask_all(server, [b"/end"]) == [{}]
        thread.join()
    expected = [
        {"name": b"/a/b", "": b"/"},
        {"body": b"/x"},
        {"body": b"/y"},
        {"": b"/e"},
        {"body": b"/z"},
        {"body": b"/end"},
        {},
        {},
        {},
    ]
    assert told == [*expected, *reversed(expected)]
