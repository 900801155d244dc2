"""Recorded browsing: one reader for each format.

In: a file of recorded requests. Out: a ``RecordedRequest`` for each, or the error. Open first:
``source_formats``.
"""
