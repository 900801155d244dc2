"""An origin that serves what people use: live pages, downloads, uploads, and git's server.

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
        #: folder of git's repositories
        self.repositories: Path | None = None
        self._services: dict[str, Service] = {
            "events.test": self._events,
            "files.test": self._file,
            "upload.test": self._upload,
            "git.test": self._git,
        }

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = dict(scope["headers"]).get(b"host", b"").decode().partition(":")[0]
        service = self._services.get(host)
        if service is None or scope["path"] in self.pages:
            await super()._http(scope, receive, send)
        else:
            await service(scope, receive, send, self._log(scope))

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
        headers = [(b"accept-ranges", b"bytes"), (b"content-type", b"application/zip")]
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", "")):
            first, last, status = int(asked[1]), min(int(asked[2] or last), last), 206
            headers.append((b"content-range", b"bytes %d-%d/%d" % (first, last, size)))
        headers.append((b"content-length", b"%d" % (last + 1 - first)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if request.method != "HEAD":
            gate = self.gates.get(query.get("gate", ""))
            for start in range(first, last + 1, len(CHUNK)):
                if gate is not None:
                    await gate.passed(start - first)
                offset, length = start % len(CHUNK), min(last + 1 - start, len(CHUNK))
                content = (CHUNK + CHUNK)[offset : offset + length]
                await send({"type": "http.response.body", "body": content, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

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
        content = json.dumps({"octets": self.arrived}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

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


def parts_of(size: int) -> Iterator[bytes]:
    """The content of a file of ``size`` octets, as ``files.test`` serves it."""
    for start in range(0, size, len(CHUNK)):
        yield CHUNK[: min(size - start, len(CHUNK))]
