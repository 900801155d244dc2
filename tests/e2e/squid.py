"""Runs a real Squid with the filter as its helper, against the origin on loopback."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

import httpx

from e2e.origin import LOOPBACK, Origin, free_ports
from e2e.proxy import CHECKOUT, PATIENCE, Answer, Log, read_answer

#: it is in /usr/sbin, which is not on everybody's path
SQUID = shutil.which("squid", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))

#: Squid gives up root for a user who may see neither the checkout nor the test's folder; not so root by another name.
_NOT_AS_ROOT = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]

_CONFIGURATION = """
http_port {loopback}:{port}
pid_filename {folder}/squid.pid
coredump_dir {folder}
cache_log {folder}/cache.log
logformat hushlist %ru %>Hs tag=%et log=%ea
access_log stdio:{folder}/access.log logformat=hushlist
error_directory {folder}/errors
netdb_filename none
pinger_enable off
shutdown_lifetime 0 seconds
visible_hostname squid.test
cache deny all
# every name leads to the origin, and none is looked up elsewhere
dns_nameservers {loopback}
dns_timeout 1 second
hosts_file {folder}/hosts
acl tunnels method CONNECT
cache_peer {loopback} parent {origin.http_port} 0 no-query no-digest originserver
never_direct allow !tunnels
always_direct allow tunnels
{lines}
http_access allow all
"""

#: where the reference has it
COMMAND = "/opt/hushlist/bin/hushlist"
DENIED = "<p id='why'>%o</p>"


def why_not() -> str:
    """Why Squid cannot be run here; empty where it can."""
    if SQUID is None or not hasattr(os, "geteuid"):
        return "Squid is not installed"
    if os.geteuid() == 0 and subprocess.run([*_NOT_AS_ROOT, "true"], capture_output=True, check=False).returncode:
        return "Squid does not run as root, and this system has no user namespaces"
    return ""


class Squid:
    """A running Squid."""

    def __init__(self, process: subprocess.Popen[str], log: Log, port: int, folder: Path) -> None:
        self.log = log
        self._process, self._port, self._folder = process, port, folder

    def logged(self, start: str) -> str:
        """The line of its access log that begins so, without its escapes; a line is written behind its answer."""
        file = self._folder / "access.log"
        patience = time.monotonic() + PATIENCE
        while True:
            lines = unquote(file.read_text(encoding="utf-8")).splitlines()
            entry = next((line for line in lines if line.startswith(start)), None)
            if entry is not None:
                return entry
            assert time.monotonic() < patience, f"no line begins with {start!r}: {lines}"
            time.sleep(0.05)

    def get(self, url: str) -> httpx.Response:
        """One request; redirects are not followed."""
        with httpx.Client(proxy=f"http://{LOOPBACK}:{self._port}", verify=False, trust_env=False) as client:
            return client.get(url, timeout=PATIENCE)

    def send(self, head: bytes, method: str = "GET") -> Answer:
        """Send exactly these octets, read one answer."""
        with socket.create_connection((LOOPBACK, self._port), timeout=PATIENCE) as connection:
            connection.sendall(head)
            return read_answer(connection, method)

    def reconfigure(self) -> None:
        """As ``squid -k reconfigure`` does; waits until it is done."""
        start = len(self.log)
        self._process.send_signal(signal.SIGHUP)
        self.wait_until_it_listens(start)

    def wait_until_it_listens(self, start: int = 0) -> None:
        """It says so a moment before it does."""
        self.log.wait_for("Accepting HTTP Socket connections", start)
        patience = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection((LOOPBACK, self._port), timeout=PATIENCE).close()
            except ConnectionRefusedError:
                if time.monotonic() > patience:
                    raise
                time.sleep(0.05)
            else:
                return


@contextmanager
def squid(folder: Path, origin: Origin, lines: str) -> Iterator[Squid]:
    """A Squid with these lines in its squid.conf; COMMAND in them is the command of this checkout."""
    assert SQUID is not None
    (folder / "errors").mkdir()
    (folder / "errors" / "ERR_HUSHLIST").write_text(DENIED, encoding="ascii")
    (folder / "hosts").write_text(f"{LOOPBACK} good.test path.test ads.test www.ads.test\n", encoding="ascii")
    command = folder / "hushlist"
    run = shlex.join([sys.executable, "-c", "from hushlist.cli import run; run()"])
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(CHECKOUT / "addon"))} exec {run} "$@"\n', encoding="utf-8"
    )
    command.chmod(0o755)
    (port,) = free_ports(1)
    text = _CONFIGURATION.format(
        loopback=LOOPBACK,
        port=port,
        folder=folder,
        origin=origin,
        lines=lines.replace(COMMAND, str(command)),
    )
    (folder / "squid.conf").write_text(text, encoding="utf-8")
    # The name of its service is that of its shared memory, too.
    arguments = [SQUID, "-N", "-d1", "-f", str(folder / "squid.conf"), "-n", f"hushlist{port}"]
    process = subprocess.Popen(
        [*(_NOT_AS_ROOT if os.geteuid() == 0 else ()), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="backslashreplace",
    )
    log = Log(process)
    running = Squid(process, log, port, folder)
    try:
        running.wait_until_it_listens()
        yield running
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            log.close()
        print(log.text())  # pytest shows it with a failure
