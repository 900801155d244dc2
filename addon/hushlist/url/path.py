"""Paths: dot segments and slashes."""

from __future__ import annotations

import re


def remove_dot_segments(path: bytes) -> bytes:
    """Resolve "." and ".." of a path that begins with a slash, in linear time; ``rfc3986`` has it for any path.

    >>> remove_dot_segments(b"/a/b/c/./../../g"), remove_dot_segments(b"/a/.."), remove_dot_segments(b"/..a/...")
    (b'/a/g', b'/', b'/..a/...')

    Spec: RFC 3986, 5.2.4; Safe Browsing v4, Canonicalization, path, 1
    """
    if b"/." not in path:
        return path
    out: list[bytes] = []
    segments = path[1:].split(b"/")
    for segment in segments:
        if segment == b"..":
            if out:
                out.pop()
        elif segment != b".":
            out.append(segment)
    if segments[-1] in (b".", b".."):
        out.append(b"")
    return b"/" + b"/".join(out)


_SLASHES = re.compile(rb"/{2,}")


def collapse_slashes(path: bytes) -> bytes:
    """Replace runs of slashes with one.

    Spec: Safe Browsing v4, Canonicalization, path, 2
    """
    return _SLASHES.sub(b"/", path) if b"//" in path else path


_PARAMETERS = re.compile(rb";[^/]*")


def remove_parameters(path: bytes) -> bytes:
    """Leave out the parameters of every segment, as servers in Java do before they resolve dot segments.

    >>> remove_parameters(b"/a;b=c/..;/d;e")
    b'/a/../d'

    Spec: Java Servlet 6.0, 3.5.2
    """
    return _PARAMETERS.sub(b"", path)


_PERCENT_U = re.compile(rb"%[uU]([0-9A-Fa-f]{4})")


def unescape_percent_u(path: bytes) -> bytes:
    """Undo the escapes that only IIS knows.

    >>> unescape_percent_u(b"/%u0073ecret")
    b'/secret'
    """
    return _PERCENT_U.sub(lambda match: chr(int(match[1], 16)).encode("utf-8", "surrogatepass"), path)


# An ASCII character in two octets to six. In UTF-8 proper, these octets stand for nothing.
_OVERLONG = re.compile(
    rb"[\xc0\xc1][\x80-\xbf]|\xe0[\x80\x81][\x80-\xbf]|\xf0\x80[\x80\x81][\x80-\xbf]"
    rb"|\xf8\x80\x80[\x80\x81][\x80-\xbf]|\xfc\x80\x80\x80[\x80\x81][\x80-\xbf]"
)


def is_overlong(path: bytes) -> bool:
    """Whether there is a character in it that is written in more octets than it needs."""
    return not path.isascii() and _OVERLONG.search(path) is not None


def shorten_overlong(path: bytes) -> bytes:
    r"""Read ASCII characters that are written in more octets than they need, as decoders did before that was forbidden.

    >>> shorten_overlong(b"/a\xc0\xafb"), shorten_overlong(b"/\xe0\x81\xb3ecret")
    (b'/a/b', b'/secret')

    Spec: RFC 3629, 3 and 10
    """
    # The last octet has six bits of the character, the one before it the seventh.
    return _OVERLONG.sub(lambda found: bytes(((found[0][-2] & 1) << 6 | found[0][-1] & 0x3F,)), path)


def slashes_from_backslashes(path: bytes) -> bytes:
    """Take backslashes for slashes, as some servers do."""
    return path.replace(b"\\", b"/")
