"""What was asked for recently, so that it need not be found again."""

from __future__ import annotations

from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Recent(Generic[_Key, _Value]):
    """A dictionary of bounded size that forgets what was not asked for lately; everything costs the same at any size.

    It has two halves: what comes goes into the younger one; when that is full, the older one is forgotten and the
    younger one becomes the older. What is found in the older one comes again.
    """

    __slots__ = ("_half", "_older", "_younger")

    def __init__(self, most: int) -> None:
        """``most``: how many it remembers at most; it remembers half as many for certain."""
        self._half = most // 2
        self._younger: dict[_Key, _Value] = {}
        self._older: dict[_Key, _Value] = {}

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def get(self, key: _Key) -> _Value | None:
        """The value, or ``None``."""
        value = self._younger.get(key)
        if value is None:
            value = self._older.pop(key, None)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: _Key, value: _Value) -> None:
        """Remember a value; ``None`` is none."""
        if len(self._younger) >= self._half:
            self._older, self._younger = self._younger, {}
        self._younger[key] = value
