"""What decides: URLs, rules, lists, the policy, and decisions; it knows neither mitmproxy nor a network nor a database.

In: a policy file and its lists; a request, a client, a moment. Out: a ``Decision``, and its trace. Open first:
``decide/engine``.
"""
