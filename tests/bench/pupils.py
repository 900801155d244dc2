"""The clients of ``soak.py``: a school that asks for real URLs, and those that break off, dawdle, and click on.

Every answer that comes whole is judged: it is the origin's, of a URL that is not on the list that stays as it is, or a
page of the filter. Anything else is undecided.
"""

from __future__ import annotations

import asyncio
import html
import random
import re
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

import httpx

#: seconds for an answer
PATIENCE = 60.0
#: requests for which a connection is used
_KEPT = 40
_ORIGIN, _PAGE = "nginx", "x-hushlist-reference"
_ACTION = re.compile(r'<form[^>]* action="([^"]*)"')
_TOKEN = re.compile(r'name="token" value="([^"]*)"')
_BROKEN = (OSError, ssl.SSLError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, httpx.HTTPError, ValueError)


@dataclass(slots=True)
class School:
    """What all clients know, and what became of their requests."""

    port: int
    #: of the proxy's certificate authority
    tls: ssl.SSLContext
    urls: list[str]
    #: whether a host is on the list that stays as it is
    is_blocked: Callable[[str], bool]
    #: whether it is on one that comes and goes
    is_changing: Callable[[str], bool]
    #: how many requests were begun, answered by the origin, blocked, warned of, cut off, failed
    counts: Counter[str] = field(default_factory=Counter)
    #: answers that should not be, the first few of them
    undecided: list[str] = field(default_factory=list)
    numbers: random.Random = field(default_factory=lambda: random.Random(1))

    def url(self) -> str:
        """Any of them."""
        return self.numbers.choice(self.urls)

    def some(self, number: int) -> list[str]:
        """Some that were asked for one after the other."""
        start = self.numbers.randrange(len(self.urls))
        return self.urls[start : start + number]

    def judge(self, url: str, status: int, server: str, reference: str) -> None:
        """Count an answer."""
        host = (urlsplit(url).hostname or "").rstrip(".")
        if reference and status == 403:
            self.counts["blocked"] += 1
            allowed = self.is_blocked(host) or self.is_changing(host) or host.endswith("warned.example")
            if not allowed:
                self.counts["blocked otherwise"] += 1
        elif server.startswith(_ORIGIN) and not self.is_blocked(host):
            self.counts["from the origin"] += 1
        else:
            self.counts["undecided"] += 1
            if len(self.undecided) < 20:
                self.undecided.append(f"{status} by {server or 'nobody'}: {url[:200]}")


Client = Callable[[School], Awaitable[None]]


async def forever(client: Client, school: School) -> None:
    """One client after the other; what breaks is counted."""
    while True:
        try:
            await asyncio.wait_for(client(school), 4 * PATIENCE)
        except _BROKEN as error:
            school.counts[f"failed: {type(error).__name__}"] += 1
            await asyncio.sleep(0.05)
        except TimeoutError:
            school.counts["failed: no answer in time"] += 1


# -- whole requests ----------------------------------------------------------------------------------------------


async def plain(school: School) -> None:
    """HTTP/1.1 without TLS, over one connection for a while."""
    reader, writer = await _connect(school)
    with _closing(writer):
        for given in school.some(_KEPT):
            url = given.replace("https://", "http://", 1)
            if not await _ask(school, reader, writer, url, url):
                return


async def tls(school: School) -> None:
    """HTTP/1.1 within a tunnel."""
    parts = urlsplit(school.url())
    reader, writer = await _connect(school)
    with _closing(writer):
        writer.write(f"CONNECT {parts.hostname}:443 HTTP/1.1\r\n\r\n".encode())
        school.counts["tunnels"] += 1
        status, headers, _ = await _answer(reader)
        if status != 200:
            school.judge(f"https://{parts.hostname}/", status, headers.get("server", ""), headers.get(_PAGE, ""))
            return
        await writer.start_tls(school.tls, server_hostname=parts.hostname)
        for number in range(_KEPT // 2):
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "") if not number else f"/{number}"
            if not await _ask(school, reader, writer, target, f"https://{parts.hostname}{target}"):
                return


async def http2(school: School) -> None:
    """Several requests at once within a tunnel, one of which is given up."""
    host = urlsplit(school.url()).hostname
    proxy = f"http://127.0.0.1:{school.port}"
    async with httpx.AsyncClient(
        proxy=proxy, verify=school.tls, http2=True, trust_env=False, timeout=PATIENCE
    ) as client:

        async def ask(url: str) -> None:
            school.counts["begun"] += 1
            found = await client.get(url)
            school.judge(url, found.status_code, found.headers.get("server", ""), found.headers.get(_PAGE, ""))

        await ask(f"https://{host}/")
        for number in range(5):
            dropped = asyncio.create_task(ask(f"https://{host}/dropped"))
            dropped.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody asks for it
            await asyncio.gather(*(ask(f"https://{host}/{number}/{each}") for each in range(4)))
            dropped.cancel()
            await asyncio.gather(dropped, return_exceptions=True)


async def clicking(school: School) -> None:
    """Ask for what is warned of, click on, and see the page."""
    school.counts["warnings"] += 1
    host = f"w{school.counts['warnings']}.warned.example"
    async with httpx.AsyncClient(proxy=f"http://127.0.0.1:{school.port}", trust_env=False, timeout=PATIENCE) as client:
        url = f"http://{host}/page"
        warned = await client.get(url, headers={"Accept": "text/html"})
        action, token = _ACTION.search(warned.text), _TOKEN.search(warned.text)
        if action is None or token is None:
            school.counts["warnings without a form"] += 1
            return
        address = f"http://{host}{html.unescape(action[1])}"
        await client.post(address, content=urlencode({"token": html.unescape(token[1])}).encode())
        page = await client.get(url)
        school.counts["clicked on" if page.headers.get("server", "").startswith(_ORIGIN) else "not clicked on"] += 1
    await asyncio.sleep(0.5)


# -- requests that are no pleasure -------------------------------------------------------------------------------


async def slow(school: School) -> None:
    """A request, one octet after the other."""
    reader, writer = await _connect(school)
    with _closing(writer):
        url = school.url().replace("https://", "http://", 1)[:300]
        school.counts["begun"] += 1
        for octet in _head(url, urlsplit(url).hostname or ""):
            writer.write(bytes((octet,)))
            await asyncio.sleep(0.02)
        status, headers, _ = await _answer(reader)
        school.judge(url, status, headers.get("server", ""), headers.get(_PAGE, ""))


async def dropping(school: School) -> None:
    """A request that is cut off: within its head, before or within its answer; or a TLS handshake."""
    reader, writer = await _connect(school)
    with _closing(writer, reset=school.numbers.random() < 0.5):
        url = school.url().replace("https://", "http://", 1)
        host = urlsplit(url).hostname or ""
        head = _head(url, host)
        kind = school.numbers.randrange(4)
        if kind == 3:
            writer.write(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode())
            await _answer(reader)
            head = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
        writer.write(head[: len(head) // 2] if kind == 0 else head)
        await writer.drain()
        if kind == 2:
            await reader.read(10)
        school.counts["cut off"] += 1
    await asyncio.sleep(0.1)


async def uploading(school: School) -> None:
    """An upload that ends in its middle."""
    _, writer = await _connect(school)
    with _closing(writer, reset=school.numbers.random() < 0.5):
        url = school.url().replace("https://", "http://", 1)
        host = urlsplit(url).hostname or ""
        writer.write(_head(url, host, "POST", "Content-Length: 1000000"))
        with suppress(ConnectionError):
            for _ in range(school.numbers.randrange(1, 12)):
                writer.write(b"x" * 10_000)
                await writer.drain()
        school.counts["cut off"] += 1
    await asyncio.sleep(0.2)


# -- HTTP/1.1 ----------------------------------------------------------------------------------------------------


async def _connect(school: School) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", school.port, limit=1 << 20)


class _closing:  # noqa: N801 - as contextlib.closing
    """Closes a connection, as one does or by a reset."""

    def __init__(self, writer: asyncio.StreamWriter, *, reset: bool = False) -> None:
        self._writer, self._reset = writer, reset

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if self._reset:
            at_once = struct.pack("ii", 1, 0)
            self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self._writer.close()


def _head(target: str, host: str, method: str = "GET", *more: str) -> bytes:
    lines = (f"{method} {target} HTTP/1.1", f"Host: {host}", "Accept: text/html", *more, "", "")
    return "\r\n".join(lines).encode("utf-8", "replace")


async def _ask(
    school: School, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str, url: str
) -> bool:
    """Ask and judge; whether the connection stays."""
    school.counts["begun"] += 1
    writer.write(_head(target, urlsplit(url).netloc))
    status, headers, keeps = await asyncio.wait_for(_answer(reader), PATIENCE)
    school.judge(url, status, headers.get("server", ""), headers.get(_PAGE, ""))
    return keeps


async def _answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bool]:
    """Status, headers, and whether the connection stays; the body is read."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    await reader.readexactly(int(headers.get("content-length", 0)))
    return int(first.split()[1]), headers, headers.get("connection", "").lower() != "close"
