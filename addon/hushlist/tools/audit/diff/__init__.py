"""``hushlist diff``: what an update of lists or of a policy changes.

In: two states of lists. Out: each changed rule, and the impact on recorded requests. Open first: ``diff_job``.
"""
