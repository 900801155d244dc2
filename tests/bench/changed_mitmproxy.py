"""For ``mitmdump -s``: mitmproxy as the filter changes it, and no filter. What the filter itself costs is beside this.

It has the filter's bounds, its way to the hooks, its reads and its rest for the collector; nothing is decided.
"""

import gc
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "addon"))

from mitmproxy.addonmanager import Loader

from hushlist.proxy.bounds.bounded_input import bound_input, not_taken
from hushlist.proxy.hook_calls import ask_the_filter


class Changed:
    """Stands where the filter would be asked, and has no hook of a request."""

    def load(self, loader: Loader) -> None:
        """Change mitmproxy."""
        bound_input()
        ask_the_filter(loader.master.addons, self)
        if missing := not_taken():
            raise RuntimeError(f"this mitmproxy is another one: {missing}")

    def running(self) -> None:
        """Leave what is there by now alone, as the filter does."""
        gc.collect()
        gc.freeze()


addons = [Changed()]
