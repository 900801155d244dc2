"""Has the filter wait for a server of Safe Browsing for as long as a test takes on a busy machine."""

from mitmproxy.addonmanager import Loader

from hushlist.extensions.safe_browsing import confirmations, prefix_service
from hushlist.proxy import runtime


def load(loader: Loader) -> None:
    """mitmproxy's hook: only in a proxy, since whoever looks for doctests imports this, too."""
    prefix_service.PATIENCE = confirmations.PATIENCE = runtime.LONGEST_WAIT = 60.0
