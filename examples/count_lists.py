"""Counts by which lists requests were, or would be, blocked, and says so at the end.

    mitmdump -n -r recorded.flow -s examples/count_lists.py
    mitmdump -s examples/count_lists.py --set hushlist_mode=tag

It needs Hushlist to be installed, and shows how any script of yours can use the addon and what it leaves on a flow.
"""

import logging
from collections import Counter

from mitmproxy import http

from hushlist.proxy.addon import Hushlist


class CountLists:
    """Reads the decision that Hushlist has noted on each flow."""

    def __init__(self) -> None:
        self._lists: Counter[str] = Counter()

    def request(self, flow: http.HTTPFlow) -> None:
        """mitmproxy's hook."""
        decision = flow.metadata.get("hushlist", {})
        if decision.get("action") == "block":
            self._lists.update({match["title"] or match["list"] for match in decision["matches"]})

    def done(self) -> None:
        """mitmproxy's hook: the session ends."""
        for name, count in self._lists.most_common():
            logging.info("%5d  %s", count, name)


addons = [Hushlist(), CountLists()]
