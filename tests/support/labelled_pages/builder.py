"""One page under construction: its parts, what it loads, and the rules that stop some of that."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

_WORDS = (
    "river garden window silver morning market teacher bridge valley winter engine letter harbour kitchen forest doctor "
    "island journey meadow orchard pepper candle violin marble lantern saddle copper thunder basket village mountain "
    "station library museum theatre council student captain painter farmer baker weaver singer pilot sailor miner clerk "
    "walks opens carries follows mends paints counts measures gathers remembers considers describes explains answers "
    "quiet narrow golden ancient gentle bright heavy distant hollow steady curious patient famous simple careful modern"
).split()


def png(width: int, height: int, color: int) -> bytes:
    """A picture of one color."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = b"\0" + bytes((color * 53 % 200, color * 91 % 200, color * 17 % 200)) * width
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * height)) + chunk(b"IEND", b"")
    )


@cache
def sound() -> bytes:
    """A second of silence, which a video element plays as it plays a film."""
    data = b"\x80" * 8000
    head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    return head + struct.pack("<4sI", b"data", len(data)) + data


@dataclass
class Page:
    """A page, and its parts in their order."""

    number: int
    template: str
    css: str = ""
    head: str = ""
    header: str = ""
    main: str = ""
    aside: str = ""
    footer: str = ""
    end: str = ""
    script: str = ""
    #: the attributes of ``html`` and ``body``
    html: str = ""
    body: str = ""
    #: where its style and its script are, and whether the style is in the page
    style_from: str = ""
    #: what is loaded: address -> media type, octets
    loaded: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)
    wrap: Callable[[Page], str] | None = None

    def __post_init__(self) -> None:
        self.random = random.Random(f"page {self.number}")

    @property
    def host(self) -> str:
        return f"www.{self.template}{self.number}.example"

    @property
    def site(self) -> str:
        return self.host.removeprefix("www.")

    @property
    def address(self) -> str:
        return f"https://{self.host}/{self.template}/"

    def words(self, number: int) -> str:
        return " ".join(self.random.choice(_WORDS) for _ in range(number)).capitalize() + "."

    def paragraphs(self, number: int, words: int = 55) -> str:
        return "".join(f"<p>{self.words(words)}</p>" for _ in range(number))

    def load(self, host: str, path: str, kind: str, content: str | bytes) -> str:
        """Have something at an address; the address."""
        address = f"https://{host}{path}"
        self.loaded[address] = (kind, content.encode() if isinstance(content, str) else content)
        return address

    def js(self, host: str, path: str, content: str) -> str:
        return self.load(host, path, "text/javascript", content)

    def picture(self, host: str = "", width: int = 320, height: int = 200) -> str:
        """An image element."""
        number = len(self.loaded)
        address = self.load(host or self.host, f"/pictures/{number}.png", "image/png", png(width, height, number))
        return f'<img src="{address}" width="{width}" height="{height}" alt="">'

    def stop(self, rule: str) -> None:
        self.rules.append(rule)

    def text(self) -> str:
        """The whole page."""
        style = f"<style>{self.css}</style>" if not self.style_from else self.style_from
        script = ""
        if self.script:
            script = f'<script src="{self.js(self.host, "/site.js", self.script)}"></script>'
        middle = self.wrap(self) if self.wrap else f"<main>{self.main}</main><aside>{self.aside}</aside>"
        return (
            f"<!doctype html><html lang=en {self.html}><head><meta charset=utf-8><title>{self.template} {self.number}</title>"
            f"{style}{self.head}</head><body {self.body}><header>{self.header}</header>{middle}"
            f"<footer>{self.footer}</footer>{script}{self.end}</body></html>"
        )
