"""What a client opens before and beside its requests: connections, tunnels, TLS, and questions of DNS.

In: mitmproxy's layers and hooks below a request. Out: a connection that is read, passed on or refused. Open first:
``tunnels``.
"""
