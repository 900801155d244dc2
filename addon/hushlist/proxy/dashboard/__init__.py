"""The live page: current decisions, numbers and metrics; and the page that sets up devices.

In: the runtime. Out: HTML, JSON, Prometheus' text, and the summary at the end. Open first: ``dashboard_server``.
"""
