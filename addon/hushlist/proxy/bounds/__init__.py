"""Bounds of what mitmproxy, and what it reads protocols by, keep of a peer's input; and ends of what it sends.

In: nothing; ``bound_input`` puts bounded readers in the place of mitmproxy's own, once for a process. Out: an error of
the protocol where a peer sends too much. Open first: ``bounded_input``, then the module of a protocol.
"""
