"""Lists: one reader for each format.

In: the octets of a list in one of a dozen formats. Out: rules that know their file and line, and a report of all
problems. Open first: ``list_formats``, which names the readers; ``list_source`` has the code that they share.
"""
