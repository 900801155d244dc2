"""A real origin on loopback: HTTP/1.1, HTTP/2, TLS and WebSocket, with a log of everything that reached it.

Its listening sockets note every TCP connection that they accept, so a test can prove not only that a request
never arrived, but that nobody even connected.
"""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import Any
from urllib.parse import unquote_to_bytes

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypercorn.asyncio import serve
from hypercorn.config import Config, Sockets

LOOPBACK = "127.0.0.1"
#: seconds within which anything that is waited for has to happen, on a busy machine too
PATIENCE = 60.0

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass
class Request:
    """One request that reached the origin; ``body`` counts the bytes of its body so far."""

    scheme: str
    method: str
    http_version: str
    host: str
    #: path and query as they arrived
    target: bytes
    headers: dict[str, str] = field(default_factory=dict)
    body: int = 0
    #: whom it came from: each connection has its own
    peer: tuple[str, int] | None = None


@dataclass
class Arrivals:
    """What reached the origin while something was watched."""

    connections: int = 0
    requests: list[Request] = field(default_factory=list)


#: paths that it redirects from for ever, as a server does that lists a folder
REDIRECTS = {"/folder": b"/folder/", "/moved": b"/elsewhere/"}
#: the path that it redirects from to wherever the query says, escaped
AWAY = "/away"


def free_ports(number: int) -> list[int]:
    """Ports free for TCP and UDP, below those that the system gives away: none is taken before a server takes it."""
    with ExitStack() as taken:
        ports: list[int] = []
        candidates = iter(SystemRandom().sample(range(10240, 32768), 2000))
        while len(ports) < number:
            with suppress(OSError):
                taken.enter_context(socket.create_server((LOOPBACK, port := next(candidates))))
                taken.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)).bind(("", port))
                ports.append(port)
        return ports


class Listener(socket.socket):
    """A listening socket, by default on a port of the system's choice, that notes whom it accepts."""

    def __init__(self, address: str = LOOPBACK, port: int = 0) -> None:
        super().__init__(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.bind((address, port))
        self.listen(256)
        self.setblocking(False)
        self.port: int = self.getsockname()[1]
        self._peers: list[Any] = []
        self._accepted = threading.Condition()

    def accept(self) -> tuple[socket.socket, Any]:
        connection, peer = super().accept()
        with self._accepted:
            self._peers.append(peer)
            self._accepted.notify_all()
        return connection, peer

    def count(self) -> int:
        """How many connections were ever made.

        The system queues connections in order: once one of our own is accepted, all before it are counted.
        """
        before = len(self._peers)  # a port of a connection that ended long ago may be used again
        with socket.create_connection(self.getsockname()[:2]) as fence:
            name = fence.getsockname()
            with self._accepted:
                if not self._accepted.wait_for(lambda: name in self._peers[before:], timeout=PATIENCE):
                    raise TimeoutError("the origin accepts no connections")
                del self._peers[self._peers.index(name, before)]
                return len(self._peers)


class Origin:
    """The origin; it answers every path, and those in ``pages`` with the given content type and body.

    A WebSocket echoes what it is sent. Its certificate is for ``names``. It listens at ``address``, and at ``ports``
    for http and https, of which 0 is a free one. Use as a context manager, which runs it in a thread of its own.
    """

    def __init__(self, folder: Path, *names: str, address: str = LOOPBACK, ports: tuple[int, int] = (0, 0)) -> None:
        self.requests: list[Request] = []
        self.pages: dict[str, tuple[str, bytes]] = {}
        self._plain, self._tls = (Listener(address, port) for port in ports)
        self._config = _config(folder, names, self._plain, self._tls)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="origin", daemon=True)

    @property
    def http_port(self) -> int:
        return self._plain.port

    @property
    def https_port(self) -> int:
        return self._tls.port

    @contextmanager
    def watch(self) -> Iterator[Arrivals]:
        """What arrives while the block runs; filled in when it ends."""
        arrivals = Arrivals()
        connections, requests = self._connections(), len(self.requests)
        yield arrivals
        arrivals.connections = self._connections() - connections
        arrivals.requests = self.requests[requests:]

    def __enter__(self) -> Origin:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=PATIENCE)
        self._plain.close()
        self._tls.close()

    def _connections(self) -> int:
        return self._plain.count() + self._tls.count()

    def _run(self) -> None:
        # At its end, hypercorn raises what went wrong with any client, such as one that refused the certificate.
        with suppress(ssl.SSLError), asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(serve(self._app, self._config, shutdown_trigger=self._stop.wait, mode="asgi"))

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "websocket":
                await self._websocket(scope, receive, send)
            case "lifespan":
                await _lifespan(receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = self._log(scope)
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                return
            request.body += len(event.get("body", b""))
            if not event.get("more_body"):
                break
        away = unquote_to_bytes(scope["query_string"]) if scope["path"] == AWAY else b""
        if location := REDIRECTS.get(scope["path"], away):
            headers = [(b"location", location), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 301, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        content_type, body = self.pages.get(scope["path"], ("text/plain", b"from the origin"))
        headers = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._log(scope)
        while (event := await receive())["type"] != "websocket.disconnect":
            if event["type"] == "websocket.connect":
                await send({"type": "websocket.accept"})
            else:
                await send({"type": "websocket.send", "text": event.get("text"), "bytes": event.get("bytes")})

    def _log(self, scope: Scope) -> Request:
        query: bytes = scope["query_string"]
        request = Request(
            scheme=scope["scheme"],
            method=scope.get("method", "GET"),
            http_version=scope["http_version"],
            host=dict(scope["headers"]).get(b"host", b"").decode("latin-1"),
            target=scope["raw_path"] + (b"?" + query if query else b""),
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
            peer=scope["client"],
        )
        self.requests.append(request)
        return request


class _Config(Config):
    """Serves on the sockets that it is given, rather than on sockets of its own."""

    listeners: Sockets

    def create_sockets(self) -> Sockets:
        return self.listeners


def _config(folder: Path, names: Sequence[str], plain: Listener, tls: Listener) -> Config:
    config = _Config()
    config.listeners = Sockets(secure_sockets=[tls], insecure_sockets=[plain], quic_sockets=[])
    config.certfile, config.keyfile = map(str, write_certificate(folder, *names))
    config.alpn_protocols = ["h2", "http/1.1"]
    config.loglevel = "CRITICAL"
    config.graceful_timeout = 0.5
    config.keep_alive_timeout = 120  # a connection stays open between two requests, however busy the machine is
    config.h11_max_incomplete_size = config.h2_max_header_list_size = 1 << 20  # a long head may come in pieces
    config.websocket_max_message_size = 1 << 26
    return config


def write_certificate(folder: Path, *names: str) -> tuple[Path, Path]:
    """A self-signed certificate for these names and its key, as files; the proxy is told not to verify it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "origin.test")])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(map(x509.DNSName, names)), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    certificate_file, key_file = folder / "origin.pem", folder / "origin.key"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate_file, key_file


async def _lifespan(receive: Receive, send: Send) -> None:
    while (event := await receive())["type"] != "lifespan.shutdown":
        await send({"type": event["type"] + ".complete"})
    await send({"type": "lifespan.shutdown.complete"})
