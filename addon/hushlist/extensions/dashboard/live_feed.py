"""What the proxy decides, as it happens, and its figures: of one worker, or of all that serve its ports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from time import time
from typing import Any

from hushlist.core.routes import plain
from hushlist.extensions.dashboard.dashboard_data import live_data, name_of, with_decisions
from hushlist.extensions.dashboard.metrics import metrics
from hushlist.extensions.dashboard.shared_figures import (
    added_data,
    added_metrics,
    between,
    ended_in,
    note_end,
    number_at,
)
from hushlist.extensions.journal.journal import privacy_in
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service.siblings import Siblings
from hushlist.proxy.statistics import MOST_RECENT

#: seconds that a request waits for a decision, and seconds in which it then gathers more of them
PATIENCE = 5.0
GATHER = 0.2
#: seconds that it waits for one of a worker's own, before it asks the others for theirs
_SHARED_PATIENCE = 1.0
#: requests that may wait at the same time; others are answered at once
_MOST_WAITING = 16


class LiveFeed:
    """Answers whoever watches; ``aside`` runs what waits for a disk."""

    def __init__(self, runtime: Runtime, aside: Callable[..., Awaitable[Any]]) -> None:
        self._runtime, self._aside, self._siblings = runtime, aside, runtime.siblings

    def running(self) -> None:
        """Let the other workers ask for what this one has counted."""
        if self._siblings is not None:
            self._siblings.answers["metrics"] = self._metrics_here
            self._siblings.answers["data"] = self._json_here

    def close(self) -> None:
        if self._siblings is not None:
            data = plain(live_data(self._runtime, privacy_in(self._runtime))) | {"sample": []}
            with suppress(OSError):  # the disk is full: what was counted is forgotten
                note_end(self._siblings.folder, metrics(self._runtime), data)

    async def data(self, of: str, since: int, most: int = MOST_RECENT) -> dict[str, Any]:
        """What is newer than the last that somebody has, who waits for it if there is nothing yet."""
        statistics = self._runtime.statistics
        if self._siblings is not None:
            return await self._shared_data(self._siblings, of, since, most)
        if of != name_of(statistics):
            since = 0  # the number is of another session
        elif since >= statistics.total and statistics.waiting < _MOST_WAITING:
            await statistics.wait(PATIENCE)
            await asyncio.sleep(GATHER if statistics.total > since else 0)
        privacy = await self._aside(privacy_in, self._runtime)
        data = live_data(self._runtime, privacy)
        noted = statistics.since(since)[-most:] if most else []  # at once: the next answer begins after the last
        spelled: dict[str, Any] = plain(await self._aside(with_decisions, data, self._runtime, noted, privacy))
        return spelled

    async def _shared_data(self, siblings: Siblings, of: str, since: int, most: int) -> dict[str, Any]:
        """What all workers have of that; their decisions are numbered by their time."""
        if of != siblings.folder.name:
            since = 0
        elif self._runtime.statistics.waiting < _MOST_WAITING:
            await self._runtime.statistics.wait(_SHARED_PATIENCE)
            await asyncio.sleep(GATHER)
        last = number_at(time() - GATHER / 2)
        first = since if most else last
        answers = siblings.ask("data", [first, last])
        all_data = [await self._data_here([first, last]), *map(json.loads, await answers)]
        _, ended = await self._aside(ended_in, siblings.folder)
        total = added_data(all_data, ended)
        decisions = total["decisions"][-most:] if most else []
        return {**total, "of": siblings.folder.name, "last": last, "decisions": decisions}

    async def _data_here(self, bounds: Sequence[int]) -> dict[str, Any]:
        """What this worker has of the decisions from a number to another, and a sample of its durations."""
        privacy = await self._aside(privacy_in, self._runtime)
        data, statistics = live_data(self._runtime, privacy), self._runtime.statistics
        first, last = bounds
        noted = between(statistics.since(0), first, last, 0 if self._siblings is None else self._siblings.number)
        whole = await self._aside(with_decisions, data, self._runtime, noted, privacy)
        return {**plain(whole), "sample": statistics.sample()}

    async def _json_here(self, bounds: Sequence[int]) -> bytes:
        return json.dumps(await self._data_here(bounds)).encode()

    async def _metrics_here(self, _: object = None) -> bytes:
        return metrics(self._runtime).encode("utf-8", "replace")

    async def metrics(self) -> bytes:
        """Those of all workers."""
        here = await self._metrics_here()
        if self._siblings is None:
            return here
        others = await self._siblings.ask("metrics")
        ended, _ = await self._aside(ended_in, self._siblings.folder)
        return added_metrics([here.decode(), *map(bytes.decode, others), ended]).encode()
