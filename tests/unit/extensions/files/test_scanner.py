"""Questions to scanners: what they answer, and what becomes of scanners that do not."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from hushlist.extensions.files.scanner import ScanError, Scanned, Scanner, ScannerSettings
from support.policies import read_whole
from support.scanners import EICAR, SIGNATURE, clamd, icap_service
from unit.rows import each_row

_HEADS = (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n")
_SOME = {"fine": b"a" * 5000, "short": b"a", "bad": EICAR, "deep": b"a" * 200_000 + EICAR + b"b" * 200_000}


def test_a_service_of_icap_is_asked_by_previews() -> None:
    with icap_service() as address:
        scanner = Scanner(ScannerSettings(address))
        for heads in (_HEADS, (_HEADS[0], b"")):
            found = {name: asyncio.run(scanner.scan(Scanned(octets, *heads))) for name, octets in _SOME.items()}
            assert found == {"fine": "", "short": "", "bad": "Own.Eicar", "deep": "Own.Eicar"}


@pytest.mark.slow
def test_clamd_is_asked(tmp_path: Path) -> None:
    with clamd(tmp_path) as address:
        scanner = Scanner(ScannerSettings(address))
        found = {name: asyncio.run(scanner.scan(Scanned(octets))) for name, octets in _SOME.items()}
    assert found == {"fine": "", "short": "", "bad": f"{SIGNATURE}.UNOFFICIAL", "deep": f"{SIGNATURE}.UNOFFICIAL"}


def scanned_by(answer: bytes, scheme: str, *, hangs: bool = False) -> tuple[str, float, bytes]:
    """What is said of a file by a scanner that answers so, whatever it is asked; after how long; what it was sent."""
    sent = bytearray()

    def serve() -> None:
        with suppress(OSError), listener.accept()[0] as connection:
            connection.sendall(answer)
            if not hangs:
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(1 << 16):
                sent.extend(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        served = threading.Thread(target=serve)
        served.start()
        path = "x" if scheme == "icap" else ""
        scanner = Scanner(ScannerSettings(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/{path}", seconds=1))
        before = monotonic()
        try:
            said = asyncio.run(scanner.scan(Scanned(b"a" * 100, *_HEADS)))
        except ScanError as error:
            said = str(error)
        served.join()
        return said, monotonic() - before, bytes(sent)


def sent_back(head: bytes = _HEADS[1], body: bytes = b"a" * 100, rest: bytes = b"", kind: bytes = b"res") -> bytes:
    """What a service answers that sends a file back."""
    places = b"%b-hdr=0, %b-body=%d" % (kind, kind, len(head))
    chunks = b"%x\r\n%b\r\n%b0\r\n\r\n" % (len(body), body, rest)
    start = b"ICAP/1.0 200 OK\r\n\r\nICAP/1.0 200 OK\r\nEncapsulated: "
    return start + places + b"\r\n\r\n" + head + chunks


@pytest.mark.slow
@each_row(
    ("scheme", "answer", "hangs", "expected"),
    [
        ("clamd", b"stream: OK\0", False, ""),
        ("clamd", b"stream: A.B FOUND\0", False, "A.B"),
        ("clamd", b"", False, "the scanner cannot be asked: "),
        ("clamd", b"", True, "the scanner has not answered within 1 seconds"),
        ("clamd", b"stream: O", True, "the scanner has not answered within 1 seconds"),
        ("clamd", b"x" * (1 << 20), True, "the scanner's answer cannot be read"),
        ("clamd", b"stream: OK FOUND OK\0", False, "the scanner says: "),
        ("clamd", b"INSTREAM size limit exceeded. ERROR\0", False, "the scanner says: INSTREAM size limit"),
        ("icap", b"", True, "the scanner has not answered within 1 seconds"),
        ("icap", b"HTTP/1.1 200 OK\r\n\r\n", False, "the scanner's answer cannot be read"),
        ("icap", b"ICAP/1.0 404 No\r\n\r\n", False, "the scanner does not take RESPMOD"),
        ("icap", b"ICAP/1.0 200 OK\r\n\r\nICAP/1.0 500 No\r\n\r\n", False, "the scanner has answered 500"),
        ("icap", b"ICAP/1.0 200 OK\r\n\r\nICAP/1.0 204 No\r\n\r\n", False, ""),
        ("icap", b"ICAP/1.0 200 OK\r\n\r\nICAP/1.0 200 OK\r\nX-Virus-ID: A.B\r\n\r\n", False, "A.B"),
        ("icap", b"ICAP/1.0 200 OK\r\n\r\nICAP/1.0 204 No\r\nX-Infection-Found: Threat=A.B;\r\n\r\n", False, "A.B"),
        ("icap", b"ICAP/1.0 200 OK\r\n\r\nICAP/1.0 200 OK\r\n\r\n", False, "something that the scanner takes out"),
        ("icap", sent_back(), False, ""),
        ("icap", sent_back(b"HTTP/1.0 200 Fine\r\nVia: x\r\n\r\n"), False, ""),
        ("icap", sent_back(b"HTTP/1.1 403 No\r\n\r\n"), False, "something that the scanner takes out"),
        ("icap", sent_back(b""), False, "something that the scanner takes out"),
        ("icap", sent_back(kind=b"req"), False, "something that the scanner takes out"),
        ("icap", sent_back(rest=b"1\r\nb\r\n"), False, "something that the scanner takes out"),
        ("icap", sent_back(rest=b"fffffffff\r\n"), False, "something that the scanner takes out"),
        ("icap", sent_back(body=b"a" * 99), False, "something that the scanner takes out"),
        (
            "icap",
            b"ICAP/1.0 200 OK\r\n\r\nICAP/1.0 200 OK\r\nEncapsulated: res-body=0\r\n\r\nzz\r\n",
            False,
            "the scanner's answer cannot be read",
        ),
        (
            "icap",
            b"ICAP/1.0 200 OK\r\n\r\nICAP/1.0 200 OK\r\nEncapsulated: res-body=0\r\n\r\n64\r\n%b\r\n0\r\n\r\n"
            % (b"a" * 100),
            False,
            "",
        ),
    ],
)
def test_whatever_a_scanner_does_is_bounded(scheme: str, answer: bytes, hangs: bool, expected: str) -> None:
    said, seconds, _ = scanned_by(answer, scheme, hangs=hangs)
    assert said.startswith(expected) if expected else said == ""
    assert seconds < 5


def test_clamd_is_sent_a_file_in_pieces_and_an_empty_one_at_the_end() -> None:
    said, _, sent = scanned_by(b"stream: OK\0", "clamd")
    assert (said, sent) == ("", b"zINSTREAM\0" + bytes((0, 0, 0, 100)) + b"a" * 100 + bytes(4))


def test_a_client_has_a_share_of_a_scanner() -> None:
    async def whole() -> None:
        running, ends = list[str](), asyncio.Event()

        class Waiting(Scanner):
            async def _connected(self, file: Scanned, ask: object) -> str:
                running.append(file.client)
                await ends.wait()
                return ""

        scanner = Waiting(ScannerSettings("clamd://127.0.0.1:1", at_once=8))
        many = [asyncio.ensure_future(scanner.scan(Scanned(b"a", client="10.0.0.1"))) for _ in range(20)]
        others = [asyncio.ensure_future(scanner.scan(Scanned(b"a", client=f"10.0.0.{last}"))) for last in (2, 3)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert running == ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3"]
        ends.set()
        assert await asyncio.gather(*many, *others) == [""] * 22

    asyncio.run(whole())


def test_nobody_listens() -> None:
    with pytest.raises(ScanError, match="cannot be asked"):
        asyncio.run(Scanner(ScannerSettings("clamd://127.0.0.1:1")).scan(Scanned(b"a")))


@each_row(
    ("scanner", "error"),
    [
        ("{address: 'http://a.example'}", "expected clamd://HOST:PORT"),
        ("{address: 'icap://127.0.0.1'}", "expected clamd://HOST:PORT"),
        ("{address: 'clamd://a@b'}", "expected clamd://HOST:PORT"),
        ("{address: 'clamd://[::1'}", "expected clamd://HOST:PORT"),
        ("{seconds: 5}", "address"),
        ("{address: 'clamd://127.0.0.1', largest: 1g}", "at most 256m"),
        ("{address: 'clamd://127.0.0.1', seconds: 0}", "seconds"),
    ],
)
def test_a_mistake_is_told(tmp_path: Path, scanner: str, error: str) -> None:
    _, errors = read_whole(tmp_path, f"files: [{{infected: true}}]\nscanner: {scanner}\nlayers: []\n")
    assert error in errors[0]
