"""The filter as a service: it takes a new policy, says whether it is well, and stops without losing a request.

In: the policy's file and the clock. Out: new state for ``runtime``, ``/healthz`` and ``/readyz``, records for the other
proxies, and the weekly summary. Open first: ``policy_watch``.
"""
