"""The parts of extensions in a proxy."""

from __future__ import annotations

from typing import TypeVar

from hushlist.core.extension import built_in
from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime

_Part = TypeVar("_Part", bound=Part)


def part_of(runtime: Runtime, kind: type[_Part]) -> _Part:
    """The part of one class, in use; made as for a policy that needs it, if none has yet."""
    parts = runtime.parts
    if (part := parts.of(kind)) is None:
        extension = next(each for each in built_in() if each.part == f"{kind.__module__}:{kind.__name__}")
        parts._made[extension.name] = part = parts._make(extension)
        parts._use({parts._made[each.name]: True for each in built_in() if each.name in parts._made})
    return part
