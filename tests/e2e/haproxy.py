"""HAProxy as examples/fleet has it, on free ports of loopback, in front of real mitmdumps."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from e2e.origin import LOOPBACK, PATIENCE, free_ports
from e2e.proxy import CHECKOUT, Log

CONFIGURATION = CHECKOUT / "examples" / "fleet" / "haproxy.cfg"
#: Debian has it in /usr/sbin, which is not on everybody's path
HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
#: the address that workers believe, as the example's configuration has it
BALANCER = "127.0.0.2"


class Balancer:
    """A running HAProxy: its port, and what it knows of its servers."""

    def __init__(self, process: subprocess.Popen[str], log: Log, port: int, folder: Path) -> None:
        self.process, self.log, self.port = process, log, port
        self.url = f"http://{LOOPBACK}:{port}"
        self._socket = folder / "haproxy.sock"

    def ask(self, command: str) -> str:
        """What the administrator's socket answers."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(str(self._socket))
            connection.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def states(self) -> dict[str, str]:
        """``UP``, ``DOWN`` or what is between, by server."""
        rows = [row.split(",") for row in self.ask("show stat").splitlines() if row.startswith("workers,")]
        return {row[1]: row[17] for row in rows if row[1] != "BACKEND"}

    def wait_for(self, states: Sequence[str]) -> None:
        """Wait until the servers, in their order, are in these states."""
        wait_until(lambda: list(self.states().values()) == list(states))

    @property
    def pid(self) -> int:
        """The process that serves, which is another one after each reload."""
        found = re.search(r"^Pid: (\d+)", self.ask("show info"), re.MULTILINE)
        assert found
        return int(found[1])

    def reload(self) -> None:
        """As ``systemctl reload`` does; returns when the new process has taken over."""
        before = self.pid
        self.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: self._is_served_by_another(before))

    def _is_served_by_another(self, before: int) -> bool:
        with suppress(OSError, AssertionError):  # its socket is not there yet
            return self.pid != before
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)


def configured(folder: Path, port: int, workers: Sequence[int], health: Sequence[int] = ()) -> Path:
    """The example's configuration, with these ports, and as many workers."""
    text = CONFIGURATION.read_text(encoding="utf-8")
    text, binds = re.subn(r"bind :8080", f"bind {LOOPBACK}:{port}", text)
    text, sockets = re.subn(r"/run/hushlist/haproxy.sock", str(folder / "haproxy.sock"), text)
    head, *servers = re.split(r"^(?=    server )", text, flags=re.MULTILINE)
    assert (binds, len(servers)) == (1, 2)
    assert sockets == 2  # in a comment, too
    checked = [f" check port {one}" for one in health] or [""] * len(workers)
    lines = (
        f"    server worker{number} {LOOPBACK}:{one}{check}\n"
        for number, (one, check) in enumerate(zip(workers, checked, strict=True), 1)
    )
    file = folder / "haproxy.cfg"
    file.write_text(head + "".join(lines), encoding="utf-8")
    return file


@contextmanager
def haproxy(
    folder: Path, workers: Sequence[int], health: Sequence[int] = (), *, adapt: Callable[[str], str] = str
) -> Iterator[Balancer]:
    """HAProxy until the block ends, once it has seen all workers; ``adapt`` changes its configuration."""
    assert HAPROXY
    (port,) = free_ports(1)
    file = configured(folder, port, workers, health)
    file.write_text(adapt(file.read_text(encoding="utf-8")), encoding="utf-8")
    command = [HAPROXY, "-W", "-f", str(file)]
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    log = Log(process)
    balancer = Balancer(process, log, port, folder)
    try:
        wait_until(lambda: (folder / "haproxy.sock").exists() or process.poll() is not None)
        assert process.poll() is None, log.text()
        balancer.wait_for(["UP"] * len(workers))
        yield balancer
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            log.close()
            print(log.text())
