"""Network filters, as Adblock lists have them: read, put in tables by their words, and found again.

In: a filter's text; a request's URL. Out: a ``NetworkFilter``, and the filters that fit. Open first:
``network_filter``, then ``filter_index``.
"""
