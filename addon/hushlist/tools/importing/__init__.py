"""``hushlist import``: the configuration of another filter, as a policy.

In: a file of that filter. Out: an ``ImportedPolicy``, which a folder is made of, and a report of what it leaves out.
Open first: ``imported_policy``. A reader never blocks or allows more than the file does without saying so.
"""
