"""Safe search: which host or parameter makes a search service leave out what is not for children.

In: a request. Out: the host or the query that it gets instead. Open first: ``safe_search``.
"""

from hushlist.core.extension import Extension

EXTENSION = Extension("safe_search", why_decrypt="hushlist.extensions.safe_search.safe_search:why_decrypt")
