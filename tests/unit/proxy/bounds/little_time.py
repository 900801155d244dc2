"""Whether a step takes little time, however busy the machine is."""

import struct
from collections.abc import Callable
from contextlib import suppress
from time import process_time

from h11 import ProtocolError
from mitmproxy.addons import next_layer

from hushlist.proxy.bounds.bounded_input import bound_input


def takes_little_time(step: Callable[[], object]) -> bool:
    """Whether it does once in ten times: processor time grows, too, where others share the processor."""

    def seconds() -> float:
        start = process_time()
        with suppress(ValueError, struct.error, ProtocolError, next_layer.NeedsMoreData):
            step()
        return process_time() - start

    bound_input()
    return any(seconds() < 0.3 for _ in range(10))
