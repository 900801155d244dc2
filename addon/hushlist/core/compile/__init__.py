"""Compiling: from a policy and its lists to an index file in the cache.

In: a policy's path. Out: ``Compiled``: the policy, its index, and a report on every list. Open first:
``policy_compiler``; ``background_compiler`` runs it beside a proxy. ``list_update`` fetches the lists that have a URL.
"""
