"""Lists made to be published: their rules become hashes.

In: lists of any format. Out: a list of hashes, and a private table of what they stand for. Open first: ``hidden_list``.
"""
