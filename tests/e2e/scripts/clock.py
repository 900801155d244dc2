"""A mitmproxy script for the tests: the filter's clock stands still, where a request to "clock.test" sets it.

The log goes by the true time all the same, since it sets files aside by it.
The query has the moment, as in "http://clock.test/?at=2026-12-24T22:30%2B01:00"; the answer is 204. With "?fast=60",
the clock goes on, so many seconds fast. The answer says which process it is of.
"""

from __future__ import annotations

import os
from datetime import datetime, tzinfo
from time import time as true_time

from mitmproxy import ctx, http

from hushlist.core.decide import engine, form_decider, known_hosts
from hushlist.extensions.unblock.unblock_handler import overrides_of

_moment = datetime.now().astimezone()
_fast: float | None = None


class Clock(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.fromtimestamp(time()).astimezone(tz)


def time() -> float:
    return _moment.timestamp() if _fast is None else true_time() + _fast


def running() -> None:
    for module in (engine, form_decider, known_hosts):
        module.datetime, module.time = Clock, time
    runtime = ctx.master.addons.get("hushlist").runtime
    overrides_of(runtime)._clock = runtime.clock = time


def requestheaders(flow: http.HTTPFlow) -> None:
    global _moment, _fast
    if flow.request.host == "clock.test":
        query = flow.request.query
        _fast = float(query["fast"]) if "fast" in query else None
        _moment = datetime.fromisoformat(query["at"]) if "at" in query else _moment
        flow.response = http.Response.make(204, headers={"process": str(os.getpid())})
