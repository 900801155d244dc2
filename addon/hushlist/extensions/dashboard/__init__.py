"""The live page, what administrators do by it, the metrics, and the page that sets up devices.

In: the runtime; who acts. Out: HTML, JSON, Prometheus' text; what was done, with its number in the record. Open first:
``dashboard_server``, then ``administration``.
"""

from hushlist.core.extension import Extension

EXTENSION = Extension("dashboard", part=f"{__name__}.dashboard_server:DashboardServer")
