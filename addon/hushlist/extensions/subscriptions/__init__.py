"""Lists that have a URL: fetched, verified, compared with the version in force by the gate, kept, and rolled back.

In: a list's address. Out: its good copies, and what became of an update. Open first: ``subscription``, then
``list_update``.
"""
