"""The parts of extensions in a proxy."""

from __future__ import annotations

from typing import TypeVar

from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime

_Part = TypeVar("_Part", bound=Part)


def part_of(runtime: Runtime, kind: type[_Part]) -> _Part:
    """The part of one class, whose extension is in use."""
    part = runtime.part(kind)
    assert part is not None
    return part
