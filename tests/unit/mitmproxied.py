"""The addon in mitmproxy's own test context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mitmproxy.test import taddons

from hushlist.proxy.addon import Hushlist


def add_proxy_options(context: taddons.context) -> None:
    """Add the options of mitmproxy's own proxy server that the addon needs; the server is not part of the context."""
    context.options.add_option("connection_strategy", str, "eager", "")
    context.options.add_option("rawtcp", bool, True, "")
    context.options.add_option("validate_inbound_headers", bool, False, "")


@contextmanager
def mitmproxied(hushlist: Hushlist, policy: Path | None = None) -> Iterator[taddons.context]:
    """A context with the addon, by a policy if one is given, until the block ends."""
    with taddons.context() as context:
        add_proxy_options(context)
        context.options.add_option("stream_large_bodies", str | None, None, "")
        context.master.addons.add(hushlist)
        if policy is not None:
            context.configure(hushlist, hushlist_policy=str(policy), hushlist_mode="block")
        yield context
        hushlist.done()
        context.master.event_loop.close()
