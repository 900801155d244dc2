"""A mitmproxy script for the tests: the filter's clock stands still, where a request to "clock.test" sets it.

The log goes by the true time all the same, since it sets files aside by it.
The query has the moment, as in "http://clock.test/?at=2026-12-24T22:30%2B01:00"; the answer is 204.
"""

from __future__ import annotations

from datetime import datetime, tzinfo

from mitmproxy import ctx, http

from hushlist.decide import engine

_moment = datetime.now().astimezone()


class Clock(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return _moment.astimezone(tz)


def time() -> float:
    return _moment.timestamp()


def running() -> None:
    engine.datetime, engine.time = Clock, time
    runtime = ctx.master.addons.get("hushlist").runtime
    runtime.overrides._clock = runtime.clock = time


def requestheaders(flow: http.HTTPFlow) -> None:
    global _moment
    if flow.request.host == "clock.test":
        _moment = datetime.fromisoformat(flow.request.query["at"])
        flow.response = http.Response.make(204)
