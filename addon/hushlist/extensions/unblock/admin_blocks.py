"""Blocks that administrators make beside the rules: of a host, a page or a category, for a client, a group or all.

>>> block = AdminBlock(1, "url", "games.example/play", "group:kids", 1800.0, None, "anna", 0.0)
>>> blocks = BlockTable([block])
>>> blocks.find(["group:kids"], b"www.games.example", b"http://www.games.example/play/1?x", [], now=60.0) == [block]
True
>>> blocks.find(["group:kids"], b"www.games.example", b"http://www.games.example/player", [], now=60.0)
[]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hushlist.core.url.host import is_address, names_above
from hushlist.core.url.hrn import category_levels
from hushlist.extensions.unblock import EVERYTHING


@dataclass(frozen=True, slots=True)
class AdminBlock:
    """A block. Times are seconds since the epoch."""

    #: never used again
    id: int
    #: ``host``: a canonical host and all below it; ``url``: an expression, a page and all below it; ``category``: an
    #: `hrn:` name and what is subordinate to it; ``everything``: whatever is asked for, with the target ``*``
    scope: str
    #: ASCII
    target: str
    #: an address, or a name such as ``user:jo`` or ``group:kids``; ``None`` for everybody
    client: str | None
    #: when it ends; ``None``: it is for good
    until: float | None
    #: as the block page shows it
    reason: str | None
    #: who made it
    by: str
    made: float


class BlockTable:
    """Blocks in a form that quickly finds the one that stops a request; immutable. False if there are none."""

    def __init__(self, blocks: Iterable[AdminBlock]) -> None:
        self.blocks = tuple(blocks)
        #: host -> blocks of it, and of its pages
        self._hosts: dict[bytes, list[AdminBlock]] = {}
        self._categories: dict[bytes, list[AdminBlock]] = {}
        self._everything = [block for block in self.blocks if block.scope == EVERYTHING]
        for block in self.blocks:
            if block.scope == EVERYTHING:
                continue
            table = self._categories if block.scope == "category" else self._hosts
            key = block.target if block.scope == "category" else block.target.partition("/")[0]
            table.setdefault(key.encode("ascii", "replace"), []).append(block)
        #: the categories that are blocked for somebody
        self.categories = frozenset(key.decode("ascii") for key in self._categories)
        # a client may send a host with hundreds of labels
        self._deepest = max((host.count(b".") + 1 for host in self._hosts), default=0)

    def __bool__(self) -> bool:
        return bool(self.blocks)

    def find(
        self, clients: Iterable[str], host: bytes, url: bytes, categories: Iterable[str], now: float
    ) -> list[AdminBlock]:
        """The blocks of a request, the newest first.

        ``host`` and ``url`` are canonical; ``categories`` are those that it counts for.
        """
        names = {None, *clients}
        fitting = {
            block
            for block in self._fitting(host, url, categories)
            if block.client in names and (block.until is None or block.until > now)
        }
        return sorted(fitting, key=lambda block: (block.made, block.id), reverse=True)

    def _fitting(self, host: bytes, url: bytes, categories: Iterable[str]) -> Iterator[AdminBlock]:
        yield from self._everything
        for block in self._on(host):
            if block.scope == "host" or _is_below(url, block.target.partition("/")[2]):
                yield block
        if self._categories:
            for category in categories:
                for level in category_levels(category):
                    yield from self._categories.get(level, ())

    def _on(self, host: bytes) -> Iterator[AdminBlock]:
        if not self._hosts:
            return
        for name in names_above(host, 0 if is_address(host) else self._deepest):
            yield from self._hosts.get(name, ())

    def touches(self, host: bytes, categories: Iterable[str]) -> bool:
        """Whether a block, for whomever, may stop a request for a host of some categories."""
        if self._everything:
            return True
        levels = (level for category in categories for level in category_levels(category))
        return any(True for _ in self._on(host)) or not self._categories.keys().isdisjoint(levels)

    def has_pages(self, host: bytes) -> bool:
        """Whether a page of a host is blocked, so that its name alone does not tell."""
        return any(block.scope == "url" for block in self._on(host))


NO_BLOCKS = BlockTable(())


def _is_below(url: bytes, page: str) -> bool:
    """Whether a canonical URL is that of a page, by its path and maybe query, or below it."""
    target = b"/" + url.partition(b"://")[2].partition(b"/")[2]
    path = b"/" + page.rstrip("/").encode("ascii", "replace")
    if b"?" in path:
        return target == path or target.startswith(path + b"&")
    return target == path or target.startswith((path.rstrip(b"/") + b"/", path + b"?"))
