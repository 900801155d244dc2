"""The five specifications as tools: what they say of a URL, and the URLs in a text.

In: text. Out: URLs. Open first: ``uri_extraction``.
"""
