"""Runs mitmdump with the filter as a user would, and the clients that talk to it."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from http.client import HTTPResponse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import httpx
from mitmproxy.certs import CertStore

from e2e.origin import LOOPBACK, PATIENCE
from e2e.preloaded import Forked, start_command, start_mitmdump

CHECKOUT = Path(__file__).parents[2]
FILTER = CHECKOUT / "addon" / "filter.py"
SCRIPTS = Path(__file__).parent / "scripts"
MITMDUMP = Path(sysconfig.get_path("scripts")) / "mitmdump"


class HasPorts(Protocol):
    """An origin on loopback."""

    @property
    def http_port(self) -> int: ...

    @property
    def https_port(self) -> int: ...


@dataclass(frozen=True)
class Answer:
    """A response as a raw client reads it."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Log:
    """The lines that a process prints, collected while it runs."""

    def __init__(self, process: subprocess.Popen[str] | Forked) -> None:
        self._process = process
        self._lines: list[str] = []
        self._grown = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._lines)

    def text(self, start: int = 0) -> str:
        """Everything from line ``start`` on."""
        return "".join(self._lines[start:])

    def wait_for(self, pattern: str, start: int = 0, patience: float = PATIENCE) -> re.Match[str]:
        """The first match of a regular expression in the log from line ``start`` on.

        Raises: AssertionError if the process ends without it, or nothing comes in time.
        """
        with self._grown:
            self._grown.wait_for(lambda: self._ended or re.search(pattern, self.text(start)), patience)
            match = re.search(pattern, self.text(start))
        assert match, f"no {pattern!r} in the log:\n{self.text()}"
        return match

    def close(self) -> None:
        """Wait for the end of the process's output."""
        self._thread.join(PATIENCE)

    def _collect(self) -> None:
        assert self._process.stdout
        with self._process.stdout as stdout:
            for line in stdout:
                with self._grown:
                    self._lines.append(line)
                    self._grown.notify_all()
        with self._grown:
            self._ended = True
            self._grown.notify_all()


class _TLS(ssl.SSLContext):
    """Offers HTTP/2 first, as browsers do. httpx offers it last, and mitmproxy takes what comes first."""

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        super().set_alpn_protocols(sorted(alpn_protocols, key="h2".__ne__))


class Proxy:
    """A running mitmdump: where it listens, what it logs, and clients for it."""

    def __init__(self, process: subprocess.Popen[str] | Forked, log: Log, port: int, authority: Path) -> None:
        self.process = process
        self.log = log
        self.port = port
        self.url = f"http://{LOOPBACK}:{port}"
        #: the certificate authority that clients have to trust
        self.authority = authority
        #: for clients with and without HTTP/2: to make one takes longer than a request
        self._contexts: dict[bool, ssl.SSLContext] = {}

    def tls(self) -> ssl.SSLContext:
        """What a client needs to trust the certificates that the proxy makes."""
        context = _TLS(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.authority)
        return context

    def client(self, *, http2: bool = False, timeout: float = PATIENCE) -> httpx.Client:
        """A client that sends everything through the proxy."""
        verify = self._contexts.get(http2) or self._contexts.setdefault(http2, self.tls())
        return httpx.Client(proxy=self.url, verify=verify, http2=http2, trust_env=False, timeout=timeout)

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """One request by a client of its own, hence over a connection of its own."""
        with self.client() as client:
            return client.get(url, headers=headers)

    def stop(self) -> None:
        """End it before its block does, so that the flows which it saves are complete."""
        stop(self.process, self.log)

    def connect(self) -> socket.socket:
        return socket.create_connection((LOOPBACK, self.port), timeout=PATIENCE)

    def tunnel(self, host: str, port: int) -> socket.socket:
        """A connection through the proxy, as CONNECT makes it."""
        connection = self.connect()
        connection.sendall(b"CONNECT %s:%d HTTP/1.1\r\n\r\n" % (host.encode(), port))
        answer = read_answer(connection, "CONNECT")
        assert answer.status == 200, answer
        return connection

    def ask_by_socks(self, host: str, port: int) -> tuple[socket.socket, int]:
        """A connection by SOCKS5, and what was answered: 0 where it leads somewhere."""
        connection = self.connect()
        connection.sendall(b"\x05\x01\x00")
        assert connection.recv(2) == b"\x05\x00"
        target = b"\x03" + bytes([len(host)]) + host.encode()
        for kind, family in ((b"\x01", socket.AF_INET), (b"\x04", socket.AF_INET6)):
            with suppress(OSError):
                target = kind + socket.inet_pton(family, host)
        connection.sendall(b"\x05\x01\x00" + target + port.to_bytes(2, "big"))
        return connection, connection.recv(10)[1]

    def by_socks(self, host: str, port: int) -> socket.socket:
        """A connection by SOCKS5."""
        connection, answer = self.ask_by_socks(host, port)
        assert answer == 0
        return connection

    def send(self, head: bytes, method: str = "GET") -> Answer:
        """Send exactly these bytes, read one answer.

        Raises: ConnectionError if the connection ends without one.
        """
        with self.connect() as connection:
            connection.sendall(head)
            return read_answer(connection, method)


def blocks(proxy: Proxy, host: str) -> bool:
    return proxy.get(f"http://{host}/").status_code == 403


def eventually(condition: Callable[[], bool], patience: float = PATIENCE) -> bool:
    """Whether the condition comes true in time; for what announces itself nowhere.

    It is looked at rarely: most look by a request, and a change of a file is seen after a second. A request that is on
    its way while a rule comes into force may get no answer.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with suppress(httpx.RemoteProtocolError):
            if condition():
                return True
        time.sleep(0.2)
    return False


class _Unhurried:
    """A connection of which what reads an answer takes no octet of the next one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def makefile(self, _: str) -> object:
        return self._connection.makefile("rb", buffering=1)


def read_answer(connection: socket.socket, method: str = "GET") -> Answer:
    """Read one response; its body too, if ``method`` gives it one."""
    with HTTPResponse(_Unhurried(connection), method=method) as response:  # type: ignore[arg-type]
        response.begin()
        body = b"" if method == "CONNECT" else response.read()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


def request_head(target: bytes, *hosts: bytes, method: bytes = b"GET", headers: Sequence[bytes] = ()) -> bytes:
    """The head of an HTTP/1.1 request, with a Host line for each of ``hosts``."""
    lines = [b"%s %s HTTP/1.1" % (method, target), *(b"Host: " + host for host in hosts), *headers]
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


@contextmanager
def mitmdump(
    folder: Path,
    origin: HasPorts,
    *,
    policy: Path | None = None,
    mode: str | None = None,
    proxy_mode: str = "regular",
    more_modes: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    scripts: Sequence[str] = (),
    save: Path | None = None,
    command: Sequence[str] = (),
    script: Path = FILTER,
) -> Iterator[Proxy]:
    """A mitmdump with the filter on a free port of loopback, until the block ends.

    ``folder`` takes its configuration, and the certificate authority that all have in common. ``scripts`` are those of
    tests/e2e/scripts to load after the filter, ``save`` is the file for the flows that it records, ``more_modes`` say
    where else it listens. ``command`` runs it, as on another machine. ``script`` has the filter.
    """
    arguments = [
        *command,
        *_arguments(folder, policy, mode, options, scripts, script),
        *("--mode", proxy_mode, "--listen-host", LOOPBACK, "--listen-port", "0"),
        *(part for mode in more_modes for part in ("--mode", mode)),
        *("-s", str(SCRIPTS / "upstream.py")),
        *("--set", f"upstream_http={origin.http_port}", "--set", f"upstream_https={origin.https_port}"),
        *(("-w", str(save)) if save else ()),
    ]
    write_authority(folder)
    # modes start side by side: any of them may be told of first
    listening = ("HTTP\\(S\\) proxy " if proxy_mode == "regular" else "") + rf"listening at {re.escape(LOOPBACK)}:(\d+)"
    for is_last in (False, False, True):
        with running(arguments, folder, start_command if command else start_mitmdump) as (process, log):
            try:
                port = int(log.wait_for(listening)[1])
            except AssertionError:
                # names are asked for by TCP and UDP: a port that is free for the one may be in use for the other
                if is_last or "Address already in use" not in log.text():
                    raise
                continue
            log.wait_for("mitmproxy has started")
            yield Proxy(process, log, port, folder / "mitmproxy-ca-cert.pem")
            return


def write_authority(folder: Path) -> None:
    """Give a proxy the authority that all have in common."""
    for name, octets in _authority().items():
        (folder / name).write_bytes(octets)
        (folder / name).chmod(0o600)


@cache
def _authority() -> dict[str, bytes]:
    """The files of a certificate authority, as a mitmdump makes them that finds none: for a tenth of a second."""
    with TemporaryDirectory() as folder:
        CertStore.create_store(Path(folder), "mitmproxy", 2048)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@contextmanager
def running(
    command: Sequence[str], folder: Path, start: Callable[..., subprocess.Popen[str] | Forked] = start_command
) -> Iterator[tuple[subprocess.Popen[str] | Forked, Log]]:
    """A mitmdump, by a command as a user writes it, until the block ends; ``folder`` is where it runs, and its home."""
    process = start(command, folder, _environment(folder))
    log = Log(process)
    try:
        yield process, log
    finally:
        stop(process, log)
        print(log.text())  # pytest shows it with a failure


def stop(process: subprocess.Popen[str] | Forked, log: Log) -> None:
    """End a process as Control-C does, which has mitmdump write its files; by force if it does not listen."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(PATIENCE)
    finally:
        process.kill()
        log.close()


def end_cleanly(proxy: Proxy, *signals: signal.Signals) -> str:
    """End a proxy by signals: what it prints, in which nothing has failed."""
    before, begun = len(proxy.log), time.monotonic()
    for number in signals:
        proxy.process.send_signal(number)
    assert proxy.process.wait(PATIENCE) == 0
    assert time.monotonic() - begun < 15
    proxy.log.close()
    text = proxy.log.text(before)
    assert not re.search("Traceback|Exception|Error|destroyed|never awaited|panicked", text), text
    return text


def run_mitmdump(
    folder: Path,
    *arguments: str,
    policy: Path | None = None,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a mitmdump with the filter that ends by itself; stderr comes with stdout."""
    command = [*_arguments(folder, policy, mode, options), *arguments]
    process = start_mitmdump(command, folder, _environment(folder))
    log = Log(process)
    try:
        code = process.wait(PATIENCE)
    finally:
        process.kill()
        log.close()
    return subprocess.CompletedProcess(command, code, log.text())


def _arguments(
    folder: Path,
    policy: Path | None,
    mode: str | None,
    options: Mapping[str, object] | None,
    scripts: Sequence[str] = (),
    script: Path = FILTER,
) -> list[str]:
    """The command line as a user writes it, quiet but for the log."""
    settings: dict[str, object] = {"confdir": folder, "flow_detail": 0, "ssl_insecure": "true"}
    if policy:
        settings["hushlist_policy"] = policy
    if mode:
        settings["hushlist_mode"] = mode
    settings |= options or {}
    return [
        *(str(MITMDUMP), "-s", str(script)),
        *(part for script in scripts for part in ("-s", str(SCRIPTS / script))),
        *(part for name, value in settings.items() for part in ("--set", f"{name}={value}")),
    ]


def _environment(folder: Path) -> dict[str, str]:
    """Nothing of the user's own: neither their mitmproxy configuration nor their proxy settings."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    homes = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
    return kept | homes | {"PYTHONUNBUFFERED": "1"}
