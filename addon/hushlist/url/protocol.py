"""The rung *protocol*: what permanent redirects tell about two URLs that nothing else shows to be one resource.

>>> known = redirected_profile([("http://h.example/data", "http://h.example/data/")])
>>> known.canonicalize("http://h.example/data") == known.canonicalize("http://H.example:80/data/")
True

"If they observe that an IRI such as http://example.com/data redirects to an IRI differing only in the trailing slash
http://example.com/data/ they will likely regard the two as equivalent in the future." What differs in anything that a
lower rung makes equal as well, such as an escape or a default port, tells the same; nothing is learned across hosts.

Spec: RFC 3986, 6.2.4; draft-ietf-iri-comparison-00, 4.4
"""

from __future__ import annotations

from collections.abc import Iterable

from hushlist.url.iri import SCHEME
from hushlist.url.parts import Parts
from hushlist.url.profile import Profile
from hushlist.url.rfc3986 import resolve

#: 301 Moved Permanently, 308 Permanent Redirect; the others may be taken back
PERMANENT = (301, 308)


def slash_twin(path: bytes) -> bytes | None:
    """The path with its trailing slash added or removed; the root has no twin.

    >>> slash_twin(b"/data"), slash_twin(b"/data/"), slash_twin(b"/")
    (b'/data/', b'/data', None)
    """
    if path == b"/" or not path:
        return None
    return path[:-1] if path.endswith(b"/") else path + b"/"


def is_slash_redirect(source: bytes | str, location: bytes | str) -> bool:
    """Whether a redirect changes nothing but a trailing slash; ``location`` may be relative.

    >>> is_slash_redirect("http://h.example/data?x", "/data/?x"), is_slash_redirect("http://h.example/a", "/b/")
    (True, False)

    Raises:
        UrlError: the source is not absolute.
    """
    start, target = (SCHEME.apply(SCHEME.parse(url)) for url in (source, resolve(location, source)))
    path = slash_twin(start.path)
    return path is not None and start._replace(path=path, fragment=None) == target._replace(fragment=None)


def redirected_profile(redirects: Iterable[tuple[bytes | str, bytes | str]]) -> Profile:
    """The rung above ``scheme``, for redirects ``(source, location)`` that were seen; others than slashes are ignored.

    Raises:
        UrlError: a source is not absolute.
    """
    known = frozenset(
        _resource(SCHEME.apply(SCHEME.parse(source)))
        for source, location in redirects
        if is_slash_redirect(source, location)
    )

    def follow_permanent_redirects(parts: Parts) -> Parts:
        resource = _resource(parts)
        return parts._replace(path=resource.path) if resource in known else parts

    return Profile("protocol", SCHEME.prepare, SCHEME.split, (*SCHEME.steps, follow_permanent_redirects))


def _resource(parts: Parts) -> Parts:
    """What a redirect is about: the origin and the path, without its trailing slash."""
    path = parts.path[:-1] if parts.path.endswith(b"/") else parts.path
    return parts._replace(path=path, query=None, fragment=None)
