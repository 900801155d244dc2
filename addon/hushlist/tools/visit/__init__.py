"""Visits: a browser opens pages with a list and without, from one recording, and says what the list broke.

In: addresses, lists, and perhaps a policy. Out: for each page what the list changed, whether that breaks the page, and
which rules do. Open first: ``visitor``.
"""
