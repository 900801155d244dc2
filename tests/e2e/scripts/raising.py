"""A mitmproxy script for the tests: the engine raises for every request that has "explode" in its URL."""

from __future__ import annotations

from typing import Any

from hushlist.core.decide.engine import Engine

_decide = Engine.decide


def decide(self: Engine, *args: Any, **kwargs: Any) -> Any:
    if "explode" in repr((args, kwargs)):
        raise RuntimeError("raised by the test")
    return _decide(self, *args, **kwargs)


Engine.decide = decide
