"""``hushlist lint``: finds problems in lists.

In: lists. Out: a ``Finding`` for each line that is wrong. Open first: ``lint_job``.
"""
