"""Temporary unblocks: who may pass a block, with which code or passphrase, and until when.

In: a grant, a code or a passphrase. Out: the ``Grant`` that covers a request. One SQLite file, shared
by the proxies and the command line, keeps all data. Open first: ``overrides``.
"""
