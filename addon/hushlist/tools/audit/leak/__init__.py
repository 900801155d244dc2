"""``hushlist leak``: how much of a list of hashes a dictionary recovers.

In: a list of hashes, and dictionaries. Out: a ``Leak``: what was recovered, and the verdict. Open first: ``leak_job``.
"""
