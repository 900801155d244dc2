"""What is wrong with an installation, before a user finds out: policy, lists, files, the running proxy, the router.

In: a policy file, and where the proxy listens. Out: a ``Diagnosis`` for each thing that was looked at, with what to do.
It only looks: nothing is changed, and nothing is asked but the proxy itself, and servers that are named for it. Open
first: ``diagnosis``.
"""
