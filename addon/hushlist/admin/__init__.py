"""What administrators do: sign in, allow and block, make and end unblocks, run the lists; and the record of it.

In: who acts, and the engine in use. Out: plain data, and what was recorded. The live page and its interface call these
functions, and mitmproxy's commands add rules by them. Open first: ``administration``.
"""
