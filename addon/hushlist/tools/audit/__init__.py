"""Audits: test lists against recorded browsing, against each other, and alone.

``sources`` reads recorded browsing, ``replay`` decides it and reports (``hushlist audit``), ``diff`` compares two
states of lists, ``lint`` looks for mistakes in lists, ``leak`` tries how well hashes hide a list.

In: recorded requests, and lists. Out: typed reports. Open first: the ``__init__`` of the room in it.
"""
