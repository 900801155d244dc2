"""A mitmproxy script: what the process's memory consists of, as one line of JSON every few seconds.

``soak.py`` reads it. Whoever asks from outside sees pages; only the process itself knows what of its heap is in use,
how many objects Python has, and which policies it still holds.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import sys
import time
import weakref
from pathlib import Path

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader

_MALLINFO2 = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _Mallinfo2(ctypes.Structure):
    """Of malloc.h; mallinfo2(3)."""

    _fields_ = [(name, ctypes.c_size_t) for name in _MALLINFO2]


class MemoryProbe:
    def __init__(self) -> None:
        self._policies: weakref.WeakSet[object] = weakref.WeakSet()
        self._mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
        if self._mallinfo2 is not None:
            self._mallinfo2.restype = _Mallinfo2

    def load(self, loader: Loader) -> None:
        loader.add_option("probe_file", str, "", "Where the figures go.")
        loader.add_option("probe_seconds", int, 5, "Seconds between two lines.")

    def running(self) -> None:
        self._task = asyncio.create_task(self._watch(Path(ctx.options.probe_file)))

    async def _watch(self, path: Path) -> None:
        with path.open("w", encoding="utf-8", buffering=1) as file:
            while True:
                file.write(json.dumps(self.figures()) + "\n")
                await asyncio.sleep(ctx.options.probe_seconds)

    def figures(self) -> dict[str, float]:
        """The figures of now; octets are of what malloc has, and does not count what Python maps itself."""
        runtime = getattr(ctx.master.addons.get("hushlist"), "runtime", None)
        told: dict[str, float] = {"at": time.time(), "blocks": sys.getallocatedblocks()}
        if runtime is not None:
            if runtime.engine is not None:
                self._policies.add(runtime.engine)
            told |= {"policies": runtime.policies, "held": len(self._policies), "decisions": runtime.statistics.total}
        if self._mallinfo2 is not None:
            own = self._mallinfo2()
            told |= {"heap": own.arena + own.hblkhd, "used": own.uordblks + own.hblkhd}
        return told


addons = [MemoryProbe()]
