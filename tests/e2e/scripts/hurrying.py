"""A mitmproxy script for the tests: the filter looks every moment which lists are due."""

from __future__ import annotations

from hushlist.proxy.service import policy_watch


def load(_: object) -> None:
    policy_watch.DUE_INTERVAL, policy_watch.RETRY = 0.2, 0.5
