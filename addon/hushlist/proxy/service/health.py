"""Whether the filter decides, and whether it is ready for traffic: ``/healthz`` and ``/readyz``.

Load balancers, service managers and containers ask this, at the live page's host or on a port of its own. The answers
tell nothing about a policy, its lists or users, so that whoever can reach the port may have them.

The port serves nothing else: a request is a head of bounded length, that comes in bounded time, and leads nowhere.
Spec: RFC 9112 (HTTP/1.1); Kubernetes API health endpoints, whose names these are
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import NamedTuple

from hushlist.core.errors import logger_of
from hushlist.core.system.authority_file import OTHER_AUTHORITY
from hushlist.core.system.package_code import OTHER_CODE, OTHER_MITMPROXY
from hushlist.proxy.bounds.bounded_input import not_taken
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: octets of a request's head, seconds in which it comes, and connections at the same time
_LONGEST, PATIENCE, MOST_CONNECTIONS = 1 << 13, 5.0, 64
_REQUEST_LINE = re.compile(rb"(GET|HEAD) (/[\x21-\x7e]*) HTTP/1\.[01]\r\n")


class Health(NamedTuple):
    """An answer: yes or no, and why."""

    is_good: bool
    reason: str
    #: what fails, and is tried again, although requests are decided
    warnings: tuple[str, ...] = ()

    @property
    def status(self) -> HTTPStatus:
        """200 or 503."""
        return HTTPStatus.OK if self.is_good else HTTPStatus.SERVICE_UNAVAILABLE

    @property
    def body(self) -> bytes:
        """One line of JSON.

        >>> Health(False, "it is stopping").body
        b'{"ok": false, "reason": "it is stopping"}\\n'
        """
        warnings = {"warnings": self.warnings} if self.warnings else {}
        return json.dumps({"ok": self.is_good, "reason": self.reason, **warnings}).encode() + b"\n"


def decides(runtime: Runtime) -> Health:
    """Whether requests are decided, found out by deciding one."""
    if runtime.mode == "off":
        return Health(True, "hushlist_mode is off: nothing is decided")
    if runtime.engine is None:
        return Health(False, runtime.without_policy())
    try:
        runtime.engine.decide_url(b"http://health.invalid/")
    except Exception as error:
        return Health(False, f"a decision failed: {type(error).__name__}")
    return Health(True, "it decides")


def is_ready(runtime: Runtime) -> Health:
    """Whether it decides by the policy that is meant, with lists that are not too old, and goes on to."""
    why = why_unready(runtime)
    health = Health(False, why) if why else decides(runtime)
    if health.is_good and runtime.mode != "off":
        health = Health(True, "it is ready")
    return health._replace(warnings=tuple(warnings_of(runtime)))


def why_unready(runtime: Runtime) -> str:
    """Why it is not ready, as far as that is known without a decision; empty if nothing is wrong."""
    if runtime.is_stopping:
        return "it is stopping"
    if runtime.mode == "off":
        return ""
    if runtime.engine is None:
        return runtime.without_policy()
    if runtime.problem is not None:
        why = OTHER_CODE if OTHER_CODE in runtime.problem else "it has mistakes"
        return f"the last change of the policy or its lists is not used: {why}"
    return next((why for why_unready in runtime.parts.why_unready if (why := why_unready())), "")


def warnings_of(runtime: Runtime) -> Iterator[str]:
    """What fails although requests are decided; it names no file, list or host, as everybody may read it."""
    if runtime.script_fault is not None:
        could_start = "" if runtime.has_other_code else ", and mitmproxy could not start"  # it may need the new package
        yield f"{runtime.script_fault}: what was loaded before stays in force{could_start}"
    if missing := not_taken():
        yield f"{OTHER_MITMPROXY}: {', '.join(missing)}"
    if runtime.has_other_code:
        yield OTHER_CODE
    if runtime.has_other_authority:
        yield OTHER_AUTHORITY
    if runtime.engine is not None and (held := runtime.engine.policy.held_back):
        yield f"lists that are held back: {len(held)}; of each, an older version is in force (see hushlist lists)"
    yield from runtime.parts.messages("warnings")


#: path -> what it tells
HEALTH_PATHS: Mapping[str, Callable[[Runtime], Health]] = {"/healthz": decides, "/readyz": is_ready}


async def health_of(runtime: Runtime, path: str) -> Health:
    """What a path tells; of several workers that serve the same ports, it is enough if one is well."""
    health = HEALTH_PATHS[path](runtime)
    if health.is_good or runtime.siblings is None:
        return health
    others = map(json.loads, await runtime.siblings.ask("health", path))
    well = next((other for other in others if other["ok"]), None)
    warnings = () if well is None else (f"a worker is not: {health.reason}", *well.get("warnings", ()))
    return health if well is None else Health(True, well["reason"], warnings)


class HealthPort:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._listener: socket.socket | None = None
        self._server: asyncio.Task[asyncio.Server] | None = None
        #: that wait for a head or an answer, the oldest first
        self._waiting: dict[asyncio.StreamWriter, None] = {}

    def open(self, address: tuple[str, int]) -> None:
        """Begin to answer; called in the event loop.

        Raises:
            OSError: nothing can be opened there.
        """
        if (siblings := self._runtime.siblings) is None:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            self._listener = socket.create_server(address, family=family)
            serving = asyncio.start_server(self._serve, sock=self._listener, limit=_LONGEST)
            self._server = asyncio.get_running_loop().create_task(serving, name="hushlist: health")
        else:
            (self._listener, *_) = siblings.bind(*address)
            siblings.serve(self._listener, self._serve, _LONGEST, to_the_end=True)
        logger.info("hushlist: /healthz and /readyz at %s:%d", *self._listener.getsockname()[:2])

    def close(self) -> None:
        if self._server is not None and self._server.done():
            self._server.result().close()
        elif self._listener is not None and self._runtime.siblings is None:  # they close theirs
            self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._waiting[writer] = None
        if len(self._waiting) > MOST_CONNECTIONS:  # who asks nothing keeps out nobody who does
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(PATIENCE):
                writer.write(await self._answer(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # whoever asks in no way, gets no answer
        finally:
            self._waiting.pop(writer, None)
            writer.close()

    async def _answer(self, head: bytes) -> bytes:
        request = _REQUEST_LINE.match(head)
        path = "" if request is None else request[2].partition(b"?")[0].decode()
        if request is None:
            status, body = HTTPStatus.BAD_REQUEST, b'{"error": "expected GET or HEAD"}\n'
        elif path not in HEALTH_PATHS:
            status, body = HTTPStatus.NOT_FOUND, b'{"error": "there are /healthz and /readyz"}\n'
        else:
            health = await health_of(self._runtime, path)
            status, body = health.status, health.body
        lines = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return lines.encode() + (b"" if request is not None and request[1] == b"HEAD" else body)
