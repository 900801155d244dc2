"""A mitmproxy script for the tests: the engine raises for every request that has "explode" in its URL."""

from __future__ import annotations

from typing import Any

from hushlist.core.decide.engine import Engine
from hushlist.core.url.request import Request

_decide = Engine.decide


def decide(self: Engine, request: Request, *args: Any, **kwargs: Any) -> Any:
    if b"explode" in request.target:
        raise RuntimeError("raised by the test")
    return _decide(self, request, *args, **kwargs)


Engine.decide = decide
