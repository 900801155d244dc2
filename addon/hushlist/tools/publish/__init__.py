"""Lists made to be published: their rules become hashes.

In: lists of any format. Out: a list of hashes, and a private table of what they stand for. Open first: ``hidden_list``.

``release`` does what ``hushlist publish`` says by a ``release_plan``: all steps until a folder is what others fetch.

The server of ``hushlist serve-lists``: ``list_publisher`` makes versions of a policy's lists, ``list_history`` keeps
them, ``safebrowsing_service`` answers Safe Browsing clients, and ``list_server`` is its HTTP.
"""
