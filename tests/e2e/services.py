"""An origin that serves what people use: live pages, downloads, uploads, a chat, and the servers of programs.

Each service answers one host. What passes a gate waits there for the test, so that a test can tell what flows from what
arrives at once at the end, without a clock.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from urllib.parse import parse_qs

from e2e.origin import PATIENCE, Origin, Receive, Request, Scope, Send

CHUNK = bytes(range(256)) * 256
_SILENCE = bytes([128]) * len(CHUNK)
GIT = which("git")
#: what git's own server is: a CGI program
GIT_BACKEND = Path("/usr/lib/git-core/git-http-backend")

Service = Callable[[Scope, Receive, Send, Request], Awaitable[None]]


@dataclass
class Gate:
    """Where an answer or an upload waits after its first octets until a test opens it."""

    #: octets that pass while it is closed
    free: int
    _opened: threading.Event = field(default_factory=threading.Event)

    def open(self) -> None:
        self._opened.set()

    async def passed(self, octets: int) -> None:
        """Wait, if so many octets are more than pass a closed gate."""
        if octets > self.free:
            assert await asyncio.to_thread(self._opened.wait, PATIENCE), "nobody has opened the gate"


class Services(Origin):
    """The origin, with a service for each of some hosts; any other host answers as the origin does."""

    def __init__(self, folder: Path, *names: str) -> None:
        super().__init__(folder, *names)
        self.gates: dict[str, Gate] = {}
        #: of each upload that has ended, its length and digest
        self.uploads: list[tuple[int, str]] = []
        #: octets of the upload that is under way
        self.arrived = 0
        #: files of package servers, by host and path
        self.files: dict[str, Path] = {}
        #: folder of git's repositories
        self.repositories: Path | None = None
        self.blobs: dict[str, bytes] = {}
        self._partial = bytearray()
        self._chat: list[asyncio.Queue[str]] = []
        self._services: dict[str, Service] = {
            "events.test": self._events,
            "files.test": self._file,
            "upload.test": self._upload,
            "git.test": self._git,
            "packages.test": self._package,
            "registry.test": self._registry,
        }

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = dict(scope["headers"]).get(b"host", b"").decode().partition(":")[0]
        service = self._services.get(host)
        if service is None or scope["path"] in self.pages:
            await super()._http(scope, receive, send)
        else:
            await service(scope, receive, send, self._log(scope))

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A chat: what anybody writes, everybody reads."""
        self._log(scope)
        inbox: asyncio.Queue[str] = asyncio.Queue()
        self._chat.append(inbox)

        async def deliver() -> None:
            while True:
                await send({"type": "websocket.send", "text": await inbox.get()})

        delivering = None
        while (event := await receive())["type"] != "websocket.disconnect":
            if event["type"] == "websocket.connect":
                await send({"type": "websocket.accept"})
                delivering = asyncio.ensure_future(deliver())
            else:
                for other in self._chat:
                    other.put_nowait(event["text"])
        self._chat.remove(inbox)
        if delivering:
            delivering.cancel()

    async def _events(self, scope: Scope, receive: Receive, send: Send, _: Request) -> None:
        """Server-sent events: one, and another as soon as the gate opens; the answer has no end."""
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"data: first\n\n", "more_body": True})
        await self.gates["events"].passed(1)
        await send({"type": "http.response.body", "body": b"data: second\n\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _file(self, scope: Scope, receive: Receive, send: Send, request: Request) -> None:
        """A file of ``size`` octets, whole or the range that is asked for; ``gate`` names where it waits."""
        query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
        size = int(query["size"])
        first, last, status = 0, size - 1, 200
        headers = [(b"accept-ranges", b"bytes"), (b"content-type", query.get("type", "application/zip").encode())]
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", "")):
            first, last, status = int(match[1]), min(int(match[2] or last), last), 206
            headers.append((b"content-range", b"bytes %d-%d/%d" % (first, last, size)))
        headers.append((b"content-length", b"%d" % (last + 1 - first)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if request.method != "HEAD":
            gate = self.gates.get(query.get("gate", ""))
            for start in range(first, last + 1, len(CHUNK)):
                if gate is not None:
                    await gate.passed(start - first)
                content = self.content(query, start, min(last + 1 - start, len(CHUNK)))
                await send({"type": "http.response.body", "body": content, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def content(self, query: dict[str, str], start: int, length: int) -> bytes:
        """The octets of a file from an offset on: of a recording that is silent where its type is ``audio/wav``."""
        if query.get("type") == "audio/wav":
            return (
                (wav_head(int(query["size"])) + _SILENCE)[start : start + length] if start < 44 else _SILENCE[:length]
            )
        offset = start % len(CHUNK)
        return (CHUNK + CHUNK)[offset : offset + length]

    async def _upload(self, scope: Scope, receive: Receive, send: Send, request: Request) -> None:
        """Takes a body; reads on only when the gate is open."""
        digest, self.arrived = hashlib.sha256(), 0
        gate = self.gates.get("upload")
        async for content in _body(receive):
            digest.update(content)
            self.arrived += len(content)
            if gate is not None:
                await gate.passed(self.arrived)
        request.body = self.arrived
        self.uploads.append((self.arrived, digest.hexdigest()))
        await _answer(send, 200, json.dumps({"octets": self.arrived}).encode(), b"application/json")

    async def _package(self, scope: Scope, receive: Receive, send: Send, _: Request) -> None:
        """The files of package servers."""
        file = self.files.get(scope["path"])
        if file is None:
            await _answer(send, 404, b"there is no such file")
        else:
            kind = {".html": b"text/html", ".json": b"application/json"}.get(file.suffix, b"application/octet-stream")
            await _answer(send, 200, file.read_bytes(), kind)

    async def _git(self, scope: Scope, receive: Receive, send: Send, request: Request) -> None:
        """Git's own server, as a CGI program. Spec: RFC 3875"""
        assert self.repositories is not None
        headers = request.headers
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.repositories),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": request.method,
            "PATH_INFO": scope["path"],
            "QUERY_STRING": scope["query_string"].decode(),
            "CONTENT_TYPE": headers.get("content-type", ""),
            "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
            "HTTP_GIT_PROTOCOL": headers.get("git-protocol", ""),
            "REMOTE_USER": "somebody",
            "REMOTE_ADDR": "127.0.0.1",
        }
        backend = await asyncio.create_subprocess_exec(
            str(GIT_BACKEND), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=1 << 20
        )
        assert backend.stdin
        assert backend.stdout

        async def feed() -> None:
            assert backend.stdin
            async for content in _body(receive):
                request.body += len(content)
                backend.stdin.write(content)
                await backend.stdin.drain()
            backend.stdin.close()

        feeding = asyncio.ensure_future(feed())
        head = (await backend.stdout.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = dict(line.split(": ", 1) for line in head if line)
        status = int(fields.pop("Status", "200").split()[0])
        raw = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        while content := await backend.stdout.read(1 << 16):
            await send({"type": "http.response.body", "body": content, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        await feeding
        await backend.wait()

    async def _registry(self, scope: Scope, receive: Receive, send: Send, request: Request) -> None:
        """What of a registry of container images a push and a pull of layers need. Spec: OCI Distribution, 1.1"""
        path, query = scope["path"], parse_qs(scope["query_string"].decode())
        if request.method in ("GET", "HEAD"):
            content = self.blobs.get(path)
            if content is None:
                await _answer(send, 404, b"")
                return
            await _answer(send, 200, b"" if request.method == "HEAD" else content, length=len(content))
            return
        content = b"".join([part async for part in _body(receive)])
        request.body = len(content)
        location = [(b"location", b"/v2/image/blobs/uploads/1")]
        if request.method == "POST":
            self._partial = bytearray()
            await _answer(send, 202, b"", more=location)
        elif request.method == "PATCH":
            self._partial += content
            await _answer(send, 202, b"", more=[*location, (b"range", b"0-%d" % (len(self._partial) - 1))])
        else:
            whole, digest = bytes(self._partial + content), query["digest"][0]
            is_right = digest == "sha256:" + hashlib.sha256(whole).hexdigest()
            if is_right:
                self.blobs[f"/v2/image/blobs/{digest}"] = whole
            await _answer(send, 201 if is_right else 400, b"", more=location)


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    """The parts of a request's body."""
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ConnectionError("the client has gone in the middle of its body")
        if event.get("body"):
            yield event["body"]
        if not event.get("more_body"):
            return


async def _answer(
    send: Send,
    status: int,
    content: bytes,
    kind: bytes = b"application/octet-stream",
    *,
    length: int | None = None,
    more: list[tuple[bytes, bytes]] | None = None,
) -> None:
    size = len(content) if length is None else length
    headers = [(b"content-type", kind), (b"content-length", b"%d" % size), *(more or ())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def wav_head(size: int) -> bytes:
    """The head of a recording of ``size`` octets: one channel, 8,000 samples of one octet a second."""
    sizes = [(size - 8).to_bytes(4, "little"), (size - 44).to_bytes(4, "little")]
    rate = (8000).to_bytes(4, "little")
    form = (16).to_bytes(4, "little") + b"\1\0\1\0" + rate + rate + b"\1\0\x08\0"
    return b"RIFF" + sizes[0] + b"WAVEfmt " + form + b"data" + sizes[1]


def parts_of(size: int) -> Iterator[bytes]:
    """The content of a file of ``size`` octets, as ``files.test`` serves it."""
    for start in range(0, size, len(CHUNK)):
        yield CHUNK[: min(size - start, len(CHUNK))]
