"""A mitmproxy script for the tests: in transparent mode, each connection was meant for what the option says.

This takes the place of the system's own way to tell where a connection was going, which needs a redirection by root.
"""

from __future__ import annotations

from typing import Any

from mitmproxy import ctx, platform
from mitmproxy.addonmanager import Loader


def load(loader: Loader) -> None:
    loader.add_option("original_host", str, "198.51.100.7", "The address that clients connect to.")
    loader.add_option("original_port", int, 443, "And its port.")
    platform.original_addr = original_address


def original_address(_: Any) -> tuple[str, int]:
    return ctx.options.original_host, ctx.options.original_port
