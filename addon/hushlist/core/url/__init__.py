"""URLs: from raw octets to parts, and from parts to canonical forms.

In: the octets of a URL, or of a request's head. Out: ``Parts``, every canonical URL that a request may mean, and how
two URLs compare. Open first: ``request`` for the URLs that the filter decides, ``iri`` for the ladder of comparison.
"""
