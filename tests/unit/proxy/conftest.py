"""mitmproxy's test helpers load every addon of mitmproxy, and with these libraries that warn of themselves."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import mitmproxy.test.taddons  # noqa: F401
