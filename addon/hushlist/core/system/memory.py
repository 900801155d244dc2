"""Memory: dictionaries of bounded size; how much this process uses, if the platform says, and what it can give back."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from mmap import PAGESIZE
from pathlib import Path
from typing import TypeVar

from hushlist.core.system.platform import peak_octets

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class BoundedCache(dict[_Key, _Value]):
    """A dictionary of bounded size that computes missing values, and drops those not used recently.

    >>> lengths = BoundedCache(len, 4)
    >>> lengths["a"], lengths["abc"], len(lengths)
    (1, 3, 2)

    It has two halves. New values go into the younger half. When that is full, it replaces the older half. A value that
    is found in the older half moves to the younger. So a hit in the younger half costs one dictionary look-up. Several
    threads may use it: a page for administrators asks the engine beside the event loop.
    """

    def __init__(self, make: Callable[[_Key], _Value], most: int) -> None:
        """``most``: the most values it keeps; it always keeps the last half as many."""
        super().__init__()
        self._make = make
        self._half = most // 2
        self._older: dict[_Key, _Value] = {}

    def __missing__(self, key: _Key) -> _Value:
        """Errors of ``make`` pass through, and nothing is stored."""
        older = self._older  # another thread may replace it
        value = older[key] if key in older else self._make(key)
        if len(self) >= self._half:
            self._older = dict(self)
            self.clear()
        self[key] = value
        return value


class LatestEntries(OrderedDict[_Key, _Value]):
    """A dictionary of bounded size that keeps the entries that were set last."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: _Key, value: _Value) -> None:
        self.pop(key, None)  # so that it is the last; another thread may take one out at any time
        super().__setitem__(key, value)
        if len(self) > self._most:
            self.popitem(last=False)


STATM = Path("/proc/self/statm")


def resident_octets() -> int | None:
    """Octets of this process that are in memory now, or at the peak if only that is known; else ``None``.

    Spec: proc_pid_statm(5): "size resident shared text lib data dt", in pages
    """
    with suppress(OSError, ValueError, LookupError, AttributeError):
        return int(STATM.read_bytes().split()[1]) * PAGESIZE
    return peak_octets()


def give_back() -> None:
    """Give memory that is free within the heap back to the system, where the C library can, as that of GNU.

    By itself, it gives back only what is free at the heap's end, and one small block there keeps all before it.

    Spec: malloc_trim(3)
    """
    if sys.platform == "linux":
        import ctypes

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
