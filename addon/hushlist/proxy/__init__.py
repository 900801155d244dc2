"""The mitmproxy addon: the only package that imports mitmproxy.

In: mitmproxy's hooks. Out: a request that passes, is changed, or is answered in the origin's place. Open first:
``addon``, which says which part handles which hook; then ``request_handler``.
"""
