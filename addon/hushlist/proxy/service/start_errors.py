"""Which errors end the program at its start.

mitmproxy ends with exit code 1 if anything has logged an ERROR before its start is over. Of the filter's errors, only
those count that are reasons not to serve: the policy, a port, an option. A log that cannot be written, a store or a
database that is away, or a list that cannot be fetched is none: it is logged, and tried again while requests are
decided.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from mitmproxy.addonmanager import AddonManager

from hushlist.proxy.object_patches import filter_log_of

#: the ``extra`` of a message that is a reason not to start
ENDS_THE_START: Mapping[str, object] = {"ends_the_start": True}
#: loggers of the filter, and of the library by which it asks a database
_OURS = ("hushlist", "psycopg")


def count_reasons_alone(addons: AddonManager) -> None:
    """Have mitmproxy's check at the start leave out the filter's other errors."""
    check = addons.get("errorcheck")
    if check is not None:
        filter_log_of(check, "logger", _ends_the_start)


def is_checked(addons: AddonManager) -> bool:
    """Whether the start is not over, so that an error ends the program."""
    check = addons.get("errorcheck")
    return check is not None and check.logger in logging.root.handlers


def _ends_the_start(record: logging.LogRecord) -> bool:
    return record.name.split(".")[0] not in _OURS or hasattr(record, *ENDS_THE_START)
