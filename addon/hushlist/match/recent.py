"""What was asked for recently, so that it need not be found again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Recent(dict[_Key, _Value]):
    """A dictionary of bounded size that makes what it lacks, and forgets what was not asked for lately.

    >>> lengths = Recent(len, 4)
    >>> lengths["a"], lengths["abc"], len(lengths)
    (1, 3, 2)

    It has two halves: what is made goes into the younger one; when that is full, the older one is forgotten and the
    younger one becomes the older. What is found in the older one comes again. So everything costs the same at any size,
    and what is there costs a look-up in a dictionary.
    """

    def __init__(self, make: Callable[[_Key], _Value], most: int) -> None:
        """``most``: how many it remembers at most; it remembers half as many for certain."""
        super().__init__()
        self._make = make
        self._half = most // 2
        self._older: dict[_Key, _Value] = {}

    def __missing__(self, key: _Key) -> _Value:
        """Whatever ``make`` raises is raised, and nothing is remembered."""
        value = self._older[key] if key in self._older else self._make(key)
        if len(self) >= self._half:
            self._older = dict(self)
            self.clear()
        self[key] = value
        return value
