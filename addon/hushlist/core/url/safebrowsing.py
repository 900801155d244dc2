"""The Safe Browsing profile: the canonical form for rules in the clear and SHA-256 rules.

>>> canonicalize("http://www.GOOgle.com:80/a/../%2531%20?q#frag")
b'http://www.google.com/1%20?q'

Deviation: the URL is split before it is unescaped, and again after. The first split drops user information, so that
``http://good%2F@bad/`` has the same host as in a browser (reading 2).

Deviation: servers may read a path in other ways than the specification; ``path_interpretations`` gives
these (reading 15).

Spec: Safe Browsing v4, URLs and Hashing, Canonicalization
"""

from __future__ import annotations

from hushlist.core.errors import UrlError
from hushlist.core.url import host, normalization
from hushlist.core.url.parts import Parts, Profile, Step, split_web

_SPACES = bytes(range(0x21))


def strip_spaces(url: bytes) -> bytes:
    """Remove white space and control characters around the URL, as a browser does."""
    return url.strip(_SPACES)


def remove_tab_cr_lf(url: bytes) -> bytes:
    """Remove "tab (0x09), CR (0x0d), and LF (0x0a) characters"; "do not remove escape sequences for these"."""
    return url.translate(None, b"\t\r\n")


def split_fragment(url: bytes) -> tuple[bytes, bytes | None]:
    """``(url, fragment)``: "if the URL ends in a fragment, remove the fragment"."""
    url, mark, fragment = url.partition(b"#")
    return url, fragment if mark else None


def remove_fragment(url: bytes) -> bytes:
    """The URL up to its fragment."""
    return split_fragment(url)[0]


def remove_userinfo(parts: Parts) -> Parts:
    """ "The scheme, username, password, and port are discarded"."""
    return parts if parts.userinfo is None else parts._replace(userinfo=None)


_PERCENT = ord("%")  # searching for a number is faster


def unescape_repeatedly(parts: Parts) -> Parts:
    """ "Repeatedly percent-unescape the URL until it has no more percent-escapes"."""
    if _PERCENT not in parts.contents:
        return parts
    # Without a scheme, leave out the port, which is discarded anyway: with it, a host called "http" would be a scheme.
    octets = parts.join() if parts.scheme else parts._replace(port=None).join()[2:]
    return split_web(normalization.percent_decode_repeatedly(octets))


def complete_scheme(parts: Parts) -> Parts:
    """Lower-case the scheme; if there is none, it is http."""
    scheme = (parts.scheme or b"http").lower()
    return parts if scheme == parts.scheme else parts._replace(scheme=scheme)


def remove_port(parts: Parts) -> Parts:
    """ "The scheme, username, password, and port are discarded"."""
    return parts if parts.port is None else parts._replace(port=None)


def canonicalize_host(parts: Parts) -> Parts:
    """A-labels, single dots, the canonical spelling of an address, lower case; ``UrlError`` if nothing is left."""
    assert parts.host is not None
    if host.is_plain_name(parts.host):
        return parts
    name = host.collapse_dots(host.separate_labels(parts.host))
    name = host.collapse_dots(host.to_ascii(name))  # other letters may map to dots, too
    name = host.normalize_address(name).lower()
    if not name:
        raise UrlError(parts.join(), "it names no host")
    return parts if name == parts.host else parts._replace(host=name)


# Nearly every path is already canonical; "find" shows that faster than "in".


def resolve_dot_segments(parts: Parts) -> Parts:
    """ "Resolve the sequences '/../' and '/./' in the path"; "do not apply these to the query parameters"."""
    return parts if parts.path.find(b"/.") < 0 else parts._replace(path=normalization.resolve_dot_segments(parts.path))


def collapse_slashes(parts: Parts) -> Parts:
    """ "Replace runs of consecutive slashes with a single slash character"."""
    return parts if parts.path.find(b"//") < 0 else parts._replace(path=normalization.merge_slashes(parts.path))


def escape(parts: Parts) -> Parts:
    """ "Percent-escape all characters that are <= ASCII 32, >= 127, '#', or '%'"."""
    if normalization.is_safe(parts.contents):
        return parts
    return parts.change(normalization.percent_encode, "host", "path", "query")


#: all steps except those for the path and the escaping at the end
OPEN: tuple[Step, ...] = (
    remove_userinfo,
    unescape_repeatedly,
    complete_scheme,
    remove_userinfo,
    remove_port,
    canonicalize_host,
)

SAFEBROWSING = Profile(
    "safebrowsing",
    steps=(*OPEN, resolve_dot_segments, collapse_slashes, escape),
    split=split_web,
    prepare=(strip_spaces, remove_tab_cr_lf, remove_fragment),
)

parse = SAFEBROWSING.parse
canonicalize = SAFEBROWSING.canonicalize


def is_of_google(server: str) -> bool:
    """Whether Google's terms are about what a server says of a URL."""
    from urllib.parse import urlsplit  # few decisions need it

    return (urlsplit(server).hostname or "").endswith(".googleapis.com")
