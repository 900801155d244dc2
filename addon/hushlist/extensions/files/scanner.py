"""Asks a scanner whether a file is infected: clamd, or any service of ICAP.

Each question has a connection of its own, beside the event loop's other work, and bounds: how long it takes, how much
is sent, and how many there are at once. Whatever else a scanner does, the policy's ``on-failure`` says what that means.

Source: clamd(8), INSTREAM. Spec: RFC 3507
"""

from __future__ import annotations

import asyncio
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.policy.key_types import Reading, any_text, choice, converted, mapping, number, read_rows
from hushlist.core.policy.keys import Key, Type
from hushlist.extensions.files.file_rules import read_size
from hushlist.proxy.local_sockets import open_local

#: octets that are sent at once, of a preview if the service states none, and of a scanner's answer
_PIECE, _PREVIEW, _LONGEST_ANSWER = 1 << 16, 1 << 12, 1 << 16
_MOST_SCANNED = 1 << 28
#: what scanners name what they have found in
_INFECTED = re.compile(rb"stream: ([^\0\n]{1,200}) FOUND")
_THREAT = re.compile(r"Threat\s*=\s*([^;]{1,200})", re.IGNORECASE)
_STATUS = re.compile(rb"ICAP/1\.[0-9] ([0-9]{3})(?: [^\r\n]*)?")


class ScanError(Exception):
    """A scanner has not said what a file is; the message says why."""


class Scanned(NamedTuple):
    """A file to be scanned, and what the scanner may want to know of it."""

    octets: bytes
    #: the heads as they are sent, of the request and of the answer; the latter is empty for an upload
    request: bytes = b""
    answer: bytes = b""
    #: the address of the client that waits for it
    client: str = ""


@dataclass(frozen=True, slots=True)
class ScannerSettings:
    """The policy's ``scanner``."""

    address: str = ""
    largest: int = 1 << 25
    #: what becomes of a larger file: ``block`` or ``pass``
    larger: str = "block"
    seconds: int = 60
    at_once: int = 8
    #: what becomes of a file of which the scanner says nothing: ``block`` or ``pass``
    on_failure: str = "block"


def _address(fields: MappingReader, key: str, reading: Reading) -> str | None:
    text: str | None = any_text.read(fields, key, reading)
    try:
        parts = urlsplit(text or "")
        is_socket = parts.scheme == "clamd" and not parts.netloc and len(parts.path) > 1
        is_clamd = parts.scheme == "clamd" and bool(parts.hostname) and parts.path in ("", "/")
        is_icap = parts.scheme == "icap" and bool(parts.hostname) and len(parts.path) > 1
        if parts.port != 0 and "@" not in parts.netloc and (is_socket or is_clamd or is_icap):
            return text
    except ValueError:
        pass
    fields.error(key, "expected clamd://HOST:PORT, clamd:///PATH/OF/SOCKET or icap://HOST:PORT/SERVICE", text or "")
    return None


_WHAT = ("block", "pass")
_KEYS = (
    Key("address", Type(_address, any_text.schema), is_required=True).says("""where it is:
        `clamd://127.0.0.1:3310`, `clamd:///run/clamav/clamd.ctl` or `icap://127.0.0.1:1344/avscan`"""),
    Key("largest", converted(partial(read_size, most=_MOST_SCANNED), "expected a size such as 32m, at most 256m")).says(
        "bytes of the largest file that is scanned: `32m` if nothing is said"
    ),
    Key("larger", choice(_WHAT)).says("what becomes of a larger one: `block` (the default) or `pass`"),
    Key("seconds", number(1, 600)).says(
        "how long a scan may take, its wait for others included: 60 if nothing is said"
    ),
    Key(
        "at-once", number(2, 1000), into="at_once"
    ).says("""how many are scanned at once, at least 2: 8 if nothing is said.
        A client has a quarter of these, but at least one, so that none has all"""),
    Key("on-failure", choice(_WHAT), into="on_failure").says("""what becomes of a file of which the scanner says
        nothing: `block` (the default) or `pass`"""),
)


def _read(fields: MappingReader, reading: Reading) -> ScannerSettings:
    fields.require("address", "scanner")
    return ScannerSettings(**read_rows(_KEYS, fields, reading))


SCANNER = mapping(_KEYS, _read, name="scanner")


class Scanner:
    """One scanner, as one policy has it."""

    def __init__(self, settings: ScannerSettings) -> None:
        self.settings = settings
        #: turns in all, and of each client: who has many files waits for these alone, and keeps nobody else waiting
        self._free = asyncio.Semaphore(settings.at_once)
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        #: octets of a preview, as the service of ICAP wants it, by method
        self._previews: dict[str, int | None] = {}

    async def scan(self, file: Scanned) -> str:
        """The name of what a file is infected with; empty if it is clean.

        Raises:
            ScanError: the scanner has not said it.
        """
        if not self.settings.address:
            raise ScanError("the policy has no scanner")
        ask = self._ask_icap if self.settings.address.startswith("icap:") else _ask_clamd
        turn = self._turns.setdefault(file.client, asyncio.Semaphore(max(1, self.settings.at_once // 4)))
        try:
            async with asyncio.timeout(self.settings.seconds), turn, self._free:
                return await self._connected(file, ask)
        except TimeoutError:
            raise ScanError(f"the scanner has not answered within {self.settings.seconds} seconds") from None
        except (OSError, EOFError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            raise ScanError(f"the scanner cannot be asked: {why}") from None
        except (ValueError, asyncio.LimitOverrunError):
            raise ScanError("the scanner's answer cannot be read") from None

    async def _connected(
        self, file: Scanned, ask: Callable[[StreamReader, StreamWriter, Scanned], Awaitable[str]]
    ) -> str:
        parts = urlsplit(self.settings.address)
        if parts.netloc:
            port = parts.port or (1344 if parts.scheme == "icap" else 3310)
            reader, writer = await asyncio.open_connection(parts.hostname, port, limit=_LONGEST_ANSWER)
        else:
            reader, writer = await open_local(Path(parts.path), _LONGEST_ANSWER)
        try:
            return await ask(reader, writer, file)
        finally:
            writer.transport.abort()

    # -- ICAP --------------------------------------------------------------------------------------------------------

    async def _ask_icap(self, reader: StreamReader, writer: StreamWriter, file: Scanned) -> str:
        method = "RESPMOD" if file.answer else "REQMOD"
        if method not in self._previews:
            self._previews[method] = await self._preview_of(reader, writer, method)
        preview = self._previews[method]
        heads = [("req-hdr", file.request), ("res-hdr", file.answer)] if file.answer else [("req-hdr", file.request)]
        places, at = [], 0
        for name, head in heads:
            places.append(f"{name}={at}")
            at += len(head)
        places.append(f"{'res' if file.answer else 'req'}-body={at}")
        octets = file.octets if preview is None else file.octets[:preview]
        fields = {"Allow": "204", "Encapsulated": ", ".join(places)}
        if preview is not None:
            fields["Preview"] = str(preview)
        writer.write(self._head(method, fields) + b"".join(head for _, head in heads))
        await _send_chunked(writer, octets)
        if preview is not None and len(file.octets) <= preview:
            writer.write(b"0; ieof\r\n\r\n")
            status, reply = await _read_icap_head(reader)
        else:
            writer.write(b"0\r\n\r\n")
            status, reply = await _read_icap_head(reader)
            if status == 100 and preview is not None:
                await _send_chunked(writer, file.octets[preview:])
                writer.write(b"0\r\n\r\n")
                status, reply = await _read_icap_head(reader)
        if threat := _threat(reply):
            return threat
        if status == 204:
            return ""
        if status not in (200, 201):
            raise ScanError(f"the scanner has answered {status}")
        return "" if await _is_sent_back(reader, reply, file) else "something that the scanner takes out"

    async def _preview_of(self, reader: StreamReader, writer: StreamWriter, method: str) -> int | None:
        """The length of a preview that the service wants; ``None``: none."""
        writer.write(self._head("OPTIONS", {"Encapsulated": "null-body=0"}))
        status, reply = await _read_icap_head(reader)
        if status != 200 or method not in reply.get("methods", method).upper():
            raise ScanError(f"the scanner does not take {method}")
        text = reply.get("preview", "")
        return min(int(text), _PIECE) if text.isdecimal() and len(text) < 10 else None

    def _head(self, method: str, fields: Mapping[str, str]) -> bytes:
        address = self.settings.address
        lines = [f"{method} {address} ICAP/1.0", f"Host: {urlsplit(address).netloc}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


async def _send_chunked(writer: StreamWriter, octets: bytes) -> None:
    for at in range(0, len(octets), _PIECE):
        piece = octets[at : at + _PIECE]
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()


async def _read_icap_head(reader: StreamReader) -> tuple[int, dict[str, str]]:
    """Status and fields, with names in lower case; raises ``ValueError``."""
    lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    status_line = _STATUS.fullmatch(lines[0])
    if status_line is None:
        raise ValueError
    pairs = (line.decode("latin-1").partition(":") for line in lines[1:] if line)
    return int(status_line[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


def _threat(fields: Mapping[str, str]) -> str:
    """What a service says that it has found, whatever its status is; empty: nothing."""
    if (said := fields.get("x-infection-found")) is not None:
        threat = _THREAT.search(said)
        return threat[1].strip() if threat else "an infection"
    return fields.get("x-virus-id", "")[:200]


async def _is_sent_back(reader: StreamReader, fields: Mapping[str, str], file: Scanned) -> bool:
    """Whether a service sends back what it was sent: the file, no octet less or more, by a head that says no other.

    A service may add fields to a head, as each proxy does; a blocked download has another status, a blocked upload has
    an answer.
    """
    kind, head = ("res", file.answer) if file.answer else ("req", file.request)
    parts = [part.strip().partition("=")[::2] for part in fields.get("encapsulated", "").split(",")]
    places = {name: int(place) for name, place in parts if place}
    body = places.get(f"{kind}-body")
    if body is None or not 0 <= body <= _LONGEST_ANSWER:
        return False
    heads = await reader.readexactly(body)
    at = places.get(f"{kind}-hdr")
    if at is not None and _essence(heads[at:], kind) != _essence(head, kind):
        return False
    received = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        if not 0 < size <= len(file.octets) - len(received):
            return False
        received += await reader.readexactly(size)
        await reader.readexactly(2)
    return bytes(received) == file.octets


def _essence(head: bytes, kind: str) -> list[bytes]:
    """Status of an answer; method and target of a request."""
    words = head.partition(b"\r\n")[0].split(b" ")
    return words[1:2] if kind == "res" else words[:2]


# -- clamd -----------------------------------------------------------------------------------------------------------


async def _ask_clamd(reader: StreamReader, writer: StreamWriter, file: Scanned) -> str:
    writer.write(b"zINSTREAM\0")
    for at in range(0, len(file.octets), _PIECE):
        piece = file.octets[at : at + _PIECE]
        writer.write(len(piece).to_bytes(4, "big") + piece)
        await writer.drain()
    writer.write(bytes(4))
    said = (await reader.readuntil(b"\0")).strip(b"\0\n ")
    if said == b"stream: OK":
        return ""
    if (threat := _INFECTED.fullmatch(said)) is not None:
        return threat[1].decode("utf-8", "replace")
    raise ScanError(f"the scanner says: {said[:100].decode('utf-8', 'replace')}")
