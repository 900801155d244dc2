"""Copies of the log at real sockets: every record once, in order, in the form of syslog; and nobody waits for them."""

from __future__ import annotations

import json
import re
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hushlist.extensions.journal import log_copies as module
from hushlist.extensions.journal import log_writer
from hushlist.extensions.journal.log_copies import CopySink, syslog_message
from hushlist.extensions.journal.log_entry import entry_of_fields, fields_of, line_of
from hushlist.extensions.journal.log_files import CURRENT
from hushlist.extensions.journal.log_keys import LogCopy, LogSettings
from hushlist.extensions.journal.log_record import LogFields, Privacy, lost_record, to_line
from hushlist.extensions.journal.log_writer import LogWriter
from support.waiting import wait_until
from unit.extensions.journal.samples import EVE, fill, lines_of, record

LOOPBACK = "127.0.0.1"
PATIENCE = 60.0
#: RFC 5424, 6: a message of version 1 with all of its fields, none of them empty
MESSAGE = re.compile(
    rb"<([0-9]{1,3})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ([!-~]{1,255}) ([!-~]{1,48}) (\d{1,128}) "
    rb"([!-~]{1,32}) - (\{.*\})"
)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(log_writer, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(log_writer, "GATHER", 0.005)


def parsed(message: bytes) -> tuple[int, LogFields]:
    """The severity of a message, and its record."""
    found = MESSAGE.fullmatch(message)
    assert found, message
    facility, severity = divmod(int(found[1]), 8)
    assert (facility, found[4], found[6]) == (16, b"hushlist", b"decision")
    fields = json.loads(found[7])
    assert fields["time"].encode() == found[2]
    return severity, fields


def references(messages: list[bytes]) -> list[object]:
    return [parsed(message)[1]["reference"] for message in messages]


class Frames:
    """A server of syslog over TCP: what it has read, by the octet counts that go before each message."""

    def __init__(self, port: int = 0) -> None:
        self.messages: list[bytes] = []
        self._listener = socket.create_server((LOOPBACK, port))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        connection, _ = self._listener.accept()
        self._listener.close()
        with connection, connection.makefile("rb") as stream:
            self._connection = connection
            while count := b"".join(iter(lambda: stream.read(1).strip(), b"")):
                self.messages.append(stream.read(int(count)))

    def wait(self, number: int) -> list[bytes]:
        wait_until(lambda: len(self.messages) >= number)
        return self.messages

    def close(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)


def number_of_lines(folder: Path) -> int:
    return len(lines_of(folder)) if (folder / CURRENT).exists() else 0


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Callable[..., LogWriter]]:
    writers: list[LogWriter] = []

    def make(*copies: LogCopy) -> LogWriter:
        writers.append(LogWriter(LogSettings(also=copies, folder=tmp_path), state=tmp_path, clock=lambda: EVE))
        return writers[-1]

    yield make
    for one in writers:
        one.close()


def test_datagrams_of_udp_are_messages_with_the_line_of_the_files(
    tmp_path: Path, writer: Callable[..., LogWriter]
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((LOOPBACK, 0))
        server.settimeout(PATIENCE)
        fill(writer(LogCopy("udp", LOOPBACK, server.getsockname()[1])), record(), record("http://tagged.example/", 1))
        told = [parsed(server.recv(65536)) for _ in range(2)]
    assert [fields for _, fields in told] == lines_of(tmp_path)
    assert [severity for severity, _ in told] == [5, 6]  # what was stopped, and what was not


def test_datagrams_of_a_socket_on_the_machine(tmp_path: Path, writer: Callable[..., LogWriter]) -> None:
    path = tmp_path / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))
        server.settimeout(PATIENCE)
        fill(writer(LogCopy("unix", str(path))), record(number=7))
        assert parsed(server.recv(65536))[1]["reference"] == record(number=7).reference


def test_a_server_that_comes_back_gets_the_rest_in_order(writer: Callable[..., LogWriter]) -> None:
    first = Frames()
    journal = writer(LogCopy("tcp", LOOPBACK, first.port))
    records = [record(number=number) for number in range(900)]
    fill(journal, *records[:300])
    assert references(first.wait(300)) == [one.reference for one in records[:300]]
    first.close()
    for one in records[300:]:
        journal.write(one)
    wait_until(lambda: journal.fault is not None)
    assert f"syslog+tcp://{LOOPBACK}:{first.port}" in str(journal.fault)
    second = Frames(first.port)
    assert references(second.wait(600)) == [one.reference for one in records[300:]]
    assert journal.flush(PATIENCE)
    wait_until(lambda: journal.fault is None)


@pytest.mark.slow
def test_a_server_that_reads_nothing_delays_neither_files_nor_callers(
    tmp_path: Path, writer: Callable[..., LogWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "MOST_WAITING", 2000)
    stuck = threading.Event()
    monkeypatch.setattr(CopySink, "append", lambda *_: stuck.wait(PATIENCE) and None)
    with socket.create_server((LOOPBACK, 0)) as server:
        journal = writer(LogCopy("tcp", LOOPBACK, server.getsockname()[1]))
        for start in range(0, 6000, 1000):
            for number in range(start, start + 1000):
                journal.write(record(number=number))
            wait_until(lambda: number_of_lines(tmp_path) == number + 1)  # noqa: B023  it is waited for here
        wait_until(lambda: journal.waiting == 2000)  # of the copy: the rest will be told of
        stuck.set()


def test_what_did_not_fit_is_told_to_the_server(
    tmp_path: Path, writer: Callable[..., LogWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "MOST_WAITING", 100)
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
    journal = writer(LogCopy("tcp", LOOPBACK, port))  # nobody listens
    for start in range(0, 300, 50):
        for number in range(start, start + 50):
            journal.write(record(number=number))
        wait_until(lambda: number_of_lines(tmp_path) == number + 1)  # noqa: B023  it is waited for here
    told = Frames(port).wait(101)
    assert references(told[:100]) == [record(number=number).reference for number in range(100)]
    severity, last = parsed(told[100])
    assert (severity, last["action"], last["lost"]) == (4, "lost", 200)


def test_a_record_that_is_too_long_for_a_datagram_is_shortened() -> None:
    fields = fields_of(record(), Privacy())
    fields["url"] = "http://h.example/" + 70_000 * "a"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((LOOPBACK, 0))
        server.settimeout(PATIENCE)
        sink = CopySink(LogCopy("udp", LOOPBACK, server.getsockname()[1]))
        sink.append([entry_of_fields(fields)], EVE)
        sink.close()
        told = parsed(server.recv(65536))[1]
    assert told == fields | {"url": fields["url"][:256]}  # type: ignore[index]


def test_after_an_error_no_record_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []

    def write(_: int, octets: bytes) -> int:
        if len(sent) == 2:
            sent.append(b"")
            raise OSError(32, "Broken pipe")
        sent.append(bytes(octets))
        return len(octets)

    monkeypatch.setattr(module.os, "write", write)
    sink = CopySink(LogCopy("stdout"))
    entries = [entry_of_fields(fields) for fields in (fields_of(record(number=n), Privacy()) for n in range(4))]
    with pytest.raises(OSError, match="Broken pipe"):
        sink.append(entries, EVE)
    sink.append(entries, EVE)
    assert [one for one in sent if one] == [line_of(entry) for entry in entries]


def test_after_an_error_the_server_that_is_there_now_is_asked(tmp_path: Path) -> None:
    fields, place = fields_of(record(), Privacy()), tmp_path / "socket"
    sink, entries = CopySink(LogCopy("unix", str(place))), [entry_of_fields(fields)]
    for number in range(2):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
            server.bind(str(place))
            server.settimeout(PATIENCE)
            if number:
                with pytest.raises(OSError, match="refused"):
                    sink.append(entries, EVE)
            sink.append(entries, EVE)
            assert parsed(server.recv(65536))[1] == fields
        place.unlink()
    sink.close()


def test_what_is_not_there_is_named_as_such(tmp_path: Path) -> None:
    fields = fields_of(record(), Privacy())
    with pytest.raises(FileNotFoundError):
        CopySink(LogCopy("unix", str(tmp_path / "none"))).append([entry_of_fields(fields)], EVE)


_PRINTS = """
import sys
from pathlib import Path
from hushlist.extensions.journal.log_writer import LogWriter
from hushlist.extensions.journal.log_keys import LogCopy, LogSettings
from unit.extensions.journal.samples import record
journal = LogWriter(LogSettings(also=(LogCopy("stdout"),), folder=Path(sys.argv[1])))
for number in range(500):
    journal.write(record(number=number))
assert journal.close(60)
"""


@pytest.mark.slow
def test_standard_output_gets_the_lines_of_the_files(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PRINTS, str(tmp_path)]
    paths = ":".join(path for path in sys.path if path)
    done = subprocess.run(command, capture_output=True, check=True, env={"PYTHONPATH": paths, "HOME": str(tmp_path)})
    assert [json.loads(line) for line in done.stdout.splitlines()] == lines_of(tmp_path)
    assert len(lines_of(tmp_path)) == 500


def test_the_head_of_a_message_has_no_more_than_it_may() -> None:
    fields = lost_record("0000000000", EVE, 3)
    for host, shown in (("büro 1\n", "bro1"), ("", "-"), (300 * "a", 255 * "a")):
        message = syslog_message(fields, to_line(fields), host=host, process=1)
        assert MESSAGE.fullmatch(message)
        assert message.split(b" ")[2].decode() == shown


def test_a_connection_has_ended_where_the_server_closed_or_broke_it() -> None:
    for breaks in (False, True):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            own = socket.create_connection(listener.getsockname())
            server, _ = listener.accept()
        with own, server:
            assert not module._has_ended(own)
            server.sendall(b"what a server says is not read")
            select.select([own], [], [], 60)
            assert not module._has_ended(own)
            if breaks:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            server.close()
            select.select([own], [], [], 60)
            assert module._has_ended(own)
