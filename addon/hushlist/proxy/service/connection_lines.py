"""Whether mitmproxy's messages about each connection, nearly all it says, are written, and name the client.

With the option ``hushlist_quiet``, what is no warning is left out. Where the policy's log does not keep clients, it is
left out in any case, and warnings do not name the client: else the messages would say what the log must not.
"""

from __future__ import annotations

import logging

from mitmproxy import ctx
from mitmproxy.proxy import server

from hushlist.proxy.runtime import Runtime


class ConnectionLines(logging.Filter):
    """Filters mitmproxy's messages about connections by what the policy in use says."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self._runtime = runtime

    def begin(self) -> None:
        server.logger.addFilter(self)

    def end(self) -> None:
        server.logger.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        if self._runtime.names_clients:
            return record.levelno != logging.INFO or not ctx.options.hushlist_quiet
        record.client = None
        return record.levelno > logging.INFO
