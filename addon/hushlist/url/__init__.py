"""URLs: parse once, then canonicalize by a profile (a named tuple of steps).

``parts`` splits and joins, ``percent``, ``host`` and ``path`` hold the pure functions, ``profile`` strings steps
together, and ``safebrowsing`` and ``hashed`` are the profiles themselves. Everything is bytes in here.
"""
