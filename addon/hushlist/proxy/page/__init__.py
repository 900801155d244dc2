"""The answers to stopped requests: the block page, the warning, or content of the expected type.

In: an ``Explanation``. Out: a response. Open first: ``block_response``.
"""
