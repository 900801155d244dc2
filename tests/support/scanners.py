"""Scanners for tests: clamd with a signature of its own, a small service of ICAP, and a clamd that can be spoiled."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Queue

import pytest

from support.waiting import wait_until

#: what every scanner finds, in two pieces, so that none finds it here
EICAR = rb"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STAND" + rb"ARD-ANTIVIRUS-TEST-FILE!$H+H*"
SIGNATURE = "Hushlist.Test.Eicar"


@contextmanager
def clamd(folder: Path) -> Iterator[str]:
    """The address of a real clamd, which knows nothing but EICAR; without the program, the test is skipped."""
    program = shutil.which("clamd") or shutil.which("clamd", path="/usr/sbin")
    if program is None:
        pytest.skip("clamd is not installed (Debian: clamav-daemon)")
    (folder / "db").mkdir()
    (folder / "db" / "own.ndb").write_text(f"{SIGNATURE}:0:*:{EICAR.hex()}\n")
    path = folder / "clamd.ctl"
    (folder / "clamd.conf").write_text(
        f"DatabaseDirectory {folder / 'db'}\nLocalSocket {path}\nForeground yes\nStreamMaxLength 64M\n"
    )
    process = subprocess.Popen([program, f"--config-file={folder / 'clamd.conf'}"], stdout=subprocess.DEVNULL)
    try:
        wait_until(path.exists, patience=60)
        yield f"clamd://{path}"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def c_icap(folder: Path) -> Iterator[str]:
    """The address of c-icap's service for viruses, which asks a real clamd; without it, the test is skipped."""
    program, modules = shutil.which("c-icap"), [*Path("/usr/lib").glob("*/c_icap/clamd_mod.so")]
    if program is None or not modules:
        pytest.skip("c-icap is not installed (Debian: c-icap, libc-icap-mod-virus-scan)")
    with clamd(folder) as scanner, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        (folder / "c-icap.conf").write_text(
            f"""PidFile {folder}/c-icap.pid
CommandsSocket {folder}/c-icap.ctl
StartServers 1
MaxServers 1
Port 127.0.0.1:{port}
TmpDir {folder}
ModulesDir {modules[0].parent}
ServicesDir {modules[0].parent}
TemplateDir /usr/share/c_icap/templates/
LoadMagicFile /etc/c-icap/c-icap.magic
ServerLog {folder}/c-icap.log
Module common clamd_mod.so
clamd_mod.ClamdSocket {scanner.removeprefix("clamd://")}
Service antivirus_module virus_scan.so
ServiceAlias avscan virus_scan?allow204=on&sizelimit=off&mode=simple
virus_scan.ScanFileTypes TEXT DATA EXECUTABLE ARCHIVE GIF JPEG MSOFFICE
virus_scan.MaxObjectSize 64M
"""
        )
        process = subprocess.Popen([program, "-N", "-f", str(folder / "c-icap.conf")], start_new_session=True)
        try:
            wait_until(lambda: _listens(port), patience=60)
            yield f"icap://127.0.0.1:{port}/avscan"
        finally:
            process.terminate()
            process.wait()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


@contextmanager
def icap_service() -> Iterator[str]:
    """The address of a service that takes previews, and knows EICAR."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_serve, args=(listener,), daemon=True).start()
        yield f"icap://127.0.0.1:{listener.getsockname()[1]}/avscan"


def _serve(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            threading.Thread(target=_answer, args=(listener.accept()[0],), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection, suppress(OSError, ValueError), connection.makefile("rwb") as stream:
        while line := stream.readline():
            method = line.split()[0]
            fields = {}
            while (field := stream.readline()) not in (b"\r\n", b""):
                name, _, value = field.partition(b":")
                fields[name.strip().lower()] = value.strip()
            if method == b"OPTIONS":
                stream.write(b"ICAP/1.0 200 OK\r\nMethods: RESPMOD, REQMOD\r\nPreview: 100\r\nAllow: 204\r\n")
                stream.write(b"Encapsulated: null-body=0\r\n\r\n")
                stream.flush()
                continue
            stream.read(int(fields[b"encapsulated"].rpartition(b"=")[2]))
            body, is_whole = _chunks(stream)
            if not is_whole:
                stream.write(b"ICAP/1.0 100 Continue\r\n\r\n")
                stream.flush()
                body += _chunks(stream)[0]
            if EICAR in body:
                stream.write(b"ICAP/1.0 200 OK\r\nX-Infection-Found: Type=0; Resolution=2; Threat=Own.Eicar;\r\n")
                stream.write(b"Encapsulated: res-hdr=0, res-body=19\r\n\r\nHTTP/1.1 403 No\r\n\r\n0\r\n\r\n")
            else:
                stream.write(b"ICAP/1.0 204 No Content\r\n\r\n")
            stream.flush()


def _chunks(stream: object) -> tuple[bytes, bool]:
    """Octets, and whether there are no more."""
    octets = b""
    while size := stream.readline():  # type: ignore[attr-defined]
        number = int(size.partition(b";")[0], 16)
        piece = stream.read(number + 2)  # type: ignore[attr-defined]
        if not number:
            return octets, b"ieof" in size
        octets += piece[:-2]
    raise ValueError


class SpoiledClamd:
    """Speaks clamd's INSTREAM, knows EICAR, and does something else with a question once it is told to."""

    def __init__(self) -> None:
        #: what becomes of a question on a connection, which ends then
        self.does: Does = SpoiledClamd.scan
        #: the connections of questions, as they come; and those that whoever asked has ended
        self.connected, self.left = Queue[socket.socket](), Queue[socket.socket]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._listen()

    def __enter__(self) -> SpoiledClamd:
        return self

    def __exit__(self, *_: object) -> None:
        self.go_away()

    def _listen(self) -> None:
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def go_away(self) -> None:
        """Listen no more."""
        with suppress(OSError):  # it has ended what waits in it
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def come_back(self) -> None:
        """Be as at the beginning, at the same port."""
        self.go_away()
        self._listener, self.does = socket.create_server(("127.0.0.1", self.port)), SpoiledClamd.scan
        self._listen()

    def _serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._take, args=(listener.accept()[0],), daemon=True).start()

    def _take(self, connection: socket.socket) -> None:
        self.connected.put(connection)
        with connection, suppress(OSError):
            self.does(self, connection)

    def scan(self, connection: socket.socket) -> None:
        """Answer as clamd does."""
        with connection.makefile("rwb") as stream:
            assert stream.read(10) == b"zINSTREAM\0"
            octets = bytearray()
            while size := int.from_bytes(stream.read(4), "big"):
                octets += stream.read(size)
            stream.write(b"stream: Own.Eicar FOUND\0" if EICAR in octets else b"stream: OK\0")

    def hang(self, connection: socket.socket) -> None:
        """Read all, and say nothing, until whoever asks has ended the connection."""
        with suppress(ConnectionError):
            while connection.recv(1 << 16):
                pass
        self.left.put(connection)

    def die(self, connection: socket.socket) -> None:
        """End within the question, as a process does that is killed."""
        connection.recv(20)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes((1, 0, 0, 0, 0, 0, 0, 0)))


#: a way to treat a question
Does = Callable[[SpoiledClamd, socket.socket], None]


def says(answer: bytes) -> Does:
    """Say this, whatever the question is."""

    def say(_: SpoiledClamd, connection: socket.socket) -> None:
        connection.sendall(answer)
        while connection.recv(1 << 16):
            pass

    return say
