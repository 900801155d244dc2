"""The five specifications as tools, and what is written from the table of keys.

In: text; the table. Out: URLs, and what the specifications say of one; schemas and tables of the reference. Open first:
``uri_extraction``, then ``written_keys``.
"""
