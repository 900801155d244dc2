"""Audits: test lists against recorded browsing, against each other, and alone.

``sources`` reads recorded browsing, ``replay`` decides it and reports (``hushlist audit``), ``diff_job`` compares two
states of lists, ``lint_job`` looks for mistakes in lists, ``leak_job`` tries how well hashes hide a list.

In: recorded requests, and lists. Out: typed reports. Open first: the job of the command.
"""
