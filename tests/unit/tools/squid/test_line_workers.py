"""Several processes answer lines: in order, whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hushlist.tools.squid.line_workers import LineWorkers
from unit.rows import each_row

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forks")

_PROGRAM = """
import os, signal, sys
from pathlib import Path
from hushlist.tools.squid.line_workers import LineWorkers

def serve(source, sink):
    begun = b""
    while octets := os.read(source, 65536):
        *lines, begun = (begun + octets).split(b"\\n")
        if b"die" in lines and sys.argv[2:] == ["at-once"]:
            os.kill(os.getpid(), signal.SIGKILL)
        for line in lines:
            if line == b"die":
                os.kill(os.getpid(), signal.SIGKILL)
            if line.startswith(b"once "):
                mark = Path(line[5:].decode())
                if not mark.exists():
                    mark.touch()
                    os.write(sink, b"half an ans")
                    os._exit(3)
            pid = b" %d" % os.getpid() if line.startswith(b"who") else b""
            os.write(sink, b"<" + line[:60] + b" %d>" % len(line) + pid + b"\\n")

failed, complain = b"failed ".__add__, lambda why: print(why, file=sys.stderr)
LineWorkers(int(sys.argv[1]), serve, failed, complain, 1000).serve(0, 1)
"""


def answers_of(number: int, text: bytes, *options: str) -> tuple[list[bytes], bytes]:
    command = [sys.executable, "-c", _PROGRAM, str(number), *options]
    done = subprocess.run(command, input=text, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.mark.slow
@each_row("number", [1, 2, 5])
@each_row("has_end", [True, False])
def test_answers_are_in_the_order_of_the_lines(number: int, has_end: bool) -> None:
    lines = [b"line %d" % place * (1 + place % 7) for place in range(30_000)]
    found, complaints = answers_of(number, b"\n".join(lines) + b"\n" * has_end)
    assert found == [b"<%b %d>" % (line[:60], len(line)) for line in lines]
    assert complaints == b""


@pytest.mark.parametrize("number", [1, 2])
def test_there_are_no_more_workers_than_that(number: int) -> None:
    found, _ = answers_of(number, b"who\n" * 40_000)
    assert len({answer.rpartition(b" ")[2] for answer in found}) <= number


def test_no_lines_give_no_answers() -> None:
    assert answers_of(2, b"") == ([], b"")


def test_a_line_without_an_end_is_kept_up_to_the_limit() -> None:
    found, _ = answers_of(2, b"x" * 500_000)
    assert [answer.rpartition(b" ")[2] for answer in found] == [b"1001>"]


@pytest.mark.slow
def test_a_line_that_kills_workers_is_answered_as_a_failure_and_all_others_as_ever() -> None:
    lines = [b"a", b"die", *(b"b%d" % place for place in range(20_000)), b"die", b"c"]
    found, complaints = answers_of(2, b"\n".join(lines) + b"\n")
    assert found == [b"failed die" if line == b"die" else b"<%b %d>" % (line, len(line)) for line in lines]
    assert complaints.count(b"a worker ended (exit status -9)") == 4
    assert complaints.count(b"two workers ended at the same line") == 2


def test_a_worker_that_answers_many_lines_at_once_dies_and_one_line_alone_is_answered_as_a_failure() -> None:
    lines = [*(b"a%d" % place for place in range(500)), b"die", *(b"b%d" % place for place in range(500)), b"die", b"c"]
    found, complaints = answers_of(2, b"\n".join(lines) + b"\n", "at-once")
    assert found == [b"failed die" if line == b"die" else b"<%b %d>" % (line, len(line)) for line in lines]
    assert complaints.count(b"a worker ended (exit status -9)") == 5  # the first one at a line that is not known


def test_a_worker_that_dies_within_an_answer_is_replaced_and_its_lines_are_answered(tmp_path: Path) -> None:
    once = b"once %b" % os.fsencode(tmp_path / "mark")
    lines = [b"a", once, b"b"]
    found, complaints = answers_of(1, b"\n".join(lines))
    assert found == [b"<%b %d>" % (line[:60], len(line)) for line in lines]
    assert complaints == b"a worker ended (exit status 3), and is replaced\n"


def _wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not until():
        assert time.monotonic() < end
        time.sleep(0.02)


def _is_gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_an_answer_comes_at_once_a_dead_worker_is_replaced_and_none_outlives_the_helper() -> None:
    command = [sys.executable, "-c", _PROGRAM, "2"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as helper:
        assert helper.stdin is not None
        assert helper.stdout is not None

        def ask() -> int:
            helper.stdin.write(b"who\n")
            helper.stdin.flush()
            return int(helper.stdout.readline().split()[-1])

        first = ask()
        os.kill(first, signal.SIGKILL)
        second = ask()
        assert second != first
        others = Path(f"/proc/{helper.pid}/task/{helper.pid}/children").read_text().split()
        helper.send_signal(signal.SIGTERM)
        helper.wait(20)
        _wait(lambda: all(_is_gone(int(process)) for process in others))


def test_it_ends_when_nobody_reads_the_answers() -> None:
    asked, ask = os.pipe()
    told, tell = os.pipe()
    os.close(told)
    os.write(ask, b"a\n")

    def serve(source: int, sink: int) -> None:
        while octets := os.read(source, 100):
            os.write(sink, octets)

    serving = threading.Thread(target=LineWorkers(2, serve, bytes, print, 100).serve, args=(asked, tell), daemon=True)
    serving.start()
    serving.join(20)
    assert not serving.is_alive()
    for end in (asked, ask, tell):
        os.close(end)
