"""Decisions: what the filter does with a request, and why.

In: a request, a client and a moment. Out: a ``Decision``, or a ``Trace`` of every step to it. Open first: ``engine``.
"""
