"""Reads requests from mitmproxy's flows, and writes decisions and answers onto them.

In: a flow. Out: a ``Request``, a response or a closed connection, and metadata. Open first: ``flow_request``.
"""
