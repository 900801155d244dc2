"""A mitmproxy script for the tests: parts of the filter raise for requests with a word of theirs in the URL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hushlist.core.decide.engine import Engine
from hushlist.proxy import flow_outcome
from hushlist.proxy.page import block_response


def _failing(module: Any, name: str, word: str, error: type[Exception]) -> None:
    original: Callable[..., Any] = getattr(module, name)

    def fail(*args: Any, **kwargs: Any) -> Any:
        if word in repr((args, kwargs)) or any(word.encode() in getattr(arg, "target", b"") for arg in args):
            raise error("raised by the test")
        return original(*args, **kwargs)

    setattr(module, name, fail)


_failing(Engine, "decide", "explode", RuntimeError)
_failing(Engine, "decide", "exhaust", MemoryError)
_failing(flow_outcome, "annotate", "unnoted", RuntimeError)
_failing(block_response, "block_response", "unpaged", RuntimeError)
