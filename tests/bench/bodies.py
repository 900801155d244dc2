"""Large bodies: when they begin, how long they take, and how much memory mitmdump needs meanwhile.

    tests/bench/bodies.py [--megabytes 400] [--clients 10]
    tests/bench/bodies.py --files

With the filter, and with mitmproxy alone, as it is and with ``stream_large_bodies=1``. Clients are curl, over http; the
origin is on the same machine. ``--files``: the processor time of a download that no rule for files is about, beside
that without such rules; each by turns, so that both have the same of what else the machine does.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

CHECKOUT = Path(__file__).parents[2]
MITMDUMP = Path(sys.executable).with_name("mitmdump")
WAYS: dict[str, Sequence[str]] = {
    "Hushlist": ("-s", str(CHECKOUT / "addon" / "filter.py")),
    "mitmproxy, stream_large_bodies=1": ("--set", "stream_large_bodies=1"),
    "mitmproxy": (),
}
_BLOCK = bytes(1 << 20)
#: rules for files, of which none is about what is downloaded
_OTHER_FILES = "files: [{types: video/*, content: program}, {endings: exe}, {content: macros, for: upload}]\n"
_ROUNDS = 21


def serve(listener: socket.socket, size: int) -> None:
    with suppress(OSError):
        while True:
            threading.Thread(target=_answer, args=(listener.accept()[0], size), daemon=True).start()


def _answer(connection: socket.socket, size: int) -> None:
    with connection, suppress(OSError):
        received = b""
        while b"\r\n\r\n" not in received:
            received += connection.recv(1 << 16)
        head, _, body = received.partition(b"\r\n\r\n")
        if head.startswith(b"POST"):
            left = size - len(body)
            while left > 0 and (octets := connection.recv(1 << 20)):
                left -= len(octets)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            return
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size >> 20):
            connection.sendall(_BLOCK)


def resident(process: int) -> int:
    """The memory of a process in MB."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096 >> 20


class Peak:
    """The most memory that a process had more than at the beginning. Use as a context manager."""

    def __init__(self, process: int) -> None:
        self._process, self._before = process, resident(process)
        self.most, self._is_over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.02):
            self.most = max(self.most, resident(self._process) - self._before)


@contextmanager
def proxy(arguments: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The process and the port of a mitmdump."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(MITMDUMP), "--listen-host", "127.0.0.1", "-p", str(port), "--set", "flow_detail=0", *arguments]
    with (
        tempfile.TemporaryDirectory() as home,
        subprocess.Popen([*command, "--set", f"confdir={home}"], stdout=subprocess.DEVNULL, cwd=home) as process,
    ):
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        time.sleep(2)
        try:
            yield process.pid, port
        finally:
            process.terminate()


def curls(port: int, origin: int, clients: int, *more: str) -> tuple[float, list[str]]:
    """Seconds that so many clients take at once, and what each says."""
    begun = time.monotonic()
    command = ["curl", "-s", "-o", "/dev/null", "-w", "%{time_starttransfer}", "-x", f"http://127.0.0.1:{port}"]
    running = [
        subprocess.Popen([*command, *more, f"http://127.0.0.1:{origin}/"], stdout=subprocess.PIPE, text=True)
        for _ in range(clients)
    ]
    said = [own.communicate()[0] for own in running]
    return time.monotonic() - begun, said


def stalled(process: int, port: int, origin: int) -> int:
    """The memory for a client that asks for a large answer and reads none of it."""
    with Peak(process) as peak, socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET http://127.0.0.1:%d/ HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (origin, origin))
        time.sleep(5)
    return peak.most


def processor(process: int) -> float:
    """Seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compare_files(size: int, origin: int) -> None:
    """Print what downloads cost without rules for files, and with some that are about others."""
    with tempfile.TemporaryDirectory() as folder:
        plain, other = (Path(folder) / name for name in ("plain.yaml", "files.yaml"))
        plain.write_text("layers: []\n")
        other.write_text(f"layers: []\n{_OTHER_FILES}")
        ways = [(*WAYS["Hushlist"], "--set", f"hushlist_policy={policy}") for policy in (plain, other)]
        with proxy(ways[0]) as without, proxy(ways[1]) as with_rules:
            taken: tuple[list[float], list[float]] = [], []
            for number in range(2 * _ROUNDS):
                process, port = (without, with_rules)[number % 2]
                before = processor(process)
                curls(port, origin, 1)
                taken[number % 2].append(processor(process) - before)
    bare, inspected = map(median, taken)
    print(
        f"{size >> 20} MB, processor time: {bare:.2f} s without rules, {inspected:.2f} s with: {inspected / bare:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=400, help="of a download; an upload has half of it")
    parser.add_argument("--clients", type=int, default=10, help="how many there are at once")
    parser.add_argument("--files", action="store_true", help="only what rules for files cost that are about others")
    given = parser.parse_args()
    size = given.megabytes << 20
    down, up = socket.create_server(("127.0.0.1", 0), backlog=100), socket.create_server(("127.0.0.1", 0), backlog=100)
    threading.Thread(target=serve, args=(down, size), daemon=True).start()
    threading.Thread(target=serve, args=(up, size // 2), daemon=True).start()
    if given.files:
        compare_files(size, down.getsockname()[1])
        return
    from_origin, to_origin = (own.getsockname()[1] for own in (down, up))
    print("| | first octet | one download | MB | downloads at once | MB | uploads at once | MB | MB, nobody reads |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.NamedTemporaryFile() as body:
        body.truncate(size // 2)
        for name, arguments in WAYS.items():
            with proxy(arguments) as (process, port):
                with Peak(process) as one:
                    alone, (first,) = curls(port, from_origin, 1)
                with Peak(process) as downloads:
                    seconds, _ = curls(port, from_origin, given.clients)
                with Peak(process) as uploads:
                    uploading, _ = curls(port, to_origin, given.clients, "-X", "POST", "-T", body.name)
                unread = stalled(process, port, from_origin)
            print(
                f"| {name} | {float(first):.2f} s | {alone:.1f} s | {one.most} | {seconds:.1f} s | {downloads.most} "
                f"| {uploading:.1f} s | {uploads.most} | {unread} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
