"""HAProxy as examples/fleet has it, on free ports of loopback, in front of real mitmdumps."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from e2e.origin import LOOPBACK, PATIENCE, free_ports
from e2e.proxy import CHECKOUT, Log
from support.waiting import wait_until

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

    def states(self, backend: str = "workers") -> list[str]:
        """``UP``, ``DOWN`` or what is between, of each server."""
        rows = [row.split(",") for row in self.ask("show stat").splitlines() if row.startswith(f"{backend},")]
        return [row[17] for row in rows if row[1] != "BACKEND"]

    def wait_for(self, *states: str) -> None:
        """Wait until the servers, in their order, are in these states."""
        wait_until(lambda: self.states() == list(states))

    @property
    def pid(self) -> int:
        """The process that serves, which is another one after each reload."""
        match = re.search(r"^Pid: (\d+)", self.ask("show info"), re.MULTILINE)
        assert match
        return int(match[1])

    def reload(self) -> None:
        """As ``systemctl reload`` does; returns when the new process has taken over."""
        before, start = self.pid, len(self.log)
        # just after a reload, HAProxy does not hear the signal for the next one
        wait_until(
            lambda: "Reloading HAProxy" in self.log.text(start) or self.process.send_signal(signal.SIGUSR2), pause=1.0
        )
        wait_until(lambda: self.is_served(other_than=before))

    def is_served(self, other_than: int = 0) -> bool:
        """Whether a process answers at its socket, and not that one."""
        with suppress(OSError, AssertionError):
            return self.pid != other_than
        return False


def configured(folder: Path, port: int, workers: Sequence[tuple[int, int]]) -> str:
    """The example's configuration, with these ports: of HAProxy, and each worker's own and that for its health."""
    lines = (
        f"    server worker{number} {LOOPBACK}:{listening} port {health}\n"
        for number, (listening, health) in enumerate(workers, 1)
    )
    text, changes = CONFIGURATION.read_text(encoding="utf-8"), []
    for pattern, other in (
        (r"bind :8080", f"bind {LOOPBACK}:{port}"),
        (r"/run/haproxy/hushlist.sock", str(folder / "haproxy.sock")),
        (r"(?:    server .*\n)+", "".join(lines)),
    ):
        text, number = re.subn(pattern, other, text)
        changes.append(number)
    assert changes == [1, 2, 2]
    return text


@contextmanager
def haproxy(
    folder: Path, workers: Sequence[tuple[int, int]], *, adapt: Callable[[str], str] = str
) -> Iterator[Balancer]:
    """HAProxy until the block ends, once it has seen all workers; ``adapt`` changes its configuration."""
    assert HAPROXY
    (port,) = free_ports(1)
    file = folder / "haproxy.cfg"
    file.write_text(adapt(configured(folder, port, workers)), encoding="utf-8")
    command = [HAPROXY, "-W", "-f", str(file)]
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    log = Log(process)
    balancer = Balancer(process, log, port, folder)
    try:
        wait_until(lambda: balancer.is_served() or process.poll() is not None)
        assert process.poll() is None, log.text()
        balancer.wait_for(*["UP"] * len(workers))
        wait_until(lambda: balancer.states("healthy") == balancer.states())
        yield balancer
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            log.close()
            print(log.text())
