"""The mitmproxy addon: the only package that imports mitmproxy.

``addon`` holds hooks and options, ``wire`` reads a request off a flow, ``answer`` makes what a blocked client gets,
``notes`` writes a decision on a flow, ``reload`` watches the files that a policy came from.
"""
